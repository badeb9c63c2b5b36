//! The config: one table of keys with defaults, layers that override each other, typed values.
//!
//! ```text
//! default < /etc/ccagent/config.toml < the user's config.toml < environment < flags
//! ```
//!
//! An unknown key is refused with the nearest known one; a wrong value is refused with what would be right.

mod keys;
mod live;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ccagent_core::Limits;
use ccagent_llm::definition::Precedence;
use ccagent_llm::provider::setting::Setting;
use ccagent_llm::search::endpoint::Setting as Endpoint;
use ccagent_proto::daemon::ConfigValue;
use ccagent_proto::{Millis, place};
use nix::unistd::{Uid, User};

use crate::store::Durability;

pub use keys::{KEYS, Key, Shape};
pub use live::Live;

/// Where the machine's config is.
const MACHINE: &str = "/etc/ccagent/config.toml";

/// What is wrong with a config.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file that can't be read.
    #[error("the config {} can't be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file that is no TOML.
    #[error("the config {} is no TOML: {source}", path.display())]
    NoToml {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// A key that does not exist.
    #[error("{source_name}: there is no key {key}{}", nearest.as_ref().map(|near| format!(": is {near} meant?")).unwrap_or_default())]
    UnknownKey {
        /// The layer.
        source_name: String,
        /// The key.
        key: String,
        /// The most similar known one.
        nearest: Option<&'static str>,
    },
    /// A value of a wrong shape.
    #[error("{source_name}: {key} = {value} is not right: {expected}")]
    BadValue {
        /// The layer.
        source_name: String,
        /// The key.
        key: String,
        /// The value as written.
        value: String,
        /// What would be right.
        expected: &'static str,
    },
    /// A section that is not right.
    #[error("{source_name}: {key} is not right: {expected}; it says {value}")]
    BadSection {
        /// The layer.
        source_name: String,
        /// The key.
        key: String,
        /// The value as written.
        value: String,
        /// What is wrong with it.
        expected: String,
    },
    /// No place for the state.
    #[error("no state directory: set CCAGENT_STATE_DIR, XDG_STATE_HOME or HOME")]
    NoStateDir,
    /// A place that is wrong.
    #[error("{0}")]
    Place(String),
}

/// What the command line says.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// The user's config file.
    pub config: Option<PathBuf>,
    /// The state directory.
    pub state_dir: Option<PathBuf>,
    /// The socket, as a path or `uds:<path>`.
    pub socket: Option<String>,
}

/// A config that was read and checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// Every key's value, with its source.
    pub values: BTreeMap<String, ConfigValue>,
    /// Where the state is.
    pub state_dir: PathBuf,
    /// Where the socket is.
    pub socket: PathBuf,
    /// The user's config file, whether it exists or not.
    pub file: Option<PathBuf>,
    /// Providers of models, in the order in which they are tried: the user's, then the machine's.
    pub providers: Vec<(String, Setting)>,
}

impl Config {
    /// Reads all layers.
    ///
    /// # Errors
    /// The first thing that is wrong, with the layer and the key named.
    pub fn load(flags: &Flags, env: place::Lookup<'_>) -> Result<Self, ConfigError> {
        let mut values: BTreeMap<String, ConfigValue> =
            KEYS.iter().map(|key| (key.name.to_owned(), value(key.default_value(), "default"))).collect();
        let machine = read_file(Path::new(MACHINE), "machine", &mut values)?;
        let mut providers = Vec::new();
        let file = flags.config.clone().or_else(|| place::config_file(env));
        if let Some(file) = &file {
            let named = flags.config.is_some() || env(place::CONFIG).is_some();
            if named && !file.exists() {
                let source = std::io::Error::from(std::io::ErrorKind::NotFound);
                return Err(ConfigError::Unreadable { path: file.clone(), source });
            }
            providers = read_file(file, "file", &mut values)?;
        }
        for (name, setting) in machine {
            if providers.iter().all(|(known, _)| *known != name) {
                providers.push((name, setting));
            }
        }
        if let Some(log) = env("CCAGENT_LOG").and_then(|log| log.into_string().ok()) {
            values.insert("daemon.log".to_owned(), value(log.into(), "env"));
        }
        let (state_dir, chosen) = state_dir(flags, env, &values)?;
        let socket = socket(flags, env, &values, chosen.then_some(state_dir.as_path()))?;
        Ok(Self { values, state_dir, socket, file, providers })
    }

    fn get(&self, key: &str) -> &serde_json::Value {
        self.values.get(key).map_or(&serde_json::Value::Null, |value| &value.value)
    }

    fn text(&self, key: &str) -> &str {
        self.get(key).as_str().unwrap_or_default()
    }

