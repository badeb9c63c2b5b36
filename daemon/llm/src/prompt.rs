//! System prompts: which text an agent's model reads first, layer by layer.
//!
//! ```text
//! override │ coordinator │ agent │ custom │ default      one of them
//!   + suffix, team                                       the same for every agent of a type: cached
//!   + instructions, memory, environment, context         what differs
//!   + append                                             last
//! ```
//!
//! What stays the same stands first, since a provider's cache holds up to the first difference. Deliberately not here:
//! the words of tools, and a fork's prompt, which is its parent's (FK-05); its directive is in [`fork`].

use std::path::Path;

use serde::Serialize;

use crate::definition::Definition;
use crate::flags::Flags;

pub mod agents;
pub mod directory;
pub mod fork;
pub mod instructions;
pub mod memory;

/// The prompt of an agent that nobody gave one.
pub const DEFAULT: &str = include_str!("prompt/default.md");
/// What a coordinator is told (PR-10).
pub const COORDINATOR: &str = include_str!("prompt/coordinator.md");
/// When to make a team, and how to lead it (PR-12); for the tools that do it.
pub const TEAM_GUIDANCE: &str = include_str!("prompt/team-guidance.md");
/// When to fork (PR-13); for the Agent tool.
pub const FORK_GUIDANCE: &str = include_str!("prompt/fork-guidance.md");
/// When to spawn an agent (SP-37); for the Agent tool.
pub const AGENT_GUIDANCE: &str = include_str!("prompt/agent-guidance.md");
/// What a teammate is told (PR-11).
const TEAMMATE: &str = include_str!("prompt/teammate.md");

/// A layer of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Layer {
    /// What it is.
    pub name: &'static str,
    /// Its text.
    pub text: String,
}

/// A prompt, in its layers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Prompt {
    /// First what is the same for every agent of a type, then what differs.
    pub layers: Vec<Layer>,
    /// How many of them are the same.
    #[serde(skip)]
    pub same: usize,
}

/// The texts of which one becomes the base.
#[derive(Clone, Copy, Debug, Default)]
pub struct Base<'a> {
    /// It replaces everything (PR-02).
    pub overriding: Option<&'a str>,
    /// A coordinator's.
    pub coordinator: Option<&'a str>,
    /// An agent's.
    pub agent: Option<&'a str>,
    /// A person's own.
    pub custom: Option<&'a str>,
    /// What there is else.
    pub default: &'a str,
    /// What stands behind all (PR-04).
    pub append: Option<&'a str>,
    /// An agent's text does not replace the default one, it follows it (PR-03).
    pub proactive: bool,
}

/// What stands behind the base.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extras<'a> {
    /// The definition's suffix (PR-08).
    pub suffix: Option<&'a str>,
    /// The team that it is in (PR-11).
    pub team: Option<Team<'a>>,
    /// What the user's and the project's files say.
    pub instructions: Option<&'a str>,
    /// What it remembers (AD-26).
    pub memory: Option<&'a str>,
    /// Where it works and with what (PR-05).
    pub environment: Option<&'a Environment<'a>>,
    /// What is in the directory (CX-02).
    pub directory: Option<&'a str>,
    /// The state of the repository (CX-02).
    pub git_status: Option<&'a str>,
}

/// A team, as its member sees it.
#[derive(Clone, Copy, Debug)]
pub struct Team<'a> {
    /// The member's name.
    pub name: &'a str,
    /// The team's.
    pub team: &'a str,
    /// The lead's.
    pub lead: &'a str,
}

/// Where an agent works, and with what.
#[derive(Clone, Copy, Debug)]
pub struct Environment<'a> {
    /// Where relative paths begin.
    pub cwd: &'a Path,
    /// The root of the repository that this is in.
    pub repository: Option<&'a Path>,
    /// The system and its version.
    pub platform: &'a str,
    /// The shell of its commands.
    pub shell: Option<&'a str>,
    /// Today's date.
    pub date: &'a str,
    /// Its model.
    pub model: &'a str,
    /// What it may call.
    pub tools: &'a [String],
}

