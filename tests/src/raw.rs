//! A connection of bytes: what a client without any library writes and reads, in each framing.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::{Value, json};

use crate::PATIENCE;

/// A connection whose reads and writes block.
#[derive(Debug)]
pub struct Raw {
    stream: BufReader<UnixStream>,
}

impl Raw {
    /// Connects.
    pub fn to(socket: &Path) -> Self {
        Self::over(UnixStream::connect(socket).unwrap())
    }

    /// Over a stream that is connected already.
    pub fn over(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// When the other side has closed, or reads nothing.
    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Writes bytes.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes.as_ref()).unwrap();
    }

    /// Says that nothing more is written.
    pub fn finish(&mut self) {
        self.stream.get_mut().shutdown(Shutdown::Write).unwrap();
    }

    /// Writes a value as a line.
    pub fn send_line(&mut self, value: &Value) {
        self.send(format!("{value}\n"));
    }

    /// The next line as a value; `None` at the end.
    pub fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON: {line:?}"))),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("no line: {error}"),
        }
    }

    /// A call in NDJSON; gives the answer.
    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        self.send_line(&request(method, params));
        self.line().expect("an answer")
    }

    /// Writes a value in LSP framing.
    pub fn send_frame(&mut self, value: &Value) {
        let text = value.to_string();
        self.send(format!("Content-Length: {}\r\n\r\n{text}", text.len()));
    }

    /// The next frame in LSP framing; `None` at the end.
    pub fn frame(&mut self) -> Option<Value> {
        let mut bytes = vec![0; self.length()?];
        self.stream.read_exact(&mut bytes).unwrap();
        Some(serde_json::from_slice(&bytes).unwrap())
    }

    /// Posts a text over HTTP on this connection; gives the status line and the body.
    pub fn post(&mut self, text: &str) -> (String, String) {
        let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
        self.send(format!("{head}Content-Length: {}\r\n\r\n{text}", text.len()));
        let mut status = String::new();
        self.stream.read_line(&mut status).unwrap();
        let mut bytes = vec![0; self.length().expect("headers")];
        self.stream.read_exact(&mut bytes).unwrap();
        (status.trim_end().to_owned(), String::from_utf8(bytes).unwrap())
    }

    /// Everything that comes until the other side closes, in whichever way.
    pub fn rest_or_reset(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self.stream.read_to_end(&mut bytes) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("it stays open: {error}"),
        }
        bytes
    }

    /// Reads headers to the empty line; the length that they give. `None` at the end of the stream.
    fn length(&mut self) -> Option<usize> {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            let Some((name, value)) = line.trim_end().split_once(':') else { return Some(length) };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap();
            }
        }
    }
}

/// A request with the id 1.
pub fn request(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}
