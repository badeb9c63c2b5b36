use super::*;
use proptest::prelude::*;

const ALL: [&str; 31] = [
    "Agent",
    "AskUserQuestion",
    "Bash",
    "Edit",
    "EnterPlanMode",
    "EnterWorktree",
    "ExitPlanMode",
    "ExitWorktree",
    "Glob",
    "Grep",
    "Memory",
    "NotebookEdit",
    "PowerShell",
    "Read",
    "SendMessage",
    "Skill",
    "SyntheticOutput",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskOutput",
    "TaskStop",
    "TaskUpdate",
    "TeamCreate",
    "TeamDelete",
    "TodoWrite",
    "ToolSearch",
    "WebFetch",
    "WebSearch",
    "Write",
    "mcp__srv__look",
];
/// Tools as the profile `qlogic` names them.
const SNAKE: [&str; 24] = [
    "read_file",
    "search",
    "web_search",
    "web_fetch",
    "memory",
    "tool_search",
    "task",
    "agent",
    "team",
    "file_edit",
    "create_file",
    "write_file",
    "replace_string_in_file",
    "multi_replace_string_in_file",
    "create_directory",
    "delete_file",
    "rename_file",
    "move_file",
    "exec",
    "run_in_terminal",
    "run_command",
    "git_commit",
    "git_push",
    "patch",
];

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn pool(who: Who<'_>, definition: &Definition) -> Vec<String> {
    of(&owned(&ALL), who, Some(definition), Origin::BuiltIn, &Policy::default()).unwrap().tools
}

fn listed(tools: &[&str], denied: &[&str]) -> Definition {
    Definition {
        tools: (!tools.is_empty()).then(|| owned(tools)),
        disallowed_tools: owned(denied),
        ..Definition::default()
    }
}

fn qlogic(name: &str, available: &[&str]) -> Vec<String> {
    use crate::definition::{Catalog, Places, Profile, View};
    let view = View { profile: Profile::Qlogic, ..View::default() };
    let catalog = Catalog::load(&Places::default(), &view);
    let definition = &catalog.get(name).unwrap().definition;
    of(&owned(available), Who::Foreground, Some(definition), Origin::BuiltIn, &Policy::default())
        .unwrap()
        .tools
}

/// TP-01, TP-02, TP-07: none of the six is in an agent's pool, and each removal has its stage.
#[test]
fn the_global_deny_set_is_in_no_agents_pool() {
    for who in [Who::Foreground, Who::Background, Who::Teammate] {
        let pool = pool(who, &Definition::default());
        assert!(GLOBAL_DENY.iter().all(|denied| !pool.contains(&(*denied).to_owned())), "{who:?}");
        assert!(pool.contains(&"mcp__srv__look".to_owned()), "{who:?}");
    }
    let definition = listed(&["Read", "Edit", "Agent"], &["Edit"]);
    let pool =
        of(&owned(&ALL), Who::Background, Some(&definition), Origin::BuiltIn, &Policy::default()).unwrap();
    let stage = |tool: &str| pool.removed.iter().find(|removed| removed.tool == tool).unwrap().stage;
    assert_eq!(pool.tools, ["Read"]);
    assert_eq!(stage("Agent"), Stage::GlobalDeny);
    assert_eq!(stage("SendMessage"), Stage::AsyncAllow);
    assert_eq!(stage("Grep"), Stage::Tools);
    assert_eq!(stage("Edit"), Stage::DisallowedTools);
    assert_eq!(pool.tools.len() + pool.removed.len(), ALL.len());
    assert_eq!(pool.unmatched, ["Agent"]);
}

/// TP-03, TP-04, AD-20: what the configuration and a definition open and close.
#[test]
fn policy_opens_nested_agents_and_closes_tools_of_custom_ones() {
    let policy = Policy { allow_nested_agent: true, custom_deny: owned(&["exec", "WebFetch"]) };
    let pool = |origin, who| of(&owned(&ALL), who, None, origin, &policy).unwrap().tools;
    assert!(pool(Origin::BuiltIn, Who::Background).contains(&"Agent".to_owned()));
    assert!(pool(Origin::BuiltIn, Who::Foreground).contains(&"Bash".to_owned()));
    let custom = pool(Origin::Custom, Who::Foreground);
    assert!(!custom.contains(&"Bash".to_owned()) && !custom.contains(&"WebFetch".to_owned()));
    let asks = Definition { can_ask: true, ..Definition::default() };
    assert!(
        super::of(&owned(&ALL), Who::Background, Some(&asks), Origin::Custom, &Policy::default())
            .unwrap()
            .tools
            .contains(&"AskUserQuestion".to_owned())
    );
}

