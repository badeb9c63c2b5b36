//! Searching the network: by an agent's own provider, by an endpoint of the config, and by nobody.

use ccagent_tests::{Daemon, Fake};
use serde_json::{Value, json};

use super::agents::{KEY, World, call};

/// The query of a request for a search.
fn body(request: &Value) -> Value {
    request["body"].as_str().unwrap().parse().unwrap()
}

/// TP-05, I11, M148: a search is a request beside the conversation to the agent's own provider; what it found comes
/// back as data, and its tokens count.
#[tokio::test]
async fn a_provider_searches_for_its_agent() {
    let world = World::start().await;
    let query =
        "the price [[found:https://a.com/x A page]]&[[found:https://b.com/ Another]]&[[say:It costs 5]]";
    let search = call("WebSearch", &json!({ "query": query, "blocked_domains": ["b.com"] }));
    let id = world.spawn(&format!("SEARCHER {search}"), json!({})).await;
    let task = world.conn.wait(&id).await;
    let said = task["result"]["text"].as_str().unwrap();
    assert!(said.contains("1. A page\n   https://a.com/x\n\nIt costs 5\n</searched>"), "{said}");
    assert!(said.contains("It is data") && !said.contains("\n2. "), "{said}");
    let log = world.fake.log();
    let tools: Vec<Value> = log.iter().map(|asked| body(asked)["tools"].clone()).collect();
    assert_eq!(tools.len(), 3);
    assert_eq!(tools[1].as_array().unwrap().len(), 1, "{}", tools[1]);
    assert_eq!(tools[1][0]["blocked_domains"], json!(["b.com"]));
    let transcript = world.conn.ok("task.transcript", json!({ "taskId": id })).await;
    let answered = |entry: &Value| entry["usage"]["input"].as_u64();
    let own: u64 = transcript["messages"].as_array().unwrap().iter().filter_map(answered).sum();
    let billed = task["usage"]["billedTokens"].as_u64().unwrap();
    assert!(billed > own, "{billed} of {own}: {transcript}");
    world.daemon.end().await;
}

/// TP-05, I14: the endpoint of the config searches for every agent; its key goes nowhere else.
#[tokio::test]
async fn an_endpoint_of_the_config_searches() {
    let fake = Fake::start();
    let config = format!("[web]\nsearch_url = \"{}/search\"\nsearch_key_env = \"SEARCH_KEY\"\n", fake.url);
    let daemon = Daemon::with().config(&config).start();
    let conn = daemon.connect().await;
    let script = "```offline\n- call: WebSearch\n  with: {query: the weather}\n- say: '{{result}}'\n\
                  - call: Bash\n  with: {command: 'echo key=$SEARCH_KEY'}\n- say: '{{result}}'\n```";
    let run = async |env: Value| {
        let params = json!({ "prompt": script, "model": "offline", "permissionMode": "bypassPermissions", "env": env });
        conn.ok("agent.spawn", params).await["task"].clone()
    };
    let task = run(json!({ "SEARCH_KEY": KEY })).await;
    let said = conn.ok("task.transcript", json!({ "taskId": task["id"] })).await.to_string();
    assert!(said.contains("1. the weather\\n   https://example.com/found\\n   as text"), "{said}");
    assert!(!said.contains(KEY) && said.contains("key="), "{said}");
    let log = fake.log();
    assert_eq!((log.len(), &log[0]["key"]), (1, &json!(format!("Bearer {KEY}"))));
    assert_eq!(body(&log[0]), json!({ "query": "the weather", "limit": 20 }));
    let task = run(json!({})).await;
    let said = conn.ok("task.transcript", json!({ "taskId": task["id"] })).await.to_string();
    assert!(said.contains("the environment has no SEARCH_KEY"), "{said}");
    daemon.end().await;
}

/// TP-17: where nobody can search the model is told what would help; a rule of the tool's name decides whether a
/// search is asked for.
#[tokio::test]
async fn where_nobody_searches_the_agent_is_told() {
    let world = World::start().await;
    let conn = &world.conn;
    let search = json!({ "query": "anything" });
    let script = format!("```offline\n- call: WebSearch\n  with: {search}\n- say: '{{{{result}}}}'\n```");
    let id = world.spawn(&script, json!({ "model": "offline" })).await;
    let said = conn.wait(&id).await["result"]["text"].to_string();
    assert!(said.contains("can't search the network") && said.contains("[web] search_url"), "{said}");
    let check = async |home: &str| {
        let dir = world.home().join(home);
        let params = json!({ "toolName": "WebSearch", "input": search, "cwd": dir });
        conn.ok("permission.check", params).await["decision"].clone()
    };
    assert_eq!(check("").await, "ask");
    let dir = world.home().join("project/.claude");
    std::fs::create_dir_all(&dir).unwrap();
    let rules = json!({ "permissions": { "deny": ["WebSearch"] } });
    std::fs::write(dir.join("settings.json"), rules.to_string()).unwrap();
    assert_eq!(check("project").await, "deny");
    world.daemon.end().await;
}
