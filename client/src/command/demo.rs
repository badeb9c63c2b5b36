//! `demo`: what ccagent does, shown with three agents that are real programs, in an instance of its own.
//!
//! ```text
//! ann       a teammate in a process of its own: joins a team over the socket and answers a message
//! stubborn  ignores TERM, and so does its grandchild in a session of its own: stopped all the same
//! writer    writes a file and commits it to git
//! ```
//!
//! Every claim is checked against the system, not against what the daemon says; one that is wrong fails the demo.

mod act;
mod stage;
mod teammate;

use std::io::Write;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::exit::{Exit, Stop};
use stage::Stage;
pub(super) use teammate::{Args as TeammateArgs, run as teammate};

/// The longest that the demo may take.
const LIMIT: Duration = Duration::from_secs(20);

pub(super) async fn run() -> anyhow::Result<Exit> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let stage = Stage::set()?;
    let played = tokio::select! {
        played = tokio::time::timeout(LIMIT, act::play(&stage)) => played.unwrap_or_else(|_| {
            Err(Stop::new(Exit::TIMEOUT, "the demo took too long").into())
        }),
        _ = interrupt.recv() => Err(Stop::new(Exit::INTERRUPTED, "interrupted").into()),
        _ = terminate.recv() => Err(Stop::new(Exit::TERMINATED, "terminated").into()),
    };
    // Cleared in any case, so that a demo that went wrong leaves nothing behind either.
    let cleared = stage.clear(played.is_err()).await;
    played?;
    cleared?;
    say("\nAll of it was as said. Next: ccagentctl exec -- YOUR PROGRAM, or ccagentctl --help");
    Ok(Exit::OK)
}

/// Prints of the story; whether somebody reads it changes nothing of what is played and cleared away.
fn story(text: std::fmt::Arguments<'_>) {
    writeln!(anstream::stdout(), "{text}").ok();
}

/// A line of the story.
fn say(line: &str) {
    story(format_args!("{line}"));
}

/// A claim that was checked and holds.
fn holds(line: &str) {
    let style = anstyle::AnsiColor::Green.on_default();
    story(format_args!("{style}  ok{style:#}  {line}"));
}

/// Checks a claim: says it where it holds, fails where it doesn't.
fn claim(line: &str, true_: bool) -> anyhow::Result<()> {
    if true_ {
        holds(line);
        return Ok(());
    }
    Err(Stop::new(Exit::FAILED, format!("not so: {line}")).into())
}

/// A headline of the story.
fn headline(line: &str) {
    let style = anstyle::Style::new().bold();
    story(format_args!("\n{style}{line}{style:#}"));
}
