//! The shapes of a spawn's params that the wire types leave open, and what this build has nothing behind.

use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::runner::RunnerKind;
use ccagent_proto::{Error, Kind};

use super::unbuilt;

/// The permission modes of the contract.
const MODES: &[&str] = &["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions", "bubble"];

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
    Ok(argv)
}

/// A permission mode is one of the contract's.
pub(crate) fn check_mode(mode: Option<&str>) -> Result<(), Error> {
    match mode.filter(|mode| !MODES.contains(mode)) {
        None => Ok(()),
        Some(mode) => {
            let why = format!("{mode:?} is no permission mode: {} are", MODES.join(", "));
            Err(Error::new(Kind::InvalidParams, why).with("path", "permissionMode"))
        }
    }
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