/// TP-05, TP-06, TP-20: the background has its fifteen, the shell's entry being every shell; workers are all alike.
#[test]
fn the_background_has_exactly_its_list() {
    let pool = pool(Who::Background, &Definition::default());
    let mut want: Vec<String> = owned(ASYNC_ALLOW);
    assert_eq!(want.len(), 15);
    want.extend(owned(&["PowerShell", "mcp__srv__look"]));
    want.sort();
    let mut found = pool.clone();
    found.sort();
    assert_eq!(found, want);
    assert_eq!(
        pool,
        super::of(&owned(&ALL), Who::Background, None, Origin::Custom, &Policy::default()).unwrap().tools
    );
}

/// TP-08, TP-09, C15: a list keeps, the other one takes away, and in which order does not matter.
#[test]
fn a_definitions_lists_keep_and_subtract() {
    assert_eq!(pool(Who::Main, &listed(&["*"], &[])).len(), ALL.len());
    assert_eq!(pool(Who::Main, &Definition::default()).len(), ALL.len());
    assert_eq!(
        pool(Who::Main, &listed(&["Write", "read_file", "Agent(a)"], &[])),
        ["Agent", "Read", "Write"]
    );
    assert_eq!(pool(Who::Main, &listed(&["Read", "Write"], &["write_file"])), ["Read"]);
    assert!(pool(Who::Main, &listed(&[], &["Agent(Explore)"])).contains(&"Agent".to_owned()));
    assert_eq!(agent_types(&listed(&["Read", "Agent(a, b)"], &[])), Some(vec!["a", "b"]));
    assert_eq!(agent_types(&listed(&["Agent"], &[])), None);
}

/// TP-07, TP-08: patterns for servers; all servers at once can only be denied.
#[test]
fn patterns_cover_tools_of_servers() {
    for (pattern, tool, covers) in [
        ("mcp__srv", "mcp__srv__look", true),
        ("mcp__srv__*", "mcp__srv__look", true),
        ("mcp__*", "mcp__srv__look", true),
        ("mcp__srv__look", "mcp__srv__look", true),
        ("mcp__srv__look", "mcp__srv__look__more", false),
        ("mcp__sr", "mcp__srv__look", false),
        ("mcp__", "mcp____x", false),
        ("Read", "Read", false),
    ] {
        assert_eq!(covers_mcp(pattern, tool), covers, "{pattern} {tool}");
    }
    assert_eq!(pool(Who::Main, &listed(&["mcp__srv"], &[])), ["mcp__srv__look"]);
    assert!(!pool(Who::Main, &listed(&[], &["mcp__*"])).contains(&"mcp__srv__look".to_owned()));
    let all =
        of(&owned(&ALL), Who::Main, Some(&listed(&["mcp__*"], &[])), Origin::Custom, &Policy::default());
    assert!(all.is_err());
}

/// TP-10, TP-11, TP-12, TP-13, TP-14: the lists and profiles of `qlogic`, under its own names and under ours.
#[test]
fn qlogic_profiles_take_away_exactly_what_they_say() {
    assert_eq!(qlogic("verify", &SNAKE), ["read_file", "search", "exec"]);
    assert_eq!(qlogic("verify", &ALL), ["Bash", "Grep", "Read"]);
    assert_eq!(qlogic("explore", &SNAKE), SNAKE[..6]);
    assert_eq!(qlogic("plan", &SNAKE), SNAKE[..7]);
    assert!(!qlogic("general", &SNAKE).iter().any(|tool| tool == "agent" || tool == "team"));
    assert_eq!(qlogic("general", &SNAKE).len(), SNAKE.len() - 2);
    assert_eq!(qlogic("code", &SNAKE), SNAKE);
    assert!(
        ["Agent", "TeamCreate", "TeamDelete"]
            .iter()
            .all(|tool| qlogic("code", &ALL).contains(&(*tool).to_owned()))
    );
    let profile = |profile| Definition { tool_capability_profile: Some(profile), ..Definition::default() };
    let of_snake = |definition| {
        of(&owned(&SNAKE), Who::Foreground, Some(&definition), Origin::Custom, &Policy::default()).unwrap()
    };
    assert_eq!(of_snake(profile(ToolProfile::ReadTools)).tools, SNAKE[..9]);
    assert_eq!(READ_DENY.len(), 15);
    assert!(of_snake(profile(ToolProfile::NoTools)).tools.is_empty());
}

