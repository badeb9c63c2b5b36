//! The output file: complete, bounded, and never the reason for an agent's end.

use std::ffi::CStr;
use std::fs;
use std::path::PathBuf;

use ccagent_shim::index::{Index, Stream};
use ccagent_shim::wire::{DaemonLine, OutputState, ShimLine, StdinKind};
use ccagent_tests::skip;

use crate::harness::{Lab, Running};

/// A disk of this size below the lab, to be unmounted; none where we may not mount.
fn small_disk(lab: &Lab, size: &CStr) -> Option<PathBuf> {
    let small = lab.path("small");
    fs::create_dir(&small).unwrap();
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tmpfs", &small, "tmpfs", flags, size).ok().map(|()| small)
}

/// OF-03
#[test]
fn at_the_limit_a_marker_is_written_and_the_agent_goes_on() {
    let mut lab = Lab::sh("head -c 1000000 /dev/zero | tr '\\0' x; exit 9");
    lab.spec.max_output_bytes = 100_000;
    let record = lab.start().wait();
    assert_eq!(record.code, Some(9));
    assert!(record.output_truncated);
    let output = lab.output();
    let marker = "\n[ccagent: output limit of 100000 bytes reached, the rest was dropped]\n";
    assert_eq!(output, format!("{}{marker}", "x".repeat(100_000)));
    assert_eq!(record.output_bytes, output.len() as u64);
}

/// I8, C41: an output that is closed ends where it is, with the marker of a limit once something is missing; the agent
/// goes on.
#[test]
fn a_closed_output_keeps_no_more_and_the_agent_goes_on() {
    let mut lab = Lab::sh("echo kept; read x; echo dropped; read x; echo dropped; exit 9");
    lab.spec.stdin = StdinKind::Pipe;
    let running = lab.start();
    let (mut client, state) = running.client();
    assert!(state.closes_output);
    client.await_output(&lab, "kept\n");
    for _ in 0..2 {
        client.send(&DaemonLine::CloseOutput {});
    }
    client.send(&DaemonLine::stdin(b"\n", false, 1));
    let marker = "\n[ccagent: output limit of 5 bytes reached, the rest was dropped]\n";
    client.await_output(&lab, marker);
    assert!(running.client().1.output_truncated);
    running.client().0.send(&DaemonLine::stdin(b"\n", false, 2));
    let record = running.wait();
    assert_eq!((record.code, record.output_truncated), (Some(9), true));
    assert_eq!(lab.output(), format!("kept\n{marker}"));
}

#[test]
fn output_of_exactly_the_limit_is_not_truncated() {
    let mut lab = Lab::sh("printf 12345");
    lab.spec.max_output_bytes = 5;
    let record = lab.start().wait();
    assert!(!record.output_truncated);
    assert_eq!(lab.output(), "12345");
}

