use std::collections::BTreeMap;
use std::path::Path;

use ccagent_tests::programs;
use serde_json::json;

use super::*;

/// Hooks of one event, with a shell and nothing else in their environment.
fn watch(dir: &Path, event: Event, hooks: &[(&str, &str)]) -> Watch {
    let groups: Vec<Value> = hooks
        .iter()
        .map(|(matcher, command)| {
            json!({"matcher": matcher, "hooks": [{"type": "command", "command": command, "timeout": 30}]})
        })
        .collect();
    watching(dir, &json!({ event.as_str(): groups }))
}

fn watching(dir: &Path, value: &Value) -> Watch {
    let mut hooks = Hooks::default();
    hooks.add(value, Path::new("/f"));
    assert!(hooks.problems.is_empty(), "{:?}", hooks.problems);
    let who = Who {
        session_id: "main".to_owned(),
        agent_id: "agent_1".to_owned(),
        agent_type: "Explore".to_owned(),
        permission_mode: "default".to_owned(),
        transcript: dir.join("history.jsonl"),
    };
    let env = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
    let shim = programs::shim();
    let means = Means {
        shim,
        env,
        cwd: dir.to_owned(),
        root: dir.to_owned(),
        temp: dir.to_owned(),
        writable: Vec::new(),
    };
    Watch::new(hooks, who, means)
}

/// PM-10, C18: a hook reads what is to be done and by whom, and its exit code 2 objects with what it says on stderr.
#[tokio::test]
async fn a_hook_reads_the_call_and_objects() {
    let dir = tempfile::tempdir().unwrap();
    let asked = "cat > asked; echo \"$CLAUDE_PROJECT_DIR\" > root; echo 'not that' >&2; exit 2";
    let watch = watch(dir.path(), Event::PreToolUse, &[("Bash", asked), ("Edit", "exit 0")]);
    let said = watch.before("Bash", &json!({"command": "rm -r /"}), "call_1").await;
    assert_eq!((said.word, said.notes), (Word::Deny("not that".to_owned()), Vec::new()));
    let read: Value =
        serde_json::from_str(&std::fs::read_to_string(dir.path().join("asked")).unwrap()).unwrap();
    for (key, value) in [
        ("hook_event_name", json!("PreToolUse")),
        ("tool_name", json!("Bash")),
        ("tool_input", json!({"command": "rm -r /"})),
        ("tool_use_id", json!("call_1")),
        ("agent_id", json!("agent_1")),
        ("agent_type", json!("Explore")),
        ("permission_mode", json!("default")),
        ("session_id", json!("main")),
        ("cwd", json!(dir.path())),
    ] {
        assert_eq!(read[key], value, "{key}");
    }
    let root = std::fs::read_to_string(dir.path().join("root")).unwrap();
    assert_eq!(Path::new(root.trim()), dir.path());
    assert_eq!(watch.before("Read", &json!({}), "call_2").await, Said::default());
    // Nothing is left of how it works.
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
}

