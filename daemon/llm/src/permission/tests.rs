use super::Behavior::{Allow, Ask, Deny};
use super::*;
use proptest::prelude::*;
use serde_json::json;
use std::fs;

/// A project in a repository, and a home beside it.
struct World {
    dir: tempfile::TempDir,
    cwd: PathBuf,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for path in ["repo/.git", "repo/src", "home/.claude", "out"] {
            fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        let cwd = dir.path().canonicalize().unwrap().join("repo");
        Self { dir, cwd }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(path)
    }

    fn files(&self) -> Files {
        Files::new(Some(self.at("managed.json")), self.at("home"), self.at("repo"))
    }

    fn rules(&self, rules: &[(Behavior, &str)]) -> Rules {
        let files = self.files();
        let read = |(behavior, text): &(Behavior, &str)| files.rule(text, *behavior, Source::Local).unwrap();
        Rules { rules: rules.iter().map(read).collect(), directories: vec![self.at("repo")] }
    }

    fn decide(&self, mode: Mode, rules: &Rules, tool: &str, input: &Value) -> Behavior {
        decide(mode, rules, &self.call(tool, input)).behavior
    }

    fn call<'a>(&'a self, tool: &'a str, input: &'a Value) -> Call<'a> {
        let access = match tool {
            "Read" | "Grep" | "Glob" => Access::Reads,
            "Edit" | "Write" | "NotebookEdit" => Access::Writes,
            "WebFetch" => Access::Fetches,
            "Agent" => Access::Talks,
            _ => Access::Runs,
        };
        Call { tool, input, access, cwd: &self.cwd }
    }
}

/// What becomes of a line; for that, no file has to be there.
fn bash(rules: &[(Behavior, &str)], line: &str) -> Behavior {
    let none = || PathBuf::from("/nowhere");
    let files = Files::new(None, none(), none());
    let read = |(behavior, text): &(Behavior, &str)| files.rule(text, *behavior, Source::Local).unwrap();
    let rules = Rules { rules: rules.iter().map(read).collect(), directories: vec![none()] };
    let input = json!({"command": line});
    decide(Mode::Default, &rules, &Call { tool: "Bash", input: &input, access: Access::Runs, cwd: &none() })
        .behavior
}

/// PM-03, PM-09: what the directories around a project forbid holds in it, whichever of them is the root of a repository
/// just then: an agent makes a repository in another one, or takes one away, and is free of nothing. They allow nothing.
#[test]
fn a_repository_inside_of_another_one_is_free_of_nothing() {
    let world = World::new();
    let write = |path: &str, text: &str| {
        fs::create_dir_all(world.at(path).parent().unwrap()).unwrap();
        fs::write(world.at(path), text).unwrap();
    };
    let outer = r#"{"permissions": {"deny": ["Read(/secret)", "Bash(rm *)"], "allow": ["Bash(make)"],
                     "defaultMode": "plan", "disableBypassPermissionsMode": "disable"}}"#;
    write("repo/.claude/settings.json", outer);
    write("repo/src/.claude/settings.local.json", r#"{"permissions": {"ask": ["Bash(git push *)"]}}"#);
    write("repo/src/deep/x", "");
    let of = || Files::new(None, world.at("home"), world.at("repo/src/deep"));
    let judged = |files: &Files| {
        let settings = Settings::load(files);
        let decide = |tool: &str, input: Value| {
            let call = Call { cwd: &files.cwd, ..world.call(tool, &input) };
            decide(Mode::Default, &settings.rules, &call).behavior
        };
        let secret = json!({ "file_path": world.at("repo/secret") });
        let lines = ["rm x", "git push a", "make"].map(|line| decide("Bash", json!({ "command": line })));
        (decide("Read", secret), lines, settings.mode.is_some(), settings.bypass_disabled)
    };
    let files = of();
    assert_eq!(judged(&files), (Deny, [Deny, Ask, Allow], true, true), "the root is `repo`");
    let seen = Settings::load(&files).seen;
    fs::create_dir(world.at("repo/src/deep/.git")).unwrap();
    assert_eq!(judged(&files), (Deny, [Deny, Ask, Allow], true, true), "the root stays what it was");
    assert_eq!(judged(&of()), (Deny, [Deny, Ask, Ask], false, true), "the root is `deep`");
    fs::remove_dir(world.at("repo/src/deep/.git")).unwrap();
    fs::remove_dir(world.at("repo/.git")).unwrap();
    assert_eq!(judged(&of()), (Deny, [Deny, Ask, Ask], false, true), "there is no repository");
    write("repo/.claude/settings.local.json", "{}");
    assert!(seen.is_stale(), "a file that comes later, further out, is seen");
}

