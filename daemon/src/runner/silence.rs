//! A shim that says nothing because its agent stopped it with a signal: it is let go on, and ended when that does not
//! help. An agent must not make itself unstoppable (D53, I4).

use std::time::Duration;

use ccagent_shim::tree::{self, Process, stat};
use rustix::process::Signal;
use tokio::time::Instant;

/// How long a shim may owe an answer before it is looked at.
pub(super) const OWED: Duration = Duration::from_secs(2);
/// How often a shim that was asked to stop is let go on before it is ended. No signal lifts the stop of a tracer: that
/// one has a single chance.
const CHANCES: u32 = 3;

/// What is known of a shim that owes an answer.
#[derive(Debug, Default)]
pub(super) struct Silence {
    since: Option<Instant>,
    chances: u32,
}

impl Silence {
    /// Returns when it is time to look at the shim; never, when it owes nothing.
    pub(super) async fn due(&mut self, owes: bool) {
        if !owes {
            *self = Self::default();
            return std::future::pending().await;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        tokio::time::sleep_until(since + OWED).await;
    }

    /// Looks at the shim: one that is stopped goes on, or is ended after some chances where an end was asked for.
    pub(super) fn look(&mut self, shim: Option<Process>, ends: bool) {
        self.since = Some(Instant::now());
        let Some(shim) = shim else { return };
        self.chances += match state(shim) {
            Some('T') => 1,
            Some('t') => CHANCES,
            _ => return,
        };
        let signal = if ends && self.chances > CHANCES { Signal::KILL } else { Signal::CONT };
        tracing::warn!(pid = shim.pid, ?signal, "a shim was stopped by a signal");
        self::signal(shim, signal);
    }
}

/// Sends a signal to a shim.
pub(super) fn signal(shim: Process, signal: Signal) {
    if let Err(error) = tree::send(shim, signal) {
        tracing::warn!(pid = shim.pid, %error, "the shim can't be signalled");
    }
}

/// The shim with a process id, as it is now.
pub(super) fn process(pid: u32) -> Option<Process> {
    stat::read(pid.cast_signed()).ok().flatten().map(|stat| stat.process())
}

/// What a process does, as a letter: `T` is stopped by a signal, `t` by a tracer. It is the third field of its `stat`,
/// proc(5).
fn state(process: Process) -> Option<char> {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", process.pid)).ok()?;
    text.rsplit_once(") ")?.1.chars().next()
}
