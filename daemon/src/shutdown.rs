//! Signals: TERM and INT end the daemon, HUP reads the config again.
//!
//! On a signal the agents go on under their shims, and the next daemon takes them up. `daemon.shutdown` deals with the
//! agents before it ends the daemon.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

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
