//! The fake model API: a program of its own that answers as providers do, or as badly as a test wants.
//!
//! ```text
//! prompt "[[tool:Read {…}]] [[say:done]]" ─▶ script ─▶ answer ─▶ events of either dialect ─▶ pieces on the wire
//!                                              └─ faults: errors, cuts, silence, nonsense ────────┘
//! ```
//!
//! It speaks Anthropic's messages and OpenAI's chat completions, always as streams, and keeps what it was sent for a
//! test to look at. Which step comes next follows from the conversation alone; only faults that come so often are
//! counted.

mod answer;
mod cache;
mod events;
mod script;
mod server;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::programs;

pub use server::serve;

/// A running fake; it ends with this.
#[derive(Debug)]
pub struct Fake {
    child: Child,
    /// Its address, as a base URL of the Messages API; chat completions are at `/v1` below it.
    pub url: String,
}

impl Fake {
    /// Starts one that answers at once.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Starts one with arguments of its program.
    pub fn with(arguments: &[&str]) -> Self {
        let mut child = Command::new(programs::fake_api())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, url: line.trim().to_owned() }
    }

    /// The requests so far, oldest first: `path`, `key`, `body`, and when it came `at`, in seconds since the first.
    pub fn log(&self) -> Vec<Value> {
        let text = self.http("GET", "/log");
        serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// Waits until so many requests came.
    pub fn requests(&self, least: usize) {
        assert!(self.http("GET", &format!("/log/{least}")).starts_with("HTTP/1.1 200"));
    }

    /// Forgets requests and counts.
    pub fn reset(&self) {
        assert!(self.http("POST", "/reset").starts_with("HTTP/1.1 200"));
    }

    fn http(&self, verb: &str, path: &str) -> String {
        let address = self.url.strip_prefix("http://").unwrap();
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let request =
            format!("{verb} {path} HTTP/1.1\r\nhost: fake\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        std::io::read_to_string(stream).unwrap()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        // It ends when its input does.
        drop(self.child.stdin.take());
        self.child.wait().ok();
    }
}
