//! MCP servers that change which tools they have, in the middle of a run.

use std::fs;

use serde_json::{Value, json};

use super::agents::{World, told};
use super::mcp_share::{heard, serve, tool};

/// The names of the server's tools in a request.
fn names(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().unwrap().iter();
    tools.filter_map(|tool| tool["name"].as_str()?.strip_prefix("mcp__s__")).collect()
}

/// TP-07, TP-17: what a server has by now is offered from the next request on, and what is gone is refused by that
/// word; a thousand notices between two requests are one list; and where the new list says the same in another order, no
/// byte of what leaves is another one.
#[tokio::test]
async fn tools_that_a_server_changes_are_there_with_the_next_request() {
    let world = World::start().await;
    serve(&world.conn, world.home(), &[]).await;
    let calls = [tool("change", "same"), tool("change", "other"), tool("added", ""), tool("picture", "")];
    let id = world.spawn(&format!("AGENT {} [[say:done]]", calls.join(" ")), json!({})).await;
    assert_eq!(world.conn.wait(&id).await["status"], "completed");
    let requests = world.requests("AGENT");
    assert_eq!(requests.len(), 5);
    assert_eq!(requests[0]["tools"].to_string(), requests[1]["tools"].to_string());
    let (before, after) = (names(&requests[1]), names(&requests[2]));
    assert!(before.contains(&"picture") && !before.contains(&"added"), "{before:?}");
    assert!(after.contains(&"added") && !after.contains(&"picture"), "{after:?}");
    assert_eq!(requests[2]["tools"].to_string(), requests[4]["tools"].to_string());
    let said = told(&requests[4]);
    assert!(
        said.contains("The tool mcp__s__picture is gone: its MCP server does not list it any more."),
        "{said}"
    );
    // Each list has two pages.
    assert_eq!(heard(world.home(), "tools/list"), 3 * 2);
    let output = world.conn.output(&id).await;
    assert!(output.contains("other tools now: new: mcp__s__added; gone: mcp__s__picture"), "{output}");
    world.daemon.end().await;
}

/// TP-07, TP-09, AD-17: a tool that comes later is held against the lists of the agent's definition, as those at the
/// beginning are.
#[tokio::test]
async fn a_tool_that_comes_later_may_be_denied() {
    let world = World::start().await;
    serve(&world.conn, world.home(), &[]).await;
    let agents = world.home().join(".claude/agents");
    fs::create_dir_all(&agents).unwrap();
    let own = "---\nname: mine\ndescription: d\ndisallowedTools: mcp__s__added\n---\nDo it.";
    fs::write(agents.join("mine.md"), own).unwrap();
    let calls = [tool("change", "other"), tool("added", ""), tool("echo", "still here")];
    let more = json!({ "subagentType": "mine" });
    let id = world.spawn(&format!("AGENT {} [[say:done]]", calls.join(" ")), more).await;
    assert_eq!(world.conn.wait(&id).await["status"], "completed");
    let requests = world.requests("AGENT");
    let after = names(&requests[1]);
    assert!(!after.contains(&"added") && !after.contains(&"picture") && after.contains(&"echo"), "{after:?}");
    let said = told(requests.last().unwrap());
    assert!(
        said.contains("There is no tool \"mcp__s__added\" for you") && said.contains("still here"),
        "{said}"
    );
    world.daemon.end().await;
}
