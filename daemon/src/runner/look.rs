//! What the files of an attempt say: it ended, it runs, its shim is lost, or it never began.
//!
//! An agent can write to these files. So a shim that the store knows counts, whatever they say; one that they alone name
//! has to be a shim. As long as it lives, no record of an end is believed, and files that are gone are no proof that
//! nothing ran.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ccagent_core::task::Shim;
use ccagent_shim::files::{self, ReadError};
use ccagent_shim::tree::Process;
use ccagent_shim::wire::ExitRecord;

/// The first pause between two looks.
pub(super) const PAUSE: Duration = Duration::from_millis(50);
/// The longest one.
pub(super) const PAUSE_MOST: Duration = Duration::from_secs(5);

/// What an attempt's files say.
#[derive(Debug)]
pub(super) enum Look {
    /// Its shim lives, and its program has started.
    Runs(Shim),
    /// It does not run.
    Over(Over),
}

/// How an attempt is over.
#[derive(Debug)]
pub(super) enum Over {
    /// It ended, as its shim said itself.
    Said(ExitRecord),
    /// It ended, as a file says that anybody can have written.
    Ended(ExitRecord),
    /// Its shim was killed.
    Lost(String),
    /// The machine started anew since.
    OtherBoot,
    /// No shim ever took it, or its files are gone.
    NeverClaimed,
}

/// The process of a shim, unless it is gone for sure.
pub(super) fn living(shim: &Shim, boot: &str) -> Option<u32> {
    let gone = *shim.boot != *boot || files::same_process(shim.pid, shim.start) == files::Liveness::Gone;
    u32::try_from(shim.pid).ok().filter(|_| !gone)
}

/// The shim that the files name; anybody can have written it.
pub(super) fn named(dir: &Path) -> Option<Shim> {
    recorded(dir).ok().flatten()
}

fn recorded(dir: &Path) -> Result<Option<Shim>, ReadError> {
    let claim = match (files::read_shim(dir), files::read_claim(dir)) {
        (Ok(Some(record)), _) => {
            let (pid, start, boot) = (record.shim_pid, record.shim_start, record.boot_id.into());
            return Ok(Some(Shim { pid, start, boot, leader: record.pid }));
        }
        (Ok(None) | Err(_), Ok(Some(claim))) => claim,
        (Ok(None), Ok(None)) => return Ok(None),
        (Err(error), Ok(None)) | (_, Err(error)) => return Err(error),
    };
    let (pid, start, boot) = (claim.shim_pid, claim.shim_start, claim.boot_id.into());
    Ok(Some(Shim { pid, start, boot, leader: None }))
}

/// The process that a shim is in this boot.
pub(super) fn process(shim: &Shim) -> Process {
    Process { pid: shim.pid, start_time: shim.start }
}

/// Whether a process runs the shims' program, or one of its name that an upgrade replaced.
pub(super) fn runs(process: Process, program: &Path) -> bool {
    let exe = PathBuf::from(format!("/proc/{}/exe", process.pid));
    let node = |path: &Path| fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
    // Another user's program can't be read, and is none of ours.
    let Ok(path) = fs::read_link(&exe) else { return false };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_named =
        program.file_name().is_some_and(|ours| *ours == *name.strip_suffix(" (deleted)").unwrap_or(&name));
    (is_named || node(program).is_some_and(|ours| node(&exe) == Some(ours)))
        && files::same_process(process.pid, process.start_time) == files::Liveness::Alive
}

/// Whether a shim may supervise the attempt right now; what can't be told counts as one that does (I6).
pub(super) fn may_run(dir: &Path, boot: &str) -> bool {
    recorded(dir).is_err() || !matches!(once(dir, None, boot, |_| true), Some(Look::Over(_)))
}

/// How an attempt is over whose shim is gone; `None` when its exit record can't be read, which says nothing (I6).
fn after(dir: &Path, without: Over) -> Option<Over> {
    match (files::read_exit(dir), without) {
        (Ok(Some(record)), _) => Some(Over::Ended(record)),
        (Err(ReadError::Unreadable(error)), _) => {
            tracing::warn!(dir = %dir.display(), %error, "an exit record can't be read");
            None
        }
        (Err(error), Over::Lost(_)) => Some(Over::Lost(format!("its exit record is bad: {error}"))),
        (Ok(None) | Err(_), without) => Some(without),
    }
}

/// One reading; `None` when it tells nothing for sure. A shim that is known counts, whatever the files say; one that
/// they alone name has to be a shim.
pub(super) fn once(
    dir: &Path,
    known: Option<&Shim>,
    boot: &str,
    is_shim: impl Fn(Process) -> bool,
) -> Option<Look> {
    let shim = match known.cloned().map_or_else(|| recorded(dir), |known| Ok(Some(known))) {
        Ok(Some(shim)) => shim,
        Ok(None) => return Some(Look::Over(Over::NeverClaimed)),
        Err(ReadError::Unreadable(_)) => return None,
        // It was whole when it got its name, and does not become so again.
        Err(error @ ReadError::Corrupt(_)) => {
            return after(dir, Over::Lost(error.to_string())).map(Look::Over);
        }
    };
    if *shim.boot != *boot {
        return after(dir, Over::OtherBoot).map(Look::Over);
    }
    match files::same_process(shim.pid, shim.start) {
        files::Liveness::Gone => after(dir, Over::Lost("its shim was killed".to_owned())).map(Look::Over),
        files::Liveness::Alive if known.is_none() && !is_shim(process(&shim)) => {
            Some(Look::Over(Over::Lost("its files name a process that is no shim".to_owned())))
        }
        files::Liveness::Alive => shim.leader.is_some().then_some(Look::Runs(shim)),
        files::Liveness::Unknown => None,
    }
}

