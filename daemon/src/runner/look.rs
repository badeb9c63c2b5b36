//! What the files of an attempt say: it ended, it runs, its shim is lost, or it never began.
//!
//! An agent can write to these files. So as long as the shim that they name lives, no record of an end is believed,
//! and files that are gone are no proof that nothing ran.

use std::path::Path;
use std::time::Duration;

use ccagent_shim::files;
use ccagent_shim::tree::Process;
use ccagent_shim::wire::ExitRecord;

/// The first pause between two looks.
pub(super) const PAUSE: Duration = Duration::from_millis(50);
/// The longest one.
pub(super) const PAUSE_MOST: Duration = Duration::from_secs(5);

/// What an attempt's files say.
#[derive(Debug)]
pub(super) enum Look {
    /// Its shim lives.
    Runs { shim: Process, pid: i32 },
    /// It does not run.
    Over(Over),
}

/// How an attempt is over.
#[derive(Debug)]
pub(super) enum Over {
    /// It ended.
    Ended(ExitRecord),
    /// Its shim was killed.
    Lost(String),
    /// The machine started anew since.
    OtherBoot,
    /// No shim ever took it, or its files are gone.
    NeverClaimed,
}

/// The process of the shim that the files name, unless it is gone for sure.
pub(super) fn shim(dir: &Path) -> Option<u32> {
    let shim = named(dir)?;
    let gone = files::same_process(shim.pid, shim.start_time) == files::Liveness::Gone;
    u32::try_from(shim.pid).ok().filter(|_| !gone)
}

/// The shim that the files name.
pub(super) fn named(dir: &Path) -> Option<Process> {
    let recorded = files::read_shim(dir).ok().flatten().map(|record| (record.shim_pid, record.shim_start));
    let named = recorded
        .or_else(|| files::read_claim(dir).ok().flatten().map(|claim| (claim.shim_pid, claim.shim_start)));
    named.map(|(pid, start_time)| Process { pid, start_time })
}

/// Whether a shim may supervise the attempt right now; what can't be told counts as one that does (I6).
pub(super) fn may_run(dir: &Path) -> bool {
    !matches!(once(dir), Some(Look::Over(_)))
}

/// How an attempt is over whose shim is gone.
pub(super) fn after(dir: &Path) -> Over {
    match files::read_exit(dir) {
        Ok(Some(record)) => Over::Ended(record),
        Ok(None) => Over::Lost("its shim was killed".to_owned()),
        Err(error) => Over::Lost(format!("its exit record is bad: {error}")),
    }
}

/// One reading; `None` when it tells nothing for sure.
pub(super) fn once(dir: &Path) -> Option<Look> {
    let (pid, start_time, boot, leader) = match (files::read_shim(dir), files::read_claim(dir)) {
        (Ok(Some(record)), _) => (record.shim_pid, record.shim_start, record.boot_id, record.pid),
        (Ok(None) | Err(_), Ok(Some(claim))) => (claim.shim_pid, claim.shim_start, claim.boot_id, None),
        (Ok(None), Ok(None)) => return Some(Look::Over(Over::NeverClaimed)),
        (Err(_), Ok(None)) | (_, Err(_)) => return None,
    };
    if files::boot_id().is_ok_and(|now| now != boot) {
        return Some(Look::Over(match files::read_exit(dir) {
            Ok(Some(record)) => Over::Ended(record),
            Ok(None) | Err(_) => Over::OtherBoot,
        }));
    }
    match (files::same_process(pid, start_time), leader) {
        (files::Liveness::Alive, Some(pid_of_leader)) => {
            Some(Look::Runs { shim: Process { pid, start_time }, pid: pid_of_leader })
        }
        (files::Liveness::Gone, _) => Some(Look::Over(after(dir))),
        (files::Liveness::Alive | files::Liveness::Unknown, _) => None,
    }
}

/// Reads what the attempt's files say, again and again while they say nothing for sure: a shim is between its claim
/// and its record for a moment, and "unreadable" is neither "absent" nor "dead" (I6, D56).
pub(super) async fn at(dir: &Path) -> Look {
    let mut pause = PAUSE;
    loop {
        if let Some(look) = once(dir) {
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
    use super::*;

    /// I3, I6: an exit record that anybody could have written is no end as long as the shim lives.
    #[test]
    fn no_end_is_believed_while_the_shim_lives() {
        let dir = tempfile::tempdir().unwrap();
        let own = ccagent_shim::tree::stat::read(std::process::id().cast_signed()).unwrap().unwrap();
        let boot = files::boot_id().unwrap();
        let write = |name: &str, text: String| std::fs::write(dir.path().join(name), text).unwrap();
        let forged = "{\"version\":1,\"code\":0,\"endedAt\":1,\"outputBytes\":0,\"outputTruncated\":false,\
             \"stopped\":false,\"forced\":false,\"oom\":false}";
        write(files::EXIT, forged.to_owned());
        assert!(matches!(once(dir.path()), Some(Look::Over(Over::NeverClaimed))));
        let claim = |start| {
            let pid = own.pid;
            format!("{{\"version\":1,\"shimPid\":{pid},\"shimStart\":{start},\"bootId\":\"{boot}\"}}")
        };
        write(files::CLAIM, claim(own.start_time));
        assert!(once(dir.path()).is_none());
        assert!(may_run(dir.path()));
        write(files::SHIM, "no record".to_owned());
        assert!(once(dir.path()).is_none());
        write(files::CLAIM, claim(own.start_time + 1));
        assert!(matches!(once(dir.path()), Some(Look::Over(Over::Ended(_)))));
    }
}
