//! Settings files: where rules, directories and the mode come from.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::rule::{Anchors, Behavior, Rule};
use super::{Mode, Placed, Rules};
use crate::definition::{MOST_UP, Problem, up_to_root};
use crate::document::{self, Seen};

/// Bytes of a file at most.
const MOST: usize = 1024 * 1024;
/// Rules of a file at most.
const MOST_RULES: usize = 2000;

/// Where a rule is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Whoever manages the machine.
    Managed,
    /// The session.
    Session,
    /// This checkout of the project.
    Local,
    /// The project.
    Project,
    /// The user.
    User,
}

impl Source {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Managed => "managed",
            Self::Session => "session",
            Self::Local => "local",
            Self::Project => "project",
            Self::User => "user",
        }
    }
}

/// Where settings are looked for.
#[derive(Clone, Debug)]
pub struct Files {
    /// What whoever manages the machine wrote.
    pub managed: Option<PathBuf>,
    /// The home directory.
    pub home: PathBuf,
    /// Where the agent works.
    pub cwd: PathBuf,
    root: PathBuf,
}

/// What settings say of permissions.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The rules and directories.
    pub rules: Rules,
    /// The mode of who was given none.
    pub mode: Option<Mode>,
    /// What a project says of that: it asks for more than the user, and never for less.
    of_project: Option<Mode>,
    /// Whether `bypassPermissions` is switched off.
    pub bypass_disabled: bool,
    /// What is wrong with the files.
    pub problems: Vec<Problem>,
    /// The files, as they were.
    pub seen: Seen,
}

impl Files {
    /// Files for who works in `cwd`. Looks for the root of the project, so it may block; it stays the root from then on.
    pub fn new(managed: Option<PathBuf>, home: PathBuf, cwd: PathBuf) -> Self {
        let root = up_to_root(&cwd).pop().unwrap_or_else(|| cwd.clone());
        Self { managed, home, cwd, root }
    }

    /// The root of the project.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The file of a source; the session has none.
    pub fn path(&self, source: Source) -> Option<PathBuf> {
        match source {
            Source::Managed => self.managed.clone(),
            Source::Session => None,
            Source::Local => Some(self.root().join(".claude/settings.local.json")),
            Source::Project => Some(self.root().join(".claude/settings.json")),
            Source::User => Some(self.home.join(".claude/settings.json")),
        }
    }

    /// Where patterns of a source's rules begin.
    fn base(&self, source: Source) -> PathBuf {
        match source {
            Source::Managed => {
                self.managed.as_deref().and_then(Path::parent).unwrap_or(Path::new("/")).to_owned()
            }
            Source::Session | Source::Local | Source::Project => self.root.clone(),
            Source::User => self.home.join(".claude"),
        }
    }

    /// The settings of directories that the project lies in, each with where its patterns begin.
    fn around(&self) -> impl Iterator<Item = (Source, PathBuf, PathBuf)> {
        let of = |dir: &Path| {
            let file = |source, name| (source, dir.join(name), dir.to_owned());
            [
                file(Source::Local, ".claude/settings.local.json"),
                file(Source::Project, ".claude/settings.json"),
            ]
        };
        self.cwd.ancestors().take(MOST_UP).flat_map(of)
    }

    /// Reads a rule as this source would mean it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn rule(&self, text: &str, behavior: Behavior, source: Source) -> Result<Placed, super::BadRule> {
        self.rule_of(&self.base(source), text, behavior, source)
    }

    fn rule_of(
        &self,
        base: &Path,
        text: &str,
        behavior: Behavior,
        source: Source,
    ) -> Result<Placed, super::BadRule> {
        let anchors = Anchors { cwd: &self.cwd, home: &self.home, settings: base };
        Ok(Placed { rule: Rule::parse(text, behavior, anchors)?, source })
    }
}

impl Settings {
    /// Reads all settings, the strongest first.
    pub fn load(files: &Files) -> Self {
        let mut settings = Self::default();
        settings.rules.directories.push(files.cwd.clone());
        let mut paths = Vec::new();
        for source in [Source::Managed, Source::Local, Source::Project, Source::User] {
            if let Some(path) = files.path(source).filter(|path| !paths.contains(path)) {
                settings.seen.note(&path);
                settings.read(files, (source, &files.base(source)), &path);
                paths.push(path);
            }
        }
        for (source, path, base) in files.around().filter(|(_, path, _)| !paths.contains(path)) {
            settings.seen.note(&path);
            if is_ours(&path) {
                settings.read_around(files, (source, &base), &path);
            }
        }
        settings.mode = match (settings.mode, settings.of_project) {
            (Some(own), of_project) => Some(own.at_most(of_project)),
            (None, of_project) => of_project,
        };
        settings
    }

