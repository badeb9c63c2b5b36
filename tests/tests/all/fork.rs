//! Forks: what leaves for a provider, what they may not do, and what becomes of them when the daemon ends.

use ccagent_tests::Daemon;
use ccagent_tests::conn::next;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::agents::{KEY, World, call, text};

/// What a fork is told begins with this.
const SENTINEL: &str = "<fork-child-context>";
const PLACEHOLDER: &str = "Fork started \u{2014} processing in background";

/// A call that makes a fork: it names no type.
fn fork(prompt: &str) -> String {
    call("Agent", &json!({ "description": "a part", "prompt": prompt }))
}

/// The bodies of requests of forks whose task begins with a word, or of those that are no forks.
fn bodies(world: &World, task: Option<&str>) -> Vec<String> {
    let log = world.fake.log();
    let all = log.iter().map(|asked| asked["body"].as_str().unwrap().to_owned());
    all.filter(|body| match (body.find(SENTINEL), task) {
        (Some(at), Some(task)) => body[at..].contains(&format!("\\n\\n{task}")),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    })
    .collect()
}

/// The part of a body before what a fork is told.
fn prefix(body: &str) -> &str {
    body.split_once(SENTINEL).unwrap().0
}

fn parsed(body: &str) -> Value {
    body.parse().unwrap()
}

/// The task of a child with this in its description or prompt.
async fn children(world: &World, parent: &str) -> Vec<Value> {
    let listed = world.conn.ok("task.list", json!({ "parentId": parent, "all": true })).await;
    listed["tasks"].as_array().unwrap().clone()
}

/// FK-01 … FK-06, FK-09, FK-19, FK-23, SP-04, MD-05, NT-09: two forks of one answer send the bytes of their parent up to
/// what each is told: its model, system prompt, tools and turns, and one result for each open call. The second one is held
/// back until the first one's answer has begun, and reads all of that from the cache. Their ends come as notices.
#[tokio::test]
async fn forks_send_the_bytes_of_their_parent() {
    let world = World::start().await;
    let parts = [
        fork("PART-A [[wait:300]] [[say:Scope: a. alpha]]"),
        fork("PART-B [[wait:300]] [[say:Scope: b. beta]]"),
    ];
    let prompt = format!("PARENT [[think:hm]] {} [[say:waiting]] [[say:more]] [[say:end]]", parts.join("&"));
    let id = world.spawn(&prompt, json!({})).await;
    assert_eq!(world.conn.wait(&id).await["status"], "completed");
    let (a, b, parents) =
        (bodies(&world, Some("PART-A")), bodies(&world, Some("PART-B")), bodies(&world, None));
    assert_eq!((a.len(), b.len()), (1, 1));
    assert_eq!(prefix(&a[0]), prefix(&b[0]));
    let head = |body: &str| body.split_once("\"messages\":").unwrap().0.to_owned();
    assert_eq!(head(&a[0]), head(&parents[0]), "model, tools and system prompt");

    let (child, parent) = (parsed(&a[0]), parsed(parents.last().unwrap()));
    let (turns, told) = (child["messages"].as_array().unwrap(), parent["messages"].as_array().unwrap());
    assert_eq!(turns.len(), 3);
    assert_eq!(turns[1], told[1], "thoughts and calls");
    let last = turns[2]["content"].as_array().unwrap();
    let calls = told[1]["content"].as_array().unwrap().iter().filter(|block| block["type"] == "tool_use");
    let ids: Vec<&Value> = calls.map(|call| &call["id"]).collect();
    assert_eq!((turns[2]["role"].as_str(), last.len(), ids.len()), (Some("user"), 3, 2));
    for (at, id) in ids.iter().enumerate() {
        assert_eq!((&last[at]["type"], &last[at]["tool_use_id"]), (&json!("tool_result"), *id));
        assert_eq!(text(&last[at]["content"]), PLACEHOLDER);
    }
    assert!(last[2]["text"].as_str().unwrap().starts_with(SENTINEL));
    assert_eq!(a[0].matches(SENTINEL).count(), 1);
    let heard = parents.last().unwrap();
    assert!(heard.contains("It goes on in the background") && heard.contains("Scope: a. alpha"), "{heard}");
    assert!(heard.contains("Scope: b. beta"), "{heard}");

    let mut written = Vec::new();
    for fork in children(&world, &id).await {
        assert_eq!(
            (&fork["agentType"], &fork["permissionMode"]),
            (&json!("fork"), &json!("bubble")),
            "{fork}"
        );
        let transcript = world.conn.ok("task.transcript", json!({ "taskId": fork["id"] })).await;
        let turns = transcript["messages"].as_array().unwrap().clone();
        let usage = turns.iter().find_map(|turn| turn.get("usage")).unwrap().clone();
        assert!(usage["cache_read"].as_u64().unwrap() > 0, "{usage}");
        written.push(usage["cache_write"].as_u64().unwrap());
    }
    written.sort_unstable();
    assert!(written[0] == 0 && written[1] > 0, "one writes the cache, the other one reads it: {written:?}");
    world.daemon.end().await;
}

