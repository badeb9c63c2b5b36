//! Processes of a test: found by the test's own directory in their environment or command line, waited for and ended
//! through descriptors, so that a number that changed hands is never touched.

use std::fs;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A process that was seen alive.
#[derive(Debug)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    fd: OwnedFd,
}

impl Process {
    /// The process with this number; `None` when there is none, or it is a zombie.
    pub fn open(pid: i32) -> Option<Self> {
        let fd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        Some(Self { pid, fd }).filter(Self::is_alive)
    }

    /// The process with the number that a JSON value holds.
    pub fn of(pid: &serde_json::Value) -> Self {
        let pid = pid.as_i64().unwrap_or_else(|| panic!("{pid} is no process id"));
        Self::open(i32::try_from(pid).unwrap()).unwrap_or_else(|| panic!("the process {pid} does not live"))
    }

    /// Whether it has not ended.
    pub fn is_alive(&self) -> bool {
        !self.ends_within(Duration::ZERO)
    }

    /// Waits for its end; says whether it came.
    pub fn ends_within(&self, wait: Duration) -> bool {
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::try_from(wait).unwrap())).unwrap() == 1
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        match pidfd_send_signal(&self.fd, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => panic!("the process {} got no signal: {error}", self.pid),
        }
    }

    /// Its command line, for a person.
    pub fn command(&self) -> String {
        let bytes = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\0', " ")
    }

    /// Its parent's number.
    pub fn parent(&self) -> Option<i32> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
    }
}

/// Every live process, but this one, that has a text in its environment or its command line.
pub fn marked(text: &str) -> Vec<Process> {
    let own = std::process::id().cast_signed();
    let numbers = fs::read_dir("/proc").unwrap().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers
        .filter(|pid| *pid != own)
        .filter_map(|pid| {
            let process = Process::open(pid)?;
            ["environ", "cmdline"].iter().any(|file| holds(pid, file, text)).then_some(process)
        })
        .collect()
}

fn holds(pid: i32, file: &str, text: &str) -> bool {
    let Ok(bytes) = fs::read(format!("/proc/{pid}/{file}")) else { return false };
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Kills every marked process until there is none.
pub fn end_marked(text: &str) {
    for _ in 0..50 {
        let left = marked(text);
        if left.is_empty() {
            return;
        }
        for process in &left {
            process.signal(Signal::KILL);
        }
        for process in &left {
            process.ends_within(Duration::from_secs(5));
        }
    }
    eprintln!("processes marked {text} are left");
}

/// Fails unless every marked process ends by itself.
pub fn assert_none(text: &str) {
    for process in marked(text) {
        assert!(
            process.ends_within(Duration::from_secs(20)),
            "the process {} was left: {}",
            process.pid,
            process.command()
        );
    }
}