impl Prompt {
    /// The prompt of an agent (PR-01 … PR-05, PR-08, PR-11).
    pub fn of(base: &Base<'_>, extras: &Extras<'_>) -> Self {
        let mut prompt = Self::default();
        if let Some(text) = base.overriding {
            prompt.push("override", Some(text));
            prompt.same = prompt.layers.len();
            return prompt;
        }
        match (base.coordinator, base.agent, base.custom) {
            (Some(text), _, _) => prompt.push("coordinator", Some(text)),
            (None, Some(agent), _) => {
                prompt.push("default", base.proactive.then_some(base.default));
                prompt.push("agent", Some(agent));
            }
            (None, None, Some(custom)) => prompt.push("custom", Some(custom)),
            (None, None, None) => prompt.push("default", Some(base.default)),
        }
        prompt.push("suffix", extras.suffix);
        prompt.same = prompt.layers.len();
        prompt.push("team", extras.team.map(Team::text).as_deref());
        prompt.push("instructions", extras.instructions);
        prompt.push("memory", extras.memory);
        prompt.push("environment", extras.environment.map(Environment::text).as_deref());
        prompt.push("directory", extras.directory);
        prompt.push("gitStatus", extras.git_status);
        prompt.push("append", base.append);
        prompt
    }

    /// The whole text.
    pub fn text(&self) -> String {
        join(&self.layers)
    }

    /// The text in the parts of a request: what is the same for every agent of a type, and what differs.
    pub fn parts(&self) -> Vec<String> {
        let (same, differs) = self.layers.split_at(self.same);
        [same, differs].into_iter().filter(|layers| !layers.is_empty()).map(join).collect()
    }

    fn push(&mut self, name: &'static str, text: Option<&str>) {
        if let Some(text) = text.map(str::trim).filter(|text| !text.is_empty()) {
            self.layers.push(Layer { name, text: text.to_owned() });
        }
    }
}

/// The base of an agent of the executor: the configuration's, else the definition's, else the parent's (PR-06).
pub fn of_executor<'a>(config: Option<&'a str>, definition: Option<&'a str>, parent: &'a str) -> &'a str {
    [config, definition].into_iter().flatten().find(|text| !text.trim().is_empty()).unwrap_or(parent)
}

/// Whether an agent reads the instructions of user and project (AD-25).
pub fn has_instructions(definition: &Definition, flags: &Flags) -> bool {
    !(flags.slim_instructions && definition.is_read_only())
}

fn join(layers: &[Layer]) -> String {
    let texts: Vec<&str> = layers.iter().map(|layer| layer.text.as_str()).collect();
    texts.join("\n\n")
}

impl Team<'_> {
    fn text(self) -> String {
        TEAMMATE.replace("{{name}}", self.name).replace("{{team}}", self.team).replace("{{lead}}", self.lead)
    }
}

