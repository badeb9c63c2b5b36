//! Finding the processes of an attempt whose shim is gone, by the marks in their environment.
//!
//! A process that threw its environment away is found as long as a marked one is its ancestor, or leads its session:
//! only who descends from a session's leader is in it, whoever of those between them has ended. This is the daemon's
//! second line: while the shim lives, nothing of the tree can get out of its sight.

use std::{collections::BTreeSet, fs, io, os::unix::fs::MetadataExt};

use rustix::process::{getpgrp, getpid, getuid};

use super::{Process, below, stat};

/// The variable that holds the task's id in an agent's environment.
pub const TASK_ID: &str = "CCAGENT_TASK_ID";
/// The variable that holds the hash of the attempt's control token in an agent's environment: the daemon can make it
/// again after a restart, and an agent can't go back from it to the token.
pub const MARK: &str = "CCAGENT_SHIM";

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    /// The marked processes and all that descend from them.
    pub found: Vec<Process>,
    /// Those of our processes that did not let us read their environment: as long as one of them may belong to the
    /// attempt, an empty find is no proof.
    pub unreadable: Vec<Process>,
}

/// Finds every living process of our uid that carries the marks of an attempt, and their descendants. Of an attempt
/// more than one hash of its token may be known: a store that was restored has made another token. Each marked one is
/// shown the moment it is met: it may go on under another number before all have been looked at.
pub fn find_marked(task_id: &str, hashes: &[String], mut met: impl FnMut(Process)) -> io::Result<Marked> {
    let task = format!("{TASK_ID}={task_id}");
    let marks: Vec<String> = hashes.iter().map(|hash| format!("{MARK}={hash}")).collect();
    let mut marked = Marked::default();
    let mut roots = Vec::new();
    stat::each(|stat| {
        if stat.ended || !is_signallable(&stat) {
            return;
        }
        match carries(stat.pid, &task, &marks) {
            Ok(true) => {
                met(stat.process());
                roots.push(stat);
            }
            Ok(false) => {}
            Err(_) => marked.unreadable.push(stat.process()),
        }
    })?;
    // Those that were met were alive before this, and what they had started by now is in it.
    let all = stat::every()?;
    let leaders: BTreeSet<i32> =
        roots.iter().filter(|stat| stat.session == stat.pid).map(|stat| stat.pid).collect();
    let led =
        all.iter().filter(|stat| !stat.ended && leaders.contains(&stat.session) && is_signallable(stat));
    roots.extend(led);
    let pids: Vec<i32> = roots.iter().map(|stat| stat.pid).collect();
    let descendants = below(&all, &pids).into_iter().filter(is_signallable);
    let found: BTreeSet<Process> =
        roots.iter().copied().chain(descendants).map(|stat| stat.process()).collect();
    marked.found = found.into_iter().collect();
    Ok(marked)
}

fn is_signallable(stat: &stat::Stat) -> bool {
    stat.pid > 1
        && stat.pid != getpid().as_raw_nonzero().get()
        && stat.group != getpgrp().as_raw_nonzero().get()
        && fs::metadata(format!("/proc/{}", stat.pid))
            .is_ok_and(|metadata| metadata.uid() == getuid().as_raw())
}

fn carries(pid: i32, task: &str, marks: &[String]) -> io::Result<bool> {
    let environ = match fs::read(format!("/proc/{pid}/environ")) {
        Ok(environ) => environ,
        Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(3) => {
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    let has = |mark: &str| environ.split(|&byte| byte == 0).any(|entry| entry == mark.as_bytes());
    Ok(has(task) && marks.iter().any(|mark| has(mark)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{files::token_hash, tree::send};
    use rustix::process::Signal;
    use std::{
        io::{BufRead, BufReader},
        os::unix::process::CommandExt,
        process::{Child, Command, Stdio},
    };

    fn marked_shell(task: &str, token: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", "env -i sleep 1000 & echo ready; trap '' TERM; cat"]);
        command.env(TASK_ID, task).env(MARK, token_hash(token)).process_group(0);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        child
    }

    /// D52, I3: who threw its marks away and lost its parent is found by the leader of its session, and nobody else's
    /// session is looked at.
    #[test]
    fn what_a_marked_leader_leads_is_found() {
        let hash = token_hash(&format!("leader-{}", getpid().as_raw_nonzero()));
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", "(env -i sh -c 'echo $$; exec sleep 1000' &); exec sleep 1000"]);
        command.env(TASK_ID, "agent_c").env(MARK, &hash).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut led = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut led).unwrap();
        let found = find_marked("agent_c", &[hash], drop).unwrap().found;
        let pids: BTreeSet<i32> = found.iter().map(|process| process.pid).collect();
        let expected = [child.id().cast_signed(), led.trim().parse().unwrap()];
        for process in found {
            send(process, Signal::KILL).unwrap();
        }
        assert!(!child.wait().unwrap().success());
        assert_eq!(pids, BTreeSet::from(expected));
    }

    /// D52, D49: the shim is gone, its agent's tree is not.
    #[test]
    fn marked_processes_and_their_unmarked_children_are_found() {
        let token = format!("token-{}", getpid().as_raw_nonzero());
        let (mut ours, mut others) =
            (marked_shell("agent_a", &token), marked_shell("agent_a", "another-token"));
        for (hashes, marked) in [
            (vec![token_hash(&token)], &ours),
            (vec![token_hash("unknown"), token_hash("another-token")], &others),
        ] {
            let found = find_marked("agent_a", &hashes, drop).unwrap().found;
            assert!(found.iter().any(|process| process.pid == marked.id().cast_signed()));
            assert!(found.len() >= 2, "{found:?}");
            assert_eq!(find_marked("agent_b", &hashes, drop).unwrap().found, []);
        }
        let hashes = [token_hash(&token), token_hash("another-token")];
        let mut met = Vec::new();
        let both = find_marked("agent_a", &hashes, |process| met.push(process)).unwrap();
        let shells = [&ours, &others].map(|shell| shell.id().cast_signed());
        assert!(shells.iter().all(|pid| met.iter().any(|process| process.pid == *pid)), "{met:?}");
        for process in both.found {
            send(process, Signal::KILL).unwrap();
        }
        assert!(!ours.wait().unwrap().success() && !others.wait().unwrap().success());
    }
}
