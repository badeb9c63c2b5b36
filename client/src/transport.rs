//! One JSON text a line over the Unix socket, as a transport for jsonrpsee's client.

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

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
    let stream = UnixStream::connect(path).await?;
    if stream.peer_cred()?.uid() == rustix::process::geteuid().as_raw() {
        Ok(halves(stream))
    } else {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is another user's"))
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
