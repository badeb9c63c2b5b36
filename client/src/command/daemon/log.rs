//! The log file of a daemon that a command started, and what is written to it from now on.

use std::io::{IsTerminal, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

use anyhow::Context;
use ccagent_client::Place;
use rustix::fs::inotify;

use crate::exit::{Exit, Stop};

/// How much of a long log is looked at for its last lines.
const WINDOW: u64 = 4 << 20;

#[derive(Debug, clap::Args)]
pub(in crate::command) struct Args {
    /// Go on as more comes
    #[arg(short, long)]
    follow: bool,
    /// Only the last so many lines
    #[arg(short = 'n', long, value_name = "N", default_value_t = 200)]
    lines: usize,
}

pub(super) async fn run(place: &Place, args: Args) -> anyhow::Result<Exit> {
    let path = place.log_file();
    let mut file =
        std::fs::OpenOptions::new().read(true).custom_flags(nix::libc::O_NOFOLLOW).open(&path).map_err(
            |why| {
                let message = format!(
                    "{}: {why}; the log of a daemon under systemd is in: journalctl --user -u ccagentd",
                    path.display()
                );
                Stop::new(Exit::NOT_FOUND, message)
            },
        )?;
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC)?;
    inotify::add_watch(&watch, &path, inotify::WatchFlags::MODIFY)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(WINDOW)))?;
    print(last_lines(&read(&mut file)?, args.lines))?;
    if !args.follow {
        return Ok(Exit::OK);
    }
    let watch = std::sync::Arc::new(watch);
    loop {
        let watch = watch.clone();
        tokio::task::spawn_blocking(move || change(&watch)).await??;
        print(&read(&mut file)?)?;
    }
}

/// Waits for a change; what the events say doesn't matter, only that there was one.
fn change(watch: &std::os::fd::OwnedFd) -> rustix::io::Result<()> {
    let mut buffer = [0; 4096];
    rustix::io::retry_on_intr(|| rustix::io::read(watch, &mut buffer)).map(drop)
}

fn read(file: &mut std::fs::File) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).context("the log")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Prints of the log; what is quoted in it can't steer a terminal.
fn print(text: &str) -> anyhow::Result<()> {
    crate::output::write(&if std::io::stdout().is_terminal() {
        crate::render::clean(text)
    } else {
        text.to_owned()
    })
}

fn last_lines(text: &str, count: usize) -> &str {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let start = body.rmatch_indices('\n').nth(count.saturating_sub(1)).map_or(0, |(at, _)| at + 1);
    if count == 0 { "" } else { &text[start..] }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// cli.md, `daemon logs`: the last lines of the log.
    #[test]
    fn the_last_lines_are_whole_lines() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "b\nc\n");
        assert_eq!(last_lines("a\nb\nc", 1), "c");
        assert_eq!(last_lines("a\n", 5), "a\n");
        assert_eq!(last_lines("a\n", 0), "");
    }
}
