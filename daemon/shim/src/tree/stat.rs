//! What `/proc/<pid>/stat` says of a process.

use std::{fs, io};

use super::Process;

/// The fields we need of `/proc/<pid>/stat` (proc_pid_stat(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Process id, field 1.
    pub pid: i32,
    /// Parent, field 4.
    pub parent: i32,
    /// Process group, field 5.
    pub group: i32,
    /// Session, field 6.
    pub session: i32,
    /// Start time in clock ticks since boot, field 22.
    pub start_time: u64,
    /// Whether it has ended and only waits to be reaped, fields 3 and 20.
    pub ended: bool,
}

impl Stat {
    /// The process this is about.
    pub fn process(&self) -> Process {
        Process { pid: self.pid, start_time: self.start_time }
    }
}

/// Reads one process; `None` when there is none of that id.
pub fn read(pid: i32) -> io::Result<Option<Stat>> {
    let text = match fs::read(format!("/proc/{pid}/stat")) {
        Ok(text) => text,
        // ESRCH: it ended between open and read.
        Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(3) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    parse(&text).map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Reads every process that is visible to us, as far as that can be done; those that end meanwhile are left out.
pub fn all() -> io::Result<Vec<Stat>> {
    let mut stats = Vec::new();
    visit(|stat| stats.push(stat), |_| Ok(()))?;
    Ok(stats)
}

/// Like [`all`], for proofs of absence: where a process could not be read for want of descriptors or memory there is
/// no list at all. Those that the system hides from us are other users'.
pub fn every() -> io::Result<Vec<Stat>> {
    let mut stats = Vec::new();
    each(|stat| stats.push(stat))?;
    Ok(stats)
}

/// Shows every process as [`every`] lists them, the highest numbers first: what flees by forking has one of those, and
/// is looked at right after it was listed, before it has gone on under another.
pub fn each(look: impl FnMut(Stat)) -> io::Result<()> {
    visit(look, |error| match error.kind() {
        io::ErrorKind::PermissionDenied => Ok(()),
        _ => Err(error),
    })
}

fn visit(mut look: impl FnMut(Stat), judge: impl Fn(io::Error) -> io::Result<()>) -> io::Result<()> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        pids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    for pid in pids.into_iter().rev() {
        match read(pid) {
            Ok(Some(stat)) => look(stat),
            Ok(None) => {}
            Err(error) => judge(error)?,
        }
    }
    Ok(())
}

fn parse(text: &[u8]) -> Option<Stat> {
    // The name stands in parentheses and may hold anything, parentheses too: the last one ends it.
    let end = text.iter().rposition(|&byte| byte == b')')?;
    let pid = std::str::from_utf8(&text[..text.iter().position(|&byte| byte == b' ')?]).ok()?;
    let rest = std::str::from_utf8(&text[end + 1..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    let threads: i32 = fields.nth(13)?.parse().ok()?;
    let start_time = fields.nth(1)?.parse().ok()?;
    // A program goes on in its other threads when its first one has ended.
    let ended = matches!(state, "X" | "x") || (state == "Z" && threads <= 1);
    Some(Stat { pid: pid.parse().ok()?, parent, group, session, start_time, ended })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_full_of_parentheses_is_no_trap() {
        let text = b"77 (a) Z 1 (x)) S 5 6 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 2 3\n";
        let stat = parse(text).unwrap();
        assert_eq!(
            stat,
            Stat { pid: 77, parent: 5, group: 6, session: 7, start_time: 987_654, ended: false }
        );
    }

    /// I3: a zombie has ended, but not one whose other threads go on.
    #[test]
    fn a_process_ends_with_its_last_thread() {
        for (state, threads, ended) in [("Z", 1, true), ("X", 0, true), ("Z", 2, false), ("S", 1, false)] {
            let text = format!("7 (x) {state} 5 6 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 {threads} 0 9 2 3\n");
            assert_eq!(parse(text.as_bytes()).unwrap().ended, ended, "{text}");
        }
    }

    #[test]
    fn a_process_that_never_was_is_absent() {
        assert_eq!(read(i32::MAX).unwrap(), None);
    }
}
