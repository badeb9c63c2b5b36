//! The control connection to a shim: commands go out, facts come in.

use std::collections::HashMap;
use std::time::Duration;

use ccagent_core::input::Report;
use ccagent_proto::task::Exit;
use ccagent_proto::{Error, Kind, TaskId};
use ccagent_shim::files;
use ccagent_shim::wire::{DaemonLine, ExitRecord, ShimLine, StdinError};
use futures_util::{SinkExt, StreamExt};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::codec::{Framed, LinesCodec};

use super::attempt::Attempt;
use super::{Command, ended};
use crate::hub::Key;

/// Bytes of a control line at most.
const LINE_MOST: usize = 1 << 20;
/// Bytes of input in one control line.
const CHUNK: usize = 64 << 10;
/// Output is reported to the core at most so often (OF-05).
const OUTPUT_EVERY: Duration = Duration::from_millis(100);

/// How a control connection ended.
pub(super) enum Close {
    /// The shim said that the tree is empty.
    Exited(ExitRecord),
    /// The connection broke.
    Broken,
}

impl Attempt {
    pub(super) async fn connect(&self) -> std::io::Result<Lines> {
        let stream = files::connect_control(&self.dir())?;
        stream.set_nonblocking(true)?;
        let stream = UnixStream::from_std(stream)?;
        let mut lines = Framed::new(stream, LinesCodec::new_with_max_length(LINE_MOST));
        say(&mut lines, &DaemonLine::Hello { token: self.control.to_string() }).await?;
        Ok(lines)
    }

    pub(super) async fn serve(&self, mut lines: Lines, commands: &mut mpsc::Receiver<Command>) -> Close {
        let mut writes: HashMap<u64, oneshot::Sender<Result<(), Error>>> = HashMap::new();
        let mut seq = 0_u64;
        let mut output = Output::default();
        loop {
            tokio::select! {
                line = lines.next() => {
                    let Some(Ok(line)) = line else { return Close::Broken };
                    match serde_json::from_str::<ShimLine>(&line) {
                        Ok(ShimLine::Exited(record)) => return Close::Exited(record),
                        Ok(ShimLine::StdinDone { seq, error }) => {
                            if let Some(reply) = writes.remove(&seq) {
                                drop(reply.send(stdin_result(self.task, error)));
                            }
                        }
                        Ok(ShimLine::Output { bytes }) => {
                            self.inner.hub.wake(&Key::Output(self.task));
                            output.grew(bytes);
                            if say(&mut lines, &DaemonLine::OutputAck {}).await.is_err() {
                                return Close::Broken;
                            }
                        }
                        Ok(line) => self.hear(line, &mut output).await,
                        Err(error) => tracing::warn!(task = %self.task, %error, "the shim said something odd"),
                    }
                }
                command = commands.recv() => {
                    let Some(command) = command else { return Close::Broken };
                    if self.obey(command, &mut lines, &mut writes, &mut seq).await.is_err() {
                        return Close::Broken;
                    }
                }
                () = output.due() => self.report(output.take()).await,
            }
        }
    }

    async fn hear(&self, line: ShimLine, output: &mut Output) {
        match line {
            ShimLine::State(state) => {
                output.truncated = state.output_truncated;
                if state.output_bytes > 0 {
                    output.grew(state.output_bytes);
                }
                if let Some(end) = state.leader_exited {
                    let exit = Exit { code: end.code, signal: end.signal };
                    let remaining = u32::try_from(state.descendants).unwrap_or(u32::MAX);
                    self.report(Report::LeaderEnded { exit, remaining }).await;
                }
            }
            ShimLine::LeaderExited { code, signal, remaining } => {
                let remaining = u32::try_from(remaining).unwrap_or(u32::MAX);
                self.report(Report::LeaderEnded { exit: Exit { code, signal }, remaining }).await;
            }
            ShimLine::Refused { reason } => tracing::warn!(task = %self.task, reason, "the shim refused us"),
            ShimLine::Output { .. } | ShimLine::StdinDone { .. } | ShimLine::Exited(_) => {}
        }
    }

    async fn obey(
        &self,
        command: Command,
        lines: &mut Lines,
        writes: &mut HashMap<u64, oneshot::Sender<Result<(), Error>>>,
        seq: &mut u64,
    ) -> std::io::Result<()> {
        match command {
            Command::Stop(0) => say(lines, &DaemonLine::Kill {}).await,
            Command::Stop(grace_ms) => say(lines, &DaemonLine::Stop { grace_ms }).await,
            Command::Resize(cols, rows) => say(lines, &DaemonLine::Resize { cols, rows }).await,
            Command::Write(bytes, eof, reply) => {
                let mut chunks: Vec<&[u8]> = bytes.chunks(CHUNK).collect();
                if chunks.is_empty() {
                    chunks.push(&[]);
                }
                let last = chunks.len() - 1;
                for (place, chunk) in chunks.into_iter().enumerate() {
                    *seq += 1;
                    say(lines, &DaemonLine::stdin(chunk, eof && place == last, *seq)).await?;
                }
                // The chunks are settled in order: the last one's answer is the whole's.
                writes.insert(*seq, reply);
                Ok(())
            }
        }
    }
}

type Lines = Framed<UnixStream, LinesCodec>;

async fn say(lines: &mut Lines, line: &DaemonLine) -> std::io::Result<()> {
    let text = serde_json::to_string(line)?;
    lines.send(text).await.map_err(std::io::Error::other)
}

fn stdin_result(task: TaskId, error: Option<StdinError>) -> Result<(), Error> {
    match error {
        None => Ok(()),
        Some(StdinError::Full) => {
            Err(Error::new(Kind::Overloaded, "the program does not read its input: try again later"))
        }
        Some(StdinError::Closed) => Err(ended(task).with("cause", "stdinClosed")),
    }
}

/// Output that the core has not heard of yet.
#[derive(Debug, Default)]
struct Output {
    bytes: u64,
    truncated: bool,
    pending: bool,
    last: Option<Instant>,
}

impl Output {
    fn grew(&mut self, bytes: u64) {
        self.bytes = bytes;
        self.pending = true;
    }

    /// Returns when the core may hear of it: at once, or when the pause since the last report is over.
    async fn due(&self) {
        if !self.pending {
            return std::future::pending().await;
        }
        if let Some(last) = self.last {
            tokio::time::sleep_until(last + OUTPUT_EVERY).await;
        }
    }

    fn take(&mut self) -> Report {
        self.pending = false;
        self.last = Some(Instant::now());
        Report::Output { bytes: self.bytes, truncated: self.truncated }
    }
}
