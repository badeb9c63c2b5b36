//! `config`: the values that hold, and changes to the file that leave its comments alone.

use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use anyhow::Context;
use ccagent_client::{Error, place, start};
use ccagent_proto::Empty;
use ccagent_proto::daemon::{DaemonConfigParams, DaemonConfigResult, DaemonReloadResult};
use ccagent_proto::method::{DaemonConfig, DaemonReload};
use toml_edit::{DocumentMut, Item, Table, Value};

use crate::app::App;
use crate::exit::{Exit, Stop};
use crate::render;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Print values with where they come from; the daemon's, else the file's
    Get {
        /// A dotted key, for example task.grace; all of them by default
        key: Option<String>,
    },
    /// Change a value in the file, and let the daemon read it again
    Set {
        /// A dotted key
        key: String,
        /// The value: a TOML value, or a text
        value: String,
    },
    /// Print where the file is
    Path,
}

pub(super) async fn run(app: &App, command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Path => {
            let path = app.place()?.config.display().to_string();
            app.out.one(&serde_json::json!({ "path": path }), |_| path.clone())?;
        }
        Command::Get { key } => return get(app, key).await,
        Command::Set { key, value } => set(app, &key, &value).await?,
    }
    Ok(Exit::OK)
}

async fn get(app: &App, key: Option<String>) -> anyhow::Result<Exit> {
    let found = match app.connect().await {
        Ok(client) => {
            let params = DaemonConfigParams { key: key.clone() };
            client.call::<DaemonConfig>(params).await?
        }
        Err(error) if matches!(error.downcast_ref(), Some(Error::NotRunning { .. })) => {
            app.note("no daemon runs; these are the values of the file");
            from_file(&app.place()?.config, key.as_deref())?
        }
        Err(error) => return Err(error),
    };
    if let Some(key) = key.as_ref().filter(|_| found.values.is_empty()) {
        let message = format!("the file says nothing of {:?}", render::line(key));
        return Err(Stop::new(Exit::NOT_FOUND, message).into());
    }
    let single = key.is_some() && found.values.len() == 1;
    app.out.one(&found, |found| {
        found
            .values
            .iter()
            .map(|(key, entry)| match (single, &entry.value) {
                (true, serde_json::Value::String(text)) => render::clean(text),
                (true, value) => value.to_string(),
                (false, value) => format!("{key} = {value}  # {}\n", entry.source),
            })
            .collect()
    })?;
    Ok(Exit::OK)
}

/// The values that stand in the file, by dotted key.
fn from_file(path: &Path, key: Option<&str>) -> anyhow::Result<DaemonConfigResult> {
    let text = read(path)?;
    let whole: serde_json::Value = toml::from_str(&text).with_context(|| path.display().to_string())?;
    let mut found = DaemonConfigResult { values: std::collections::BTreeMap::new() };
    let mut open = vec![(String::new(), whole)];
    while let Some((name, value)) = open.pop() {
        match value {
            serde_json::Value::Object(map) => {
                open.extend(map.into_iter().map(|(key, value)| {
                    let name = if name.is_empty() { key } else { format!("{name}.{key}") };
                    (name, value)
                }));
            }
            value if key.is_none_or(|key| name == key || name.starts_with(&format!("{key}."))) => {
                let source = "file".to_owned();
                found.values.insert(name, ccagent_proto::daemon::ConfigValue { value, source });
            }
            _ => {}
        }
    }
    Ok(found)
}