/// PM-03: of a line every command has to be allowed, and what can't be told apart never is.
#[test]
fn a_rule_for_a_command_allows_no_other_command() {
    let status = [(Allow, "Bash(git status)")];
    assert_eq!(bash(&status, "git status"), Allow);
    for line in [
        "git status; rm -rf /",
        "git status && rm -rf /",
        "git status | sh",
        "git status & rm -rf /",
        "git status\nrm -rf /",
        "git status $(rm -rf /)",
        "git status `rm -rf /`",
        "git status > ~/.bashrc",
        "(git status; rm -rf /)",
        "PATH=/tmp git status",
        "git status # '\nrm -rf /\n#'",
        "git status \\\n; rm -rf /",
        "git\\ status",
        "",
    ] {
        assert_eq!(bash(&status, line), Ask, "{line:?}");
    }
    let two = [(Allow, "Bash(git status)"), (Allow, "Bash(cargo *)")];
    assert_eq!(bash(&two, "git status && cargo test -q 2>&1"), Allow);
    assert_eq!(bash(&two, "git status && cargo test && make"), Ask);
    assert_eq!(bash(&[(Allow, "Bash")], "git status; x $(y)"), Allow);
    assert_eq!(bash(&[(Allow, "Bash(*)")], "git status; x $(y)"), Allow);
}

/// PM-03: a space before the star is a word's end, a colon is the same, and none is none.
#[test]
fn a_star_behind_a_space_means_whole_words() {
    for (rule, line, allowed) in [
        ("Bash(ls *)", "ls -la", true),
        ("Bash(ls *)", "ls", true),
        ("Bash(ls *)", "lsof", false),
        ("Bash(ls:*)", "ls -la", true),
        ("Bash(ls:*)", "lsof", false),
        ("Bash(ls*)", "lsof", true),
        ("Bash(git * main)", "git push origin main", true),
        ("Bash(git * main)", "git push origin dev", false),
        ("Bash(* --version)", "node --version", true),
        ("Bash(echo a\\*)", "echo a*", true),
        ("Bash(echo a\\*)", "echo ab", false),
        ("run_command(ls *)", "ls x", true),
    ] {
        assert_eq!(bash(&[(Allow, rule)], line) == Allow, allowed, "{rule} {line}");
    }
}

/// PM-03: a command that is denied is found wherever it hides, and denying goes before everything.
#[test]
fn a_denied_command_is_denied_wherever_it_hides() {
    let rules = [(Allow, "Bash"), (Deny, "Bash(rm *)"), (Ask, "Bash(git push *)")];
    for line in ["rm -rf /", "a; rm x", "echo $(rm x)", "sudo rm x", "/bin/rm x", "r\\m x", "bash -c 'rm x'"]
    {
        assert_eq!(bash(&rules, line), Deny, "{line:?}");
    }
    assert_eq!(bash(&rules, "echo a && git push origin"), Ask);
    assert_eq!(bash(&rules, "echo rmdir"), Allow);
    let world = World::new();
    let input = json!({"command": "git push"});
    let rules = world.rules(&rules);
    assert_eq!(world.decide(Mode::BypassPermissions, &rules, "Bash", &input), Ask);
    assert_eq!(world.decide(Mode::DontAsk, &rules, "Bash", &input), Deny);
}

