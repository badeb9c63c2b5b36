//! systemd user units: written, enabled, removed.

use std::path::{Path, PathBuf};

use anyhow::Context;
use ccagent_client::{place, start};

use crate::app::App;
use crate::exit::{Exit, Stop};

const SERVICE: &str = include_str!("../../../../systemd/ccagentd.service");
const SOCKET: &str = include_str!("../../../../systemd/ccagentd.socket");

#[derive(Debug, clap::Args)]
pub(in crate::command) struct InstallArgs {
    /// Only write the units
    #[arg(long)]
    no_enable: bool,
    /// Let it run while you are not logged in
    #[arg(long)]
    linger: bool,
    /// Print the units and write nothing
    #[arg(long)]
    print: bool,
}

pub(super) async fn install(app: &App, args: InstallArgs) -> anyhow::Result<Exit> {
    let service = with_program(SERVICE, &start::daemon_program()?);
    if args.print {
        crate::output::write(&format!("{service}\n{SOCKET}"))?;
        return Ok(Exit::OK);
    }
    let dir = directory()?;
    std::fs::create_dir_all(&dir)?;
    for (path, text) in files(&dir).into_iter().zip([service.as_str(), SOCKET]) {
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        crate::output::write(&path.display().to_string())?;
    }
    if !args.no_enable {
        systemctl(&["daemon-reload"]).await?;
        systemctl(&["enable", "--now", "ccagentd.socket"]).await?;
        app.note("enabled; the daemon starts with the first connection");
    }
    if args.linger {
        command("loginctl", &["enable-linger"]).await?;
    }
    Ok(Exit::OK)
}

pub(super) async fn uninstall(app: &App) -> anyhow::Result<Exit> {
    let files = files(&directory()?);
    if files.iter().all(|file| !file.exists()) {
        app.note("nothing is installed");
        return Ok(Exit::OK);
    }
    // Agents are not stopped: the unit leaves their shims alone.
    if let Err(error) = systemctl(&["disable", "--now", "ccagentd.socket", "ccagentd.service"]).await {
        app.note(&format!("{error:#}"));
    }
    for file in files.iter().filter(|file| file.exists()) {
        std::fs::remove_file(file).with_context(|| file.display().to_string())?;
        crate::output::write(&file.display().to_string())?;
    }
    systemctl(&["daemon-reload"]).await.ok();
    Ok(Exit::OK)
}

fn files(dir: &Path) -> [PathBuf; 2] {
    [dir.join("ccagentd.service"), dir.join("ccagentd.socket")]
}

fn directory() -> anyhow::Result<PathBuf> {
    let absolute = |name: &str| place::variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CONFIG_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".config")))
        .map(|config| config.join("systemd/user"))
        .context("no home directory: HOME is not set")
}

/// The unit with the program that stands beside this one.
fn with_program(unit: &str, program: &Path) -> String {
    unit.lines()
        .map(|line| match line.strip_prefix("ExecStart=") {
            Some(command) => {
                let rest = command.split_once(' ').map(|(_, rest)| format!(" {rest}"));
                format!("ExecStart={}{}\n", program.display(), rest.unwrap_or_default())
            }
            None => format!("{line}\n"),
        })
        .collect()
}

async fn systemctl(arguments: &[&str]) -> anyhow::Result<()> {
    command("systemctl", &[&["--user"], arguments].concat()).await
}

async fn command(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let said = format!("{program} {}", arguments.join(" "));
    let output = tokio::process::Command::new(program)
        .args(arguments)
        .stdin(std::process::Stdio::null())
        .output()
        .await
        .map_err(|why| Stop::new(Exit::FAILED, format!("{said}: {why}")))?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Stop::new(Exit::FAILED, format!("{said}: {why}")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CD-06: the installed unit starts the daemon that belongs to this program, with the unit's own options.
    #[test]
    fn the_unit_starts_the_daemon_beside_this_program() {
        let unit = with_program(
            "[Service]\nExecStart=/usr/bin/ccagentd --x\nType=notify\n",
            Path::new("/opt/ccagentd"),
        );
        assert_eq!(unit, "[Service]\nExecStart=/opt/ccagentd --x\nType=notify\n");
        assert!(with_program(SERVICE, Path::new("/opt/ccagentd")).contains("ExecStart=/opt/ccagentd"));
    }
}
