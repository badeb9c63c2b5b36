//! Signs of life of a call: when something came of it the last time (M150).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// When something came of the calls of one agent.
#[derive(Clone, Debug)]
pub struct Beat(Arc<Mutex<Instant>>);

impl Default for Beat {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Beat {
    /// Something came.
    pub fn felt(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when nothing has come for so long.
    pub async fn missed(&self, most: Duration) {
        loop {
            let before = self.last();
            tokio::time::sleep_until(before + most).await;
            if self.last() == before {
                return;
            }
        }
    }
}
