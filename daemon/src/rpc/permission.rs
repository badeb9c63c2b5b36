//! What would become of a tool call, and the rules that hold in a place. Nothing is called, nobody is asked, and no file
//! is changed; adding and taking out rules is [`rule`]'s.

pub(crate) mod rule;

use std::path::PathBuf;
use std::sync::Arc;

use ccagent_core::bounds;
use ccagent_llm::flags::Flags;
use ccagent_llm::permission::{Behavior, Decision, Mode, Source};
use ccagent_proto::method::SessionGet;
use ccagent_proto::permission::{
    PermissionBehavior, PermissionCheckParams, PermissionCheckResult, PermissionRule, PermissionRulesParams,
    PermissionRulesResult,
};
use ccagent_proto::session::SessionGetParams;
use ccagent_proto::{Error, Kind, SessionId};
use serde_json::Value;

use super::connection::Origin;
use super::context::Context;
use super::{definition, task};
use crate::llm::fork;
use crate::llm::judge::Judge;
use crate::llm::lead::Within;

/// Where a call would be, and in whose name.
struct Place {
    mode: String,
    home: Option<String>,
    cwd: PathBuf,
    session: SessionId,
    /// What agents inside the daemon are made with, and its session, where it is one of them.
    agent: Option<(Flags, Within)>,
}

/// Says what would become of a tool call.
pub(crate) async fn check(
    context: Arc<Context>,
    origin: Origin,
    params: PermissionCheckParams,
) -> Result<PermissionCheckResult, Error> {
    bounds::permission_check(&params)?;
    if let Some(mode) = &params.mode {
        let known = serde_json::from_value::<Mode>(mode.as_str().into());
        known.map_err(|why| Error::new(Kind::InvalidParams, why.to_string()).with("path", "mode"))?;
    }
    let Place { mode, home, cwd, session, agent } = place(&context, &origin, &params).await?;
    let (tool, input) = (params.tool_name, Value::Object(params.input.unwrap_or_default()));
    let judge = judge(&context, session, (mode, home, cwd.clone())).await?;
    let decided = Context::blocking(move || {
        let judge = match agent {
            Some((flags, within)) => judge.of_agent(flags, &within),
            None => judge,
        };
        judge.decide(&tool, &input, &cwd).ok_or_else(|| {
            let why = format!(
                "there is no tool {tool:?}: name one as an agent's pool has it, such as Read or Bash"
            );
            Error::new(Kind::InvalidParams, why).with("path", "toolName")
        })
    });
    let Decision { behavior, reason, rule, source } = decided.await?;
    let source = source.map_or("mode", Source::as_str).to_owned();
    Ok(PermissionCheckResult { decision: shown(behavior), rule, source, reason })
}

/// Gives the rules that hold in a place.
pub(crate) async fn rules(
    context: Arc<Context>,
    origin: Origin,
    params: PermissionRulesParams,
) -> Result<PermissionRulesResult, Error> {
    bounds::permission_rules(&params)?;
    let by = definition::caller(&origin);
    let session = session_of(&context, &origin, params.session_id.clone()).await?;
    let base = in_session(&context, &origin, params.session_id).await?;
    let cwd = by.directory(params.cwd.or(base).as_deref());
    let place = ("default".to_owned(), by.env.get("HOME").cloned(), cwd);
    let judge = judge(&context, session, place).await?;
    let rules = judge.rules().map(|placed| PermissionRule {
        rule: placed.rule.to_string(),
        behavior: shown(placed.rule.behavior()),
        source: placed.source.as_str().to_owned(),
    });
    Ok(PermissionRulesResult { rules: rules.collect() })
}

async fn place(context: &Context, origin: &Origin, params: &PermissionCheckParams) -> Result<Place, Error> {
    let by = definition::caller(origin);
    let own = by.env.get("HOME").cloned();
    let Some(id) = &params.task_id else {
        let base = in_session(context, origin, params.session_id.clone()).await?;
        let cwd = by.directory(params.cwd.as_deref().or(base.as_deref()));
        let mode = params.mode.clone().unwrap_or_else(|| "default".to_owned());
        let session = session_of(context, origin, params.session_id.clone()).await?;
        return Ok(Place { mode, home: own, cwd, session, agent: None });
    };
    let task = task::get(context, &origin.connection.caller(), id).await?;
    let launch = context.handle.launch(task.id).await?;
    let brief = launch.as_ref().and_then(|launch| launch.brief.clone());
    let home = launch.and_then(|launch| launch.base.get("HOME").cloned()).or(own);
    let own = PathBuf::from(&task.cwd);
    let cwd = params.cwd.as_ref().map_or_else(|| own.clone(), |named| own.join(named));
    let of = task.id;
    let setting = context.handle.ask(move |core, _| core.setting(of)).await?;
    let setting = setting.filter(|_| brief.is_some());
    let mode = setting.as_ref().map_or(task.permission_mode, |setting| setting.mode.clone());
    let agent = setting.map(|setting| (context.runner.known().flags, Within::around(&setting)));
    let mode = brief.map_or_else(|| mode.clone(), |brief| fork::mode(&brief, &mode).to_owned());
    Ok(Place { mode: params.mode.clone().unwrap_or(mode), home, cwd, session: task.session_id, agent })
}

/// Who decides in a place, by its rules and by what was granted there.
async fn judge(
    context: &Context,
    session: SessionId,
    (mode, home, cwd): (String, Option<String>, PathBuf),
) -> Result<Judge, Error> {
    let load = move || Ok(Judge::load(&mode, home.as_deref(), &cwd));
    let judge = Context::blocking(load).await?;
    let root = judge.root();
    let granted = context.handle.ask(move |core, _| core.granted(&session, &root)).await?;
    Context::blocking(move || Ok(judge.renewed(None, &granted))).await
}

/// The session that is named, else the caller's.
async fn session_of(
    context: &Context,
    origin: &Origin,
    named: Option<SessionId>,
) -> Result<SessionId, Error> {
    let caller = origin.connection.caller();
    context.handle.ask(move |core, _| core.session_of(&caller, named.as_ref())).await?
}

/// Where a session that is named works.
async fn in_session(
    context: &Context,
    origin: &Origin,
    named: Option<SessionId>,
) -> Result<Option<String>, Error> {
    let Some(session_id) = named else { return Ok(None) };
    let caller = origin.connection.caller();
    Ok(context.call::<SessionGet>(&caller, SessionGetParams { session_id }).await?.cwd)
}

const fn shown(behavior: Behavior) -> PermissionBehavior {
    match behavior {
        Behavior::Allow => PermissionBehavior::Allow,
        Behavior::Ask => PermissionBehavior::Ask,
        Behavior::Deny => PermissionBehavior::Deny,
    }
}