/// PM-03: a file that is denied is denied to the usual commands as well.
#[test]
fn a_denied_file_is_denied_to_commands() {
    let world = World::new();
    fs::write(world.at("repo/.env"), "").unwrap();
    std::os::unix::fs::symlink(world.at("repo/.env"), world.at("repo/plain")).unwrap();
    let rules = world.rules(&[(Deny, "Read(.env)"), (Deny, "Edit(/src/**)"), (Allow, "Bash")]);
    for (line, want) in [
        ("cat .env", Deny),
        ("ls; head -n 1 ./src/../.env | wc", Deny),
        ("sort <.env", Deny),
        ("cat < '.env'", Deny),
        ("cat plain", Deny),
        ("echo \"$(cat .env)\"", Deny),
        ("sed -i s/a/b/ src/x", Deny),
        ("rm -r src/x", Deny),
        ("cat src/x", Allow),
        ("rm .env", Allow),
        ("git commit -m 'read .env'", Allow),
    ] {
        assert_eq!(world.decide(Mode::Default, &rules, "Bash", &json!({"command": line})), want, "{line}");
    }
}

/// PM-03: the four anchors of patterns for files.
#[test]
fn patterns_for_files_have_four_anchors() {
    let world = World::new();
    let absolute = format!("Edit(/{}/**)", world.at("out").display());
    for (rule, path, allowed) in [
        (absolute.as_str(), world.at("out/x"), true),
        (&absolute, world.at("repo/x"), false),
        ("Edit(~/notes/*)", world.at("home/notes/x"), true),
        ("Edit(~/notes/*)", world.at("repo/notes/x"), false),
        ("Edit(/src/**)", world.at("repo/src/a/b"), true),
        ("Edit(/src/**)", world.at("repo/x/src/a"), false),
        ("Edit(src/**)", world.at("repo/src/a"), true),
        ("Edit(./src/**)", world.at("repo/src/a"), true),
        ("Edit(*.rs)", world.at("repo/a/b.rs"), true),
        ("Edit(*.rs)", world.at("out/b.rs"), false),
        ("Edit(src)", world.at("repo/src/a"), true),
        ("Edit(src/)", PathBuf::from("src/a"), true),
        ("Edit(src/**)", PathBuf::from("src/../x"), false),
        ("Edit(src/**)", PathBuf::from("src/none/../../x"), false),
        ("Edit(#a)", PathBuf::from("#a"), true),
        ("Read(src/**)", PathBuf::from("src/a"), false),
    ] {
        let decision =
            world.decide(Mode::Default, &world.rules(&[(Allow, rule)]), "Write", &json!({"file_path": path}));
        assert_eq!(decision == Allow, allowed, "{rule} {}", path.display());
    }
}

/// PM-03: to allow, a link and what it leads to have to be allowed; to deny, one of them is enough.
#[test]
fn links_are_allowed_by_both_ends_and_denied_by_one() {
    let world = World::new();
    let link = |from: &str, to: &str| std::os::unix::fs::symlink(world.at(to), world.at(from)).unwrap();
    fs::write(world.at("out/secret"), "").unwrap();
    link("repo/src/file", "out/secret");
    link("repo/src/dir", "out");
    link("repo/src/dangling", "out/new");
    link("repo/src/loop", "repo/src/loop");
    let allow = world.rules(&[(Allow, "Edit(src/**)")]);
    for path in ["src/file", "src/dir/secret", "src/dir/new", "src/dangling", "src/loop", "src/dir/../secret"]
    {
        let input = json!({"file_path": path});
        assert_eq!(world.decide(Mode::Default, &allow, "Edit", &input), Ask, "{path}");
        assert_eq!(
            world.decide(Mode::AcceptEdits, &Rules { rules: vec![], ..allow.clone() }, "Edit", &input),
            Ask
        );
    }
    assert_eq!(world.decide(Mode::Default, &allow, "Edit", &json!({"file_path": "src/x"})), Allow);
    let out = format!("Edit(/{}/**)", world.at("out").display());
    for rule in [out.as_str(), "Edit(src/file)"] {
        let deny = world.rules(&[(Deny, rule), (Allow, "Edit")]);
        assert_eq!(
            world.decide(Mode::Default, &deny, "Edit", &json!({"file_path": "src/file"})),
            Deny,
            "{rule}"
        );
    }
    let read = world.rules(&[]);
    assert_eq!(world.decide(Mode::Default, &read, "Read", &json!({"file_path": "src/x"})), Allow);
    assert_eq!(world.decide(Mode::Default, &read, "Read", &json!({"file_path": "src/file"})), Ask);
}

