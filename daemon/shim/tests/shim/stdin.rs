//! Stdin: a pipe, a terminal or nothing.

use ccagent_shim::{
    index::{Index, Stream},
    wire::{DaemonLine, MAX_STDIN, ShimLine, StdinError, StdinKind},
};

use crate::harness::Lab;

/// C42
#[test]
fn an_agent_without_stdin_reads_its_end() {
    let lab = Lab::sh("read line; echo $?; echo ready; trap 'exit 0' TERM; sleep 1000 & wait");
    let running = lab.start();
    let mut client = running.client_after("ready");
    assert!(lab.output().starts_with("1\n"));
    client.send(&DaemonLine::stdin(b"x", false, 1));
    let closed = ShimLine::StdinDone { seq: 1, error: Some(StdinError::Closed) };
    assert_eq!(client.next_fact(), Some(closed));
}

#[test]
fn bytes_reach_the_agent_in_order_until_the_end() {
    let mut lab = Lab::sh("");
    lab.spec.argv = vec!["cat".to_owned()];
    lab.spec.stdin = StdinKind::Pipe;
    let running = lab.start();
    let (mut client, state) = running.client();
    assert_eq!(state.stdin_seq, None);
    let text: String = (0..20_000).flat_map(|number: u32| [number.to_string(), "\n".to_owned()]).collect();
    let mut settled = 0;
    for (seq, part) in (1..).zip(text.as_bytes().chunks(50_000)) {
        client.send(&DaemonLine::stdin(part, false, seq));
        let Some(ShimLine::StdinDone { seq: done, error: None }) = client.next_fact() else {
            panic!("{seq}")
        };
        assert_eq!(done, seq);
        settled = seq;
    }
    let (mut client, state) = running.client();
    assert_eq!(state.stdin_seq, Some(settled));
    client.send(&DaemonLine::stdin(b"last", true, 99));
    assert_eq!(running.wait().code, Some(0));
    assert_eq!(lab.output(), format!("{text}last"));
}

/// I8
#[test]
fn an_agent_that_does_not_read_fills_a_bounded_buffer() {
    let mut lab = Lab::sh("echo ready; read x < fifo; cat > /dev/null; exit 0");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        lab.path("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    lab.spec.stdin = StdinKind::Pipe;
    let running = lab.start();
    let mut client = running.client_after("ready");
    let part = vec![b'x'; MAX_STDIN];
    client.send(&DaemonLine::stdin(&part, false, 1));
    client.send(&DaemonLine::stdin(&part, false, 2));
    let full = ShimLine::StdinDone { seq: 2, error: Some(StdinError::Full) };
    assert_eq!(client.next_fact(), Some(full));
    // A client that comes later knows what was taken, and needs to say it neither again nor twice.
    let (mut client, state) = running.client();
    assert_eq!((state.stdin_seq, state.stdin_waiting), (None, Some(1)));
    std::fs::write(lab.path("fifo"), "\n").unwrap();
    assert_eq!(client.next_fact(), Some(ShimLine::StdinDone { seq: 1, error: None }));
    client.send(&DaemonLine::stdin(b"", true, 3));
    assert_eq!(running.wait().code, Some(0));
}

#[test]
fn an_agent_that_closed_its_stdin_is_told_apart() {
    let mut lab = Lab::sh("exec <&-; echo ready; sleep 1000");
    lab.spec.stdin = StdinKind::Pipe;
    let running = lab.start();
    let mut client = running.client_after("ready");
    client.send(&DaemonLine::stdin(b"x", false, 1));
    let closed = ShimLine::StdinDone { seq: 1, error: Some(StdinError::Closed) };
    assert_eq!(client.next_fact(), Some(closed));
}

#[test]
fn a_terminal_has_the_size_it_is_given() {
    let mut lab = Lab::sh(
        "trap 'echo resized' WINCH; stty size; tty; echo ready; until read x; do :; done; \
         echo \"got $x\"; stty size; cat > /dev/null; echo end",
    );
    lab.spec.stdin = StdinKind::Pty;
    lab.spec.cols = Some(100);
    lab.spec.rows = Some(30);
    let running = lab.start();
    let mut client = running.client_after("ready");
    assert!(lab.output().starts_with("30 100\r\n/dev/pts/"), "{}", lab.output());
    client.send(&DaemonLine::Resize { cols: 120, rows: 40 });
    client.send(&DaemonLine::stdin(b"hello\n", false, 1));
    client.await_output(&lab, "got hello");
    client.await_output(&lab, "40 120");
    assert!(lab.output().contains("resized"));
    client.send(&DaemonLine::stdin(b"", true, 2));
    let record = running.wait();
    assert_eq!(record.code, Some(0));
    assert!(lab.output().ends_with("end\r\n"), "{}", lab.output());
    let spans = Index::open(&lab.spec.output_file).unwrap().spans(0..record.output_bytes).unwrap();
    assert_eq!(spans.iter().map(|span| span.stream).collect::<Vec<_>>(), [Stream::Pty]);
}

#[test]
fn a_terminal_is_the_agents_controlling_one() {
    let mut lab = Lab::sh("echo owned > /dev/tty; test -t 0 && test -t 1 && test -t 2 && echo three");
    lab.spec.stdin = StdinKind::Pty;
    assert_eq!(lab.start().wait().code, Some(0));
    assert_eq!(lab.output(), "owned\r\nthree\r\n");
}
