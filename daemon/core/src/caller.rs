//! Who makes a call. Known from the connection, never from params.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccagent_proto::{SessionId, TaskId};

use crate::task::Brief;

/// The identity of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// A process of our uid outside every shim: a person's client.
    Operator,
    /// A process under a shim that we started, or one with that agent's token.
    Agent(TaskId),
    /// A process that joined a team.
    Member {
        /// The team.
        team: Arc<str>,
        /// Its name there.
        name: Arc<str>,
    },
}

/// A call's origin.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The connection.
    pub conn: u64,
    /// Its identity.
    pub who: Who,
    /// The task of whose tree its process is, whoever it showed itself to be since.
    pub born: Option<TaskId>,
    /// The session that it opened or named last.
    pub session: Option<SessionId>,
    /// The working directory of its process.
    pub cwd: Option<String>,
    /// PATH, HOME, LANG, TERM, USER, SHELL and TMPDIR of its process.
    pub base: Arc<BTreeMap<String, String>>,
    /// Where the edge keeps the environment values that came with this call.
    pub vault: Option<u64>,
    /// What the edge worked out about the agent that this call spawns inside the daemon.
    pub brief: Option<Arc<Brief>>,
    /// Archived tasks that it may see, as far as the edge found out: whose they were is not in memory.
    pub past: Vec<TaskId>,
}

impl Caller {
    /// The operator on a connection, with nothing known of its process.
    pub fn operator(conn: u64) -> Self {
        Self {
            conn,
            who: Who::Operator,
            born: None,
            session: None,
            cwd: None,
            base: Arc::default(),
            vault: None,
            brief: None,
            past: Vec::new(),
        }
    }
}