/// TP-15, TP-16: the executor denies five, and a definition its own.
#[test]
fn the_executor_denies_its_own_set() {
    let five = ["Agent", "EnterPlanMode", "ExitPlanMode", "AskUserQuestion", "TaskStop"];
    let want: Vec<&str> = ALL.into_iter().filter(|tool| !five.contains(tool)).collect();
    let pool = |definition: Option<&Definition>| {
        of(&owned(&ALL), Who::Executor, definition, Origin::Custom, &Policy::default()).unwrap().tools
    };
    assert_eq!(pool(None), want);
    assert_eq!(pool(Some(&Definition::default())), want);
    assert_eq!(pool(Some(&listed(&["*"], &[]))), want);
    assert_eq!(pool(Some(&listed(&["read_file", "agent"], &[]))), ["Read"]);
    assert!(!pool(Some(&listed(&[], &["exec"]))).contains(&"Bash".to_owned()));
}

/// TP-18, FK-05, FK-20, FK-23: a fork is offered its parent's pool as it is, and may not call all of it.
#[test]
fn a_fork_is_offered_its_parents_exact_pool() {
    let parent = owned(&["Read", "Agent", "TaskStop", "Bash", "SendMessage"]);
    let fork = |definition: &Definition| {
        of(&owned(&ALL), Who::Fork { parent: &parent }, Some(definition), Origin::BuiltIn, &Policy::default())
            .unwrap()
    };
    let all = fork(&listed(&["*"], &[]));
    assert_eq!((&all.offered, all.tools), (&parent, owned(&["Read", "Bash"])));
    let narrow = fork(&listed(&["Read"], &[]));
    assert_eq!((&narrow.offered, narrow.tools), (&parent, owned(&["Read"])));
}

/// TP-19, TP-22, TP-23, C45: coordinator, teammates and leads.
#[test]
fn coordinators_teammates_and_leads_have_their_sets() {
    let mut coordinator = pool(Who::Coordinator, &Definition::default());
    coordinator.sort();
    assert_eq!(coordinator, ["Agent", "SendMessage", "SyntheticOutput", "TaskStop"]);
    let mate = pool(Who::Teammate, &listed(&["Read"], &[]));
    assert_eq!(mate, ["Read", "SendMessage", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate"]);
    assert!(pool(Who::PlanningTeammate, &Definition::default()).contains(&"ExitPlanMode".to_owned()));
    let lead = pool(Who::Main, &Definition::default());
    assert!(
        ["Agent", "TaskOutput", "TaskStop", "TeamCreate", "TeamDelete"]
            .iter()
            .all(|t| lead.contains(&(*t).to_owned()))
    );
}

/// 1108: lists that leave nothing are refused, with what they say.
#[test]
fn lists_that_leave_nothing_are_an_error() {
    let of = |definition: &Definition| {
        of(&owned(&ALL), Who::Foreground, Some(definition), Origin::Custom, &Policy::default())
    };
    let definition = Definition { name: "a".into(), ..listed(&["Raed"], &[]) };
    let error = of(&definition).unwrap_err();
    assert!(error.to_string().contains("Raed") && error.to_string().contains("\"a\""), "{error}");
    assert!(of(&Definition { tools: Some(Vec::new()), ..Definition::default() }).is_err());
    assert!(of(&listed(&["Read"], &["Read"])).is_err());
}

proptest! {
    /// TP-14, TP-17: whatever a definition says, a pool has only tools that there are, in their order, each once.
    #[test]
    fn a_pool_is_an_ordered_part_of_what_there_is(
        tools in proptest::option::of(proptest::collection::vec(proptest::sample::select(&ALL[..]), 1..6)),
        denied in proptest::collection::vec(proptest::sample::select(&ALL[..]), 0..6),
    ) {
        let definition = Definition {
            tools: tools.map(|tools| owned(&tools)),
            disallowed_tools: owned(&denied),
            ..Definition::default()
        };
        for who in [Who::Main, Who::Foreground, Who::Background, Who::Teammate, Who::Coordinator, Who::Executor] {
            if let Ok(pool) = of(&owned(&ALL), who, Some(&definition), Origin::Custom, &Policy::default()) {
                let mut rest = ALL.iter();
                prop_assert!(pool.tools.iter().all(|tool| rest.any(|known| known == tool)));
                prop_assert!(pool.tools.iter().all(|tool| !denied.contains(&tool.as_str())));
                prop_assert_eq!(pool.tools.len() + pool.removed.len(), ALL.len());
            }
        }
    }
}
