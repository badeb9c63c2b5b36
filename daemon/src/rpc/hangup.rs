//! Noticing that the other end of a socket is gone, where its half that we read from ended long before.
//!
//! A client may close its writing half and go on reading, as `socat` does: that is no reason to drop its calls. Only
//! a hang-up of both halves is.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;

use tokio::io::Interest;
use tokio::net::UnixStream;

/// Watches a socket for its hang-up.
#[derive(Debug)]
pub(crate) struct Hangup {
    socket: OwnedFd,
}

impl Hangup {
    /// A watch for this socket, with a descriptor of its own.
    pub(crate) fn of(socket: impl AsFd) -> io::Result<Self> {
        Ok(Self { socket: socket.as_fd().try_clone_to_owned()? })
    }

    /// Waits until both halves are closed, or for ever where that can't be watched.
    pub(crate) async fn happened(self) {
        // A registration of its own: clearing its readiness takes nothing away from the writer.
        let Ok(watch) = UnixStream::from_std(StdStream::from(self.socket)) else {
            return std::future::pending().await;
        };
        loop {
            match watch.ready(Interest::WRITABLE).await {
                Ok(ready) if !ready.is_write_closed() => {
                    // There is always room to write, and that says nothing: wait for the next change.
                    let forget = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
                    drop(watch.try_io(Interest::WRITABLE, forget));
                }
                Ok(_) | Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// K137: half a close is no hang-up, a whole one is.
    #[tokio::test]
    async fn only_a_whole_close_is_a_hangup() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut happened = Box::pin(Hangup::of(&ours).unwrap().happened());
        theirs.shutdown().await.unwrap();
        ours.readable().await.unwrap();
        assert!(futures_util::poll!(&mut happened).is_pending());
        drop(theirs);
        happened.await;
    }
}
