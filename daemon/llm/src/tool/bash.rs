//! `Bash`: a command in a shell, with all that it starts on a tether.
//!
//! ```text
//! start ─▶ output, until the shell ends ─▶ nothing of it goes on ─▶ result
//!   │                  │                └─▶ some goes on: kept until the agent's end ─▶ result
//!   │                  └── time is up, or a stop: the tree is ended ─▶ result
//!   └── can't start: why
//! ```
//!
//! The directory in which a command ended is where the next one begins. Variables and functions are not kept: each
//! command has a shell of its own. A command for the background is no concern of this file: the host runs it.

mod kept;
mod left;
mod script;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use ccagent_shim::confined;
use ccagent_shim::wire::{LeaderEnd, Stderr, TetherSpec};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

use super::{Access, Beat, Context, Outcome, Spec, Tool, field};
use crate::host::Background;
use crate::quote;
use crate::tether::{LeaderEnded, Tether, TetherError};
use kept::Kept;
pub use left::Left;
use script::Script;

/// How long a command may take unless the call says otherwise, and at most.
const TIMEOUT: Duration = Duration::from_mins(2);
const TIMEOUT_MOST: Duration = Duration::from_mins(10);
/// Where a shell is looked for that was told of no place.
const PATH: &str = "/bin:/usr/bin";
/// Between TERM and KILL.
const GRACE: Duration = Duration::from_secs(2);
/// Room for what is said behind the output.
const NOTE: usize = 1000;
/// Most bytes read after a shell's end: what a pipe can hold.
const LAST_WORDS: usize = 1 << 20;

const DESCRIPTION: &str = "
Runs a command in a shell of its own (bash, or sh where there is none) and gives its output, stdout and stderr \
together, and its exit code where that is not 0. There is no input. The working directory is kept for the next call; \
variables are not. It may take 120 seconds unless timeout says otherwise, then it is ended with all that it started. \
What it leaves running with & goes on until you are done. With run_in_background it becomes a task of its own, and \
the call gives its id at once. To read, change and find files the other tools are better.";

/// Runs a command in a shell.
#[derive(Debug)]
pub struct Bash;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The command.
    command: String,
    /// Milliseconds that it may take, 600000 at most.
    #[serde(default)]
    timeout: Option<u64>,
    /// What it does, in a few words.
    #[serde(default)]
    description: Option<String>,
    /// Whether it becomes a task of its own.
    #[serde(default)]
    run_in_background: bool,
}

impl Tool for Bash {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<Input>("Bash", DESCRIPTION)
    }

    fn access(&self, _: &Value) -> Access {
        Access::Runs
    }

    fn summary(&self, input: &Value) -> String {
        field(input, "command")
    }

    fn call<'a>(&'a self, context: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        async move {
            let input: Input = super::read(input)?;
            if input.command.contains('\0') {
                return Err(Outcome::error("The command holds a NUL, which no shell takes."));
            }
            let timeout = timeout(input.timeout)?;
            if input.run_in_background {
                return background(context, input).await;
            }
            run(context, &input.command, timeout).await
        }
        .map(super::settle)
        .boxed()
    }
}

fn timeout(given: Option<u64>) -> Result<Duration, Outcome> {
    match given.map_or(TIMEOUT, Duration::from_millis) {
        Duration::ZERO => {
            Err(Outcome::error("A timeout of 0 leaves no time: give at least 1, in milliseconds."))
        }
        most if most > TIMEOUT_MOST => Err(Outcome::error(format!(
            "The timeout is {} ms at most: use run_in_background for what takes longer.",
            TIMEOUT_MOST.as_millis()
        ))),
        timeout => Ok(timeout),
    }
}

async fn background(context: &Context, input: Input) -> Result<Outcome, Outcome> {
    let Input { command, description, .. } = input;
    let command = Background { command, description, cwd: context.cwd() };
    let id = context.host.background(command).await.map_err(Outcome::error)?;
    Ok(Outcome::ok(format!("It runs in the background as task {id}; you are told when it ends.")))
}

