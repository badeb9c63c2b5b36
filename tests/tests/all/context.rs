//! What an agent has of its own, what it has of its spawner, and what others see of it.

use std::fs::{self, File};

use ccagent_tests::conn::next;
use serde_json::{Value, json};

use super::agents::{World, agent, call, told};

async fn flag(world: &World, name: &str, value: bool) {
    world.conn.ok("daemon.setFlag", json!({ "name": name, "value": value })).await;
    assert_eq!(world.conn.ok("daemon.status", json!({})).await["flags"][name], value);
}

/// Lets go on what reads a pipe.
async fn release(world: &World, name: &str) {
    let pipe = world.home().join(name);
    tokio::task::spawn_blocking(move || drop(File::create(pipe).unwrap())).await.unwrap();
}

/// CX-06: where a child works, and its list of what is to be done, are its own: its parent's stay as they were.
#[tokio::test]
async fn a_child_changes_nothing_of_its_parents() {
    let world = World::start().await;
    fs::create_dir(world.home().join("below")).unwrap();
    let todo = |content: &str| {
        let one = json!({ "content": content, "status": "pending", "activeForm": content });
        call("TodoWrite", &json!({ "todos": [one] }))
    };
    let pwd = call("Bash", &json!({ "command": "pwd" }));
    let cd = call("Bash", &json!({ "command": "cd below && pwd" }));
    let child = agent(&format!("CHILD {cd} {pwd} {} [[say:ok]]", todo("of the child")), json!({}));
    let id =
        world.spawn(&format!("PARENT {} {child} {pwd} [[say:done]]", todo("of the parent")), json!({})).await;
    assert_eq!(world.conn.wait(&id).await["status"], "completed");
    let result = |request: &Value, at: usize| request["messages"][at]["content"][0]["content"].to_string();
    let (parent, child) = (world.requests("PARENT").pop().unwrap(), world.requests("CHILD").pop().unwrap());
    let below = format!("{}/below", world.home().display());
    assert!(result(&child, 2).contains(&below) && result(&child, 4).contains(&below), "{child}");
    assert!(result(&parent, 6).contains(&world.home().display().to_string()), "{parent}");
    assert!(!result(&parent, 6).contains("/below"), "{parent}");
    for at in [2, 4, 6] {
        assert!(!result(&parent, at).contains("of the child"), "{parent}");
    }
    world.daemon.end().await;
}

/// CX-15, SP-22: who follows a parent sees one call with one result, and nothing of what its child says on the way; that is
/// in the child's own events.
#[tokio::test]
async fn a_childs_events_are_its_own() {
    let world = World::start().await;
    let child =
        agent("CHILD [[say:on the way]]&[[tool:Glob {\"pattern\":\"*.none\"}]] [[say:the end]]", json!({}));
    let more = json!({ "description": "all of it" });
    let id = world.spawn(&format!("PARENT {child} [[say:done]]"), more).await;
    assert_eq!(world.conn.wait(&id).await["status"], "completed");
    let replayed = world.conn.ok("event.replay", json!({ "sinceSeq": 0, "limit": 1000 })).await;
    let all = replayed["events"].as_array().unwrap();
    let own: Vec<&Value> = all.iter().filter(|event| event["data"]["taskId"] == json!(id)).collect();
    let others = all.iter().filter(|event| event["topic"] == "task" && event["data"]["taskId"] != json!(id));
    assert!(others.clone().any(|event| event["type"] == "task.progress"), "{replayed}");
    let telling: Vec<&&Value> = own.iter().filter(|event| event.to_string().contains("Glob")).collect();
    assert!(telling.is_empty(), "{telling:?}");
    assert!(!all.iter().any(|event| event.to_string().contains("on the way")), "{replayed}");
    assert!(!all.iter().any(|event| event["topic"] == "session" && event["type"] != "session.opened"));
    let transcript = world.conn.ok("task.transcript", json!({ "taskId": id })).await;
    let text = transcript["messages"].to_string();
    assert_eq!(
        (text.matches("\"tool_use\"").count(), text.matches("\"tool_result\"").count()),
        (1, 1),
        "{text}"
    );
    let results = |entry: &&Value| entry.to_string().contains("tool_result");
    let result = transcript["messages"].as_array().unwrap().iter().find(results).unwrap().to_string();
    assert!(result.contains("the end") && !result.contains("on the way"), "{result}");
    world.daemon.end().await;
}