    /// A length of time in milliseconds.
    pub fn millis(&self, key: &str) -> Millis {
        keys::duration(self.text(key)).map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    /// A length of time.
    pub fn duration(&self, key: &str) -> Duration {
        keys::duration(self.text(key)).unwrap_or_default()
    }

    /// A number of bytes.
    pub fn bytes(&self, key: &str) -> u64 {
        keys::bytes(self.text(key)).unwrap_or(0)
    }

    /// A count.
    pub fn count(&self, key: &str) -> u32 {
        self.get(key).as_u64().and_then(|count| u32::try_from(count).ok()).unwrap_or(0)
    }

    /// What a commit survives.
    pub fn durability(&self) -> Durability {
        if self.text("daemon.durability") == "process" { Durability::Process } else { Durability::Power }
    }

    /// The log filter.
    pub fn log(&self) -> &str {
        self.text("daemon.log")
    }

    /// How many forks may be below each other.
    pub fn max_fork_depth(&self) -> u32 {
        self.count("fork.max_depth")
    }

    /// Which of several definitions of an agent counts.
    pub fn precedence(&self) -> Precedence {
        if self.text("agent.precedence") == "docs" {
            Precedence::ProjectFirst
        } else {
            Precedence::BuiltInFirst
        }
    }

    /// Directories of plugins; `~` is the home of whoever asks.
    pub fn plugins(&self) -> Vec<PathBuf> {
        let list = self.get("agent.plugins").as_array().into_iter().flatten();
        list.filter_map(|path| path.as_str().map(PathBuf::from)).collect()
    }

    /// Whether agents inside the daemon are held to their directories.
    pub fn confines(&self) -> bool {
        self.values.get("sandbox.writes").and_then(|value| value.value.as_bool()).unwrap_or(false)
    }

    /// The endpoint that searches the network, where one is named.
    pub fn search(&self) -> Option<Endpoint> {
        let named = |key: &str| Some(self.text(key).to_owned()).filter(|text| !text.is_empty());
        Some(Endpoint { url: named("web.search_url")?, key_env: named("web.search_key_env") })
    }

    /// The feature flags.
    pub fn flags(&self) -> BTreeMap<String, bool> {
        let flags = self.values.iter().filter_map(|(key, value)| {
            Some((key.strip_prefix("flags.")?.to_owned(), value.value.as_bool().unwrap_or(false)))
        });
        flags.collect()
    }

    /// After how long an agent goes to the background by itself; 0 is never.
    fn auto_background(&self) -> Millis {
        let is_on = self.get("flags.tengu_auto_background_agents").as_bool() == Some(true);
        if is_on { self.millis("task.auto_background") } else { 0 }
    }

    /// The numbers that the core's rules use.
    pub fn limits(&self) -> Limits {
        Limits {
            state_dir: self.state_dir.display().to_string(),
            agents_per_session: self.count("limits.agents_per_session"),
            agents: self.count("limits.agents"),
            queue: self.count("limits.queue"),
            message: self.bytes("limits.message"),
            mailbox_unread: self.count("limits.mailbox_unread"),
            mailbox_bytes: self.bytes("limits.mailbox_bytes"),
            hold_ms: self.millis("task.hold"),
            panel_hold_ms: self.millis("task.panel_hold"),
            archive_ms: self.millis("task.archive"),
            archive_count: self.count("task.archive_count"),
            run_ms: self.millis("task.run"),
            auto_background_ms: self.auto_background(),
            grace_ms: self.millis("task.grace"),
            stop_all_ms: self.millis("task.stop_all"),
            output: self.bytes("output.task"),
            output_total: self.bytes("output.total"),
            ask_ms: self.millis("ask.deadline"),
            resume_interrupted: self.text("daemon.restart.resume") == "always",
            ..Limits::default()
        }
    }
}

/// A variable of the environment; the home directory is the account's own where the environment names none.
pub fn variable(name: &str) -> Option<OsString> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    let home = || Some(User::from_uid(Uid::current()).ok()??.dir.into_os_string());
    value.or_else(|| if name == "HOME" { home() } else { None })
}

fn value(value: serde_json::Value, source: &str) -> ConfigValue {
    ConfigValue { value, source: source.to_owned() }
}

/// Reads a config file. A pipe is not waited for, and refused like all that is no regular file, but for the empty device.
fn text(path: &Path) -> std::io::Result<String> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() && path != Path::new("/dev/null") {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    std::io::read_to_string(file)
}

