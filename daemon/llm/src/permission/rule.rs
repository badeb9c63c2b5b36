//! Rules: `Tool` or `Tool(what)`, and which calls they mean.
//!
//! | rule | means |
//! |---|---|
//! | `Bash(git status)`, `Bash(git *)`, `Bash(git:*)`, `Bash(git*)` | a command; with a space or `:` before the star, only whole words |
//! | `Read(src/**)`, `Edit(//etc/**)`, `Edit(~/x)`, `Read(/x)` | files as git's ignore patterns: below the working directory, the root, the home directory, where the settings are |
//! | `WebFetch(domain:example.com)` | a host |
//! | `Agent(Explore)` | a type of agent |
//! | `mcp__srv`, `mcp__srv__tool` | tools of an MCP server |
//! | `Tool(key:value)` | a value of the input; to deny and to ask only |

use std::cell::OnceCell;
use std::fmt;
use std::path::{Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::bash::{Commands, Guessed};
use super::named;
use super::path::Place;
use crate::{alias, pool};

/// Bytes of a rule at most.
const MOST: usize = 4096;

/// What a rule does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Behavior {
    /// It may not be.
    Deny,
    /// Somebody is asked.
    Ask,
    /// It goes through.
    Allow,
}

impl Behavior {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Ask => "ask",
            Self::Allow => "allow",
        }
    }
}

/// Why a text is no rule (1203).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule:?} is no rule to {}: {why}", behavior.as_str())]
pub struct BadRule {
    /// The text.
    pub rule: String,
    /// What it was to do.
    pub behavior: Behavior,
    /// What is wrong, and what would be right.
    pub why: String,
}

/// What of a tool's calls a rule means.
#[derive(Clone, Debug)]
enum What {
    All,
    Command(String),
    Files { root: PathBuf, pattern: Box<Gitignore>, names: Vec<String>, home: PathBuf },
    Domain(String),
    AgentType(String),
    Input { key: String, value: String },
}

/// A rule.
#[derive(Clone, Debug)]
pub struct Rule {
    text: String,
    behavior: Behavior,
    tool: String,
    what: What,
}

/// Where the patterns of a rule begin.
#[derive(Clone, Copy, Debug)]
pub struct Anchors<'a> {
    /// Where the project is: for patterns without an anchor.
    pub cwd: &'a Path,
    /// The home directory: `~/`.
    pub home: &'a Path,
    /// Where the settings are: `/`.
    pub settings: &'a Path,
}

/// A call, as a rule sees it.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    pub(super) tool: &'a str,
    pub(super) input: &'a Value,
    pub(super) place: Option<Place>,
    /// The line that a shell runs, taken apart.
    pub(super) commands: Option<(&'a str, Commands)>,
    /// What that may do, once a rule wants to know.
    pub(super) guessed: OnceCell<Guessed>,
}

impl Seen<'_> {
    /// Everything that the line may do, as far as that can be guessed.
    pub(super) fn guessed(&self) -> Option<&Guessed> {
        let (line, commands) = self.commands.as_ref()?;
        Some(self.guessed.get_or_init(|| commands.guess(line)))
    }
}

