//! What all agents share that use one key: requests a minute, and the pauses that the provider asks for.
//!
//! ```text
//! free ── refused ──▶ held, until the time has come ──▶ one at a time, two, … ──▶ free
//!                          ▲                                    │
//!                          └──────────── refused ───────────────┘
//! ```
//!
//! Those that wait stand in line, and the first of the line alone looks whether it may go. A pass ends when the
//! provider has begun to answer: how long it then writes is no business of the limit. Not a crate's work because none
//! keeps others back by what one of them was told; and the clock is tokio's, which tests can turn.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Failure;

/// The time that a limit is for.
const MINUTE: Duration = Duration::from_mins(1);
/// Requests a minute at most that can be counted.
const MOST_PER_MINUTE: u32 = 100_000;
/// How long others are held back by a refusal that does not say.
const UNSAID: Duration = Duration::from_secs(1);
/// The longest time for which somebody stands in line; beyond it, the refusal is theirs too.
const LONGEST: Duration = Duration::from_mins(10);
/// Requests under way at once, from which on there is no need to count them any more.
const OPEN: usize = 64;

/// The limiter of one key.
#[derive(Debug)]
pub struct Limiter {
    per_minute: Option<usize>,
    /// The line: whoever has it is its first.
    line: tokio::sync::Mutex<()>,
    state: Mutex<State>,
    /// Tells the first of the line.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// When the newest requests left.
    left: VecDeque<Instant>,
    /// Nobody goes before.
    held: Option<Instant>,
    /// After a refusal: how many may be under way.
    window: Option<usize>,
    /// Requests whose answer has not begun.
    under_way: usize,
}

/// What keeps the first of the line.
enum Wait {
    Until(Instant),
    Change,
}

/// Leave for one request.
#[derive(Debug)]
pub struct Pass<'a>(&'a Limiter);

impl Limiter {
    /// A limiter of so many requests a minute; `None`: as many as the provider takes.
    pub fn new(per_minute: Option<u32>) -> Self {
        let per_minute = per_minute.map(|most| most.clamp(1, MOST_PER_MINUTE) as usize);
        Self {
            per_minute,
            line: tokio::sync::Mutex::new(()),
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Waits for leave to send one request.
    ///
    /// # Errors
    /// The provider asked for a pause that is too long to stand in line.
    pub async fn admit(&self) -> Result<Pass<'_>, Failure> {
        let _first = self.line.lock().await;
        loop {
            let wait = self.state().admit(self.per_minute, Instant::now())?;
            match wait {
                None => return Ok(Pass(self)),
                Some(Wait::Change) => self.changed.notified().await,
                Some(Wait::Until(time)) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(time) => {}
                        () = self.changed.notified() => {}
                    }
                }
            }
        }
    }

    /// Where a refusal is for all that use the key, the others wait as well.
    pub fn hold(&self, failure: &Failure) {
        let after = match failure {
            Failure::RateLimit { after, .. } | Failure::Overloaded { after, .. } => after.unwrap_or(UNSAID),
            Failure::Authentication(_)
            | Failure::Server(_)
            | Failure::Cut(_)
            | Failure::Silent(_)
            | Failure::Stalled { .. }
            | Failure::Malformed(_)
            | Failure::TooLong(_)
            | Failure::Invalid(_) => return,
        };
        let mut state = self.state();
        state.held = state.held.max(Instant::now().checked_add(after));
        state.window = Some(1);
        drop(state);
        self.changed.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn admit(&mut self, per_minute: Option<usize>, now: Instant) -> Result<Option<Wait>, Failure> {
        if let Some(time) = self.held.filter(|time| *time > now) {
            let rest = time - now;
            if rest > LONGEST {
                let message = format!("it told another agent to come again in {} s", rest.as_secs());
                return Err(Failure::RateLimit { after: Some(rest), message });
            }
            return Ok(Some(Wait::Until(time)));
        }
        if self.window.is_some_and(|window| self.under_way >= window) {
            return Ok(Some(Wait::Change));
        }
        if let Some(most) = per_minute {
            while self.left.front().is_some_and(|oldest| *oldest + MINUTE <= now) {
                self.left.pop_front();
            }
            if self.left.len() >= most
                && let Some(oldest) = self.left.front()
            {
                return Ok(Some(Wait::Until(*oldest + MINUTE)));
            }
            self.left.push_back(now);
        }
        self.under_way += 1;
        Ok(None)
    }
}

