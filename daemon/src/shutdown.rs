//! How the daemon ends: on a signal its agents go on under their shims, and the next daemon takes them up.
//! `daemon.shutdown` dealt with the agents before it came here.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancels the token at the first TERM, INT or HUP.
///
/// # Errors
/// When the signals can't be listened to.
pub fn on_signal(stop: CancellationToken) -> std::io::Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    let mut hup = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        let name = tokio::select! {
            _ = term.recv() => "TERM",
            _ = int.recv() => "INT",
            _ = hup.recv() => "HUP",
            () = stop.cancelled() => return,
        };
        tracing::info!(signal = name, "stopping; agents go on");
        stop.cancel();
    });
    Ok(())
}
