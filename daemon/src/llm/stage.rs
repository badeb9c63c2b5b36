//! Where agents run: all of them in one task of the runtime, a few at a time, so that who calls the daemon waits for a few
//! agents at most, and not for all that are ready to go on.
//!
//! ```text
//! runtime ─▶ connections, driver, …, stage ─▶ a few agents, those that wait the longest
//!              ▲                         │
//!              └──────── the next ───────┘
//! ```

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, poll_fn};
use futures_util::stream::{FuturesUnordered, Stream as _};
use futures_util::task::AtomicWaker;
use tokio::sync::mpsc;
use tokio::task::yield_now;

use crate::panic;

/// Agents that go on before others do.
const AT_ONCE: usize = 16;

/// The task in which all run; it is there from the first one on.
#[derive(Debug, Default)]
pub(super) struct Stage {
    // As many as there are slots: whoever sends was let in by the core.
    enter: OnceLock<mpsc::UnboundedSender<BoxFuture<'static, ()>>>,
}

impl Stage {
    /// Runs an agent to its end.
    pub(super) fn enter(&self, run: BoxFuture<'static, ()>) {
        let enter = self.enter.get_or_init(|| {
            let (enter, entering) = mpsc::unbounded_channel();
            tokio::spawn(play(entering));
            enter
        });
        // Nobody else's end: what a run leaves to be caught here is not its own work, which has a guard of its own.
        let guarded = AssertUnwindSafe(run).catch_unwind().map(|ended| {
            if let Err(cause) = ended {
                tracing::error!(cause = panic::text(&*cause), "the end of an agent's run panicked");
            }
        });
        if enter.send(guarded.boxed()).is_err() {
            tracing::warn!("an agent came after the end of all");
        }
    }
}

/// An agent that waits for its turn when a few had theirs.
struct InTurn {
    run: BoxFuture<'static, ()>,
    left: Arc<AtomicUsize>,
}

impl Future for InTurn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // All are polled by one thread at a time.
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.left.store(left - 1, Ordering::Relaxed);
        self.run.as_mut().poll(cx)
    }
}

/// Whether some agent is ready to go on. It wakes the stage only where that sleeps: one that gives way comes back by itself.
#[derive(Debug, Default)]
struct Ready {
    some: AtomicBool,
    stage: AtomicWaker,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.some.store(true, Ordering::Release);
        self.stage.wake();
    }
}

async fn play(mut entering: mpsc::UnboundedReceiver<BoxFuture<'static, ()>>) {
    let (left, ready) = (Arc::new(AtomicUsize::new(0)), Arc::new(Ready::default()));
    let waker = ready.clone().into();
    let mut all = FuturesUnordered::new();
    let mut is_open = true;
    while is_open || !all.is_empty() {
        poll_fn(|cx| {
            while is_open && let Poll::Ready(came) = entering.poll_recv(cx) {
                match came {
                    Some(run) => all.push(InTurn { run, left: left.clone() }),
                    None => is_open = false,
                }
            }
            ready.stage.take();
            ready.some.store(false, Ordering::Release);
            left.store(AT_ONCE, Ordering::Relaxed);
            while let Poll::Ready(Some(())) = Pin::new(&mut all).poll_next(&mut Context::from_waker(&waker)) {
            }
            ready.stage.register(cx.waker());
            let goes_on = ready.some.load(Ordering::Acquire) || !is_open && all.is_empty();
            if goes_on { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        ready.stage.take();
        // Behind all that is ready by now, and what the network has for it.
        yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SV-09: whoever else has something to do waits for a few agents, however many are ready; and each agent has its turn.
    #[tokio::test]
    async fn others_wait_for_a_few_agents_only() {
        const AGENTS: usize = 500;
        const TURNS: usize = 20;
        let (stage, went) = (Stage::default(), Arc::new(AtomicUsize::new(0)));
        let (done, mut ended) = mpsc::unbounded_channel();
        for agent in 0..AGENTS {
            let (went, done) = (went.clone(), done.clone());
            stage.enter(Box::pin(async move {
                for _ in 0..TURNS {
                    went.fetch_add(1, Ordering::Relaxed);
                    yield_now().await;
                }
                done.send(agent).unwrap();
            }));
        }
        drop(done);
        let (mut before, mut most) = (0, 0);
        while went.load(Ordering::Relaxed) < AGENTS * TURNS {
            yield_now().await;
            let now = went.load(Ordering::Relaxed);
            most = most.max(now - before);
            before = now;
        }
        assert!((1..=AT_ONCE).contains(&most), "{most} went on at once");
        let mut all = Vec::new();
        while let Some(agent) = ended.recv().await {
            all.push(agent);
        }
        all.sort_unstable();
        assert!(all.into_iter().eq(0..AGENTS));
    }

    /// TS-13: one that panics is nobody else's end.
    #[tokio::test]
    async fn one_that_panics_ends_alone() {
        let stage = Stage::default();
        let (done, ended) = tokio::sync::oneshot::channel();
        stage.enter(Box::pin(async { panic!("there is no end") }));
        stage.enter(Box::pin(async move {
            yield_now().await;
            done.send(()).unwrap();
        }));
        ended.await.unwrap();
    }
}
