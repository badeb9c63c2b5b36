//! A timer for a request that comes to nothing: it ends one of which nothing more comes (M150).
//!
//! ```text
//! held back ── the request leaves ─▶ waiting ── the first of the answer ─▶ within it ─▶ answer
//!  no timer                          │ too long                           │ too long
//!                                    └──────────────▶ stalled ◀───────────┘
//! ```
//!
//! What is held back, by a limit or by a sibling, waits for its turn and does not stall. What keeps a connection alive is
//! no progress: only what is said is. The silence of a connection itself has timers of its own (`http`), and counts here as
//! what it is.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Answer, Delta, Failure, Provider, Request, Sink};

/// How far a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// It has not left.
    #[default]
    Held,
    /// Nothing of the answer has come.
    Waiting,
    /// Some of it has.
    Within,
}

impl Phase {
    /// Where in an answer that is, for a person.
    pub const fn place(self) -> &'static str {
        match self {
            Self::Held | Self::Waiting => "before it began",
            Self::Within => "within it",
        }
    }
}

/// How far a request is, and when it came there.
#[derive(Debug)]
struct Seen {
    stands: Mutex<(Phase, Instant)>,
    left: Notify,
}

impl Seen {
    fn new() -> Self {
        Self { stands: Mutex::new((Phase::Held, Instant::now())), left: Notify::new() }
    }

    fn note(&self, delta: Delta<'_>) {
        let phase = match delta {
            Delta::Sent => Phase::Waiting,
            Delta::Began | Delta::Text(_) | Delta::Thinking(_) | Delta::Call(_) => Phase::Within,
        };
        *self.stands.lock().unwrap_or_else(PoisonError::into_inner) = (phase, Instant::now());
        if phase == Phase::Waiting {
            self.left.notify_one();
        }
    }

    fn now(&self) -> (Phase, Instant) {
        *self.stands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when nothing has come for so long.
    async fn stalled(&self, most: Duration) -> Phase {
        loop {
            let before = self.now();
            if before.0 == Phase::Held {
                self.left.notified().await;
                continue;
            }
            tokio::time::sleep_until(before.1 + most).await;
            if self.now() == before {
                return before.0;
            }
        }
    }
}

/// Asks once; `None` waits as long as the connection lives.
///
/// # Errors
/// As the provider's; `Stalled` where nothing came for too long.
pub(super) async fn answer(
    provider: &dyn Provider,
    request: Request<'_>,
    sink: Sink<'_>,
    most: Option<Duration>,
) -> Result<Answer, Failure> {
    let seen = Seen::new();
    let mut noting = |delta: Delta<'_>| {
        seen.note(delta);
        sink(delta);
    };
    let late = async {
        match most {
            Some(most) => Failure::Stalled { phase: seen.stalled(most).await, after: most },
            None => std::future::pending().await,
        }
    };
    let asked = tokio::select! {
        biased;
        asked = provider.answer(request, &mut noting) => asked,
        stalled = late => Err(stalled),
    };
    asked.map_err(|failure| match failure {
        Failure::Silent(after) => Failure::Stalled { phase: seen.now().0, after },
        failure => failure,
    })
}

#[cfg(test)]
mod tests;
