use std::fs;

use serde_json::json;

use super::super::{Catalog, Precedence, Source, View};
use super::*;

/// A home and a repository.
struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("repo/.git")).unwrap();
        fs::create_dir_all(dir.path().join("repo/sub")).unwrap();
        Self { dir }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn agent(&self, path: &str, more: &str) {
        self.write(path, &format!("---\nname: reviewer\ndescription: d\n{more}---\n{path}\n"));
    }

    fn load(&self, plugins: &[&str]) -> Catalog {
        let plugins = plugins.iter().map(|path| self.at(path)).collect();
        let places = Places { cwd: Some(self.at("repo/sub")), user: Some(self.at("home/.claude")), plugins };
        Catalog::load(&places, &View::default())
    }

    /// Writes what is installed: a name, a directory, and for which project.
    fn install(&self, plugins: &[(&str, &str, Option<&str>)]) {
        let mut all = serde_json::Map::new();
        for (name, path, project) in plugins {
            let mut copy = json!({ "scope": "user", "installPath": self.at(path), "version": "1.0.0" });
            if let Some(project) = project {
                copy["projectPath"] = json!(self.at(project));
            }
            all.entry(*name).or_insert_with(|| json!([])).as_array_mut().unwrap().push(copy);
        }
        let text = json!({ "version": 2, "plugins": all }).to_string();
        self.write("home/.claude/plugins/installed_plugins.json", &text);
    }

    fn enable(&self, file: &str, said: &[(&str, bool)]) {
        let said: serde_json::Map<_, _> =
            said.iter().map(|(name, on)| ((*name).to_owned(), json!(on))).collect();
        self.write(file, &json!({ "enabledPlugins": said }).to_string());
    }
}

fn plugins_of(catalog: &Catalog) -> Vec<String> {
    catalog.list().filter(|one| one.source == Source::Plugin).map(|one| one.definition.name.clone()).collect()
}

