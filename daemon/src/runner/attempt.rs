//! One attempt, from its start or its adoption to its end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ccagent_core::effect::Start;
use ccagent_core::input::{Ended, Report};
use ccagent_core::recovery::Survivor;
use ccagent_proto::TaskId;
use ccagent_proto::task::Exit;
use ccagent_shim::files;
use ccagent_shim::wire::{ExitRecord, StartReply};
use tokio::process::Child;
use tokio::time::Instant;

use super::control::{Close, Lasting};
use super::input::Input;
use super::look::{self, Look, Over};
use super::{Inner, Orders, launch, lost, tail};
use crate::hub::Key;

/// What an attempt's future knows.
pub(super) struct Attempt {
    pub(super) inner: Arc<Inner>,
    pub(super) task: TaskId,
    pub(super) number: u32,
    pub(super) directory: String,
    pub(super) control: Box<str>,
    pub(super) lasting: Lasting,
    pub(super) input: Input,
    origin: Origin,
    child: Option<Child>,
}

/// Who asked for an attempt: that decides what it means when no shim has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// This daemon: then its start failed.
    Now,
    /// A daemon before this one: then it was never started, and may be.
    Before,
}

/// Starts an attempt and stays with it.
pub(super) async fn start(inner: Arc<Inner>, start: Start, orders: Orders) {
    let mut attempt = Attempt::new(inner, survivor(&start), Origin::Now);
    match launch::launch(&attempt.inner, &start).await {
        Ok((child, StartReply::Started { pid, .. })) => {
            attempt.child = Some(child);
            attempt.report(Report::Started { pid: pid.unsigned_abs() }).await;
            attempt.supervise(orders).await;
        }
        // A shim of the daemon before this one was quicker: it is the one that counts.
        Ok((
            mut child,
            StartReply::Failed { kind: ccagent_shim::wire::StartErrorKind::AlreadyClaimed, .. },
        )) => {
            drop(child.wait().await);
            attempt.adopt(orders).await;
        }
        Ok((mut child, StartReply::Failed { kind, message, .. })) => {
            drop(child.wait().await);
            let cause = serde_json::to_value(kind).ok().and_then(|value| value.as_str().map(str::to_owned));
            attempt.report(Report::StartFailed { cause: cause.unwrap_or_default(), message }).await;
        }
        // Whether something was started is not known: the files tell.
        Err(error) => attempt.unanswered(&error, orders).await,
    }
}

/// What has to be known of an attempt to take it up again.
pub(super) fn survivor(start: &Start) -> Survivor {
    Survivor {
        task: start.task,
        attempt: start.attempt,
        directory: start.directory.clone(),
        control: start.control.clone(),
    }
}

/// Finds an attempt by its files: a survivor of another daemon's life, or what is left of it.
pub(super) async fn adopt(inner: Arc<Inner>, survivor: Survivor, origin: Origin, orders: Orders) {
    Attempt::new(inner, survivor, origin).adopt(orders).await;
}

impl Attempt {
    fn new(inner: Arc<Inner>, survivor: Survivor, origin: Origin) -> Self {
        Self {
            inner,
            task: survivor.task,
            number: survivor.attempt,
            directory: survivor.directory,
            control: survivor.control,
            lasting: Lasting::default(),
            input: Input::default(),
            origin,
            child: None,
        }
    }

    pub(super) fn dir(&self) -> PathBuf {
        launch::attempt_dir(&self.directory, self.number)
    }

    pub(super) async fn report(&self, what: Report) {
        self.inner.report(self.task, self.number, what).await;
    }

    async fn unanswered(self, error: &launch::LaunchError, orders: Orders) {
        let claimed = files::read_claim(&self.dir());
        if matches!(claimed, Ok(None)) {
            let source =
                std::error::Error::source(error).map_or_else(String::new, |source| format!(": {source}"));
            self.start_failed(format!("{error}{source}")).await;
        } else {
            self.adopt(orders).await;
        }
    }

    async fn start_failed(&self, message: String) {
        self.report(Report::StartFailed { cause: "other".to_owned(), message }).await;
    }

    /// Takes over an attempt by its files: its end, its shim, or nothing of it.
    async fn adopt(self, orders: Orders) {
        match look::at(&self.dir()).await {
            Look::Runs { shim, pid } => {
                self.inner.has_shim(self.task, self.number, u32::try_from(shim).ok());
                self.report(Report::Started { pid: pid.unsigned_abs() }).await;
                self.supervise(orders).await;
            }
            Look::Over(over) => self.over(over).await,
        }
    }

    /// Serves the control connection until the shim says that the tree is empty.
    async fn supervise(mut self, mut orders: Orders) {
        let mut pause = look::PAUSE;
        let over = loop {
            let began = Instant::now();
            let close = match self.connect().await {
                Ok(lines) => self.serve(lines, &mut orders).await,
                Err(error) => {
                    tracing::debug!(task = %self.task, %error, "no control connection");
                    Close::Broken
                }
            };
            self.input.cut();
            match close {
                Close::Exited(record) => break Over::Ended(record),
                Close::Broken => {}
            }
            match look::at(&self.dir()).await {
                Look::Over(over) => break over,
                Look::Runs { shim: _, pid: _ } => {
                    self.rest(pause, &mut orders).await;
                    pause = next_pause(pause, began.elapsed());
                }
            }
        };
        self.input.end(self.task);
        self.over(over).await;
    }

    /// Waits before the next try to connect, unless there is a reason to look again at once: the shim's end, or a
    /// command for it.
    async fn rest(&mut self, pause: Duration, orders: &mut Orders) {
        let shim = look::named(&self.dir());
        let ended = async {
            match shim {
                Some((pid, start)) => lost::ended(pid, start).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            Ok(()) = ended => {}
            Some(command) = orders.commands.recv() => self.lasting.note(&command),
        }
    }

    /// Reports how the attempt is over.
    async fn over(mut self, over: Over) {
        match over {
            Over::Ended(record) => {
                self.wait_for_shim().await;
                self.ended(&record).await;
            }
            Over::Lost(message) => {
                self.wait_for_shim().await;
                lost::end(&self, &message).await;
            }
            Over::OtherBoot => self.report(Report::MachineRestarted).await,
            Over::NeverClaimed => match self.origin {
                Origin::Now => self.start_failed("no shim took it up".to_owned()).await,
                Origin::Before => self.report(Report::NeverStarted).await,
            },
        }
    }

    /// The shim's process is gone before the end is reported: done means settled.
    async fn wait_for_shim(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.wait().await);
        } else if let Some((pid, start)) = look::named(&self.dir()) {
            lost::gone(pid, start).await;
        }
    }

    async fn ended(&self, record: &ExitRecord) {
        if let Some(delegated) = &self.inner.settings.cgroup {
            delegated.remove(self.task, self.number);
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

/// The pause after the next broken connection: longer each time, until a connection has held for a while.
fn next_pause(pause: Duration, held: Duration) -> Duration {
    if held > look::PAUSE_MOST { look::PAUSE } else { (pause * 2).min(look::PAUSE_MOST) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I8: a shim that hangs up again and again is not asked in a tight loop.
    #[test]
    fn tries_to_connect_become_rarer_until_one_holds() {
        let mut pause = look::PAUSE;
        for _ in 0..20 {
            let next = next_pause(pause, Duration::ZERO);
            assert!(next == pause * 2 || next == look::PAUSE_MOST);
            pause = next;
        }
        assert_eq!(pause, look::PAUSE_MOST);
        assert_eq!(next_pause(pause, look::PAUSE_MOST * 2), look::PAUSE);
    }
}
