//! Forks of one conversation: the others' first requests wait until the answer to one of them has begun.
//!
//! ```text
//! cold ── one asks ──▶ asked ── its answer begins ──▶ warm: all ask
//!   ▲                    │
//!   └─── it gave up ─────┘   the next one asks
//! ```
//!
//! A provider has a beginning in its cache only once it has begun to answer to it. If all forks asked at once, each of
//! them would pay for the whole conversation. Deliberately not here: which forks are siblings; whoever starts them knows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::{Answer, Delta, Failure, Provider, Request, Sink};

/// The families of forks whose members run.
#[derive(Debug, Default)]
pub struct Siblings {
    families: Mutex<HashMap<String, Weak<Family>>>,
}

/// The forks of one conversation.
type Family = watch::Sender<State>;

/// How far the beginning that they have in common is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nobody asked with it, or whoever did gave up.
    #[default]
    Cold,
    /// One asks.
    Asked,
    /// The provider has it.
    Warm,
}

/// A provider, as one of several forks asks it.
#[derive(Debug)]
struct Held {
    provider: Arc<dyn Provider>,
    family: Arc<Family>,
}

/// The one that asks for the first time: what it leaves unfinished, the next one does.
#[derive(Debug)]
struct First<'a>(&'a Family);

impl Siblings {
    /// A provider for a fork of a conversation: it holds the fork back where a sibling goes first.
    pub fn hold(&self, conversation: &str, provider: Arc<dyn Provider>) -> Arc<dyn Provider> {
        let mut families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        let found = families.get(conversation).and_then(Weak::upgrade);
        let family = found.unwrap_or_else(|| {
            families.retain(|_, family| family.strong_count() > 0);
            let family = Arc::new(Family::default());
            families.insert(conversation.to_owned(), Arc::downgrade(&family));
            family
        });
        Arc::new(Held { provider, family })
    }
}

impl Held {
    /// Waits until it may ask; gives whether it is the first.
    async fn turn(&self) -> Option<First<'_>> {
        let mut state = self.family.subscribe();
        loop {
            let mut first = false;
            self.family.send_if_modified(|state| {
                first = *state == State::Cold;
                if first {
                    *state = State::Asked;
                }
                first
            });
            if first {
                return Some(First(&self.family));
            }
            // The sender is ours: it does not go away.
            let now = state.wait_for(|state| *state != State::Asked).await.map(|state| *state);
            if !matches!(now, Ok(State::Cold)) {
                return None;
            }
        }
    }
}

impl First<'_> {
    fn began(&self) {
        self.0.send_replace(State::Warm);
    }
}

impl Drop for First<'_> {
    fn drop(&mut self) {
        self.0.send_if_modified(|state| {
            let unfinished = *state == State::Asked;
            if unfinished {
                *state = State::Cold;
            }
            unfinished
        });
    }
}

