//! Who is at the other end of a socket: the process, whether one of our agents stands above it, and what
//! environment it runs in.
//!
//! A process is taken for an operator only when its line of ancestors could be read to the end and neither a shim of
//! ours nor the daemon itself is in it: what a lost shim leaves behind comes to the daemon as its child. Where the
//! line can't be read, or holds a shim whose agent is not known, the answer is "unknown", and unknown is refused.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ccagent_core::Who;
use ccagent_proto::TaskId;
use ccagent_shim::tree::stat::{self, Stat};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;

/// The variables that make the base of an agent's environment.
pub const BASE: [&str; 7] = ["PATH", "HOME", "LANG", "TERM", "USER", "SHELL", "TMPDIR"];

/// Longer lines of ancestors are not followed.
const MAX_ANCESTORS: usize = 256;
/// More of a process's environment is not read.
const MAX_ENVIRONMENT: u64 = 4 << 20;
/// Of what a process's environment gives to agents no more is kept: every connection has it of its own.
const MAX_BASE: usize = 32 << 10;
/// A process's environment is not waited for any longer.
const ENVIRONMENT_TIME: Duration = Duration::from_secs(1);

/// Environments that are read at once: those of agents, and those of people, whom an agent is not to hold up.
static OF_AGENTS: Semaphore = Semaphore::const_new(8);
static OF_PEOPLE: Semaphore = Semaphore::const_new(8);

/// Which file it is, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    device: u64,
    inode: u64,
}

impl Node {
    /// The file that a path leads to; `None` when there is none.
    pub fn at(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|metadata| Self::of(&metadata))
    }

    /// The file that this was read of.
    pub fn of(metadata: &fs::Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// Tells the task of a live shim by its process id.
pub type TaskOfShim = Arc<dyn Fn(u32) -> Option<TaskId> + Send + Sync>;

/// What is known of shims: whose the live ones are, and which program they run.
#[derive(Clone)]
pub struct Shims {
    task_of: TaskOfShim,
    program: PathBuf,
    node: Option<Node>,
}

impl std::fmt::Debug for Shims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shims").field("program", &self.program).finish_non_exhaustive()
    }
}

impl Shims {
    /// Shims that run this program.
    pub fn new(program: PathBuf, task_of: TaskOfShim) -> Self {
        Self { task_of, node: Node::at(&program), program }
    }

    fn task_of(&self, pid: i32) -> Option<TaskId> {
        u32::try_from(pid).ok().and_then(|pid| (self.task_of)(pid))
    }

    /// Whether a process runs the shims' program, or one that stood in its place before.
    fn is_one(&self, pid: i32) -> bool {
        let exe = PathBuf::from(format!("/proc/{pid}/exe"));
        if self.node.is_some() && Node::at(&exe) == self.node {
            return true;
        }
        // Another user's program can't be read, and is none of ours.
        let Ok(path) = fs::read_link(exe) else { return false };
        let path = path.to_string_lossy();
        Path::new(path.strip_suffix(" (deleted)").unwrap_or(&path)) == self.program
    }
}

/// A process at the other end of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its user.
    pub uid: u32,
    /// Its process id; 0 where the kernel can't tell.
    pub pid: i32,
    /// Its start time in clock ticks since boot, while it lives.
    start_time: Option<u64>,
}

/// What a process gives to the agents that it makes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// The variables of [`BASE`] that it has.
    pub base: Arc<BTreeMap<String, String>>,
    /// Its working directory, where it has one that is UTF-8.
    pub cwd: Option<String>,
}

impl Environment {
    /// The daemon's own, for peers that give none.
    pub fn own() -> Self {
        let base = BASE.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
        let cwd = std::env::current_dir().ok().and_then(|path| path.into_os_string().into_string().ok());
        Self { base: Arc::new(base.collect()), cwd }
    }
}

impl Peer {
    /// The process that connected a socket.
    pub fn of(socket: &UnixStream) -> std::io::Result<Self> {
        let credentials = socket.peer_cred()?;
        // A process outside our namespace has no id here.
        let pid = credentials.pid().unwrap_or(0);
        Ok(Self { uid: credentials.uid(), pid, start_time: start_time(pid) })
    }

    /// A process that can't be found.
    pub(crate) const fn nobody() -> Self {
        Self { uid: u32::MAX, pid: 0, start_time: None }
    }

    /// This process.
    #[cfg(test)]
    pub(crate) fn own() -> Self {
        Self::process(rustix::process::getpid().as_raw_nonzero().get())
    }

    /// A process of our user.
    #[cfg(test)]
    pub(crate) fn process(pid: i32) -> Self {
        Self { uid: rustix::process::getuid().as_raw(), pid, start_time: start_time(pid) }
    }

