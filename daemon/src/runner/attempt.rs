//! One attempt, from its start or its adoption to its end.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ccagent_core::effect::Start;
use ccagent_core::input::{Ended, Report};
use ccagent_proto::task::Exit;
use ccagent_proto::{Error, Kind, TaskId};
use ccagent_shim::files;
use ccagent_shim::wire::{DaemonLine, ExitRecord, ShimLine, StartReply, StdinError};
use futures_util::{SinkExt, StreamExt};
use tokio::net::UnixStream;
use tokio::process::Child;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::codec::{Framed, LinesCodec};

use super::{Command, Inner, ended, launch, lost, tail};
use crate::hub::Key;

/// Bytes of a control line at most.
const LINE_MOST: usize = 1 << 20;
/// Bytes of input in one control line.
const CHUNK: usize = 64 << 10;
/// Output is reported to the core at most so often (OF-05).
const OUTPUT_EVERY: Duration = Duration::from_millis(100);
/// How often a shim that claimed its attempt is looked for before it is taken as lost.
const TRIES: u32 = 50;
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// What an attempt's future knows.
pub(super) struct Attempt {
    pub(super) inner: Arc<Inner>,
    pub(super) task: TaskId,
    pub(super) attempt: u32,
    pub(super) directory: String,
    pub(super) control: Box<str>,
    child: Option<Child>,
}

/// How a control connection ended.
enum Close {
    Exited(ExitRecord),
    Broken,
}

/// Starts an attempt and stays with it.
pub(super) async fn start(inner: Arc<Inner>, start: Start, commands: mpsc::Receiver<Command>) {
    let mut attempt = Attempt {
        inner,
        task: start.task,
        attempt: start.attempt,
        directory: start.directory.clone(),
        control: start.control.clone(),
        child: None,
    };
    match launch::launch(&attempt.inner, &start).await {
        Ok((child, StartReply::Started { shim_pid, pid, .. })) => {
            attempt.child = Some(child);
            attempt.inner.has_shim(attempt.task, attempt.attempt, shim_pid);
            attempt.report(Report::Started { pid: pid.unsigned_abs() }).await;
            attempt.supervise(commands).await;
        }
        // A shim of the daemon before this one was quicker: it is the one that counts.
        Ok((
            mut child,
            StartReply::Failed { kind: ccagent_shim::wire::StartErrorKind::AlreadyClaimed, .. },
        )) => {
            drop(child.wait().await);
            attempt.adopt(commands).await;
        }
        Ok((mut child, StartReply::Failed { kind, message, .. })) => {
            drop(child.wait().await);
            let cause = serde_json::to_value(kind).ok().and_then(|value| value.as_str().map(str::to_owned));
            attempt.report(Report::StartFailed { cause: cause.unwrap_or_default(), message }).await;
        }
        // Whether something was started is not known: the files tell.
        Err(error) => attempt.unanswered(&error, commands).await,
    }
}

/// Finds a survivor of another daemon's life, or what is left of it.
pub(super) async fn adopt(
    inner: Arc<Inner>,
    survivor: ccagent_core::recovery::Survivor,
    commands: mpsc::Receiver<Command>,
) {
    let attempt = Attempt {
        inner,
        task: survivor.task,
        attempt: survivor.attempt,
        directory: survivor.directory,
        control: survivor.control,
        child: None,
    };
    attempt.adopt(commands).await;
}

impl Attempt {
    pub(super) fn dir(&self) -> PathBuf {
        launch::attempt_dir(&self.directory, self.attempt)
    }

    pub(super) async fn report(&self, what: Report) {
        self.inner.report(self.task, self.attempt, what).await;
    }

    async fn unanswered(self, error: &launch::LaunchError, commands: mpsc::Receiver<Command>) {
        let claimed = files::read_claim(&self.dir());
        if matches!(claimed, Ok(None)) {
            let source =
                std::error::Error::source(error).map_or_else(String::new, |source| format!(": {source}"));
            let message = format!("{error}{source}");
            self.report(Report::StartFailed { cause: "other".to_owned(), message }).await;
        } else {
            self.adopt(commands).await;
        }
    }

    /// Takes over an attempt by its files: its end, its shim, or nothing of it.
    async fn adopt(mut self, commands: mpsc::Receiver<Command>) {
        match self.look().await {
            Look::Ended(record) => self.ended(&record).await,
            Look::Runs { shim, pid } => {
                self.inner.has_shim(self.task, self.attempt, shim);
                self.report(Report::Started { pid: pid.unsigned_abs() }).await;
                self.supervise(commands).await;
            }
            Look::Lost(message) => lost::end(&mut self, &message).await,
            Look::OtherBoot => self.report(Report::MachineRestarted).await,
            Look::NeverClaimed => self.report(Report::NeverStarted).await,
        }
    }