impl Environment<'_> {
    fn text(&self) -> String {
        let repository = self.repository.map_or_else(|| "none".to_owned(), |root| root.display().to_string());
        let lines = [
            ("Working directory", self.cwd.display().to_string()),
            ("Git repository", repository),
            ("Platform", self.platform.to_owned()),
            ("Shell", self.shell.unwrap_or("none").to_owned()),
            ("Date", self.date.to_owned()),
            ("Model", self.model.to_owned()),
            ("Tools", self.tools.join(", ")),
        ];
        let lines: Vec<String> = lines.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        format!("<env>\n{}\n</env>\nGive absolute paths in what you report.", lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(prompt: &Prompt) -> Vec<&str> {
        prompt.layers.iter().map(|layer| layer.name).collect()
    }

    /// PR-01, PR-02, PR-04: over all 32 combinations, one base wins, and append is last unless everything is replaced.
    #[test]
    fn one_base_wins_and_append_is_last() {
        for bits in 0..32 {
            let some = |bit: u32, text| (bits & (1 << bit) > 0).then_some(text);
            let base = Base {
                overriding: some(0, "override"),
                coordinator: some(1, "coordinator"),
                agent: some(2, "agent"),
                custom: some(3, "custom"),
                default: "default",
                append: some(4, "append"),
                proactive: false,
            };
            let all = [base.overriding, base.coordinator, base.agent, base.custom, Some(base.default)];
            let mut want: Vec<_> = all.into_iter().flatten().take(1).collect();
            want.extend(base.append.filter(|_| base.overriding.is_none()));
            let prompt = Prompt::of(&base, &Extras::default());
            assert_eq!(prompt.text(), want.join("\n\n"));
            assert_eq!(names(&prompt), want);
        }
    }

    /// PR-03: an agent that acts by itself keeps the default text.
    #[test]
    fn a_proactive_agents_text_follows_the_default() {
        let base = Base { agent: Some("agent"), default: "default", proactive: true, ..Base::default() };
        assert_eq!(Prompt::of(&base, &Extras::default()).text(), "default\n\nagent");
    }

    /// PR-05, PR-07, PR-08, PR-11: the layers of an agent, first those that are the same for its type.
    #[test]
    fn an_agents_prompt_begins_with_what_is_the_same_for_its_type() {
        let tools = ["Read".to_owned(), "Grep".to_owned()];
        let of = |cwd: &str, name| {
            let environment = Environment {
                cwd: Path::new(cwd),
                repository: None,
                platform: "linux 6",
                shell: Some("bash"),
                date: "2026-01-02",
                model: "model-1",
                tools: &tools,
            };
            let extras = Extras {
                suffix: Some("suffix"),
                team: Some(Team { name, team: "crew", lead: "boss" }),
                instructions: Some("instructions"),
                memory: Some("memory"),
                environment: Some(&environment),
                directory: Some("directory"),
                git_status: Some("status"),
            };
            Prompt::of(&Base { agent: Some("agent"), append: Some("append"), ..Base::default() }, &extras)
        };
        let (one, two) = (of("/a", "ann"), of("/b", "bob"));
        assert_eq!(
            names(&one),
            [
                "agent",
                "suffix",
                "team",
                "instructions",
                "memory",
                "environment",
                "directory",
                "gitStatus",
                "append"
            ]
        );
        assert_eq!((one.parts().len(), &one.parts()[0]), (2, &two.parts()[0]));
        assert_ne!(one.parts()[1], two.parts()[1]);
        assert_eq!(one.parts().join("\n\n"), one.text());
        for says in
            ["/a", "Read, Grep", "model-1", "linux 6", "2026-01-02", "ann", "crew", "boss", "SendMessage"]
        {
            assert!(one.text().contains(says), "{says}");
        }
        assert!(!one.text().contains("{{"));
    }

    /// PR-06
    #[test]
    fn the_executor_takes_config_then_definition_then_parent() {
        assert_eq!(of_executor(Some("c"), Some("d"), "p"), "c");
        assert_eq!(of_executor(None, Some("d"), "p"), "d");
        assert_eq!(of_executor(Some(" "), None, "p"), "p");
    }

    /// AD-25, FF-07: who only reads does without instructions, under the flag.
    #[test]
    fn readers_do_without_instructions_under_the_flag() {
        let reader = Definition { tools: Some(vec!["Read".into()]), ..Definition::default() };
        assert!(!has_instructions(&reader, &Flags::default()));
        assert!(has_instructions(&reader, &Flags { slim_instructions: false, ..Flags::default() }));
        assert!(has_instructions(&Definition::default(), &Flags::default()));
    }

    /// PR-10, PR-12, PR-13, SP-37, CO-03: each text speaks of what it has to.
    #[test]
    fn the_texts_speak_of_their_topics() {
        for (text, topics) in [
            (
                COORDINATOR,
                &[
                    "`worker`",
                    "parallel",
                    "nothing of this conversation",
                    "synthesise",
                    "SendMessage",
                    "TaskStop",
                ][..],
            ),
            (TEAM_GUIDANCE, &["asks for", "unsure", "TeamCreate", "TeamDelete", "idle", "7."][..]),
            (FORK_GUIDANCE, &["again", "not how big", "parallel", "implement"][..]),
            (AGENT_GUIDANCE, &["parallel", "sources", "single", "one after the other"][..]),
            (TEAMMATE, &["SendMessage", "sparingly", "lead", "task"][..]),
        ] {
            for topic in topics {
                assert!(text.contains(topic), "{topic:?} in {text}");
            }
        }
    }
}