/// FK-06, C10: over chat completions each open call has a message of its own, and what the fork is told stands behind all of
/// them.
#[tokio::test]
async fn over_chat_completions_each_call_has_a_message() {
    let world = World::start().await;
    let parts = [fork("PART-A [[say:Scope: a]]"), fork("PART-B [[say:Scope: b]]")];
    let env = json!({ "OPENAI_BASE_URL": format!("{}/v1", world.fake.url), "OPENAI_API_KEY": KEY, "HOME": world.home() });
    let prompt = format!("PARENT {} [[say:waiting]] [[say:more]] [[say:end]]", parts.join("&"));
    let id = world.spawn(&prompt, json!({ "model": "openai/some-model", "env": env })).await;
    assert_eq!(world.conn.wait(&id).await["status"], "completed");
    let (a, b) = (bodies(&world, Some("PART-A")), bodies(&world, Some("PART-B")));
    assert_eq!(prefix(&a[0]), prefix(&b[0]));
    let child = parsed(&a[0]);
    let roles: Vec<&str> =
        child["messages"].as_array().unwrap().iter().filter_map(|turn| turn["role"].as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "user"]);
    let calls = child["messages"][2]["tool_calls"].as_array().unwrap();
    for at in 0..2 {
        let result = &child["messages"][3 + at];
        assert_eq!(
            (&result["tool_call_id"], text(&result["content"])),
            (&calls[at]["id"], PLACEHOLDER.to_owned())
        );
    }
    assert_eq!(
        (&child["model"], &child["tools"]),
        (&json!("some-model"), &parsed(&bodies(&world, None)[0])["tools"])
    );
    world.daemon.end().await;
}