    /// Reads what a directory further out forbids: a repository inside of another one, which an agent can make at any
    /// time, is free of nothing. It allows nothing, and has no word on the mode.
    fn read_around(&mut self, files: &Files, of: (Source, &Path), path: &Path) {
        let mut found = Self::default();
        found.read(files, of, path);
        found.rules.rules.retain(|placed| placed.rule.behavior() != Behavior::Allow);
        self.rules.rules.extend(found.rules.rules);
        self.bypass_disabled |= found.bypass_disabled;
        self.problems.extend(found.problems);
    }

    /// Whether a file is another one now.
    pub fn is_stale(&self) -> bool {
        self.seen.is_stale()
    }

    fn read(&mut self, files: &Files, (source, base): (Source, &Path), path: &Path) {
        let mut problem = |message: String| self.problems.push(Problem::skip(None, message).at(path));
        let text = match document::read(path, MOST) {
            Ok(Some(text)) => text,
            Ok(None) => return,
            Err(error) => return problem(error.to_string()),
        };
        let value: Value = match serde_json::from_str(&text) {
            Ok(value) => value,
            Err(error) => {
                let line = Some(error.line());
                return self.problems.push(Problem::skip(line, format!("it is no JSON: {error}")).at(path));
            }
        };
        let permissions = match value.get("permissions") {
            Some(permissions @ Value::Object(_)) => permissions,
            None if value.is_object() => return,
            Some(_) | None => return problem("`permissions` has to be an object".to_owned()),
        };
        for behavior in [Behavior::Deny, Behavior::Ask, Behavior::Allow] {
            for text in self.texts(permissions, behavior.as_str(), path) {
                match files.rule_of(base, &text, behavior, source) {
                    Ok(placed) => self.rules.rules.push(placed),
                    Err(error) => self.problems.push(Problem::warning(None, error.to_string()).at(path)),
                }
            }
        }
        let directories = self.texts(permissions, "additionalDirectories", path);
        if !directories.is_empty() && matches!(source, Source::Local | Source::Project) {
            // Else a checkout could say which files beside it may be read unasked (PM-09).
            let why = "a project can't set `permissions.additionalDirectories`: set it for the user";
            self.problems.push(Problem::warning(None, why.to_owned()).at(path));
        } else {
            self.directories(files, &directories);
        }
        self.bypass_disabled |=
            permissions.get("disableBypassPermissionsMode").and_then(Value::as_str) == Some("disable");
        self.read_mode(source, permissions, path);
    }

    fn directories(&mut self, files: &Files, named: &[String]) {
        let place = |dir: &String| {
            dir.strip_prefix("~/").map_or_else(|| files.root().join(dir), |rest| files.home.join(rest))
        };
        self.rules.directories.extend(named.iter().map(place));
    }

    fn read_mode(&mut self, source: Source, permissions: &Value, path: &Path) {
        let Some(mode) = permissions.get("defaultMode") else { return };
        let mut problem = |message: String| self.problems.push(Problem::warning(None, message).at(path));
        let in_project = matches!(source, Source::Local | Source::Project);
        match Mode::deserialize(mode) {
            Err(error) => problem(format!("`permissions.defaultMode` is not right: {error}")),
            Ok(Mode::Bubble) => {
                problem("`permissions.defaultMode` can't be `bubble`: forks have it".to_owned());
            }
            // Else a checkout could switch off that its own programs are asked for.
            Ok(mode) if in_project && mode != Mode::Default.at_most(Some(mode)) => {
                let mode = mode.word();
                let why = format!(
                    "a project can't set `permissions.defaultMode` to `{mode}`, which asks for less: set it for the user"
                );
                problem(why);
            }
            // What the machine's own file says nobody changes.
            Ok(_) if in_project && self.mode.is_some() => {}
            Ok(mode) if in_project => {
                self.of_project.get_or_insert(mode);
            }
            Ok(mode) => {
                self.mode.get_or_insert(mode);
            }
        }
    }

    fn texts(&mut self, permissions: &Value, key: &str, path: &Path) -> Vec<String> {
        let mut problem = |message: String| self.problems.push(Problem::warning(None, message).at(path));
        let list = match permissions.get(key) {
            None => return Vec::new(),
            Some(Value::Array(list)) => list,
            Some(_) => {
                problem(format!("`permissions.{key}` has to be a list of texts"));
                return Vec::new();
            }
        };
        if list.len() > MOST_RULES {
            problem(format!("`permissions.{key}` has more than {MOST_RULES} entries; the rest is not read"));
        }
        let mut texts = Vec::new();
        for (at, entry) in list.iter().take(MOST_RULES).enumerate() {
            match entry.as_str() {
                Some(text) => texts.push(text.to_owned()),
                None => problem(format!("`permissions.{key}[{at}]` has to be a text, and is {entry}")),
            }
        }
        texts
    }
}

/// Whether a file is this user's or the system's: anybody can put one into a directory such as `/tmp`.
fn is_ours(path: &Path) -> bool {
    let owner = std::fs::metadata(path).map(|metadata| metadata.uid());
    owner.is_ok_and(|owner| owner == 0 || owner == rustix::process::geteuid().as_raw())
}
