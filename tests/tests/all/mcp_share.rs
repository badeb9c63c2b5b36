//! MCP servers that a lead has together with its teammates: one program for all, which ends with the last of them.

use std::fs;
use std::path::Path;

use ccagent_tests::process::{Process, assert_none};
use ccagent_tests::programs::fake_mcp;
use ccagent_tests::{Conn, PATIENCE};
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};

use super::agents::{World, agent, call, told};
use super::session_lead;

/// Makes a trusted repository of a directory, with a server that notes each of its beginnings in `began`, all that it
/// hears in `heard`, and with the pipes that it is met by.
pub(super) async fn serve(conn: &Conn, dir: &Path, pipes: &[&str]) {
    let line = format!("echo $$ >> began; exec {} --log heard", fake_mcp().display());
    let servers = json!({ "mcpServers": { "s": { "command": "sh", "args": ["-c", line] } } });
    fs::create_dir_all(dir.join(".git")).unwrap();
    fs::write(dir.join(".mcp.json"), servers.to_string()).unwrap();
    let found = conn.ok("trust.list", json!({ "cwd": dir })).await;
    let hashes: Vec<&Value> = found["items"].as_array().unwrap().iter().map(|item| &item["hash"]).collect();
    conn.ok("trust.add", json!({ "cwd": dir, "hashes": hashes })).await;
    for pipe in pipes {
        mkfifoat(CWD, dir.join(pipe), Mode::RUSR | Mode::WUSR).unwrap();
    }
}

pub(super) fn tool(name: &str, text: &str) -> String {
    call(&format!("mcp__s__{name}"), &json!({ "text": text }))
}

fn cat(pipe: &str) -> String {
    call("Bash", &json!({ "command": format!("cat {pipe}") }))
}

fn mate(name: &str, script: &str) -> String {
    let more = json!({ "name": name, "team_name": "red" });
    agent(&format!("{name} {script}"), more)
}

async fn read(dir: &Path, pipe: &str) {
    let path = dir.join(pipe);
    let said = tokio::task::spawn_blocking(move || fs::read_to_string(path).unwrap()).await.unwrap();
    assert_eq!(said, "called\n");
}

async fn go(dir: &Path, pipe: &str) {
    let path = dir.join(pipe);
    tokio::task::spawn_blocking(move || fs::write(path, "go\n").unwrap()).await.unwrap();
}

/// The server's process, of which there was one.
fn only(dir: &Path) -> Process {
    let began = fs::read_to_string(dir.join("began")).unwrap();
    assert_eq!(began.lines().count(), 1, "{began}");
    Process::open(began.trim().parse().unwrap()).expect("the server lives")
}

pub(super) fn heard(dir: &Path, what: &str) -> usize {
    fs::read_to_string(dir.join("heard")).unwrap().lines().filter(|line| *line == what).count()
}

const TEAM: &str = r#"[[tool:TeamCreate {"team_name":"red"}]]"#;

/// CX-17, SP-30, BE-04: a lead and two members have one program; who is stopped in the middle of a call takes nothing from
/// the others, whose calls have their own answers; the program ends by the end of its input once the last of them is done.
#[tokio::test]
async fn a_lead_and_two_members_have_one_server() {
    let world = World::start().await;
    let dir = world.home();
    serve(&world.conn, dir, &["met", "go"]).await;
    let lead = [
        "LEAD".to_owned(),
        TEAM.to_owned(),
        tool("echo", "of the lead"),
        mate("ann", &format!("{} [[say:never]]", tool("meet", "met"))),
        mate("bob", &format!("{} {} [[say:done]]", cat("go"), tool("echo", "of bob"))),
        "[[say:waiting]]".to_owned(),
    ];
    let id = world.spawn(&lead.join(" "), json!({})).await;
    read(dir, "met").await;
    let server = only(dir);
    let ann = world.conn.task("ann@red").await["id"].clone();
    world.conn.ok("task.stop", json!({ "taskId": ann, "force": true })).await;
    assert_eq!(world.conn.wait(ann.as_str().unwrap()).await["status"], "killed");
    go(dir, "go").await;
    let bob = world.conn.task("bob@red").await["id"].clone();
    assert_eq!(world.conn.wait(bob.as_str().unwrap()).await["status"], "completed");
    assert_eq!(world.conn.wait(&id).await["status"], "completed");
    assert!(told(world.requests("bob").last().unwrap()).contains("of bob"));
    assert!(told(&world.requests("LEAD")[2]).contains("of the lead"));
    assert!(server.ends_within(PATIENCE), "the server goes on");
    let counts = ["initialize", "tools/call", "notifications/cancelled", "end"].map(|what| heard(dir, what));
    assert_eq!(counts, [1, 3, 1, 1]);
    world.daemon.end().await;
}

/// CX-17, D62: whoever has a server is told that it ended, in the call that was under way and in the next one; nobody else
/// is, and all go on.
#[tokio::test]
async fn the_end_of_a_shared_server_is_told_to_all() {
    let world = World::start().await;
    let dir = world.home();
    serve(&world.conn, dir, &["met", "go", "on"]).await;
    let lead = [
        "LEAD".to_owned(),
        TEAM.to_owned(),
        mate("ann", &format!("{} [[say:done]]", tool("meet", "met"))),
        mate("bob", &format!("{} {} [[say:done]]", cat("go"), tool("die", ""))),
        cat("on"),
        tool("echo", "of the lead"),
        "[[say:done]]".to_owned(),
    ];
    let id = world.spawn(&lead.join(" "), json!({})).await;
    read(dir, "met").await;
    go(dir, "go").await;
    for name in ["ann", "bob"] {
        let task = world.conn.task(&format!("{name}@red")).await["id"].clone();
        assert_eq!(world.conn.wait(task.as_str().unwrap()).await["status"], "completed");
        let said = told(world.requests(name).last().unwrap());
        assert!(said.contains("The MCP server s has ended"), "{name}: {said}");
    }
    go(dir, "on").await;
    assert_eq!(world.conn.wait(&id).await["status"], "completed");
    let said = told(world.requests("LEAD").last().unwrap());
    assert!(said.contains("The MCP server s has ended"), "{said}");
    assert_eq!(heard(dir, "initialize"), 1);
    world.daemon.end().await;
}

/// CX-17, SP-14: the server of a session's lead goes on between its turns for as long as a member has it, and is the same
/// in the next turn; a daemon that is killed leaves nothing of it.
#[tokio::test]
async fn a_shared_server_outlives_a_turn_and_not_its_daemon() {
    let mut world = session_lead::World::start().await;
    let dir = world.daemon.home.path().to_owned();
    serve(&world.conn, &dir, &["met", "again"]).await;
    let more = json!({ "name": "ann", "team_name": "red", "run_in_background": true });
    let ann = agent(&format!("ann {} [[say:never]]", tool("meet", "met")), more);
    let mut events = world.conn.events(json!(["task"])).await;
    world.prompt(&format!("FIRST {TEAM} {ann} [[say:one]]")).await;
    world.sleeps(&mut events).await;
    read(&dir, "met").await;
    let server = only(&dir);
    world.prompt(&format!("SECOND {} {}", tool("echo", "x"), tool("meet", "again"))).await;
    read(&dir, "again").await;
    assert!(server.is_alive() && only(&dir).pid == server.pid);
    world.conn.ok("session.interrupt", json!({})).await;
    assert_eq!(world.conn.wait(&world.lead).await["status"], "killed");
    assert!(server.is_alive(), "the server ended with its lead's turn");
    world.daemon.crash();
    assert!(server.ends_within(PATIENCE), "the server goes on");
    assert_none(world.daemon.home.mark());
}
