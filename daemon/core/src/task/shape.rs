//! The shapes of a spawn's params that the wire types leave open, and what this build has nothing behind.

use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::runner::RunnerKind;
use ccagent_proto::{Error, Kind};

use super::unbuilt;

/// The permission modes of the contract.
const MODES: &[&str] = &["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions", "bubble"];

/// Refuses a spawn that brings no work: neither a program nor a prompt.
pub(super) fn has_work(params: &AgentSpawnParams) -> Result<(), Error> {
    let bad = |path: &str, why: &str| Err(Error::new(Kind::InvalidParams, why).with("path", path));
    match (&params.command, params.prompt.as_deref().map(str::trim)) {
        (None, Some("")) => bad("prompt", "the prompt says nothing"),
        (Some(_), _) | (None, Some(_)) => Ok(()),
        (None, None) => bad(
            "command",
            "give command, a program and its arguments, or prompt, the work for an agent with a model",
        ),
    }
}

/// The program and its arguments; none for an agent inside the daemon.
pub(super) fn command_of(params: &AgentSpawnParams) -> Result<Vec<String>, Error> {
    let argv = params.command.clone();
    if argv.as_ref().is_some_and(|argv| argv.first().is_none_or(String::is_empty)) {
        let why = "command needs a program as its first entry";
        return Err(Error::new(Kind::InvalidParams, why).with("path", "command"));
    }
    Ok(argv.unwrap_or_default())
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
    let own = if params.command.is_some() { RunnerKind::Process } else { RunnerKind::Llm };
    if let Some(kind) = params.runner.filter(|kind| *kind != own) {
        let why = match kind {
            RunnerKind::Process => "the runner process needs command",
            RunnerKind::Llm => "the runner llm takes a prompt and no command",
            RunnerKind::Acp | RunnerKind::Tmux | RunnerKind::Iterm2 | RunnerKind::Remote => {
                "only the runners process and llm are available in this version"
            }
        };
        return Err(Error::new(Kind::RunnerUnavailable, why)
            .with("runner", serde_json::to_value(kind).unwrap_or_default()));
    }
    let of_model = [
        ("criticalReminder", params.critical_reminder.is_some()),
        ("systemPrompt", params.system_prompt.is_some()),
        ("overrides", params.overrides.is_some()),
        ("profile", params.profile.is_some()),
        ("maxTurns", params.max_turns.is_some()),
        ("maxToolCalls", params.max_tool_calls.is_some()),
        ("maxTokens", params.max_tokens.is_some()),
        ("maxUsd", params.max_usd.is_some()),
    ];
    if let Some((name, _)) = of_model.into_iter().find(|(_, given)| *given && own == RunnerKind::Process) {
        return Err(Error::new(
            Kind::InvalidParams,
            format!("{name} is for agents with a model: leave it out"),
        )
        .with("path", name));
    }
    let wanted = [
        ("writeScopes", params.write_scopes.is_some()),
        ("share", params.share.is_some()),
        ("planModeRequired", params.plan_mode_required == Some(true)),
    ];
    wanted.into_iter().find(|(_, wanted)| *wanted).map_or(Ok(()), |(name, _)| Err(unbuilt(name)))
}
