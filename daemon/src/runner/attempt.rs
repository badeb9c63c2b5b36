//! One attempt, from its start or its adoption to its end.

use std::path::PathBuf;
use std::sync::Arc;

use ccagent_core::effect::Start;
use ccagent_core::input::{Ended, Report};
use ccagent_proto::TaskId;
use ccagent_proto::task::Exit;
use ccagent_shim::files;
use ccagent_shim::wire::{ExitRecord, StartReply};
use tokio::process::Child;
use tokio::sync::mpsc;

use super::control::Close;
use super::look::{self, Look};
use super::{Command, Inner, launch, lost, tail};
use crate::hub::Key;

/// What an attempt's future knows.
pub(super) struct Attempt {
    pub(super) inner: Arc<Inner>,
    pub(super) task: TaskId,
    pub(super) number: u32,
    pub(super) directory: String,
    pub(super) control: Box<str>,
    child: Option<Child>,
}

/// Starts an attempt and stays with it.
pub(super) async fn start(inner: Arc<Inner>, start: Start, commands: mpsc::Receiver<Command>) {
    let mut attempt = Attempt {
        inner,
        task: start.task,
        number: start.attempt,
        directory: start.directory.clone(),
        control: start.control.clone(),
        child: None,
    };
    match launch::launch(&attempt.inner, &start).await {
        Ok((child, StartReply::Started { pid, .. })) => {
            attempt.child = Some(child);
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
        number: survivor.attempt,
        directory: survivor.directory,
        control: survivor.control,
        child: None,
    };
    attempt.adopt(commands).await;
}

impl Attempt {
    pub(super) fn dir(&self) -> PathBuf {
        launch::attempt_dir(&self.directory, self.number)
    }

    pub(super) async fn report(&self, what: Report) {
        self.inner.report(self.task, self.number, what).await;
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
        match look::at(&self.dir()).await {
            Look::Ended(record) => self.ended(&record).await,
            Look::Runs { shim, pid } => {
                self.inner.has_shim(self.task, self.number, u32::try_from(shim).ok());
                self.report(Report::Started { pid: pid.unsigned_abs() }).await;
                self.supervise(commands).await;
            }
            Look::Lost(message) => lost::end(&mut self, &message).await,
            Look::OtherBoot => self.report(Report::MachineRestarted).await,
            Look::NeverClaimed => self.report(Report::NeverStarted).await,
        }
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
            match look::at(&self.dir()).await {
                Look::Ended(record) => {
                    self.wait_for_shim().await;
                    return self.ended(&record).await;
                }
                Look::Runs { .. } => tokio::time::sleep(look::PAUSE).await,
                Look::Lost(message) => return lost::end(&mut self, &message).await,
                Look::OtherBoot => return self.report(Report::MachineRestarted).await,
                Look::NeverClaimed => return self.report(Report::NeverStarted).await,
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
