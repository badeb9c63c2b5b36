//! Names of tools: each design has its own, and one table says which tool of ours is meant (C14, TP-24).
//!
//! A name that this table does not know stands for itself: it may be a tool of an MCP server. Deliberately not here: what
//! a tool does, and inputs, which differ from design to design as well.

/// The tools that a name can stand for.
const CANONICAL: &[&str] = &[
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
    "Monitor",
    "NotebookEdit",
    "PowerShell",
    "Read",
    "SendMessage",
    "SetSpec",
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
];

/// Other names, and what each stands for. A canonical name in snake case or small letters needs no line.
const ALIASES: &[(&str, &[&str])] = &[
    ("AgentOutputTool", &["TaskOutput"]),
    ("BashOutput", &["TaskOutput"]),
    ("FileEdit", &["Edit"]),
    ("FileRead", &["Read"]),
    ("FileWrite", &["Write"]),
    ("KillBash", &["TaskStop"]),
    ("KillShell", &["TaskStop"]),
    ("LS", &["Glob"]),
    ("MultiEdit", &["Edit"]),
    ("NotebookRead", &["Read"]),
    ("Task", &["Agent"]),
    ("ask", &["AskUserQuestion"]),
    ("ask_user", &["AskUserQuestion"]),
    ("create_directory", &["Bash"]),
    ("create_file", &["Write"]),
    ("delete_file", &["Bash"]),
    ("edit_file", &["Edit"]),
    ("edit_notebook", &["NotebookEdit"]),
    ("exec", &["Bash"]),
    ("file_edit", &["Edit"]),
    ("file_read", &["Read"]),
    ("file_search", &["Glob"]),
    ("file_write", &["Write"]),
    ("git_commit", &["Bash"]),
    ("git_push", &["Bash"]),
    ("grep_search", &["Grep"]),
    ("list_directory", &["Glob"]),
    ("move_file", &["Bash"]),
    ("multi_replace_string_in_file", &["Edit"]),
    ("patch", &["Edit"]),
    ("powershell", &["PowerShell"]),
    ("read_file", &["Read"]),
    ("rename_file", &["Bash"]),
    ("replace_string_in_file", &["Edit"]),
    ("run_command", &["Bash"]),
    ("run_in_terminal", &["Bash"]),
    ("search", &["Grep"]),
    ("shell", &["Bash"]),
    ("spawn_agent", &["Agent"]),
    ("task", &["TodoWrite", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate"]),
    ("team", &["TeamCreate", "TeamDelete"]),
    ("write_file", &["Write"]),
];

/// The tools that a name stands for, one for nearly every name; a name that is not known stands for itself.
pub fn resolve(name: &str) -> Vec<&str> {
    if let Some((_, tools)) = ALIASES.iter().find(|(alias, _)| *alias == name) {
        return tools.to_vec();
    }
    let same = |canonical: &&&str| **canonical == name || spells(canonical, name);
    vec![CANONICAL.iter().find(same).copied().unwrap_or(name)]
}

/// The one tool that a call by this name is for.
pub fn canonical(name: &str) -> &str {
    match *resolve(name) {
        [one] => one,
        _ => name,
    }
}

/// Whether two names stand for a tool in common.
pub fn same(one: &str, other: &str) -> bool {
    one == other || {
        let others = resolve(other);
        resolve(one).iter().any(|tool| others.contains(tool))
    }
}

/// Whether a name is a canonical one in snake case or in small letters.
fn spells(canonical: &str, name: &str) -> bool {
    if !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        return false;
    }
    let mut rest = name.chars().peekable();
    for (at, letter) in canonical.char_indices() {
        if at > 0 && letter.is_ascii_uppercase() && rest.peek() == Some(&'_') {
            rest.next();
        }
        if rest.next() != Some(letter.to_ascii_lowercase()) {
            return false;
        }
    }
    rest.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TP-24, C14: names of all five designs lead to one tool.
    #[test]
    fn every_name_leads_to_a_tool_of_ours() {
        for (name, tool) in [
            ("exec", "Bash"),
            ("run_command", "Bash"),
            ("run_in_terminal", "Bash"),
            ("file_edit", "Edit"),
            ("patch", "Edit"),
            ("replace_string_in_file", "Edit"),
            ("read_file", "Read"),
            ("Task", "Agent"),
            ("agent", "Agent"),
            ("enter_plan_mode", "EnterPlanMode"),
            ("exitplanmode", "ExitPlanMode"),
            ("ask_user_question", "AskUserQuestion"),
            ("task_stop", "TaskStop"),
            ("web_search", "WebSearch"),
            ("tool_search", "ToolSearch"),
            ("memory", "Memory"),
            ("FileWrite", "Write"),
            ("Read", "Read"),
            ("mcp__srv__tool", "mcp__srv__tool"),
        ] {
            assert_eq!(canonical(name), tool, "{name}");
        }
    }

    /// TP-24: `team` stands for two tools, and every alias for tools that there are.
    #[test]
    fn the_table_names_only_tools_that_there_are() {
        assert_eq!(resolve("team"), ["TeamCreate", "TeamDelete"]);
        assert!(same("team", "TeamDelete") && same("exec", "run_command") && !same("read_file", "Write"));
        for (alias, tools) in ALIASES {
            assert!(tools.iter().all(|tool| CANONICAL.contains(tool)), "{alias}");
            assert!(!CANONICAL.contains(alias), "{alias}");
        }
    }
}
