//! A server's program on two pipes: a line a message, read as far as a line may be long.
//!
//! What can't be read is no reason to wait for it: a call whose answer is too long, too deep or no answer at all is told
//! so at once. What is no message (a log that goes to the wrong stream) is passed over. The writing half is the SDK's.

use std::collections::{HashSet, VecDeque};
use std::io;

use rmcp::model::{ClientNotification, ErrorCode, ErrorData, JsonRpcError, JsonRpcMessage, RequestId};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::io::{AsyncBufReadExt, BufReader, Empty};
use tokio::net::unix::pipe::{Receiver, Sender};

/// The code of an answer that was not read, as JSON-RPC has it for what can't be parsed.
pub(super) const UNREAD: ErrorCode = ErrorCode::PARSE_ERROR;

/// Both pipes.
pub(super) struct Lines {
    read: BufReader<Receiver>,
    most: usize,
    line: Vec<u8>,
    /// Whether the rest of the line is passed over.
    over: bool,
    write: AsyncRwTransport<RoleClient, Empty, Sender>,
    waiting: HashSet<RequestId>,
    failed: VecDeque<RxJsonRpcMessage<RoleClient>>,
}

/// What of an answer can be read that can't be read whole.
#[derive(Deserialize)]
struct Answer {
    id: RequestId,
    method: Option<IgnoredAny>,
}

/// What came.
enum Came {
    Line,
    TooMuch,
}

impl Lines {
    /// A server whose lines have so many bytes at most.
    pub(super) fn new(read: Receiver, write: Sender, most: usize) -> Self {
        Self {
            read: BufReader::new(read),
            most,
            line: Vec::new(),
            over: false,
            write: AsyncRwTransport::new_client(tokio::io::empty(), write),
            waiting: HashSet::new(),
            failed: VecDeque::new(),
        }
    }

    /// The next line, or that one has become too long. May be dropped at any time, and goes on where it was.
    async fn next(&mut self) -> io::Result<Came> {
        loop {
            let bytes = self.read.fill_buf().await?;
            if bytes.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(bytes.len(), |at| at + 1);
            let exceeds = !self.over && self.line.len() + taken > self.most;
            if !self.over && !exceeds {
                self.line.extend_from_slice(&bytes[..taken]);
            }
            self.read.consume(taken);
            if exceeds {
                self.over = end.is_none();
                return Ok(Came::TooMuch);
            }
            if end.is_some() && !std::mem::take(&mut self.over) {
                return Ok(Came::Line);
            }
        }
    }

    /// A message; or, of one that can't be read, what its call is told.
    fn message(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let line = std::mem::take(&mut self.line);
        let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&line);
        match serde_json::from_slice::<RxJsonRpcMessage<RoleClient>>(line) {
            Ok(message) => {
                if let JsonRpcMessage::Response(answer) = &message {
                    self.waiting.remove(&answer.id);
                } else if let JsonRpcMessage::Error(JsonRpcError { id: Some(id), .. }) = &message {
                    self.waiting.remove(id);
                }
                Some(message)
            }
            Err(error) => {
                let answer: Answer = serde_json::from_slice(line).ok()?;
                let waits = answer.method.is_none() && self.waiting.remove(&answer.id);
                waits.then(|| unread(answer.id, format!("its answer can't be read: {error}")))
            }
        }
    }

    /// A message that was too long may be the answer to each call that waits.
    fn fail(&mut self) {
        let line = std::mem::take(&mut self.line);
        if !line.trim_ascii_start().starts_with(b"{") {
            return;
        }
        let why = format!("it sent a message of more than {} bytes, which is not read", self.most);
        self.failed.extend(self.waiting.drain().map(|id| unread(id, why.clone())));
    }
}

fn unread(id: RequestId, why: String) -> RxJsonRpcMessage<RoleClient> {
    JsonRpcMessage::error(ErrorData::new(UNREAD, why, None), Some(id))
}

impl Transport<RoleClient> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        match &item {
            JsonRpcMessage::Request(asked) => {
                self.waiting.insert(asked.id.clone());
            }
            JsonRpcMessage::Notification(said) => {
                if let ClientNotification::CancelledNotification(dropped) = &said.notification
                    && let Some(id) = &dropped.params.request_id
                {
                    self.waiting.remove(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        self.write.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(failed) = self.failed.pop_front() {
                return Some(failed);
            }
            match self.next().await.ok()? {
                Came::Line => {
                    if let Some(message) = self.message() {
                        return Some(message);
                    }
                }
                Came::TooMuch => self.fail(),
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = io::Result<()>> + Send {
        self.write.close()
    }
}
