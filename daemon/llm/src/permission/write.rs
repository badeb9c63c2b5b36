//! Writing a rule into a settings file: the file is replaced whole or not at all, and what else stands in it stays as it
//! was written, whoever's it is (I18).

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Behavior;
use crate::document::{self, DocumentError};
use crate::tool::Held;

/// Bytes of a file at most.
const MOST: usize = 1024 * 1024;
/// One change at a time: each reads what the one before wrote.
static WRITING: Mutex<()> = Mutex::new(());

/// What is done with a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is added, unless it is there.
    Add,
    /// It is taken out.
    Remove,
}

/// Why a settings file was not changed.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// It can't be read.
    #[error("{} can't be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: DocumentError,
    },
    /// It can't be written.
    #[error("{} can't be written", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not what settings are.
    #[error("{} is no settings file: {why}; it was left as it is", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A link leads out of where it has to be.
    #[error("{} leads out of {}; it was left as it is", path.display(), root.display())]
    Outside {
        /// The file.
        path: PathBuf,
        /// Where it has to be.
        root: PathBuf,
    },
}

/// An object with its keys in their order, and its values as they were written.
#[derive(Default)]
struct Raw(Vec<(String, Box<RawValue>)>);

/// Adds a rule to a settings file, or takes it out; whether that changed the file. The file has to be below the root,
/// whatever links there are.
///
/// # Errors
/// Why it was not changed.
pub fn change(
    path: &Path,
    root: &Path,
    behavior: Behavior,
    rule: &str,
    change: Change,
) -> Result<bool, SettingsError> {
    let _one_at_a_time = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let write_error = |source| SettingsError::Write { path: path.to_owned(), source };
    let malformed = |why: String| SettingsError::Malformed { path: path.to_owned(), why };
    let text = document::read(path, MOST)
        .map_err(|source| SettingsError::Read { path: path.to_owned(), source })?
        .filter(|text| !text.trim().is_empty());
    if text.is_none() && change == Change::Remove {
        return Ok(false);
    }
    let (target, place) = target(path, root)?;
    let mut settings: Raw = text
        .as_deref()
        .map_or(Ok(Raw::default()), serde_json::from_str)
        .map_err(|error| malformed(error.to_string()))?;
    let mut permissions: Raw = settings.read("permissions").map_err(&malformed)?;
    let mut rules: Vec<String> = permissions.read(behavior.as_str()).map_err(&malformed)?;
    let before = rules.len();
    match change {
        Change::Add if rules.iter().any(|known| known == rule) => {}
        Change::Add => rules.push(rule.to_owned()),
        Change::Remove => rules.retain(|known| known != rule),
    }
    if rules.len() == before {
        return Ok(false);
    }
    permissions.set(behavior.as_str(), &rules).map_err(&malformed)?;
    settings.set("permissions", &permissions).map_err(&malformed)?;
    let mut bytes = serde_json::to_vec_pretty(&settings).map_err(|error| malformed(error.to_string()))?;
    bytes.push(b'\n');
    let mode = fs::metadata(&target).map_or(0o600, |metadata| metadata.mode() & 0o7777);
    let fill = |file: &mut File| {
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.write_all(&bytes)?;
        file.sync_all()
    };
    place.put(0o600, fill).map_err(write_error)?;
    target.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all()).map_err(write_error)?;
    Ok(true)
}

/// The file that is written, as what a link leads to as long as that is below the root; and its place, to which no link
/// leads that is put in the way from now on.
fn target(path: &Path, root: &Path) -> Result<(PathBuf, Held), SettingsError> {
    let write_error = |source| SettingsError::Write { path: path.to_owned(), source };
    let outside = || SettingsError::Outside { path: path.to_owned(), root: root.to_owned() };
    let real_root = root.canonicalize().map_err(write_error)?;
    let place = super::Place::of(root, path);
    let real = place.real.filter(|real| real.starts_with(&real_root)).ok_or_else(outside)?;
    let held = Held::find(&[real_root], &real).map_err(|_| outside())?;
    Ok((real, held))
}

impl Raw {
    fn read<T: serde::de::DeserializeOwned + Default>(&self, key: &str) -> Result<T, String> {
        match self.0.iter().find(|(name, _)| name == key) {
            Some((_, raw)) => serde_json::from_str(raw.get()).map_err(|error| format!("`{key}`: {error}")),
            None => Ok(T::default()),
        }
    }

    fn set(&mut self, key: &str, value: &impl Serialize) -> Result<(), String> {
        let raw = serde_json::value::to_raw_value(value).map_err(|error| error.to_string())?;
        match self.0.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = raw,
            None => self.0.push((key.to_owned(), raw)),
        }
        Ok(())
    }
}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Raw;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
                let mut raw = Raw::default();
                while let Some(entry) = map.next_entry()? {
                    raw.0.push(entry);
                }
                Ok(raw)
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I18: what is not ours stays as it was written, in its order, to the last digit.
    #[test]
    fn a_rule_is_added_and_all_else_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".claude/settings.local.json");
        let add = |rule, how| change(&path, dir.path(), Behavior::Allow, rule, how).unwrap();
        assert!(add("Bash(git status)", Change::Add));
        assert!(!add("Bash(git status)", Change::Add));
        assert!(fs::read_to_string(&path).unwrap().contains("\"Bash(git status)\""));
        let text = r#"{"zeta": 1.10000000000000000001e400, "permissions": {"later": [1,  2], "allow": ["A"], "deny": ["B"]}, "alpha": {"x":"\u00e9"}}"#;
        fs::write(&path, text).unwrap();
        assert!(add("Read", Change::Add));
        let written = fs::read_to_string(&path).unwrap();
        for kept in ["1.10000000000000000001e400", "[1,  2]", r#"{"x":"\u00e9"}"#] {
            assert!(written.contains(kept), "{written}");
        }
        let order: Vec<_> = ["zeta", "permissions", "later", "allow", "deny", "alpha"]
            .iter()
            .map(|key| written.find(&format!("\"{key}\"")).unwrap())
            .collect();
        assert!(order.is_sorted(), "{written}");
        let value: serde_json::Value = serde_json::from_str(&written.replace("e400", "")).unwrap();
        assert_eq!(value["permissions"]["allow"], serde_json::json!(["A", "Read"]));
        assert!(add("Read", Change::Remove) && !add("Read", Change::Remove));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    /// I18, F86: what is no settings file, and a link that leads out, are left as they are.
    #[test]
    fn what_is_no_settings_file_is_left_as_it_is() {
        let (dir, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = dir.path().join(".claude/settings.local.json");
        let add = || change(&path, dir.path(), Behavior::Allow, "Read", Change::Add);
        std::os::unix::fs::symlink(out.path(), dir.path().join(".claude")).unwrap();
        assert!(matches!(add(), Err(SettingsError::Outside { .. })));
        fs::remove_file(dir.path().join(".claude")).unwrap();
        fs::create_dir(dir.path().join(".claude")).unwrap();
        std::os::unix::fs::symlink(out.path().join("none"), &path).unwrap();
        assert!(matches!(add(), Err(SettingsError::Outside { .. })));
        assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0);
        fs::remove_file(&path).unwrap();
        for bad in ["{", "[]", r#"{"permissions": []}"#, r#"{"permissions": {"allow": "Read"}}"#] {
            fs::write(&path, bad).unwrap();
            let error = add().unwrap_err().to_string();
            assert!(error.contains("settings.local.json") && error.contains("left as it is"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), bad);
        }
    }
}
