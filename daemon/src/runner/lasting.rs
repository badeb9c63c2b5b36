//! What a shim is to be told on every connection, and what became of it: a stop, a terminal's size, and that no more
//! output is kept.
//!
//! It is noted before it is sent, and said again after each hello: a connection may break between the two. Commands
//! come at any time, while a shim starts or is looked for as well, so a stop's grace is counted here and not by the
//! shim alone.

use std::time::Duration;

use ccagent_proto::{Error, Kind, Millis, TaskId};
use ccagent_shim::wire::{DaemonLine, ResizeError, State};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Command;

/// What holds for the rest of the attempt.
#[derive(Debug, Default)]
pub(super) struct Lasting {
    stop: Option<Stop>,
    size: Option<(u16, u16)>,
    /// Who waits for the size to be taken.
    waiting: Vec<oneshot::Sender<Result<(), Error>>>,
    /// Whether the shim is older than the daemon, and says nothing of sizes.
    takes_silently: bool,
    /// Whether no more output is to be kept.
    closed: bool,
    /// Whether the shim knows how to; an older one would hang up.
    closes: bool,
}

#[derive(Debug)]
struct Stop {
    grace: Millis,
    /// The end of the grace, until it was made use of.
    deadline: Option<Instant>,
}

impl Lasting {
    /// Notes a command; of several stops the one with the smallest grace, of several sizes the last.
    pub(super) fn note(&mut self, command: Command) {
        match command {
            Command::Stop(grace) => {
                let grace = self.stop.as_ref().map_or(grace, |known| known.grace.min(grace));
                let asked = self.stop.as_ref().and_then(|known| known.deadline);
                let fresh = Instant::now().checked_add(Duration::from_millis(grace));
                self.stop = Some(Stop { grace, deadline: asked.into_iter().chain(fresh).min() });
            }
            Command::CloseOutput => self.closed = true,
            Command::Resize { cols, rows, reply } => {
                self.size = Some((cols, rows));
                self.waiting.retain(|reply| !reply.is_closed());
                self.waiting.push(reply);
            }
        }
    }

    /// Whether a stop was asked for.
    pub(super) fn is_stop_asked(&self) -> bool {
        self.stop.is_some()
    }

    /// Whether a shim owes an answer to any of it.
    pub(super) fn owes(&self) -> bool {
        self.stop.is_some() || !self.waiting.is_empty()
    }

    /// Returns when the grace of a stop is over, once for each time that one is asked for.
    pub(super) async fn overdue(&mut self) {
        let Some((stop, deadline)) = self.stop.as_mut().and_then(|stop| stop.deadline.map(|at| (stop, at)))
        else {
            return std::future::pending().await;
        };
        tokio::time::sleep_until(deadline).await;
        stop.deadline = None;
    }

    /// The shim says what it knows.
    pub(super) fn greeted(&mut self, state: &State) {
        self.takes_silently = !state.answers_resize;
        self.closes = state.closes_output;
    }

    /// All of it is on its way to the shim: one that says nothing of a size has it, as far as can be told.
    pub(super) fn said(&mut self) {
        if self.takes_silently {
            for reply in self.waiting.drain(..) {
                drop(reply.send(Ok(())));
            }
        }
    }

    /// What to say after a hello. Whether the shim has heard it before is not asked: another stop changes nothing
    /// but an earlier deadline, and a kill may be missing where the stop before it is known.
    pub(super) fn lines(&self) -> impl Iterator<Item = DaemonLine> {
        let stop = self.stop.as_ref().map(|stop| match stop.grace {
            0 => DaemonLine::Kill {},
            grace_ms => DaemonLine::Stop { grace_ms },
        });
        let close = (self.closed && self.closes).then_some(DaemonLine::CloseOutput {});
        stop.into_iter().chain(close).chain(self.size.map(|(cols, rows)| DaemonLine::Resize { cols, rows }))
    }

