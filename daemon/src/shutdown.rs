//! Signals: TERM and INT end the daemon, HUP reads the config again, and a file that is too long ends nothing.
//!
//! On a signal the agents go on under their shims, and the next daemon takes them up. `daemon.shutdown` deals with the
//! agents before it ends the daemon.

use nix::sys::signal::{SigSet, Signal};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Lets signals through that the parent had blocked: the daemon would never hear them. Must be called before a second
/// thread is there.
///
/// # Errors
/// What the system says.
pub fn unblock() -> nix::Result<()> {
    SigSet::empty().thread_set_mask()
}

/// Makes a file that reached the limit of its size (`ulimit -f`) an error where it is written; otherwise it would end the
/// daemon without a word. A handler, unlike an ignored signal, is not handed on to agents.
///
/// # Errors
/// When the signal can't be listened to; it needs the runtime.
pub fn survive_file_limit() -> std::io::Result<()> {
    signal(SignalKind::from_raw(Signal::SIGXFSZ as i32)).map(drop)
}

/// Cancels the token at the first TERM or INT; calls `reload` at each HUP.
///
/// # Errors
/// When the signals can't be listened to.
pub fn on_signal<F: Future<Output = ()> + Send>(
    stop: CancellationToken,
    mut reload: impl FnMut() -> F + Send + 'static,
) -> std::io::Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    let mut hup = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        let name = loop {
            tokio::select! {
                _ = term.recv() => break "TERM",
                _ = int.recv() => break "INT",
                _ = hup.recv() => reload().await,
                () = stop.cancelled() => return,
            }
        };
        stop.cancel();
        tracing::info!(signal = name, "stopping; agents go on");
    });
    Ok(())
}
