//! A panic in what supervises an attempt: seen and named, and the attempt is taken up again by its files, as after a
//! restart of the daemon. A task whose future just vanished would run for ever.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::panic;

/// The first pause before another try.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest one.
const PAUSE_MOST: Duration = Duration::from_mins(1);

/// Runs a future, and after each panic another one in its place, until one ends by itself.
pub(super) async fn over(first: BoxFuture<'static, ()>, mut again: impl FnMut() -> BoxFuture<'static, ()>) {
    let mut running = first;
    let mut pause = PAUSE;
    // What a panic leaves half done is the attempt's own state, which goes with its future.
    while let Err(panic) = AssertUnwindSafe(running).catch_unwind().await {
        tracing::error!(
            panic = panic::text(&*panic),
            "the supervision of an attempt panicked; it is taken up again"
        );
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MOST);
        running = again();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// J130: a panic does not end the supervision of an attempt.
    #[tokio::test(start_paused = true)]
    async fn a_panic_is_followed_by_another_try() {
        let mut tries = 0;
        over(async { panic!("first") }.boxed(), || {
            tries += 1;
            let ends = tries == 3;
            async move { assert!(ends, "again") }.boxed()
        })
        .await;
        assert_eq!(tries, 3);
    }
}
