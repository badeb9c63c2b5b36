//! The shapes of a spawn's params that the wire types leave open: bounds, characters, and what this build has nothing
//! behind.

use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::runner::RunnerKind;
use ccagent_proto::{Error, Kind};

use super::unbuilt;

/// Bytes of a command line at most: the kernel takes no more.
const COMMAND_MOST: usize = 1 << 20;
/// The permission modes of the contract.
const MODES: &[&str] = &["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions", "bubble"];
/// Labels of a task at most.
const LABELS_MOST: usize = 64;
/// Environment variables of a task at most.
const NAMES_MOST: usize = 4096;
/// Bytes of a short text at most: these stay in memory.
const TEXT_MOST: usize = 1024;
/// Bytes of a prompt at most.
const PROMPT_MOST: usize = 1 << 20;
/// Bytes of a path at most, as the kernel has it.
const PATH_MOST: usize = 4095;

/// The program and its arguments.
pub(super) fn command_of(params: &AgentSpawnParams) -> Result<Vec<String>, Error> {
    let bad = |why: &str| Error::new(Kind::InvalidParams, why).with("path", "command");
    let Some(argv) = params.command.clone() else {
        return Err(Error::new(
            Kind::RunnerUnavailable,
            "this version runs programs only: give command, the program and its arguments",
        )
        .with("needs", "command"));
    };
    if argv.first().is_none_or(String::is_empty) {
        return Err(bad("command needs a program as its first entry"));
    }
    if argv.iter().any(|word| word.contains('\0')) {
        return Err(bad("a word of command has a NUL byte, which no program can be given"));
    }
    if argv.iter().map(|word| word.len() + 1).sum::<usize>() > COMMAND_MOST {
        return Err(bad("command has more than 1 MiB: write the text to a file or to its input"));
    }
    Ok(argv)
}

/// Values whose shape the types leave open.
pub(super) fn check(params: &AgentSpawnParams) -> Result<(), Error> {
    let bad = |path: &str, why: String| Err(Error::new(Kind::InvalidParams, why).with("path", path));
    if let Some(mode) = &params.permission_mode
        && !MODES.contains(&mode.as_str())
    {
        return bad("permissionMode", format!("{mode:?} is no permission mode: {} are", MODES.join(", ")));
    }
    for (name, value) in params.env.iter().flatten() {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return bad("env", format!("{name:?} is no variable name, or its value has a NUL byte"));
        }
        if name.starts_with("CCAGENT_") {
            return bad("env", format!("{name} is set by the daemon"));
        }
    }
    if params.env.as_ref().is_some_and(|env| env.len() > NAMES_MOST) {
        return bad("env", format!("an agent gets at most {NAMES_MOST} variables"));
    }
    if params.labels.as_ref().is_some_and(|labels| labels.len() > LABELS_MOST) {
        return bad("labels", format!("a task has at most {LABELS_MOST} labels"));
    }
    let texts = [
        ("prompt", params.prompt.as_ref(), PROMPT_MOST),
        ("cwd", params.cwd.as_ref(), PATH_MOST),
        ("model", params.model.as_ref(), TEXT_MOST),
        ("subagentType", params.subagent_type.as_ref(), TEXT_MOST),
    ];
    let given = texts.into_iter().filter_map(|(path, text, most)| Some((path, text?, most)));
    let labels = params.labels.iter().flatten().flat_map(|(key, value)| [key, value]);
    let names = params.env.iter().flat_map(|env| env.keys());
    let all = given
        .chain(labels.map(|text| ("labels", text, TEXT_MOST)))
        .chain(names.map(|name| ("env", name, TEXT_MOST)));
    for (path, text, most) in all {
        if text.len() > most || text.contains('\0') {
            return bad(path, format!("a text of {path} has at most {most} bytes and no NUL byte"));
        }
    }
    Ok(())
}

/// Params of the contract that need a model, a worktree or another machine.
pub(super) fn refuse_unbuilt(params: &AgentSpawnParams) -> Result<(), Error> {
    if let Some(isolation) = params.isolation.as_deref().filter(|word| *word != "none") {
        return match isolation {
            "worktree" | "remote" | "container" => Err(unbuilt("isolation").with("value", isolation)),
            _ => Err(Error::new(Kind::InvalidParams, "isolation is none, worktree or remote")
                .with("path", "isolation")),
        };
    }
    if let Some(kind) = params.runner.filter(|kind| *kind != RunnerKind::Process) {
        return Err(Error::new(
            Kind::RunnerUnavailable,
            "only the runner process is available in this version",
        )
        .with("runner", serde_json::to_value(kind).unwrap_or_default()));
    }
    let wanted = [
        ("writeScopes", params.write_scopes.is_some()),
        ("profile", params.profile.is_some()),
        ("overrides", params.overrides.is_some()),
        ("share", params.share.is_some()),
        ("criticalReminder", params.critical_reminder.is_some()),
        ("systemPrompt", params.system_prompt.is_some()),
        ("maxTurns", params.max_turns.is_some()),
        ("maxTokens", params.max_tokens.is_some()),
        ("maxUsd", params.max_usd.is_some()),
        ("planModeRequired", params.plan_mode_required == Some(true)),
    ];
    wanted.into_iter().find(|(_, wanted)| *wanted).map_or(Ok(()), |(name, _)| Err(unbuilt(name)))
}
