//! `doctor`: whether everything that ccagent needs is as it should be, with advice where it isn't.

mod machine;
mod writes;

use std::path::Path;

use ccagent_client::{Client, Error, Place, start};
use ccagent_proto::daemon::DaemonStatusResult;
use ccagent_proto::method::{DaemonStatus, ProviderTest};
use ccagent_proto::provider::{ProviderTestParams, ProviderTestResult};
use ccagent_proto::{Empty, version};
use schemars::JsonSchema;
use serde::Serialize;
use serde_with::skip_serializing_none;

use crate::app::{App, hello};
use crate::exit::Exit;
use crate::render;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Ask a model for a word as well, as `run --model` names it; without a name the one that a run would ask
    #[arg(long, value_name = "MODEL", num_args = 0..=1, default_missing_value = "")]
    model: Option<String>,
}

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Level {
    Ok,
    Warn,
    Fail,
}

/// One check.
#[skip_serializing_none]
#[derive(Debug, Serialize, JsonSchema)]
struct Check {
    name: &'static str,
    level: Level,
    message: String,
    advice: Option<String>,
}

impl Check {
    fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, level: Level::Ok, message: message.into(), advice: None }
    }

    fn warn(name: &'static str, message: impl Into<String>, advice: &str) -> Self {
        Self { level: Level::Warn, advice: Some(advice.to_owned()), ..Self::ok(name, message) }
    }

    fn fail(name: &'static str, message: impl Into<String>, advice: &str) -> Self {
        Self { level: Level::Fail, ..Self::warn(name, message, advice) }
    }
}

#[derive(Serialize)]
struct Report<'a> {
    checks: &'a [Check],
}

pub(super) async fn run(app: &App, args: &Args) -> anyhow::Result<Exit> {
    let place = match app.place() {
        Ok(place) => place,
        Err(error) => {
            let check = Check::fail("config", error.to_string(), "correct the file or the variable");
            return show(app, &[check]);
        }
    };
    let mut checks = vec![programs(), config(&place).await];
    let status = daemon(&place, &mut checks).await;
    checks.extend(machine::directories(&place));
    let pid = status.as_ref().map(|status| status.pid);
    checks.extend(machine::surroundings(&place, pid));
    checks.push(writes::check(&place).await);
    if let Some(status) = status {
        checks.extend(trust(&place).await);
        checks.extend(
            status
                .warnings
                .iter()
                .map(|text| Check::warn("daemon", text.clone(), "the daemon says so itself")),
        );
    }
    if let Some(model) = &args.model {
        checks.push(asked(&place, model).await);
    }
    show(app, &checks)
}

fn show(app: &App, checks: &[Check]) -> anyhow::Result<Exit> {
    app.out.list(&Report { checks }, checks, |checks| checks.iter().map(text).collect())?;
    let failed = checks.iter().any(|check| check.level == Level::Fail);
    Ok(if failed { Exit::FAILED } else { Exit::OK })
}

fn text(check: &Check) -> String {
    let (word, colour) = match check.level {
        Level::Ok => ("ok  ", anstyle::AnsiColor::Green),
        Level::Warn => ("warn", anstyle::AnsiColor::Yellow),
        Level::Fail => ("fail", anstyle::AnsiColor::Red),
    };
    let style = colour.on_default();
    let advice = check
        .advice
        .as_ref()
        .map(|advice| format!("                 {}\n", render::line(advice)))
        .unwrap_or_default();
    format!("{style}{word}{style:#} {:<11} {}\n{advice}", check.name, render::line(&check.message))
}

fn programs() -> Check {
    let own = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    if replaced(&own) {
        return Check::warn("programs", "this program was replaced while it runs", "run the new one");
    }
    match start::daemon_program() {
        Ok(path) => Check::ok("programs", format!("ccagentd is {}", path.display())),
        Err(error) => Check::fail("programs", error.to_string(), "install ccagentd beside ccagentctl"),
    }
}

/// Whether the kernel says of a program's file that it is gone.
fn replaced(exe: &Path) -> bool {
    exe.to_string_lossy().ends_with(" (deleted)")
}

async fn config(place: &Place) -> Check {
    if !place.config.exists() {
        return Check::ok("config", format!("{} doesn't exist; defaults hold", place.config.display()));
    }
    let Ok(program) = start::daemon_program() else {
        return Check::warn("config", "not checked", "ccagentd is needed to check it");
    };
    let output = tokio::process::Command::new(program)
        .arg("--config")
        .arg(&place.config)
        .arg("--check-config")
        .stdin(std::process::Stdio::null())
        .output()
        .await;
    match output {
        Ok(output) if output.status.success() => Check::ok("config", place.config.display().to_string()),
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Check::fail("config", why, "the daemon refuses to start with it")
        }
        Err(error) => Check::warn("config", error.to_string(), "ccagentd could not be run"),
    }
}