/// CX-18: a child has its own memory and its own leave to ask; what it asks is asked under its name.
#[tokio::test]
async fn a_child_asks_under_its_own_name() {
    let world = World::start().await;
    let dir = world.home().join(".claude/agents");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("keeper.md"), "---\nname: keeper\ndescription: Keeps.\nmemory: project\n---\nKeep.")
        .unwrap();
    let write = call("Write", &json!({ "file_path": "new.txt", "content": "x" }));
    let child =
        agent(&format!("CHILD {write} [[say:ok]]"), json!({ "subagent_type": "keeper", "name": "kim" }));
    let id =
        world.spawn(&format!("PARENT {child} [[say:done]]"), json!({ "permissionMode": "default" })).await;
    let mut asks =
        world.conn.client.subscribe_raw("ask.subscribe", json!({}), "ask.unsubscribe").await.unwrap();
    let ask = next(&mut asks).await;
    assert_eq!((&ask["agentName"], &ask["toolName"]), (&json!("kim"), &json!("Write")), "{ask}");
    assert_ne!(ask["taskId"], json!(id));
    let context = async |id: &Value| world.conn.ok("task.context", json!({ "taskId": id })).await;
    let (own, parents) = (context(&ask["taskId"]).await, context(&json!(id)).await);
    assert!(own["memory"].as_str().unwrap().ends_with("agent-memory/keeper"), "{own}");
    assert_eq!(
        (parents.get("memory"), &own["mayAsk"], &parents["mayAsk"]),
        (None, &json!(false), &json!(true))
    );
    world.conn.ok("ask.respond", json!({ "askId": ask["id"], "behavior": "allow" })).await;
    assert_eq!(world.conn.wait(&id).await["status"], "completed");
    world.daemon.end().await;
}

/// CX-14, C16, C17, C18: an agent of the executor has no hooks and no tool that asks a person, and goes through what is
/// asked for only where somebody said so for it.
#[tokio::test]
async fn an_agent_of_the_executor_asks_nobody() {
    let world = World::start().await;
    let file = world.home().join("hooked");
    let hook = json!({ "hooks": { "PreToolUse": [
        { "matcher": "*", "hooks": [{ "type": "command", "command": format!("touch {}", file.display()) }] },
    ] } });
    fs::create_dir_all(world.home().join(".claude")).unwrap();
    fs::write(world.home().join(".claude/settings.json"), hook.to_string()).unwrap();
    let question = call("AskUserQuestion", &json!({ "questions": [{ "question": "Which?" }] }));
    let write = call("Write", &json!({ "file_path": "new.txt", "content": "x" }));
    let prompt = format!("EXECUTOR {question} {write} [[say:done]]");
    let id = world.spawn(&prompt, json!({ "profile": "executor" })).await;
    assert_eq!(world.conn.wait(&id).await["status"], "completed");
    let request = world.requests("EXECUTOR").pop().unwrap();
    assert!(
        told(&request).contains("There is no tool \\\"AskUserQuestion\\\" for you")
            || told(&request).contains("There is no tool \"AskUserQuestion\" for you"),
        "{}",
        told(&request)
    );
    assert!(world.home().join("new.txt").exists() && !file.exists());
    let asks = json!({ "profile": "executor", "permissionMode": "dontAsk" });
    let id = world.spawn(&format!("SECOND {} [[say:done]]", write.replace("new.txt", "two.txt")), asks).await;
    assert_eq!(world.conn.wait(&id).await["status"], "completed");
    assert!(!world.home().join("two.txt").exists(), "nobody allowed it");
    world.daemon.end().await;
}

