//! `daemon`: start, stop and inspect the daemon; save and restore its store; install its units.

mod log;
mod silent;
mod units;

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use ccagent_client::{Client, Error, Place, start};
use ccagent_proto::Empty;
use ccagent_proto::daemon::{
    DaemonExportParams, DaemonShutdownParams, DaemonShutdownResult, DaemonStatusResult, ShutdownMode,
};
use ccagent_proto::method::{DaemonExport, DaemonShutdown, DaemonStatus};
use rustix::event::{PollFd, PollFlags};

use crate::app::App;
use crate::exit::{Exit, Stop};
use crate::{render, value};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Start the daemon where none runs
    Start,
    /// End the daemon and the agents
    Stop(StopArgs),
    /// End the daemon and start it again; agents go on
    Restart,
    /// Say how the daemon is
    Status,
    /// Print the log of a daemon that a command started
    Logs(log::Args),
    /// Write the whole store to a file
    Export {
        /// The file; a new one among the daemon's own exports by default
        file: Option<PathBuf>,
    },
    /// Set a broken store aside and read an export into a new one
    Restore {
        /// The file; the newest of the daemon's own exports by default
        file: Option<PathBuf>,
    },
    /// Write systemd user units, and enable them
    Install(units::InstallArgs),
    /// Disable and remove the systemd user units
    Uninstall,
}

#[derive(Debug, clap::Args)]
pub(super) struct StopArgs {
    /// Leave the agents to the next daemon
    #[arg(long)]
    keep_agents: bool,
    /// Kill the agents at once
    #[arg(long, conflicts_with = "keep_agents")]
    force: bool,
}

pub(super) async fn run(app: &App, command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Start => start(app).await,
        Command::Stop(args) => {
            let mode = match (args.keep_agents, args.force) {
                (true, _) => ShutdownMode::KeepAgents,
                (false, true) => ShutdownMode::Force,
                (false, false) => ShutdownMode::Graceful,
            };
            let client = match app.connect().await {
                Err(error) if matches!(error.downcast_ref(), Some(Error::Silent { .. })) => {
                    return silent::stop(app, mode, error).await;
                }
                connected => connected?,
            };
            let ended = shutdown(&client, mode, app.global.timeout.map(value::millis)).await?;
            app.out.one(&ended, ended_text)?;
            Ok(Exit::OK)
        }
        Command::Restart => restart(app).await,
        Command::Status => {
            let status = app.connect().await?.call::<DaemonStatus>(Empty {}).await?;
            app.out.one(&status, status_text)?;
            Ok(Exit::OK)
        }
        Command::Logs(args) => log::run(&app.place()?, args).await,
        Command::Export { file } => export(app, file).await,
        Command::Restore { file } => restore(app, file).await,
        Command::Install(args) => units::install(app, args).await,
        Command::Uninstall => units::uninstall(app).await,
    }
}

async fn start(app: &App) -> anyhow::Result<Exit> {
    let place = app.place()?;
    let (client, started) = start::connect_or_start(&place).await?;
    let status = client.call::<DaemonStatus>(Empty {}).await?;
    app.note(if started { "started" } else { "it runs already" });
    app.out.one(&status, status_text)?;
    Ok(Exit::OK)
}

async fn restart(app: &App) -> anyhow::Result<Exit> {
    match app.connect().await {
        Ok(client) => {
            let ended = shutdown(&client, ShutdownMode::KeepAgents, None).await?;
            app.note(ended_text(&ended).trim_end());
        }
        Err(error) if matches!(error.downcast_ref(), Some(Error::Silent { .. })) => {
            silent::stop(app, ShutdownMode::KeepAgents, error).await?;
        }
        Err(error) if matches!(error.downcast_ref(), Some(Error::NotRunning { .. })) => {}
        Err(error) => return Err(error),
    }
    start(app).await
}

/// Ends a daemon, and returns once its process is gone.
pub(super) async fn shutdown(
    client: &Client,
    mode: ShutdownMode,
    timeout_ms: Option<u64>,
) -> anyhow::Result<DaemonShutdownResult> {
    let status = client.call::<DaemonStatus>(Empty {}).await?;
    // Taken while the daemon lives, so that it can't be another process's.
    let process = pidfd(status.pid)?;
    let params = DaemonShutdownParams { mode, timeout_ms };
    let ended = match client.call::<DaemonShutdown>(params).await {
        // It may be gone before its answer was read.
        Err(Error::Closed) => DaemonShutdownResult::default(),
        answered => answered?,
    };
    if let Some(process) = process {
        tokio::task::spawn_blocking(move || wait_for(&process)).await??;
    }
    Ok(ended)
}