    /// Whether it runs under our own user.
    pub fn is_ours(&self) -> bool {
        self.uid == rustix::process::getuid().as_raw()
    }

    /// Which agent it belongs to, by its ancestors; `None` when that can't be told.
    pub fn who(&self, shims: &Shims) -> Option<Who> {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let mut process = self.stat()?;
        for _ in 0..MAX_ANCESTORS {
            if let Some(task) = shims.task_of(process.pid) {
                return Some(Who::Agent(task));
            }
            let orphaned = process.pid == own && self.pid != own;
            if orphaned || (shims.is_one(process.pid) && !is_above(process.pid, own)) {
                return None;
            }
            // 0: the kernel's own, or a parent outside our namespace.
            if process.parent <= 0 {
                return Some(Who::Operator);
            }
            process = parent_of(process)?;
        }
        None
    }

    /// Its environment, while it lives and can be read in time. That reads the process's memory, behind which there may
    /// be a file system of its own that never answers: so it is done apart, and few at once.
    pub(crate) async fn environment(self, who: &Who) -> Option<Environment> {
        let at_once = match who {
            Who::Operator => &OF_PEOPLE,
            Who::Agent(_) | Who::Member { .. } => &OF_AGENTS,
        };
        apart(at_once, ENVIRONMENT_TIME, move || self.read_environment()).await.flatten()
    }

    fn read_environment(self) -> Option<Environment> {
        let mut environment = Environment { base: Arc::new(base_of(self.pid)?), cwd: None };
        // What was read is its own only if its number did not change hands meanwhile.
        self.stat()?;
        self.renew(&mut environment);
        Some(environment)
    }

    /// Looks where it is now, while it lives. No memory of the process is read for that.
    pub(crate) fn renew(self, environment: &mut Environment) {
        if let Ok(cwd) = fs::read_link(format!("/proc/{}/cwd", self.pid))
            && self.stat().is_some()
        {
            environment.cwd = cwd.into_os_string().into_string().ok();
        }
    }

    /// The process itself, if its number is still its own.
    fn stat(&self) -> Option<Stat> {
        let stat = stat::read(self.pid).ok()??;
        (Some(stat.start_time) == self.start_time).then_some(stat)
    }
}

/// Whether a process stands above another one. A daemon that an agent of another instance started has a shim above
/// it, and so have its clients there: that shim is none of its own.
fn is_above(pid: i32, below: i32) -> bool {
    let mut process = stat::read(below).ok().flatten();
    for _ in 0..MAX_ANCESTORS {
        process = match process {
            Some(found) if found.parent == pid => return true,
            Some(found) if found.parent > 0 => parent_of(found),
            Some(_) | None => return false,
        };
    }
    false
}

fn start_time(pid: i32) -> Option<u64> {
    (pid > 0).then(|| stat::read(pid).ok()?).flatten().map(|stat| stat.start_time)
}

/// The parent, checked against numbers that changed hands while we looked: a parent is never younger than its
/// child, and a child whose parent ended has another one now.
fn parent_of(child: Stat) -> Option<Stat> {
    let mut child = child;
    for _ in 0..3 {
        if let Ok(Some(parent)) = stat::read(child.parent)
            && parent.start_time <= child.start_time
        {
            return Some(parent);
        }
        let again = stat::read(child.pid).ok()??;
        if again.start_time != child.start_time {
            return None;
        }
        child = again;
        if child.parent <= 0 {
            return Some(child);
        }
    }
    None
}

fn base_of(pid: i32) -> Option<BTreeMap<String, String>> {
    let file = fs::File::open(format!("/proc/{pid}/environ")).ok()?;
    let (mut base, mut room) = (BTreeMap::new(), MAX_BASE);
    for entry in BufReader::new(file.take(MAX_ENVIRONMENT)).split(0) {
        let Ok(entry) = String::from_utf8(entry.ok()?) else { continue };
        if let Some((name, value)) = entry.split_once('=')
            && BASE.contains(&name)
            && let Some(left) = room.checked_sub(entry.len())
        {
            room = left;
            base.insert(name.to_owned(), value.to_owned());
        }
    }
    Some(base)
}

