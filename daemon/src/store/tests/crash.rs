//! `kill -9` at any moment: what was acknowledged is there, whole, and two rows of one commit stay together.
//!
//! The worker is this test program itself, started again for the one test that does nothing otherwise.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::super::{Options, Row, Store, Write};
use super::{KINDS, bytes, mix, open};

const WORKER: &str = "CCAGENT_TEST_STORE_WORKER";
const TASKS: u64 = 8;
const KEYS: u64 = 6;
const KILLS: u64 = 20;

/// What a key holds in a version: nothing in every seventh, else 10 bytes to 100 KiB.
fn content(key: &str, version: u64) -> Option<Vec<u8>> {
    let mut seed = u64::from(crc32fast::hash(key.as_bytes())) << 32 | version;
    let bits = mix(&mut seed) % 14;
    let length = 10 + mix(&mut seed) % (7 << bits).min(100 << 10);
    (!version.is_multiple_of(7)).then(|| bytes(seed, usize::try_from(length).unwrap()))
}

fn version(store: &Store, key: &str) -> u64 {
    store.get("task", key).unwrap().map_or(0, |value| String::from_utf8(value).unwrap().parse().unwrap())
}

/// Writes for ever when the test below started it, and does nothing otherwise.
#[test]
fn worker_writes_until_it_is_killed() {
    let Ok(dir) = std::env::var(WORKER) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let store = std::sync::Arc::new(Store::open(Path::new(&dir), Options::new(KINDS)).unwrap());
    let tasks: Vec<_> =
        (0..TASKS).map(|task| runtime.spawn(write_for_ever(std::sync::Arc::clone(&store), task))).collect();
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
}

async fn write_for_ever(store: std::sync::Arc<Store>, task: u64) {
    let keys: Vec<String> = (0..KEYS).map(|number| format!("{task}-{number}")).collect();
    let mut versions: Vec<u64> = keys.iter().map(|key| version(&store, key)).collect();
    let mut seed = task + versions.iter().sum::<u64>();
    loop {
        let at = usize::try_from(mix(&mut seed) % KEYS).unwrap();
        let (key, next) = (&keys[at], versions[at] + 1);
        let writes = vec![
            Write { kind: "body", id: key.as_str().into(), value: content(key, next) },
            Write { kind: "task", id: key.as_str().into(), value: Some(next.to_string().into_bytes()) },
        ];
        store.commit(writes).await.unwrap();
        versions[at] = next;
        // One call, past the test harness's own capture, so that a kill can't tear the line.
        std::io::stdout().write_all(format!("ack {key} {next}\n").as_bytes()).unwrap();
    }
}

fn start(dir: &Path) -> (Child, Receiver<(String, u64)>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store::tests::crash::worker_writes_until_it_is_killed", "--nocapture"])
        .env(WORKER, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (acks, acked) = channel();
    std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            // The harness leaves the end of its own line before our first.
            let Some((_, ack)) = line.split_once("ack ") else {
                continue;
            };
            let Some((key, version)) = ack.split_once(' ') else {
                continue;
            };
            acks.send((key.to_owned(), version.parse().unwrap())).unwrap();
        }
    });
    (child, acked)
}

fn collect(
    acked: &Receiver<(String, u64)>,
    limit: Option<Duration>,
    known: &mut BTreeMap<String, u64>,
) -> bool {
    let end = limit.map(|limit| Instant::now() + limit);
    loop {
        let rest = end.map_or(Duration::from_mins(1), |end| end.saturating_duration_since(Instant::now()));
        match acked.recv_timeout(rest) {
            Ok((key, version)) => drop(known.insert(key, version)),
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}

/// Compares everything with what is known, which becomes what was found; the number of values that were compared.
fn check(dir: &Path, known: &mut BTreeMap<String, u64>) -> usize {
    let store = open(dir);
    let stored: BTreeMap<_, _> =
        store.rows(KINDS, Row::of).map(Result::unwrap).map(|row| ((row.kind, row.id), row.value)).collect();
    for (key, acked) in known.iter_mut() {
        let found = version(&store, key);
        // Its writer had one more under way at most.
        assert!(
            found == *acked || found == *acked + 1,
            "{key}: version {found} after {acked} was acknowledged"
        );
        *acked = found;
    }
    let keys = (0..TASKS).flat_map(|task| (0..KEYS).map(move |number| format!("{task}-{number}")));
    let mut compared = 0;
    for key in keys {
        let wanted = match version(&store, &key) {
            0 => None,
            version => content(&key, version),
        };
        compared += usize::from(wanted.is_some());
        let found = stored.get(&("body".into(), key.as_str().into()));
        assert!(found == wanted.as_ref(), "{key}: not the value of its version");
    }
    assert_eq!(std::fs::read_dir(dir.join("db/blobs")).unwrap().count(), 0);
    compared
}

/// I1, I2, SV-07
#[test]
fn acknowledged_writes_survive_kill_nine_at_any_moment() {
    let dir = tempfile::tempdir().unwrap();
    let mut seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut known = BTreeMap::new();
    let mut compared = 0;
    for round in 0..KILLS {
        let (mut child, acked) = start(dir.path());
        // Half of them die early, many of those while they open the store.
        let longest = if round % 2 == 0 { 60 } else { 500 };
        let alive = collect(&acked, Some(Duration::from_millis(mix(&mut seed) % longest)), &mut known);
        child.kill().unwrap();
        child.wait().unwrap();
        collect(&acked, None, &mut known);
        assert!(alive, "the worker ended by itself in round {round}");
        compared += check(dir.path(), &mut known);
    }
    println!("{} commits acknowledged, {compared} values compared", known.values().sum::<u64>());
    assert!(known.len() > 10, "the worker hardly wrote: {}", known.len());
}
