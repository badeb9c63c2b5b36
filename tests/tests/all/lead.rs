//! Leads, as they stand to what changes around them: modes, rules, interrupts, and crashes between a prompt and its turn.

use std::path::Path;

use ccagent_tests::conn::merge;
use serde_json::{Value, json};

use super::session_lead::{World, agent, env};

/// C18, TP-05, PM-04: hooks are told the mode that holds by now, and not the one with which the session was opened.
#[tokio::test]
async fn hooks_are_told_the_mode_of_now() {
    let world = World::start().await;
    let home = world.daemon.home.path();
    std::fs::create_dir_all(home.join(".claude")).unwrap();
    let command = format!("cat >> {}", home.join("heard").display());
    let hook = json!([{"matcher": "", "hooks": [{"type": "command", "command": command}]}]);
    let settings = json!({"hooks": {"SubagentStart": hook}}).to_string();
    std::fs::write(home.join(".claude/settings.json"), settings).unwrap();
    for mode in ["bypassPermissions", "plan"] {
        world.conn.ok("session.setMode", json!({"value": mode})).await;
        world.say("hello").await;
    }
    let heard = std::fs::read_to_string(home.join("heard")).unwrap();
    let heard = heard.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let modes: Vec<Value> = heard.map(|told| told["permission_mode"].clone()).collect();
    assert_eq!(modes, ["bypassPermissions", "plan"]);
    world.daemon.end().await;
}

/// C6, C36, SP-04, PM-10: what a rule says of a type holds for a spawn that names none and gets that type: a coordinator's
/// is a worker and a lead's of another profile a general agent, where any other lead's is a fork.
#[tokio::test]
async fn a_rule_about_a_type_holds_for_who_gets_it_unnamed() {
    for (more, gets) in [
        (json!({}), "fork"),
        (json!({ "coordinator": true }), "worker"),
        (json!({ "profile": "qlogic" }), "general"),
    ] {
        let world = World::with(more.clone()).await;
        world.say("hello").await;
        let local = world.daemon.home.join(".claude");
        std::fs::create_dir_all(&local).unwrap();
        for name in ["fork", "worker", "general-purpose", "general"] {
            let rules = json!({ "permissions": { "deny": [format!("Agent({name})")] } });
            std::fs::write(local.join("settings.json"), rules.to_string()).unwrap();
            let asked = json!({
                "taskId": world.lead, "toolName": "Agent", "input": {"description": "d", "prompt": "p"},
            });
            let checked = world.conn.ok("permission.check", asked).await;
            assert_eq!(checked["decision"] == "deny", name == gets, "{more} {name}: {checked}");
        }
        world.daemon.end().await;
    }
}

/// I2, D54, H108, RS-10: every prompt that was acknowledged is said, in order and once, whatever became of the run that it
/// was for; one that its person took back before it was said is said to be cancelled.
#[tokio::test]
async fn a_prompt_that_was_not_said_is_said_with_the_next_one() {
    let mut world = World::start().await;
    world.say("FIRST [[say:1]]").await;
    for text in ["SECOND", "THIRD"] {
        world.conn.ok("session.pause", json!({})).await;
        world.prompt(text).await;
        world.conn.ok("session.interrupt", json!({})).await;
        world.conn.ok("session.unpause", json!({})).await;
    }
    world.conn.ok("session.pause", json!({})).await;
    world.prompt("FOURTH").await;
    world.daemon.crash();
    world.daemon.restart();
    world.conn = world.daemon.connect().await;
    let session = json!({ "sessionId": world.session });
    world.conn.ok("session.interrupt", session.clone()).await;
    world.conn.ok("session.unpause", json!({})).await;
    for (text, says) in [("FIFTH [[say:5]]", "5"), ("SIXTH [[say:6]]", "6")] {
        let mut params = json!({ "text": text, "env": env(&world.fake, world.daemon.home.path()) });
        merge(&mut params, session.clone());
        world.conn.ok("session.prompt", params).await;
        assert_eq!(world.conn.wait(&world.lead).await["result"]["text"], says);
    }
    let told = world.told().concat();
    let places: Vec<usize> = ["FIRST", "SECOND", "THIRD", "FOURTH", "FIFTH", "SIXTH"]
        .iter()
        .map(|text| {
            assert_eq!(told.matches(text).count(), 1, "{text}: {told}");
            told.find(text).unwrap()
        })
        .collect();
    assert!(places.is_sorted(), "{told}");
    assert_eq!(told.matches("[Cancelled before you read it").count(), 2, "{told}");
    assert!(
        world.conn.ok("task.get", json!({"taskId": world.lead})).await["prompt"]
            .as_str()
            .unwrap()
            .contains("SIXTH")
    );
    world.daemon.end().await;
}