impl Pass<'_> {
    /// The provider has begun to answer.
    pub fn accepted(self) {
        let mut state = self.0.state();
        state.window = state.window.map(|window| window + 1).filter(|window| *window < OPEN);
    }

    /// The provider refused.
    pub fn refused(self, failure: &Failure) {
        self.0.hold(failure);
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.0.state().under_way -= 1;
        self.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn refusal(secs: u64) -> Failure {
        Failure::RateLimit { after: Some(Duration::from_secs(secs)), message: "slow down".into() }
    }

    /// B30: no minute has more requests than the limit says.
    #[tokio::test(start_paused = true)]
    async fn no_minute_has_more_requests_than_the_limit() {
        let limiter = Limiter::new(Some(3));
        let begin = Instant::now();
        let mut times = Vec::new();
        for _ in 0..7 {
            limiter.admit().await.unwrap().accepted();
            times.push((Instant::now() - begin).as_secs());
        }
        assert_eq!(times, [0, 0, 0, 60, 60, 60, 120]);
    }

    /// B30, M148: what one was told holds for all, and they come back one after another.
    #[tokio::test(start_paused = true)]
    async fn a_refusal_of_one_holds_back_the_others() {
        let limiter = Arc::new(Limiter::new(None));
        let begin = Instant::now();
        limiter.admit().await.unwrap().refused(&refusal(30));
        let (under_way, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let agents: Vec<_> = (0..20)
            .map(|_| {
                let (limiter, under_way, most) = (limiter.clone(), under_way.clone(), most.clone());
                tokio::spawn(async move {
                    let pass = limiter.admit().await.unwrap();
                    let came = (Instant::now() - begin).as_secs();
                    most.fetch_max(under_way.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    under_way.fetch_sub(1, Ordering::SeqCst);
                    pass.accepted();
                    came
                })
            })
            .collect();
        let mut times = Vec::new();
        for agent in agents {
            times.push(agent.await.unwrap());
        }
        times.sort_unstable();
        assert_eq!(times[..7], [30, 31, 31, 32, 32, 32, 32], "each answer wakes two");
        assert!(most.load(Ordering::SeqCst) <= 8, "{most:?}");
    }

    /// B30: a second refusal during the way back holds all of them again.
    #[tokio::test(start_paused = true)]
    async fn a_refusal_on_the_way_back_holds_again() {
        let limiter = Limiter::new(None);
        let begin = Instant::now();
        limiter.admit().await.unwrap().refused(&refusal(5));
        limiter.admit().await.unwrap().refused(&refusal(5));
        drop(limiter.admit().await.unwrap());
        assert_eq!((Instant::now() - begin).as_secs(), 10);
    }

    /// B30: nobody stands in line for an hour without a word.
    #[tokio::test(start_paused = true)]
    async fn a_pause_that_is_too_long_is_said() {
        let limiter = Limiter::new(None);
        limiter.admit().await.unwrap().refused(&refusal(3600));
        let failure = limiter.admit().await.unwrap_err();
        assert!(failure.to_string().contains("3600 s") && failure.after().is_some(), "{failure}");
        assert!(limiter.admit().await.is_err());
    }

    /// B30: what is not the limit's business holds nobody back, and one that leaves the line keeps no place.
    #[tokio::test(start_paused = true)]
    async fn other_failures_hold_nobody_back() {
        let limiter = Limiter::new(None);
        let begin = Instant::now();
        limiter.admit().await.unwrap().refused(&Failure::Server("x".into()));
        drop(limiter.admit().await.unwrap());
        assert_eq!(Instant::now(), begin);
        limiter.admit().await.unwrap().refused(&Failure::Overloaded { after: None, message: String::new() });
        let gone = tokio::time::timeout(Duration::from_millis(1), limiter.admit());
        assert!(gone.await.is_err());
        drop(limiter.admit().await.unwrap());
        assert_eq!((Instant::now() - begin).as_secs(), 1);
    }
}
