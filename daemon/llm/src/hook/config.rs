//! Which hooks there are, as files say it; nothing is run here.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::Event;
use super::matcher::Matcher;
use crate::definition::Problem;
use crate::trust::{Item, Kind};

/// Hooks of a run at most.
const HOOKS_MOST: usize = 100;
/// Characters of an event's name that are shown.
const NAME_MOST: usize = 80;
/// How long a hook may take unless the file says otherwise, and at most.
const TIMEOUT: Duration = Duration::from_mins(1);
const TIMEOUT_MOST: Duration = Duration::from_mins(10);

/// A hook.
#[derive(Clone, Debug)]
pub struct Hook {
    /// At what it runs.
    pub event: Event,
    /// For what, as it was written.
    pub written: Option<String>,
    /// A command for a shell; with arguments, a program.
    pub command: String,
    /// The program's arguments, where it is one.
    pub args: Option<Vec<String>>,
    /// How long it may take.
    pub timeout: Duration,
    /// The file that says so.
    pub path: PathBuf,
    matcher: Matcher,
}

/// A group of hooks as a file has it.
#[derive(Debug, Deserialize)]
struct Group {
    #[serde(default)]
    matcher: Option<String>,
    hooks: Vec<Value>,
}

/// A hook as a file has it.
#[derive(Debug, Deserialize)]
struct Written {
    #[serde(rename = "type")]
    kind: String,
    command: Option<String>,
    args: Option<Vec<String>>,
    /// Seconds.
    timeout: Option<f64>,
    #[serde(default, rename = "async")]
    is_async: bool,
    #[serde(rename = "if")]
    condition: Option<Value>,
}

/// All hooks of a run, in the order of their files.
#[derive(Clone, Debug, Default)]
pub struct Hooks {
    /// The hooks.
    pub hooks: Vec<Hook>,
    /// What is wrong with what was written.
    pub problems: Vec<Problem>,
    /// What is right, and never runs here: whoever asks which hooks there are is told, and no agent is.
    pub unheard: Vec<Problem>,
}

impl Hooks {
    /// Reads what may run.
    pub fn of(items: &[Item]) -> Self {
        let mut hooks = Self::default();
        for item in items {
            match item.kind {
                Kind::Hooks => hooks.add(&item.value, &item.path),
                Kind::Agent => hooks.add(&item.value["hooks"], &item.path),
                Kind::McpServers => {}
            }
        }
        hooks
    }

    /// Adds what one place says.
    pub fn add(&mut self, value: &Value, path: &Path) {
        let events = match value {
            Value::Object(events) => events,
            Value::Null => return,
            other => {
                return self.problem(path, format!("`hooks` has to be an object of events, and is {other}"));
            }
        };
        for (name, groups) in events {
            let Some(event) = Event::ALL.into_iter().find(|event| event.as_str() == name) else {
                self.unheard(name, groups, path);
                continue;
            };
            match Vec::<Group>::deserialize(groups) {
                Ok(groups) => groups.into_iter().for_each(|group| self.group(event, &group, path)),
                Err(error) => self.problem(path, format!("`hooks.{name}` is left out: {error}")),
            }
        }
    }

    /// The hooks for a tool or a type of agent, at an event.
    pub(super) fn matching(&self, event: Event, subject: &str) -> impl Iterator<Item = &Hook> {
        self.hooks.iter().filter(move |hook| hook.event == event && hook.matcher.matches(subject))
    }

    /// Notes hooks of an event of other programs, or of one that nothing here leads to.
    fn unheard(&mut self, name: &str, groups: &Value, path: &Path) {
        if self.unheard.len() < HOOKS_MOST {
            let count = groups.as_array().map_or(0, Vec::len);
            let known: Vec<&str> = Event::ALL.iter().map(|event| event.as_str()).collect();
            let name: String = name.chars().take(NAME_MOST).collect();
            let why = format!("hooks of {name} ({count}) never run here: there are {}", known.join(", "));
            self.unheard.push(Problem::warning(None, why).at(path));
        }
    }

