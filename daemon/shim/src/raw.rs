//! The three calls that Rust can't know to be safe; nothing else of this project uses `unsafe`.
#![expect(unsafe_code, reason = "descriptors by number, dispositions and the time between fork and exec")]

use std::{io, os::unix::process::CommandExt, process::Command};

use nix::libc;

/// Closes whatever a careless parent left open above stderr.
pub(crate) fn close_inherited_descriptors() {
    // SAFETY: first call of `main`, so no descriptor above 2 belongs to any value of ours yet.
    unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32) };
}

/// Undoes what a parent ignores (as `nohup` does), so that the agent starts with defaults.
pub(crate) fn default_dispositions() {
    // Up to the last real-time signal. SIGPIPE stays ignored here; the standard library gives it back to the child.
    for number in (1..=64).filter(|number| *number != libc::SIGPIPE) {
        // SAFETY: the default disposition runs no code of ours. Those that can't be changed are refused, which is fine.
        unsafe { libc::signal(number, libc::SIG_DFL) };
    }
}

/// Runs `setup` in the child between fork and exec.
pub(crate) fn before_exec(
    command: &mut Command,
    setup: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) {
    // SAFETY: the process has one thread, so the child can't inherit a lock that somebody held; the one caller's
    // closure makes system calls only.
    unsafe { command.pre_exec(setup) };
}
