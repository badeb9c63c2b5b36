//! Asks at the edge: following them, and the rule in a file that an answer for always leaves.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ccagent_core::ask::What;
use ccagent_core::{Caller, bounds};
use ccagent_llm::permission::{Behavior, Change, SettingsError, change};
use ccagent_proto::ask::{Ask, AskBehavior, AskRespondParams, AskScope, AskSubscribeParams};
use ccagent_proto::event::{EventItem, EventSubscribeParams, Marker, Topic};
use ccagent_proto::method::{AskRespond, TaskGet};
use ccagent_proto::task::TaskGetParams;
use ccagent_proto::{AskId, Error, Kind};
use futures_util::stream::{BoxStream, StreamExt};

use super::connection::Origin;
use super::context::Context;
use crate::hub::EventStream;

/// Answers an ask. A rule for always is written first, so that who answers hears of it where it can't be.
pub(crate) async fn respond(
    context: Arc<Context>,
    origin: Origin,
    params: AskRespondParams,
) -> Result<Ask, Error> {
    let caller = origin.connection.caller();
    let always = params.behavior == AskBehavior::Allow && params.scope == Some(AskScope::Always);
    let mut written = Vec::new();
    let mut place = PathBuf::new();
    if always {
        let (caller, params) = (caller.clone(), params.clone());
        let row = context.handle.ask(move |core, _| core.answerable(&caller, &params).cloned()).await??;
        if let What::Permission { root, rules, .. } = row.what {
            place = PathBuf::from(&*root);
            let root = place.clone();
            written =
                Context::blocking(move || write(&root, &rules).map_err(|error| refused(&error))).await?;
        }
    }
    let answered = context.call::<AskRespond>(&caller, params).await;
    if answered.is_err() && !written.is_empty() {
        // Somebody else answered meanwhile.
        Context::blocking(move || {
            take_out(&place, &written);
            Ok(())
        })
        .await?;
    }
    answered
}

/// Writes rules into the file of a repository that is its user's own; gives those that were not there.
fn write(root: &Path, rules: &[Box<str>]) -> Result<Vec<Box<str>>, SettingsError> {
    let mut written = Vec::new();
    for rule in rules {
        match change(&file(root), root, Behavior::Allow, rule, Change::Add) {
            Ok(true) => written.push(rule.clone()),
            Ok(false) => {}
            Err(error) => {
                take_out(root, &written);
                return Err(error);
            }
        }
    }
    Ok(written)
}

fn take_out(root: &Path, rules: &[Box<str>]) {
    for rule in rules {
        if let Err(error) = change(&file(root), root, Behavior::Allow, rule, Change::Remove) {
            // Nobody granted it: it does not count here.
            tracing::warn!(%error, "a rule that was not granted stays in a settings file");
        }
    }
}

fn file(root: &Path) -> PathBuf {
    root.join(".claude/settings.local.json")
}

fn refused(error: &SettingsError) -> Error {
    Error::new(Kind::BadConfig, format!("the rule can't be written: {error}; the ask still waits"))
}

/// Follows asks.
pub(crate) async fn subscribe(
    context: Arc<Context>,
    origin: Origin,
    params: AskSubscribeParams,
) -> Result<BoxStream<'static, Ask>, Error> {
    let caller = origin.connection.caller();
    bounds::in_session(params.session_id.as_ref())?;
    if let Some(id) = params.task_id {
        context.call::<TaskGet>(&caller, TaskGetParams { task_id: id.to_string() }).await?;
    }
    let wanted = EventSubscribeParams { topics: Some(vec![Topic::Ask]), ..EventSubscribeParams::default() };
    let events = context.handle.subscribe(caller.clone(), wanted).await?;
    let reader = Reader { context, caller, params, events, waiting: VecDeque::new() };
    let asks = futures_util::stream::unfold(reader, |mut reader| async move {
        let ask = reader.next().await?;
        Some((ask, reader))
    });
    Ok(asks.boxed())
}

/// A subscriber: what happened tells it which asks to look at.
struct Reader {
    context: Arc<Context>,
    caller: Caller,
    params: AskSubscribeParams,
    events: EventStream,
    waiting: VecDeque<AskId>,
}

impl Reader {
    async fn next(&mut self) -> Option<Ask> {
        loop {
            while let Some(id) = self.waiting.pop_front() {
                let (caller, params) = (self.caller.clone(), self.params.clone());
                let found = move |core: &ccagent_core::Core, _| core.followed_ask(&caller, id, &params);
                if let Some(ask) = self.context.handle.ask(found).await.ok()? {
                    return Some(ask);
                }
            }
            match self.events.next().await? {
                EventItem::Marker(Marker::Snapshot { asks, .. }) => {
                    self.waiting.extend(asks.iter().map(|ask| ask.id));
                }
                EventItem::Marker(Marker::Lagged { .. }) => return None,
                EventItem::Event(event) => {
                    let id = event.data.get("askId").and_then(|id| id.as_str());
                    self.waiting.extend(id.and_then(|id| id.parse::<AskId>().ok()));
                }
            }
        }
    }
}
