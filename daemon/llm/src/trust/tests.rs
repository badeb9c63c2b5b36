use std::fs;

use serde_json::json;

use super::*;
use crate::definition::{Places, View};

/// A repository with hooks, and a home with some as well.
struct Lab {
    dir: tempfile::TempDir,
    files: Files,
}

impl Lab {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for made in ["home/.claude", "repo/.git", "repo/.claude/agents", "repo/below"] {
            fs::create_dir_all(dir.path().join(made)).unwrap();
        }
        let files = Files::new(None, dir.path().join("home"), dir.path().join("repo/below"));
        Self { dir, files }
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.dir.path().join(path), text).unwrap();
    }

    fn all(&self) -> Found {
        let places = Places {
            cwd: Some(self.files.cwd.clone()),
            user: Some(self.dir.path().join("home/.claude")),
            plugins: Vec::new(),
        };
        Found::all(&self.files, &Catalog::load(&places, &View::default()))
    }
}

const HOOKS: &str = r#"{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./look.sh"}]}]}}"#;

/// PM-10, I9: what a repository brings is held back until it was trusted as it is, and again when it was changed; what
/// the user wrote never is.
#[test]
fn a_repositorys_programs_wait_for_trust_and_lose_it_by_a_change() {
    let lab = Lab::new();
    lab.write("home/.claude/settings.json", HOOKS);
    lab.write("repo/.claude/settings.json", HOOKS);
    lab.write("repo/.mcp.json", r#"{"mcpServers": {"x": {"command": "run", "args": ["me"]}}}"#);
    let mut trusted = Trusted::default();
    let (may, held) = lab.all().split(&trusted);
    assert_eq!((may.len(), held.len()), (1, 2), "{may:?} {held:?}");
    assert_eq!(may[0].owner, Owner::User);
    assert!(held[0].contains("repo/.claude/settings.json") && held[0].contains("ccagentctl trust add"));
    for item in &lab.all().items {
        trusted.trust(item, 7).unwrap();
    }
    assert_eq!(lab.all().split(&trusted).1, Vec::<String>::new());
    assert_eq!(lab.all().items[1].runs(), ["PreToolUse: ./look.sh"]);
    lab.write("repo/.claude/settings.json", &HOOKS.replace("look.sh", "evil.sh"));
    let (_, held) = lab.all().split(&trusted);
    assert!(held.len() == 1 && held[0].contains("was changed since"), "{held:?}");
    assert_eq!(trusted.forget(&lab.dir.path().canonicalize().unwrap().join("repo")), 2);
    assert_eq!(lab.all().split(&trusted).1.len(), 2);
}

/// AD-17: a definition that brings programs is held back as a whole, one that only says something is not; what stands
/// beside the hooks in a file does not matter.
#[test]
fn only_what_runs_is_held_back() {
    let lab = Lab::new();
    let agent = |more: &str| format!("---\nname: a\ndescription: d\n{more}---\nA prompt.");
    lab.write("repo/.claude/agents/a.md", &agent(""));
    lab.write("repo/.claude/settings.json", r#"{"permissions": {"deny": ["Bash"]}, "hooks": {}}"#);
    assert!(lab.all().items.is_empty());
    lab.write("repo/.claude/agents/a.md", &agent("mcpServers:\n  - shared\n  - own: {command: x}\n"));
    let items = lab.all().items;
    assert_eq!((items.len(), items[0].kind), (1, Kind::Agent));
    assert_eq!(items[0].runs(), ["shared, as it is configured", "own: x"]);
    lab.write("repo/.claude/settings.json", HOOKS);
    let before = lab.all().items[0].hash.clone();
    let mut more: serde_json::Value = serde_json::from_str(HOOKS).unwrap();
    more["permissions"] = json!({"allow": ["Read"]});
    lab.write("repo/.claude/settings.json", &more.to_string());
    assert_eq!(lab.all().items[0].hash, before);
}

/// I18: a file that is no settings file is said, and nothing of it counts.
#[test]
fn a_broken_file_is_said() {
    let lab = Lab::new();
    lab.write("repo/.mcp.json", "{");
    let found = Found::of_settings(&lab.files, Kind::McpServers);
    assert!(found.items.is_empty());
    assert!(found.problems[0].message.contains("no JSON"), "{:?}", found.problems);
}

/// C18: the user can switch all hooks off, and a repository can't.
#[test]
fn only_the_user_switches_hooks_off() {
    let lab = Lab::new();
    let count = || Found::of_settings(&lab.files, Kind::Hooks).items.len();
    lab.write("repo/.claude/settings.json", HOOKS);
    lab.write("repo/.claude/settings.local.json", r#"{"disableAllHooks": true}"#);
    assert_eq!(count(), 1);
    lab.write("home/.claude/settings.json", r#"{"disableAllHooks": true}"#);
    assert_eq!(count(), 0);
}
