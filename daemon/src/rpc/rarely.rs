//! Warnings that others can cause as often as they like: each is said once, and then at most once a minute, with how
//! often it was due. So nobody can fill the disk with the log.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long a warning is kept back after it was said.
const PAUSE: Duration = Duration::from_mins(1);

/// One warning.
#[derive(Debug, Default)]
pub(crate) struct Rarely(Mutex<(Option<Instant>, u64)>);

impl Rarely {
    /// How often the warning was due since it was last said, where it is to be said now.
    pub(crate) fn due(&self) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (said, times) = &mut *state;
        *times += 1;
        if said.is_some_and(|said| said.elapsed() < PAUSE) {
            return None;
        }
        *said = Some(Instant::now());
        Some(std::mem::take(times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I8: what comes again and again is said at once, and then once a minute with its count.
    #[tokio::test(start_paused = true)]
    async fn a_warning_is_said_once_a_minute() {
        let warning = Rarely::default();
        assert_eq!(warning.due(), Some(1));
        for _ in 0..1000 {
            assert_eq!(warning.due(), None);
        }
        tokio::time::advance(PAUSE).await;
        assert_eq!((warning.due(), warning.due()), (Some(1001), None));
    }
}
