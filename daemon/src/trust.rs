//! Where it is kept what of repositories may run: one file in the state directory, written whole and synced before
//! anybody is told that it holds.
//!
//! It is no part of the store: a backup that is restored must not bring back trust that was taken away since. A file that
//! can't be read keeps the daemon from starting: nobody can say what of it was meant.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use anyhow::Context as _;
use ccagent_llm::document;
use ccagent_llm::trust::Trusted;

/// The file, and what it is called while it is written.
const NAME: &str = "trust.json";
const UNFINISHED: &str = "trust.json.new";
/// Bytes of it at most: as many paths as can be trusted, of a length that is not usual.
const BYTES_MOST: usize = 64 << 20;

/// What of repositories may run.
#[derive(Debug, Default)]
pub struct Trust {
    /// The state directory; none where nothing is kept.
    dir: Option<PathBuf>,
    current: RwLock<Arc<Trusted>>,
    writing: Mutex<()>,
}

impl Trust {
    /// Reads what is kept.
    ///
    /// # Errors
    /// The file can't be read, or is of a later version.
    pub fn open(dir: &Path) -> anyhow::Result<Self> {
        let path = dir.join(NAME);
        let shown = path.display();
        let text = document::read(&path, BYTES_MOST).with_context(|| format!("{shown} can't be read"))?;
        let trusted: Trusted = match text {
            Some(text) => serde_json::from_str(&text)
                .with_context(|| format!("{shown} is damaged: move it away, and trust anew what you need"))?,
            None => Trusted::default(),
        };
        anyhow::ensure!(trusted.is_readable(), "{shown} is of a later version of ccagent");
        Ok(Self {
            dir: Some(dir.to_owned()),
            current: RwLock::new(Arc::new(trusted)),
            writing: Mutex::default(),
        })
    }

    /// What is trusted now.
    pub fn current(&self) -> Arc<Trusted> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes what is trusted; returns once that is on the disk. It blocks.
    ///
    /// # Errors
    /// What the change says, or that it could not be written; then nothing has changed.
    pub fn change<E: From<io::Error>>(
        &self,
        change: impl FnOnce(&mut Trusted) -> Result<(), E>,
    ) -> Result<Arc<Trusted>, E> {
        let _alone = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = (*self.current()).clone();
        change(&mut next)?;
        if let Some(dir) = &self.dir {
            write(dir, &serde_json::to_vec(&next).map_err(io::Error::from)?)?;
        }
        let next = Arc::new(next);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = next.clone();
        Ok(next)
    }
}

fn write(dir: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = dir.join(UNFINISHED);
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&unfinished, dir.join(NAME))?;
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use ccagent_llm::trust::{Item, Kind, Owner, Standing};

    use super::*;

    /// SV-07: what was trusted is there after a restart, for its owner alone; what can't be read is refused by name.
    #[test]
    fn trust_is_kept_and_a_damaged_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let item = Item::new(
            Kind::Hooks,
            &dir.path().join("x.json"),
            Owner::Repository,
            serde_json::json!({"a": 1}),
        );
        let trust = Trust::open(dir.path()).unwrap();
        trust.change(|trusted| trusted.trust(&item, 5).map_err(io::Error::other)).unwrap();
        let again = Trust::open(dir.path()).unwrap().current();
        assert_eq!((again.standing(&item), again.since(&item)), (Standing::Trusted, Some(5)));
        let file = dir.path().join(NAME);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&file, "{").unwrap();
        assert!(Trust::open(dir.path()).unwrap_err().to_string().contains("trust.json is damaged"));
        fs::write(&file, r#"{"version": 9, "items": {}}"#).unwrap();
        assert!(Trust::open(dir.path()).unwrap_err().to_string().contains("later version"));
    }
}
