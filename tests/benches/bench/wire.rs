//! A client as plain as can be: one JSON text a line over the socket, so that it costs the floor and the daemon the
//! same.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// One connection.
pub(crate) struct Line {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    last: Vec<u8>,
}

impl Line {
    /// Connects to a socket.
    pub(crate) async fn connect(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket).await.with_context(|| socket.display().to_string())?;
        let (reader, writer) = stream.into_split();
        Ok(Self { reader: BufReader::with_capacity(64 << 10, reader), writer, last: Vec::new() })
    }

    /// Makes a call and gives its result.
    pub(crate) async fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.round(&request(method, params)).await?;
        let mut answer: Value = serde_json::from_slice(&self.last)?;
        match answer.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => bail!("{method}: {answer}"),
        }
    }

    /// Writes a line and waits for one.
    pub(crate) async fn round(&mut self, line: &[u8]) -> Result<()> {
        self.writer.write_all(line).await?;
        self.next().await.map(|_| ())
    }

    /// The next line.
    pub(crate) async fn next(&mut self) -> Result<&[u8]> {
        self.last.clear();
        let read = self.reader.read_until(b'\n', &mut self.last).await?;
        anyhow::ensure!(read > 0, "the other end hung up");
        anyhow::ensure!(!self.last.starts_with(br#"{"jsonrpc":"2.0","id":1,"error""#), "{}", self.text());
        Ok(&self.last)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.last).into_owned()
    }

    /// Times so many rounds of the same line.
    pub(crate) async fn time(&mut self, line: &[u8], rounds: usize, times: &mut Vec<Duration>) -> Result<()> {
        for _ in 0..rounds {
            let began = Instant::now();
            self.round(line).await?;
            times.push(began.elapsed());
        }
        Ok(())
    }

    /// Sends the same line again and again, so many at most unanswered, until there were so many answers.
    pub(crate) async fn pipeline(&mut self, line: &[u8], window: usize, count: usize) -> Result<Duration> {
        let began = Instant::now();
        let (mut sent, mut got, mut room) = (0, 0, window);
        let mut buffer = vec![0; 256 << 10];
        while got < count {
            let more = room.min(count - sent);
            if more > 0 {
                self.writer.write_all(&line.repeat(more)).await?;
                (sent, room) = (sent + more, 0);
            }
            let read = self.reader.read(&mut buffer).await?;
            anyhow::ensure!(read > 0, "the other end hung up");
            let answers = buffer[..read].split(|byte| *byte == b'\n').count() - 1;
            (got, room) = (got + answers, room + answers);
        }
        Ok(began.elapsed())
    }
}

/// A call as a line.
pub(crate) fn request(method: &str, params: &Value) -> Vec<u8> {
    let mut line = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    line.push('\n');
    line.into_bytes()
}