impl Provider for Held {
    fn answer<'a>(&'a self, request: Request<'a>, sink: Sink<'a>) -> BoxFuture<'a, Result<Answer, Failure>> {
        async move {
            let first = self.turn().await;
            let mut notice = |delta: Delta<'_>| {
                if let (Some(first), Delta::Began) = (&first, delta) {
                    first.began();
                }
                sink(delta);
            };
            self.provider.answer(request, &mut notice).await
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Message, Usage};
    use crate::provider::Stop;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::{Semaphore, mpsc};

    /// A provider whose answers begin, and end, when a test says so.
    #[derive(Clone, Debug)]
    struct Slow {
        number: usize,
        gate: Arc<Gate>,
    }

    #[derive(Debug)]
    struct Gate {
        came: mpsc::UnboundedSender<usize>,
        begin: Semaphore,
        end: Semaphore,
        fails: AtomicUsize,
    }

    impl Provider for Slow {
        fn answer<'a>(&'a self, _: Request<'a>, sink: Sink<'a>) -> BoxFuture<'a, Result<Answer, Failure>> {
            async move {
                self.gate.came.send(self.number).unwrap();
                self.gate.begin.acquire().await.unwrap().forget();
                let fails = |left: usize| left.checked_sub(1);
                if self.gate.fails.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fails).is_ok() {
                    return Err(Failure::Server("x".into()));
                }
                sink(Delta::Began);
                self.gate.end.acquire().await.unwrap().forget();
                let message = Message::assistant(Vec::new());
                Ok(Answer { message, stop: Stop::EndTurn, usage: Usage::default() })
            }
            .boxed()
        }
    }

    fn gate(fails: usize) -> (Arc<Gate>, mpsc::UnboundedReceiver<usize>) {
        let (came, comes) = mpsc::unbounded_channel();
        let (begin, end) = (Semaphore::new(0), Semaphore::new(0));
        (Arc::new(Gate { came, begin, end, fails: AtomicUsize::new(fails) }), comes)
    }

    /// A fork of a conversation asks.
    fn ask(
        siblings: &Siblings,
        conversation: &str,
        number: usize,
        gate: &Arc<Gate>,
    ) -> tokio::task::JoinHandle<Result<Answer, Failure>> {
        let provider = siblings.hold(conversation, Arc::new(Slow { number, gate: gate.clone() }));
        tokio::spawn(async move {
            let request = Request {
                model: "m",
                system: &[],
                tools: &[],
                messages: &[],
                reminder: None,
                max_output: 1,
                effort: None,
            };
            provider.answer(request, &mut |_| {}).await
        })
    }

    async fn settled() {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }

    /// FK-04: of the forks of one conversation one asks, and the others when its answer has begun; forks of another
    /// conversation don't wait for it.
    #[tokio::test]
    async fn siblings_ask_when_the_first_answer_has_begun() {
        let siblings = Siblings::default();
        let (gate, mut comes) = gate(0);
        let asks: Vec<_> = (0..3).map(|number| ask(&siblings, "one", number, &gate)).collect();
        settled().await;
        assert!(
            comes.recv().await.is_some() && comes.try_recv().is_err(),
            "two asked before an answer began"
        );
        let other = ask(&siblings, "two", 3, &gate);
        assert_eq!(comes.recv().await, Some(3));
        // Both first ones begin, and none of them ends.
        gate.begin.add_permits(2);
        assert!(comes.recv().await.is_some() && comes.recv().await.is_some());
        gate.begin.add_permits(2);
        gate.end.add_permits(4);
        for ask in asks.into_iter().chain([other]) {
            ask.await.unwrap().unwrap();
        }
    }

    /// FK-04, B30: where the first one fails, or is ended, the next one goes first: none waits for ever.
    #[tokio::test]
    async fn the_next_one_goes_first_where_the_first_gives_up() {
        let siblings = Siblings::default();
        let (gate, mut comes) = gate(1);
        let asks: Vec<_> = (0..4).map(|number| ask(&siblings, "one", number, &gate)).collect();
        let first = comes.recv().await.unwrap();
        gate.begin.add_permits(1);
        let second = comes.recv().await.unwrap();
        settled().await;
        assert!(comes.try_recv().is_err(), "two asked before an answer began");
        // This one is ended while it waits for its answer.
        asks[second].abort();
        assert!(comes.recv().await.is_some());
        settled().await;
        assert!(comes.try_recv().is_err(), "two asked before an answer began");
        gate.begin.add_permits(1);
        assert!(comes.recv().await.is_some());
        gate.begin.add_permits(1);
        gate.end.add_permits(2);
        for (number, ask) in asks.into_iter().enumerate() {
            let ended = ask.await;
            match number {
                failed if failed == first => assert!(ended.unwrap().is_err()),
                ended_early if ended_early == second => assert!(ended.unwrap_err().is_cancelled()),
                _ => assert!(ended.unwrap().is_ok()),
            }
        }
    }
}
