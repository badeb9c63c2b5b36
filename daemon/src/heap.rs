//! How the C library keeps freed memory: the one call of the daemon that Rust can't know to be safe.
#![expect(unsafe_code, reason = "the allocator's settings have no safe interface")]

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use nix::libc::{M_ARENA_MAX, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, mallopt};

/// glibc's own first values; naming them keeps it from raising them as it goes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const BIG: i32 = 128 << 10;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn set(setting: i32, value: i32) {
    // SAFETY: mallopt takes two numbers and changes the allocator's own settings alone.
    unsafe { mallopt(setting, value) };
}

/// Gives all threads two heaps.
///
/// Each thread that allocates otherwise has a heap of its own, and what the store's thread freed there is of no use to
/// the others: with 10 000 ended tasks that is 10 MiB. With one heap for all, what the store leaves free as it reads
/// its log is in the way of all that is kept then, and a start over a full store takes twice as long. Must be called
/// before a second thread is there.
pub(crate) fn limit() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    set(M_ARENA_MAX, 2);
}

/// Gives big blocks back to the system at once, from now on: while the store reads its log it would only ask for them
/// again.
pub(crate) fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for setting in [M_MMAP_THRESHOLD, M_TRIM_THRESHOLD] {
        set(setting, BIG);
    }
}
