//! Whether a tool call may go on: the rules of the settings files, the agent's mode, and what a person granted.
//!
//! Rules that came with a repository can forbid; that they allow something takes a person's word. So a rule that allows
//! counts in a repository's files only where this daemon wrote it as somebody's answer or at an operator's word, which
//! its store remembers.

use std::borrow::Cow;
use std::path::Path;

use ccagent_core::ask::answer::Granted;
use ccagent_llm::definition::{FORK, Problem, Profile};
use ccagent_llm::document::Seen;
use ccagent_llm::flags::Flags;
use ccagent_llm::permission::{
    self, BadRule, Behavior, Call, Decision, Files, Mode, Placed, Rules, Settings, Source,
};
use ccagent_llm::tool::{self, Access, Ask};
use ccagent_llm::{alias, pool};
use ccagent_proto::permission::PermissionBehavior;
use serde_json::Value;

use super::lead::Within;

/// Bytes of the rules at most that an answer makes.
const RULES_MOST: usize = 16 << 10;

/// Decides for one agent.
#[derive(Clone, Debug)]
pub(crate) struct Judge {
    /// The mode that was asked for; the settings files may allow less.
    asked: Mode,
    mode: Mode,
    files: Files,
    rules: Rules,
    /// The files as they were, and what was granted.
    seen: Seen,
    granted: Granted,
    /// What is wrong with the files.
    problems: Vec<Problem>,
    omitted: Omitted,
}

/// What a spawn without a type is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Omitted {
    waited_for: &'static str,
    background: &'static str,
}

impl Omitted {
    const fn always(name: &'static str) -> Self {
        Self { waited_for: name, background: name }
    }
}

/// What becomes of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may go on.
    Allowed,
    /// It may not; the reason goes to the model.
    Denied(String),
    /// Somebody has to be asked.
    Asks {
        /// Why.
        reason: String,
        /// Whether a rule wants it so.
        by_rule: bool,
    },
}

impl Judge {
    /// Reads the rules that hold where an agent works. Reads files, so it may block.
    pub(crate) fn load(mode: &str, home: Option<&str>, cwd: &Path) -> Self {
        let files = Files::new(None, home.unwrap_or("/").into(), cwd.into());
        let mode: Mode = serde_json::from_value(mode.into()).unwrap_or_default();
        Self::read(mode, files, &Granted::default(), &[])
    }

    fn read(mode: Mode, files: Files, granted: &Granted, known: &[Problem]) -> Self {
        let Settings { mut rules, bypass_disabled, problems, seen, .. } = Settings::load(&files);
        for problem in problems.iter().filter(|problem| !known.contains(problem)) {
            tracing::warn!(?problem, "a rule of a settings file is not right, and does not hold");
        }
        let is_in =
            |texts: &[Box<str>], placed: &Placed| texts.iter().any(|text| **text == *placed.rule.to_string());
        rules.rules.retain(|placed| match (placed.source, placed.rule.behavior()) {
            (Source::Project, Behavior::Allow) => is_in(&granted.project, placed),
            (Source::Local, Behavior::Allow) => is_in(&granted.local, placed),
            (Source::Project | Source::Local, Behavior::Deny | Behavior::Ask)
            | (Source::Managed | Source::Session | Source::User, _) => true,
        });
        let of_session = granted
            .session
            .iter()
            .filter_map(|(behavior, text)| files.rule(text, as_rule(*behavior), Source::Session).ok());
        rules.rules.extend(of_session);
        let held = if bypass_disabled { mode.without_bypass() } else { mode };
        Self {
            asked: mode,
            mode: held,
            files,
            rules,
            seen,
            granted: granted.clone(),
            problems,
            omitted: Omitted::always(Profile::default().default_type()),
        }
    }

    /// The same for an agent inside the daemon: what a spawn of its without a type is depends on its session, and where
    /// there are forks it is one.
    pub(crate) fn of_agent(self, flags: Flags, within: &Within) -> Self {
        let profile = within.profile(None).unwrap_or_default();
        let background = within.default_type(profile);
        let waited_for = if within.forks(profile, flags) { FORK } else { background };
        Self { omitted: Omitted { waited_for, background }, ..self }
    }

    /// Whether it decides by the mode, the grants and the files of now. Looks at files, so it may block.
    pub(super) fn is_of_now(&self, mode: &str, granted: &Granted) -> bool {
        let asked = serde_json::from_value::<Mode>(mode.into()).unwrap_or_default();
        asked == self.asked && *granted == self.granted && !self.seen.is_stale()
    }

