//! A client for tests: it sends bytes and takes frames, and knows nothing of the edge.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_util::bytes::BytesMut;

use super::super::framing::{Cutter, Frame};

#[derive(Debug)]
pub(super) struct Client<S> {
    socket: S,
    cutter: Cutter,
    bytes: BytesMut,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(super) fn ndjson(socket: S) -> Self {
        Self { socket, cutter: Cutter::ndjson(64 << 20), bytes: BytesMut::new() }
    }

    pub(super) fn content_length(socket: S) -> Self {
        Self { socket, cutter: Cutter::content_length(64 << 20), bytes: BytesMut::new() }
    }

    /// Sends a text in the client's framing.
    pub(super) async fn send(&mut self, text: &str) {
        let mut out = Vec::new();
        self.cutter.write(text, &mut out);
        self.raw(&out).await;
    }

    /// Appends a text in the client's framing.
    pub(super) fn frame(&self, text: &str, out: &mut Vec<u8>) {
        self.cutter.write(text, out);
    }

    /// Sends bytes as they are.
    pub(super) async fn raw(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).await.unwrap();
    }

    /// Takes one byte of what comes, and leaves the rest.
    pub(super) async fn byte(&mut self) -> u8 {
        tokio::time::timeout(Duration::from_secs(10), self.socket.read_u8()).await.unwrap().unwrap()
    }

    /// Says that nothing more will be sent.
    pub(super) async fn half_close(&mut self) {
        self.socket.shutdown().await.unwrap();
    }

    /// The next message, or `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Value> {
        tokio::time::timeout(Duration::from_secs(10), self.read()).await.expect("an answer in time")
    }

    /// Sends a text and takes the next message.
    pub(super) async fn ask(&mut self, text: &str) -> Value {
        self.send(text).await;
        self.next().await.expect("an answer")
    }

    async fn read(&mut self) -> Option<Value> {
        loop {
            match self.cutter.next(&mut self.bytes) {
                Some(Frame::Text(text)) => return Some(serde_json::from_slice(&text).unwrap()),
                Some(frame) => panic!("{frame:?}"),
                None => {}
            }
            match self.socket.read_buf(&mut self.bytes).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }
}

/// A call as JSON text.
pub(super) fn call(id: impl Into<Value>, method: &str, params: Value) -> String {
    let mut call = serde_json::json!({ "jsonrpc": "2.0", "id": id.into(), "method": method });
    call["params"] = params;
    call.to_string()
}

/// A notification as JSON text.
pub(super) fn notification(method: &str, params: Value) -> String {
    let mut notification = serde_json::json!({ "jsonrpc": "2.0", "method": method });
    notification["params"] = params;
    notification.to_string()
}

/// The result of an answer that is no error.
pub(super) fn result(answer: &Value) -> &Value {
    assert!(answer.get("error").is_none(), "{answer}");
    &answer["result"]
}

/// The code and kind of an error answer, with its id.
pub(super) fn error(answer: &Value) -> (Value, i64, String) {
    let error = &answer["error"];
    let kind = error["data"]["kind"].as_str().unwrap_or_default().to_owned();
    (answer["id"].clone(), error["code"].as_i64().unwrap_or_else(|| panic!("{answer}")), kind)
}
