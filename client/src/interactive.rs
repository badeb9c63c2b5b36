//! This terminal as the terminal of a task: what the task prints comes out here, what is typed goes in, and signals
//! do what the command at hand wants of them.
//!
//! ```text
//!            ┌─ output ended ──▶ Done
//! running ───┼─ detach key ────▶ Detached
//!            ├─ stdout is gone ▶ OutputGone
//!            └─ signal ── owner: first asks the task to end, second kills it, third ▶ Signalled
//!                       └ guest: ▶ Signalled
//! ```
//!
//! Keys are read by one future and sent by another: a task that doesn't read what is typed can't keep the detach key
//! from being heard. A daemon that is started again is no ending.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use ccagent_client::{Error, Lasting};
use ccagent_proto::Kind;
use ccagent_proto::method::{TaskResize, TaskStop, TaskWrite};
use ccagent_proto::task::{OutputItem, OutputSource, TaskResizeParams, TaskStopParams, TaskWriteParams};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::app::App;
use crate::exit::Exit;
use crate::follow::{self, Follow, From};
use crate::screen;
use crate::terminal::{self, Keys, Mode};

/// Ctrl-].
pub(crate) const DETACH_KEY: u8 = 0x1d;

/// How much of stdin is sent in one call.
const CHUNK: usize = 32 * 1024;

/// Chunks that wait to be sent. What is typed beyond that is lost with a bell, as a terminal does; a file waits.
const QUEUE: usize = 64;

/// How long a terminal's new size is waited for.
pub(crate) const RESIZE_MS: u64 = 1000;

/// How long what was typed before the detach key has to arrive.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Whose terminal this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stake {
    /// The task was started here: signals end it.
    Owner,
    /// It runs by itself: signals end only this view.
    Guest,
}

/// What a task is connected to.
#[derive(Debug)]
pub(crate) struct Wiring {
    /// The task.
    pub(crate) task: String,
    /// Where its output begins here.
    pub(crate) from: From,
    /// Whether stdin goes to it.
    pub(crate) stdin: bool,
    /// Whether it has a terminal of its own.
    pub(crate) pty: bool,
    /// The key that ends the view of a terminal.
    pub(crate) detach_key: u8,
    /// Whose terminal this is.
    pub(crate) stake: Stake,
}

/// Why the connection to a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The task is done and its output was all shown; after a signal from here, with the code of that signal.
    Done(Option<Exit>),
    /// The detach key.
    Detached,
    /// Nothing can be printed any more: nobody reads it, the terminal is gone, the disk is full.
    OutputGone(Exit),
    /// A signal, with its exit code.
    Signalled(Exit),
}

/// Connects this terminal to a task until one of the endings.
pub(crate) async fn run(app: &App, line: &Arc<Lasting>, wiring: Wiring) -> anyhow::Result<Ending> {
    let mode = wiring.keys().map(Mode::enter).transpose()?.flatten();
    let detach_key = mode.is_some().then_some(wiring.detach_key);
    let mut signals = Signals::new()?;
    let follow = Follow::begin(line.clone(), &wiring.task, wiring.from).await?;
    let mut output = tokio::spawn(show(follow));
    let (queue, queued) = mpsc::channel(QUEUE);
    let typed = read(queue, wiring.task.clone(), detach_key, wiring.stake);
    let mut typing = wiring.stdin || detach_key.is_some();
    let mut input = tokio::spawn(async move { if typing { typed.await } else { Ok(Typed::End) } });
    let mut sending = wiring.stdin;
    let mut sent = tokio::spawn(send(line.clone(), queued, wiring.probe()));
    if wiring.pty {
        resize(line, &wiring.task);
    }
    let mut signalled = None;
    loop {
        tokio::select! {
            shown = &mut output => return match shown? {
                Ok(()) => Ok(Ending::Done(signalled)),
                Err(error) if is_broken_pipe(&error) => Ok(Ending::OutputGone(Exit::BROKEN_PIPE)),
                Err(error) if is_ours(&error) => {
                    app.note(&format!("its output can't be printed: {error:#}"));
                    Ok(Ending::OutputGone(Exit::FAILED))
                }
                Err(error) => Err(error),
            },
            typed = &mut input, if typing => {
                typing = false;
                match typed? {
                    Ok(Typed::DetachKey) => {
                        if sending {
                            // Whether it arrived or not, this ends here.
                            drop(tokio::time::timeout(LAST_WORDS, &mut sent).await);
                        }
                        return Ok(Ending::Detached);
                    }
                    Ok(Typed::End) => {}
                    Err(error) => app.note(&format!("what is typed is no longer read: {error:#}")),
                }
            }
            ended = &mut sent, if sending => {
                sending = false;
                if let Err(error) = ended? {
                    wiring.refused(app, &error);
                }
            }
            received = signals.next() => match received {
                Received::Resized if wiring.pty => resize(line, &wiring.task),
                Received::Resized => {}
                Received::End(exit) if wiring.stake == Stake::Guest => return Ok(Ending::Signalled(exit)),
                Received::End(exit) => match signalled.replace(exit) {
                    None => end(app, line, &wiring.task, false),
                    Some(_) if signals.count < 3 => end(app, line, &wiring.task, true),
                    Some(_) => return Ok(Ending::Signalled(exit)),
                },
            },
        }
    }
}

