//! Which daemon is meant: its socket, state directory and config file, from flags, environment and config.
//!
//! The rules themselves are in `ccagent_proto::place`, shared with the daemon.

use std::ffi::OsString;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ccagent_proto::{address, place};
use nix::unistd::{Uid, User};
use serde::Deserialize;

use crate::error::Error;

/// What the command line chose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// `--socket`: a path or `uds:` and a path.
    pub socket: Option<String>,
    /// `--state-dir`.
    pub state_dir: Option<PathBuf>,
    /// `--config`.
    pub config: Option<PathBuf>,
}

/// Where a daemon is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its socket.
    pub socket: PathBuf,
    /// Its state directory.
    pub state_dir: PathBuf,
    /// Its config file, whether or not it exists.
    pub config: PathBuf,
    /// Whether the config file was asked for by name, so that it must exist.
    pub config_chosen: bool,
}

impl Place {
    /// The place that flags, environment and config file name.
    ///
    /// # Errors
    /// `Place`, when an address or the config file is wrong, or nothing names a directory.
    pub fn find(chosen: &Chosen) -> Result<Self, Error> {
        let uid = rustix::process::getuid().as_raw();
        Self::resolve(chosen, &variable, uid).map_err(Error::Place)
    }

    fn resolve(chosen: &Chosen, env: &dyn Fn(&str) -> Option<OsString>, uid: u32) -> Result<Self, String> {
        let named = chosen.config.is_some() || env(place::CONFIG).is_some_and(|value| !value.is_empty());
        let config = chosen
            .config
            .clone()
            .or_else(|| place::config_file(env))
            .ok_or("no home directory: HOME is not set")?;
        let file = Section::read(&config, named)?;
        let own = chosen
            .state_dir
            .clone()
            .or_else(|| place::state_dir_from_env(env))
            .or(file.state_dir)
            .map(|dir| place::canonical(&dir).map_err(|why| format!("{}: {why}", dir.display())))
            .transpose()?;
        let state_dir = own
            .clone()
            .or_else(|| place::default_state_dir(env))
            .ok_or("no home directory: HOME is not set")?;
        let socket = match &chosen.socket {
            Some(given) => Some(address::path_of(given).map_err(|why| format!("--socket: {why}"))?),
            None => place::socket_from_env(env)?,
        };
        let in_file = file
            .socket
            .map(|text| address::path_of(&text).map_err(|why| format!("{}: {why}", config.display())))
            .transpose()?;
        Ok(Self {
            socket: socket
                .or(in_file)
                .unwrap_or_else(|| place::socket_path(env, uid, &place::instance_name(own.as_deref()))),
            state_dir,
            config,
            config_chosen: named,
        })
    }

    /// Where the output of a daemon that a client started goes.
    pub fn log_file(&self) -> PathBuf {
        self.state_dir.join("daemon.log")
    }
}

/// A variable of the environment; the home directory is the account's own where the environment names none.
pub fn variable(name: &str) -> Option<OsString> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    let home = || Some(User::from_uid(Uid::current()).ok()??.dir.into_os_string());
    value.or_else(|| if name == "HOME" { home() } else { None })
}

/// Reads a config file. A pipe is not waited for, and refused like all that is no regular file, but for the empty device.
pub fn text(path: &Path) -> std::io::Result<String> {
    let flags = nix::libc::O_NONBLOCK;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() && path != Path::new("/dev/null") {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    std::io::read_to_string(file)
}

/// The two keys of the config file that say where the daemon is; the daemon itself checks the rest.
#[derive(Debug, Default, Deserialize)]
struct Section {
    socket: Option<String>,
    state_dir: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
struct File {
    #[serde(default)]
    daemon: Section,
}

impl Section {
    fn read(path: &Path, must_exist: bool) -> Result<Self, String> {
        match text(path) {
            Ok(text) => toml::from_str::<File>(&text)
                .map(|file| file.daemon)
                .map_err(|why| format!("{}: {why}", path.display())),
            Err(why) if why.kind() == std::io::ErrorKind::NotFound && !must_exist => Ok(Self::default()),
            Err(why) => Err(format!("{}: {why}", path.display())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(chosen: &Chosen, pairs: &[(&str, &str)]) -> Result<Place, String> {
        let env =
            |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        Place::resolve(chosen, &env, 7)
    }

    /// CD-01: a flag goes before the environment, that before the config file, that before the default.
    #[test]
    fn the_nearest_source_names_the_socket() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("c.toml");
        std::fs::write(&config, "[daemon]\nsocket = \"uds:/in/file\"\n[task]\nhold = \"3s\"\n").unwrap();
        let file = config.to_str().unwrap();
        let flag = Chosen { socket: Some("uds:/flag".into()), ..Chosen::default() };
        let home = ("HOME", "/nowhere");
        let socket = |chosen: &Chosen, pairs: &[(&str, &str)]| resolve(chosen, pairs).unwrap().socket;
        let none = Chosen::default();
        let all = [home, (place::SOCKET, "/env"), (place::CONFIG, file)];
        assert_eq!(socket(&flag, &all), PathBuf::from("/flag"));
        assert_eq!(socket(&none, &all), PathBuf::from("/env"));
        assert_eq!(socket(&none, &[home, (place::CONFIG, file)]), PathBuf::from("/in/file"));
        assert_eq!(socket(&none, &[home]), PathBuf::from("/tmp/ccagent-7/default.sock"));
    }

    /// SV-01: a state directory of one's own makes an instance of one's own.
    #[test]
    fn a_state_directory_of_ones_own_has_its_own_socket() {
        let place =
            resolve(&Chosen::default(), &[("HOME", "/nowhere"), (place::STATE_DIR, "/no/such")]).unwrap();
        assert_eq!(place.state_dir, PathBuf::from("/no/such"));
        let name = place::instance_name(Some(Path::new("/no/such")));
        assert_eq!(place.socket, PathBuf::from(format!("/tmp/ccagent-7/{name}.sock")));
    }

    /// A config file that was asked for must be there and be right.
    #[test]
    fn a_config_file_that_was_asked_for_must_exist() {
        let missing = Chosen { config: Some("/no/such.toml".into()), ..Chosen::default() };
        assert!(resolve(&missing, &[("HOME", "/nowhere")]).unwrap_err().contains("/no/such.toml"));
        assert!(resolve(&Chosen::default(), &[]).is_err());
    }

    /// I8: a config file that is no regular file is refused and not waited for; the empty device stands for none.
    #[test]
    fn a_pipe_is_no_config_file() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("c.toml");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let find = |config: &Path| {
            let chosen = Chosen { config: Some(config.into()), ..Chosen::default() };
            resolve(&chosen, &[("HOME", "/nowhere")])
        };
        assert!(find(&fifo).unwrap_err().contains("no regular file"));
        find(Path::new("/dev/null")).unwrap();
    }
}