/// C45
#[test]
fn a_resumed_attempt_goes_on_behind_the_output() {
    let mut lab = Lab::sh("echo one");
    lab.start().wait();
    lab.spec.dir = lab.path("second");
    fs::create_dir(&lab.spec.dir).unwrap();
    fs::set_permissions(&lab.spec.dir, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    lab.spec.attempt = 2;
    lab.spec.append_output = true;
    lab.spec.argv[2] = "echo two >&2".to_owned();
    let record = lab.start().wait();
    assert_eq!(lab.output(), "one\ntwo\n");
    assert_eq!(record.output_bytes, 8);
    let spans = Index::open(&lab.spec.output_file).unwrap().spans(0..8).unwrap();
    let plain: Vec<_> = spans.iter().map(|span| (span.offset, span.len, span.stream)).collect();
    assert_eq!(plain, [(0, 4, Stream::Out), (4, 4, Stream::Err)]);
}

#[test]
fn a_second_file_of_that_name_is_not_overwritten() {
    let lab = Lab::sh("echo new");
    fs::write(&lab.spec.output_file, "old").unwrap();
    lab.fail();
    assert_eq!(lab.output(), "old");
}

/// OF-04
#[test]
fn the_index_tells_the_streams_apart_and_knows_the_time() {
    let mut lab = Lab::sh("echo a; read x; echo b >&2; read x; echo c");
    lab.spec.stdin = StdinKind::Pipe;
    let running = lab.start();
    let mut client = running.client_after("a\n");
    client.send(&DaemonLine::stdin(b"\n", false, 1));
    running.client_after("b\n").send(&DaemonLine::stdin(b"\n", false, 2));
    running.wait();
    let index = Index::open(&lab.spec.output_file).unwrap();
    let streams: Vec<_> = index.spans(0..6).unwrap().iter().map(|span| (span.len, span.stream)).collect();
    assert_eq!(streams, [(2, Stream::Out), (2, Stream::Err), (2, Stream::Out)]);
    assert_eq!(index.offset_since(0).unwrap(), Some(0));
    assert_eq!(index.offset_since(u64::MAX).unwrap(), None);
}

/// C42
#[test]
fn an_agent_that_floods_trips_the_breaker_and_goes_on() {
    let mut lab = Lab::sh("head -c 3000000 /dev/zero; exit 2");
    lab.spec.output_rate = 100_000;
    let record = lab.start().wait();
    assert_eq!(record.code, Some(2));
    assert!(record.output_truncated);
    assert!(record.output_bytes < 2_000_000, "{record:?}");
    assert!(lab.output().contains("[ccagent: more than 100000 bytes a second, some were dropped]"));
}

/// D49: a pipe end that somebody outside holds does not keep a task alive.
#[test]
fn a_stranger_that_holds_the_pipe_does_not_hang_the_shim() {
    let mut lab = Lab::sh("echo ready; read x; echo last; exit 0");
    lab.spec.stdin = StdinKind::Pipe;
    let running = lab.start();
    let mut client = running.client_after("ready");
    let held = fs::OpenOptions::new().write(true).open(format!("/proc/{}/fd/1", running.leader.pid)).unwrap();
    client.send(&DaemonLine::stdin(b"\n", false, 1));
    let record = running.wait();
    assert_eq!(record.code, Some(0));
    assert_eq!(lab.output(), "ready\nlast\n");
    drop(held);
}

/// I8, OF-06: the disk is full; the agent lives, and its end is told.
#[test]
fn a_full_disk_ends_the_output_and_not_the_agent() {
    let mut lab = Lab::sh("head -c 3000000 /dev/zero; echo still here >&2; exit 11");
    let Some(small) = small_disk(&lab, c"size=1m") else {
        return skip("a small disk can't be mounted here");
    };
    lab.spec.output_file = small.join("output");
    let record = lab.start().wait();
    let unmounted = rustix::mount::unmount(&small, rustix::mount::UnmountFlags::empty());
    assert_eq!(record.code, Some(11));
    assert!(record.output_truncated);
    assert!(record.output_error.is_some_and(|error| error.contains("space")));
    unmounted.expect("nobody holds the file");
}

/// C46, I8: output leaves room on the disk for others, the daemon's store among them.
#[test]
fn output_leaves_room_on_the_disk() {
    let mut lab = Lab::sh("head -c 30000000 /dev/zero; exit 11");
    let Some(small) = small_disk(&lab, c"size=16m") else {
        return skip("a small disk can't be mounted here");
    };
    lab.spec.output_file = small.join("output");
    let record = lab.start().wait();
    let disk = rustix::fs::statvfs(&small).unwrap();
    rustix::mount::unmount(&small, rustix::mount::UnmountFlags::empty()).expect("nobody holds the file");
    assert_eq!((record.code, record.output_truncated), (Some(11), true));
    assert!(disk.f_bavail * disk.f_frsize >= 2 << 20, "{} bytes are left", disk.f_bavail * disk.f_frsize);
}

/// I9: no end is hidden by an agent that filled the disk with the attempt's own directory on it.
#[test]
fn the_exit_record_has_its_room_on_a_full_disk() {
    let mut lab = Lab::sh("cat /dev/zero > small/fill; exit 12");
    let Some(small) = small_disk(&lab, c"size=1m") else {
        return skip("a small disk can't be mounted here");
    };
    lab.spec.dir = small.join("attempt");
    fs::create_dir(&lab.spec.dir).unwrap();
    fs::set_permissions(&lab.spec.dir, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let record = lab.start().wait();
    rustix::mount::unmount(&small, rustix::mount::UnmountFlags::empty()).expect("nobody holds a file");
    assert_eq!(record.code, Some(12));
}

/// OF-05
#[test]
fn output_is_announced_once_until_it_is_acknowledged() {
    let mut lab = Lab::sh("for i in 1 2 3; do read x; echo $i; done; read x");
    lab.spec.stdin = StdinKind::Pipe;
    let running = lab.start();
    let (mut client, state) = running.client();
    assert_eq!(state.output_bytes, 0);
    client.send(&DaemonLine::stdin(b"\n", false, 1));
    let mut lines = [client.next(), client.next()];
    lines.sort_by_key(|line| matches!(line, Some(ShimLine::Output(_))));
    assert!(matches!(lines[0], Some(ShimLine::StdinDone { seq: 1, error: None })));
    assert!(matches!(lines[1], Some(ShimLine::Output(OutputState { bytes: 2, .. }))));
    // Not acknowledged: the next line is the answer and no second announcement, however long "2" has been printed.
    client.send(&DaemonLine::stdin(b"\n", false, 2));
    assert!(matches!(client.next(), Some(ShimLine::StdinDone { seq: 2, error: None })));
    client.send(&DaemonLine::OutputAck {});
    assert!(matches!(client.next(), Some(ShimLine::Output(OutputState { bytes: 4, .. }))));
}

/// What the output has come to once some of it is dropped, as an agent's client is told.
fn truncated(running: &Running<'_>) -> OutputState {
    let (mut client, state) = running.client();
    let (bytes, truncated) = (state.output_bytes, state.output_truncated);
    let mut output = OutputState { bytes, truncated, error: state.output_error };
    while !output.truncated {
        match client.next() {
            Some(ShimLine::Output(now)) => output = now,
            other => panic!("{other:?}"),
        }
        client.send(&DaemonLine::OutputAck {});
    }
    output
}

/// OF-06, C46: that output is dropped, and why it is, is announced while the agent runs.
#[test]
fn dropped_output_is_announced_while_the_agent_runs() {
    let script = "read x; head -c 3000000 /dev/zero; read x";
    let mut lab = Lab::sh(script);
    lab.spec.stdin = StdinKind::Pipe;
    lab.spec.max_output_bytes = 4;
    let running = lab.start();
    running.client().0.send(&DaemonLine::stdin(b"\n", false, 1));
    assert_eq!(truncated(&running).error, None);
    drop(running);
    let mut lab = Lab::sh(script);
    let Some(small) = small_disk(&lab, c"size=1m") else {
        return skip("a small disk can't be mounted here");
    };
    lab.spec.stdin = StdinKind::Pipe;
    lab.spec.output_file = small.join("output");
    let running = lab.start();
    running.client().0.send(&DaemonLine::stdin(b"\n", false, 1));
    let output = truncated(&running);
    running.client().0.send(&DaemonLine::Kill {});
    running.wait();
    rustix::mount::unmount(&small, rustix::mount::UnmountFlags::empty()).expect("nobody holds the file");
    assert!(output.error.is_some_and(|error| error.contains("space")));
}