/// FK-10, FK-17, FK-18, FK-20, FK-23, TP-17, FK-15: what a fork may not do it is offered, and refused when it does it; a
/// report that does not begin as it should is flagged, and its result says how it went.
#[tokio::test]
async fn a_fork_is_refused_what_it_may_not_do() {
    let world = World::start().await;
    let calls = [
        call("Agent", &json!({ "description": "d", "prompt": "GRANDCHILD [[say:no]]" })),
        call("SendMessage", &json!({ "to": "main", "message": "m" })),
        call("AskUserQuestion", &json!({ "questions": [] })),
        call("Glob", &json!({ "pattern": "*.none" })),
    ];
    let bad = fork(&format!("PART-A {} [[say:all done]]", calls.join("&")));
    let good = fork("PART-B [[say:Scope: b]]");
    let id = world
        .spawn(&format!("PARENT {bad}&{good} [[say:waiting]] [[say:more]] [[say:end]]"), json!({}))
        .await;
    assert_eq!(world.conn.wait(&id).await["status"], "completed");
    let results = parsed(&bodies(&world, Some("PART-A"))[1]);
    let results = results["messages"][4]["content"].as_array().unwrap().clone();
    for (result, tool) in results.iter().zip(["Agent", "SendMessage", "AskUserQuestion"]) {
        let said = text(&result["content"]);
        assert!(said.contains(&format!("There is no tool \"{tool}\" for you")), "{said}");
    }
    assert!(results[3].get("is_error").is_none(), "{}", results[3]);
    let offered = parsed(&bodies(&world, Some("PART-A"))[0])["tools"].to_string();
    assert!(offered.contains("\"Agent\"") && offered.contains("\"SendMessage\""), "{offered}");
    assert!(
        bodies(&world, None).iter().all(|body| parsed(body)["messages"][0].to_string().contains("PARENT"))
    );
    for fork in children(&world, &id).await {
        let (result, of) = (&fork["result"], &fork["result"]["metadata"]);
        let good = result["text"] == "Scope: b";
        assert_eq!(result["warnings"].as_array().map(Vec::len), (!good).then_some(1), "{fork}");
        assert_eq!((&of["ok"], &of["maxTurnsReached"]), (&json!(true), &json!(false)), "{fork}");
        assert_eq!(
            (&of["childAgentId"], &of["messages"]),
            (&fork["id"], &json!(if good { 2 } else { 4 })),
            "{fork}"
        );
        assert!(of["tokensUsed"].as_u64().unwrap() > 0);
    }
    world.daemon.end().await;
}

/// What a program says that an agent runs.
fn rpc(world: &World, method: &str, params: &Value) -> String {
    let ctl = world.daemon.home.ctl(&[]).get_program().to_str().unwrap().to_owned();
    format!("{ctl} rpc {method} '{params}'")
}

/// FK-01, FK-03, FK-07, FK-11, FK-12, FK-13, FK-19, FB-07, SP-38, C6: what a fork would be told is known before, and what leaves then has
/// the hash that was said; inside a fork there is no fork, and without a conversation neither.
#[tokio::test]
async fn a_fork_is_explained_as_it_is_made() {
    let world = World::start().await;
    let of =
        |prompt: &str| json!({ "subagentType": "fork", "prompt": prompt, "name": "ann", "model": "other" });
    std::fs::write(world.home().join("inside.sh"), rpc(&world, "agent.explain", &of("x")) + " 2>&1").unwrap();
    let inside = call("Bash", &json!({ "command": "sh inside.sh" }));
    let env = json!({ "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": world.fake.url });
    let made =
        json!({ "subagentType": "fork", "prompt": format!("PART-A {inside}"), "name": "ann", "env": env });
    let script = [
        rpc(&world, "agent.explain", &of("one")) + " > one.json",
        rpc(&world, "agent.explain", &of("two")) + " > two.json",
        rpc(&world, "agent.spawn", &made),
    ];
    std::fs::write(world.home().join("all.sh"), script.join("\n")).unwrap();
    let prompt =
        format!("PARENT {} [[say:waiting]] [[say:end]]", call("Bash", &json!({ "command": "sh all.sh" })));
    let id = world.spawn(&prompt, json!({})).await;
    assert_eq!(world.conn.wait(&id).await["status"], "completed");
    let heard = bodies(&world, None)[1].clone();
    assert!(heard.contains("async_launched"), "a fork is in the background, whatever was asked: {heard}");
    let read = |name: &str| parsed(&std::fs::read_to_string(world.home().join(name)).unwrap());
    let (one, two) = (read("one.json"), read("two.json"));
    assert_eq!(
        (&one["route"], &one["permissionMode"], &one["modelSource"]),
        (&json!("fork"), &json!("bubble"), &json!("parent"))
    );
    assert!(one["reasons"].to_string().contains("model does not count: a fork has its parent's"), "{one}");
    let (one, two) = (&one["fork"], &two["fork"]);
    assert_eq!(one["prefixSha256"], two["prefixSha256"]);
    let bodies = bodies(&world, Some("PART-A"));
    assert_eq!(one["prefixSha256"], format!("{:x}", Sha256::digest(prefix(&bodies[0]))));
    let told = one["directive"].as_str().unwrap();
    assert!(told.starts_with(&format!("{SENTINEL}\n\nYou are ann,")) && told.ends_with("\n\none"), "{told}");
    let lineage = one["lineageId"].as_str().unwrap();
    let time = lineage.strip_prefix(&format!("{id}:fork:ann:d1:")).unwrap_or_else(|| panic!("{lineage}"));
    assert!(u64::from_str_radix(time, 36).unwrap() > 1_700_000_000_000, "{time}");
    assert_eq!((&one["depth"], one["messages"].as_array().unwrap().len()), (&json!(1), 2));
    let context =
        world.conn.ok("task.context", json!({ "taskId": children(&world, &id).await[0]["id"] })).await;
    assert_eq!(
        (&context["fork"]["parentAgentId"], &context["fork"]["depth"]),
        (&json!(id), &json!(1)),
        "{context}"
    );
    let refused = text(&parsed(&bodies[1])["messages"][4]["content"][0]["content"]);
    assert!(refused.contains("1105") || refused.contains("a fork can't fork"), "{refused}");
    let outside = world.conn.err("agent.explain", of("x")).await;
    assert!(outside.message.contains("no conversation"), "{outside:?}");
    let sync = world.conn.ok("agent.explain", json!({ "prompt": "x" })).await;
    assert!(sync["route"] == "sync" && sync["reasons"].to_string().contains("no conversation"), "{sync}");
    world.daemon.end().await;
}

