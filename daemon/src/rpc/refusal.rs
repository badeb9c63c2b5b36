//! Telling a connection why it is not served, so that it can hear it.
//!
//! A socket that is closed with bytes unread is reset, and its client finds an error of the system instead of the
//! line that was written. So after the line only our half is closed, and what the client still sends is read for a
//! moment and thrown away. Beyond a number of such moments at once, a line is tried and the socket closed.

use std::sync::Arc;
use std::time::Duration;

use ccagent_proto::Error;
use jsonrpsee::types::Id;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::ndjson;
use super::service::failure;

/// How long a refused client may take to hear it.
const MOMENT: Duration = Duration::from_secs(1);
/// So many bytes of a refused client are read and thrown away.
const DRAINED: u64 = 64 << 10;
/// Refused clients that are waited for at once.
const AT_ONCE: usize = 64;

/// Refuses connections.
#[derive(Debug)]
pub(crate) struct Refusals {
    moments: Arc<Semaphore>,
    stop: CancellationToken,
    tracker: TaskTracker,
}

impl Refusals {
    /// Refusals that live in the tracker and end with the token.
    pub(crate) fn new(stop: CancellationToken, tracker: TaskTracker) -> Self {
        Self { moments: Arc::new(Semaphore::new(AT_ONCE)), stop, tracker }
    }

    /// Says why, as a line, and closes the connection.
    pub(crate) fn refuse(&self, socket: UnixStream, error: &Error) {
        let mut line = Vec::new();
        ndjson::write(failure(Id::Null, error).get(), &mut line);
        let Ok(moment) = Arc::clone(&self.moments).try_acquire_owned() else {
            drop(socket.try_write(&line));
            return;
        };
        let stop = self.stop.clone();
        self.tracker.spawn(async move {
            let _moment = moment;
            let heard = tokio::select! {
                heard = tokio::time::timeout(MOMENT, tell(socket, &line)) => heard,
                () = stop.cancelled() => return,
            };
            if let Ok(Err(error)) = heard {
                tracing::debug!(%error, "a refusal was not heard");
            }
        });
    }
}

async fn tell(mut socket: UnixStream, line: &[u8]) -> std::io::Result<()> {
    socket.write_all(line).await?;
    socket.shutdown().await?;
    tokio::io::copy(&mut socket.take(DRAINED), &mut tokio::io::sink()).await.map(drop)
}
