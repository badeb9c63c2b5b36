//! What an agent may do unasked: rules, modes, and the order in which they decide.
//!
//! ```text
//! deny rules ─▶ plan mode ─▶ ask rules ─▶ bypass ─▶ guarded files ─▶ allow rules ─▶ what the mode lets through ─▶ ask
//! ```
//!
//! The first that speaks decides; how exact a rule is does not matter. Nothing ever becomes allowed because a time ran
//! out or nobody could be asked (PM-09, C17). Deliberately not here: who is asked, and how.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use crate::alias;
use crate::tool::Access;

pub mod bash;
mod mode;
mod named;
mod path;
mod rule;
mod settings;
mod write;

pub use mode::Mode;
pub use path::Place;
pub use rule::{Anchors, BadRule, Behavior, Rule};
pub use settings::{Files, Settings, Source};
pub use write::{Change, SettingsError, change};

use bash::Commands;
use named::Sighting;
use rule::Seen;

/// A tool call that is to be decided.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The tool.
    pub tool: &'a str,
    /// What it is called with. A spawn's type stands in it as it was resolved.
    pub input: &'a Value,
    /// What it does.
    pub access: Access,
    /// Where relative paths begin.
    pub cwd: &'a Path,
}

/// A rule, and where it is from.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The rule.
    pub rule: Rule,
    /// Where it is from.
    pub source: Source,
}

/// All rules that hold for an agent, and the directories in which it works.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// The rules; within one behaviour, the order is the one in which they are named as the reason.
    pub rules: Vec<Placed>,
    /// Where it works, and what was added to that.
    pub directories: Vec<PathBuf>,
}

/// What becomes of a call, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// What becomes of it.
    pub behavior: Behavior,
    /// Why.
    pub reason: String,
    /// The rule that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Where that is from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
}

impl Decision {
    fn new(behavior: Behavior, reason: impl Into<String>) -> Self {
        Self { behavior, reason: reason.into(), rule: None, source: None }
    }

    fn by(placed: &Placed) -> Self {
        let behavior = placed.rule.behavior();
        let (verb, source) = (behavior.as_str(), placed.source.as_str());
        Self {
            reason: format!("a rule of {source} says {verb}: {}", placed.rule),
            behavior,
            rule: Some(placed.rule.to_string()),
            source: Some(placed.source),
        }
    }

    /// A rule that speaks of a file in a line; which one, nobody would see from the rule alone.
    fn by_file(placed: &Placed, path: &Path) -> Self {
        let decision = Self::by(placed);
        Self { reason: format!("{}, and the line names {}", decision.reason, path.display()), ..decision }
    }
}

/// Decides on a call.
pub fn decide(mode: Mode, rules: &Rules, call: &Call<'_>) -> Decision {
    let seen = see(call);
    let first = |behavior| {
        rules.rules.iter().find(|placed| placed.rule.behavior() == behavior && placed.rule.means(&seen))
    };
    let by_line = |behavior| by_line(rules, call, &seen, behavior);
    if let Some(decision) = first(Behavior::Deny).map(Decision::by).or_else(|| by_line(Behavior::Deny)) {
        return decision;
    }
    if mode == Mode::Plan && call.access == Access::Writes {
        return Decision::new(Behavior::Deny, "in plan mode no file is changed: hand in the plan first");
    }
    let asked = first(Behavior::Ask).map(Decision::by).or_else(|| by_line(Behavior::Ask));
    if let Some(decision) = asked.or_else(|| unclear(rules, &seen)) {
        return unasked(mode, decision);
    }
    if mode == Mode::BypassPermissions {
        return Decision::new(Behavior::Allow, "the mode bypassPermissions lets it through");
    }
    let writes = call.access == Access::Writes;
    if writes && seen.place.as_ref().is_some_and(Place::is_guarded) {
        let why = "the file can change what is allowed, or what others run";
        return unasked(mode, Decision::new(Behavior::Ask, why));
    }
    if let Some(decision) = allowed(rules, &seen) {
        return decision;
    }
    by_access(mode, rules, call, &seen)
}

impl Rules {
    /// Whether a rule denies that a file is read; for tools that look through many.
    pub fn denies_reading(&self, place: &Place) -> bool {
        self.rules.iter().any(|placed| placed.rule.denies("Read", place))
    }
}

/// The rules that would let a call through the next time; none where no rule could say just this call (I11).
pub fn suggest(call: &Call<'_>) -> Vec<String> {
    let tool = alias::canonical(call.tool);
    let literal = |text: &str| text.replace('*', "\\*");
    let seen = see(call);
    match (tool, seen.commands, seen.place) {
        ("Bash", Some((_, Commands { parts, opaque: None })), _) => {
            parts.iter().map(|part| format!("Bash({})", literal(part))).collect()
        }
        ("Bash" | "PowerShell", _, _) => Vec::new(),
        ("Read" | "Edit" | "Write" | "NotebookEdit", _, Some(place)) => {
            as_pattern(&place.named).map(|path| format!("{tool}({path})")).into_iter().collect()
        }
        ("WebFetch", _, _) => {
            let host = call.input.get("url").and_then(Value::as_str).and_then(rule::host);
            host.map(|host| format!("WebFetch(domain:{host})")).into_iter().collect()
        }
        _ => vec![tool.to_owned()],
    }
}

