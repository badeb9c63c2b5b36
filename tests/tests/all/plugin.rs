//! Where definitions come from besides the built-in ones: the user, the project, plugins; over the socket and by the
//! command line.

use std::fs;
use std::path::{Path, PathBuf};

use ccagent_tests::Daemon;
use ccagent_tests::daemon::run;
use serde_json::{Value, json};

use super::agents::{KEY, World};

/// A daemon whose config names a plugin's directory; a home in which another one is installed; a project.
struct Places {
    world: World,
    home: PathBuf,
    project: PathBuf,
}

/// Each source: what it is called, the directory of its agents, and the name that its agent has.
const SOURCES: [(&str, &str, &str); 4] = [
    ("user", "home/.claude/agents", "users"),
    ("project", "project/.claude/agents", "projects"),
    ("plugin", "home/tool/agents/deep", "tool:deep:named"),
    ("plugin", "home/.claude/plugins/cache/m/kit/1.0.0/agents", "kit:installed"),
];

impl Places {
    async fn new() -> Self {
        let config = "[agent]\nplugins = [\"~/tool\"]\n";
        let world = World::of(Daemon::with().config(config).start()).await;
        let (home, project) = (world.home().join("home"), world.home().join("project"));
        let plugins = home.join(".claude/plugins");
        fs::create_dir_all(&plugins).unwrap();
        fs::create_dir_all(project.join(".git")).unwrap();
        let installed =
            json!({ "plugins": { "kit@m": [{ "installPath": plugins.join("cache/m/kit/1.0.0") }] } });
        fs::write(plugins.join("installed_plugins.json"), installed.to_string()).unwrap();
        let on = json!({ "enabledPlugins": { "kit@m": true } }).to_string();
        fs::write(home.join(".claude/settings.json"), on).unwrap();
        Self { world, home, project }
    }

    fn write(&self, dir: &str, name: &str, more: &str, prompt: &str) {
        let dir = self.world.home().join(dir);
        fs::create_dir_all(&dir).unwrap();
        let name = name.rsplit(':').next().unwrap();
        let text = format!("---\nname: {name}\ndescription: d\n{more}---\n{prompt}");
        fs::write(dir.join("x.md"), text).unwrap();
    }

    fn params(&self, name: &str) -> Value {
        json!({ "subagentType": name, "cwd": self.project,
                "env": { "ANTHROPIC_BASE_URL": self.world.fake.url, "ANTHROPIC_API_KEY": KEY, "HOME": self.home } })
    }

    async fn explain(&self, name: &str) -> Value {
        self.world.conn.ok("agent.explain", self.params(name)).await
    }

    fn ctl(&self, args: &[&str]) -> (String, Option<i32>) {
        let command = &mut self.world.daemon.home.ctl(args);
        let ran = run(command.current_dir(&self.project).env("HOME", &self.home));
        (ran.out, ran.code)
    }
}

/// AD-16, AD-17: what is edited holds for the next spawn, wherever the definition is from; a run under way keeps what it
/// began with; and each is said to be from there.
#[tokio::test]
async fn an_edit_holds_for_the_next_spawn_whatever_the_source() {
    let places = Places::new().await;
    for (source, dir, name) in SOURCES {
        let mut ids = Vec::new();
        for word in ["first", "second"] {
            places.write(dir, name, "", &format!("You are the {word} one of {name}."));
            assert_eq!(places.explain(name).await["source"], source, "{name}");
            ids.push(places.world.spawn(&format!("{name} [[say:ok]]"), places.params(name)).await);
            assert_eq!(places.world.conn.wait(ids.last().unwrap()).await["status"], "completed");
        }
        // The first one goes on as what it was.
        let mut again = json!({ "taskId": ids[0], "prompt": "[[say:again]]" });
        again["env"] = places.params(name)["env"].clone();
        places.world.conn.ok("task.resume", again).await;
        let asked = places.world.requests(name);
        let systems: Vec<String> = asked.iter().map(|request| request["system"].to_string()).collect();
        let words = ["first", "second", "first"].map(|word| format!("You are the {word} one of {name}."));
        assert_eq!(systems.len(), words.len());
        assert!(systems.iter().zip(&words).all(|(system, word)| system.contains(word)), "{systems:?}");
    }
    places.world.daemon.end().await;
}

