//! The control connection to a shim: commands go out, facts come in.
//!
//! What has to hold for good (a stop, a terminal's size) is noted before it is sent, and said again after each hello:
//! a connection may break between the two.

use std::time::Duration;

use ccagent_core::input::Report;
use ccagent_proto::Millis;
use ccagent_proto::task::Exit;
use ccagent_shim::files;
use ccagent_shim::tree::Process;
use ccagent_shim::wire::{DaemonLine, ExitRecord, ShimLine, State};
use futures_util::{SinkExt, StreamExt};
use tokio::net::UnixStream;
use tokio::time::Instant;
use tokio_util::codec::{Framed, LinesCodec};

use super::attempt::Attempt;
use super::silence::Silence;
use super::{Command, Orders, look};
use crate::hub::Key;

/// Bytes of a control line at most.
const LINE_MOST: usize = 1 << 20;
/// Output is reported to the core at most so often (OF-05).
const OUTPUT_EVERY: Duration = Duration::from_millis(100);

/// How a control connection ended.
pub(super) enum Close {
    /// The shim said that the tree is empty.
    Exited(ExitRecord),
    /// The connection broke.
    Broken,
}

/// What a shim is to be told on every connection.
#[derive(Debug, Default)]
pub(super) struct Lasting {
    stop: Option<Millis>,
    size: Option<(u16, u16)>,
}

impl Lasting {
    /// Notes a command; of several stops the one with the smallest grace.
    pub(super) fn note(&mut self, command: &Command) {
        match *command {
            Command::Stop(grace) => self.stop = Some(self.stop.map_or(grace, |known| known.min(grace))),
            Command::Resize(cols, rows) => self.size = Some((cols, rows)),
        }
    }

    /// What to say after a hello. Whether the shim has heard it before is not asked: another stop changes nothing
    /// but an earlier deadline, and a kill may be missing where the stop before it is known.
    fn lines(&self) -> impl Iterator<Item = DaemonLine> {
        let size = self.size.map(|(cols, rows)| Command::Resize(cols, rows));
        size.into_iter().chain(self.stop.map(Command::Stop)).map(|command| line(&command))
    }
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

    pub(super) async fn serve(&mut self, mut lines: Lines, orders: &mut Orders) -> Close {
        let (mut output, mut silence) = (Output::default(), Silence::default());
        loop {
            let done = tokio::select! {
                line = lines.next() => {
                    let Some(Ok(line)) = line else { return Close::Broken };
                    match serde_json::from_str::<ShimLine>(&line) {
                        Ok(ShimLine::Exited(record)) => return Close::Exited(record),
                        Ok(line) => self.hear(line, &mut lines, &mut output).await,
                        Err(error) => {
                            tracing::warn!(task = %self.task, %error, "the shim said something odd");
                            Ok(())
                        }
                    }
                }
                Some(command) = orders.commands.recv() => {
                    self.lasting.note(&command);
                    say(&mut lines, &line(&command)).await
                }
                Some(write) = orders.writes.recv(), if self.input.is_idle() => {
                    self.input.begin(write);
                    Ok(())
                }
                () = silence.due(self.lasting.stop.is_some() || !self.input.is_idle()) => {
                    let shim = look::named(&self.dir()).map(|(pid, start_time)| Process { pid, start_time });
                    silence.look(shim, self.lasting.stop.is_some());
                    Ok(())
                }
                () = output.due() => {
                    self.report(output.take()).await;
                    Ok(())
                }
            };
            if done.is_err() || self.feed(&mut lines).await.is_err() {
                return Close::Broken;
            }
        }
    }

    /// Sends the next piece of input, where there is one.
    async fn feed(&mut self, lines: &mut Lines) -> std::io::Result<()> {
        match self.input.next() {
            Some(piece) => say(lines, &piece).await,
            None => Ok(()),
        }
    }

    async fn hear(&mut self, line: ShimLine, lines: &mut Lines, output: &mut Output) -> std::io::Result<()> {
        match line {
            ShimLine::State(state) => return self.greeted(&state, lines, output).await,
            ShimLine::Output { bytes } => {
                self.inner.hub.wake(&Key::Output(self.task));
                output.grew(bytes);
                return say(lines, &DaemonLine::OutputAck {}).await;
            }
            ShimLine::StdinDone { seq, error } => self.input.settled(self.task, seq, error),
            ShimLine::LeaderExited { code, signal, remaining } => {
                let remaining = u32::try_from(remaining).unwrap_or(u32::MAX);
                self.report(Report::LeaderEnded { exit: Exit { code, signal }, remaining }).await;
            }
            ShimLine::Refused { reason } => tracing::warn!(task = %self.task, reason, "the shim refused us"),
            ShimLine::Exited(_) => {}
        }
        Ok(())
    }

    async fn greeted(
        &mut self,
        state: &State,
        lines: &mut Lines,
        output: &mut Output,
    ) -> std::io::Result<()> {
        for line in self.lasting.lines() {
            say(lines, &line).await?;
        }
        self.input.greeted(state);
        output.truncated = state.output_truncated;
        if state.output_bytes > 0 {
            output.grew(state.output_bytes);
        }
        if let Some(end) = state.leader_exited {
            let exit = Exit { code: end.code, signal: end.signal };
            let remaining = u32::try_from(state.descendants).unwrap_or(u32::MAX);
            self.report(Report::LeaderEnded { exit, remaining }).await;
        }
        Ok(())
    }
}

type Lines = Framed<UnixStream, LinesCodec>;

async fn say(lines: &mut Lines, line: &DaemonLine) -> std::io::Result<()> {
    let text = serde_json::to_string(line)?;
    lines.send(text).await.map_err(std::io::Error::other)
}

fn line(command: &Command) -> DaemonLine {
    match *command {
        Command::Stop(0) => DaemonLine::Kill {},
        Command::Stop(grace_ms) => DaemonLine::Stop { grace_ms },
        Command::Resize(cols, rows) => DaemonLine::Resize { cols, rows },
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

#[cfg(test)]
mod tests {
    use super::*;

    /// D54, I4: over a broken connection no stop is lost, and a kill is not forgotten for the stop before it.
    #[test]
    fn the_hardest_stop_is_said_again_after_each_hello() {
        let mut lasting = Lasting::default();
        assert_eq!(lasting.lines().count(), 0);
        for (command, said) in [
            (Command::Stop(5000), DaemonLine::Stop { grace_ms: 5000 }),
            (Command::Stop(9000), DaemonLine::Stop { grace_ms: 5000 }),
            (Command::Stop(0), DaemonLine::Kill {}),
            (Command::Stop(5000), DaemonLine::Kill {}),
        ] {
            lasting.note(&command);
            assert_eq!(lasting.lines().collect::<Vec<_>>(), [said]);
        }
        lasting.note(&Command::Resize(80, 24));
        assert_eq!(lasting.lines().next(), Some(DaemonLine::Resize { cols: 80, rows: 24 }));
    }
}