/// D49, D53, I3, AB-01: whoever hears that a turn was stopped or interrupted knows that nothing of its programs is left, those
/// included that ignore TERM.
#[tokio::test]
async fn a_turn_is_over_once_its_programs_are() {
    let world = World::start().await;
    for end in ["session.interrupt", "task.stop"] {
        world.pipe("began");
        world.prompt(r#"FIRST [[tool:Bash {"command":"trap '' TERM; echo $$ > began; while :; do sleep 0.05; done"}]]"#).await;
        let pid: i32 = world.read("began").await.trim().parse().unwrap();
        let params =
            if end == "task.stop" { json!({"taskId": world.lead, "force": true}) } else { json!({}) };
        world.conn.ok(end, params).await;
        assert_eq!(world.conn.wait(&world.lead).await["status"], "killed");
        assert_eq!(std::fs::read(format!("/proc/{pid}/cmdline")).ok(), None, "{end}");
        std::fs::remove_file(world.daemon.home.join("began")).unwrap();
    }
    world.daemon.end().await;
}

/// E68, PM-07, FK-21: a fork has the mode that its parent has by now, also once the person allows less.
#[tokio::test]
async fn a_fork_follows_the_mode_of_its_parent() {
    let world = World::start().await;
    world.pipe("began");
    world.pipe("go");
    let bash = r#"[[tool:Bash {"command":"echo 1 > began; cat go"}]]"#;
    let write = r#"[[tool:Write {"file_path":"forked.txt","content":"x"}]]"#;
    let call = agent(&format!("FORK {bash} {write} [[say:Scope: done]]"), json!({}));
    world.prompt(&format!("FIRST {call} [[say:one]]")).await;
    world.read("began").await;
    world.conn.ok("session.setMode", json!({ "value": "dontAsk" })).await;
    world.write("go");
    world.conn.wait(&world.lead).await;
    assert!(!world.daemon.home.join("forked.txt").exists());
    assert!(world.bodies().any(|body| body.to_string().contains("nobody is asked")));
    world.daemon.end().await;
}

/// E68, PM-07, PM-10: a program of an agent gives another one no more than its agent may, and nobody else's settings.
#[tokio::test]
async fn a_program_of_an_agent_makes_no_mightier_one() {
    let world = World::start().await;
    let ctl = world.daemon.home.ctl(&[]).get_program().to_str().unwrap().to_owned();
    let spawn = |name: &str, home: &Path| {
        let params = json!({
            "name": name, "prompt": "x", "permissionMode": "bypassPermissions", "runInBackground": true,
            "env": env(&world.fake, home),
        });
        std::fs::write(world.daemon.home.join(name), format!("{ctl} rpc agent.spawn '{params}' 2>&1"))
            .unwrap();
        format!(r#"[[tool:Bash {{"command":"sh {name}; echo"}}]]"#)
    };
    world.conn.ok("session.setMode", json!({ "value": "default" })).await;
    for rule in ["Bash(sh:*)", "Bash(echo)"] {
        let rule = json!({ "rule": rule, "behavior": "allow", "destination": "session" });
        world.conn.ok("permission.addRule", rule).await;
    }
    let said = world.say(&format!("FIRST {}", spawn("other", Path::new("/")))).await;
    assert!(said.contains("env.HOME") || said.contains("whose settings"), "{said}");
    world.say(&format!("SECOND {}", spawn("weak", world.daemon.home.path()))).await;
    let task = world.conn.ok("task.get", json!({ "taskId": "weak" })).await;
    assert_eq!(task["permissionMode"], "default", "{task}");
    world.daemon.end().await;
}

/// PM-10, I18: what a settings file denies stays denied while nobody can read the file, be it half written or emptied by the
/// agent itself; once it is whole again, it says what holds.
#[tokio::test]
async fn a_settings_file_that_breaks_takes_nothing_back() {
    let world = World::start().await;
    let settings = world.daemon.home.join(".claude/settings.json");
    std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
    std::fs::write(&settings, r#"{"permissions": {"deny": ["Write"]}}"#).unwrap();
    let write = r#"[[tool:Write {"file_path":"a.txt","content":"x"}]]"#;
    let breaks = r#"[[tool:Bash {"command":": > .claude/settings.json"}]]"#;
    world.say(&format!("FIRST {breaks} {write} {write} [[say:end]]")).await;
    assert!(!world.daemon.home.join("a.txt").exists());
    let mends = r#"[[tool:Bash {"command":"echo '{}' > .claude/settings.json"}]]"#;
    world.say(&format!("SECOND {mends} {write} [[say:end]]")).await;
    assert!(world.daemon.home.join("a.txt").exists(), "{:?}", world.told());
    world.daemon.end().await;
}