    /// Reads what the attempt's files say. "Unreadable" is not "absent", and "unknown" is not "dead" (I6): a shim
    /// that is between its claim and its record is looked for again.
    async fn look(&self) -> Look {
        let dir = self.dir();
        for _ in 0..TRIES {
            match look_once(&dir) {
                Some(look) => return look,
                None => tokio::time::sleep(PAUSE).await,
            }
        }
        Look::Lost(format!("the files in {} tell neither that it runs nor how it ended", dir.display()))
    }

    /// Serves the control connection until the shim says that the tree is empty.
    async fn supervise(mut self, mut commands: mpsc::Receiver<Command>) {
        loop {
            let close = match self.connect().await {
                Ok(lines) => self.serve(lines, &mut commands).await,
                Err(error) => {
                    tracing::debug!(task = %self.task, %error, "no control connection");
                    Close::Broken
                }
            };
            if let Close::Exited(record) = close {
                self.wait_for_shim().await;
                return self.ended(&record).await;
            }
            match self.look().await {
                Look::Ended(record) => {
                    self.wait_for_shim().await;
                    return self.ended(&record).await;
                }
                Look::Runs { .. } => tokio::time::sleep(PAUSE).await,
                Look::Lost(message) => return lost::end(&mut self, &message).await,
                Look::OtherBoot => return self.report(Report::MachineRestarted).await,
                Look::NeverClaimed => return self.report(Report::NeverStarted).await,
            }
        }
    }

    async fn connect(&self) -> std::io::Result<Lines> {
        let stream = files::connect_control(&self.dir())?;
        stream.set_nonblocking(true)?;
        let stream = UnixStream::from_std(stream)?;
        let mut lines = Framed::new(stream, LinesCodec::new_with_max_length(LINE_MOST));
        say(&mut lines, &DaemonLine::Hello { token: self.control.to_string() }).await?;
        Ok(lines)
    }

    async fn serve(&self, mut lines: Lines, commands: &mut mpsc::Receiver<Command>) -> Close {
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

    /// The shim's process is gone before the end is reported: done means settled.
    async fn wait_for_shim(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.wait().await);
        } else if let Ok(Some(record)) = files::read_shim(&self.dir()) {
            lost::gone(record.shim_pid, record.shim_start).await;
        }
    }

    async fn ended(&self, record: &ExitRecord) {
        if let Some(delegated) = &self.inner.settings.cgroup {
            delegated.remove(self.task, self.attempt);
        }
        if let Some(failed) = &record.start_failed {
            let cause =
                serde_json::to_value(failed.kind).ok().and_then(|kind| kind.as_str().map(str::to_owned));
            let message = failed.message.clone();
            return self.report(Report::StartFailed { cause: cause.unwrap_or_default(), message }).await;
        }
        let path = PathBuf::from(&self.directory).join("output");
        let tail = tokio::task::spawn_blocking(move || tail::of(&path)).await.ok().flatten();
        self.inner.hub.wake(&Key::Output(self.task));
        self.report(Report::Ended(Ended {
            exit: Exit { code: record.code, signal: record.signal },
            output_bytes: record.output_bytes,
            output_truncated: record.output_truncated,
            tail,
            oom: record.oom,
        }))
        .await;
    }
}

/// What an attempt's files say.
enum Look {
    Ended(ExitRecord),
    Runs { shim: i32, pid: i32 },
    Lost(String),
    OtherBoot,
    NeverClaimed,
}

fn look_once(dir: &std::path::Path) -> Option<Look> {
    match files::read_exit(dir) {
        Ok(Some(record)) => return Some(Look::Ended(record)),
        Ok(None) => {}
        Err(error) => return Some(Look::Lost(format!("its exit record is bad: {error}"))),
    }
    let (shim, start, boot, pid) = match (files::read_shim(dir), files::read_claim(dir)) {
        (Ok(Some(record)), _) => (record.shim_pid, record.shim_start, record.boot_id, record.pid),
        (Ok(None), Ok(Some(claim))) => (claim.shim_pid, claim.shim_start, claim.boot_id, None),
        (Ok(None), Ok(None)) => return Some(Look::NeverClaimed),
        (Err(error), _) | (_, Err(error)) => {
            tracing::warn!(dir = %dir.display(), %error, "an attempt's record can't be read");
            return None;
        }
    };
    if files::boot_id().is_ok_and(|now| now != boot) {
        return Some(Look::OtherBoot);
    }
    match (files::same_process(shim, start), pid) {
        (files::Liveness::Alive, Some(pid)) => Some(Look::Runs { shim, pid }),
        (files::Liveness::Gone, _) => match files::read_exit(dir) {
            // It wrote its record and ended between the two looks.
            Ok(Some(record)) => Some(Look::Ended(record)),
            _ => Some(Look::Lost("its shim was killed".to_owned())),
        },
        (files::Liveness::Alive | files::Liveness::Unknown, _) => None,
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