/// FF-01, SP-04, C6: with the feature off, and in the background, no type means a general agent.
#[tokio::test]
async fn without_the_feature_there_is_no_fork() {
    let world = World::of(Daemon::with().config("[flags]\nFORK_SUBAGENT = false\n").start()).await;
    let said = world.say(&fork("CHILD [[say:found it]]")).await;
    assert!(said.contains("found it"), "{said}");
    assert_eq!(world.requests("CHILD").len(), 1);
    let asked = call("Agent", &json!({ "description": "d", "prompt": "CHILD", "subagent_type": "fork" }));
    let said = world.say(&asked).await;
    assert!(said.contains("FORK_SUBAGENT is off"), "{said}");
    world.daemon.end().await;
    let world = World::start().await;
    let input = json!({ "description": "d", "prompt": "CHILD [[say:found it]]", "run_in_background": true });
    world.say(&format!("{} [[say:waiting]] [[say:end]]", call("Agent", &input))).await;
    assert_eq!(world.requests("CHILD").len(), 1);
    world.daemon.end().await;
}

/// SV-07, RS-10, C49, FK-01: killed with `kill -9` behind each request, a fork comes to the same end, with what it goes on
/// from; and a fork that began does so also where nothing is left of its parent's transcript.
#[tokio::test]
async fn a_killed_fork_is_resumed_to_the_same_end() {
    let task = "PART-A [[wait:20]] [[tool:Write {\"file_path\":\"b.txt\",\"content\":\"one\"}]] \
                [[tool:Bash {\"command\":\"cat b.txt\"}]] [[say:Scope: a. finished]]";
    for requests in 1..=5 {
        let mut world = World::start().await;
        let prompt = format!("PARENT [[wait:20]] {} [[say:waiting]] [[say:end]]", fork(task));
        let parent = world.spawn(&prompt, json!({})).await;
        world.fake.requests(requests);
        world.daemon.crash();
        world.daemon.restart();
        world.conn = world.daemon.connect().await;
        let Some(fork) = children(&world, &parent).await.first().cloned() else {
            assert_eq!(requests, 1, "no fork behind {requests} requests");
            world.daemon.end().await;
            continue;
        };
        let id = fork["id"].as_str().unwrap();
        let env =
            json!({ "ANTHROPIC_BASE_URL": world.fake.url, "ANTHROPIC_API_KEY": KEY, "HOME": world.home() });
        if world.conn.wait(id).await["status"] == "interrupted" {
            let output = world.conn.task(&parent).await["outputFile"].as_str().unwrap().to_owned();
            let history = std::path::Path::new(&output).with_file_name("history.jsonl");
            if fork["startedAt"].is_number() {
                std::fs::remove_file(history).unwrap();
            }
            world.conn.ok("task.resume", json!({ "taskId": id, "env": env })).await;
        }
        let done = world.conn.wait(id).await;
        assert_eq!(
            (&done["status"], &done["result"]["text"]),
            (&json!("completed"), &json!("Scope: a. finished")),
            "{done}"
        );
        assert_eq!(std::fs::read_to_string(world.home().join("b.txt")).unwrap(), "one");
        let same = |body: &String| prefix(body).replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "");
        let asked = bodies(&world, Some("PART-A"));
        assert!(
            asked.iter().all(|body| same(body) == same(&asked[0]) && body.matches(SENTINEL).count() == 1)
        );
        world.daemon.end().await;
    }
}