async fn set(app: &App, key: &str, value: &str) -> anyhow::Result<()> {
    let place = app.place()?;
    let text = changed(&read(&place.config)?, key, value)
        .map_err(|why| Stop::new(Exit::USAGE, format!("{}: {why}", place.config.display())))?;
    let dir = place.config.parent().context("the config file is in no directory")?;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let new = tempfile::Builder::new().prefix(".config").suffix(".toml").tempfile_in(dir)?;
    std::fs::OpenOptions::new().write(true).custom_flags(nix::libc::O_NOFOLLOW).open(new.path()).and_then(
        |mut file| std::io::Write::write_all(&mut file, text.as_bytes()).and_then(|()| file.sync_all()),
    )?;
    check(new.path()).await?;
    new.persist(&place.config)?;
    let reloaded = match app.connect().await {
        Ok(client) => {
            let reloaded = client.call::<DaemonReload>(Empty {}).await?;
            if reloaded.changed.is_empty() {
                app.note("written; it holds from the daemon's next start on");
            } else {
                app.note(&format!("holds now: {}", reloaded.changed.join(", ")));
            }
            reloaded
        }
        Err(error) if matches!(error.downcast_ref(), Some(Error::NotRunning { .. })) => {
            DaemonReloadResult { changed: Vec::new() }
        }
        Err(error) => return Err(error),
    };
    app.out.one(&reloaded, |_| String::new())
}

/// Lets the daemon's own check look at a file, so that no config is written that it would refuse.
async fn check(file: &Path) -> anyhow::Result<()> {
    let Ok(program) = start::daemon_program() else {
        return Ok(());
    };
    let output = tokio::process::Command::new(program)
        .arg("--config")
        .arg(file)
        .arg("--check-config")
        .stdin(std::process::Stdio::null())
        .output()
        .await?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let why = match render::clean(said.trim()).replace(&file.display().to_string(), "the file") {
        silent if silent.is_empty() => "the daemon would refuse it".to_owned(),
        why => why,
    };
    Err(Stop::new(Exit::USAGE, format!("not changed: {why}")).into())
}

fn read(path: &Path) -> anyhow::Result<String> {
    match place::text(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// The file's text with one value changed, and everything else as it was.
fn changed(text: &str, key: &str, value: &str) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|why| format!("{why}"))?;
    let (sections, name) = match key.rsplit_once('.') {
        Some((sections, name)) => (sections.split('.').collect(), name),
        None => (Vec::new(), key),
    };
    if name.is_empty() || sections.iter().any(|section| section.is_empty()) {
        return Err(format!("{key:?} is no key; write SECTION.NAME"));
    }
    let mut table = document.as_table_mut();
    for section in sections {
        table = table
            .entry(section)
            .or_insert_with(|| Item::Table(Table::new()))
            .as_table_mut()
            .ok_or_else(|| format!("{section} is no section"))?;
    }
    let mut new = value.parse::<Value>().unwrap_or_else(|_| Value::from(value));
    if let Some(old) = table.get(name).and_then(Item::as_value) {
        *new.decor_mut() = old.decor().clone();
    }
    table.insert(name, Item::Value(new));
    Ok(document.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// cli.md, `config set`: the rest of the file stays, comments too; a bare word is a text.
    #[test]
    fn a_change_leaves_comments_alone() {
        let before = "# mine\n[task]\ngrace = \"3s\" # short\n";
        let after = changed(before, "task.grace", "5s").unwrap();
        assert_eq!(after, "# mine\n[task]\ngrace = \"5s\" # short\n");
        let more = changed(&after, "limits.agents", "10").unwrap();
        assert!(more.ends_with("[limits]\nagents = 10\n"), "{more}");
        assert!(changed(before, "task.", "1").is_err());
        assert!(changed("x = 1\n", "x.y", "1").is_err());
    }

    /// cli.md, `config get`: without a daemon the file's values are given by dotted key.
    #[test]
    fn values_of_the_file_have_dotted_keys() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        std::fs::write(&path, "[task]\ngrace = \"3s\"\nhold = \"1s\"\n").unwrap();
        let all = from_file(&path, Some("task")).unwrap();
        assert_eq!(all.values.keys().collect::<Vec<_>>(), ["task.grace", "task.hold"]);
        assert_eq!(from_file(&path, Some("task.grace")).unwrap().values.len(), 1);
        assert!(from_file(Path::new("/no/such"), None).unwrap().values.is_empty());
    }
}
