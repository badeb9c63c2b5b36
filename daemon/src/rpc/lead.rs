//! A session's lead at the edge: what it is when it is first prompted, the end of its turn, its conversation, its model.

use std::path::Path;
use std::sync::Arc;

use ccagent_core::session::Row;
use ccagent_core::session::lead::{Lead, Texts};
use ccagent_core::{Caller, bounds};
use ccagent_proto::method::{SessionInterrupt, SessionPrompt, SessionSetModel};
use ccagent_proto::session::{
    SessionInterruptParams, SessionInterruptResult, SessionMessagesParams, SessionPromptParams,
    SessionPromptResult, SessionSetParams,
};
use ccagent_proto::task::TaskTranscriptResult;
use ccagent_proto::{Empty, Error, Kind, SessionId, TaskId};

use super::connection::Origin;
use super::context::Context;
use super::stop::CONFIRM;
use super::wait::{Look, Patience, Waited, until};
use super::{rows, transcript};
use crate::hub::Key;
use crate::llm::brief;
use crate::llm::lead::{self, Within};

/// Begins a turn of a session's lead.
pub(crate) async fn prompt(
    context: Arc<Context>,
    origin: Origin,
    mut params: SessionPromptParams,
) -> Result<SessionPromptResult, Error> {
    bounds::prompt(&params)?;
    let caller = origin.connection.creator();
    let lead = look(&context, &caller, params.session_id.clone()).await?;
    let caller = context.vault.keep(caller, params.env.as_mut())?;
    let call = async {
        let mut caller = caller.clone();
        if lead.directory.is_none() {
            caller.brief = Some(worked(&context, &caller, &lead).await?);
        }
        context.call::<SessionPrompt>(&caller, params).await
    };
    context.creating(&caller, Box::pin(call)).await
}

/// What a lead is that was not prompted before.
async fn worked(
    context: &Context,
    caller: &Caller,
    lead: &Lead,
) -> Result<Arc<ccagent_core::task::Brief>, Error> {
    let keys: Vec<u64> = lead.vaults.iter().copied().chain(caller.vault).collect();
    let within = Within { leads: true, ..within(context, &lead.session).await? };
    let over = brief::Caller::over_socket(caller, context.vault.get(&keys));
    let by = brief::Caller { cwd: lead.cwd.clone(), within, ..over };
    let (session, known) = (lead.session.clone(), context.runner.known());
    let worked = Context::blocking(move || lead::of(&session, &by, &known)).await?;
    Ok(Arc::new(worked.brief))
}

/// A session, as far as its agents depend on it.
pub(super) async fn within(context: &Context, session: &Row) -> Result<Within, Error> {
    let texts = if session.texts { context.handle.texts(&session.id).await? } else { Texts::default() };
    Ok(Within::of(session, texts))
}

async fn look(context: &Context, caller: &Caller, session: Option<SessionId>) -> Result<Lead, Error> {
    let caller = caller.clone();
    context.handle.ask(move |core, _| core.lead(&caller, session.as_ref())).await?
}

/// Ends the turn of a session's lead, and waits until it has ended.
pub(crate) async fn interrupt(
    context: Arc<Context>,
    origin: Origin,
    params: SessionInterruptParams,
) -> Result<SessionInterruptResult, Error> {
    let caller = origin.connection.caller();
    let marked = context.call::<SessionInterrupt>(&caller, params).await?;
    let Some(id) = marked.task_id else { return Ok(marked) };
    let patience = Patience::new(&origin, Some(CONFIRM));
    let ended = until(&context.hub, [Key::Task(id)], &patience, async || {
        Ok(if is_over(&context, id).await? { Look::There(()) } else { Look::NotYet(()) })
    });
    match ended.await? {
        Waited::There(()) => Ok(marked),
        Waited::TimedOut(()) => {
            let why = "the turn did not end in time";
            Err(Error::new(Kind::StopTimeout, why).with("taskId", id.to_string()))
        }
    }
}

/// Whether nothing of a task runs, or a later run does.
async fn is_over(context: &Context, id: TaskId) -> Result<bool, Error> {
    context.handle.ask(move |core, _| !core.is_ending(id)).await
}

/// Reads a page of the conversation with a session's lead; before its first prompt, an empty one.
pub(crate) async fn messages(
    context: Arc<Context>,
    origin: Origin,
    params: SessionMessagesParams,
) -> Result<TaskTranscriptResult, Error> {
    bounds::messages(&params)?;
    let lead = look(&context, &origin.connection.caller(), params.session_id).await?;
    let Some(directory) = lead.directory else { return Ok(TaskTranscriptResult::default()) };
    let path = Path::new(&directory).join(transcript::FILE);
    let page = Context::blocking(move || rows::read(&path, params.cursor.as_deref(), params.limit)).await?;
    Ok(transcript::entries(page))
}

/// Sets the model of a session's lead, once it is known that it can be asked.
pub(crate) async fn set_model(
    context: Arc<Context>,
    origin: Origin,
    mut params: SessionSetParams,
) -> Result<Empty, Error> {
    bounds::setting(&params)?;
    let caller = origin.connection.creator();
    let lead = look(&context, &caller, params.session_id.clone()).await?;
    let env = brief::Caller::over_socket(&caller, context.vault.get(&lead.vaults)).env;
    match lead::may_be(&params.value, &env, &context.runner.known()) {
        Ok(model) => params.value = model,
        // Its key may come with the first prompt.
        Err(error) if error.kind == Kind::Authentication && lead.directory.is_none() => {}
        Err(error) => return Err(error.with("path", "value")),
    }
    context.call::<SessionSetModel>(&caller, params).await
}