/// The rule that means the calls of a tool below a directory; `None` where no pattern can say it (PM-01, PM-03).
pub fn below(tool: &str, dir: &Path) -> Option<String> {
    as_pattern(dir).map(|dir| format!("{tool}({}/**)", dir.trim_end_matches('/')))
}

/// An absolute path as a pattern; a letter that means something in a pattern would make it another one.
fn as_pattern(path: &Path) -> Option<String> {
    let text = path.to_str().filter(|text| text.starts_with('/'))?;
    let plain = !text.contains(['*', '?', '[', ']', '\\', '!', '{', '}']) && text.trim_end() == text;
    plain.then(|| format!("/{text}"))
}

fn see<'a>(call: &Call<'a>) -> Seen<'a> {
    let line = call.input.get("command").and_then(Value::as_str);
    let commands = match alias::canonical(call.tool) {
        "Bash" => line.map(|line| (line, Commands::of(line))),
        // Its grammar is another one.
        "PowerShell" => line
            .map(|line| (line, Commands { opaque: Some("its grammar is not known"), ..Commands::of(line) })),
        _ => None,
    };
    Seen {
        tool: call.tool,
        input: call.input,
        place: Place::of_call(call.tool, call.input, call.cwd),
        commands,
        guessed: OnceCell::new(),
    }
}

/// Whether rules allow a call; of a line, each command has to be allowed.
fn allowed(rules: &Rules, seen: &Seen<'_>) -> Option<Decision> {
    let by = |means: &dyn Fn(&Rule) -> bool| {
        rules.rules.iter().find(|placed| means(&placed.rule)).map(Decision::by)
    };
    let Some((_, commands)) = &seen.commands else {
        return by(&|rule| rule.behavior() == Behavior::Allow && rule.means(seen));
    };
    if let Some(decision) = by(&|rule| rule.allows_all(seen.tool)) {
        return Some(decision);
    }
    if commands.opaque.is_some() {
        return None;
    }
    let each = commands.parts.iter().map(|part| by(&|rule| rule.allows_part(seen.tool, part)));
    each.collect::<Option<Vec<_>>>()?.into_iter().next()
}

/// What rules for files say of those that a shell's line would read or change. This finds the usual ways; a program can
/// always open more than its words say.
fn by_line(rules: &Rules, call: &Call<'_>, seen: &Seen<'_>, behavior: Behavior) -> Option<Decision> {
    match named::find(&rules.rules, behavior, call.cwd, seen.guessed()?) {
        Sighting::Nothing => None,
        Sighting::Rule(placed, path) => Some(Decision::by_file(placed, &path)),
        Sighting::TooMany => {
            let why = "there are rules that keep files, and the line names more files than are looked at";
            Some(Decision::new(Behavior::Ask, why))
        }
    }
}

/// Where rules keep a shell from something, a line that may do it without showing it is asked for.
fn unclear(rules: &Rules, seen: &Seen<'_>) -> Option<Decision> {
    let keeps = rules.rules.iter().any(|placed| placed.rule.restricts_lines(seen.tool));
    let why = seen.guessed().filter(|_| keeps)?.unclear?;
    Some(Decision::new(Behavior::Ask, format!("there are rules that keep commands or files, and {why}")))
}

fn by_access(mode: Mode, rules: &Rules, call: &Call<'_>, seen: &Seen<'_>) -> Decision {
    let place = seen.place.as_ref();
    let inside = place.is_some_and(|place| rules.directories.iter().any(|dir| place.is_in(dir)));
    let allow = |why: &str| Decision::new(Behavior::Allow, why);
    let ask = |why: String| unasked(mode, Decision::new(Behavior::Ask, why));
    let outside = || {
        let path = place.map_or_else(|| "no file".to_owned(), |place| place.named.display().to_string());
        format!("no rule allows it, and {path} is not in the working directories")
    };
    match call.access {
        Access::Reads if place.is_none() => allow("it only looks"),
        Access::Reads if inside => allow("it reads in the working directories"),
        Access::Writes if inside && mode == Mode::AcceptEdits => {
            allow("the mode acceptEdits lets it through")
        }
        Access::Writes if inside => ask("it changes a file, and no rule allows that".to_owned()),
        Access::Reads | Access::Writes => ask(outside()),
        Access::Talks => allow("it only speaks to the rest of the daemon"),
        Access::Steers => allow("a person decides whether the agent may do more"),
        Access::Fetches => ask("it looks at the network, and no rule allows that".to_owned()),
        Access::Runs => {
            let opaque = seen.commands.as_ref().and_then(|(_, commands)| commands.opaque);
            ask(match opaque {
                Some(why) => format!("no rule for single commands can allow it: {why}"),
                None => "it runs a program, and no rule allows all of it".to_owned(),
            })
        }
    }
}

/// Where nobody is asked, what would be asked is denied.
fn unasked(mode: Mode, decision: Decision) -> Decision {
    match mode {
        Mode::DontAsk => {
            let reason = format!("{}; in the mode dontAsk nobody is asked", decision.reason);
            Decision { behavior: Behavior::Deny, reason, ..decision }
        }
        Mode::Default | Mode::AcceptEdits | Mode::Plan | Mode::BypassPermissions | Mode::Bubble => decision,
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_line;