    /// Reads the rules again, with the mode and what was granted by now. What a file forbade that can't be read just now stays
    /// forbidden: who makes it unreadable, or is half-way through writing it, takes nothing back. Reads files, so it may block.
    pub(crate) fn renewed(&self, mode: Option<&str>, granted: &Granted) -> Self {
        let asked = mode.map_or(self.asked, |mode| serde_json::from_value(mode.into()).unwrap_or_default());
        let mut renewed =
            Self { omitted: self.omitted, ..Self::read(asked, self.files.clone(), granted, &self.problems) };
        // One of the files can't be read.
        if renewed.problems.iter().any(|problem| problem.skipped) {
            let forbids = |placed: &&Placed| match placed.rule.behavior() {
                Behavior::Deny | Behavior::Ask => placed.source != Source::Session,
                Behavior::Allow => false,
            };
            renewed.rules.rules.extend(self.rules.rules.iter().filter(forbids).cloned());
            if self.mode != self.asked {
                renewed.mode = renewed.mode.without_bypass();
            }
        }
        renewed
    }

    /// Whether a text is a rule that the session could have.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn check(&self, rule: &str, behavior: Behavior) -> Result<(), BadRule> {
        self.files.rule(rule, behavior, Source::Session).map(drop)
    }

    /// The root of the repository in which the agent works.
    pub(crate) fn root(&self) -> String {
        self.files.root().display().to_string()
    }

    /// What would become of a call; `None` of a tool that there is not.
    pub(crate) fn decide(&self, tool: &str, input: &Value, cwd: &Path) -> Option<Decision> {
        let known = tool::builtin().into_iter().find(|one| alias::same(&one.spec().name, tool));
        let access = match known {
            Some(known) => known.access(input),
            // What a server's tool does nobody here knows.
            None if pool::is_mcp(tool) => Access::Runs,
            None => return None,
        };
        Some(self.of(&Call { tool, input: &self.resolved(tool, input), access, cwd }))
    }

    /// The rules, in the order in which they are looked through.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &Placed> {
        self.rules.rules.iter()
    }

    fn of(&self, call: &Call<'_>) -> Decision {
        permission::decide(self.mode, &self.rules, call)
    }

    /// What becomes of a call.
    pub(super) fn judge(&self, ask: &Ask) -> Verdict {
        let input = self.resolved(&ask.tool, &ask.input);
        let Decision { behavior, reason, rule, .. } = self.of(&call(ask, &input));
        match behavior {
            Behavior::Allow => Verdict::Allowed,
            Behavior::Deny => Verdict::Denied(format!("This call is not permitted: {reason}")),
            Behavior::Ask => Verdict::Asks { reason, by_rule: rule.is_some() },
        }
    }

    /// The rules that would let a call through the next time; none where no rule could say just this call.
    pub(super) fn suggest(&self, ask: &Ask) -> Vec<Box<str>> {
        let rules = permission::suggest(&call(ask, &self.resolved(&ask.tool, &ask.input)));
        let right = |text: &String| self.files.rule(text, Behavior::Allow, Source::Session).is_ok();
        let bytes: usize = rules.iter().map(String::len).sum();
        if bytes > RULES_MOST || !rules.iter().all(right) {
            return Vec::new();
        }
        rules.into_iter().map(Into::into).collect()
    }

    /// An input as rules see it: a spawn without a type is one of the type that it gets (C6).
    fn resolved<'a>(&self, tool: &str, input: &'a Value) -> Cow<'a, Value> {
        let omitted = tool == "Agent" && input.is_object() && input["subagent_type"].is_null();
        if !omitted {
            return Cow::Borrowed(input);
        }
        let Omitted { waited_for, background } = self.omitted;
        let mut input = input.clone();
        input["subagent_type"] =
            if input["run_in_background"] == true { background } else { waited_for }.into();
        Cow::Owned(input)
    }
}

/// What a rule does, in the words of the rules.
pub(crate) const fn as_rule(behavior: PermissionBehavior) -> Behavior {
    match behavior {
        PermissionBehavior::Allow => Behavior::Allow,
        PermissionBehavior::Ask => Behavior::Ask,
        PermissionBehavior::Deny => Behavior::Deny,
    }
}

fn call<'a>(ask: &'a Ask, input: &'a Value) -> Call<'a> {
    Call { tool: &ask.tool, input, access: ask.access, cwd: &ask.cwd }
}