/// FK-11, C9: with more depth in the config a fork of a fork is one deeper, and the one at the limit has none.
#[tokio::test]
async fn the_config_says_how_deep_forks_may_be() {
    let world = World::of(Daemon::with().config("[fork]\nmax_depth = 2\n").start()).await;
    let env = json!({ "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": world.fake.url });
    let of = |prompt: &str| json!({ "subagentType": "fork", "prompt": prompt, "description": "a part", "env": env });
    let sh = |name: &str, params: &Value| {
        let method = if name == "third" { "agent.explain" } else { "agent.spawn" };
        std::fs::write(world.home().join(name), rpc(&world, method, params) + " 2>&1").unwrap();
        call("Bash", &json!({ "command": format!("sh {name}") }))
    };
    let third = sh("third", &of("x"));
    let second = sh("second", &of(&format!("PART-B {third} [[say:Scope: b]]")));
    let first = sh("first", &of(&format!("PART-A {second} [[say:Scope: a]] [[say:Scope: a]]")));
    let id = world.spawn(&format!("PARENT {first} [[say:waiting]] [[say:end]]"), json!({})).await;
    assert_eq!(world.conn.wait(&id).await["status"], "completed");
    let deepest = bodies(&world, Some("PART-B")).last().unwrap().clone();
    let refused = parsed(&deepest)["messages"].as_array().unwrap().last().unwrap().to_string();
    assert!(refused.contains("forks may be 2 deep, and the caller is at depth 2"), "{refused}");
    let child = children(&world, &id).await[0].clone();
    let grandchild = children(&world, child["id"].as_str().unwrap()).await[0].clone();
    let context = world.conn.ok("task.context", json!({ "taskId": grandchild["id"] })).await;
    assert_eq!((&context["fork"]["depth"], &context["fork"]["parentAgentId"]), (&json!(2), &child["id"]));
    world.daemon.end().await;
}

/// FK-10, PM-01: who comes from elsewhere as a fork can't fork, nor can who is denied forks by a rule.
#[tokio::test]
async fn a_fork_from_elsewhere_and_one_that_a_rule_denies_is_refused() {
    let world = World::start().await;
    let call = fork("PART-A [[say:Scope: a]]");
    let said = world.say(&format!("{SENTINEL} imported {call}")).await;
    assert!(said.contains("a fork can't fork"), "{said}");
    std::fs::create_dir_all(world.home().join(".claude")).unwrap();
    let rules = json!({ "permissions": { "deny": ["Agent(fork)"] } });
    std::fs::write(world.home().join(".claude/settings.json"), rules.to_string()).unwrap();
    let said = world.say(&call).await;
    assert!(said.contains("Agent(fork)"), "{said}");
    world.daemon.end().await;
}

