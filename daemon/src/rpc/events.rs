//! Events at the edge: following and replaying them, within what the caller may see.

use std::sync::Arc;

use ccagent_core::{Caller, Who};
use ccagent_proto::event::{
    EventFilter, EventItem, EventReplayParams, EventReplayResult, EventSubscribeParams,
};
use ccagent_proto::method::TaskGet;
use ccagent_proto::task::TaskGetParams;
use ccagent_proto::{Error, Kind};
use futures_util::stream::{BoxStream, StreamExt};

use super::connection::Origin;
use super::context::Context;
use super::daemon::needs_operator;

/// Follows events.
pub(crate) async fn subscribe(
    context: Arc<Context>,
    origin: Origin,
    mut params: EventSubscribeParams,
) -> Result<BoxStream<'static, EventItem>, Error> {
    let caller = origin.connection.caller();
    params.filter = narrowed(&context, &caller, params.filter).await?;
    let events = context.handle.subscribe(caller, params).await?;
    let items = futures_util::stream::unfold(events, |mut events| async move {
        let item = events.next().await?;
        Some((item, events))
    });
    Ok(items.boxed())
}

/// The filter inside what the caller may see: a member sees its team, an agent one task of its tree, by default
/// itself.
async fn narrowed(
    context: &Context,
    caller: &Caller,
    filter: Option<EventFilter>,
) -> Result<Option<EventFilter>, Error> {
    match &caller.who {
        Who::Operator => Ok(filter),
        Who::Member { team, .. } => {
            let filter = filter.unwrap_or_default();
            if filter.team_name.as_deref().is_some_and(|named| *named != **team) {
                return Err(refusal("the events of another team"));
            }
            Ok(Some(EventFilter { team_name: Some(team.to_string()), ..filter }))
        }
        Who::Agent(own) => {
            let filter = filter.unwrap_or_default();
            let id = filter.task_id.unwrap_or(*own);
            context.call::<TaskGet>(caller, TaskGetParams { task_id: id.to_string() }).await?;
            Ok(Some(EventFilter { task_id: Some(id), ..filter }))
        }
    }
}

fn refusal(what: &str) -> Error {
    Error::new(Kind::NotAuthorised, format!("{what} are not for this caller")).with("needs", "operator")
}

/// Gives past events again.
pub(crate) async fn replay(
    context: Arc<Context>,
    origin: Origin,
    params: EventReplayParams,
) -> Result<EventReplayResult, Error> {
    needs_operator(&origin.connection.caller())?;
    context.handle.replay(&params)
}