impl Wiring {
    /// How keys are taken: each as it is where the task has a terminal; else only so that a guest can leave.
    fn keys(&self) -> Option<Keys> {
        match (self.pty && self.stdin, self.stake) {
            (true, _) => Some(Keys::Raw),
            (false, Stake::Guest) => Some(Keys::Lines(self.detach_key)),
            (false, Stake::Owner) => None,
        }
    }

    /// What a guest writes first, to hear at once whether the task takes input.
    fn probe(&self) -> Option<TaskWriteParams> {
        (self.stake == Stake::Guest && self.stdin && !self.pty)
            .then(|| TaskWriteParams { task_id: self.task.clone(), ..TaskWriteParams::default() })
    }

    /// Says that input goes nowhere. That a task has ended is no news: its output says so.
    fn refused(&self, app: &App, error: &Error) {
        match (error.kind(), self.stake) {
            (Some(Kind::AlreadyTerminal), Stake::Owner) => {}
            (Some(Kind::AlreadyTerminal), Stake::Guest) => {
                app.note("it takes no input: only its output is shown");
            }
            _ => app.note(&format!("what is typed no longer arrives: {error:#}")),
        }
    }
}

/// Asks a task to end, or kills it, without waiting for the answer: its output says when it is over.
fn end(app: &App, line: &Arc<Lasting>, task: &str, force: bool) {
    let line = line.clone();
    let params = TaskStopParams {
        task_id: task.to_owned(),
        force: force.then_some(true),
        reason: Some("interrupted at the terminal".into()),
        ..TaskStopParams::default()
    };
    tokio::spawn(async move { line.call::<TaskStop>(params).await });
    app.note(if force { "\rkilling it" } else { "\rstopping it; once more kills it" });
}

/// Tells the task's terminal how large this one is, without waiting for the answer; a task without a terminal refuses,
/// which is all right.
fn resize(line: &Arc<Lasting>, task: &str) {
    if let Some((cols, rows)) = terminal::size() {
        let line = line.clone();
        let params = TaskResizeParams { task_id: task.to_owned(), cols, rows, timeout_ms: Some(RESIZE_MS) };
        tokio::spawn(async move { line.call::<TaskResize>(params).await });
    }
}

/// Prints output as it comes, each stream to its own.
async fn show(mut follow: Follow) -> anyhow::Result<()> {
    while let Some(item) = follow.next().await? {
        print(item).await?;
    }
    Ok(())
}

/// Prints one piece of output as it is.
pub(crate) async fn print(item: OutputItem) -> anyhow::Result<()> {
    let bytes = follow::bytes(item.text, item.base64)?;
    match item.stream {
        Some(OutputSource::Err) => {
            let mut stderr = tokio::io::stderr();
            stderr.write_all(&bytes).await?;
            stderr.flush().await?;
        }
        Some(OutputSource::Out | OutputSource::Pty) | None => {
            let mut stdout = tokio::io::stdout();
            stdout.write_all(&bytes).await?;
            stdout.flush().await?;
        }
    }
    Ok(())
}

/// How the forwarding of stdin ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Typed {
    End,
    DetachKey,
}