/// AD-16: a plugin is known by the name that it gives itself, else by its directory's; one that can't be called is said.
#[test]
fn a_plugin_has_its_own_name_or_its_directorys() {
    let world = World::new();
    world.agent("one/agents/deep/er/x.md", "");
    world.agent("1.2.3/agents/x.md", "");
    world.write("1.2.3/.claude-plugin/plugin.json", r#"{"name": "two"}"#);
    world.agent("bad/agents/x.md", "");
    world.write("bad/.claude-plugin/plugin.json", r#"{"name": "a:b"}"#);
    let catalog = world.load(&["one", "1.2.3", "bad", "none"]);
    assert_eq!(plugins_of(&catalog), ["one:deep:er:reviewer", "two:reviewer"]);
    assert_eq!(
        catalog.problems()[0].path.as_deref(),
        Some(world.at("bad").as_path()),
        "{:?}",
        catalog.problems()
    );
    let path = world.at("one/agents/deep/er/x.md");
    assert_eq!(catalog.source_of(&path), Some(Source::Plugin));
    assert_eq!(catalog.source_of(&world.at("bad/agents/x.md")), None);
}

/// AD-16, AD-17, PM-10: what of a plugin's agent would run programs or widen what it may do is passed over, and said, also
/// of a plugin that lies in a repository; the check of its file says it as well.
#[test]
fn what_a_plugins_agent_can_not_have_is_passed_over_and_said() {
    let world = World::new();
    let more = "hooks: {Stop: []}\nmcpServers: [x]\npermissionMode: bypassPermissions\ntools: Read\n";
    world.agent("repo/tool/agents/x.md", more);
    world.write("repo/tool/.claude-plugin/plugin.json", "{}");
    let catalog = world.load(&["repo/tool"]);
    let one = &catalog.get("tool:reviewer").unwrap().definition;
    assert_eq!((&one.hooks, &one.mcp_servers, one.permission_mode), (&None, &None, None));
    assert_eq!(one.tools.as_deref().unwrap(), ["Read"]);
    let checked = super::super::validate(&world.at("repo/tool/agents/x.md"));
    for problems in [catalog.problems(), &checked] {
        let keys: Vec<_> = problems.iter().map(|one| one.message.split('`').nth(1).unwrap()).collect();
        assert_eq!(keys, ["hooks", "mcpServers", "permissionMode"]);
        assert!(problems.iter().all(|one| !one.skipped));
    }
}

/// AD-16: of what the user installed there is what the user has on; a repository can switch off, and can switch on only
/// what was installed for it.
#[test]
fn an_installed_plugin_counts_by_the_users_word() {
    let world = World::new();
    for plugin in ["mine", "off", "theirs", "elsewhere", "silent"] {
        world.agent(&format!("home/.claude/plugins/cache/m/{plugin}/1.0.0/agents/x.md"), "");
    }
    let path = |name: &str| format!("home/.claude/plugins/cache/m/{name}/1.0.0");
    world.install(&[
        ("mine@m", &path("mine"), None),
        ("off@m", &path("off"), None),
        ("silent@m", &path("silent"), None),
        ("theirs@m", &path("theirs"), Some("repo")),
        ("elsewhere@m", &path("elsewhere"), Some("other")),
    ]);
    let user = "home/.claude/settings.json";
    world.enable(user, &[("mine@m", true), ("off@m", false)]);
    let all = ["mine@m", "off@m", "silent@m", "theirs@m", "elsewhere@m"].map(|name| (name, true));
    world.enable("repo/.claude/settings.json", &all);
    let catalog = world.load(&[]);
    assert_eq!(plugins_of(&catalog), ["mine:reviewer", "theirs:reviewer"]);
    world.enable("repo/.claude/settings.local.json", &[("mine@m", false), ("theirs@m", false)]);
    assert!(catalog.is_stale(), "a word of the settings is a change");
    assert_eq!(plugins_of(&world.load(&[])), Vec::<String>::new());
}

/// AD-16, C24: agents of plugins and files of the same text don't meet, since only a plugin's name has a colon; of two
/// plugins of one name the one that the config names counts, in either order of sources.
#[test]
fn of_two_plugins_of_a_name_the_configured_one_counts() {
    let world = World::new();
    world.agent("dev/tool/agents/x.md", "");
    world.agent("home/.claude/plugins/cache/m/tool/1.0.0/agents/x.md", "");
    world.agent("home/.claude/agents/x.md", "");
    world.install(&[("tool@m", "home/.claude/plugins/cache/m/tool/1.0.0", None)]);
    world.enable("home/.claude/settings.json", &[("tool@m", true)]);
    for precedence in [Precedence::BuiltInFirst, Precedence::ProjectFirst] {
        let plugins = vec![world.at("dev/tool")];
        let places = Places { cwd: Some(world.at("repo")), user: Some(world.at("home/.claude")), plugins };
        let catalog = Catalog::load(&places, &View { precedence, ..View::default() });
        let entry = catalog.get("tool:reviewer").unwrap();
        assert_eq!(entry.path.as_deref(), Some(world.at("dev/tool/agents/x.md").as_path()));
        assert_eq!(entry.shadowed.len(), 1);
        assert_eq!(catalog.get("reviewer").unwrap().source, Source::User);
    }
}

/// AD-17: what can't be read of what is installed costs the plugins alone, and is said with its file.
#[test]
fn a_broken_list_of_plugins_is_said() {
    let world = World::new();
    world.agent("home/.claude/agents/x.md", "");
    for text in ["{", r#"{"plugins": {"a@m": 3}}"#, r#"{"plugins": []}"#] {
        world.write("home/.claude/plugins/installed_plugins.json", text);
        let catalog = world.load(&[]);
        assert!(catalog.get("reviewer").is_ok());
        let problem = &catalog.problems()[0];
        assert!(problem.path.as_ref().unwrap().ends_with("installed_plugins.json"), "{text}: {problem:?}");
    }
    world.agent("p/agents/x.md", "");
    let one = json!({ "plugins": { "p@m": { "installPath": world.at("p") } } }).to_string();
    world.write("home/.claude/plugins/installed_plugins.json", &one);
    world.enable("home/.claude/settings.json", &[("p@m", true)]);
    assert!(world.load(&[]).get("p:reviewer").is_ok(), "the first format of the file is read as well");
}