/// C18: of several answers the one that forbids wins; JSON gives another input, words for the model and for a person, and
/// can end the agent.
#[tokio::test]
async fn answers_are_put_together() {
    let dir = tempfile::tempdir().unwrap();
    let allow = r#"echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": {"a": 1}, "additionalContext": "mind the gap"}}'"#;
    let ask = r#"echo '{"systemMessage": "look", "hookSpecificOutput": {"permissionDecision": "ask", "permissionDecisionReason": "odd"}}'"#;
    let halt = r#"echo '{"continue": false, "stopReason": "enough"}'"#;
    let one = watch(dir.path(), Event::PreToolUse, &[("", allow)]).before("X", &json!({}), "1").await;
    assert_eq!((one.word, one.input), (Word::Allow, Some(json!({"a": 1}))));
    assert_eq!(one.context, ["mind the gap"]);
    let all = watch(dir.path(), Event::PreToolUse, &[("", allow), ("*", ask), ("X|Y", halt)]);
    let all = all.before("X", &json!({}), "1").await;
    assert_eq!((all.word, all.halt), (Word::Ask("odd".to_owned()), Some("enough".to_owned())));
    assert_eq!(all.notes, ["look"]);
    let permit = r#"echo '{"hookSpecificOutput": {"decision": {"behavior": "deny", "message": "no"}}}'"#;
    let said = watch(dir.path(), Event::PermissionRequest, &[("", permit)]).permission("X", &json!({})).await;
    assert_eq!(said.word, Word::Deny("no".to_owned()));
    let other = |input: &str| {
        let allow = format!(r#"{{"decision": {{"behavior": "allow", "updatedInput": {input}}}}}"#);
        format!("echo '{{\"hookSpecificOutput\": {allow}}}'")
    };
    for (input, word, changed) in
        [(r#"{"a": 2}"#, Word::Allow, Some(json!({"a": 2}))), (r#""rm""#, Word::Nothing, None)]
    {
        let permits = watch(dir.path(), Event::PermissionRequest, &[("", &other(input))]);
        let said = permits.permission("X", &json!({})).await;
        assert_eq!(
            (said.word, said.input, said.notes.len()),
            (word, changed.clone(), usize::from(changed.is_none()))
        );
    }
    let block = r#"echo '{"decision": "block", "reason": "write the tests"}'"#;
    let said = watch(dir.path(), Event::SubagentStop, &[("Explore", block)]).stop(Some("done"), 0).await;
    assert_eq!(said.word, Word::Deny("write the tests".to_owned()));
}

/// C18, D49: a hook that hangs, breaks, talks without end or says what nobody understands decides nothing, is named, and
/// leaves nothing running.
#[tokio::test]
async fn a_hook_that_fails_decides_nothing_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let note = async |command: &str, args: Value, timeout: f64| {
        let hook = json!({"type": "command", "command": command, "args": args, "timeout": timeout});
        let value = json!({"PreToolUse": [{"hooks": [hook]}]});
        let said = watching(dir.path(), &value).before("X", &json!({"text": "x".repeat(1 << 20)}), "1").await;
        assert_eq!((said.word, said.context.len()), (Word::Nothing, 0));
        said.notes.join("\n")
    };
    let none = Value::Null;
    assert!(note("sleep 1000 & sleep 1000", none.clone(), 0.05).await.contains("its 50 ms were up"));
    assert!(note("echo broken >&2; exit 3", none.clone(), 30.0).await.contains("exit code 3: broken"));
    assert!(note("kill -9 $$", none.clone(), 30.0).await.contains("signal 9"));
    assert!(note("echo '{\"continue\": 7}'", none.clone(), 30.0).await.contains("not right: continue"));
    assert!(note("/no/such", json!([]), 30.0).await.contains("exit code 127"));
    assert_eq!(note("yes | head -c 3000000; true", none.clone(), 30.0).await, "");
    assert_eq!(note("printf", json!(["%s", "{}"]), 30.0).await, "");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// PM-10, C18: a hook in a person's place gives the session rules with its word that a call may be; whatever else it wants
/// to hold, and what nobody understands, is named and passed over. A denial can end the agent, and gives no rule.
#[tokio::test]
async fn a_hook_gives_rules_and_ends_an_agent() {
    let dir = tempfile::tempdir().unwrap();
    let asked = async |decision: Value| {
        let out = json!({ "hookSpecificOutput": { "decision": decision } });
        let watch = watch(dir.path(), Event::PermissionRequest, &[("", &format!("echo '{out}'"))]);
        watch.permission("X", &json!({})).await
    };
    let add = |behavior: &str, destination: &str| {
        let rules = json!([{ "toolName": "Bash", "ruleContent": "touch *" }, { "toolName": "Read" }]);
        json!({ "type": "addRules", "rules": rules, "behavior": behavior, "destination": destination })
    };
    let updates = [
        add("allow", "session"),
        add("allow", "userSettings"),
        add("perhaps", "session"),
        json!({ "type": "setMode", "mode": "bypassPermissions", "destination": "session" }),
        json!({ "type": "removeRules", "rules": [], "behavior": "deny", "destination": "session" }),
        json!({ "type": "addRules", "rules": [{ "tool": "Bash" }] }),
        json!(7),
    ];
    let said = asked(json!({ "behavior": "allow", "updatedPermissions": updates })).await;
    let texts: Vec<&str> = said.rules.iter().map(|rule| rule.text.as_str()).collect();
    assert_eq!((said.word, texts), (Word::Allow, vec!["Bash(touch *)", "Read"]));
    assert_eq!(said.notes.len(), updates.len() - 1, "{:?}", said.notes);
    for named in ["userSettings", "perhaps", "setMode", "removeRules", "toolName"] {
        assert!(said.notes.iter().any(|note| note.contains(named)), "{named}: {:?}", said.notes);
    }
    let many = vec![add("deny", "session"); 100];
    let said = asked(json!({ "behavior": "allow", "updatedPermissions": many })).await;
    assert!(said.rules.len() == 20 && !said.notes.is_empty());
    let denied = json!({ "behavior": "deny", "message": "no", "interrupt": true, "updatedPermissions": [add("allow", "session")] });
    let said = asked(denied).await;
    assert_eq!(
        (said.word, said.halt, said.rules.len()),
        (Word::Deny("no".to_owned()), Some("no".to_owned()), 0)
    );
    let allowed = asked(json!({ "behavior": "allow", "interrupt": true })).await;
    assert_eq!((allowed.word, allowed.halt), (Word::Allow, None));
}
