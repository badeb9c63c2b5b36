//! Sessions with a lead: one conversation over all prompts, whatever ends in between.

use std::path::Path;

use ccagent_client::Subscription;
use ccagent_proto::Kind;
use ccagent_tests::conn::{merge, next};
use ccagent_tests::daemon::run;
use ccagent_tests::process::Process;
use ccagent_tests::{Conn, Daemon, Fake};
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};

use super::llm::contains;

/// A key that must be seen nowhere.
const KEY: &str = "dummy-key-of-the-tests";

/// A daemon, a fake provider, a connection, and a session in which that is known.
pub(super) struct World {
    pub(super) daemon: Daemon,
    pub(super) fake: Fake,
    pub(super) conn: Conn,
    pub(super) session: Value,
    pub(super) lead: String,
}

impl World {
    pub(super) async fn start() -> Self {
        Self::with(json!({})).await
    }

    /// One whose session is opened with more.
    pub(super) async fn with(more: Value) -> Self {
        // What a tool runs that does not end by itself is ended soon.
        let daemon = Daemon::with().config("[task]\ngrace = \"200ms\"\n").start();
        let fake = Fake::start();
        let conn = daemon.connect().await;
        let mut params = json!({
            "cwd": daemon.home.path(), "permissionMode": "bypassPermissions", "env": env(&fake, daemon.home.path()),
        });
        merge(&mut params, more);
        let opened = conn.ok("session.open", params).await;
        let lead = opened["mainAgentId"].as_str().unwrap().to_owned();
        Self { session: opened["sessionId"].clone(), daemon, fake, conn, lead }
    }

    pub(super) async fn prompt(&self, text: &str) {
        let said = self.conn.ok("session.prompt", json!({ "text": text })).await;
        assert_eq!(said["taskId"], json!(self.lead));
    }

    /// Says something, and gives what is said back.
    pub(super) async fn say(&self, text: &str) -> String {
        self.prompt(text).await;
        let task = self.conn.wait(&self.lead).await;
        assert_eq!(task["status"], "completed", "{task}");
        task["result"]["text"].as_str().unwrap().to_owned()
    }

    pub(super) fn pipe(&self, name: &str) {
        mkfifoat(CWD, self.daemon.home.join(name), Mode::RUSR | Mode::WUSR).unwrap();
    }

    /// What comes through a pipe.
    pub(super) async fn read(&self, name: &str) -> String {
        let pipe = self.daemon.home.join(name);
        tokio::task::spawn_blocking(move || std::fs::read_to_string(pipe).unwrap()).await.unwrap()
    }

    pub(super) fn write(&self, name: &str) {
        std::fs::write(self.daemon.home.join(name), "go\n").unwrap();
    }

    /// Waits until its lead's turn is over, and what it spawned runs.
    pub(super) async fn sleeps(&self, events: &mut Subscription<Value>) {
        loop {
            let event = next(events).await;
            let of_lead = event["data"]["taskId"] == json!(self.lead) && event["type"] == "task.status";
            if of_lead && event["data"]["waitingOn"] == "children" {
                return;
            }
        }
    }

    /// What was asked of the fake.
    pub(super) fn bodies(&self) -> impl Iterator<Item = Value> {
        self.fake.log().into_iter().map(|asked| asked["body"].as_str().unwrap().parse().unwrap())
    }

    /// What the newest request said to the model, message by message.
    pub(super) fn told(&self) -> Vec<String> {
        let last = self.bodies().last().unwrap();
        last["messages"].as_array().unwrap().iter().map(|message| text(&message["content"])).collect()
    }
}

/// A call of `Agent` in a prompt.
pub(super) fn agent(prompt: &str, more: Value) -> String {
    let mut input = json!({ "description": "a part", "prompt": prompt });
    merge(&mut input, more);
    format!("[[tool:Agent {input}]]")
}

