//! What the last daemon left: attempts to adopt, and directories of tasks that nobody knows any more.
//!
//! A directory without a task is a removal that a crash lost, and is removed now. Not so after a restore of an older
//! export: then it may be of a task that the export does not know yet, and is put aside. And never so where a shim
//! may still run in it: its agent works on, whether we know it or not.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ccagent_core::recovery::Survivor;
use ccagent_proto::TaskId;
use futures_util::FutureExt as _;

use super::attempt::Origin;
use super::{Runner, attempt, files, launch, look};
use crate::driver::Handle;
use crate::store::RESTORED;

/// Directories that are asked about at once, so that calls in between don't wait for all of them.
const SWEPT: usize = 256;

impl Runner {
    /// Takes up every attempt that may still run; each reports what it finds. When this returns, every shim that is
    /// on record is known: whoever connects from below one is its agent, and no operator.
    pub fn adopt(&self, mut survivors: Vec<Survivor>) {
        // Those that the store knows first: none of them is anybody else's, whatever a file says.
        survivors.sort_by_key(|survivor| survivor.shim.is_none());
        for survivor in survivors {
            let (task, number) = (survivor.task, survivor.attempt);
            let named = || {
                let shim = look::named(&launch::attempt_dir(&survivor.directory, number))?;
                self.inner.is_shim(task, look::process(&shim)).then_some(shim)
            };
            let shim = survivor.shim.clone().or_else(named);
            let shim = shim.and_then(|shim| look::living(&shim, &self.inner.boot));
            self.run(survivor.clone(), Origin::Before, |inner, orders| {
                attempt::adopt(inner, survivor, Origin::Before, orders).boxed()
            });
            self.inner.has_shim(task, number, shim);
        }
    }

    /// Takes away directories of tasks that are in no table. A task has its directory only after the core knows it,
    /// so this may run while others are made.
    pub async fn sweep(&self, handle: &Handle) {
        let state = self.inner.settings.state_dir.clone();
        let sessions = state.join("sessions");
        let listed = tokio::task::spawn_blocking(move || directories(&sessions)).await.unwrap_or_default();
        let marker = state.join(RESTORED);
        let aside = marker.exists().then(|| aside(&state)).flatten();
        let mut kept = 0;
        for some in listed.chunks(SWEPT) {
            let some = some.to_vec();
            let unknown = handle.ask(move |core, _| {
                let unknown = some.into_iter().filter(|(id, _)| !core.knows(*id));
                unknown.map(|(_, path)| path).collect::<Vec<_>>()
            });
            // Nobody answers while the daemon stops: the next one sweeps.
            let Ok(unknown) = unknown.await else { return };
            let (aside, runner) = (aside.clone(), self.clone());
            let taken = tokio::task::spawn_blocking(move || {
                unknown.iter().filter(|path| !runner.take_away(path, aside.as_deref())).count()
            });
            kept += taken.await.unwrap_or(1);
        }
        // As long as something of the time before the restore is in its place, it is not the next sweep's to remove.
        if aside.is_some()
            && kept == 0
            && let Err(error) = fs::remove_file(&marker)
        {
            tracing::warn!(marker = %marker.display(), %error, "the mark of a restore stays");
        }
    }

    /// Whether an unknown task's directory is gone from its place, or will be.
    fn take_away(&self, path: &Path, aside: Option<&Path>) -> bool {
        if runs(path, &self.inner.boot) {
            tracing::warn!(path = %path.display(), "the agent of an unknown task may still run: it is left alone");
            return false;
        }
        let Some(aside) = aside else {
            tracing::info!(path = %path.display(), "a directory of a forgotten task is removed");
            self.inner.files.remove(path.display().to_string());
            return true;
        };
        match put_aside(path, aside) {
            Ok(to) => {
                tracing::warn!(path = %path.display(), to = %to.display(), "a task that the restore does not know is put aside");
                true
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a task's directory could not be put aside");
                false
            }
        }
    }
}

/// Where directories go that a restored store does not know: a name that is not taken.
fn aside(state: &Path) -> Option<PathBuf> {
    (1..u32::MAX).map(|number| state.join(format!("sessions.lost-{number}"))).find(|path| !path.exists())
}

/// Moves `sessions/<session>/<task>` to `<aside>/<session>/<task>`.
fn put_aside(path: &Path, aside: &Path) -> io::Result<PathBuf> {
    let session = path.parent().and_then(Path::file_name).ok_or(io::ErrorKind::InvalidInput)?;
    let task = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let parent = aside.join(session);
    files::make(&parent)?;
    let to = parent.join(task);
    fs::rename(path, &to)?;
    Ok(to)
}

/// Whether a shim may run in one of the attempts of a task's directory; what can't be listed counts as that.
fn runs(task: &Path, boot: &str) -> bool {
    let Ok(entries) = fs::read_dir(task) else { return true };
    let mut attempts = entries.map(|entry| entry.map(|entry| entry.path()));
    attempts.any(|path| path.map_or(true, |path| is_attempt(&path) && look::may_run(&path, boot)))
}

fn is_attempt(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(launch::ATTEMPT))
}

/// Task directories below the sessions' directories. A link is neither: what it leads to is not ours to take away (F81).
fn directories(sessions: &Path) -> Vec<(TaskId, PathBuf)> {
    let list = |path: &Path| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
    };
    let mut found = Vec::new();
    for session in list(sessions) {
        for path in list(&session) {
            let id = path.file_name().and_then(|name| name.to_str()?.parse().ok());
            found.extend(id.map(|id| (id, path)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// F81, OF-07: the sweep at start sees what lies in the sessions' own directories, and nothing through a link.
    #[test]
    fn the_sweep_goes_through_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        let (own, other) =
            ("agent_01890000-0000-7000-8000-000000000001", "agent_01890000-0000-7000-8000-000000000002");
        fs::create_dir_all(at("sessions/main").join(own)).unwrap();
        fs::create_dir_all(at("elsewhere").join(other)).unwrap();
        symlink(at("elsewhere"), at("sessions/linked")).unwrap();
        symlink(at("elsewhere").join(other), at("sessions/main").join(other)).unwrap();
        fs::write(at("sessions/file"), "").unwrap();
        assert_eq!(directories(&at("sessions")), [(own.parse().unwrap(), at("sessions/main").join(own))]);
    }
}
