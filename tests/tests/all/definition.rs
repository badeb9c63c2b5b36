//! Definitions of agents over the socket and by the command line: what there are, where each is from, what is wrong.

use std::fs;
use std::path::Path;

use ccagent_proto::Kind;
use ccagent_tests::Daemon;
use ccagent_tests::daemon::run;
use serde_json::{Value, json};

/// Writes a definition into a place for them.
fn write(root: &Path, name: &str, text: &str) {
    let dir = root.join(".claude/agents");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join(format!("{name}.md")), text).unwrap();
}

fn names(found: &Value) -> Vec<&str> {
    found["definitions"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect()
}

/// AD-01, AD-02, AD-03, AD-04, AD-05, AD-06, AD-15, AD-21: the built-ins of the usual profile are listed, in pages and the same each time, and given
/// one by one.
#[tokio::test]
async fn the_built_ins_are_listed_and_given() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let cwd = daemon.home.path();
    let list = conn.ok("definition.list", json!({ "cwd": cwd })).await;
    let all = ["Explore", "Plan", "Verification", "claude-code-guide", "general-purpose", "statusline-setup"];
    for name in all {
        assert!(names(&list).contains(&name), "{name}: {list}");
    }
    assert_eq!(conn.ok("definition.list", json!({ "cwd": cwd })).await, list);
    let first = conn.ok("definition.list", json!({ "cwd": cwd, "limit": 2 })).await;
    let rest = conn.ok("definition.list", json!({ "cwd": cwd, "cursor": first["nextCursor"] })).await;
    assert_eq!([names(&first), names(&rest)].concat(), names(&list));
    let get = async |name| conn.ok("definition.get", json!({ "name": name, "cwd": cwd })).await;
    let general = get("general-purpose").await;
    assert_eq!((&general["source"], &general["shadowed"]), (&json!("builtIn"), &json!([])));
    assert_eq!(general["def"].get("disallowedTools"), None, "{general}");
    for reader in ["Explore", "Plan", "Verification"] {
        let def = get(reader).await["def"].clone();
        assert!(def["disallowedTools"].to_string().contains("Edit"), "{def}");
        assert!(!def["prompt"].as_str().unwrap().is_empty());
    }
    daemon.end().await;
}

/// AD-07, AD-08, AD-09, AD-10, AD-11, AD-12, AD-13, AD-19: other profiles have other built-ins, with all their fields; a profile that there is not is
/// refused with those that there are.
#[tokio::test]
async fn a_profile_has_its_own_built_ins() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let get = async |profile: &str, name: &str| {
        conn.ok("definition.get", json!({ "name": name, "profile": profile })).await["def"].clone()
    };
    for (name, turns, tools, forks) in [
        ("general", 200, "all_tools", false),
        ("explore", 50, "read_tools", false),
        ("plan", 80, "read_tools", false),
        ("code", 200, "all_tools", true),
        ("research", 30, "read_tools", false),
        ("verify", 40, "all_tools", false),
    ] {
        let def = get("qlogic", name).await;
        assert_eq!(def["maxTurns"], turns, "{def}");
        assert_eq!(def["toolCapabilityProfile"], tools, "{def}");
        assert_eq!((&def["canFork"], &def["permissionRole"]), (&json!(forks), &json!("worker")), "{def}");
        assert_eq!(def["isolation"], "shared");
    }
    assert_eq!(get("qlogic", "verify").await["allowedTools"], json!(["exec", "read_file", "search"]));
    let minimal =
        conn.ok("definition.list", json!({ "profile": "minimal", "cwd": daemon.home.path() })).await;
    assert_eq!(names(&minimal), ["explore", "general"]);
    let refused = conn.err("definition.list", json!({ "profile": "huge" })).await;
    assert_eq!((refused.kind, &refused.data["path"]), (Some(Kind::InvalidParams), &json!("profile")));
    assert!(refused.message.contains("`qlogic`"), "{}", refused.message);
    daemon.end().await;
}

/// AD-16, AD-17, AD-18, C24: of several definitions of a name one counts, and says which it shadows; a name that there is
/// not is refused with those that are near.
#[tokio::test]
async fn one_of_several_definitions_counts() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let project = daemon.home.join("project");
    let text =
        "---\nname: Explore\ndescription: Mine\nmodel: opus\ntools: Read, Grep\nbackground: true\n---\nLook.";
    write(&project, "explore", text);
    write(&project, "mine", &text.replace("Explore", "mine"));
    write(&project, "broken", "---\nname: broken\n---\n");
    let list = conn.ok("definition.list", json!({ "cwd": project })).await;
    assert_eq!(list["problems"].as_array().unwrap().len(), 1, "{list}");
    let explore = conn.ok("definition.get", json!({ "name": "Explore", "cwd": project })).await;
    assert_eq!(
        (&explore["source"], &explore["shadowed"][0]["source"]),
        (&json!("builtIn"), &json!("project"))
    );
    let mine = conn.ok("definition.get", json!({ "name": "mine", "cwd": project })).await;
    assert_eq!(mine["source"], "project");
    assert_eq!(
        (&mine["def"]["prompt"], &mine["def"]["tools"], &mine["def"]["background"]),
        (&json!("Look."), &json!(["Read", "Grep"]), &json!(true))
    );
    let refused = conn.err("definition.get", json!({ "name": "mien", "cwd": project })).await;
    assert_eq!((refused.code, &refused.data["near"]), (1102, &json!(["mine"])));
    daemon.end().await;
}

/// AD-14: what is wrong with a file is said with its place, of a path or a text; one of them has to be given.
#[tokio::test]
async fn a_file_is_validated() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let text = "---\nname: a\ndescription: d\npermissionRole: boss\n---\n";
    let found = conn.ok("definition.validate", json!({ "text": text })).await;
    assert_eq!((&found["problems"][0]["line"], &found["problems"][0]["skipped"]), (&json!(4), &json!(true)));
    let path = daemon.home.join("a.md");
    fs::write(&path, "---\nname: a\ndescription: d\n---\n").unwrap();
    assert_eq!(conn.ok("definition.validate", json!({ "path": path })).await["problems"], json!([]));
    for params in [json!({}), json!({ "path": path, "text": text })] {
        assert_eq!(conn.kind("definition.validate", params).await, Kind::InvalidParams);
    }
    daemon.end().await;
}

/// cli.md, `agents`: the list, one in full, and the check of a file by the command line.
#[test]
fn agents_are_shown_by_the_command_line() {
    let daemon = Daemon::start();
    let project = daemon.home.join("project");
    write(&project, "mine", "---\nname: mine\ndescription: Does it\n---\nThe prompt.");
    let ctl = |args: &[&str]| run(daemon.home.ctl(args).current_dir(&project));
    let listed = ctl(&["agents", "ls"]);
    assert!(listed.out.contains("Explore") && listed.out.contains("mine"), "{}", listed.out);
    let shown = ctl(&["agents", "show", "mine"]);
    assert!(shown.out.contains("Does it") && shown.out.ends_with("The prompt.\n"), "{}", shown.out);
    assert_eq!(ctl(&["agents", "validate", ".claude/agents/mine.md"]).code, Some(0));
    fs::write(project.join("bad.md"), "---\nname: a:b\ndescription: d\n---\n").unwrap();
    let bad = ctl(&["agents", "validate", "bad.md"]);
    assert_eq!(bad.code, Some(1));
    assert!(bad.out.contains("bad.md:2: error: "), "{}", bad.out);
}
