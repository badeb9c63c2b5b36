//! What the last daemon left: attempts to adopt, and directories of tasks that nobody knows any more.

use std::fs;
use std::path::{Path, PathBuf};

use ccagent_core::recovery::Survivor;
use ccagent_proto::TaskId;

use super::{Runner, attempt, launch, look};
use crate::driver::Handle;

/// Directories that are asked about at once, so that calls in between don't wait for all of them.
const SWEPT: usize = 256;

impl Runner {
    /// Takes up every attempt that may still run; each reports what it finds. When this returns, every shim that is
    /// on record is known: whoever connects from below one is its agent, and no operator.
    pub fn adopt(&self, survivors: Vec<Survivor>) {
        for survivor in survivors {
            let (task, number) = (survivor.task, survivor.attempt);
            let shim = look::shim(&launch::attempt_dir(&survivor.directory, number));
            self.run(task, number, |inner, commands| attempt::adopt(inner, survivor, commands));
            self.inner.has_shim(task, number, shim);
        }
    }

    /// Removes directories of tasks that are in no table: a removal that a crash lost. A task has its directory only
    /// after the core knows it, so this may run while others are made.
    pub async fn sweep(&self, handle: &Handle) {
        let sessions = self.inner.settings.state_dir.join("sessions");
        let listed = tokio::task::spawn_blocking(move || directories(&sessions)).await.unwrap_or_default();
        for some in listed.chunks(SWEPT) {
            let some = some.to_vec();
            let unknown = handle.ask(move |core, _| {
                let unknown = some.into_iter().filter(|(id, _)| !core.knows(*id));
                unknown.map(|(_, path)| path).collect::<Vec<_>>()
            });
            for path in unknown.await.unwrap_or_default() {
                tracing::info!(path = %path.display(), "a directory of a forgotten task is removed");
                self.inner.files.remove(path.display().to_string());
            }
        }
    }
}

/// Task directories below the sessions' directories.
fn directories(sessions: &Path) -> Vec<(TaskId, PathBuf)> {
    let list = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found = Vec::new();
    for session in list(sessions) {
        for path in list(&session) {
            let id = path.file_name().and_then(|name| name.to_str()?.parse().ok());
            found.extend(id.map(|id| (id, path)));
        }
    }
    found
}
