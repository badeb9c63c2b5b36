use super::*;
use std::time::{Duration, SystemTime};

struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("repo/.git")).unwrap();
        fs::create_dir_all(dir.path().join("repo/sub/deep")).unwrap();
        Self { dir }
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn agent(&self, path: &str, name: &str) -> PathBuf {
        self.write(path, &format!("---\nname: {name}\ndescription: d\npermissionMode: plan\n---\n{path}\n"))
    }

    fn places(&self) -> Places {
        let at = |path: &str| self.dir.path().join(path);
        Places { cwd: Some(at("repo/sub/deep")), user: Some(at("home/.claude")), plugins: vec![at("plug")] }
    }

    fn load(&self) -> Catalog {
        Catalog::load(&self.places(), &View::default())
    }
}

/// AD-15, AD-16, C24: one name in four places; the order says which counts, and the others are shown.
#[test]
fn precedence_is_built_in_first_and_the_reverse_on_request() {
    let world = World::new();
    world.agent("home/.claude/agents/a.md", "general-purpose");
    world.agent("repo/.claude/agents/a.md", "general-purpose");
    world.agent("repo/sub/.claude/agents/a.md", "general-purpose");
    world.agent("outside/.claude/agents/a.md", "outside");
    let sources = |precedence| {
        let catalog = Catalog::load(&world.places(), &View { precedence, ..View::default() });
        let entry = catalog.get("general-purpose").unwrap();
        let shadowed: Vec<_> = entry.shadowed.iter().map(|one| one.source).collect();
        (entry.source, entry.definition.prompt.clone(), shadowed)
    };
    let (source, _, shadowed) = sources(Precedence::BuiltInFirst);
    assert_eq!((source, shadowed), (Source::BuiltIn, vec![Source::User, Source::Project, Source::Project]));
    let (source, prompt, shadowed) = sources(Precedence::ProjectFirst);
    assert_eq!((source, shadowed), (Source::Project, vec![Source::Project, Source::User, Source::BuiltIn]));
    assert_eq!(prompt, "repo/sub/.claude/agents/a.md");
    assert!(world.load().is_built_in("general-purpose"));
}

/// AD-16: the nearest file of the project counts, directories below are read, and nothing above the repository.
#[test]
fn the_nearest_file_of_the_project_counts() {
    let world = World::new();
    world.agent("repo/.claude/agents/team/x.md", "reviewer");
    world.agent("repo/sub/.claude/agents/x.md", "reviewer");
    world.agent(".claude/agents/x.md", "above");
    let catalog = world.load();
    assert_eq!(catalog.get("reviewer").unwrap().definition.prompt, "repo/sub/.claude/agents/x.md");
    assert!(catalog.get("above").is_err());
}

/// AD-16: agents of plugins have their plugin's name, and can't widen what is allowed.
#[test]
fn plugin_agents_are_named_after_their_plugin_and_lose_their_mode() {
    let world = World::new();
    world.agent("plug/agents/dir/x.md", "reviewer");
    world.agent("plug/agents/y.md", "other");
    let catalog = world.load();
    let entry = catalog.get("plug:dir:reviewer").unwrap();
    assert_eq!((entry.source, entry.definition.permission_mode), (Source::Plugin, None));
    let passed_over = |problem: &Problem| !problem.skipped && problem.message.contains("`permissionMode`");
    assert_eq!(catalog.problems().iter().filter(|one| passed_over(one)).count(), 2);
    assert!(catalog.get("plug:other").is_ok());
}

/// AD-17: a pipe, a directory and a broken file among the agents cost only themselves.
#[test]
fn what_can_not_be_read_is_a_problem_with_its_path() {
    let world = World::new();
    world.agent("home/.claude/agents/good.md", "good");
    let bad = world.write("home/.claude/agents/bad.md", "---\nname: [\n---\n");
    let pipe = world.dir.path().join("home/.claude/agents/pipe.md");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    fs::create_dir(world.dir.path().join("home/.claude/agents/dir.md")).unwrap();
    let catalog = world.load();
    assert!(catalog.get("good").is_ok());
    let paths: Vec<_> = catalog.problems().iter().map(|problem| problem.path.clone().unwrap()).collect();
    assert_eq!(paths, [bad, pipe]);
}

/// 1102: an unknown name is answered with names that are near.
#[test]
fn an_unknown_name_is_answered_with_near_ones() {
    let world = World::new();
    let catalog = world.load();
    let error = catalog.get("explor").unwrap_err();
    assert_eq!(error.near[0], "Explore");
    assert!(error.to_string().contains("\"explor\"") && error.to_string().contains("Explore"), "{error}");
    assert!(catalog.get("zzz").unwrap_err().near.contains(&"general-purpose".to_owned()));
}

/// AD-17: a catalogue knows when a file was added, changed or taken away.
#[test]
fn a_catalogue_knows_that_files_changed() {
    let world = World::new();
    let catalog = world.load();
    assert!(!catalog.is_stale());
    let path = world.agent("home/.claude/agents/a.md", "a");
    assert!(catalog.is_stale());
    let catalog = world.load();
    assert!(!catalog.is_stale());
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(10)).unwrap();
    assert!(catalog.is_stale());
    let catalog = world.load();
    fs::remove_file(path).unwrap();
    assert!(catalog.is_stale());
}