/// Reads stdin for a task until its end or the detach key; while there is such a key, whatever becomes of what is read.
async fn read(
    queue: mpsc::Sender<TaskWriteParams>,
    task: String,
    detach_key: Option<u8>,
    stake: Stake,
) -> anyhow::Result<Typed> {
    let mut stdin = tokio::io::stdin();
    let mut buffer = vec![0; CHUNK];
    let mut rest = Vec::new();
    loop {
        let count = stdin.read(&mut buffer).await?;
        let read = &buffer[..count];
        let key = detach_key.and_then(|key| read.iter().position(|byte| *byte == key));
        rest.extend_from_slice(&read[..key.unwrap_or(count)]);
        let eof = count == 0;
        let mut params = chunk(&mut rest, eof, &task);
        if stake == Stake::Guest {
            // The end of this view is not the end of the task's input.
            params.eof = None;
        }
        let something = params.eof.is_some() || !params.text.is_empty() || params.base64.is_some();
        if detach_key.is_none() {
            if something && queue.send(params).await.is_err() {
                return Ok(Typed::End);
            }
        } else if something && matches!(queue.try_send(params), Err(mpsc::error::TrySendError::Full(_))) {
            screen::bell();
        }
        if key.is_some() {
            return Ok(Typed::DetachKey);
        }
        if eof {
            return Ok(Typed::End);
        }
    }
}

/// Sends what was read, in its order, until the first that is refused, or of which nobody can say whether it arrived: a
/// daemon may have ended with it. Nothing is sent twice.
async fn send(
    line: Arc<Lasting>,
    mut queued: mpsc::Receiver<TaskWriteParams>,
    probe: Option<TaskWriteParams>,
) -> Result<(), Error> {
    if let Some(probe) = probe {
        line.call::<TaskWrite>(probe).await?;
    }
    while let Some(params) = queued.recv().await {
        let mut life = line.life().await;
        if !life.client.is_connected() {
            line.renew(&life).await?;
            life = line.life().await;
        }
        life.client.call::<TaskWrite>(params).await?;
    }
    Ok(())
}

/// Takes what can be sent: text up to the last whole character, bytes where it is no text.
fn chunk(rest: &mut Vec<u8>, eof: bool, task: &str) -> TaskWriteParams {
    let mut params =
        TaskWriteParams { task_id: task.to_owned(), eof: eof.then_some(true), ..TaskWriteParams::default() };
    let cut = match std::str::from_utf8(rest) {
        Ok(_) => Some(rest.len()),
        Err(error) if error.error_len().is_none() && !eof => Some(error.valid_up_to()),
        Err(_) => None,
    };
    let whole = rest.drain(..cut.unwrap_or(rest.len())).collect::<Vec<u8>>();
    match (cut, String::from_utf8(whole)) {
        (Some(_), Ok(text)) => params.text = text,
        (_, Ok(text)) => params.base64 = Some(base64::engine::general_purpose::STANDARD.encode(text)),
        (_, Err(error)) => {
            params.base64 = Some(base64::engine::general_purpose::STANDARD.encode(error.as_bytes()));
        }
    }
    params
}

/// What the system told us.
#[derive(Clone, Copy, Debug)]
enum Received {
    Resized,
    End(Exit),
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    resized: Signal,
    /// How many asked for an end.
    count: u32,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            resized: signal(SignalKind::window_change())?,
            count: 0,
        })
    }

    async fn next(&mut self) -> Received {
        let received = tokio::select! {
            _ = self.interrupt.recv() => Received::End(Exit::INTERRUPTED),
            _ = self.terminate.recv() => Received::End(Exit::TERMINATED),
            _ = self.hangup.recv() => Received::End(Exit(129)),
            _ = self.resized.recv() => Received::Resized,
        };
        self.count += u32::from(matches!(received, Received::End(_)));
        received
    }
}

/// Whether an error arose in what is printed here, and not at the daemon.
fn is_ours(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some()
}

/// Whether an error only says that a reader of ours went away.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Whether the daemon is what failed.
pub(crate) fn is_gone(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<Error>(), Some(Error::Closed | Error::Gone { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// cli.md, `exec -i`: a character that was cut in two by a read arrives whole; what is no text goes as bytes.
    #[test]
    fn input_is_cut_between_characters() {
        let mut rest = "aä".as_bytes()[..2].to_vec();
        assert_eq!(chunk(&mut rest, false, "t").text, "a");
        assert_eq!(rest, [0xc3]);
        rest.push(0xa4);
        assert_eq!(chunk(&mut rest, false, "t").text, "ä");
        rest.extend([0xff, b'x']);
        let bytes = chunk(&mut rest, false, "t");
        assert_eq!((bytes.text.as_str(), bytes.base64.as_deref()), ("", Some("/3g=")));
        rest.push(0xc3);
        let last = chunk(&mut rest, true, "t");
        assert_eq!((last.eof, last.base64.as_deref()), (Some(true), Some("ww==")));
    }
}
