//! Where things are: socket, state directory and config file, by the same rules in the daemon and its clients.
//!
//! ```text
//! socket     flag > $CCAGENT_SOCKET > config > <runtime dir>/<instance>.sock
//! state dir  flag > $CCAGENT_STATE_DIR > config > $XDG_STATE_HOME/ccagent > ~/.local/state/ccagent
//! config     flag > $CCAGENT_CONFIG > $XDG_CONFIG_HOME/ccagent/config.toml > ~/.config/ccagent/config.toml
//! ```
//!
//! The environment is a function that is passed in. Nothing is created here and no file is read; only `canonical`
//! looks at the disk, for links.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::address;

/// Names the socket: an absolute path, or `uds:` and that path.
pub const SOCKET: &str = "CCAGENT_SOCKET";
/// Names the state directory, and so an instance of its own.
pub const STATE_DIR: &str = "CCAGENT_STATE_DIR";
/// Names the config file.
pub const CONFIG: &str = "CCAGENT_CONFIG";

/// Looks a variable up in an environment.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The socket that the environment names.
///
/// # Errors
/// A sentence that says what is wrong with the address.
pub fn socket_from_env(env: Lookup<'_>) -> Result<Option<PathBuf>, String> {
    let Some(value) = set(env, SOCKET) else {
        return Ok(None);
    };
    let text = value.to_str().ok_or_else(|| format!("{SOCKET} is not UTF-8"))?;
    address::path_of(text).map(Some).map_err(|why| format!("{SOCKET}: {why}"))
}

/// The socket of an instance, where nothing names one: in the runtime directory, or below `/tmp` where there is none.
pub fn socket_path(env: Lookup<'_>, uid: u32, instance: &str) -> PathBuf {
    absolute(env, "XDG_RUNTIME_DIR")
        .map_or_else(|| PathBuf::from(format!("/tmp/ccagent-{uid}")), |dir| dir.join("ccagent"))
        .join(format!("{instance}.sock"))
}

/// The instance's name: `default`, or 16 hex digits that stand for a state directory that was chosen.
pub fn instance_name(state_dir: Option<&Path>) -> String {
    state_dir
        .map_or_else(|| "default".to_owned(), |dir| format!("{:016x}", fnv1a(dir.as_os_str().as_bytes())))
}

/// The state directory that the environment names.
pub fn state_dir_from_env(env: Lookup<'_>) -> Option<PathBuf> {
    set(env, STATE_DIR).map(PathBuf::from)
}

/// The state directory, where nothing names one; `None` without a home.
pub fn default_state_dir(env: Lookup<'_>) -> Option<PathBuf> {
    base(env, "XDG_STATE_HOME", ".local/state").map(|base| base.join("ccagent"))
}

/// The config file: the one that the environment names, else the default one; `None` without a home.
pub fn config_file(env: Lookup<'_>) -> Option<PathBuf> {
    set(env, CONFIG)
        .map(PathBuf::from)
        .or_else(|| base(env, "XDG_CONFIG_HOME", ".config").map(|base| base.join("ccagent/config.toml")))
}

/// A path made absolute and free of links, dots and double slashes, also where its end doesn't exist yet.
///
/// # Errors
/// Where the current directory of a relative path can't be told.
pub fn canonical(path: &Path) -> std::io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    for ancestor in absolute.ancestors() {
        let Ok(mut found) = ancestor.canonicalize() else {
            continue;
        };
        for part in absolute.strip_prefix(ancestor).unwrap_or(Path::new("")).components() {
            match part {
                Component::ParentDir => {
                    found.pop();
                }
                Component::Normal(name) => found.push(name),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        return Ok(found);
    }
    Ok(absolute)
}

/// A variable that is set and not empty.
fn set(env: Lookup<'_>, name: &str) -> Option<OsString> {
    env(name).filter(|value| !value.is_empty())
}

/// A directory from the environment; the XDG specification says to ignore relative ones.
fn absolute(env: Lookup<'_>, name: &str) -> Option<PathBuf> {
    set(env, name).map(PathBuf::from).filter(|path| path.is_absolute())
}

fn base(env: Lookup<'_>, xdg: &str, below_home: &str) -> Option<PathBuf> {
    absolute(env, xdg).or_else(|| absolute(env, "HOME").map(|home| home.join(below_home)))
}

/// FNV-1a, 64 bits: stable across versions and machines, which `std`'s hasher is not.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
    }

    /// SV-01: one instance a state directory; the default one has a plain name.
    #[test]
    fn a_chosen_state_directory_is_an_instance_of_its_own() {
        assert_eq!(instance_name(None), "default");
        assert_eq!(instance_name(Some(Path::new("a"))), "af63dc4c8601ec8c");
        assert_ne!(instance_name(Some(Path::new("/a"))), instance_name(Some(Path::new("/b"))));
    }

    /// SV-05: the runtime directory where there is one, else a directory of the user's own.
    #[test]
    fn the_socket_is_in_the_runtime_directory_or_below_tmp() {
        let at = |pairs: &[(&str, &str)]| socket_path(&env(pairs), 7, "default");
        let below_tmp = PathBuf::from("/tmp/ccagent-7/default.sock");
        assert_eq!(
            at(&[("XDG_RUNTIME_DIR", "/run/user/7")]),
            PathBuf::from("/run/user/7/ccagent/default.sock")
        );
        assert_eq!(at(&[]), below_tmp);
        assert_eq!(at(&[("XDG_RUNTIME_DIR", "run")]), below_tmp);
        assert_eq!(at(&[("XDG_RUNTIME_DIR", "")]), below_tmp);
    }

    /// CD-01: both forms of an address are taken from the environment; a bad one is an error, not a default.
    #[test]
    fn the_environment_names_a_socket_in_both_forms() {
        let at = |value| socket_from_env(&env(&[(SOCKET, value)]));
        assert_eq!(at("/a.sock"), Ok(Some(PathBuf::from("/a.sock"))));
        assert_eq!(at("uds:/a.sock"), at("/a.sock"));
        assert_eq!(at(""), Ok(None));
        assert!(at("a.sock").unwrap_err().contains(SOCKET));
    }

    /// CO-01: state and config follow the XDG directories, else the home directory.
    #[test]
    fn state_and_config_follow_xdg_and_home() {
        let home: &[(&str, &str)] = &[("HOME", "/h")];
        assert_eq!(default_state_dir(&env(home)), Some(PathBuf::from("/h/.local/state/ccagent")));
        assert_eq!(config_file(&env(home)), Some(PathBuf::from("/h/.config/ccagent/config.toml")));
        let xdg: &[(&str, &str)] = &[("HOME", "/h"), ("XDG_STATE_HOME", "/s"), ("XDG_CONFIG_HOME", "/c")];
        assert_eq!(default_state_dir(&env(xdg)), Some(PathBuf::from("/s/ccagent")));
        assert_eq!(config_file(&env(xdg)), Some(PathBuf::from("/c/ccagent/config.toml")));
        assert_eq!(config_file(&env(&[(CONFIG, "/own.toml")])), Some(PathBuf::from("/own.toml")));
        assert_eq!(default_state_dir(&env(&[])), None);
    }

    /// A path is the same before and after it was created, so that daemon and client name the same instance.
    #[test]
    fn a_path_that_does_not_exist_yet_is_canonical_too() {
        assert_eq!(
            canonical(Path::new("/proc/self/../no/such/./x")).unwrap(),
            PathBuf::from("/proc/no/such/x")
        );
    }
}
