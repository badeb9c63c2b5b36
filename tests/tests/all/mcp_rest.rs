//! MCP servers of a session: its lead has them over its turns, with its teammates, until it is stopped or closed.

use std::fs;

use ccagent_tests::PATIENCE;
use ccagent_tests::process::{Process, marked};
use ccagent_tests::programs::fake_mcp;
use serde_json::{Value, json};

use super::session_lead::{World, agent};

/// A session's lead in a place that has a server, which is trusted. The server writes down what it hears.
async fn world() -> World {
    let world = World::start().await;
    let home = world.daemon.home.path();
    let server = json!({ "command": fake_mcp(), "args": ["--log", home.join("heard")] });
    fs::create_dir(home.join(".git")).unwrap();
    fs::write(home.join(".mcp.json"), json!({ "mcpServers": { "all": server } }).to_string()).unwrap();
    let found = world.conn.ok("trust.list", json!({ "cwd": home })).await;
    let hashes: Vec<&Value> = found["items"].as_array().unwrap().iter().map(|item| &item["hash"]).collect();
    world.conn.ok("trust.add", json!({ "cwd": home, "hashes": hashes })).await;
    world
}

/// The server's program.
fn server(world: &World) -> Process {
    marked(world.daemon.home.join("heard").to_str().unwrap()).pop().unwrap()
}

/// How often the server heard something.
fn heard(world: &World, what: &str) -> usize {
    let heard = fs::read_to_string(world.daemon.home.join("heard")).unwrap();
    heard.lines().filter(|line| *line == what).count()
}

fn echo(text: &str) -> String {
    format!("[[tool:mcp__all__echo {}]]", json!({ "text": text }))
}

const TEAM: &str = r#"[[tool:TeamCreate {"team_name":"red","description":"d"}]]"#;

fn mate(name: &str, prompt: &str) -> String {
    agent(prompt, json!({ "name": name, "team_name": "red" }))
}

/// CX-17, SP-30, BE-04: a lead and two teammates speak with one program of a server, over the lead's turns, which can show
/// itself as none of them; it ends once, with the session.
#[tokio::test]
async fn a_lead_and_its_mates_have_one_server() {
    let world = world().await;
    let mates = ["ann", "bob"].map(|name| {
        let token = r#"[[tool:mcp__all__env {"text":"CCAGENT_TOKEN"}]]"#;
        let prompt = format!("MATE {} {token} [[say:{name} is done]]", echo(&format!("of {name}")));
        mate(name, &prompt)
    });
    let prompt = format!("LEAD {} {TEAM} {} [[say:begun]]", echo("of the lead"), mates.concat());
    world.prompt(&prompt).await;
    assert_eq!(world.conn.wait(&world.lead).await["status"], "completed");
    let results: String = world.bodies().map(|body| body["messages"].to_string()).collect();
    for said in ["of the lead", "of ann", "of bob", "not set"] {
        assert!(results.contains(&format!(r#""content":"{said}""#)), "{said}");
    }
    assert_eq!((heard(&world, "initialize"), heard(&world, "end")), (1, 0));
    let server = server(&world);
    world.conn.ok("session.close", json!({ "sessionId": world.session })).await;
    assert!(server.ends_within(PATIENCE));
    assert_eq!((heard(&world, "initialize"), heard(&world, "end")), (1, 1));
    world.daemon.end().await;
}

/// What a mate does while it is waited for, and that its lead hears of it.
const WORK: &str = r#"[[tool:Bash {"command":"echo up > began; cat go"}]]"#;

/// CX-17, AB-03: a lead that is stopped between two turns leaves no server behind.
#[tokio::test]
async fn a_stop_between_two_turns_ends_the_server() {
    let world = world().await;
    for name in ["began", "go"] {
        world.pipe(name);
    }
    let mut events = world.conn.events(json!(["task"])).await;
    let mate = mate("ann", &format!("MATE {WORK} [[say:done]]"));
    world.prompt(&format!("LEAD {} {TEAM} {mate} [[say:waiting]]", echo("first"))).await;
    assert_eq!(world.read("began").await, "up\n");
    world.sleeps(&mut events).await;
    let server = server(&world);
    world.conn.ok("task.stop", json!({ "taskId": world.lead })).await;
    assert!(server.ends_within(PATIENCE));
    assert_eq!((heard(&world, "initialize"), heard(&world, "end")), (1, 1));
    world.daemon.end().await;
}

/// CX-17, TP-07: a server that died under one of them is nobody's any more; who comes later has a new one, and one alone.
#[tokio::test]
async fn who_comes_after_a_dead_server_has_a_new_one() {
    let world = world().await;
    let first = mate("ann", "MATE [[tool:mcp__all__die {}]] [[say:it died]]");
    let second = mate("bob", &format!("MATE {} [[say:done]]", echo("of bob")));
    let prompt = format!(
        "LEAD {TEAM} {first} [[say:waiting]] {} {second} [[say:waiting]] [[say:all is done]]",
        echo("of the lead")
    );
    world.say(&prompt).await;
    let results: String = world.bodies().map(|body| body["messages"].to_string()).collect();
    for said in ["has ended", r#""content":"of the lead""#, r#""content":"of bob""#] {
        assert!(results.contains(said), "{said}");
    }
    assert_eq!(heard(&world, "initialize"), 2);
    world.daemon.end().await;
}