/// What a read gives that may block for ever, or nothing after so long. One that is stuck keeps its place among those
/// that are made at once.
async fn apart<T: Send + 'static>(
    at_once: &'static Semaphore,
    time: Duration,
    read: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let reading = async {
        let place = at_once.acquire().await.ok()?;
        let read = move || {
            let _place = place;
            read()
        };
        tokio::task::spawn_blocking(read).await.ok()
    };
    tokio::time::timeout(time, reading).await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    /// SV-05: the peer of a socket is known by the kernel's word.
    #[tokio::test]
    async fn the_peer_is_known_by_the_kernel() {
        let (socket, _other) = UnixStream::pair().unwrap();
        let peer = Peer::of(&socket).unwrap();
        assert_eq!(peer, Peer::own());
        assert!(peer.is_ours());
    }

    /// SV-05: a process below a shim is that shim's agent, however deep; any other is an operator.
    #[test]
    fn a_process_below_a_shim_is_its_agent() {
        let peer = Peer::own();
        let parent = std::os::unix::process::parent_id();
        let task = TaskId(Uuid::from_u128(1));
        let shims = Shims::new(PathBuf::new(), Arc::new(move |pid| (pid == parent).then_some(task)));
        assert_eq!(peer.who(&shims), Some(Who::Agent(task)));
        assert_eq!(peer.who(&no_shims()), Some(Who::Operator));
    }

    fn no_shims() -> Shims {
        Shims::new(PathBuf::new(), Arc::new(|_| None))
    }

    /// A peer that is a child of this process.
    fn child() -> (std::process::Child, Peer) {
        let child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        (child, Peer { pid, start_time: start_time(pid), ..Peer::own() })
    }

    /// SV-05: what a lost shim leaves behind comes to the daemon as its child, and is no operator.
    #[test]
    fn a_process_below_the_daemon_is_unknown() {
        let (mut child, peer) = child();
        let who = peer.who(&no_shims());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(who, None);
    }

    /// SV-05: a shim whose agent is not known, or not yet known anew, makes what is below it no operator; one that
    /// stands above the daemon itself is another instance's.
    #[test]
    fn a_process_below_an_unknown_shim_is_unknown() {
        let (mut child, peer) = child();
        let program = |pid: i32| fs::read_link(format!("/proc/{pid}/exe")).unwrap();
        let shims = Shims::new(program(peer.pid), Arc::new(|_| None));
        let ours = (shims.is_one(peer.pid), shims.is_one(Peer::own().pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(ours, (true, false));
        let parent = i32::try_from(std::os::unix::process::parent_id()).unwrap();
        assert!(is_above(parent, Peer::own().pid) && !is_above(Peer::own().pid, parent));
        let above = Shims::new(program(parent), Arc::new(|_| None));
        assert_eq!(Peer::own().who(&above), Some(Who::Operator));
        let own = Shims::new(program(Peer::own().pid), Arc::new(|_| None));
        assert_eq!(Peer::own().who(&own), None);
    }

    /// SV-05: a process that ended, or whose number another has now, is unknown and not an operator.
    #[tokio::test]
    async fn a_process_that_is_gone_is_unknown() {
        let gone = Peer { start_time: None, ..Peer::own() };
        assert_eq!(gone.who(&no_shims()), None);
        let other = Peer { start_time: Some(1), ..Peer::own() };
        assert_eq!(other.who(&no_shims()), None);
        assert_eq!(other.environment(&Who::Operator).await, None);
    }

    /// Only the base variables are taken.
    #[tokio::test]
    async fn only_the_base_variables_are_taken() {
        let environment = Peer::own().environment(&Who::Operator).await.unwrap();
        assert!(environment.base.keys().all(|name| BASE.contains(&name.as_str())));
        assert!(environment.base.contains_key("PATH"));
    }

    /// I8: of an environment that is too large to keep for every connection, what has room is kept.
    #[test]
    fn a_large_environment_is_kept_in_part() {
        let mut command = std::process::Command::new("/bin/cat");
        command.env_clear().env("LANG", "C").env("TERM", "x".repeat(MAX_BASE)).env("USER", "u");
        let piped = std::process::Stdio::piped;
        let mut child = command.stdin(piped()).stdout(piped()).spawn().unwrap();
        let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        // Once it answers its environment is there.
        std::io::Write::write_all(&mut input, b"x").unwrap();
        output.read_exact(&mut [0]).unwrap();
        let base = base_of(child.id().try_into().unwrap()).unwrap();
        drop(input);
        child.wait().unwrap();
        assert_eq!(base.into_keys().collect::<Vec<_>>(), ["LANG", "USER"]);
    }

    /// I8, SV-05: a process whose environment never comes is waited for a while and apart from everything else, and those
    /// that are stuck hold up no other kind.
    #[tokio::test]
    async fn a_read_that_hangs_is_given_up() {
        static FULL: Semaphore = Semaphore::const_new(1);
        let (release, hangs) = std::sync::mpsc::channel::<()>();
        let soon = Duration::from_millis(1);
        assert_eq!(apart(&FULL, soon, move || hangs.recv()).await, None);
        assert_eq!(apart(&FULL, soon, || ()).await, None, "its place is taken");
        assert!(Peer::own().environment(&Who::Operator).await.is_some());
        drop(release);
        assert_eq!(apart(&FULL, Duration::MAX, || 7).await, Some(7));
    }
}
