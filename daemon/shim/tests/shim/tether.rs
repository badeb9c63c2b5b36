//! A tethered program: it ends with its socket, and all that descends from it.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Child, ChildStdout, Command, Stdio},
};

use ccagent_shim::{
    files::{Liveness, same_process},
    tree::{self, Process},
    wire::{self, StartErrorKind, Stderr, TetherLine, TetherRequest, TetherSpec},
};

const LONG: u64 = 3_600_000;

struct Tethered {
    shim: Child,
    control: BufReader<UnixStream>,
    stdout: BufReader<ChildStdout>,
}

fn spec(argv: &[&str]) -> TetherSpec {
    TetherSpec {
        argv: argv.iter().map(|part| (*part).to_owned()).collect(),
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        cwd: "/".into(),
        stderr: Stderr::Stdout,
        grace_ms: 10,
        open_files: None,
    }
}

impl Tethered {
    fn start(spec: &TetherSpec) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ccagent-shim"));
        command.arg("tether").env_clear().stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shim = command.stderr(OwnedFd::from(theirs)).spawn().unwrap();
        drop(command);
        let stdout = BufReader::new(shim.stdout.take().unwrap());
        let mut tethered = Self { shim, control: BufReader::new(ours), stdout };
        tethered.write(&wire::encode(spec).unwrap());
        tethered
    }

    fn sh(script: &str) -> Self {
        Self::start(&spec(&["sh", "-c", script]))
    }

    fn write(&mut self, bytes: &[u8]) {
        self.control.get_mut().write_all(bytes).unwrap();
    }

    fn next(&mut self) -> Option<TetherLine> {
        let mut line = String::new();
        (self.control.read_line(&mut line).unwrap() > 0).then(|| wire::decode(line.as_bytes()).unwrap())
    }

    fn started(&mut self) -> Process {
        match self.next() {
            Some(TetherLine::Started { pid }) => tree::stat::read(pid).unwrap().unwrap().process(),
            other => panic!("{other:?}"),
        }
    }

    /// A process whose id the program printed.
    fn printed(&mut self) -> Process {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        tree::stat::read(line.trim().parse().unwrap()).unwrap().unwrap().process()
    }
}

/// Nothing of it is left, not even to be collected: that would be somebody else's to do.
fn assert_collected(process: Process) {
    let stat = tree::stat::read(process.pid).unwrap();
    assert!(stat.is_none_or(|stat| stat.process() != process), "{process:?}");
}

fn assert_gone(process: Process) {
    assert_eq!(same_process(process.pid, process.start_time), Liveness::Gone, "{process:?}");
}

/// A tree that is hard to end: it ignores TERM, and a part of it has left its session and its parents.
const STUBBORN: &str =
    "trap '' TERM; (setsid sh -c 'sleep 1000 & echo $!; echo $$; wait' &) ; while :; do sleep 1000; done";

/// J124, D58: the daemon's end of the socket is gone, as after its kill -9: so is the whole tree.
#[test]
fn a_tree_ends_with_the_socket() {
    let mut tethered = Tethered::sh(STUBBORN);
    let tree = [tethered.started(), tethered.printed(), tethered.printed()];
    let Tethered { mut shim, control, mut stdout } = tethered;
    drop(control);
    assert!(shim.wait().unwrap().success());
    tree.into_iter().for_each(assert_collected);
    // Nobody has its streams any more.
    stdout.read_to_string(&mut String::new()).unwrap();
}

/// I4, D49: a stop goes to the whole tree, with a grace that the next one can shorten.
#[test]
fn a_stop_ends_the_tree_and_says_when_it_is_empty() {
    let mut tethered = Tethered::sh(&format!("{STUBBORN} & trap 'exit 3' TERM; echo $$; wait"));
    let mut processes = vec![tethered.started()];
    processes.extend([tethered.printed(), tethered.printed(), tethered.printed()]);
    tethered.write(&wire::encode(&TetherRequest::Stop { grace_ms: LONG }).unwrap());
    assert!(matches!(tethered.next(), Some(TetherLine::Leader { code: Some(3), remaining: 1.., .. })));
    tethered.write(&wire::encode(&TetherRequest::Stop { grace_ms: 0 }).unwrap());
    assert_eq!(tethered.next(), Some(TetherLine::Empty {}));
    processes.into_iter().for_each(assert_collected);
    assert_eq!(tethered.next(), None);
    assert!(tethered.shim.wait().unwrap().success());
}

/// I3: the program's end is one thing, and its tree's another.
#[test]
fn what_a_program_leaves_running_is_counted_and_ends_later() {
    let mut tethered = Tethered::sh("sleep 1000 & echo $!; exit 7");
    assert!(matches!(tethered.next(), Some(TetherLine::Started { .. })));
    let left = tethered.printed();
    let leader = TetherLine::Leader { code: Some(7), signal: None, remaining: 1 };
    assert_eq!(tethered.next(), Some(leader));
    tree::send(left, rustix::process::Signal::KILL).unwrap();
    assert_eq!(tethered.next(), Some(TetherLine::Empty {}));
    assert_eq!(tethered.next(), None);
}

/// H114: streams are the program's own, and stderr comes in the order of its arrival.
#[test]
fn the_streams_are_handed_on() {
    let mut tethered = Tethered::sh("read line; echo one $line; echo two >&2; echo three");
    tethered.shim.stdin.take().unwrap().write_all(b"in\n").unwrap();
    let mut text = String::new();
    tethered.stdout.read_to_string(&mut text).unwrap();
    assert_eq!(text, "one in\ntwo\nthree\n");
    let mut quiet =
        Tethered::start(&TetherSpec { stderr: Stderr::Null, ..spec(&["sh", "-c", "echo no >&2"]) });
    quiet.stdout.read_to_string(&mut text).unwrap();
    assert_eq!(text, "one in\ntwo\nthree\n");
}

/// M150: what can't run says why, and nothing is left.
#[test]
fn what_does_not_start_says_why() {
    let nowhere = TetherSpec { cwd: "/nonexistent".into(), ..spec(&["true"]) };
    for (spec, why) in [
        (spec(&["/nonexistent"]), StartErrorKind::NotFound),
        (spec(&["/"]), StartErrorKind::NotExecutable),
        (nowhere, StartErrorKind::CwdMissing),
        (spec(&[]), StartErrorKind::Other),
    ] {
        let mut tethered = Tethered::start(&spec);
        assert!(matches!(tethered.next(), Some(TetherLine::Failed { kind, .. }) if kind == why), "{spec:?}");
        assert_eq!(tethered.next(), None);
        assert!(!tethered.shim.wait().unwrap().success());
    }
}

/// I4: nonsense on the socket is no reason to lose sight of the tree.
#[test]
fn nonsense_ends_the_tree() {
    let mut tethered = Tethered::sh("echo $$; exec sleep 1000");
    let leader = tethered.started();
    tethered.write(b"nonsense\n");
    assert!(tethered.shim.wait().unwrap().success());
    assert_gone(leader);
}
