//! The runtime: one thread that serves, and the threads that may block, which are all there from the start and for good.
//!
//! Where the machine has no thread left for a moment, whoever needs a new one fails: a call, or the keeping of the house.
//! So none is ever needed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime::{Builder, Runtime};

/// Threads that may block. Reads of agents' environments, which may hang for good, leave half of them.
const BLOCKING: usize = 16;
/// Longer than any daemon runs.
const FOR_GOOD: Duration = Duration::from_secs(u32::MAX as u64);

/// Makes the runtime.
///
/// # Errors
/// When the system has no thread for it.
pub fn build() -> anyhow::Result<Runtime> {
    // One thread: a call passes from its connection to the driver and back without waking another. What blocks is
    // elsewhere: commits have a thread of their own, files and reads of the store the blocking threads.
    let runtime = Builder::new_current_thread()
        .max_blocking_threads(BLOCKING)
        .thread_keep_alive(FOR_GOOD)
        .thread_name("blocking")
        .enable_all()
        .build()?;
    start_threads(&runtime)?;
    Ok(runtime)
}

/// Has all blocking threads started: each gets something to do before one of them is done.
fn start_threads(runtime: &Runtime) -> anyhow::Result<()> {
    let gate = Arc::new(RwLock::new(()));
    let closed = gate.write().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..BLOCKING {
        let gate = Arc::clone(&gate);
        let wait = move || drop(gate.read());
        // Without its first thread the runtime can only panic.
        catch_unwind(AssertUnwindSafe(|| drop(runtime.spawn_blocking(wait))))
            .ok()
            .context("the system has no thread for the daemon")?;
    }
    drop(closed);
    Ok(())
}