/// MD-04: a child's model may answer as long as its parent's, thinks as much, and as often; a definition says otherwise.
#[tokio::test]
async fn a_child_has_its_parents_effort_and_turns() {
    let world = World::start().await;
    let dir = world.home().join(".claude/agents");
    fs::create_dir_all(&dir).unwrap();
    let write = |name: &str, more: &str| {
        let text = format!("---\nname: {name}\ndescription: One.\n{more}---\nWork.");
        fs::write(dir.join(format!("{name}.md")), text).unwrap();
    };
    write("boss", "effort: high\nmaxTurns: 9\ntools: Agent\n");
    write("same", "");
    write("own", "effort: low\nmaxTurns: 2\n");
    let children = ["same", "own"].map(|name| {
        let prompt = format!("CHILD-{name} [[say:ok]]");
        agent(&prompt, json!({ "subagent_type": name, "name": name }))
    });
    // Whom a person asks by type is an agent, and spawns none: the lead of a session does.
    let env = json!({
        "ANTHROPIC_BASE_URL": world.fake.url, "ANTHROPIC_API_KEY": super::agents::KEY, "HOME": world.home(),
    });
    let session = json!({
        "cwd": world.home(), "agent": "boss", "permissionMode": "bypassPermissions", "env": env,
    });
    let opened = world.conn.ok("session.open", session).await;
    let prompt = format!("PARENT {} {} [[say:done]]", children[0], children[1]);
    world.conn.ok("session.prompt", json!({ "sessionId": opened["sessionId"], "text": prompt })).await;
    assert_eq!(world.conn.wait(opened["mainAgentId"].as_str().unwrap()).await["status"], "completed");
    let effort = |of: &str| {
        let request = world.requests(of).remove(0);
        (request["output_config"]["effort"].clone(), request["max_tokens"].clone())
    };
    let (parent, same, own) = (effort("PARENT"), effort("CHILD-same"), effort("CHILD-own"));
    assert_eq!((&parent.0, &same.0, &own.0), (&json!("high"), &json!("high"), &json!("low")));
    assert_eq!((&same.1, &own.1), (&parent.1, &parent.1));
    let listed = world.conn.ok("task.list", json!({ "all": true })).await;
    for (name, turns) in [("same", 9), ("own", 2)] {
        let task = listed["tasks"].as_array().unwrap().iter().find(|task| task["name"] == name).unwrap();
        let context = world.conn.ok("task.context", json!({ "taskId": task["id"] })).await;
        assert_eq!(context["maxTurns"], turns, "{name}: {context}");
    }
    world.daemon.end().await;
}

/// PR-09: a reminder stands behind each request of its agent, once, and is in no conversation.
#[tokio::test]
async fn a_reminder_stands_behind_each_request() {
    let world = World::start().await;
    let look = call("Glob", &json!({ "pattern": "*.none" }));
    let prompt = format!("REMINDED {look} {look} [[say:done]]");
    let id = world.spawn(&prompt, json!({ "criticalReminder": "mind-the-gap" })).await;
    assert_eq!(world.conn.wait(&id).await["status"], "completed");
    let requests = world.requests("REMINDED");
    assert_eq!(requests.len(), 3);
    for request in &requests {
        let last = request["messages"].as_array().unwrap().last().unwrap();
        assert!(last.to_string().contains("mind-the-gap"), "{last}");
        assert_eq!(request["messages"].to_string().matches("mind-the-gap").count(), 1, "{request}");
    }
    let transcript = world.conn.ok("task.transcript", json!({ "taskId": id })).await;
    assert!(!transcript.to_string().contains("mind-the-gap"), "{transcript}");
    let context = world.conn.ok("task.context", json!({ "taskId": id })).await;
    assert_eq!(context["criticalReminder"], "mind-the-gap");
    world.daemon.end().await;
}

/// SP-29, FK-16, SE-03: what happens to an agent happens in its order: it is spawned, registered, begins, works, its end is
/// told, it has ended; and its parent reads of it last.
#[tokio::test]
async fn what_happens_to_an_agent_has_its_order() {
    let world = World::start().await;
    let look = call("Glob", &json!({ "pattern": "*.none" }));
    let fork = call(
        "Agent",
        &json!({ "description": "a part", "prompt": format!("PART {look} [[say:Scope: all.]]") }),
    );
    let id = world.spawn(&format!("PARENT {fork} [[say:waiting]] [[say:read it]]"), json!({})).await;
    let task = world.conn.wait(&id).await;
    assert_eq!(task["result"]["text"], "read it", "{task}");
    let listed = world.conn.ok("task.list", json!({ "parentId": id, "all": true })).await;
    let child = listed["tasks"][0]["id"].clone();
    let replayed = world.conn.ok("event.replay", json!({ "sinceSeq": 0, "limit": 1000 })).await;
    let events = replayed["events"].as_array().unwrap();
    let at = |id: &Value, kind: &str| {
        let found = events.iter().position(|event| event["data"]["taskId"] == *id && event["type"] == kind);
        found.unwrap_or_else(|| panic!("{kind}: {replayed}"))
    };
    let order =
        ["task.spawned", "task_started", "task.started", "task.progress", "task.ended", "task_completed"];
    for one in [&child, &json!(id)] {
        let places: Vec<usize> = order.iter().map(|kind| at(one, kind)).collect();
        assert!(places.is_sorted(), "{places:?}: {replayed}");
    }
    assert!(at(&child, "notification.queued") < at(&child, "task_completed"));
    assert!(at(&json!(id), "task.spawned") < at(&child, "task.spawned"));
    assert!(at(&child, "task_completed") < at(&json!(id), "task_completed"));
    let output = world.conn.output(child.as_str().unwrap()).await;
    assert!(output.contains("Glob(") && output.contains("Scope: all."), "{output}");
    world.daemon.end().await;
}

