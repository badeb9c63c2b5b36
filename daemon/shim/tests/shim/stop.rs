//! Stopping: the whole tree, and only then the record.

use std::{fs, path::PathBuf};

use ccagent_shim::{
    files::{Liveness, same_process},
    tree::{self, Process},
    wire::{DaemonLine, LeaderEnd, ShimLine, StdinKind},
};
use ccagent_tests::skip::skip_anywhere;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

use crate::harness::Lab;

const LONG: u64 = 3_600_000;

/// The processes whose ids the agent's script printed as `pid N`.
fn printed(lab: &Lab) -> Vec<Process> {
    let pids = lab.output();
    let pids = pids.lines().filter_map(|line| line.strip_prefix("pid ")?.parse().ok());
    pids.filter_map(|pid: i32| Some(tree::stat::read(pid).ok()??.process())).collect()
}

fn assert_gone(processes: &[Process]) {
    for process in processes {
        assert_eq!(same_process(process.pid, process.start_time), Liveness::Gone, "{process:?}");
    }
}

/// I4
#[test]
fn a_polite_agent_ends_within_its_grace() {
    // A child of a shell has the shell's trap until its exec: it says itself when it can be stopped.
    let lab = Lab::sh("trap 'echo bye; exit 5' TERM; sh -c 'echo ready; exec sleep 1000' & wait");
    let running = lab.start();
    let mut client = running.client_after("ready");
    client.send(&DaemonLine::Stop { grace_ms: LONG });
    let said = client.exited();
    let record = running.wait();
    assert_eq!(said, record);
    assert_eq!((record.code, record.stopped, record.forced), (Some(5), true, false));
    assert!(lab.output().ends_with("bye\n"));
}

/// D49, D58, I3
#[test]
fn a_stubborn_grandchild_in_its_own_session_is_killed() {
    let lab = Lab::sh(
        "trap 'exit 0' TERM; \
         setsid sh -c 'trap \"\" TERM; echo pid $$; echo ready; while :; do sleep 1000; done' & wait",
    );
    let running = lab.start();
    let mut client = running.client_after("ready");
    let processes = printed(&lab);
    assert_eq!(processes.len(), 1);
    client.send(&DaemonLine::Stop { grace_ms: LONG });
    assert!(matches!(client.next_fact(), Some(ShimLine::LeaderExited { code: Some(0), remaining: 1.., .. })));
    client.send(&DaemonLine::Stop { grace_ms: 10 });
    let record = client.exited();
    assert!(record.stopped && record.forced);
    assert_gone(&processes);
    running.wait();
}

/// D58, D62
#[test]
fn a_double_fork_does_not_escape() {
    let lab = Lab::sh(
        "(setsid sh -c '(trap \"\" TERM HUP; echo pid $(exec sh -c \"echo \\$PPID\"); echo ready; sleep 1000) &' &); read x; sleep 1000",
    );
    let running = lab.start();
    let mut client = running.client_after("ready");
    let processes = printed(&lab);
    client.send(&DaemonLine::Kill {});
    let record = client.exited();
    assert!(record.forced);
    assert_gone(&processes);
    assert_gone(&[running.leader]);
    running.wait();
}

/// D49: a loop kept launching children.
#[test]
fn a_fork_loop_is_outrun() {
    // Bounded to 3000 forks, so that a failing test does not take the machine with it.
    let lab = Lab::sh(
        "trap '' TERM; echo ready; i=0; while [ $i -lt 3000 ]; do i=$((i+1)); \
         (trap '' TERM; setsid sleep 1000) & done; echo all; wait",
    );
    let running = lab.start();
    let mut client = running.client_after("ready");
    client.send(&DaemonLine::Stop { grace_ms: 30 });
    let record = client.exited();
    assert!(record.forced);
    assert_eq!(lab.marked(), []);
    running.wait();
}

/// D49: each link starts the next and ends at once, in the worst case in a session of its own.
#[test]
fn a_chain_of_forks_is_outrun() {
    for starter in ["", "setsid"] {
        let mut lab = Lab::sh("");
        let script = lab.path("link");
        // Bounded, but far longer than any patience.
        let text = format!(
            "trap '' TERM\n[ $1 -gt 50000 ] && exit\n[ $1 = 50 ] && echo ready\n{starter} sh $0 $(($1+1)) &\n"
        );
        fs::write(&script, text).unwrap();
        lab.spec.argv = ["sh", script.to_str().unwrap(), "0"].map(str::to_owned).to_vec();
        let running = lab.start();
        let mut client = running.client_after("ready");
        client.send(&DaemonLine::Kill {});
        assert!(client.exited().stopped);
        assert_eq!(lab.marked(), []);
        running.wait();
    }
}

#[test]
fn a_frozen_agent_hears_the_stop() {
    let lab = Lab::sh("trap 'exit 6' TERM; echo ready; kill -STOP $$; sleep 1000 & wait");
    let running = lab.start();
    let mut client = running.client_after("ready");
    client.send(&DaemonLine::Stop { grace_ms: LONG });
    client.exited();
    let record = running.wait();
    assert_eq!((record.code, record.forced), (Some(6), false));
}

