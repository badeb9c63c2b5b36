//! Sessions and teams at the edge: what a connection becomes by opening, joining or leaving one.

use std::sync::Arc;

use ccagent_core::{Who, bounds};
use ccagent_proto::method::{SessionOpen, TeamJoin, TeamLeave};
use ccagent_proto::session::{SessionOpenParams, SessionOpenResult};
use ccagent_proto::team::{TeamJoinParams, TeamJoinResult};
use ccagent_proto::{Empty, Error};

use super::connection::Origin;
use super::context::Context;
use crate::llm::{brief, lead};

/// Opens a session, which this connection means from now on.
pub(crate) async fn open(
    context: Arc<Context>,
    origin: Origin,
    mut params: SessionOpenParams,
) -> Result<SessionOpenResult, Error> {
    bounds::session(&params)?;
    let caller = origin.connection.creator();
    let known = context.runner.known();
    let given = params.env.clone().unwrap_or_default();
    let by = brief::Caller::over_socket(&caller, given.clone());
    params = Context::blocking(move || lead::opened(params, &given, &by, &known)).await?;
    let caller = context.vault.keep(caller, params.env.as_mut())?;
    let opened = context.creating(&caller, Box::pin(context.call::<SessionOpen>(&caller, params))).await?;
    origin.connection.open_session(opened.session_id.clone());
    Ok(opened)
}

/// Makes this connection a member of a team.
pub(crate) async fn join(
    context: Arc<Context>,
    origin: Origin,
    params: TeamJoinParams,
) -> Result<TeamJoinResult, Error> {
    let team = params.team_name.as_str().into();
    let joined = context.call::<TeamJoin>(&origin.connection.creator(), params).await?;
    let name = joined.member.name.as_str().into();
    origin.connection.become_who(Who::Member { team, name });
    Ok(joined)
}

/// Ends this connection's membership.
pub(crate) async fn leave(context: Arc<Context>, origin: Origin, params: Empty) -> Result<Empty, Error> {
    let left = context.call::<TeamLeave>(&origin.connection.caller(), params).await?;
    origin.connection.become_born();
    Ok(left)
}
