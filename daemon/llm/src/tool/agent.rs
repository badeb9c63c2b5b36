//! `Agent`: another agent does a part of the work, and only what it says at its end comes back.
//!
//! It begins with nothing but its prompt: neither sees the other's conversation, but for a fork, which goes on from it.
//! Calls of one answer run beside each other. Deliberately not here: what the other agent is, and how it runs; the host knows that.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Access, Context, Outcome, Spec, Tool, field};
use crate::flags::Flags;
use crate::host::{Child, Errand, Wait};
use crate::prompt::{AGENT_GUIDANCE, FORK_GUIDANCE};

const DESCRIPTION: &str = "
Gives a part of the work to another agent. Unless it is a fork, it starts without your conversation, so its prompt has \
to say all that it needs. You get its last answer, after a line with its id. With run_in_background you get the id at once, and are told \
when it ends. With resume an agent that ended goes on with your prompt, and knows what it did.";

/// Gives a part of the work to another agent.
#[derive(Debug, Default)]
pub struct Agent {
    flags: Flags,
    /// The types that there are, where they are a part of it (AD-24).
    types: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// What it is about, in three to five words.
    description: String,
    /// Its work, with all that it has to know.
    prompt: String,
    /// Its type. Where there is none, it is a fork of you if there can be forks, else general-purpose.
    #[serde(default)]
    subagent_type: Option<String>,
    /// Its model; yours where there is none.
    #[serde(default)]
    model: Option<String>,
    /// Whether you go on at once.
    #[serde(default)]
    run_in_background: Option<bool>,
    /// A name, by which it can be written to.
    #[serde(default)]
    name: Option<String>,
    /// The team that you lead, to make it a member under its name.
    #[serde(default)]
    team_name: Option<String>,
    /// worktree or remote: where it is apart from you.
    #[serde(default)]
    isolation: Option<String>,
    /// Its directory, where the feature KAIROS is on; else it has yours.
    #[serde(default)]
    cwd: Option<String>,
    /// The id of an agent of yours that ended and goes on.
    #[serde(default)]
    resume: Option<String>,
}

impl Agent {
    /// The tool where these features are on, with the types that there are where they are a part of it.
    pub const fn new(flags: Flags, types: Option<String>) -> Self {
        Self { flags, types }
    }

    fn child(&self, context: &Context, input: Input) -> Result<Child, Outcome> {
        if input.prompt.trim().is_empty() {
            return Err(Outcome::error("bad input at prompt: it is empty; say what is to be done"));
        }
        if input.team_name.is_some() && input.name.is_none() {
            return Err(Outcome::error("bad input at name: a member of a team has one; give it a name"));
        }
        let cwd = match &input.cwd {
            None => context.cwd(),
            Some(cwd) if self.flags.kairos => context.path(cwd)?,
            Some(_) => {
                let why = "bad input at cwd: it is taken only where the feature KAIROS is on; leave it out, and say in \
                           the prompt where to work";
                return Err(Outcome::error(why));
            }
        };
        Ok(Child {
            description: input.description,
            prompt: input.prompt,
            agent_type: input.subagent_type,
            model: input.model,
            name: input.name,
            team: input.team_name,
            isolation: input.isolation,
            cwd,
            resume: input.resume,
            wait: if input.run_in_background == Some(true) { Wait::No } else { Wait::ToTheEnd },
        })
    }
}

impl Tool for Agent {
    fn spec(&self) -> Arc<Spec> {
        let forks = if self.flags.fork_subagent { FORK_GUIDANCE } else { "" };
        let types = self.types.as_ref().map(|types| format!("\n\n{types}")).unwrap_or_default();
        Spec::of::<Input>("Agent", &format!("{DESCRIPTION}\n\n{AGENT_GUIDANCE}\n\n{forks}{types}"))
    }

    fn access(&self, _: &Value) -> Access {
        Access::Talks
    }

    fn summary(&self, input: &Value) -> String {
        field(input, "description")
    }

    fn call<'a>(&'a self, context: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        async move {
            let child = self.child(context, super::read(input)?)?;
            Ok(context.host.errand(Errand::Spawn(Box::new(child))).await)
        }
        .map(super::settle)
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::lab;
    use serde_json::json;
    use std::path::Path;

    /// SP-31, FF-05: the model may say where an agent works only where the feature is on.
    #[test]
    fn a_directory_is_taken_only_with_the_feature() {
        let context = lab::context(Path::new("/start"));
        let input = json!({"description": "d", "prompt": "p", "cwd": "/elsewhere"});
        let child = |flags, input: &Value| {
            let input: Input = super::super::read(input.clone()).unwrap();
            Agent::new(flags, None).child(&context, input)
        };
        let refused = child(Flags::default(), &input).unwrap_err();
        assert!(refused.is_error && refused.text.contains("KAIROS"), "{refused:?}");
        let on = Flags { kairos: true, ..Flags::default() };
        assert_eq!(child(on, &input).unwrap().cwd, Path::new("/elsewhere"));
        let without = json!({"description": "d", "prompt": "p"});
        assert_eq!(child(on, &without).unwrap().cwd, Path::new("/start"));
    }

    /// SP-02, TP-23: a member has the team and a name; a team without a name makes none.
    #[test]
    fn a_member_has_a_name() {
        let context = lab::context(Path::new("/start"));
        let child = |input: Value| Agent::default().child(&context, super::super::read(input).unwrap());
        let team = json!({"description": "d", "prompt": "p", "team_name": "red"});
        let refused = child(team).unwrap_err();
        assert!(refused.text.starts_with("bad input at name"), "{refused:?}");
        let member = json!({"description": "d", "prompt": "p", "team_name": "red", "name": "ann"});
        assert_eq!(child(member).unwrap().team.as_deref(), Some("red"));
    }

    /// SP-37, PR-13: the model reads when another agent helps, and when not; when to fork, where there are forks.
    #[test]
    fn the_description_says_when_an_agent_helps() {
        let forks = |fork_subagent| {
            let spec = Agent::new(Flags { fork_subagent, ..Flags::default() }, None).spec();
            assert!(spec.description.contains(AGENT_GUIDANCE.trim()));
            spec.description.contains(FORK_GUIDANCE.trim())
        };
        assert_eq!((forks(true), forks(false)), (true, false));
    }
}