/// PM-03: tools that search are held to where they search.
#[test]
fn searching_tools_are_held_to_where_they_search() {
    let world = World::new();
    let rules = world.rules(&[(Deny, "Read(.env)")]);
    let decide = |tool, input: Value| world.decide(Mode::Default, &rules, tool, &input);
    assert_eq!(decide("Glob", json!({"pattern": "src/*.rs"})), Allow);
    for pattern in ["../*", "/etc/*", "*/../../../etc/*", "src/../../out/*"] {
        assert_eq!(decide("Glob", json!({"pattern": pattern})), Ask, "{pattern}");
    }
    assert_eq!(decide("Grep", json!({"pattern": "x"})), Allow);
    assert_eq!(decide("Grep", json!({"pattern": "x", "path": "/etc"})), Ask);
    assert_eq!(decide("Grep", json!({"pattern": "x", "path": ".env"})), Deny);
    assert!(rules.denies_reading(&Place::of(&world.at("repo"), Path::new("src/.env"))));
    assert!(!rules.denies_reading(&Place::of(&world.at("repo"), Path::new("src/env"))));
}

/// PM-03: hosts, types of agents, servers and values of the input.
#[test]
fn other_rules_mean_what_they_say() {
    let world = World::new();
    for (behavior, rule, tool, input, means) in [
        (Allow, "WebFetch(domain:a.com)", "WebFetch", json!({"url": "https://a.com/x"}), true),
        (Allow, "WebFetch(domain:a.com)", "WebFetch", json!({"url": "https://A.com:443/x"}), true),
        (Allow, "WebFetch(domain:a.com)", "WebFetch", json!({"url": "https://b.a.com/"}), false),
        (Allow, "WebFetch(domain:*.a.com)", "WebFetch", json!({"url": "https://b.a.com/"}), true),
        (Allow, "WebFetch(domain:a.com)", "WebFetch", json!({"url": "https://a.com@b.com/"}), false),
        (Allow, "WebFetch(domain:a.com)", "WebFetch", json!({"url": "https://b.com\\@a.com/"}), false),
        (Allow, "WebFetch(domain:a.com)", "WebFetch", json!({"url": "https://a.com.b.com/"}), false),
        (Deny, "WebFetch(domain:a.com)", "WebFetch", json!({"url": "https://x@a.com/"}), true),
        (Deny, "Agent(Explore)", "Agent", json!({"subagent_type": "Explore"}), true),
        (Deny, "Task(Explore)", "Agent", json!({"subagent_type": "Plan"}), false),
        (Deny, "Agent(plug:dir:a)", "Agent", json!({"subagent_type": "plug:dir:a"}), true),
        (Deny, "Agent(model:opus*)", "Agent", json!({"model": "opus-5"}), true),
        (Deny, "Agent(fork)", "Agent", json!({}), true),
        (Allow, "mcp__srv", "mcp__srv__look", json!({}), true),
        (Allow, "mcp__srv__look", "mcp__srv__other", json!({}), false),
        (Allow, "mcp__srv__get_*", "mcp__srv__get_x", json!({}), true),
        (Deny, "mcp__*", "mcp__srv__look", json!({}), true),
        (Deny, "*", "Agent", json!({}), true),
        (Deny, "mcp__srv__look(path:/etc*)", "mcp__srv__look", json!({"path": "/etc/x"}), true),
        (Deny, "mcp__srv__look(deep:true)", "mcp__srv__look", json!({"deep": true}), true),
        (Allow, "PowerShell(ls *)", "PowerShell", json!({"command": "ls x"}), false),
        (Deny, "PowerShell(rm *)", "PowerShell", json!({"command": "ls; rm x"}), true),
    ] {
        let decision = decide(Mode::Default, &world.rules(&[(behavior, rule)]), &world.call(tool, &input));
        assert_eq!(decision.rule.is_some(), means, "{rule} {input} {decision:?}");
        assert_eq!(decision.behavior == behavior && means, means, "{rule} {input}");
    }
}

