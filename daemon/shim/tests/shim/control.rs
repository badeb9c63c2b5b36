//! The control socket: clients come and go, the agent does not notice.

use std::os::unix::fs::PermissionsExt;

use ccagent_shim::{
    files,
    wire::{DaemonLine, ResizeError, ShimLine, StdinKind},
};

use crate::harness::Lab;

fn waiting() -> Lab {
    let mut lab = Lab::sh("echo ready; read line; echo \"got $line\"; exit 1");
    lab.spec.stdin = StdinKind::Pipe;
    lab
}

/// I16, I9: what a daemon does that was killed and comes back.
#[test]
fn a_client_may_vanish_and_come_back() {
    let lab = waiting();
    let running = lab.start();
    for _ in 0..20 {
        drop(running.connect());
        drop(running.client());
    }
    let (mut client, state) = running.client();
    assert_eq!((state.descendants, state.leader_exited), (1, None));
    client.send(&DaemonLine::stdin(b"x\n", false, 1));
    assert_eq!(running.wait().code, Some(1));
    assert_eq!(lab.output(), "ready\ngot x\n");
}

/// I11
#[test]
fn a_wrong_token_is_refused_and_the_client_keeps_its_place() {
    let lab = waiting();
    let running = lab.start();
    let (mut client, _) = running.client();
    let mut stranger = running.connect();
    stranger.send(&DaemonLine::Hello { token: "guess".to_owned() });
    assert!(matches!(stranger.next(), Some(ShimLine::Refused { .. })));
    assert_eq!(stranger.next(), None);
    let mut impatient = running.connect();
    impatient.send(&DaemonLine::Kill {});
    assert!(matches!(impatient.next(), Some(ShimLine::Refused { .. })));
    client.send(&DaemonLine::stdin(b"y\n", false, 1));
    assert!(matches!(client.next_fact(), Some(ShimLine::StdinDone { seq: 1, error: None })));
    assert_eq!(running.wait().code, Some(1));
}

#[test]
fn a_newer_client_takes_the_place_of_the_older() {
    let lab = waiting();
    let running = lab.start();
    let (mut older, _) = running.client();
    let (mut newer, _) = running.client();
    assert_eq!(older.next_fact(), None);
    newer.send(&DaemonLine::stdin(b"z\n", false, 1));
    assert_eq!(running.wait().code, Some(1));
}

#[test]
fn nonsense_ends_the_connection_and_nothing_else() {
    let lab = waiting();
    let running = lab.start();
    for nonsense in [&b"{\"type\":\"dance\"}\n"[..], b"\xff\xfe\n", b"{\"type\":\"kill\",\"extra\":1}\n"] {
        let (mut client, _) = running.client();
        client.send_bytes(nonsense);
        assert_eq!(client.next_fact(), None);
    }
    let (mut client, _) = running.client();
    client.send_bytes(&[b'[', b'\n'].repeat(10));
    let (mut client, state) = running.client();
    assert_eq!(state.descendants, 1);
    client.send(&DaemonLine::stdin(b"\n", false, 1));
    assert_eq!(running.wait().code, Some(1));
}

/// I8, I16
#[test]
fn a_client_that_never_reads_is_dropped() {
    let lab = waiting();
    let running = lab.start();
    let (mut client, _) = running.client();
    let ask = ccagent_shim::wire::encode(&DaemonLine::stdin(b"", false, 7)).unwrap();
    // Each is answered, nobody reads the answers: the shim hangs up before they are too many.
    let flood = ask.repeat(1000);
    let dropped = (0..100).any(|_| client.try_send_bytes(&flood).is_err());
    assert!(dropped, "the shim kept a client that does not read");
    let (mut client, state) = running.client();
    assert_eq!(state.descendants, 1);
    client.send(&DaemonLine::stdin(b"\n", false, 8));
    assert_eq!(running.wait().code, Some(1));
}

/// I16: the last line may go nowhere.
#[test]
fn a_client_that_reads_nothing_does_not_delay_the_end() {
    let lab = waiting();
    let running = lab.start();
    let (mut client, _) = running.client();
    client.send(&DaemonLine::stdin(b"\n", false, 1));
    assert_eq!(running.wait().code, Some(1));
    drop(client);
}

#[test]
fn socket_and_files_are_for_us_alone() {
    let lab = waiting();
    let running = lab.start();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for name in [files::CONTROL, files::SHIM, files::CLAIM] {
        assert_eq!(mode(&lab.spec.dir.join(name)), 0o600, "{name}");
    }
    assert_eq!(mode(&lab.spec.output_file), 0o600);
    running.client().0.send(&DaemonLine::Kill {});
    running.wait();
    assert_eq!(mode(&lab.spec.dir.join(files::EXIT)), 0o600);
    let mut left: Vec<_> =
        std::fs::read_dir(&lab.spec.dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, [files::CLAIM, files::EXIT, files::SHIM]);
}

/// CD-03, I2: whoever sets a size hears whether there is a terminal that has it now.
#[test]
fn a_new_size_is_answered() {
    for (stdin, error) in [(StdinKind::Pipe, Some(ResizeError::NoTerminal)), (StdinKind::Pty, None)] {
        let mut lab = Lab::sh("read line; stty size");
        lab.spec.stdin = stdin;
        let running = lab.start();
        let (mut client, _) = running.client();
        client.send(&DaemonLine::Resize { cols: 99, rows: 33 });
        assert_eq!(client.next_fact(), Some(ShimLine::Resized { cols: 99, rows: 33, error }));
        client.send(&DaemonLine::stdin(b"\n", false, 1));
        client.exited();
        running.wait();
        assert_eq!(lab.output().contains("33 99"), error.is_none());
    }
}
