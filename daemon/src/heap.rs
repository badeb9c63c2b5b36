//! How the C library keeps freed memory: the one call of the daemon that Rust can't know to be safe.
#![expect(unsafe_code, reason = "the allocator's settings have no safe interface")]

/// Gives all threads two heaps, and big blocks back to the system at once.
///
/// Each thread that allocates otherwise has a heap of its own, and what the store's thread freed there is of no use to
/// the others: with 10 000 ended tasks that is 10 MiB. With one heap for all, what the store leaves free as it reads
/// its log is in the way of all that is kept then, and a start over a full store takes twice as long. Must be called
/// before a second thread is there.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn limit() {
    use nix::libc::{M_ARENA_MAX, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, mallopt};

    /// glibc's own first values; naming them keeps it from raising them as it goes.
    const BIG: i32 = 128 << 10;
    for (setting, value) in [(M_ARENA_MAX, 2), (M_MMAP_THRESHOLD, BIG), (M_TRIM_THRESHOLD, BIG)] {
        // SAFETY: mallopt takes two numbers and changes the allocator's own settings alone.
        unsafe { mallopt(setting, value) };
    }
}

/// Other C libraries have settings of their own.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) const fn limit() {}
