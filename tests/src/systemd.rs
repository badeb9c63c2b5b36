//! A real user manager of systemd, in a mount namespace and a cgroup of its own: what a person has after logging in.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Home, PATIENCE, skip};

/// Where Debian and Fedora have the manager.
const PROGRAM: &str = "/lib/systemd/systemd";

/// Makes the machine look booted with systemd and with cgroups v2 alone, goes into the cgroup `$1`, and becomes the
/// manager.
const ENTER: &str = r#"
set -e
echo $$ > "$1"/cgroup.procs
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system
umount --recursive --lazy /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
shift
exec "$@"
"#;

/// A running user manager.
#[derive(Debug)]
pub struct Manager {
    home: Home,
    process: Child,
    group: PathBuf,
}

impl Manager {
    /// Starts one; `None`, with the reason told, where that can't be done.
    pub fn start() -> Option<Self> {
        let missing = ["unshare", "nsenter", "systemctl"].into_iter().find(|program| !skip::has(program));
        if let Some(program) = missing.or((!Path::new(PROGRAM).exists()).then_some("systemd")) {
            skip(&format!("{program} is not installed"));
            return None;
        }
        let Some(group) = group().filter(|_| skip::is_root()) else {
            skip::skip_anywhere("only root can make a mount namespace, and a cgroup for a user manager");
            return None;
        };
        let home = Home::new();
        fs::create_dir(home.join("xdg")).unwrap();
        let ready = UnixDatagram::bind(home.join("notify")).unwrap();
        ready.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "--", "bash", "-c", ENTER, "enter"]).arg(&group);
        command.args(environment(&home)).arg(format!("NOTIFY_SOCKET={}", home.join("notify").display()));
        command.args([PROGRAM, "--user", "--log-target=console"]);
        let process = command.spawn().unwrap();
        let manager = Self { home, process, group };
        let mut text = [0; 4096];
        loop {
            let length = ready.recv(&mut text).expect("the user manager says that it is ready");
            if text[..length].starts_with(b"READY=1") {
                return Some(manager);
            }
        }
    }

    /// Where the socket unit listens.
    pub fn socket(&self) -> PathBuf {
        self.home.join("xdg/ccagent/default.sock")
    }

    /// Runs a program as the person would, and gives what it printed.
    pub fn run(&self, program: impl AsRef<Path>, arguments: &[&str]) -> String {
        let Output { status, stdout, stderr } = Command::new("nsenter")
            .args(["--mount", "--target", &self.process.id().to_string(), "--"])
            .args(environment(&self.home))
            .arg(program.as_ref())
            .args(arguments)
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim().to_owned();
        assert!(status.success(), "{} {arguments:?}: {}", program.as_ref().display(), text(stderr));
        text(stdout)
    }

    /// The daemon's main process, as the manager knows it.
    pub fn main_pid(&self) -> i32 {
        self.show("MainPID").parse().unwrap()
    }

    /// A property of the service.
    pub fn show(&self, property: &str) -> String {
        self.run("systemctl", &["--user", "show", "--value", "--property", property, "ccagentd.service"])
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        kill_process(Pid::from_child(&self.process), Signal::TERM).ok();
        self.process.wait().ok();
        crate::process::end_marked(self.home.mark());
        remove(&self.group);
    }
}

/// `env` with a clean environment; the path marks every process of the test.
fn environment(home: &Home) -> Vec<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let (mark, xdg) = (home.mark(), home.join("xdg"));
    let values = [
        format!("PATH={path}"),
        format!("HOME={mark}"),
        format!("CCT_HOME={mark}"),
        format!("XDG_RUNTIME_DIR={}", xdg.display()),
    ];
    ["env".to_owned(), "-i".to_owned()].into_iter().chain(values).collect()
}

/// A new cgroup's path below our own.
fn group() -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?.to_owned();
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?.to_owned();
    let group = Path::new(&mount).join(path).join(format!("cct-manager-{}", std::process::id()));
    fs::create_dir(&group).ok().map(|()| group)
}

fn remove(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    fs::remove_dir(group).ok();
}