/// 1203: what is no rule is refused with what would be right.
#[test]
fn what_is_no_rule_is_refused() {
    let files = World::new().files();
    for (behavior, text, says) in [
        (Allow, "Bash(ls", "`)`"),
        (Allow, "(ls)", "name of a tool"),
        (Allow, "Ba sh", "name of a tool"),
        (Allow, "mcp__*", "star"),
        (Allow, "*", "star"),
        (Allow, "WebFetch(a.com)", "domain:"),
        (Allow, "Agent(model:opus)", "can deny or ask"),
        (Deny, "TodoWrite(x)", "means nothing"),
        (Deny, "Edit(!x)", "`!`"),
        (Deny, "Edit([a)", "pattern"),
    ] {
        let error = files.rule(text, behavior, Source::User).unwrap_err().to_string();
        assert!(error.contains(says) && error.contains(&format!("{text:?}")), "{error}");
    }
}

/// PM-07, E68: what each mode does with what no rule speaks of.
#[test]
fn each_mode_lets_through_what_it_says() {
    let world = World::new();
    let calls = [
        ("Read", json!({"file_path": "a"})),
        ("Read", json!({"file_path": "/etc/passwd"})),
        ("Edit", json!({"file_path": "a"})),
        ("Edit", json!({"file_path": "/etc/passwd"})),
        ("Edit", json!({"file_path": ".git/hooks/x"})),
        ("Edit", json!({"file_path": ".claude/settings.json"})),
        ("Bash", json!({"command": "ls"})),
        ("WebFetch", json!({"url": "https://a.com"})),
        ("Agent", json!({})),
    ];
    for (mode, want) in [
        (Mode::Default, [Allow, Ask, Ask, Ask, Ask, Ask, Ask, Ask, Allow]),
        (Mode::Bubble, [Allow, Ask, Ask, Ask, Ask, Ask, Ask, Ask, Allow]),
        (Mode::AcceptEdits, [Allow, Ask, Allow, Ask, Ask, Ask, Ask, Ask, Allow]),
        (Mode::Plan, [Allow, Ask, Deny, Deny, Deny, Deny, Ask, Ask, Allow]),
        (Mode::DontAsk, [Allow, Deny, Deny, Deny, Deny, Deny, Deny, Deny, Allow]),
        (Mode::BypassPermissions, [Allow; 9]),
    ] {
        let found: Vec<_> =
            calls.iter().map(|(tool, input)| world.decide(mode, &world.rules(&[]), tool, input)).collect();
        assert_eq!(found, want, "{mode:?}");
    }
    let guarded = json!({"file_path": ".claude/settings.local.json"});
    assert_eq!(world.decide(Mode::Default, &world.rules(&[(Allow, "Edit")]), "Edit", &guarded), Ask);
    let own = json!({"file_path": ".claude/worktrees/w/src/x"});
    assert_eq!(world.decide(Mode::AcceptEdits, &world.rules(&[]), "Edit", &own), Allow);
}

