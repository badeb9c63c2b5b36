//! The agents that need no file.

use std::num::NonZeroU32;

use super::{Definition, FORK, Profile, ToolProfile, View, WORKER};
use crate::flags::Flags;
use crate::permission::Mode;

/// What an agent that only reads does not get. A shell can write, so it is on the list.
const WRITERS: [&str; 9] = [
    "Agent",
    "ExitPlanMode",
    "Edit",
    "Write",
    "NotebookEdit",
    "Bash",
    "PowerShell",
    "EnterWorktree",
    "ExitWorktree",
];
/// What the one that verifies does not get: it has to run things.
const EDITORS: [&str; 5] = ["Agent", "ExitPlanMode", "Edit", "Write", "NotebookEdit"];

/// The built-ins that somebody sees.
pub(super) fn of(view: &View) -> Vec<Definition> {
    match view.profile {
        Profile::Claude if view.coordinator => vec![worker()],
        Profile::Claude => claude(view.flags),
        Profile::Qlogic => qlogic(),
        Profile::Minimal => minimal(),
        Profile::Executor => vec![general_purpose()],
    }
}

fn define(name: &str, description: &str, prompt: &str) -> Definition {
    Definition {
        name: name.to_owned(),
        description: description.to_owned(),
        prompt: prompt.trim_end().to_owned(),
        ..Definition::default()
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn claude(flags: Flags) -> Vec<Definition> {
    let mut all = vec![general_purpose()];
    if flags.explore_plan {
        all.extend([explore(), plan()]);
    }
    if flags.verification {
        all.push(verification());
    }
    all.extend([guide(), statusline()]);
    if flags.fork_subagent {
        all.push(fork());
    }
    all
}

fn general_purpose() -> Definition {
    define(
        "general-purpose",
        "For work of many steps that no specialised agent fits: it searches, reads, changes files and runs programs.",
        include_str!("../prompt/general-purpose.md"),
    )
}

fn explore() -> Definition {
    let description = "Searches a code base and reports what it found, with files and lines. It only reads. Say how \
                       thorough it has to be: quick, medium or very thorough.";
    Definition {
        disallowed_tools: owned(&WRITERS),
        ..define("Explore", description, include_str!("../prompt/explore.md"))
    }
}

fn plan() -> Definition {
    let description = "Designs how to make a change: reads the code and answers with a plan in steps, the files that \
                       matter and what speaks for and against. It only reads.";
    Definition {
        disallowed_tools: owned(&WRITERS),
        ..define("Plan", description, include_str!("../prompt/plan.md"))
    }
}

fn verification() -> Definition {
    let description = "Tries to break finished work: runs it, looks for the case that fails, and answers PASS, FAIL or \
                       PARTIAL with evidence. It changes no file of the project.";
    Definition {
        disallowed_tools: owned(&EDITORS),
        background: true,
        ..define("Verification", description, include_str!("../prompt/verification.md"))
    }
}

fn guide() -> Definition {
    let description = "Answers questions on Claude Code, its SDK and the Claude API from their documentation. It only \
                       reads.";
    Definition {
        tools: Some(owned(&["Glob", "Grep", "Read", "WebFetch", "WebSearch"])),
        ..define("claude-code-guide", description, include_str!("../prompt/claude-code-guide.md"))
    }
}

fn statusline() -> Definition {
    Definition {
        tools: Some(owned(&["Read", "Edit"])),
        ..define(
            "statusline-setup",
            "Changes the user's statusLine setting.",
            include_str!("../prompt/statusline-setup.md"),
        )
    }
}

fn fork() -> Definition {
    let description = "Goes on from this conversation with all that was said so far, in the background, and reports in \
                       the end.";
    Definition {
        tools: Some(owned(&["*"])),
        background: true,
        permission_mode: Some(Mode::Bubble),
        model: Some(crate::model::INHERIT.to_owned()),
        ..define(FORK, description, "")
    }
}

fn worker() -> Definition {
    let description =
        "Does one piece of work on its own, researching, implementing or verifying, and reports.";
    Definition { background: true, ..define(WORKER, description, include_str!("../prompt/worker.md")) }
}

/// One agent of the profile `qlogic`.
struct Qlogic {
    name: &'static str,
    label: &'static str,
    description: &'static str,
    turns: u32,
    tools: ToolProfile,
    allowed: &'static [&'static str],
    can_fork: bool,
    suffix: Option<&'static str>,
}

/// AD-07 … AD-12.
const QLOGIC: [Qlogic; 6] = [
    Qlogic {
        name: "general",
        label: "General",
        description: "Work of many steps with every tool.",
        turns: 200,
        tools: ToolProfile::AllTools,
        allowed: &[],
        can_fork: false,
        suffix: None,
    },
    Qlogic {
        name: "explore",
        label: "Explore",
        description: "Searches code, documents and the web, and changes nothing.",
        turns: 50,
        tools: ToolProfile::ReadTools,
        allowed: &["read_file", "search", "web_search", "web_fetch", "memory", "tool_search"],
        can_fork: false,
        suffix: Some(
            "You only read: change nothing. Name file:line for what you say, and quote excerpts, not whole files.",
        ),
    },
    Qlogic {
        name: "plan",
        label: "Plan",
        description: "Works out a plan and does not carry it out.",
        turns: 80,
        tools: ToolProfile::ReadTools,
        allowed: &["read_file", "search", "web_search", "web_fetch", "memory", "tool_search", "task"],
        can_fork: false,
        suffix: Some(
            "You plan and don't carry out: name the files that change, and the steps in their order.",
        ),
    },
    Qlogic {
        name: "code",
        label: "Code",
        description: "Writes and changes code; may spawn agents.",
        turns: 200,
        tools: ToolProfile::AllTools,
        allowed: &[],
        can_fork: true,
        suffix: Some(
            "Edit the files directly, follow the conventions that the code has, and verify what you changed.",
        ),
    },
    Qlogic {
        name: "research",
        label: "Research",
        description: "Gathers from many sources and puts it together.",
        turns: 30,
        tools: ToolProfile::ReadTools,
        allowed: &["web_search", "web_fetch", "read_file", "search", "memory"],
        can_fork: false,
        suffix: Some(
            "Use many sources, keep facts apart from what you infer, cite each source, and put it all together in the \
             end.",
        ),
    },
    Qlogic {
        name: "verify",
        label: "Verify",
        description: "Runs checks and says with evidence what passes.",
        turns: 40,
        tools: ToolProfile::AllTools,
        allowed: &["exec", "read_file", "search"],
        can_fork: false,
        suffix: Some(
            "Run the checks and read what they really print. Answer pass or fail for each, with the evidence.",
        ),
    },
];

fn qlogic() -> Vec<Definition> {
    let make = |one: &Qlogic| Definition {
        label: Some(one.label.to_owned()),
        max_turns: NonZeroU32::new(one.turns),
        tool_capability_profile: Some(one.tools),
        allowed_tools: owned(one.allowed),
        can_fork: one.can_fork,
        system_prompt_suffix: one.suffix.map(str::to_owned),
        ..define(one.name, one.description, include_str!("../prompt/general-purpose.md"))
    };
    QLOGIC.iter().map(make).collect()
}

fn minimal() -> Vec<Definition> {
    let explore = Definition {
        name: "explore".to_owned(),
        description: "Searches and reads; changes nothing at all.".to_owned(),
        ..explore()
    };
    let general = Definition {
        name: "general".to_owned(),
        description: "Reads and writes, in the scopes that it is given.".to_owned(),
        can_ask: true,
        ..general_purpose()
    };
    vec![explore, general]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(profile: Profile, flags: Flags, coordinator: bool) -> Vec<String> {
        of(&View { profile, flags, coordinator, ..View::default() })
            .into_iter()
            .map(|definition| definition.name)
            .collect()
    }

    /// AD-01 … AD-06, AD-21, AD-22, CO-05: flags and coordinator mode say which built-ins there are.
    #[test]
    fn flags_decide_which_built_ins_exist() {
        let all = Flags::default();
        assert_eq!(
            names(Profile::Claude, all, false),
            [
                "general-purpose",
                "Explore",
                "Plan",
                "Verification",
                "claude-code-guide",
                "statusline-setup",
                "fork"
            ]
        );
        let none = Flags { explore_plan: false, verification: false, fork_subagent: false, ..all };
        assert_eq!(
            names(Profile::Claude, none, false),
            ["general-purpose", "claude-code-guide", "statusline-setup"]
        );
        assert_eq!(names(Profile::Claude, all, true), ["worker"]);
        assert_eq!(names(Profile::Minimal, all, false), ["explore", "general"]);
    }

    /// AD-07 … AD-13: the agents of `qlogic` have exactly these fields.
    #[test]
    fn qlogic_agents_have_their_exact_fields() {
        let all = of(&View { profile: Profile::Qlogic, ..View::default() });
        let shown: Vec<_> = all
            .iter()
            .map(|one| {
                let mut value = serde_json::to_value(one).unwrap();
                let object = value.as_object_mut().unwrap();
                let suffix = object.remove("systemPromptSuffix").is_some();
                for key in
                    ["prompt", "description", "label", "background", "canAsk", "permissionRole", "isolation"]
                {
                    assert!(object.remove(key).is_some(), "{key}");
                }
                (value, suffix)
            })
            .collect();
        let lists = ["read_file", "search", "web_search", "web_fetch", "memory", "tool_search", "task"];
        let agent = |name, turns, tools, can_fork| json!({"name": name, "maxTurns": turns, "toolCapabilityProfile": tools, "canFork": can_fork});
        let with = |mut value: serde_json::Value, list: &[&str]| {
            value["allowedTools"] = json!(list);
            value
        };
        assert_eq!(
            shown,
            [
                (agent("general", 200, "all_tools", false), false),
                (with(agent("explore", 50, "read_tools", false), &lists[..6]), true),
                (with(agent("plan", 80, "read_tools", false), &lists), true),
                (agent("code", 200, "all_tools", true), true),
                (
                    with(
                        agent("research", 30, "read_tools", false),
                        &["web_search", "web_fetch", "read_file", "search", "memory"]
                    ),
                    true
                ),
                (with(agent("verify", 40, "all_tools", false), &["exec", "read_file", "search"]), true),
            ]
        );
    }

    /// AD-02 … AD-06, AD-19, AD-20: who reads only, who writes, and who may ask.
    #[test]
    fn readers_can_not_write_and_only_the_minimal_writer_may_ask() {
        let all: Vec<_> =
            Profile::ALL.into_iter().flat_map(|profile| of(&View { profile, ..View::default() })).collect();
        let of = |keep: fn(&Definition) -> bool| -> Vec<&str> {
            all.iter().filter(|one| keep(one)).map(|one| one.name.as_str()).collect()
        };
        let readers = of(Definition::is_read_only);
        assert_eq!(
            readers,
            [
                "Explore",
                "Plan",
                "Verification",
                "claude-code-guide",
                "explore",
                "plan",
                "research",
                "verify",
                "explore"
            ]
        );
        assert_eq!(of(|one| one.can_ask), ["general"]);
    }
}