/// Reads what the attempt's files say, again and again while they say nothing for sure: a shim is between its claim
/// and its record for a moment, and "unreadable" is neither "absent" nor "dead" (I6, D56).
pub(super) async fn at(
    dir: &Path,
    known: Option<&Shim>,
    boot: &str,
    is_shim: impl Fn(Process) -> bool,
) -> Look {
    let mut pause = PAUSE;
    loop {
        if let Some(look) = once(dir, known, boot, &is_shim) {
            return look;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MOST);
        if pause == PAUSE_MOST {
            tracing::warn!(dir = %dir.display(), "it can't be told whether this attempt runs");
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const BOOT: &str = "this one";
    const FORGED: &str = "{\"version\":1,\"code\":0,\"endedAt\":1,\"outputBytes\":0,\"outputTruncated\":false,\
         \"stopped\":false,\"forced\":false,\"oom\":false}";

    fn own() -> Shim {
        let stat = ccagent_shim::tree::stat::read(std::process::id().cast_signed()).unwrap().unwrap();
        Shim { pid: stat.pid, start: stat.start_time, boot: BOOT.into(), leader: Some(7) }
    }

    fn claim(dir: &Path, shim: &Shim) {
        let Shim { pid, start, boot, .. } = shim;
        let text = format!("{{\"version\":1,\"shimPid\":{pid},\"shimStart\":{start},\"bootId\":\"{boot}\"}}");
        fs::write(dir.join(files::CLAIM), text).unwrap();
    }

    /// I3, I6: an exit record that anybody could have written is no end as long as the shim lives.
    #[test]
    fn no_end_is_believed_while_the_shim_lives() {
        let dir = tempfile::tempdir().unwrap();
        let look = || once(dir.path(), None, BOOT, |_| true);
        fs::write(dir.path().join(files::EXIT), FORGED).unwrap();
        assert!(matches!(look(), Some(Look::Over(Over::NeverClaimed))));
        claim(dir.path(), &own());
        assert!(look().is_none());
        assert!(may_run(dir.path(), BOOT));
        fs::write(dir.path().join(files::SHIM), "no record").unwrap();
        assert!(look().is_none());
        claim(dir.path(), &Shim { start: own().start + 1, ..own() });
        assert!(matches!(look(), Some(Look::Over(Over::Ended(_)))));
    }

    /// I3, I5, I9, D49: nothing in a file takes the place of the shim that is known, neither a dead one, nor another
    /// process or boot, nor none; where the files alone name one, it has to be a shim.
    #[test]
    fn a_known_shim_counts_whatever_the_files_say() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(files::EXIT), FORGED).unwrap();
        let known = own();
        let look = || once(dir.path(), Some(&known), BOOT, |_| false);
        assert!(matches!(look(), Some(Look::Runs(shim)) if shim == known));
        let dead = Shim { start: known.start + 1, ..own() };
        let other = Shim { pid: std::os::unix::process::parent_id().cast_signed(), ..own() };
        for forged in [dead.clone(), other, Shim { boot: "another".into(), ..own() }] {
            claim(dir.path(), &forged);
            assert!(matches!(look(), Some(Look::Runs(shim)) if shim == known), "{forged:?}");
        }
        claim(dir.path(), &own());
        let unknown = once(dir.path(), None, BOOT, |_| false);
        assert!(matches!(unknown, Some(Look::Over(Over::Lost(_)))), "{unknown:?}");
        let over = once(dir.path(), Some(&dead), BOOT, |_| true);
        assert!(matches!(over, Some(Look::Over(Over::Ended(_)))), "{over:?}");
    }

    /// I6, D56: an exit record that can't be opened is no missing one: it is read again later, and counts then.
    #[tokio::test(start_paused = true)]
    async fn an_unreadable_exit_record_is_read_again() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("attempt-1");
        for boot in [BOOT, "another"] {
            // A link to a name that the system does not take: whatever is asked of a name in it is refused.
            std::os::unix::fs::symlink("x".repeat(300), &dir).unwrap();
            let gone = Shim { start: own().start + 1, boot: boot.into(), ..own() };
            let mut look = std::pin::pin!(at(&dir, Some(&gone), BOOT, |_| true));
            assert!(look.as_mut().now_or_never().is_none());
            fs::remove_file(&dir).unwrap();
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join(files::EXIT), FORGED).unwrap();
            assert!(matches!(look.await, Look::Over(Over::Ended(_))));
            fs::remove_dir_all(&dir).unwrap();
        }
    }

    /// I5: what runs another program is no shim, and neither is whoever has the number of one now.
    #[test]
    fn a_shim_runs_the_shims_program() {
        let program = std::env::current_exe().unwrap();
        let own = process(&own());
        assert!(runs(own, &program));
        assert!(runs(own, &Path::new("/elsewhere").join(program.file_name().unwrap())));
        assert!(!runs(own, Path::new("/bin/sh")));
        assert!(!runs(Process { start_time: own.start_time + 1, ..own }, &program));
        assert!(!runs(Process { pid: 1, start_time: 0 }, &program));
    }
}
