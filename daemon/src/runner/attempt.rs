//! One attempt, from its start or its adoption to its end.
//!
//! At each of its steps it hears a stop: while its shim starts, while its files are read, while nobody answers. When
//! the grace is over and no connection carried it to the shim, the shim is ended, and what it leaves is as well.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ccagent_core::effect::{Asked, Start};
use ccagent_core::input::{Ended, Report};
use ccagent_core::recovery::Survivor;
use ccagent_core::task::Shim;
use ccagent_proto::TaskId;
use ccagent_proto::task::Exit;
use ccagent_shim::files;
use ccagent_shim::tree::Process;
use ccagent_shim::wire::{ExitRecord, StartErrorKind, StartReply};
use rustix::process::Signal;
use tokio::process::Child;
use tokio::time::Instant;

use super::control::Close;
use super::input::Input;
use super::lasting::Lasting;
use super::look::{self, Look, Over};
use super::silence::{self, signal};
use super::{Inner, Orders, launch, lost, tail};
use crate::hub::Key;

/// How long a shim that said its last may take to go.
const LAST_MOST: Duration = Duration::from_secs(10);

/// What is said where files name a shim that this daemon did not start, and no other daemon can have.
const FOREIGN: &str = "another program claimed this run in its directory";

/// What an attempt's future knows.
pub(super) struct Attempt {
    pub(super) inner: Arc<Inner>,
    pub(super) task: TaskId,
    pub(super) number: u32,
    pub(super) directory: String,
    pub(super) control: Box<str>,
    pub(super) lasting: Lasting,
    pub(super) input: Input,
    /// The shim that no file has to name, since it told us itself or the store knows it.
    known: Option<Shim>,
    /// The shim's process, known or found.
    pub(super) shim: Option<Process>,
    origin: Origin,
    /// What it means when nothing is on record of an attempt that was to start now.
    unclaimed: String,
    child: Option<Child>,
    /// Whether the shim was a child of ours: then all that it leaves comes to us. What one of an earlier daemon leaves
    /// goes to init, and who threw its marks away is like any other process there.
    pub(super) is_ours: bool,
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
pub(super) async fn start(inner: Arc<Inner>, start: Start, mut orders: Orders) {
    let mut attempt = Attempt::new(inner, survivor(&start), Origin::Now);
    let asked = attempt.inner.asked(&start);
    match launch::launch(&attempt.inner, &start, &mut attempt.lasting, &mut orders).await {
        Ok((child, StartReply::Started { shim_pid, shim_start, pid, .. })) => {
            attempt.child = Some(child);
            attempt.is_ours = true;
            let boot = attempt.inner.boot.clone();
            let shim = Shim { pid: shim_pid, start: shim_start, boot, leader: Some(pid) };
            attempt.known = Some(shim.clone());
            attempt.runs(shim, orders).await;
        }
        // A shim of the daemon before this one was quicker: it is the one that counts.
        Ok((child, StartReply::Failed { kind: StartErrorKind::AlreadyClaimed, .. }))
            if asked == Asked::Again =>
        {
            let_go(Some(child), None).await;
            attempt.inner.has_shim(attempt.task, attempt.number, None);
            attempt.adopt(orders).await;
        }
        Ok((child, StartReply::Failed { kind, message, .. })) => {
            let_go(Some(child), None).await;
            let foreign = kind == StartErrorKind::AlreadyClaimed;
            let message = if foreign { format!("{FOREIGN}: {message}") } else { message };
            attempt.start_failed(kind, message).await;
        }
        // Nothing was started, and of a start by the daemon before this one there is no record.
        Err(error)
            if error.is_before_shim() && (asked == Asked::First || look::named(&attempt.dir()).is_none()) =>
        {
            attempt.start_failed(error.kind(), error.to_string()).await;
        }
        // The shim that we started did not claim it, and no other one can have.
        Err(error) if asked == Asked::First && attempt.is_claimed_by_another() => {
            attempt.start_failed(StartErrorKind::AlreadyClaimed, format!("{FOREIGN}: {error}")).await;
        }
        // Whether something was started is not known: the files tell.
        Err(error) => {
            attempt.unclaimed = error.to_string();
            attempt.is_ours = !error.is_before_shim();
            attempt.adopt(orders).await;
        }
    }
}

/// What has to be known of an attempt to take it up again.
pub(super) fn survivor(start: &Start) -> Survivor {
    Survivor {
        task: start.task,
        attempt: start.attempt,
        directory: start.directory.clone(),
        control: start.control.clone(),
        shim: None,
    }
}

/// Finds an attempt by its files: a survivor of another daemon's life, or what is left of it.
pub(super) async fn adopt(inner: Arc<Inner>, survivor: Survivor, origin: Origin, orders: Orders) {
    Attempt::new(inner, survivor, origin).adopt(orders).await;
}

impl Attempt {
    fn new(inner: Arc<Inner>, survivor: Survivor, origin: Origin) -> Self {
        let of_this_boot = survivor.shim.as_ref().filter(|shim| shim.boot == inner.boot);
        Self {
            shim: of_this_boot.map(look::process),
            known: survivor.shim,
            inner,
            task: survivor.task,
            number: survivor.attempt,
            directory: survivor.directory,
            control: survivor.control,
            lasting: Lasting::default(),
            input: Input::default(),
            origin,
            unclaimed: "no shim took it up".to_owned(),
            child: None,
            is_ours: false,
        }
    }

