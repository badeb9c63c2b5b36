//! One JSON text a line over the Unix socket, as a transport for jsonrpsee's client.

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use jsonrpsee::core::client::{ReceivedMessage, TransportReceiverT, TransportSenderT};
use jsonrpsee::types::ErrorObjectOwned;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio_util::codec::{FramedRead, FramedWrite, LinesCodec, LinesCodecError};

/// The longest line that is taken: a little more than the longest answer that a daemon gives.
const LONGEST_LINE: usize = 65 << 20;

/// How long a full queue of connections is tried, in all: a daemon that serves empties it at once.
pub(crate) const FULL: Duration = Duration::from_secs(2);
/// The first pause between two tries; each is twice as long as the one before.
const AGAIN: Duration = Duration::from_millis(10);

/// The half that writes.
#[derive(Debug)]
pub(crate) struct Sender(FramedWrite<OwnedWriteHalf, LinesCodec>);

/// The half that reads.
#[derive(Debug)]
pub(crate) struct Receiver {
    lines: FramedRead<OwnedReadHalf, LinesCodec>,
    refused: Refused,
}

/// Why the daemon does not serve the connection, or could not read what was sent, where it said so.
pub(crate) type Refused = Arc<OnceLock<ErrorObjectOwned>>;

/// Connects to a socket, and makes sure that the one behind it is our own user's: below `/tmp` another user could have
/// been there first.
pub(crate) async fn connect(path: &Path) -> io::Result<(Sender, Receiver, Refused)> {
    let stream = place_in_queue(path).await?;
    if stream.peer_cred()?.uid() == rustix::process::geteuid().as_raw() {
        Ok(halves(stream))
    } else {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is another user's"))
    }
}

/// Connects, once the queue of the socket has a place. Linux tells nobody when it has one.
async fn place_in_queue(path: &Path) -> io::Result<UnixStream> {
    let (mut pause, mut left) = (AGAIN, FULL);
    loop {
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !left.is_zero() => {
                tokio::time::sleep(pause.min(left)).await;
                left = left.saturating_sub(pause);
                pause *= 2;
            }
            connected => return connected,
        }
    }
}

/// Takes a connected stream.
pub(crate) fn halves(stream: UnixStream) -> (Sender, Receiver, Refused) {
    let (read, write) = stream.into_split();
    let codec = LinesCodec::new_with_max_length(LONGEST_LINE);
    let refused = Refused::default();
    let receiver = Receiver { lines: FramedRead::new(read, codec.clone()), refused: refused.clone() };
    (Sender(FramedWrite::new(write, codec)), receiver, refused)
}

/// An error that is the answer to no call that could be named.
fn refusal(line: &str) -> Option<ErrorObjectOwned> {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
        error: Option<ErrorObjectOwned>,
    }
    if !line.contains("null") {
        return None;
    }
    let answer: Answer<'_> = serde_json::from_str(line).ok()?;
    answer.error.filter(|_| answer.id.get() == "null")
}

impl TransportSenderT for Sender {
    type Error = LinesCodecError;

    async fn send(&mut self, message: String) -> Result<(), Self::Error> {
        self.0.send(message).await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        SinkExt::<String>::close(&mut self.0).await
    }
}

impl TransportReceiverT for Receiver {
    type Error = LinesCodecError;

    // jsonrpsee drops this future and asks again; `FramedRead` keeps what it has read in between.
    async fn receive(&mut self) -> Result<ReceivedMessage, Self::Error> {
        match self.lines.next().await {
            Some(Ok(line)) => match refusal(&line) {
                None => Ok(ReceivedMessage::Text(line)),
                Some(error) => {
                    self.refused.set(error).ok();
                    Err(io::Error::from(io::ErrorKind::ConnectionAborted).into())
                }
            },
            Some(Err(error)) => Err(error),
            None => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use rustix::net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect as connect_to, listen, socket_with,
    };

    use super::*;

    /// A socket whose queue is full, and what fills it.
    fn full(path: &Path) -> (UnixListener, Vec<std::os::fd::OwnedFd>) {
        let listener = UnixListener::bind(path).unwrap();
        listen(&listener, 1).unwrap();
        let address = SocketAddrUnix::new(path).unwrap();
        let waiting = std::iter::from_fn(|| {
            let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
            let socket = socket_with(family, kind, SocketFlags::NONBLOCK, None).unwrap();
            connect_to(&socket, &address).ok().map(|()| socket)
        });
        let waiting = waiting.collect();
        (listener, waiting)
    }

    /// SV-01: a queue of connections that is full for a moment is waited for, and given up after a while.
    #[tokio::test(start_paused = true)]
    async fn a_full_queue_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let (listener, _waiting) = full(&path);
        let began = tokio::time::Instant::now();
        let refused = connect(&path).await.unwrap_err();
        assert_eq!((refused.kind(), began.elapsed()), (io::ErrorKind::WouldBlock, FULL));
        let served = async {
            tokio::time::sleep(FULL / 2).await;
            listener.accept().unwrap()
        };
        let (connected, _) = tokio::join!(connect(&path), served);
        connected.unwrap();
    }
}
