//! Asking again: what may succeed later is tried again after a pause, within limits, and said to who looks on.

use std::time::Duration;

use super::{Answer, Failure, Provider, Request, Sink, stall};
use crate::host::{Host, Progress};

/// How often a request that stalled is made again.
const STALLS: u32 = 1;

/// How long a request is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Tries in all.
    pub tries: u32,
    /// The first pause; each one is twice as long as the one before.
    pub first: Duration,
    /// The longest pause of our own choice.
    pub most: Duration,
    /// The longest pause that a provider may ask for.
    pub asked: Duration,
    /// How long nothing may come of a request that left, and of a call; `None`: as long as it takes (M150).
    pub stall: Option<Duration>,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            tries: 10,
            first: Duration::from_millis(500),
            most: Duration::from_secs(30),
            asked: Duration::from_mins(10),
            stall: None,
        }
    }
}

impl Patience {
    /// The pause after a failed try, counted from 1; `None`: no more tries.
    fn pause(&self, tries: u32, failure: &Failure, luck: f64) -> Option<Duration> {
        if !failure.is_transient() || tries >= self.tries {
            return None;
        }
        if let Some(after) = failure.after() {
            return (after <= self.asked).then_some(after);
        }
        let doubled = self.first.saturating_mul(1 << (tries - 1).min(20)).min(self.most);
        // Up to a quarter more: agents that failed together don't come back together.
        Some(doubled.mul_f64(1.0 + luck / 4.0))
    }
}

/// Asks until there is an answer, or no use in asking.
///
/// # Errors
/// The last failure.
pub async fn answer(
    provider: &dyn Provider,
    request: Request<'_>,
    sink: Sink<'_>,
    patience: Patience,
    host: &dyn Host,
) -> Result<Answer, Failure> {
    let (mut tries, mut stalls) = (0, 0);
    loop {
        let failure = match stall::answer(provider, request, &mut *sink, patience.stall).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        tries += 1;
        stalls += u32::from(matches!(failure, Failure::Stalled { .. }));
        if stalls > STALLS {
            return Err(failure);
        }
        let Some(pause) = patience.pause(tries, &failure, fastrand::f64()) else { return Err(failure) };
        tracing::debug!(%failure, tries, ?pause, "a request is tried again");
        host.progress(Progress::Backoff { pause, why: failure.to_string() }).await;
        tokio::time::sleep(pause).await;
        host.progress(Progress::Resumed).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B30: transient failures are tried again, ever more rarely, and not without an end.
    #[test]
    fn pauses_grow_to_a_bound_and_end() {
        let patience = Patience::default();
        let cut = Failure::Cut("reset".into());
        let pauses: Vec<_> = (1..12).map_while(|tries| patience.pause(tries, &cut, 0.0)).collect();
        assert_eq!(pauses.len(), 9);
        assert_eq!((pauses[0], pauses[1], pauses[8]), (patience.first, patience.first * 2, patience.most));
        assert_eq!(patience.pause(1, &cut, 1.0), Some(patience.first + patience.first / 4));
    }

    /// B30: what the provider asks for counts, as long as anybody would wait for it.
    #[test]
    fn a_providers_own_pause_counts() {
        let patience = Patience::default();
        let limit =
            |secs| Failure::RateLimit { after: Some(Duration::from_secs(secs)), message: String::new() };
        assert_eq!(patience.pause(1, &limit(7), 0.5), Some(Duration::from_secs(7)));
        assert_eq!(patience.pause(1, &limit(3600), 0.5), None);
        assert_eq!(patience.pause(1, &Failure::Authentication("no".into()), 0.5), None);
    }
}
