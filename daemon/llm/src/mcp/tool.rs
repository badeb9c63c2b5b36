//! A server's tool as one of the agent's.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{Peer, RoleClient, ServiceError};
use serde_json::Value;

use super::bound::End;
use super::lines::UNREAD;
use super::text;
use crate::quote;
use crate::tool::{Access, Context, Outcome, Spec, Tool};

/// Characters of the line for the eye.
const SUMMARY: usize = 120;

/// A tool of a server.
#[derive(Debug)]
pub(super) struct Remote {
    pub(super) spec: Arc<Spec>,
    /// What its server calls it.
    pub(super) name: String,
    pub(super) server: Arc<str>,
    pub(super) timeout: Duration,
    pub(super) peer: Peer<RoleClient>,
    pub(super) end: Arc<End>,
}

impl Tool for Remote {
    fn spec(&self) -> Arc<Spec> {
        self.spec.clone()
    }

    /// What it does nobody here knows.
    fn access(&self, _: &Value) -> Access {
        Access::Runs
    }

    fn summary(&self, input: &Value) -> String {
        input.to_string().chars().take(SUMMARY).collect()
    }

    fn call<'a>(&'a self, context: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        async move {
            let Value::Object(arguments) = input else {
                return Outcome::error("bad input: an object is needed");
            };
            let params = CallToolRequestParams::new(self.name.clone()).with_arguments(arguments);
            tokio::select! {
                biased;
                () = context.stop.cancelled() => Outcome::error("The call was stopped with the agent."),
                // What is dropped here is cancelled at the server.
                asked = tokio::time::timeout(self.timeout, self.peer.call_tool(params)) => match asked {
                    Ok(Ok(result)) => Outcome {
                        is_error: result.is_error == Some(true),
                        ..Outcome::ok(quote::plain(&text::of(&result)))
                    },
                    Ok(Err(error)) => Outcome::error(quote::plain(&self.said(&error))),
                    Err(_) => Outcome::error(self.end.told(format!(
                        "The MCP server {} did not answer within {} ms, and was told to drop the call. It may have \
                         taken effect, or not: look before you repeat it.",
                        self.server,
                        self.timeout.as_millis()
                    ))),
                },
            }
        }
        .boxed()
    }
}

impl Remote {
    fn said(&self, error: &ServiceError) -> String {
        let server = &self.server;
        match (error, self.end.why()) {
            (ServiceError::McpError(error), _) if error.code == UNREAD => format!(
                "The MCP server {server} gave no result: {}. The call may have taken effect, or not: look before you \
                 repeat it.",
                error.message
            ),
            (ServiceError::McpError(error), _) => {
                format!("The MCP server {server} refused the call: {} ({})", error.message, error.code.0)
            }
            (ServiceError::TransportClosed | ServiceError::TransportSend(_), Some(why)) => format!(
                "The MCP server {server} was cut off: {why}. Its tools can't be used any more in this run. Whether this \
                 call took effect is not known."
            ),
            (ServiceError::TransportClosed | ServiceError::TransportSend(_), None) => self.end.told(format!(
                "The MCP server {server} has ended or can't be reached: its tools can't be used any more in this run. \
                 Whether this call took effect is not known."
            )),
            (other, _) => format!("The MCP server {server} gave no result: {other}"),
        }
    }
}
