//! `ccagentctl attach` at a real terminal: that of an agent, which attaches to a child of its own.

use ccagent_tests::{Conn, Daemon, programs};
use serde_json::json;

/// The key that leaves, and the interrupt.
const LEAVE: &str = "\u{1d}";
const INTERRUPT: &str = "\u{3}";

/// An agent with a terminal, in which this program was started in the background and is attached to.
async fn attached(conn: &Conn, options: &str, program: &str, attach: &str) -> String {
    let ctl = programs::client().display().to_string();
    let script = format!(
        "trap : INT; id=$({ctl} exec -d -q {options} -- /bin/sh -c \"$0\"); {ctl} attach {attach} $id; echo left $?; \
         {ctl} kill -q $id; cat"
    );
    conn.spawn(&["/bin/sh", "-c", &script, program], json!({ "stdin": "pty" })).await
}

async fn write(conn: &Conn, id: &str, text: &str) {
    conn.ok("task.write", json!({ "taskId": id, "text": text })).await;
}

/// cli.md, `attach`: an agent that takes no input is left by the key and by an interrupt, after keys that went nowhere
/// as well; its lines begin at the edge.
#[tokio::test]
async fn an_agent_without_input_can_always_be_left() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    for (key, code) in [(LEAVE, "left 0\r\n"), (INTERRUPT, "left 130\r\n")] {
        for attach in ["", "--read-only"] {
            let id = attached(&conn, "", "echo one; echo two; exec sleep 600", attach).await;
            let banner = if attach.is_empty() { "it takes no input" } else { "watching" };
            let seen = conn.see(&id, banner).await;
            assert!(seen.contains("leaves it running") || banner == "watching", "{seen}");
            assert!(conn.see(&id, "two\r\n").await.contains("one\r\ntwo\r\n"));
            write(&conn, &id, "typed\n").await;
            write(&conn, &id, key).await;
            conn.see(&id, code).await;
        }
    }
    daemon.end().await;
}

/// cli.md, `attach`: an agent that reads nothing of what is typed is left by the key all the same.
#[tokio::test]
async fn an_agent_that_reads_nothing_can_be_left() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = attached(&conn, "-t", "stty raw -echo; echo set; exec sleep 600", "").await;
    conn.see(&id, "set").await;
    for _ in 0..20 {
        write(&conn, &id, &"x".repeat(4000)).await;
    }
    write(&conn, &id, LEAVE).await;
    conn.see(&id, "left 0\r\n").await;
    daemon.end().await;
}

/// cli.md, `attach --detach-key`: another key leaves, with a terminal and without, also one that a terminal keeps to
/// itself.
#[tokio::test]
async fn another_key_leaves() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    for options in ["", "-t"] {
        let id = attached(&conn, options, "echo ready; exec sleep 600", "--detach-key ctrl-d").await;
        conn.see(&id, "ready").await;
        write(&conn, &id, "\u{4}").await;
        conn.see(&id, "left 0\r\n").await;
    }
    daemon.end().await;
}
