//! Where the demo plays: a directory of its own with a socket, a state directory, a config and a git repository.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use ccagent_client::{Client, Error, Place, start};
use ccagent_proto::daemon::ShutdownMode;
use tempfile::TempDir;

use super::super::daemon;
use super::{claim, headline};
use crate::exit::{Exit, Stop};

/// Room that the kernel leaves for a directory before `/d.sock`.
const LONGEST_DIRECTORY: usize = 80;

/// The stage.
#[derive(Debug)]
pub(super) struct Stage {
    dir: TempDir,
    pub(super) place: Place,
    pub(super) repository: PathBuf,
}

impl Stage {
    /// Makes the directory and what is in it; no daemon yet.
    pub(super) fn set() -> anyhow::Result<Self> {
        let base = std::env::temp_dir();
        let base = if base.as_os_str().len() > LONGEST_DIRECTORY { Path::new("/tmp") } else { &base };
        // The daemon takes no socket directory that others may enter, whatever the umask is.
        let private = std::fs::Permissions::from_mode(0o700);
        let dir = tempfile::Builder::new().prefix("ccagent-demo-").permissions(private).tempdir_in(base)?;
        let root = dir.path().canonicalize()?;
        let config = root.join("config.toml");
        // A config of its own, or the user's would be taken.
        std::fs::write(&config, "")?;
        let repository = root.join("repository");
        std::fs::create_dir(&repository)?;
        let stage = Self {
            place: Place {
                socket: root.join("d.sock"),
                state_dir: root.join("state"),
                config,
                config_chosen: true,
            },
            repository,
            dir,
        };
        stage.git(&["init", "--quiet", "--initial-branch=main"])?;
        stage.git(&["commit", "--quiet", "--allow-empty", "--message=Begin"])?;
        Ok(stage)
    }

    /// Starts the daemon.
    pub(super) async fn light(&self) -> anyhow::Result<Client> {
        start::start(&self.place).await?;
        Ok(Client::connect(&self.place.socket).await?)
    }

    /// Runs git in the repository, without anybody's own settings.
    pub(super) fn git(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(&self.repository)
            .envs(GIT)
            .stdin(Stdio::null())
            .output()
            .map_err(|why| Stop::new(Exit::FAILED, format!("the demo needs git: {why}")))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        }
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(Stop::new(Exit::FAILED, format!("git {}: {why}", arguments.join(" "))).into())
    }

    /// Ends the daemon with everything below it and removes the directory; says so unless the demo failed.
    pub(super) async fn clear(self, failed: bool) -> anyhow::Result<()> {
        let mode = if failed { ShutdownMode::Force } else { ShutdownMode::Graceful };
        match Client::connect(&self.place.socket).await {
            Ok(client) => {
                daemon::shutdown(&client, mode, None).await?;
            }
            Err(Error::NotRunning { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let path = self.dir.path().to_owned();
        let left = processes_in(&path);
        self.dir.close().with_context(|| format!("{} could not be removed", path.display()))?;
        if failed {
            return Ok(());
        }
        headline("And it leaves nothing behind");
        claim("the daemon ended, and no process of the demo is left", left.is_empty())?;
        claim(&format!("{} is gone", path.display()), !path.exists())
    }
}

/// Who commits, and that nobody's own settings count.
pub(super) const GIT: [(&str, &str); 6] = [
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_AUTHOR_NAME", "writer"),
    ("GIT_AUTHOR_EMAIL", "writer@example.invalid"),
    ("GIT_COMMITTER_NAME", "writer"),
    ("GIT_COMMITTER_EMAIL", "writer@example.invalid"),
];

/// Processes that work below a directory.
fn processes_in(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| std::fs::read_link(entry.path().join("cwd")).ok())
        .filter(|cwd| cwd.starts_with(dir))
        .collect()
}
