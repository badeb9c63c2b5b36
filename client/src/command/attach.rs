//! `attach`: this terminal on a running agent, as its keyboard and screen, or only to watch.

use ccagent_proto::method::{TaskGet, TaskResize, TaskWait};
use ccagent_proto::task::{TaskGetParams, TaskResizeParams, TaskWaitParams};

use crate::app::{App, Start};
use crate::exit::{self, Exit, Stop};
use crate::follow::From;
use crate::interactive::{self, DETACH_KEY, Ending, RESIZE_MS, Stake, Wiring};
use crate::{render, terminal};

/// Lines of earlier output that are shown first.
const CONTEXT: u32 = 100;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The agent
    id: String,
    /// Only watch
    #[arg(long)]
    read_only: bool,
    /// The key that leaves, as ctrl- and a letter or one of [ \ ] ^ _
    #[arg(long, value_name = "KEY", default_value = "ctrl-]", value_parser = key)]
    detach_key: u8,
}

pub(super) async fn run(app: &App, args: Args) -> anyhow::Result<Exit> {
    let line = app.connect_lasting(Start::Never).await?;
    let task = line.call::<TaskGet>(TaskGetParams { task_id: args.id }).await?;
    if task.status.is_done() {
        let message = format!(
            "{} is {}; read its output with: ccagentctl logs {}",
            render::task::called(&task),
            task.status.word(),
            task.id
        );
        return Err(Stop::new(Exit::NOT_FOUND, message).into());
    }
    let id = task.id.to_string();
    let (cols, rows) = terminal::size().unwrap_or((80, 24));
    let size = TaskResizeParams { task_id: id.clone(), cols, rows, timeout_ms: Some(RESIZE_MS) };
    // Only a task with a terminal takes a size.
    let pty = !args.read_only && line.call::<TaskResize>(size).await.is_ok();
    app.note(&banner(&render::task::called(&task), args.read_only, pty, args.detach_key));
    let wiring = Wiring {
        task: id.clone(),
        from: From::Tail(CONTEXT),
        stdin: !args.read_only,
        pty,
        detach_key: args.detach_key,
        stake: Stake::Guest,
    };
    match interactive::run(app, &line, wiring).await? {
        Ending::Detached => {
            app.note("\nleft running");
            Ok(Exit::OK)
        }
        Ending::OutputGone(Exit::BROKEN_PIPE) => Ok(Exit::OK),
        Ending::OutputGone(exit) | Ending::Signalled(exit) => Ok(exit),
        Ending::Done(_) => {
            let params = TaskWaitParams { task_ids: vec![id], ..TaskWaitParams::default() };
            let done = line.call::<TaskWait>(params).await?;
            Ok(done.tasks.first().map_or(Exit::OK, exit::of_run))
        }
    }
}

/// What the person at the terminal has to know.
fn banner(called: &str, read_only: bool, pty: bool, detach_key: u8) -> String {
    let key = name(detach_key);
    match (read_only, pty) {
        (false, true) => format!("attached to {called}; {key} leaves it running"),
        (false, false) => {
            format!("attached to {called}, which has no terminal; {key} or Ctrl-C leaves it running")
        }
        (true, _) => format!("watching {called}; {key} or Ctrl-C leaves it running"),
    }
}

/// A control key by its name.
fn key(text: &str) -> Result<u8, String> {
    let letter = text
        .strip_prefix("ctrl-")
        .filter(|rest| rest.len() == 1)
        .and_then(|rest| rest.bytes().next())
        .map(|byte| byte.to_ascii_uppercase());
    match letter {
        Some(byte @ b'A'..=b'_') => Ok(byte - b'@'),
        Some(_) | None => Err("write it as ctrl-a … ctrl-z, or ctrl- and one of [ \\ ] ^ _".into()),
    }
}

fn name(key: u8) -> String {
    format!("Ctrl-{}", char::from(key + b'@'))
}

const _: () = assert!(DETACH_KEY == b']' - b'@', "the default of --detach-key says ctrl-]");

#[cfg(test)]
mod tests {
    use super::*;

    /// cli.md, `attach`: the key that leaves can be chosen.
    #[test]
    fn a_detach_key_is_written_as_its_control_letter() {
        assert_eq!(key("ctrl-]"), Ok(DETACH_KEY));
        assert_eq!(key("ctrl-p"), Ok(16));
        assert_eq!(name(16), "Ctrl-P");
        assert!(key("p").is_err() && key("ctrl-").is_err() && key("ctrl-1").is_err());
    }
}