    /// Whether the files name another shim than the one that was started for it.
    fn is_claimed_by_another(&self) -> bool {
        let ours = self.inner.agents().get(&self.task).and_then(|agent| agent.shim);
        look::named(&self.dir()).is_some_and(|shim| Some(shim.pid.unsigned_abs()) != ours)
    }

    pub(super) fn dir(&self) -> PathBuf {
        launch::attempt_dir(&self.directory, self.number)
    }

    pub(super) async fn report(&self, what: Report) {
        self.inner.report(self.task, self.number, what).await;
    }

    /// Takes over an attempt by its files: its end, its shim, or nothing of it.
    async fn adopt(mut self, mut orders: Orders) {
        match self.look(&mut orders).await {
            Look::Runs(shim) => {
                self.inner.has_shim(self.task, self.number, u32::try_from(shim.pid).ok());
                self.runs(shim, orders).await;
            }
            Look::Over(over) => self.over(over).await,
        }
    }

    /// Says who supervises the attempt, so that the next daemon need not believe a file, and stays with it.
    async fn runs(mut self, shim: Shim, orders: Orders) {
        self.shim = Some(look::process(&shim));
        let pid = shim.leader.unwrap_or_default().unsigned_abs();
        self.report(Report::Started { pid, shim }).await;
        self.supervise(orders).await;
    }

    /// What is known and what the files say; a stop does not wait for longer than its grace until they say something
    /// for sure.
    async fn look(&mut self, orders: &mut Orders) -> Look {
        let (dir, inner, task) = (self.dir(), self.inner.clone(), self.task);
        let is_shim = |process| inner.is_shim(task, process);
        let mut look = std::pin::pin!(look::at(&dir, self.known.as_ref(), &inner.boot, is_shim));
        loop {
            tokio::select! {
                look = &mut look => return look,
                Some(command) = orders.commands.recv() => self.lasting.note(command),
                () = self.lasting.overdue() => break,
            }
        }
        let named = || look::named(&dir).as_ref().map(look::process).filter(|shim| is_shim(*shim));
        self.shim = self.shim.or_else(named);
        if let Some(shim) = self.shim {
            signal(shim, Signal::KILL);
            lost::gone(shim).await;
            if let Some(over @ Look::Over(_)) = look::once(&dir, self.known.as_ref(), &inner.boot, is_shim) {
                return over;
            }
        }
        Look::Over(Over::Lost("its files can't be read".to_owned()))
    }

    /// Serves the control connection until the shim says that the tree is empty.
    async fn supervise(mut self, mut orders: Orders) {
        let mut pause = look::PAUSE;
        let over = loop {
            let began = Instant::now();
            let close = match self.connect() {
                Ok(lines) => self.serve(lines, &mut orders).await,
                Err(error) => {
                    tracing::debug!(task = %self.task, %error, "no control connection");
                    Close::Broken
                }
            };
            self.input.cut();
            self.inner.has_written(self.task, self.number, None);
            if let Close::Exited(record) = close {
                break Over::Said(record);
            }
            if self.is_shim_gone()
                && let Look::Over(over) = self.look(&mut orders).await
            {
                break over;
            }
            self.rest(pause, &mut orders).await;
            pause = next_pause(pause, began.elapsed());
        };
        self.input.end(self.task);
        self.over(over).await;
    }

    fn is_shim_gone(&self) -> bool {
        self.shim.is_none_or(|shim| files::same_process(shim.pid, shim.start_time) == files::Liveness::Gone)
    }

