//! What the methods of the edge share: the way to the core, the hub, the runners, and facts of the daemon.

use std::sync::Arc;

use ccagent_core::Caller;
use ccagent_proto::method::Call;
use ccagent_proto::{Error, Kind, Millis};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::daemon::Daemon;
use crate::driver::Handle;
use crate::hub::Hub;
use crate::runner::Runner;
use crate::vault::Vault;

/// Times of the config that waiting needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Time between TERM and KILL.
    pub grace_ms: Millis,
    /// How long stop-all waits.
    pub stop_all_ms: Millis,
}

/// What the methods share.
#[derive(Debug)]
pub struct Context {
    /// The way to the core.
    pub handle: Handle,
    /// Where changes are told.
    pub hub: Hub,
    /// Process agents.
    pub runner: Runner,
    /// Environment values, in memory only.
    pub vault: Arc<Vault>,
    /// Times of the config.
    pub times: Times,
    /// The daemon itself.
    pub daemon: Daemon,
    /// Where work that outlives a connection lives.
    pub tracker: TaskTracker,
    /// Cancelled once the daemon is to end: nothing is created any more.
    pub closing: CancellationToken,
}

impl Context {
    /// Calls the core.
    pub(crate) async fn call<M: Call>(&self, caller: &Caller, params: M::Params) -> Result<M::Result, Error> {
        self.handle.call::<M>(caller.clone(), params).await
    }

    /// Awaits a call that creates, unless the daemon is to end; where it is refused, the values that came with it are
    /// forgotten. A call that created is never an error: whatever could not be read for its answer is left out.
    pub(crate) async fn creating<T>(
        &self,
        caller: &Caller,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let answer = if self.closing.is_cancelled() {
            Err(Error::new(Kind::ShuttingDown, "the daemon is stopping"))
        } else {
            call.await
        };
        if let (Err(_), Some(vault)) = (&answer, caller.vault) {
            self.vault.forget(vault);
        }
        answer
    }

    /// Runs what blocks on files away from the runtime's own threads.
    pub(crate) async fn blocking<T: Send + 'static>(
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let failed = |_| Error::new(Kind::Internal, "reading a file failed half-way");
        tokio::task::spawn_blocking(work).await.map_err(failed)?
    }
}
