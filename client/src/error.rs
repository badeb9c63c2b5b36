//! What a client can meet: the daemon's own errors with their code and kind, and everything that keeps one from
//! talking to it.

use std::io;
use std::path::PathBuf;

use ccagent_proto::Kind;
use jsonrpsee::core::client::Error as Jsonrpsee;
use jsonrpsee::types::ErrorObjectOwned;
use serde_json::{Map, Value};
use thiserror::Error;

/// An error that the daemon answered.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    /// The JSON-RPC code.
    pub code: i32,
    /// What went wrong; `None` for a kind that is newer than this client.
    pub kind: Option<Kind>,
    /// A sentence for a person.
    pub message: String,
    /// `kind`, `retryable` and typed detail.
    pub data: Map<String, Value>,
}

impl RpcError {
    /// A text of the detail.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.data.get(key).and_then(Value::as_str)
    }
}

/// Why a call, a subscription or a connection failed.
#[derive(Debug, Error)]
pub enum Error {
    /// The daemon's answer is an error.
    #[error("{}", .0.message)]
    Rpc(Box<RpcError>),
    /// Nobody listens on the socket.
    #[error("no daemon is running at {}", socket.display())]
    NotRunning {
        /// The socket.
        socket: PathBuf,
    },
    /// The socket can't be used.
    #[error("the daemon can't be reached at {}", socket.display())]
    Unreachable {
        /// The socket.
        socket: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Too many connections wait for the daemon to take them.
    #[error("the daemon takes no connection at {}: too many waited there for {}", socket.display(), humantime::format_duration(*waited))]
    Full {
        /// The socket.
        socket: PathBuf,
        /// How long it was waited for.
        waited: std::time::Duration,
    },
    /// The connection ended before the answer came.
    #[error("the daemon closed the connection")]
    Closed,
    /// The daemon took the connection and does not answer: it is stopped, or hangs.
    #[error("the daemon does not answer: it said nothing within {}", humantime::format_duration(*waited))]
    Silent {
        /// How long it was waited for.
        waited: std::time::Duration,
    },
    /// The daemon ended, and no other came in time.
    #[error("the daemon went away and did not come back within {}; agents go on without it", humantime::format_duration(*waited))]
    Gone {
        /// How long it was waited for.
        waited: std::time::Duration,
    },
    /// A daemon was started and did not come up.
    #[error("the daemon did not start: {reason}")]
    Start {
        /// Why not, and where to read more.
        reason: String,
    },
    /// No place for the socket or the state can be told.
    #[error("{0}")]
    Place(String),
    /// An answer of a shape that this client doesn't know.
    #[error("the daemon answered something else than expected: {0}")]
    Unexpected(String),
}

impl Error {
    /// What the daemon answered.
    pub(crate) fn answered(object: &ErrorObjectOwned) -> Self {
        let data = object.data().map(serde_json::value::RawValue::get);
        Self::Rpc(Box::new(RpcError::answered(object.code(), object.message(), data)))
    }

    /// The daemon's error, where it is one.
    pub fn rpc(&self) -> Option<&RpcError> {
        if let Self::Rpc(error) = self { Some(error) } else { None }
    }

    /// The kind of the daemon's error, where it is one that this client knows.
    pub fn kind(&self) -> Option<Kind> {
        self.rpc().and_then(|error| error.kind)
    }
}

/// The kind by its wire name, else by a code that only one kind has.
fn kind_of(code: i32, data: &Map<String, Value>) -> Option<Kind> {
    let named = data.get("kind").and_then(Value::as_str);
    Kind::ALL
        .iter()
        .copied()
        .find(|kind| Some(kind.name()) == named)
        .or_else(|| Kind::ALL.iter().copied().find(|kind| kind.code() == code))
}

impl RpcError {
    /// The error with `error.data` as it came.
    fn answered(code: i32, message: &str, data: Option<&str>) -> Self {
        let data = data.and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default();
        Self { code, kind: kind_of(code, &data), message: message.to_owned(), data }
    }
}

impl From<Jsonrpsee> for Error {
    fn from(error: Jsonrpsee) -> Self {
        match error {
            Jsonrpsee::Call(object) => Self::answered(&object),
            Jsonrpsee::Transport(_) | Jsonrpsee::RestartNeeded(_) | Jsonrpsee::ServiceDisconnect => {
                Self::Closed
            }
            other => Self::Unexpected(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The name decides where one code has two kinds; an unknown name falls back on the code.
    #[test]
    fn an_answered_error_keeps_code_kind_and_detail() {
        let answered = |code, data: Value| RpcError::answered(code, "no", Some(&data.to_string()));
        let conflict = answered(-32602, json!({ "kind": "idempotencyConflict", "retryable": false }));
        assert_eq!(conflict.kind, Some(Kind::IdempotencyConflict));
        let missing = answered(1101, json!({ "kind": "newerName", "matches": ["agent_1"] }));
        assert_eq!(missing.kind, Some(Kind::TaskNotFound));
        assert_eq!(missing.data["matches"], json!(["agent_1"]));
        assert_eq!(answered(9999, json!({})).kind, None);
        assert_eq!(RpcError::answered(-32601, "no", None).kind, Some(Kind::MethodNotFound));
    }
}
