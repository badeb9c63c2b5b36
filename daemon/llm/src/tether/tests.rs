use ccagent_shim::tree::{self, Process};
use ccagent_shim::wire::Stderr;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

use super::*;

/// A grace that no test waits for.
const LONG: u64 = 3_600_000;

/// A program of a task that does not end by a TERM, and its process.
async fn stubborn(task: &str) -> (Tether, Process) {
    let spec = TetherSpec {
        argv: ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 1000; done"].map(str::to_owned).into(),
        env: BTreeMap::from([
            ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
            (tree::TASK_ID.to_owned(), task.to_owned()),
        ]),
        cwd: "/".into(),
        stderr: Stderr::Stdout,
        grace_ms: LONG,
        open_files: None,
    };
    let (ours, theirs) = io::pipe().unwrap();
    let shim = ccagent_tests::programs::shim();
    let tether = Tether::start(&shim, &spec, Stdio::null(), theirs.into()).await.unwrap();
    let mut up = [0; 3];
    Receiver::from_owned_fd(ours.into()).unwrap().read_exact(&mut up).await.unwrap();
    let process = tree::stat::read(tether.pid()).unwrap().unwrap().process();
    (tether, process)
}

fn assert_gone(process: Process) {
    let stat = tree::stat::read(process.pid).unwrap();
    assert!(stat.is_none_or(|stat| stat.process() != process), "{process:?}");
}

/// AB-03, D50, D53: who is ended by force takes its programs along at once, whatever grace they had: those that are still
/// held, those that were let go of, and those that were asked to end already. Those of others have theirs.
#[tokio::test]
async fn a_stop_by_force_waits_for_no_grace() {
    let (other, others) = stubborn("other").await;
    let (held, first) = stubborn("forced").await;
    let (dropped, second) = stubborn("forced").await;
    let (mut stopping, third) = stubborn("forced").await;
    drop(dropped);
    let stopped = tokio::spawn(async move { stopping.stop(Duration::from_millis(LONG)).await });
    tokio::task::yield_now().await;
    hurry("forced");
    stopped.await.unwrap();
    drop(held);
    all_gone(Some("forced")).await;
    [first, second, third].into_iter().for_each(assert_gone);
    assert!(tree::stat::read(others.pid).unwrap().is_some());
    hurry("other");
    drop(other);
    all_gone(Some("other")).await;
    assert_gone(others);
}