/// H110: done is a quiescent tree.
#[test]
fn the_task_goes_on_until_the_last_descendant_ended() {
    let mut lab = Lab::sh("exec 3<&0; (read line <&3; echo late) & echo ready; exit 3");
    lab.spec.stdin = StdinKind::Pipe;
    let running = lab.start();
    let (mut client, state) = running.client();
    if state.leader_exited.is_none() {
        let Some(ShimLine::LeaderExited { code: Some(3), remaining: 1, .. }) = client.next_fact() else {
            panic!("leader")
        };
    }
    let (mut client, state) = running.client();
    assert_eq!(state.leader_exited, Some(LeaderEnd { code: Some(3), signal: None }));
    assert_eq!(state.descendants, 1);
    client.send(&DaemonLine::stdin(b"\n", false, 1));
    loop {
        match client.next_fact() {
            Some(ShimLine::Exited(record)) => break assert_eq!(record.code, Some(3)),
            Some(ShimLine::StdinDone { seq: 1, error: None }) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(lab.output(), "ready\nlate\n");
    assert!(!running.wait().stopped);
}

/// I4
#[test]
fn another_stop_can_only_shorten_the_grace() {
    let lab = Lab::sh("trap '' TERM; echo ready; sleep 1000 & wait; wait");
    let running = lab.start();
    let mut client = running.client_after("ready");
    client.send(&DaemonLine::Stop { grace_ms: LONG });
    client.send(&DaemonLine::Stop { grace_ms: LONG * 2 });
    client.send(&DaemonLine::Kill {});
    assert!(client.exited().forced);
    running.wait();
}

#[test]
fn a_term_to_the_shim_is_a_stop() {
    let lab = Lab::sh("trap 'exit 8' TERM; sh -c 'echo ready; exec sleep 1000' & wait");
    let running = lab.start();
    running.client_after("ready");
    kill_process(Pid::from_raw(running.shim.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
    let record = running.wait();
    assert_eq!((record.code, record.stopped), (Some(8), true));
}

/// A cgroup v2 of our own below the first mount of one; none where we may not make it.
fn own_cgroup(name: &str) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mount = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let at = words.next()?;
        (words.next()? == "cgroup2").then(|| PathBuf::from(at))
    })?;
    let dir = mount.join(format!("ccagent-shim-test-{name}-{}", std::process::id()));
    fs::create_dir(&dir).is_ok().then_some(dir)
}

/// D58: all of the agent is in the cgroup, from its first instruction on.
#[test]
fn an_agent_in_a_cgroup_is_killed_with_it() {
    let Some(cgroup) = own_cgroup("kill") else {
        return skip_anywhere("no cgroup v2 may be made here");
    };
    let mut lab =
        Lab::sh("cat /proc/self/cgroup; setsid sh -c 'trap \"\" TERM; echo ready; sleep 1000' & wait");
    lab.spec.cgroup = Some(cgroup.clone());
    let running = lab.start();
    let mut client = running.client_after("ready");
    assert!(lab.output().contains("ccagent-shim-test-kill"));
    client.send(&DaemonLine::Kill {});
    let record = client.exited();
    assert!(record.forced && !record.oom);
    running.wait();
    fs::remove_dir(cgroup).expect("an empty cgroup");
}

/// I5: never our own group, and so never a cgroup that we are in.
#[test]
fn a_cgroup_that_holds_the_shim_or_is_none_is_refused() {
    let mut lab = Lab::sh("true");
    lab.spec.cgroup = Some(lab.path("."));
    assert!(matches!(lab.fail(), ccagent_shim::wire::StartReply::Failed { .. }));
    let Some(cgroup) = own_cgroup("own") else {
        return skip_anywhere("its second half: no cgroup v2 may be made here");
    };
    let mut lab = Lab::sh("true");
    lab.spec.cgroup = cgroup.parent().map(PathBuf::from);
    assert!(matches!(lab.fail(), ccagent_shim::wire::StartReply::Failed { .. }));
    fs::remove_dir(cgroup).unwrap();
}

/// D62: orphans are reaped as they come, not at the end.
#[test]
fn no_zombies_pile_up_while_the_leader_runs() {
    let mut lab = Lab::sh("for i in 1 2 3 4 5 6 7 8 9 10; do (true &); done; echo ready; read x");
    lab.spec.stdin = StdinKind::Pipe;
    let running = lab.start();
    running.client_after("ready");
    let shim = running.shim.id().cast_signed();
    let zombies =
        || tree::stat::all().unwrap().iter().filter(|stat| stat.parent == shim && stat.ended).count();
    // Each look is a round trip through the shim's loop, in which it also reaps.
    let clean = (0..10_000).any(|_| running.client().1.descendants == 1 && zombies() == 0);
    assert!(clean, "{} zombies", zombies());
}

/// I4, D53: a kill that failed for want of descriptors is made up for, though nobody asks and nobody dies.
#[test]
fn a_kill_that_failed_is_repeated() {
    let mut lab = Lab::sh("trap '' TERM; echo ready; while :; do read x; done");
    lab.spec.stdin = StdinKind::Pipe;
    let running = lab.start();
    let mut client = running.client_after("ready");
    let shim = Pid::from_raw(running.shim.id().cast_signed());
    let taken = |fd: &u64| fs::exists(format!("/proc/{}/fd/{fd}", running.shim.id())).unwrap();
    let before = getrlimit(Resource::Nofile);
    let none_left = Rlimit { current: (0..1024).find(|fd| !taken(fd)), maximum: before.maximum };
    prlimit(shim, Resource::Nofile, none_left).unwrap();
    client.send(&DaemonLine::Kill {});
    // Answered, so the kill before it was tried.
    client.send(&DaemonLine::stdin(b"\n", false, 1));
    assert!(matches!(client.next_fact(), Some(ShimLine::StdinDone { seq: 1, error: None })));
    assert_eq!(same_process(running.leader.pid, running.leader.start_time), Liveness::Alive);
    prlimit(shim, Resource::Nofile, before).unwrap();
    assert!(client.exited().forced);
    running.wait();
}