/// A descriptor that becomes readable when a process ends; `None` where the process has ended already.
fn pidfd(pid: u32) -> anyhow::Result<Option<OwnedFd>> {
    let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else {
        return Ok(None);
    };
    match rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
        Ok(fd) => Ok(Some(fd)),
        Err(rustix::io::Errno::SRCH) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Waits for the end of a process.
fn wait_for(process: &OwnedFd) -> rustix::io::Result<()> {
    let mut watched = [PollFd::new(process, PollFlags::IN)];
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut watched, None)).map(drop)
}

async fn export(app: &App, file: Option<PathBuf>) -> anyhow::Result<Exit> {
    let path = match file {
        None => None,
        Some(file) => std::path::absolute(file)?.to_str().map(str::to_owned),
    };
    let exported = app.connect().await?.call::<DaemonExport>(DaemonExportParams { path }).await?;
    app.out.one(&exported, |exported| render::line(&exported.path))?;
    app.note(&format!("{} bytes", exported.bytes));
    Ok(Exit::OK)
}

async fn restore(app: &App, file: Option<PathBuf>) -> anyhow::Result<Exit> {
    let place = app.place()?;
    if Client::connect(&place.socket).await.is_ok() {
        let message = "the daemon runs; stop it first with: ccagentctl daemon stop --keep-agents";
        return Err(Stop::new(Exit::CONFLICT, message).into());
    }
    app.confirm(&format!("set the store in {} aside and restore an export", place.state_dir.display()))?;
    let status = restore_command(&place, file)?.status().await?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(Exit::FAILED, Exit))
}

fn restore_command(place: &Place, file: Option<PathBuf>) -> anyhow::Result<tokio::process::Command> {
    let mut command = tokio::process::Command::new(start::daemon_program()?);
    command.arg("--state-dir").arg(&place.state_dir);
    if place.config_chosen {
        command.arg("--config").arg(&place.config);
    }
    let mut restore = std::ffi::OsString::from("--restore");
    if let Some(file) = file {
        restore.push("=");
        restore.push(std::path::absolute(file)?);
    }
    command.arg(restore).kill_on_drop(true);
    Ok(command)
}

fn ended_text(ended: &DaemonShutdownResult) -> String {
    let count = |list: &[ccagent_proto::TaskId], words: &str| {
        (!list.is_empty()).then(|| format!("{words}: {}", list.len()))
    };
    let parts = [
        Some("the daemon ended".to_owned()),
        count(&ended.stopped, "agents that ended with it"),
        count(&ended.kept, "agents that go on"),
        count(&ended.abandoned, "agents that did not end in time and were left to be killed"),
    ];
    render::lines(parts.into_iter().flatten())
}

pub(super) fn status_text(status: &DaemonStatusResult) -> String {
    let join = |pairs: Vec<String>| Some(pairs.join(", ")).filter(|text| !text.is_empty());
    let counts = status.counts.iter().map(|(state, count)| format!("{count} {state}"));
    let flags = status.flags.iter().filter(|(_, on)| **on).map(|(name, _)| name.clone());
    let uptime = render::span(render::now().saturating_sub(status.started_at));
    let mut text = render::details(&[
        ("pid", Some(status.pid.to_string())),
        ("version", Some(status.version.clone())),
        ("socket", Some(status.address.clone())),
        ("state", Some(status.state_dir.clone())),
        ("up", Some(format!("{uptime}, since {}", render::time(status.started_at)))),
        ("agents", join(counts.collect()).or_else(|| Some("none".into()))),
        ("connections", Some(status.connections.to_string())),
        ("durability", Some(status.durability.clone())),
        ("store", Some(render::bytes(status.store.bytes))),
        ("paused", status.paused.then(|| "yes: nothing new starts".into())),
        ("flags", join(flags.collect())),
    ]);
    let warnings = status.warnings.iter();
    text.push_str(&render::lines(warnings.map(|warning| format!("warning      {}", render::line(warning)))));
    text
}