/// FF-02, FF-03, FF-05, FF-07, AD-21, AD-25, SP-31: each flag switches what it is for, from the next call on.
#[tokio::test]
async fn a_flag_switches_what_it_is_for() {
    let world = World::start().await;
    fs::write(world.home().join("CLAUDE.md"), "marker-of-the-instructions").unwrap();
    let listed = async || world.conn.ok("definition.list", json!({ "cwd": world.home() })).await.to_string();
    for (name, agents) in [
        ("BUILTIN_EXPLORE_PLAN_AGENTS", &["\"Explore\"", "\"Plan\""][..]),
        ("VERIFICATION_AGENT", &["\"Verification\""]),
    ] {
        for on in [false, true] {
            flag(&world, name, on).await;
            let found = listed().await;
            assert!(agents.iter().all(|agent| found.contains(agent) == on), "{name} {on}: {found}");
        }
    }
    for slim in [false, true] {
        flag(&world, "tengu_slim_subagent_claudemd", slim).await;
        let params =
            json!({ "prompt": "x", "subagentType": "Explore", "cwd": world.home(), "model": "offline" });
        let prompt = world.conn.ok("agent.explain", params).await["prompt"].to_string();
        assert_eq!(prompt.contains("marker-of-the-instructions"), !slim, "{prompt}");
    }
    fs::create_dir(world.home().join("below")).unwrap();
    let child = |word: &str| {
        let pwd = call("Bash", &json!({ "command": "pwd" }));
        agent(&format!("{word} {pwd}"), json!({ "cwd": "below" }))
    };
    let said = world.say(&format!("PARENT {}", child("FIRST"))).await;
    assert!(said.contains("KAIROS"), "{said}");
    flag(&world, "KAIROS", true).await;
    let said = world.say(&format!("PARENT {}", child("SECOND"))).await;
    assert!(said.contains("/below"), "{said}");
    world.daemon.end().await;
}

/// AD-27, TP-22: a member has the tools of its type, and what every member has.
#[tokio::test]
async fn a_member_has_the_tools_of_its_type() {
    let world = World::start().await;
    world.conn.ok("team.create", json!({ "name": "red" })).await;
    let mut pools = Vec::new();
    for (name, agent_type) in [("ann", "Explore"), ("bob", "general-purpose")] {
        let more = json!({ "teamName": "red", "name": name, "subagentType": agent_type });
        let mut params = json!({ "prompt": "x", "cwd": world.home(), "model": "offline" });
        ccagent_tests::conn::merge(&mut params, more.clone());
        let explained = world.conn.ok("agent.explain", params).await;
        let id = world.spawn("MEMBER [[say:ok]]", more).await;
        let context = world.conn.ok("task.context", json!({ "taskId": id })).await;
        assert_eq!(
            (&context["agentType"], &context["tools"]),
            (&json!(agent_type), &explained["tools"]["pool"])
        );
        let pool = context["tools"].to_string();
        assert!(pool.contains("\"SendMessage\"") && pool.contains("\"Read\""), "{pool}");
        pools.push(pool);
    }
    assert!(!pools[0].contains("\"Edit\"") && pools[1].contains("\"Edit\""), "{pools:?}");
    world.daemon.end().await;
}

