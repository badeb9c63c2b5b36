//! One signal to one process that is certainly the right one.

use std::{io, os::fd::OwnedFd};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, getpgrp, getpid, pidfd_open, pidfd_send_signal},
};

use super::{Process, stat};

/// What became of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The process got it.
    Sent,
    /// The process had ended.
    Gone,
    /// Never to such a target: id ≤ 1, ourselves, or a member of our own group.
    Refused,
}

/// Opens a pidfd of this very process, which polls as readable once it has ended; `None` when it is gone.
pub fn open(process: Process) -> io::Result<Option<OwnedFd>> {
    let Some(pid) = Pid::from_raw(process.pid).filter(|_| process.pid > 1) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let fd = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(fd) => fd,
        // No process has this number; or a thread has it, and no thread but its first one is a process: that is NOENT, and
        // INVAL before Linux 6.15. A thread's end could never be waited for here.
        Err(Errno::SRCH | Errno::NOENT | Errno::INVAL) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // Read after the open: if the start time is right now, the descriptor can't mean anybody else.
    let same = stat::read(process.pid)?.is_some_and(|stat| stat.start_time == process.start_time);
    Ok(same.then_some(fd))
}

/// Sends a signal to this very process.
pub fn send(process: Process, signal: Signal) -> io::Result<Delivery> {
    if process.pid <= 1 || process.pid == getpid().as_raw_nonzero().get() {
        return Ok(Delivery::Refused);
    }
    let Some(fd) = open(process)? else {
        return Ok(Delivery::Gone);
    };
    let Some(stat) = stat::read(process.pid)? else {
        return Ok(Delivery::Gone);
    };
    if stat.group == getpgrp().as_raw_nonzero().get() {
        return Ok(Delivery::Refused);
    }
    match pidfd_send_signal(fd, signal) {
        Ok(()) => Ok(Delivery::Sent),
        Err(Errno::SRCH) => Ok(Delivery::Gone),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn own() -> Process {
        stat::read(getpid().as_raw_nonzero().get()).unwrap().unwrap().process()
    }

    /// D57
    #[test]
    fn init_everybody_and_ourselves_are_never_signalled() {
        for pid in [-1, 0, 1] {
            assert_eq!(send(Process { pid, start_time: 0 }, Signal::KILL).unwrap(), Delivery::Refused);
        }
        assert_eq!(send(own(), Signal::KILL).unwrap(), Delivery::Refused);
    }

    /// I5, D57: a number that was a process's and is a thread's now, whosever, means a process that is gone: nobody waits
    /// for its end, and nothing is signalled.
    #[test]
    fn a_thread_with_the_number_of_a_process_is_no_process() {
        let (said, heard) = std::sync::mpsc::channel();
        let (ends, end) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let own = std::fs::read_link("/proc/thread-self").unwrap();
            said.send(own.file_name().unwrap().to_str().unwrap().parse().unwrap()).unwrap();
            end.recv().expect_err("nobody sends");
        });
        let pid = heard.recv().unwrap();
        let thread_stat = stat::read(pid).unwrap().expect("/proc knows threads by their numbers");
        for start_time in [thread_stat.start_time, thread_stat.start_time - 1, 0] {
            let process = Process { pid, start_time };
            assert!(open(process).unwrap().is_none());
            assert_eq!(send(process, Signal::KILL).unwrap(), Delivery::Gone);
        }
        drop(ends);
        thread.join().unwrap();
    }

    /// I5
    #[test]
    fn our_own_group_and_recycled_ids_are_never_signalled() {
        use std::os::unix::process::CommandExt;
        let mut child = Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let process = stat::read(child.id().cast_signed()).unwrap().unwrap().process();
        assert_eq!(send(process, Signal::KILL).unwrap(), Delivery::Refused);
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        assert_eq!(send(process, Signal::KILL).unwrap(), Delivery::Gone);

        let mut other =
            Command::new("cat").stdin(std::process::Stdio::piped()).process_group(0).spawn().unwrap();
        let process = stat::read(other.id().cast_signed()).unwrap().unwrap().process();
        let recycled = Process { start_time: process.start_time + 1, ..process };
        assert_eq!(send(recycled, Signal::KILL).unwrap(), Delivery::Gone);
        assert_eq!(send(process, Signal::KILL).unwrap(), Delivery::Sent);
        assert!(!other.wait().unwrap().success());
    }
}