/// PM-07: settings are merged with the source of each rule; what is wrong is named, and the rest holds.
#[test]
fn settings_are_merged_and_what_is_wrong_is_named() {
    let world = World::new();
    fs::create_dir_all(world.at("repo/.claude")).unwrap();
    let write = |path: &str, value: Value| fs::write(world.at(path), value.to_string()).unwrap();
    write(
        "managed.json",
        json!({"permissions": {"deny": ["Bash(rm *)"], "disableBypassPermissionsMode": "disable"}}),
    );
    write("repo/.claude/settings.local.json", json!({"permissions": {"allow": ["Bash(ls *)", "Bash(", 3]}}));
    write(
        "repo/.claude/settings.json",
        json!({"permissions": {"allow": ["Edit(/src/**)"], "defaultMode": "bypassPermissions", "ask": "x"}}),
    );
    write(
        "home/.claude/settings.json",
        json!({"permissions": {"allow": ["Read(/x)"], "defaultMode": "acceptEdits", "additionalDirectories": ["../out"]}, "hooks": {}}),
    );
    let settings = Settings::load(&world.files());
    let rules: Vec<_> =
        settings.rules.rules.iter().map(|placed| (placed.source, placed.rule.to_string())).collect();
    assert_eq!(
        rules,
        [
            (Source::Managed, "Bash(rm *)".to_owned()),
            (Source::Local, "Bash(ls *)".to_owned()),
            (Source::Project, "Edit(/src/**)".to_owned()),
            (Source::User, "Read(/x)".to_owned()),
        ]
    );
    assert_eq!((settings.mode, settings.bypass_disabled), (Some(Mode::AcceptEdits), true));
    let problems: Vec<_> = settings.problems.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(problems.len(), 4, "{problems:?}");
    assert!(problems[0].contains("allow[2]") && problems[1].contains("\"Bash(\""), "{problems:?}");
    assert!(settings.problems[2].path.as_ref().unwrap().ends_with("settings.json"));
    let input = json!({"file_path": world.at("home/.claude/x")});
    let decision = decide(Mode::Default, &settings.rules, &world.call("Read", &input));
    assert_eq!((decision.behavior, decision.source), (Allow, Some(Source::User)));
    let out = json!({"file_path": world.at("out/x")});
    assert_eq!(world.decide(Mode::AcceptEdits, &settings.rules, "Edit", &out), Allow);
    assert!(!settings.is_stale());
    fs::write(world.at("home/.claude/settings.json"), "{\n  \"a\": 1,\n}").unwrap();
    assert!(settings.is_stale());
    assert_eq!(Settings::load(&world.files()).problems.last().unwrap().line, Some(3));
}

/// PM-07: the mode of who was given none is the machine's, else the user's; a project can have more asked for, and never less,
/// whichever of its files says so.
#[test]
fn a_project_has_more_asked_for_and_never_less() {
    use Mode::{AcceptEdits, BypassPermissions, Default, DontAsk, Plan};
    let world = World::new();
    fs::create_dir_all(world.at("repo/.claude")).unwrap();
    let write = |path: &str, mode: Option<Mode>| {
        fs::write(
            world.at(path),
            json!({ "permissions": { "defaultMode": mode.unwrap_or_default() } }).to_string(),
        )
        .unwrap();
        if mode.is_none() {
            fs::write(world.at(path), "{}").unwrap();
        }
    };
    for file in ["repo/.claude/settings.json", "repo/.claude/settings.local.json"] {
        for (managed, user, project, mode) in [
            (None, None, None, None),
            (None, Some(AcceptEdits), None, Some(AcceptEdits)),
            (None, Some(BypassPermissions), None, Some(BypassPermissions)),
            (None, None, Some(Plan), Some(Plan)),
            (None, None, Some(DontAsk), Some(DontAsk)),
            (None, None, Some(AcceptEdits), None),
            (None, None, Some(BypassPermissions), None),
            (None, Some(AcceptEdits), Some(Default), Some(Default)),
            (None, Some(DontAsk), Some(Default), Some(DontAsk)),
            (None, Some(Plan), Some(DontAsk), Some(Plan)),
            (Some(AcceptEdits), Some(Plan), Some(Plan), Some(AcceptEdits)),
        ] {
            write("managed.json", managed);
            write("home/.claude/settings.json", user);
            write(file, project);
            let found = Settings::load(&world.files());
            assert_eq!(found.mode, mode, "{managed:?} {user:?} {project:?}");
            let refused = matches!(project, Some(AcceptEdits | BypassPermissions));
            assert_eq!(found.problems.iter().any(|one| one.message.contains("asks for less")), refused);
        }
        write(file, None);
    }
    write("managed.json", None);
    write("home/.claude/settings.json", Some(Mode::Bubble));
    assert_eq!(Settings::load(&world.files()).mode, None);
}