/// What of an environment leads to a fake provider.
pub(super) fn env(fake: &Fake, home: &Path) -> Value {
    json!({ "ANTHROPIC_BASE_URL": fake.url, "ANTHROPIC_API_KEY": KEY, "HOME": home })
}

/// The texts of a content, those in results as well.
pub(super) fn text(content: &Value) -> String {
    match content.as_array() {
        Some(blocks) => blocks
            .iter()
            .map(|block| block["text"].as_str().map_or_else(|| text(&block["content"]), str::to_owned))
            .collect(),
        None => content.as_str().unwrap_or_default().to_owned(),
    }
}

/// RS-10, H108: what was said before is in each request, once, and `session.messages` has all of it.
#[tokio::test]
async fn a_conversation_goes_on_over_prompts() {
    let world = World::start().await;
    let messages = world.conn.ok("session.messages", json!({})).await;
    assert_eq!(messages, json!({ "messages": [] }));
    assert_eq!(world.say("FIRST [[say:one]]").await, "one");
    assert_eq!(world.say("SECOND [[say:two]]").await, "two");
    assert_eq!(world.told(), ["FIRST [[say:one]]", "one", "SECOND [[say:two]]"]);
    let messages = world.conn.ok("session.messages", json!({})).await;
    let roles: Vec<&Value> =
        messages["messages"].as_array().unwrap().iter().map(|one| &one["role"]).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user", "assistant"]);
    world.daemon.end().await;
}