    /// The shim says what became of a size. One that was replaced meanwhile is not waited for any more.
    pub(super) fn resized(&mut self, task: TaskId, size: (u16, u16), error: Option<ResizeError>) {
        if self.size != Some(size) {
            return;
        }
        let refused = |why: &str| {
            let error =
                Error::new(Kind::InvalidParams, format!("the terminal of {task} has no new size: {why}"));
            Err(error.with("path", "taskId").with("taskId", task.to_string()))
        };
        for reply in std::mem::take(&mut self.waiting) {
            // Who does not wait any more is not told.
            drop(reply.send(match error {
                None => Ok(()),
                Some(ResizeError::NoTerminal) => refused("it has none; spawn with stdin: \"pty\""),
                Some(ResizeError::Refused) => refused("the system does not take this one"),
            }));
        }
        if error.is_some() {
            self.size = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resize(cols: u16) -> (Command, oneshot::Receiver<Result<(), Error>>) {
        let (reply, answer) = oneshot::channel();
        (Command::Resize { cols, rows: 24, reply }, answer)
    }

    /// D54, I4: over a broken connection no stop is lost, and a kill is not forgotten for the stop before it.
    #[tokio::test(start_paused = true)]
    async fn the_hardest_stop_is_said_again_after_each_hello() {
        let mut lasting = Lasting::default();
        assert_eq!(lasting.lines().count(), 0);
        for (command, said) in [
            (Command::Stop(5000), DaemonLine::Stop { grace_ms: 5000 }),
            (Command::Stop(9000), DaemonLine::Stop { grace_ms: 5000 }),
            (Command::Stop(0), DaemonLine::Kill {}),
            (Command::Stop(5000), DaemonLine::Kill {}),
        ] {
            lasting.note(command);
            assert_eq!(lasting.lines().collect::<Vec<_>>(), [said]);
        }
        lasting.note(resize(80).0);
        assert_eq!(lasting.lines().last(), Some(DaemonLine::Resize { cols: 80, rows: 24 }));
    }

    /// I4, D53: a grace ends at the earliest of its ends, is told once, and again when somebody asks again.
    #[tokio::test(start_paused = true)]
    async fn a_grace_ends_once_for_each_stop() {
        let mut lasting = Lasting::default();
        let asked = Instant::now();
        lasting.note(Command::Stop(5000));
        lasting.note(Command::Stop(u64::MAX));
        lasting.overdue().await;
        assert_eq!(asked.elapsed(), Duration::from_secs(5));
        assert!(futures_util::FutureExt::now_or_never(lasting.overdue()).is_none());
        lasting.note(Command::Stop(0));
        lasting.overdue().await;
        assert_eq!(asked.elapsed(), Duration::from_secs(5));
    }

    /// I2, CD-03: sizes that nobody took yet are one, the last; all who asked hear of it when it is taken.
    #[tokio::test]
    async fn the_last_size_counts_and_answers_all() {
        let task: TaskId = "agent_01890000-0000-7000-8000-0000000000ff".parse().unwrap();
        let mut lasting = Lasting::default();
        let ((first, one), (second, two)) = (resize(80), resize(90));
        lasting.note(first);
        lasting.note(second);
        assert!(lasting.owes());
        lasting.resized(task, (80, 24), None);
        assert!(lasting.owes(), "another one is on its way");
        lasting.resized(task, (90, 24), None);
        assert_eq!((one.await.unwrap(), two.await.unwrap(), lasting.owes()), (Ok(()), Ok(()), false));
        let (third, three) = resize(70);
        lasting.note(third);
        lasting.said();
        assert!(lasting.owes(), "the shim answers");
        lasting.resized(task, (70, 24), Some(ResizeError::NoTerminal));
        assert_eq!(three.await.unwrap().unwrap_err().kind, Kind::InvalidParams);
        assert_eq!(lasting.lines().count(), 0);
    }

    /// I8, SV-07: that no more output is kept is said after each hello, to a shim that says that it knows the words.
    #[tokio::test]
    async fn output_is_closed_where_the_shim_knows_how() {
        let old = r#"{"outputBytes":0,"outputTruncated":false,"descendants":1}"#;
        let mut lasting = Lasting::default();
        lasting.note(Command::CloseOutput);
        let mut state: State = serde_json::from_str(old).unwrap();
        for closes in [false, true] {
            state.closes_output = closes;
            lasting.greeted(&state);
            let said = lasting.lines().filter(|line| *line == DaemonLine::CloseOutput {}).count();
            assert_eq!((said, lasting.owes()), (usize::from(closes), false));
        }
    }

    /// SV-07, CD-03: under a shim that is older than the daemon, which answers no size, it is taken once it was said.
    #[tokio::test]
    async fn a_size_is_not_waited_for_under_an_older_shim() {
        let state = r#"{"outputBytes":0,"outputTruncated":false,"descendants":1}"#;
        let mut lasting = Lasting::default();
        let (early, one) = resize(80);
        lasting.note(early);
        lasting.greeted(&serde_json::from_str(state).unwrap());
        lasting.said();
        let (late, two) = resize(90);
        lasting.note(late);
        lasting.said();
        assert_eq!((one.await.unwrap(), two.await.unwrap(), lasting.owes()), (Ok(()), Ok(()), false));
        assert_eq!(lasting.lines().last(), Some(DaemonLine::Resize { cols: 90, rows: 24 }));
    }
}