/// Whether a daemon answers, and whether it is the one that is installed.
async fn daemon(place: &Place, checks: &mut Vec<Check>) -> Option<DaemonStatusResult> {
    let connected = Client::connect(&place.socket).await;
    let status = async {
        let client = connected?;
        match client.greet(hello(place)).await {
            Err(error @ Error::Silent { .. }) => Err(error),
            Ok(_) | Err(_) => client.call::<DaemonStatus>(Empty {}).await,
        }
    };
    let status = match status.await {
        Ok(status) => status,
        Err(error) => {
            let not_running = matches!(error, Error::NotRunning { .. });
            let message = format!("{:#}", anyhow::Error::from(error));
            checks.push(if not_running {
                let advice = "it starts with the first agent, or with: ccagentctl daemon start";
                Check::warn("daemon", message, advice)
            } else {
                Check::fail("daemon", message, "see: ccagentctl daemon logs")
            });
            return None;
        }
    };
    checks.push(Check::ok("daemon", format!("pid {} answers at {}", status.pid, status.address)));
    let restart = "agents go on over a restart: ccagentctl daemon restart";
    let exe = std::fs::read_link(format!("/proc/{}/exe", status.pid)).unwrap_or_default();
    checks.push(if status.version != version::PACKAGE {
        let message = format!("the daemon is {}, this program is {}", status.version, version::PACKAGE);
        Check::warn("version", message, restart)
    } else if replaced(&exe) {
        Check::warn("version", "the daemon's program was replaced since it started", restart)
    } else {
        Check::ok("version", format!("both are {}", version::PACKAGE))
    });
    if Path::new(&status.state_dir) != place.state_dir {
        let message = format!("the daemon's is {}, yours is {}", status.state_dir, place.state_dir.display());
        checks.push(Check::warn("state", message, "CCAGENT_STATE_DIR or the config differ between the two"));
    }
    Some(status)
}

/// What of the repository here does not run.
async fn trust(place: &Place) -> Option<Check> {
    let client = Client::connect(&place.socket).await.ok()?;
    client.greet(hello(place)).await.ok()?;
    let found = super::trust::list(&client, None).await.ok()?;
    let held: Vec<&str> =
        found.items.iter().filter(|item| !item.state.may_run()).map(|item| item.path.as_str()).collect();
    let advice = "look at what they run, then: ccagentctl trust add";
    (!held.is_empty())
        .then(|| Check::warn("trust", format!("not trusted, so not run: {}", held.join(", ")), advice))
}

/// Whether a model answers.
async fn asked(place: &Place, model: &str) -> Check {
    let params = ProviderTestParams {
        model: Some(model.to_owned()).filter(|model| !model.is_empty()),
        env: Some(super::run::here()),
        ..ProviderTestParams::default()
    };
    let answered = async {
        let client = Client::connect(&place.socket).await?;
        client.greet(hello(place)).await?;
        client.call::<ProviderTest>(params).await
    };
    match answered.await {
        Ok(answered) => {
            let ProviderTestResult { provider, model, latency_ms, .. } = answered;
            Check::ok("model", format!("{provider}/{model} answers, after {latency_ms} ms"))
        }
        Err(error) => {
            let message = format!("{:#}", anyhow::Error::from(error));
            Check::fail("model", message, "see which providers there are: ccagentctl rpc provider.list")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// cli.md, `doctor`: a line a check, with advice where it is not well.
    #[test]
    fn a_check_that_is_not_well_has_advice() {
        let well = anstream::adapter::strip_str(&text(&Check::ok("daemon", "runs"))).to_string();
        assert_eq!(well, "ok   daemon      runs\n");
        let ill = anstream::adapter::strip_str(&text(&Check::fail("daemon", "gone", "start it"))).to_string();
        assert_eq!(ill, "fail daemon      gone\n                 start it\n");
    }

    /// The kernel marks the file of a program that was replaced.
    #[test]
    fn a_replaced_program_is_noticed() {
        assert!(replaced(Path::new("/usr/bin/ccagentd (deleted)")));
        assert!(!replaced(Path::new("/usr/bin/ccagentd")));
    }
}