/// SV-07, RS-06, RS-10, RS-12, C49, I14: killed with `kill -9` in the middle of a turn, the daemon has the session again;
/// the next prompt goes on from all that was said, and the call that was cut off is said to be unsure. No value of the
/// session's environment is on the disk, so it has to come again.
#[tokio::test]
async fn a_conversation_goes_on_after_the_daemon_was_killed() {
    let mut world = World::start().await;
    assert_eq!(world.say("FIRST [[say:one]]").await, "one");
    world.pipe("began");
    world.prompt(r#"SECOND [[tool:Bash {"command":"echo 1 > began; sleep 1000"}]] [[say:two]]"#).await;
    world.read("began").await;
    world.daemon.crash();
    world.daemon.restart();
    world.conn = world.daemon.connect().await;
    let session = world.conn.ok("session.get", json!({ "sessionId": world.session })).await;
    assert_eq!(
        (&session["mainAgentId"], &session["permissionMode"]),
        (&json!(world.lead), &json!("bypassPermissions"))
    );
    assert_eq!(world.conn.task(&world.lead).await["status"], "interrupted");
    let third = json!({ "sessionId": world.session, "text": "THIRD [[say:three]]" });
    let refused = world.conn.err("session.prompt", third.clone()).await;
    assert_eq!(refused.data["missing"], json!(["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "HOME"]));
    let mut given = third;
    merge(&mut given, json!({ "env": env(&world.fake, world.daemon.home.path()) }));
    world.conn.ok("session.prompt", given).await;
    assert_eq!(world.conn.wait(&world.lead).await["result"]["text"], "three");
    let told = world.told();
    assert_eq!((told.len(), told[0].as_str(), told[1].as_str()), (5, "FIRST [[say:one]]", "one"));
    assert!(told[4].contains("was interrupted") && told[4].ends_with("THIRD [[say:three]]"), "{told:?}");
    assert!(!contains(&world.daemon.home.state, KEY.as_bytes()));
    world.daemon.end().await;
}

/// RS-12, AB-03, AB-09, E72: an interrupt ends the turn and what its tool runs; what was said stays, the call is
/// answered, and the next prompt goes on. Where nothing runs it is as good.
#[tokio::test]
async fn an_interrupted_turn_leaves_a_whole_conversation() {
    let world = World::start().await;
    world.pipe("pid");
    world.prompt(r#"FIRST [[say:I begin]]&[[tool:Bash {"command":"echo $$ > pid; sleep 1000"}]]"#).await;
    let process = Process::open(world.read("pid").await.trim().parse().unwrap()).unwrap();
    let interrupted = world.conn.ok("session.interrupt", json!({})).await;
    assert_eq!(interrupted["taskId"], json!(world.lead));
    assert!(!process.is_alive(), "its program goes on");
    let task = world.conn.task(&world.lead).await;
    assert_eq!((&task["status"], &task["result"]["text"]), (&json!("killed"), &json!("I begin")), "{task}");
    assert_eq!(task["stoppedBy"]["reason"], "interrupted");
    let messages = world.conn.ok("session.messages", json!({})).await;
    let last = messages["messages"].as_array().unwrap().last().unwrap()["content"][0].clone();
    assert_eq!((&last["type"], &last["is_error"]), (&json!("tool_result"), &json!(true)), "{messages}");
    assert_eq!(world.conn.ok("session.interrupt", json!({})).await, json!({}));
    assert_eq!(world.say("SECOND [[say:two]]").await, "two");
    assert_eq!(world.told().len(), 4, "{:?}", world.told());
    world.daemon.end().await;
}

/// RS-07, A5, MB-15, SV-09: a turn that runs takes no other prompt; a message reaches it between two calls.
#[tokio::test]
async fn a_lead_at_work_takes_messages_and_no_prompt() {
    let world = World::start().await;
    world.pipe("began");
    world.pipe("go");
    world.prompt(r#"FIRST [[tool:Bash {"command":"echo 1 > began; cat go"}]] [[say:done]]"#).await;
    world.read("began").await;
    let refused = world.conn.err("session.prompt", json!({ "text": "more" })).await;
    assert_eq!((refused.kind, &refused.data["taskId"]), (Some(Kind::StillRunning), &json!(world.lead)));
    assert_eq!(world.conn.send("main", "look at b.txt as well").await["delivered"][0]["receives"], "turn");
    world.write("go");
    assert_eq!(world.conn.wait(&world.lead).await["result"]["text"], "done");
    let told = world.told();
    assert!(told.last().unwrap().contains("look at b.txt as well"), "{told:?}");
    // Asleep, it is woken by one.
    world.conn.send("main", "[[say:woken]]").await;
    assert_eq!(world.conn.wait(&world.lead).await["result"]["text"], "woken");
    world.daemon.end().await;
}

/// E68: another mode and another model hold from the next call and the next request on, within a turn as well.
#[tokio::test]
async fn mode_and_model_change_within_a_turn() {
    let world = World::with(json!({ "permissionMode": "dontAsk" })).await;
    let write = r#"[[tool:Write {"file_path":"a.txt","content":"x"}]]"#;
    assert!(world.say(&format!("FIRST {write}")).await.contains("nobody is asked"));
    assert!(!world.daemon.home.join("a.txt").exists());
    world.conn.ok("session.setMode", json!({ "value": "bypassPermissions" })).await;
    world.pipe("began");
    world.pipe("go");
    let bash = r#"[[tool:Bash {"command":"echo 1 > began; cat go"}]]"#;
    world.prompt(&format!("SECOND {write} {bash} {write} [[say:end]]")).await;
    world.read("began").await;
    assert!(world.daemon.home.join("a.txt").exists());
    world.conn.ok("session.setModel", json!({ "value": "anthropic/another-model" })).await;
    world.conn.ok("session.setMode", json!({ "value": "dontAsk" })).await;
    world.write("go");
    let task = world.conn.wait(&world.lead).await;
    assert_eq!(
        (&task["model"], &task["permissionMode"]),
        (&json!("anthropic/another-model"), &json!("dontAsk"))
    );
    assert!(world.told().last().unwrap().contains("nobody is asked"), "{:?}", world.told());
    let models: Vec<Value> = world.bodies().map(|body| body["model"].clone()).collect();
    let (before, after) = models.split_at(4);
    assert!(before.iter().all(|model| model != "another-model"), "{models:?}");
    assert!(!after.is_empty() && after.iter().all(|model| model == "another-model"), "{models:?}");
    let bad = world.conn.err("session.setMode", json!({ "value": "allowAll" })).await;
    assert_eq!((bad.kind, &bad.data["path"]), (Some(Kind::InvalidParams), &json!("value")));
    let session = world.conn.ok("session.get", json!({ "sessionId": world.session })).await;
    assert_eq!(
        (&session["model"], &session["permissionMode"]),
        (&json!("anthropic/another-model"), &json!("dontAsk"))
    );
    world.daemon.end().await;
}

/// B25, B37, B38, NT-09, G4: a lead whose turn is over is woken by the end of what it spawned, and is done only then; its
/// session hears of that end from nobody else.
#[tokio::test]
async fn a_sleeping_lead_is_woken_by_its_childs_end() {
    let world = World::start().await;
    world.pipe("go");
    let mut events = world.conn.events(json!(["task"])).await;
    let child = r#"CHILD [[tool:Bash {"command":"cat go"}]] [[say:found it]]"#;
    world
        .prompt(&format!("FIRST {} [[say:started]]", agent(child, json!({ "run_in_background": true }))))
        .await;
    world.sleeps(&mut events).await;
    // It can be talked to meanwhile.
    world.prompt("SECOND [[say:two]]").await;
    world.sleeps(&mut events).await;
    world.write("go");
    let task = world.conn.wait(&world.lead).await;
    assert_eq!((&task["status"], &task["attempt"]), (&json!("completed"), &json!(3)), "{task}");
    let told = world.told();
    let notice = told.last().unwrap();
    assert!(notice.contains("<task-notification>") && notice.contains("found it"), "{told:?}");
    assert_eq!(world.conn.ok("notification.list", json!({})).await["notifications"], json!([]));
    world.daemon.end().await;
}

/// B36, D54, SP-14: an interrupted lead is woken by nobody; what it spawned goes on, and its notice waits for whoever asks
/// first: the session's reader, or the lead at its next prompt.
#[tokio::test]
async fn an_interrupted_lead_is_not_woken() {
    let world = World::start().await;
    world.pipe("go");
    let mut events = world.conn.events(json!(["task"])).await;
    let child = r#"CHILD [[tool:Bash {"command":"cat go"}]] [[say:found it]]"#;
    let spawns = agent(child, json!({ "run_in_background": true, "name": "child" }));
    world.prompt(&format!("FIRST {spawns} [[say:started]]")).await;
    world.sleeps(&mut events).await;
    world.conn.ok("session.interrupt", json!({})).await;
    world.write("go");
    assert_eq!(world.conn.wait("child").await["status"], "completed");
    let task = world.conn.task(&world.lead).await;
    assert_eq!((&task["status"], &task["attempt"]), (&json!("killed"), &json!(1)), "{task}");
    assert_eq!(
        world.conn.ok("notification.list", json!({})).await["notifications"].as_array().unwrap().len(),
        1
    );
    world.say("SECOND [[say:two]]").await;
    let told = world.told().concat();
    assert_eq!(told.matches("<task-notification>").count(), 1, "{told}");
    assert_eq!(world.conn.ok("notification.list", json!({})).await["notifications"], json!([]));
    world.daemon.end().await;
}

/// NT-08, B36: a notice that somebody else holds is nothing that a lead waits for: its turn ends.
#[tokio::test]
async fn a_notice_that_another_one_holds_keeps_no_turn_open() {
    let world = World::start().await;
    world.pipe("go");
    let mut events = world.conn.events(json!(["task"])).await;
    let child = r#"CHILD [[tool:Bash {"command":"cat go"}]] [[say:found it]]"#;
    let spawns = agent(child, json!({ "run_in_background": true, "name": "child" }));
    world.prompt(&format!("FIRST {spawns} [[say:started]]")).await;
    world.sleeps(&mut events).await;
    world.conn.ok("session.interrupt", json!({})).await;
    world.write("go");
    assert_eq!(world.conn.wait("child").await["status"], "completed");
    let held = world.conn.ok("notification.next", json!({})).await;
    assert_eq!(held["notifications"].as_array().map(Vec::len), Some(1), "{held}");
    assert_eq!(world.say("SECOND [[say:two]]").await, "two");
    assert!(!world.told().concat().contains("<task-notification>"));
    world.daemon.end().await;
}

/// E68, FK-03, FK-21, PM-07: a fork that a program of a lead asks for is judged by the mode that the lead has by now.
#[tokio::test]
async fn a_fork_of_a_programs_has_the_mode_that_its_lead_has_by_now() {
    let world = World::with(json!({ "permissionMode": "dontAsk" })).await;
    world.say("FIRST [[say:one]]").await;
    world.conn.ok("session.setMode", json!({ "value": "bypassPermissions" })).await;
    let ctl = world.daemon.home.ctl(&[]).get_program().to_str().unwrap().to_owned();
    let prompt = r#"FORK [[tool:Write {"file_path":"forked.txt","content":"x"}]] [[say:Scope: done]]"#;
    let params = json!({ "subagentType": "fork", "name": "forked", "prompt": prompt, "env": env(&world.fake, world.daemon.home.path()) });
    let script = format!("{ctl} rpc agent.spawn '{params}'");
    std::fs::write(world.daemon.home.join("fork.sh"), script).unwrap();
    world.say(r#"SECOND [[tool:Bash {"command":"sh fork.sh"}]] [[say:two]]"#).await;
    let fork = world.conn.wait("forked").await;
    assert!(world.daemon.home.join("forked.txt").exists(), "{fork}");
    world.daemon.end().await;
}

/// PR-01, PR-02, PR-03, PR-04, TP-19, TP-23: what a session is opened with decides the prompt of whom a person talks to in
/// it, and its lead says just that to its model.
#[tokio::test]
async fn a_lead_has_the_prompt_that_its_session_was_opened_with() {
    let world = World::start().await;
    let dir = world.daemon.home.join(".claude/agents");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(
        dir.join("boss.md"),
        "---\nname: boss\ndescription: d\ninitialPrompt: Begin so.\n---\nagent-text",
    )
    .unwrap();
    for bits in 0..32_u32 {
        let has = |bit: u32| bits & (1 << bit) > 0;
        let mut params =
            json!({ "cwd": world.daemon.home.path(), "env": { "HOME": world.daemon.home.path() } });
        for (bit, more) in [
            (0, json!({ "overridePrompt": "override-text" })),
            (1, json!({ "coordinator": true })),
            (2, json!({ "agent": "boss" })),
            (3, json!({ "systemPrompt": "custom-text" })),
            (4, json!({ "appendPrompt": "append-text" })),
        ] {
            if has(bit) {
                merge(&mut params, more);
            }
        }
        let session = world.conn.ok("session.open", params.clone()).await["sessionId"].clone();
        let found = world.conn.ok("agent.explain", json!({ "model": "offline", "sessionId": session })).await;
        let layers: Vec<&str> = found["prompt"]["layers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|layer| layer["name"].as_str().unwrap())
            .collect();
        let names = ["override", "coordinator", "agent", "custom"];
        let base = (0..4).find(|bit| has(*bit)).map_or("default", |bit| names[bit as usize]);
        assert_eq!(layers[0], base, "{params}");
        assert_eq!(layers.last() == Some(&"append"), has(4) && !has(0), "{params}: {layers:?}");
        assert_eq!(has(0), layers.len() == 1, "{params}: {layers:?}");
        let pool = found["tools"]["pool"].as_array().unwrap();
        assert_eq!(has(1), !pool.contains(&json!("Read")), "{params}: {pool:?}");
    }
    let proactive =
        json!({ "agent": "boss", "proactive": true, "appendPrompt": "append-text", "model": "offline" });
    let mut params =
        json!({ "cwd": world.daemon.home.path(), "env": env(&world.fake, world.daemon.home.path()) });
    merge(&mut params, proactive);
    params["model"] = json!("anthropic/model-1");
    world.conn.ok("session.open", params).await;
    world.conn.ok("session.prompt", json!({ "text": "FIRST [[say:one]]" })).await;
    world.fake.requests(1);
    // Its definition has its first turn begin with a text of its own.
    assert_eq!(world.told(), ["Begin so.\n\nFIRST [[say:one]]"]);
    let system = world.bodies().last().unwrap()["system"].to_string();
    let place = |text: &str| system.find(text).unwrap_or_else(|| panic!("{text}: {system}"));
    assert!(place("agent-text") > 200 && place("append-text") > place("agent-text"), "{system}");
    world.daemon.end().await;
}

/// AD-16, FF-04: a session is refused that could not be what it is asked to be.
#[tokio::test]
async fn what_a_lead_can_not_be_is_refused_when_its_session_opens() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    for (params, kind, path) in [
        (json!({ "agent": "nobody" }), Kind::AgentTypeNotFound, None),
        (json!({ "profile": "huge" }), Kind::InvalidParams, Some("profile")),
        (json!({ "permissionMode": "huge" }), Kind::InvalidParams, Some("permissionMode")),
        (json!({ "model": "ollama/" }), Kind::ModelNotAllowed, Some("model")),
    ] {
        let refused = conn.err("session.open", params.clone()).await;
        assert_eq!(refused.kind, Some(kind), "{params}: {refused:?}");
        assert_eq!(refused.data.get("path").and_then(Value::as_str), path, "{params}");
    }
    assert_eq!(conn.ok("session.list", json!({})).await["sessions"].as_array().unwrap().len(), 1);
    let minimal = conn.ok("session.open", json!({ "profile": "minimal" })).await["sessionId"].clone();
    let params = json!({ "sessionId": minimal, "model": "offline" });
    assert_eq!(conn.ok("agent.explain", params).await["definition"]["name"], "explore");
    for model in ["ollama/", "ollama/other", "offline"] {
        let set = conn.call("session.setModel", json!({ "sessionId": minimal, "value": model })).await;
        assert_eq!(set.is_ok(), model != "ollama/", "{model}: {set:?}");
    }
    let kind = conn.kind("session.prompt", json!({ "text": " " })).await;
    assert_eq!(kind, Kind::InvalidParams);
    daemon.end().await;
}

/// cli.md, `session`: a person opens a session, talks to its lead, and reads what was said.
#[test]
fn a_person_talks_to_a_lead_on_the_command_line() {
    let daemon = Daemon::start();
    let ok = |args: &[&str]| {
        let ended = run(&mut daemon.home.ctl(args));
        assert_eq!(ended.code, Some(0), "{args:?}: {}", ended.err);
        ended.out
    };
    let id = ok(&["session", "open", "--name", "red", "--model", "offline", "--permission-mode", "plan"]);
    let say = |text: &str| {
        let script = format!("{text}\n```offline\n- say: heard {text}\n```");
        ok(&["session", "prompt", "--session", "red", &script])
    };
    assert_eq!(say("one"), "heard one\n");
    assert_eq!(say("two"), "heard two\n");
    let messages = ok(&["session", "messages", id.trim()]);
    assert!(messages.contains("user: one\n") && messages.ends_with("assistant: heard two\n"), "{messages}");
    assert_eq!(ok(&["session", "interrupt", "red"]).trim(), "");
    ok(&["session", "mode", "--session", "red", "acceptEdits"]);
    ok(&["session", "model", "--session", "red", "offline"]);
    let shown: Value = ok(&["session", "show", "red", "--json"]).parse().unwrap();
    assert_eq!((&shown["permissionMode"], &shown["model"]), (&json!("acceptEdits"), &json!("offline")));
    let refused = run(&mut daemon.home.ctl(&["session", "prompt", "--session", "nobody", "hello"]));
    assert_eq!(refused.code, Some(3), "{}", refused.err);
}