/// AD-16, PM-10: an agent of a plugin has nothing that runs and no mode, where the plugin lies in a repository as well: it
/// is said what was passed over, there is nothing to trust, and the spawn has the mode of who spawns.
#[tokio::test]
async fn a_plugins_agent_runs_nothing_and_widens_nothing() {
    let places = Places::new().await;
    let mark = places.world.home().join("mark");
    let more = format!(
        "hooks:\n  SubagentStart:\n    - hooks: [{{type: command, command: \"touch {}\"}}]\nmcpServers:\n  - own: \
         {{command: \"touch\", args: [\"{}\"]}}\npermissionMode: bypassPermissions\n",
        mark.display(),
        mark.display()
    );
    places.write("home/tool/agents/deep", "named", &more, "Look.");
    fs::create_dir(places.home.join("tool/.git")).unwrap();
    let explained = places.explain("tool:deep:named").await;
    assert_eq!(
        (&explained["permissionMode"], &explained["permissionModeSource"]),
        (&json!("default"), &json!("default"))
    );
    let id = places.world.spawn("PLUGIN [[say:ok]]", places.params("tool:deep:named")).await;
    assert_eq!(places.world.conn.wait(&id).await["status"], "completed");
    assert!(!mark.exists());
    let listed = places.ctl(&["--json", "trust", "ls", "--cwd", places.home.join("tool").to_str().unwrap()]);
    assert!(!listed.0.contains("x.md"), "{listed:?}");
    let (listed, _) = places.ctl(&["--json", "agents", "ls"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let problems = listed["problems"].as_array().unwrap().iter().map(|one| one["message"].as_str().unwrap());
    assert_eq!(
        problems.filter(|said| said.contains("passed over, since the agent is a plugin's")).count(),
        3
    );
    places.world.daemon.end().await;
}

/// AD-16, C24: `agent.precedence` turns the order of sources round, from the next call on, and all that is asked about
/// definitions says the source: the list, one of them, the check of a file, the command line and an explanation.
#[tokio::test]
async fn the_precedence_is_the_configs_and_each_answer_says_the_source() {
    let places = Places::new().await;
    for (_, dir, name) in SOURCES {
        places.write(dir, name, "", "Own.");
    }
    places.write("project/.claude/agents/more", "general-purpose", "", "Own.");
    let source = |args: &[&str]| {
        let (out, _) = places.ctl(args);
        serde_json::from_str::<Value>(&out).unwrap()
    };
    let listed = source(&["--json", "agents", "ls"]);
    for (from, _, name) in SOURCES {
        let all = listed["definitions"].as_array().unwrap();
        let row = all.iter().find(|row| row["name"] == *name).unwrap_or_else(|| panic!("{name}: {listed}"));
        assert_eq!(row["source"], from, "{name}");
        assert_eq!(source(&["--json", "agents", "show", name])["source"], from);
        assert!(places.ctl(&["agents", "ls"]).0.contains(from));
    }
    let path = |dir: &str| json!({ "path": places.world.home().join(dir).join("x.md") });
    let checked = places.world.conn.ok("definition.validate", path("home/tool/agents/deep")).await;
    assert_eq!(checked, json!({ "problems": [] }), "the connection has another home");
    for (config, from) in [("builtin", "builtIn"), ("docs", "project")] {
        let text = format!(
            "[agent]\nplugins = [\"{}\"]\nprecedence = \"{config}\"\n",
            places.home.join("tool").display()
        );
        fs::write(places.world.home().join("config.toml"), text).unwrap();
        places.world.conn.ok("daemon.reload", json!({})).await;
        assert_eq!(places.explain("general-purpose").await["source"], from);
        assert_eq!(source(&["--json", "agents", "show", "general-purpose"])["source"], from);
        let checked = places.world.conn.ok("definition.validate", path("home/tool/agents/deep")).await;
        assert_eq!(checked["source"], "plugin");
    }
    places.world.daemon.end().await;
}

/// J136: a list of plugins that is not one, and an order that there is not, are refused with what would be right.
#[test]
fn a_wrong_place_of_plugins_is_refused() {
    let home = ccagent_tests::Home::new();
    for (line, says) in [
        ("plugins = \"~/tool\"", "a list of 100 directories"),
        ("plugins = [\"tool\"]", "\"~/\""),
        ("precedence = \"mine\"", "\"docs\""),
    ] {
        fs::write(home.join("config.toml"), format!("[agent]\n{line}\n")).unwrap();
        let ran = run(home.command().arg("--check-config"));
        assert!(ran.code != Some(0) && ran.err.contains(says), "{line}: {}", ran.err);
    }
    assert!(Path::new(home.path()).is_dir());
}