/// AB-02, SP-14: neither an interrupt nor a stop of a session's lead reaches a member that works in the same session.
#[tokio::test]
async fn a_member_does_not_end_with_its_lead() {
    let world = World::start().await;
    for pipe in ["lead", "member"] {
        world.pipe(pipe);
    }
    let env = json!({
        "ANTHROPIC_BASE_URL": world.fake.url, "ANTHROPIC_API_KEY": super::agents::KEY, "HOME": world.home(),
    });
    let session = json!({ "cwd": world.home(), "permissionMode": "bypassPermissions", "env": env });
    let opened = world.conn.ok("session.open", session).await;
    let session = opened["sessionId"].clone();
    world.conn.ok("team.create", json!({ "name": "red" })).await;
    let cat = |pipe: &str| call("Bash", &json!({ "command": format!("cat {pipe}") }));
    let member =
        json!({ "teamName": "red", "name": "ann", "subagentType": "general-purpose", "sessionId": session });
    let id = world.spawn(&format!("MEMBER {} [[say:goes on]]", cat("member")), member).await;
    for how in ["session.interrupt", "task.stop"] {
        world.fake.reset();
        let prompt = json!({ "sessionId": session, "text": format!("LEAD {how} {}", cat("lead")) });
        world.conn.ok("session.prompt", prompt).await;
        world.fake.requests(1);
        let params = if how == "task.stop" {
            json!({ "taskId": opened["mainAgentId"], "force": true })
        } else {
            json!({ "sessionId": session })
        };
        world.conn.ok(how, params).await;
        assert_eq!(world.conn.task(&id).await["status"], "running", "{how}");
    }
    release(&world, "member").await;
    let task = world.conn.wait(&id).await;
    assert_eq!(
        (&task["status"], &task["result"]["text"]),
        (&json!("completed"), &json!("goes on")),
        "{task}"
    );
    world.daemon.end().await;
}

/// FK-14, FK-13, CX-01: a fork takes a task, a name and a number of turns, is in the background whatever is asked, and shows
/// what it has in common with its parent: prompt, contexts, tools and turns.
#[tokio::test]
async fn a_fork_takes_what_its_call_says() {
    let world = World::start().await;
    fs::write(world.home().join("CLAUDE.md"), "marker-of-the-instructions").unwrap();
    let env = json!({ "ANTHROPIC_API_KEY": super::agents::KEY, "ANTHROPIC_BASE_URL": world.fake.url });
    let params = json!({
        "subagentType": "fork", "prompt": "PART [[say:Scope: all.]]", "name": "ann", "maxTurns": 3,
        "runInBackground": false, "env": env,
    });
    let ctl = world.daemon.home.ctl(&[]).get_program().to_str().unwrap().to_owned();
    fs::write(world.home().join("all.sh"), format!("{ctl} rpc agent.spawn '{params}'")).unwrap();
    let prompt =
        format!("PARENT {} [[say:waiting]] [[say:end]]", call("Bash", &json!({ "command": "sh all.sh" })));
    let id = world.spawn(&prompt, json!({})).await;
    assert_eq!(world.conn.wait(&id).await["status"], "completed");
    let listed = world.conn.ok("task.list", json!({ "parentId": id, "all": true })).await;
    let child = &listed["tasks"][0];
    assert_eq!(
        (&child["name"], &child["agentType"], &child["isBackgrounded"]),
        (&json!("ann"), &json!("fork"), &json!(true)),
        "{child}"
    );
    let context = async |id: &Value| world.conn.ok("task.context", json!({ "taskId": id })).await;
    let (own, parents) = (context(&child["id"]).await, context(&json!(id)).await);
    assert_eq!(
        (&own["maxTurns"], own["fork"]["parentTools"].to_string()),
        (&json!(3), parents["tools"].to_string())
    );
    let fork = &own["fork"];
    let request = world.requests("PARENT").remove(0);
    let system: Vec<&str> =
        request["system"].as_array().unwrap().iter().map(|part| part["text"].as_str().unwrap()).collect();
    assert_eq!(fork["systemPrompt"], json!(system));
    assert_eq!(fork["parentMessages"], 2);
    let (user, machine) = (fork["userContext"].to_string(), fork["systemContext"].to_string());
    assert!(user.contains("marker-of-the-instructions") && user.contains("What is in "), "{user}");
    assert!(machine.contains("Working directory: ") && !machine.contains("marker"), "{machine}");
    for text in
        [&fork["userContext"], &fork["systemContext"]].into_iter().flat_map(|list| list.as_array().unwrap())
    {
        assert!(system.iter().any(|part| part.contains(text.as_str().unwrap())), "{text}");
    }
    world.daemon.end().await;
}