/// FK-21, PM-04: what a fork needs permission for is asked where its parent's is asked, under its own name, and the answer
/// is for the fork.
#[tokio::test]
async fn a_fork_asks_whoever_answers_for_its_parent() {
    let world = World::start().await;
    let write = call("Write", &json!({ "file_path": "b.txt", "content": "one" }));
    let task = format!("PART-A {write} [[say:Scope: a]]");
    let part = call("Agent", &json!({ "description": "a part", "prompt": task, "name": "ann" }));
    let prompt = format!("PARENT {part} [[say:waiting]] [[say:end]]");
    let mut asks =
        world.conn.client.subscribe_raw("ask.subscribe", json!({}), "ask.unsubscribe").await.unwrap();
    let id = world.spawn(&prompt, json!({ "permissionMode": "default" })).await;
    let ask = next(&mut asks).await;
    assert_eq!((&ask["agentName"], &ask["toolName"]), (&json!("ann"), &json!("Write")), "{ask}");
    let fork = world.conn.task(ask["taskId"].as_str().unwrap()).await;
    assert_eq!((&fork["parentId"], &fork["permissionMode"]), (&json!(id), &json!("bubble")), "{fork}");
    world.conn.ok("ask.respond", json!({ "askId": ask["id"], "behavior": "allow" })).await;
    assert_eq!(world.conn.wait(&id).await["status"], "completed");
    assert_eq!(std::fs::read_to_string(world.home().join("b.txt")).unwrap(), "one");
    world.daemon.end().await;
}

/// FK-01, I9: a fork that waits for its turn does not lose what it goes on from with its parent's transcript.
#[tokio::test]
async fn a_queued_fork_outlives_its_parents_transcript() {
    let world = World::start().await;
    world.pipe("gate");
    let wait = call("Bash", &json!({ "command": "cat gate" }));
    let prompt = format!("PARENT {wait} {} [[say:waiting]] [[say:end]]", fork("PART-A [[say:Scope: a]]"));
    let id = world.spawn(&prompt, json!({})).await;
    world.fake.requests(1);
    world.conn.ok("session.pause", json!({ "sessionId": "main" })).await;
    let gate = world.daemon.home.join("gate");
    tokio::task::spawn_blocking(move || std::fs::write(gate, "go").unwrap()).await.unwrap();
    world.fake.requests(3);
    let queued = children(&world, &id).await[0].clone();
    assert_eq!(queued["status"], "queued", "{queued}");
    let output = world.conn.task(&id).await["outputFile"].as_str().unwrap().to_owned();
    std::fs::remove_file(std::path::Path::new(&output).with_file_name("history.jsonl")).unwrap();
    world.conn.ok("session.unpause", json!({ "sessionId": "main" })).await;
    let fork = world.conn.wait(queued["id"].as_str().unwrap()).await;
    assert_eq!(fork["result"]["text"], "Scope: a", "{fork}");
    world.daemon.end().await;
}

/// CX-03: a fork knows the files that its parent has read, and what it reads itself its parent does not know.
#[tokio::test]
async fn a_fork_has_seen_what_its_parent_has_read() {
    let world = World::start().await;
    for name in ["a.txt", "b.txt"] {
        std::fs::write(world.home().join(name), "one").unwrap();
    }
    let read = |name: &str| call("Read", &json!({ "file_path": name }));
    let edit =
        |name: &str| call("Edit", &json!({ "file_path": name, "old_string": "one", "new_string": "two" }));
    let part = fork(&format!("PART-A {}&{} [[say:Scope: a]]", edit("a.txt"), read("b.txt")));
    let prompt = format!("PARENT {} {part} [[say:waiting]] {}", read("a.txt"), edit("b.txt"));
    let said = world.say(&prompt).await;
    assert_eq!(std::fs::read_to_string(world.home().join("a.txt")).unwrap(), "two");
    assert!(said.contains("has not been read yet"), "{said}");
    world.daemon.end().await;
}