/// PM-09, I18: no file of a project says which directories beside it may be read or written unasked.
#[test]
fn a_project_adds_no_directories() {
    let world = World::new();
    fs::create_dir_all(world.at("repo/.claude")).unwrap();
    let out = json!({"file_path": world.at("out/x")});
    for name in ["settings.json", "settings.local.json"] {
        let adds = json!({"permissions": {"additionalDirectories": ["/", "~/", "../out"]}}).to_string();
        fs::write(world.at("repo/.claude").join(name), adds).unwrap();
        let settings = Settings::load(&world.files());
        assert!(settings.problems[0].message.contains("set it for the user"), "{:?}", settings.problems);
        assert_eq!(world.decide(Mode::Default, &settings.rules, "Read", &out), Ask);
        assert_eq!(world.decide(Mode::AcceptEdits, &settings.rules, "Edit", &out), Ask);
        fs::remove_file(world.at("repo/.claude").join(name)).unwrap();
    }
}

/// PM-03, I18: the rule that "always" writes lets just this call through, and no other.
#[test]
fn a_suggested_rule_lets_just_this_call_through() {
    let world = World::new();
    let lets = |tool: &str, input: &Value, other: &Value| {
        let suggested = suggest(&world.call(tool, input));
        let rules: Vec<_> = suggested.iter().map(|rule| (Allow, rule.as_str())).collect();
        let rules = world.rules(&rules);
        (world.decide(Mode::Default, &rules, tool, input), world.decide(Mode::Default, &rules, tool, other))
    };
    let bash = |line: &str| json!({"command": line});
    assert_eq!(lets("Bash", &bash("ls *.rs && wc -l (x)"), &bash("ls")), (Ask, Ask));
    assert_eq!(lets("Bash", &bash("ls *.rs | wc -l"), &bash("ls b.rs")), (Allow, Ask));
    assert_eq!(lets("Bash", &bash("echo a:*"), &bash("echo a b")), (Allow, Ask));
    let file = |path: PathBuf| json!({"file_path": path});
    assert_eq!(lets("Edit", &file(world.at("out/a")), &file(world.at("out/b"))), (Allow, Ask));
    assert_eq!(lets("Edit", &file(world.at("out/[a]")), &file(world.at("out/a"))), (Ask, Ask));
    let url = |url: &str| json!({"url": url});
    assert_eq!(lets("WebFetch", &url("https://a.com/x"), &url("https://b.com/x")), (Allow, Ask));
    assert_eq!(lets("mcp__srv__a", &json!({}), &json!({"x": 1})), (Allow, Allow));
}