async fn run(context: &Context, command: &str, timeout: Duration) -> Result<Outcome, Outcome> {
    let failed = |error: io::Error| Outcome::error(format!("The shell can't be started: {error}"));
    let mut notes = Vec::new();
    let cwd = script::standing(&context.cwd());
    if cwd != context.cwd() {
        notes.push(format!("{} is gone: this ran in {}.", context.cwd().display(), cwd.display()));
    }
    let script = Script::new(command, &context.temp).await.map_err(failed)?;
    let (mut tether, mut output) = start(context, &script, &cwd).await?;
    let most = context.most - NOTE.min(context.most / 2);
    let mut kept = Kept::new(most);
    let ended = tokio::select! {
        biased;
        () = context.stop.cancelled() => Err("The command was stopped with the agent."),
        // Before the output, which may never leave a moment for anything else.
        () = tokio::time::sleep(timeout) => Err("The command's time was up: it was ended, with all that it started."),
        ended = until_end(&mut tether, &mut output, (&mut kept, &context.beat)) => ended.map_err(|_| {
            "The command's supervisor was killed: whether it ended is not known. Look before you repeat it."
        }),
    };
    let is_error = match ended {
        Err(why) => {
            tether.stop(GRACE).await;
            last_words(&output, &mut kept);
            notes.push(format!("{why} (timeout {} ms)", timeout.as_millis()));
            true
        }
        Ok(LeaderEnded { end, remaining }) => {
            last_words(&output, &mut kept);
            notes.extend(said_of(end));
            notes.extend(go_on(context, script, cwd).await);
            notes.extend(context.left.keep(tether, output, remaining).await);
            end.code != Some(0)
        }
    };
    Ok(Outcome { text: text(kept, &notes, most), is_error, ..Outcome::default() })
}

/// Starts the shell that there is.
async fn start(context: &Context, script: &Script, cwd: &Path) -> Result<(Tether, Receiver), Outcome> {
    let argv = [shell(context), "-c", script.text()].map(str::to_owned).to_vec();
    let spec = TetherSpec {
        argv: confined::argv(&context.shim, &context.writable, argv),
        env: context.env.clone(),
        cwd: cwd.to_owned(),
        stderr: Stderr::Stdout,
        grace_ms: u64::try_from(GRACE.as_millis()).unwrap_or(u64::MAX),
        open_files: None,
    };
    let started = tethered(&context.shim, &spec).await;
    started.map_err(|error| Outcome::error(format!("The command can't be run: {error}")))
}

/// bash, where it can be found.
fn shell(context: &Context) -> &'static str {
    let path = context.env.get("PATH").map_or(PATH, String::as_str);
    let found = std::env::split_paths(path).any(|dir| dir.join("bash").is_file());
    if found { "bash" } else { "sh" }
}

async fn tethered(shim: &Path, spec: &TetherSpec) -> Result<(Tether, Receiver), TetherError> {
    let (ours, childs) = io::pipe()?;
    let tether = Tether::start(shim, spec, Stdio::null(), childs.into()).await?;
    Ok((tether, Receiver::from_owned_fd(ours.into())?))
}

/// Takes the output until the shell has ended.
async fn until_end(
    tether: &mut Tether,
    output: &mut Receiver,
    (kept, beat): (&mut Kept, &Beat),
) -> io::Result<LeaderEnded> {
    let mut buffer = vec![0; 64 << 10];
    let mut open = true;
    loop {
        tokio::select! {
            biased;
            ended = tether.leader() => return ended,
            read = output.read(&mut buffer), if open => match read {
                Ok(0) | Err(_) => open = false,
                Ok(read) => {
                    beat.felt();
                    kept.add(&buffer[..read]);
                }
            },
        }
    }
}

/// Takes what is in the pipe by now, past the runtime: that may not have heard of it yet.
fn last_words(output: &Receiver, kept: &mut Kept) {
    let mut buffer = vec![0; 64 << 10];
    let mut taken = 0;
    while taken < LAST_WORDS
        && let Ok(read @ 1..) = rustix::io::read(output, &mut buffer)
    {
        kept.add(&buffer[..read]);
        taken += read;
    }
}

fn said_of(end: LeaderEnd) -> Option<String> {
    match end {
        LeaderEnd { code: Some(0), .. } => None,
        LeaderEnd { code: Some(code), .. } => Some(format!("Exit code {code}")),
        LeaderEnd { code: None, signal } => {
            Some(format!("It was ended by signal {}", signal.unwrap_or_default()))
        }
    }
}

/// Goes to where the command went; says so where that is news.
async fn go_on(context: &Context, script: Script, before: PathBuf) -> Option<String> {
    let after = script.ended_in().await.unwrap_or_else(|| before.clone());
    let gone = script::standing(&after) != after;
    let now = if gone { before.clone() } else { after.clone() };
    let note = if gone {
        Some(format!("{} is gone: the next command begins in {}.", after.display(), now.display()))
    } else {
        (now != before).then(|| format!("The working directory is now {}", now.display()))
    };
    *context.cwd.lock().unwrap_or_else(PoisonError::into_inner) = now;
    note
}

fn text(kept: Kept, notes: &[String], most: usize) -> String {
    let said = kept.into_text();
    let mut text = quote::plain(&said);
    if text.len() > said.len() {
        let mut kept = Kept::new(most);
        kept.add(text.as_bytes());
        text = kept.into_text();
    }
    if text.is_empty() && notes.is_empty() {
        text.push_str("[no output]");
    }
    for note in notes {
        if !text.is_empty() {
            text.push('\n');
        }
        text.extend(["[", note, "]"]);
    }
    text
}

#[cfg(test)]
mod tests;