impl Rule {
    /// Reads a rule.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, behavior: Behavior, anchors: Anchors<'_>) -> Result<Self, BadRule> {
        let bad = |why: String| BadRule { rule: text.to_owned(), behavior, why };
        if text.len() > MOST {
            return Err(bad(format!("it is longer than {MOST} bytes")));
        }
        let (tool, spec) = match text.trim().split_once('(') {
            None => (text.trim(), None),
            Some((tool, rest)) => {
                let spec =
                    rest.strip_suffix(')').ok_or_else(|| bad("the `)` at its end is missing".to_owned()))?;
                (tool, Some(spec.trim()).filter(|spec| !spec.is_empty() && *spec != "*"))
            }
        };
        check_tool(tool, behavior).map_err(bad)?;
        let tool = alias::canonical(tool).to_owned();
        let what = match spec {
            None => What::All,
            Some(spec) => what(&tool, spec, behavior, anchors).map_err(bad)?,
        };
        Ok(Self { text: text.trim().to_owned(), behavior, tool, what })
    }

    /// What it does.
    pub const fn behavior(&self) -> Behavior {
        self.behavior
    }

    /// Whether it means this call. To allow it has to cover all that the call does; to deny, a part is enough.
    pub(super) fn means(&self, seen: &Seen<'_>) -> bool {
        self.is_of(seen.tool)
            && match &self.what {
                What::All => true,
                What::Command(pattern) => self.means_command(pattern, seen),
                What::Files { root, pattern, .. } => self.means_files(root, pattern, seen.place.as_ref()),
                What::Domain(domain) => match seen.input.get("url").and_then(Value::as_str).map(host) {
                    Some(Some(host)) => is_like(&domain.to_lowercase(), &host),
                    // A host that can't be told may be the one that is denied.
                    Some(None) | None => self.behavior != Behavior::Allow,
                },
                What::AgentType(kind) => {
                    let asked = ["subagent_type", "subagentType"].iter().find_map(|key| seen.input.get(*key));
                    match asked.and_then(Value::as_str) {
                        Some(asked) => asked == kind,
                        // Without a type it is one of these.
                        None => {
                            self.behavior != Behavior::Allow && ["general-purpose", "fork"].contains(&&**kind)
                        }
                    }
                }
                What::Input { key, value } => seen.input.get(key).is_some_and(|given| match given {
                    Value::String(given) => is_like(value, given),
                    other => is_like(value, &other.to_string()),
                }),
            }
    }

    /// Whether it denies a tool this file, whoever touches it: a tool that looks through many, a shell.
    pub(super) fn denies(&self, tool: &str, place: &Place) -> bool {
        self.behavior == Behavior::Deny && self.speaks_of(tool, place)
    }

    /// Whether its files are this one, for a tool.
    pub(super) fn speaks_of(&self, tool: &str, place: &Place) -> bool {
        self.is_of(tool)
            && matches!(&self.what, What::Files { root, pattern, .. } if self.means_files(root, pattern, Some(place)))
    }

    /// Whether it is about files, and about those of a tool.
    pub(super) fn is_for(&self, tool: &str) -> bool {
        matches!(self.what, What::Files { .. }) && self.is_of(tool)
    }

    /// Whether it keeps a shell from commands or files, without being about every line.
    pub(super) fn restricts_lines(&self, tool: &str) -> bool {
        self.behavior != Behavior::Allow
            && match self.what {
                What::Command(_) => self.is_of(tool),
                What::Files { .. } => true,
                What::All | What::Domain(_) | What::AgentType(_) | What::Input { .. } => false,
            }
    }

    /// The home directory of whoever made it; only of a rule for files.
    pub(super) fn home(&self) -> Option<&Path> {
        match &self.what {
            What::Files { home, .. } => Some(home),
            What::All | What::Command(_) | What::Domain(_) | What::AgentType(_) | What::Input { .. } => None,
        }
    }

    /// The names in its path that are no patterns.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let names: &[String] = match &self.what {
            What::Files { names, .. } => names,
            What::All | What::Command(_) | What::Domain(_) | What::AgentType(_) | What::Input { .. } => &[],
        };
        names.iter().map(String::as_str)
    }

    fn is_of(&self, tool: &str) -> bool {
        let tool = alias::canonical(tool);
        let family: &[&str] = match self.tool.as_str() {
            "Edit" => pool::EDITORS,
            "Read" => &["Read", "Grep", "Glob"],
            _ => &[],
        };
        self.tool == tool
            || family.contains(&tool)
            || pool::covers_mcp(&self.tool, tool)
            || is_like(&self.tool, tool)
    }

    /// Whether a command hides in a line that it denies or asks for; lines are allowed part by part.
    fn means_command(&self, pattern: &str, seen: &Seen<'_>) -> bool {
        if self.behavior == Behavior::Allow {
            return false;
        }
        seen.guessed().is_some_and(|guessed| {
            guessed.commands.iter().any(|guess| covers(pattern, guess))
                || guessed.patterns.iter().any(|(name, rest)| covers_pattern(pattern, name, rest))
        })
    }

    /// Whether it allows one part of a line; all parts have to be allowed, each by some rule.
    pub(super) fn allows_part(&self, tool: &str, part: &str) -> bool {
        self.behavior == Behavior::Allow
            && self.is_of(tool)
            && matches!(&self.what, What::Command(pattern) if covers(pattern, part))
    }

    /// Whether it allows every call of a tool.
    pub(super) fn allows_all(&self, tool: &str) -> bool {
        self.behavior == Behavior::Allow && self.is_of(tool) && matches!(self.what, What::All)
    }

    /// A link is allowed where both it and what it leads to are, and denied where one of them is.
    fn means_files(&self, root: &Path, pattern: &Gitignore, place: Option<&Place>) -> bool {
        let Some(place) = place else { return false };
        let is_in = |path: &Path| {
            path.strip_prefix(root)
                .is_ok_and(|below| pattern.matched_path_or_any_parents(below, path.is_dir()).is_ignore())
        };
        match (self.behavior, &place.real) {
            (Behavior::Allow, Some(real)) => is_in(&place.named) && is_in(real),
            (Behavior::Allow, None) => false,
            (Behavior::Deny | Behavior::Ask, real) => {
                is_in(&place.named) || real.as_deref().is_some_and(is_in)
            }
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

fn check_tool(tool: &str, behavior: Behavior) -> Result<(), String> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "_-.*".contains(letter);
    if tool.is_empty() || !tool.chars().all(is_name) {
        return Err("it has to begin with the name of a tool, as in `Bash(git status)`".to_owned());
    }
    let literal_server = |tool: &str| {
        let tail = tool.strip_prefix("mcp__").and_then(|rest| rest.split_once("__"));
        tail.is_some_and(|(server, _)| !server.is_empty() && !server.contains('*'))
    };
    if behavior == Behavior::Allow && tool.contains('*') && !literal_server(tool) {
        return Err("a star in the name of a tool can't allow, except behind a server: `mcp__server__get_*`"
            .to_owned());
    }
    Ok(())
}

fn what(tool: &str, spec: &str, behavior: Behavior, anchors: Anchors<'_>) -> Result<What, String> {
    match tool {
        "Bash" | "PowerShell" => Ok(What::Command(spec.to_owned())),
        "Read" | "Edit" | "Write" | "NotebookEdit" | "Grep" | "Glob" => files(spec, anchors),
        "WebFetch" => match spec.strip_prefix("domain:") {
            Some(domain) if !domain.trim().is_empty() => Ok(What::Domain(domain.trim().to_owned())),
            Some(_) | None => Err("it has to name a host: `WebFetch(domain:example.com)`".to_owned()),
        },
        "Agent" if !spec.contains(':') || is_type(spec) => Ok(What::AgentType(spec.to_owned())),
        _ => match spec.split_once(':') {
            Some((key, value)) if behavior != Behavior::Allow => {
                Ok(What::Input { key: key.trim().to_owned(), value: value.trim().to_owned() })
            }
            Some(_) => Err("a value of the input can deny or ask, and not allow".to_owned()),
            None => Err(format!("what is in the parentheses means nothing for {tool}")),
        },
    }
}

/// Whether a type with colons is a plugin's agent, and not a key with its value.
fn is_type(spec: &str) -> bool {
    !["model:", "name:", "isolation:", "description:", "prompt:", "run_in_background:"]
        .iter()
        .any(|key| spec.starts_with(key))
}

fn files(spec: &str, anchors: Anchors<'_>) -> Result<What, String> {
    if spec.starts_with('!') {
        return Err("a pattern for files can't be turned round by `!`".to_owned());
    }
    let (root, line) = if let Some(absolute) = spec.strip_prefix("//") {
        (Path::new("/"), format!("/{absolute}"))
    } else if let Some(below) = spec.strip_prefix("~/") {
        (anchors.home, format!("/{below}"))
    } else if spec.starts_with('/') {
        (anchors.settings, spec.to_owned())
    } else if let Some(below) = spec.strip_prefix("./") {
        (anchors.cwd, format!("/{below}"))
    } else if spec.starts_with('#') {
        (anchors.cwd, format!("\\{spec}"))
    } else {
        (anchors.cwd, spec.to_owned())
    };
    // Where a directory is named through a link, patterns below it mean what is really there.
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let is_name = |part: &&str| !part.is_empty() && !part.contains(['*', '?', '[', '\\']);
    let mut names: Vec<String> = line.split('/').filter(is_name).map(str::to_owned).collect();
    names.extend(root.iter().map(|part| part.to_string_lossy().into_owned()));
    let mut builder = GitignoreBuilder::new("");
    builder.allow_unclosed_class(false);
    builder.add_line(None, &line).map_err(|error| format!("it is no pattern for files: {error}"))?;
    let pattern = builder.build().map_err(|error| format!("it is no pattern for files: {error}"))?;
    if pattern.is_empty() {
        return Err("the pattern for files is empty".to_owned());
    }
    Ok(What::Files { root, pattern: Box::new(pattern), names, home: anchors.home.to_owned() })
}

/// Whether a pattern covers a command.
fn covers(pattern: &str, command: &str) -> bool {
    let words = pattern.strip_suffix(":*").or_else(|| pattern.strip_suffix(" *"));
    match words {
        Some(words) => is_like(words, command) || is_like(&format!("{words} *"), command),
        None => is_like(pattern, command),
    }
}

/// Whether a pattern covers a command whose name is itself a pattern, of files that may be there.
fn covers_pattern(pattern: &str, name: &str, rest: &str) -> bool {
    let command = pattern.strip_suffix(":*").unwrap_or(pattern);
    let command = command.split([' ', '*']).next().unwrap_or(command);
    !command.is_empty() && named::is_like(name, command) && covers(pattern, &format!("{command}{rest}"))
}

/// Whether a text is like a pattern, in which a star stands for anything; `\*` is a star.
pub(super) fn is_like(pattern: &str, text: &str) -> bool {
    let mut pieces = vec![String::new()];
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if letters.next_if_eq(&'*').is_some() => push(&mut pieces, '*'),
            '*' => pieces.push(String::new()),
            _ => push(&mut pieces, letter),
        }
    }
    let (Some((first, rest)), Some(mut left)) =
        (pieces.split_first(), pieces.first().and_then(|first| text.strip_prefix(first.as_str())))
    else {
        return false;
    };
    let Some((last, middle)) = rest.split_last() else { return first == text };
    for piece in middle {
        match left.find(piece.as_str()) {
            Some(at) => left = &left[at + piece.len()..],
            None => return false,
        }
    }
    left.ends_with(last.as_str())
}

fn push(pieces: &mut [String], letter: char) {
    if let Some(last) = pieces.last_mut() {
        last.push(letter);
    }
}

/// The host of an address; `None` where it can't be told for certain.
pub(super) fn host(url: &str) -> Option<String> {
    let (scheme, rest) = url.trim().split_once("://")?;
    if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return None;
    }
    let authority = rest.split(['/', '?', '#']).next()?;
    let (host, port) = authority.split_once(':').unwrap_or((authority, "0"));
    let is_host =
        |host: &str| host.chars().all(|letter| letter.is_ascii_alphanumeric() || "-.".contains(letter));
    let host = host.trim_end_matches('.');
    let plain = !host.is_empty() && is_host(host) && port.chars().all(|digit| digit.is_ascii_digit());
    plain.then(|| host.to_ascii_lowercase())
}