/// PM-01, PM-02, PM-03: a path of a team allows its tool below it, and nothing else.
#[test]
fn a_teams_path_allows_its_tool_below_it() {
    let world = World::new();
    let rule = below("Write", &world.at("out")).unwrap();
    let rules = world.rules(&[(Allow, &rule)]);
    let input = |path: &str| json!({"file_path": world.at(path)});
    assert_eq!(world.decide(Mode::Default, &rules, "Write", &input("out/a/b")), Allow);
    assert_eq!(world.decide(Mode::Default, &rules, "Edit", &input("out/a/b")), Ask);
    assert_eq!(world.decide(Mode::Default, &rules, "Write", &input("other")), Ask);
    assert_eq!(below("Write", Path::new("relative")), None);
}

/// A directory with two programs: `git`, which does nothing, and `mark`, which leaves a file.
fn programs(world: &World) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let bin = world.at("bin");
    fs::create_dir(&bin).unwrap();
    let mark = format!("#!/bin/sh\n: > {}\n", world.at("marked").display());
    for (name, script) in [("git", "#!/bin/sh\n"), ("mark", mark.as_str())] {
        fs::write(bin.join(name), script).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o700)).unwrap();
    }
    bin
}

/// What lines are made of.
const TOKENS: [&str; 32] = [
    " ",
    " ",
    "mark",
    "mark ",
    "git ",
    ";",
    "&",
    "|",
    "\n",
    "'",
    "\"",
    "\\",
    "$",
    "(",
    ")",
    "`",
    "#",
    "{ ",
    " }",
    "<",
    ">",
    "=",
    "!",
    "/dev/null",
    "&1",
    "$'",
    "\t",
    "a",
    "if ",
    " then ",
    " fi",
    "EOF",
];

proptest! {
    /// PM-03: a real shell runs nothing but `git` of a line that a rule for `git` allows, and makes no file.
    #[test]
    fn a_shell_runs_only_what_was_allowed(
        tokens in proptest::collection::vec(proptest::sample::select(&TOKENS[..]), 1..14),
    ) {
        let line = format!("git {}", tokens.concat());
        if bash(&[(Allow, "Bash(git *)")], &line) == Allow {
            let world = World::new();
            let mut shell = std::process::Command::new("/bin/bash");
            shell.args(["-c", &line]).env_clear().env("PATH", programs(&world)).current_dir(world.at("out"));
            let nothing = std::process::Stdio::null;
            let ran = shell.stdin(nothing()).stdout(nothing()).stderr(nothing()).status();
            prop_assert!(ran.is_ok(), "there is no bash: {:?}", ran);
            prop_assert!(!world.at("marked").exists(), "{:?}", line);
            prop_assert_eq!(fs::read_dir(world.at("out")).unwrap().count(), 0, "{:?}", line);
        }
    }

    /// PM-03: whatever surrounds `git status`, a rule for it alone allows nothing else.
    #[test]
    fn a_rule_for_git_status_allows_git_status_alone(
        before in "[ -~\n\t]{0,16}",
        after in "[ -~\n\t]{0,16}",
    ) {
        let line = format!("{before}git status{after}");
        if bash(&[(Allow, "Bash(git status)")], &line) == Allow {
            let ends = |letter: char| letter.is_whitespace() || ";&|".contains(letter);
            prop_assert!(line.replace("\\\n", "").split(ends).all(|word| ["", "git", "status"].contains(&word)), "{:?}", line);
        }
    }

    /// PM-03: a denied command behind any separator is denied, whatever else is there.
    #[test]
    fn a_denied_command_behind_a_separator_is_denied(
        before in "[a-z ./=-]{0,12}",
        separator in proptest::sample::select(vec![";", "&&", "||", "|", "&", "\n"]),
        wrapper in proptest::sample::select(vec!["", "sudo ", "A=b ", "exec ", "\\", "/usr/bin/"]),
    ) {
        let line = format!("{before}{separator}{wrapper}rm -rf x");
        prop_assert_eq!(bash(&[(Allow, "Bash"), (Deny, "Bash(rm:*)")], &line), Deny);
    }
}