fn read_file(
    path: &Path,
    source: &str,
    values: &mut BTreeMap<String, ConfigValue>,
) -> Result<Vec<(String, Setting)>, ConfigError> {
    let text = match text(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(ConfigError::Unreadable { path: path.to_owned(), source }),
    };
    let mut table: toml::Table = toml::from_str(&text)
        .map_err(|error| ConfigError::NoToml { path: path.to_owned(), source: Box::new(error) })?;
    let name = path.display().to_string();
    let providers = providers(&name, table.remove("provider"))?;
    let mut found = BTreeMap::new();
    flatten("", &table, &mut found);
    for (key, given) in found {
        let Some(known) = KEYS.iter().find(|known| known.name == key) else {
            return Err(unknown(&name, &key));
        };
        let checked = known.check(&given).ok_or_else(|| ConfigError::BadValue {
            source_name: name.clone(),
            key: key.clone(),
            value: given.to_string(),
            expected: known.shape.expected(),
        })?;
        values.insert(key, value(checked, source));
    }
    Ok(providers)
}

/// The sections `[provider.NAME]`, in the file's order.
fn providers(source: &str, given: Option<toml::Value>) -> Result<Vec<(String, Setting)>, ConfigError> {
    let bad = |key: String, value: &toml::Value, expected: String| ConfigError::BadSection {
        source_name: source.to_owned(),
        key,
        value: value.to_string(),
        expected,
    };
    let sections = match given {
        None => return Ok(Vec::new()),
        Some(toml::Value::Table(sections)) => sections,
        Some(other) => {
            return Err(bad("provider".to_owned(), &other, "sections [provider.NAME]".to_owned()));
        }
    };
    let read = |(name, given): (String, toml::Value)| {
        let setting = serde_path_to_error::deserialize(given.clone());
        let setting = setting.map_err(|error| {
            let (at, why) = (error.path().to_string(), error.inner().to_string());
            let at = if at == "." { String::new() } else { format!(".{at}") };
            bad(format!("provider.{name}{at}"), &given, why)
        })?;
        Ok((name, setting))
    };
    sections.into_iter().map(read).collect()
}

fn flatten(prefix: &str, table: &toml::Table, found: &mut BTreeMap<String, toml::Value>) {
    for (name, value) in table {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match value {
            toml::Value::Table(inner) if !inner.is_empty() => flatten(&key, inner, found),
            other => {
                found.insert(key, other.clone());
            }
        }
    }
}

fn unknown(source: &str, key: &str) -> ConfigError {
    let nearest = KEYS
        .iter()
        .map(|known| (strsim::jaro_winkler(known.name, key), known.name))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name);
    ConfigError::UnknownKey { source_name: source.to_owned(), key: key.to_owned(), nearest }
}

/// The state directory, and whether somebody chose it: then the socket has a name of its own.
fn state_dir(
    flags: &Flags,
    env: place::Lookup<'_>,
    values: &BTreeMap<String, ConfigValue>,
) -> Result<(PathBuf, bool), ConfigError> {
    let configured = values.get("daemon.state_dir").and_then(|value| value.value.as_str());
    let configured = configured.filter(|path| !path.is_empty()).map(PathBuf::from);
    let chosen = flags.state_dir.clone().or_else(|| place::state_dir_from_env(env)).or(configured);
    let is_chosen = chosen.is_some();
    let path = chosen.or_else(|| place::default_state_dir(env)).ok_or(ConfigError::NoStateDir)?;
    let path = place::canonical(&path).map_err(|error| {
        ConfigError::Place(format!("the state directory {} can't be told: {error}", path.display()))
    })?;
    Ok((path, is_chosen))
}