    fn problem(&mut self, path: &Path, message: String) {
        self.problems.push(Problem::warning(None, message).at(path));
    }

    fn group(&mut self, event: Event, group: &Group, path: &Path) {
        let matcher = match Matcher::parse(group.matcher.as_deref().unwrap_or_default()) {
            Ok(matcher) => matcher,
            Err(why) => {
                return self.problem(path, format!("hooks of {} are left out: {why}", event.as_str()));
            }
        };
        for value in &group.hooks {
            if self.hooks.len() >= HOOKS_MOST {
                return self
                    .problem(path, format!("there are more than {HOOKS_MOST} hooks; the rest is left out"));
            }
            match read(value) {
                Ok((written, command)) => {
                    if written.condition.is_some() {
                        let why = format!(
                            "`if` of the hook {command:?} is passed over: it runs for all that its matcher says"
                        );
                        self.problem(path, why);
                    }
                    let timeout = written.timeout.and_then(|most| Duration::try_from_secs_f64(most).ok());
                    let timeout = timeout.unwrap_or(TIMEOUT).clamp(Duration::from_millis(1), TIMEOUT_MOST);
                    self.hooks.push(Hook {
                        event,
                        written: group.matcher.clone(),
                        command,
                        args: written.args,
                        timeout,
                        path: path.to_owned(),
                        matcher: matcher.clone(),
                    });
                }
                Err(why) => self.problem(path, format!("a hook of {} is left out: {why}", event.as_str())),
            }
        }
    }
}

fn read(value: &Value) -> Result<(Written, String), String> {
    let mut written: Written = serde_path_to_error::deserialize(value).map_err(|error| error.to_string())?;
    if written.kind != "command" {
        let known = ["http", "mcp_tool", "prompt", "agent"].contains(&written.kind.as_str());
        let why = if known { "is not run here" } else { "is no type of a hook" };
        return Err(format!("type {:?} {why}: it can't be used, there is \"command\"", written.kind));
    }
    if written.is_async {
        return Err("hooks that are not waited for can't be used: leave `async` out".to_owned());
    }
    let command = written.command.take().filter(|command| !command.trim().is_empty());
    let command = command.ok_or("`command` is missing")?;
    if command.contains('\0') { Err("`command` holds a NUL".to_owned()) } else { Ok((written, command)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// PM-10, C18: hooks are read in their order; one that can't be used is left out with the reason, alone.
    #[test]
    fn hooks_are_read_and_bad_ones_are_named() {
        let mut hooks = Hooks::default();
        let value = json!({
            "PreToolUse": [
                {"matcher": "Bash", "hooks": [
                    {"type": "command", "command": "a", "timeout": 0.5}, {"type": "http", "url": "x"},
                    {"type": "command", "command": "b", "args": ["c"], "if": "Bash(git *)"}, {"type": "command"}]},
                {"matcher": "(", "hooks": [{"type": "command", "command": "d"}]}],
            "SubagentStop": [{"hooks": [{"type": "command", "command": "e", "async": true}]}],
            "PostToolUse": {"hooks": []}, "SomethingElse": 7,
        });
        hooks.add(&value, Path::new("/f"));
        let commands: Vec<&str> = hooks.hooks.iter().map(|hook| hook.command.as_str()).collect();
        assert_eq!(commands, ["a", "b"]);
        assert_eq!(hooks.hooks[0].timeout, Duration::from_millis(500));
        assert_eq!(hooks.problems.len(), 6, "{:?}", hooks.problems);
        assert!(
            hooks.unheard.len() == 1 && hooks.unheard[0].message.contains("SomethingElse (0) never run here")
        );
        assert!(hooks.problems.iter().any(|one| one.message.contains("\"http\" is not run here")));
        assert_eq!(hooks.matching(Event::PreToolUse, "Read").count(), 0);
    }
}
