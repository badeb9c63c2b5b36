//! Events at the edge: following and replaying them. What of them a caller may hear of, the core says event by event.

use std::sync::Arc;

use ccagent_core::{Caller, Who, bounds};
use ccagent_proto::Error;
use ccagent_proto::event::{
    EventFilter, EventItem, EventReplayParams, EventReplayResult, EventSubscribeParams,
};
use ccagent_proto::method::TaskGet;
use ccagent_proto::task::TaskGetParams;
use futures_util::stream::{BoxStream, StreamExt};

use super::connection::Origin;
use super::context::Context;

/// Follows events.
pub(crate) async fn subscribe(
    context: Arc<Context>,
    origin: Origin,
    params: EventSubscribeParams,
) -> Result<BoxStream<'static, EventItem>, Error> {
    let caller = origin.connection.caller();
    bounds::subscription(&params)?;
    if let Some(filter) = params.filter.as_ref().filter(|_| caller.who != Who::Operator) {
        may_name(&context, &caller, filter).await?;
    }
    let events = context.handle.subscribe(caller, params).await?;
    let items = futures_util::stream::unfold(events, |mut events| async move {
        let item = events.next().await?;
        Some((item, events))
    });
    Ok(items.boxed())
}

/// Refuses a filter that asks for what the caller may not see: else it would wait for ever for what never comes.
async fn may_name(context: &Context, caller: &Caller, filter: &EventFilter) -> Result<(), Error> {
    if let Some(id) = filter.task_id {
        context.call::<TaskGet>(caller, TaskGetParams { task_id: id.to_string() }).await?;
    }
    if let Some(team) = filter.team_name.clone() {
        let caller = caller.clone();
        context.handle.ask(move |core, _| core.may_see_team(&caller, &team)).await??;
    }
    Ok(())
}

/// Gives past events again.
pub(crate) async fn replay(
    context: Arc<Context>,
    origin: Origin,
    params: EventReplayParams,
) -> Result<EventReplayResult, Error> {
    context.handle.replay(origin.connection.caller(), params).await
}