fn socket(
    flags: &Flags,
    env: place::Lookup<'_>,
    values: &BTreeMap<String, ConfigValue>,
    chosen: Option<&Path>,
) -> Result<PathBuf, ConfigError> {
    let named = match &flags.socket {
        Some(address) => Some(ccagent_proto::address::path_of(address).map_err(ConfigError::Place)?),
        None => place::socket_from_env(env).map_err(ConfigError::Place)?,
    };
    let configured = values.get("daemon.socket").and_then(|value| value.value.as_str());
    let configured = match configured.filter(|address| !address.is_empty()) {
        Some(address) => Some(ccagent_proto::address::path_of(address).map_err(ConfigError::Place)?),
        None => None,
    };
    let uid = nix::unistd::getuid().as_raw();
    Ok(named.or(configured).unwrap_or_else(|| place::socket_path(env, uid, &place::instance_name(chosen))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Config, ConfigError> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.toml");
        std::fs::write(&file, text).unwrap();
        let flags = Flags { config: Some(file), state_dir: Some(dir.path().join("state")), socket: None };
        Config::load(&flags, &|_| None)
    }

    /// Every default is a value that its own key would take.
    #[test]
    fn every_default_is_right() {
        for key in KEYS {
            let text = key.default_value();
            let written = toml::Value::try_from(&text).unwrap();
            assert_eq!(key.check(&written), Some(text), "{}", key.name);
        }
    }

    /// Values are read with their sources, durations and sizes as text.
    #[test]
    fn a_file_overrides_defaults() {
        let config = load("[task]\nhold = \"250ms\"\n[limits]\nagents = 7\nmessage = \"2MiB\"\n").unwrap();
        let limits = config.limits();
        assert_eq!((limits.hold_ms, limits.agents, limits.message), (250, 7, 2 << 20));
        assert_eq!(config.values["task.hold"].source, "file");
        assert_eq!(config.values["task.grace"].source, "default");
    }

    /// J136: an unknown key is refused with the nearest known one, a bad value with what would be right.
    #[test]
    fn what_is_wrong_is_named_with_what_is_right() {
        let unknown = load("[task]\nholt = \"3s\"\n").unwrap_err().to_string();
        assert!(unknown.contains("task.holt") && unknown.contains("task.hold"), "{unknown}");
        let bad = load("[task]\nhold = 3\n").unwrap_err().to_string();
        assert!(bad.contains("task.hold") && bad.contains("\"3s\""), "{bad}");
        let word = load("[daemon]\ndurability = \"maybe\"\n").unwrap_err().to_string();
        assert!(word.contains("power"), "{word}");
        assert!(matches!(load("[task"), Err(ConfigError::NoToml { .. })));
    }

    /// SV-03, J136: a bound within which no call fits is refused, and so is one that one message could fill memory with.
    #[test]
    fn messages_have_bounds() {
        let frames = [("0", false), ("63KiB", false), ("64KiB", true), ("1GiB", true), ("2GiB", false)];
        let messages = [("0", false), ("1", true), ("8MiB", true), ("9MiB", false)];
        for (name, sizes, bound) in [("frame", &frames[..], "64KiB"), ("message", &messages[..], "8MiB")] {
            for (size, fits) in sizes {
                let loaded = load(&format!("[limits]\n{name} = \"{size}\"\n"));
                assert_eq!(loaded.is_ok(), *fits, "{name} {size}");
                assert!(loaded.err().is_none_or(|error| error.to_string().contains(bound)));
            }
        }
    }

    /// I8, J136: a config that is no regular file is refused and not waited for; the empty device stands for none.
    #[test]
    fn a_pipe_is_no_config() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("config.toml");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let load = |file: &Path| {
            let state = Some(dir.path().join("state"));
            Config::load(&Flags { config: Some(file.to_owned()), state_dir: state, socket: None }, &|_| None)
        };
        assert!(matches!(load(&fifo), Err(ConfigError::Unreadable { .. })));
        assert!(matches!(load(dir.path()), Err(ConfigError::Unreadable { .. })));
        load(Path::new("/dev/null")).unwrap();
    }

    /// J136: providers keep the order of the file; what is wrong in a section is named.
    #[test]
    fn providers_are_sections_in_their_order() {
        let config = load(
            "[provider.zeta]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\n[provider.alpha]\nkind = \"offline\"\n",
        );
        let names: Vec<String> = config.unwrap().providers.into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["zeta", "alpha"]);
        for (text, named) in [
            ("[provider.x]\nkind = \"openai\"\nbase_uri = \"a\"\n", "base_uri"),
            ("[provider.x]\nkind = \"gpt\"\n", "provider.x.kind"),
            ("provider = 3\n", "[provider.NAME]"),
        ] {
            let error = load(text).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    /// FF-09: the flags have the defaults that agents are made with.
    #[test]
    fn flags_have_their_defaults() {
        let flags = load("[flags]\nKAIROS = true\n").unwrap().flags();
        let known =
            serde_json::to_value(ccagent_llm::flags::Flags { kairos: true, ..Default::default() }).unwrap();
        assert_eq!(serde_json::to_value(flags).unwrap(), known);
    }

    /// J132: a state directory that was chosen has a socket of its own; a named socket wins.
    #[test]
    fn a_chosen_state_directory_has_its_own_socket() {
        let socket = |state: Option<&str>, socket: Option<&str>| {
            let flags =
                Flags { config: None, state_dir: state.map(Into::into), socket: socket.map(str::to_owned) };
            Config::load(&flags, &|name| (name == "HOME").then(|| "/nonexistent".into())).unwrap().socket
        };
        assert_ne!(socket(Some("/a"), None), socket(Some("/b"), None));
        assert!(socket(None, None).ends_with("default.sock"));
        assert_eq!(socket(Some("/a"), Some("uds:/run/x.sock")), PathBuf::from("/run/x.sock"));
    }
}
