//! Hearing of a file's removal, from the kernel.

use std::io;
use std::mem::MaybeUninit;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use tokio::sync::oneshot;

/// What happens to a file that loses its name.
const REMOVAL: WatchFlags = WatchFlags::ATTRIB.union(WatchFlags::DELETE_SELF).union(WatchFlags::MOVE_SELF);

/// Resolves when the file at a path is removed or renamed. A thread waits for it; it ends with the process.
pub(super) fn removal(path: &Path) -> io::Result<oneshot::Receiver<()>> {
    let events = inotify::init(CreateFlags::CLOEXEC)?;
    inotify::add_watch(&events, path, REMOVAL)?;
    let (gone, removed) = oneshot::channel();
    let path = path.to_owned();
    std::thread::Builder::new().name("socket-watch".to_owned()).spawn(move || {
        let mut buffer = [MaybeUninit::uninit(); 1024];
        let mut reader = inotify::Reader::new(events, &mut buffer);
        while let Ok(event) = reader.next() {
            // A change of mode is no removal.
            let ended =
                event.events().intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED);
            if ended || !path.exists() {
                break;
            }
        }
        // Nobody waits any more when the daemon ends by itself.
        _ = gone.send(());
    })?;
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// J121: a removal and a renaming are heard of, another change is not.
    #[tokio::test]
    async fn a_removal_is_heard_of() {
        let dir = tempfile::tempdir().unwrap();
        for rename in [false, true] {
            let path = dir.path().join("x.sock");
            let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
            let mut removed = removal(&path).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            std::fs::set_permissions(&path, mode).unwrap();
            assert!(removed.try_recv().is_err());
            if rename {
                std::fs::rename(&path, dir.path().join("y.sock")).unwrap();
            } else {
                std::fs::remove_file(&path).unwrap();
            }
            removed.await.unwrap();
        }
    }
}
