//! The control connection to a shim: commands go out, facts come in.

use std::time::Duration;

use ccagent_core::input::Report;
use ccagent_proto::task::Exit;
use ccagent_shim::files;
use ccagent_shim::wire::{DaemonLine, ExitRecord, OutputState, ShimLine, State};
use tokio::net::UnixStream;
use tokio::time::Instant;

use super::Orders;
use super::attempt::Attempt;
use super::lines::Lines;
use super::silence::Silence;
use crate::hub::Key;

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
    /// A connection to the shim that says hello.
    pub(super) fn connect(&self) -> std::io::Result<Lines> {
        let shim = self.shim.ok_or(std::io::ErrorKind::NotFound)?;
        let stream = files::connect_control(&self.dir(), shim)?;
        let mut lines = Lines::new(UnixStream::from_std(stream)?);
        lines.say(DaemonLine::Hello { token: self.control.to_string() });
        Ok(lines)
    }

    pub(super) async fn serve(&mut self, mut lines: Lines, orders: &mut Orders) -> Close {
        let (mut output, mut silence) = (Output::default(), Silence::default());
        loop {
            let owes = self.lasting.owes() || !self.input.is_idle() || lines.owes();
            tokio::select! {
                line = lines.next() => match line {
                    None => return Close::Broken,
                    Some(Ok(ShimLine::Exited(record))) => return Close::Exited(record),
                    Some(Ok(line)) => self.hear(line, &mut lines, &mut output).await,
                    Some(Err(error)) => {
                        tracing::warn!(task = %self.task, %error, "the shim said something odd");
                    }
                },
                Some(command) = orders.commands.recv() => {
                    self.lasting.note(command);
                    self.say_lasting(&mut lines);
                }
                Some(write) = orders.writes.recv(), if self.input.is_idle() => self.input.begin(write),
                () = silence.due(owes) => silence.look(self.shim, self.lasting.is_stop_asked()),
                () = output.due() => self.report(output.take()).await,
            }
            if let Some(piece) = self.input.next() {
                lines.say(piece);
            }
        }
    }

    fn say_lasting(&mut self, lines: &mut Lines) {
        for line in self.lasting.lines() {
            lines.say(line);
        }
        self.lasting.said();
    }

    async fn hear(&mut self, line: ShimLine, lines: &mut Lines, output: &mut Output) {
        match line {
            ShimLine::State(state) => self.greeted(state, lines, output).await,
            ShimLine::Output(state) => {
                self.inner.has_written(self.task, self.number, Some(state.bytes));
                self.inner.hub.wake(&Key::Output(self.task));
                output.changed(state);
                lines.say(DaemonLine::OutputAck {});
            }
            ShimLine::StdinDone { seq, error } => self.input.settled(self.task, seq, error),
            ShimLine::Resized { cols, rows, error } => self.lasting.resized(self.task, (cols, rows), error),
            ShimLine::LeaderExited { code, signal, remaining } => {
                let remaining = u32::try_from(remaining).unwrap_or(u32::MAX);
                self.report(Report::LeaderEnded { exit: Exit { code, signal }, remaining }).await;
            }
            ShimLine::Refused { reason } => tracing::warn!(task = %self.task, reason, "the shim refused us"),
            ShimLine::Exited(_) => {}
        }
    }

    async fn greeted(&mut self, state: State, lines: &mut Lines, output: &mut Output) {
        self.lasting.greeted(&state);
        self.say_lasting(lines);
        self.input.greeted(&state);
        self.inner.has_written(self.task, self.number, Some(state.output_bytes));
        if state.output_bytes > 0 || state.output_truncated {
            let (bytes, truncated) = (state.output_bytes, state.output_truncated);
            output.changed(OutputState { bytes, truncated, error: state.output_error });
        }
        if let Some(end) = state.leader_exited {
            let exit = Exit { code: end.code, signal: end.signal };
            let remaining = u32::try_from(state.descendants).unwrap_or(u32::MAX);
            self.report(Report::LeaderEnded { exit, remaining }).await;
        }
    }
}

/// Output that the core has not heard of yet.
#[derive(Debug, Default)]
struct Output {
    state: OutputState,
    pending: bool,
    last: Option<Instant>,
}

impl Output {
    fn changed(&mut self, state: OutputState) {
        if let Some(error) = state.error.as_ref().filter(|_| self.state.error.is_none()) {
            tracing::warn!(error, "an agent's output can't be written");
        }
        self.state = state;
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
        Report::Output { bytes: self.state.bytes, truncated: self.state.truncated }
    }
}