    /// Waits before the next try to connect, unless there is a reason to try again at once: the shim's end, or a
    /// command for it. A stop goes to a shim that can't be reached as a signal, which it takes for one, and when the
    /// grace is over it is ended.
    async fn rest(&mut self, pause: Duration, orders: &mut Orders) {
        let Some(shim) = self.shim else { return };
        if self.lasting.is_stop_asked() {
            signal(shim, Signal::TERM);
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = lost::gone(shim) => {}
            Some(command) = orders.commands.recv() => self.lasting.note(command),
            () = self.lasting.overdue() => {
                tracing::warn!(pid = shim.pid, "a shim that can't be reached is ended");
                signal(shim, Signal::KILL);
            }
        }
    }

    /// Reports how the attempt is over.
    async fn over(mut self, over: Over) {
        match over {
            Over::Said(record) => {
                self.wait_for_shim().await;
                self.ended(record).await;
            }
            Over::Ended(record) => {
                self.wait_for_shim().await;
                if lost::left_traces(&self).await {
                    return lost::end(&self, "its shim is gone, and its record of an end was not true").await;
                }
                self.ended(record).await;
            }
            Over::Lost(message) => {
                self.wait_for_shim().await;
                lost::end(&self, &message).await;
            }
            Over::OtherBoot if lost::left_traces(&self).await => {
                lost::end(&self, "its files name another boot than its own").await;
            }
            Over::OtherBoot => self.report(Report::MachineRestarted).await,
            Over::NeverClaimed => self.never_claimed().await,
        }
    }

    /// Nothing is on record of an attempt: it never began, or its files were deleted under it (I6).
    async fn never_claimed(&self) {
        if lost::left_traces(self).await {
            return lost::end(self, "its files are gone").await;
        }
        match self.origin {
            Origin::Now if self.lasting.is_stop_asked() => {
                self.remove_group();
                self.report(Report::ShimLost { message: "its start was ended".to_owned() }).await;
            }
            Origin::Now => self.start_failed(StartErrorKind::Other, self.unclaimed.clone()).await,
            Origin::Before => self.report(Report::NeverStarted).await,
        }
    }

    /// The shim's process is gone before the end is reported: done means settled (I3).
    async fn wait_for_shim(&mut self) {
        let_go(self.child.take(), self.shim).await;
    }

    async fn start_failed(&self, kind: StartErrorKind, message: String) {
        self.remove_group();
        let cause = serde_json::to_value(kind).ok().and_then(|value| value.as_str().map(str::to_owned));
        self.report(Report::StartFailed { cause: cause.unwrap_or_default(), message }).await;
    }

    /// Removes the attempt's cgroup, where it has one.
    pub(super) fn remove_group(&self) {
        if let Some(delegated) = &self.inner.settings.cgroup {
            delegated.remove(self.task, self.number);
        }
    }

    async fn ended(&self, record: ExitRecord) {
        if let Some(failed) = record.start_failed {
            return self.start_failed(failed.kind, failed.message).await;
        }
        self.remove_group();
        let path = PathBuf::from(&self.directory).join("output");
        let bytes = record.output_bytes;
        self.inner.has_written(self.task, self.number, Some(bytes));
        let tail = tokio::task::spawn_blocking(move || tail::of(&path, bytes)).await.ok().flatten();
        self.inner.hub.wake(&Key::Output(self.task));
        self.report(Report::Ended(Ended {
            exit: Exit { code: record.code, signal: record.signal },
            output_bytes: record.output_bytes,
            output_truncated: record.output_truncated,
            output_error: record.output_error.map(Into::into),
            tail,
            oom: record.oom,
        }))
        .await;
    }
}

/// Returns when a shim has ended. All that it has to say was said by then, so one that somebody keeps from ending is
/// ended. A tracer keeps the ended process as long as it likes, and may be of the very tree that is to go: that it is
/// collected is not waited for.
async fn let_go(child: Option<Child>, shim: Option<Process>) {
    let Some(shim) = shim.or_else(|| silence::process(child.as_ref()?.id()?)) else { return };
    let mut gone = std::pin::pin!(lost::gone(shim));
    if tokio::time::timeout(LAST_MOST, &mut gone).await.is_err() {
        tracing::warn!(pid = shim.pid, "a shim does not end");
        signal(shim, Signal::KILL);
        gone.await;
    }
    // Where a tracer has it still, the runtime collects it later.
    drop(child.map(|mut child| child.try_wait()));
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
