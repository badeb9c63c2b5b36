//! Who is at the other end of a socket: the process, whether one of our agents stands above it, and what
//! environment it runs in.
//!
//! A process is taken for an operator only when its line of ancestors could be read to the end and no shim of ours
//! is in it. Where the line can't be read the answer is "unknown", and unknown is refused.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::sync::Arc;

use ccagent_core::Who;
use ccagent_proto::TaskId;
use ccagent_shim::tree::stat::{self, Stat};
use tokio::net::UnixStream;

/// The variables that make the base of an agent's environment.
pub const BASE: [&str; 7] = ["PATH", "HOME", "LANG", "TERM", "USER", "SHELL", "TMPDIR"];

/// Longer lines of ancestors are not followed.
const MAX_ANCESTORS: usize = 256;
/// More of a process's environment is not read.
const MAX_ENVIRONMENT: u64 = 4 << 20;

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
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        Self { uid: rustix::process::getuid().as_raw(), pid, start_time: start_time(pid) }
    }

    /// Whether it runs under our own user.
    pub fn is_ours(&self) -> bool {
        self.uid == rustix::process::getuid().as_raw()
    }

    /// Which agent it belongs to, by its ancestors; `None` when that can't be told.
    pub fn who(&self, task_of_shim: impl Fn(u32) -> Option<TaskId>) -> Option<Who> {
        let mut process = self.stat()?;
        for _ in 0..MAX_ANCESTORS {
            if let Some(task) = u32::try_from(process.pid).ok().and_then(&task_of_shim) {
                return Some(Who::Agent(task));
            }
            // 0: the kernel's own, or a parent outside our namespace.
            if process.parent <= 0 {
                return Some(Who::Operator);
            }
            process = parent_of(process)?;
        }
        None
    }

    /// Its environment, while it lives.
    pub fn environment(&self) -> Option<Environment> {
        self.stat()?;
        let base = Arc::new(base_of(self.pid)?);
        let cwd = fs::read_link(format!("/proc/{}/cwd", self.pid)).ok();
        let cwd = cwd.and_then(|path| path.into_os_string().into_string().ok());
        // What was read is its own only if its number did not change hands meanwhile.
        self.stat()?;
        Some(Environment { base, cwd })
    }

    /// The process itself, if its number is still its own.
    fn stat(&self) -> Option<Stat> {
        let stat = stat::read(self.pid).ok()??;
        (Some(stat.start_time) == self.start_time).then_some(stat)
    }
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
    let mut bytes = Vec::new();
    let file = fs::File::open(format!("/proc/{pid}/environ")).ok()?;
    file.take(MAX_ENVIRONMENT).read_to_end(&mut bytes).ok()?;
    let variables = bytes.split(|byte| *byte == 0).filter_map(|entry| {
        let (name, value) = std::str::from_utf8(entry).ok()?.split_once('=')?;
        BASE.contains(&name).then(|| (name.to_owned(), value.to_owned()))
    });
    Some(variables.collect())
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
        assert_eq!(peer.who(|pid| (pid == parent).then_some(task)), Some(Who::Agent(task)));
        assert_eq!(peer.who(|_| None), Some(Who::Operator));
    }

    /// SV-05: a process that ended, or whose number another has now, is unknown and not an operator.
    #[test]
    fn a_process_that_is_gone_is_unknown() {
        let gone = Peer { start_time: None, ..Peer::own() };
        assert_eq!(gone.who(|_| None), None);
        let other = Peer { start_time: Some(1), ..Peer::own() };
        assert_eq!(other.who(|_| None), None);
        assert_eq!(other.environment(), None);
    }

    /// Only the base variables are taken.
    #[test]
    fn only_the_base_variables_are_taken() {
        let environment = Peer::own().environment().unwrap();
        assert!(environment.base.keys().all(|name| BASE.contains(&name.as_str())));
        assert!(environment.base.contains_key("PATH"));
    }
}
