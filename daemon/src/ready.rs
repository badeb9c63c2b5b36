//! Saying that the daemon serves: to the service manager, and to the client that started it.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use sd_notify::NotifyState;

/// Who wants to hear of it.
#[derive(Debug)]
pub struct Ready {
    /// An inherited descriptor that takes one line.
    pub fd: Option<u32>,
    /// The socket, for that line.
    pub socket: String,
}

impl Ready {
    /// Says that the socket is served.
    ///
    /// # Errors
    /// When the descriptor takes nothing.
    pub fn say(&self) -> std::io::Result<()> {
        notify(NotifyState::Ready);
        watch();
        self.line(&format!("ready {}", self.socket))
    }

    /// Says why the socket is not served.
    ///
    /// # Errors
    /// When the descriptor takes nothing.
    pub fn line(&self, line: &str) -> std::io::Result<()> {
        let Some(fd) = self.fd else { return Ok(()) };
        // The descriptor's path opens the same pipe, without a word about who owns its number.
        let path = Path::new("/proc/self/fd").join(fd.to_string());
        OpenOptions::new().write(true).open(path)?.write_all(format!("{line}\n").as_bytes())
    }
}

/// Tells the service manager that the end has begun.
pub fn stopping() {
    notify(NotifyState::Stopping);
}

fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "the service manager could not be told");
    }
}

/// Shows the service manager's watchdog that the runtime turns, where it wants to see it.
fn watch() {
    let Some(limit) = sd_notify::watchdog_enabled() else { return };
    let every = (limit / 2).max(Duration::from_millis(100));
    tokio::spawn(async move {
        loop {
            notify(NotifyState::Watchdog);
            tokio::time::sleep(every).await;
        }
    });
}
