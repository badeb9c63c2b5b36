//! What the files of an attempt say: it ended, it runs, its shim is lost, or it never began.

use std::path::Path;
use std::time::Duration;

use ccagent_shim::files;
use ccagent_shim::wire::ExitRecord;

/// The first pause between two looks.
pub(super) const PAUSE: Duration = Duration::from_millis(50);
/// The longest one.
pub(super) const PAUSE_MOST: Duration = Duration::from_secs(5);

/// What an attempt's files say.
#[derive(Debug)]
pub(super) enum Look {
    /// Its shim lives.
    Runs { shim: i32, pid: i32 },
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
    /// No shim ever took it.
    NeverClaimed,
}

/// The process of the shim that the files name, unless it is gone for sure.
pub(super) fn shim(dir: &Path) -> Option<u32> {
    let (pid, start) = named(dir)?;
    let gone = files::same_process(pid, start) == files::Liveness::Gone;
    u32::try_from(pid).ok().filter(|_| !gone)
}

/// The shim that the files name: its process id and start time.
pub(super) fn named(dir: &Path) -> Option<(i32, u64)> {
    let recorded = files::read_shim(dir).ok().flatten().map(|record| (record.shim_pid, record.shim_start));
    recorded.or_else(|| files::read_claim(dir).ok().flatten().map(|claim| (claim.shim_pid, claim.shim_start)))
}

/// Whether a shim may supervise the attempt right now; what can't be told counts as one that does (I6).
pub(super) fn may_run(dir: &Path) -> bool {
    !matches!(once(dir), Some(Look::Over(_)))
}

/// One reading; `None` when it tells nothing for sure.
fn once(dir: &Path) -> Option<Look> {
    if let Ok(Some(record)) = files::read_exit(dir) {
        return Some(Look::Over(Over::Ended(record)));
    }
    let (shim, start, boot, pid) = match (files::read_shim(dir), files::read_claim(dir)) {
        (Ok(Some(record)), _) => (record.shim_pid, record.shim_start, record.boot_id, record.pid),
        (Ok(None), Ok(Some(claim))) => (claim.shim_pid, claim.shim_start, claim.boot_id, None),
        (Ok(None), Ok(None)) => return Some(Look::Over(Over::NeverClaimed)),
        (Err(_), _) | (_, Err(_)) => return None,
    };
    if files::boot_id().is_ok_and(|now| now != boot) {
        return Some(Look::Over(Over::OtherBoot));
    }
    match (files::same_process(shim, start), pid) {
        (files::Liveness::Alive, Some(pid)) => Some(Look::Runs { shim, pid }),
        (files::Liveness::Gone, _) => Some(Look::Over(match files::read_exit(dir) {
            // It wrote its record and ended between the two looks.
            Ok(Some(record)) => Over::Ended(record),
            Ok(None) => Over::Lost("its shim was killed".to_owned()),
            Err(error) => Over::Lost(format!("its exit record is bad: {error}")),
        })),
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
