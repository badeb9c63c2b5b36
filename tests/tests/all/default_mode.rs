//! The mode that settings files have for whom a person talks to, and for nobody else.

use std::fs;

use ccagent_tests::conn::{merge, next};
use serde_json::{Value, json};

use super::agents::{KEY, World, call};

/// A daemon, a home, and a project in it.
struct Lab {
    world: World,
}

impl Lab {
    async fn new() -> Self {
        let world = World::start().await;
        for dir in ["home/.claude", "project/.claude/agents", "project/.git"] {
            fs::create_dir_all(world.home().join(dir)).unwrap();
        }
        let plans = "---\nname: plans\ndescription: d\npermissionMode: plan\n---\nPlan.";
        fs::write(world.home().join("project/.claude/agents/plans.md"), plans).unwrap();
        Self { world }
    }

    fn settings(&self, place: &str, permissions: &Value) {
        let path = self.world.home().join(place).join(".claude/settings.json");
        fs::write(path, json!({ "permissions": permissions }).to_string()).unwrap();
    }

    fn env(&self) -> Value {
        json!({ "ANTHROPIC_BASE_URL": self.world.fake.url, "ANTHROPIC_API_KEY": KEY, "HOME": self.world.home().join("home") })
    }

    /// The mode of a spawn, and who said so.
    async fn mode(&self, more: Value) -> (Value, Value) {
        let mut params = json!({ "cwd": self.world.home().join("project"), "env": self.env() });
        merge(&mut params, more);
        let found = self.world.conn.ok("agent.explain", params).await;
        (found["permissionMode"].clone(), found["permissionModeSource"].clone())
    }

    async fn open(&self, more: Value) -> Value {
        let mut params = json!({ "cwd": self.world.home().join("project"), "env": self.env() });
        merge(&mut params, more);
        self.world.conn.ok("session.open", params).await
    }
}

/// PM-07, interop.md: whom a person talks to has the mode of the settings where neither the spawn nor its definition says
/// one; agents of a type have none of it, a repository makes nobody mightier, and where bypassing is switched off nobody
/// bypasses.
#[tokio::test]
async fn the_settings_mode_is_for_whom_a_person_talks_to() {
    let lab = Lab::new().await;
    let said = |mode: &str, source: &str| (json!(mode), json!(source));
    assert_eq!(lab.mode(json!({})).await, said("default", "default"));
    lab.settings("home", &json!({ "defaultMode": "acceptEdits" }));
    assert_eq!(lab.mode(json!({})).await, said("acceptEdits", "settings"));
    assert_eq!(lab.mode(json!({ "permissionMode": "default" })).await, said("default", "call"));
    assert_eq!(lab.mode(json!({ "subagentType": "general-purpose" })).await, said("default", "default"));
    assert_eq!(lab.mode(json!({ "subagentType": "plans" })).await, said("plan", "definition"));
    lab.settings("project", &json!({ "defaultMode": "bypassPermissions" }));
    assert_eq!(lab.mode(json!({})).await, said("acceptEdits", "settings"));
    lab.settings("project", &json!({ "defaultMode": "plan" }));
    assert_eq!(lab.mode(json!({})).await, said("plan", "settings"));
    lab.settings("home", &json!({ "defaultMode": "bypassPermissions" }));
    lab.settings("project", &json!({}));
    assert_eq!(lab.mode(json!({})).await, said("bypassPermissions", "settings"));
    lab.settings("project", &json!({ "disableBypassPermissionsMode": "disable" }));
    assert_eq!(lab.mode(json!({})).await, said("default", "settings"));
    lab.world.daemon.end().await;
}

/// PM-07, interop.md: a session's lead has the mode of the settings where its session was opened with none, and its
/// definition has none; what it was opened with counts, also where that is the default.
#[tokio::test]
async fn a_leads_mode_is_its_sessions_then_its_definitions_then_the_settings() {
    let lab = Lab::new().await;
    lab.settings("home", &json!({ "defaultMode": "acceptEdits" }));
    let mut asks =
        lab.world.conn.client.subscribe_raw("ask.subscribe", json!({}), "ask.unsubscribe").await.unwrap();
    for (name, more, mode) in [
        ("none", json!({}), "acceptEdits"),
        ("said", json!({ "permissionMode": "default" }), "default"),
        ("type", json!({ "agent": "plans" }), "plan"),
    ] {
        let opened = lab.open(more).await;
        let write = call("Write", &json!({ "file_path": format!("{name}.txt"), "content": "x" }));
        let prompt =
            json!({ "sessionId": opened["sessionId"], "text": format!("LEAD {write} [[say:done]]") });
        lab.world.conn.ok("session.prompt", prompt).await;
        if mode == "default" {
            let ask = next(&mut asks).await;
            lab.world.conn.ok("ask.respond", json!({ "askId": ask["id"], "behavior": "deny" })).await;
        }
        let task = lab.world.conn.wait(opened["mainAgentId"].as_str().unwrap()).await;
        assert_eq!(
            (&task["status"], &task["permissionMode"]),
            (&json!("completed"), &json!(mode)),
            "{name}: {task}"
        );
        let written = lab.world.home().join("project").join(format!("{name}.txt")).exists();
        assert_eq!(written, mode == "acceptEdits", "{name}");
    }
    lab.world.daemon.end().await;
}
