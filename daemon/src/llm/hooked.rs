//! Hooks around what an agent does: they are asked in its name, and what they say beside it stands in its output.

use ccagent_core::{Caller, Who};
use ccagent_llm::hook::{Rule, Said, Watch, Word};
use ccagent_llm::host::Permission;
use ccagent_llm::permission::Behavior;
use ccagent_llm::quote;
use ccagent_llm::tool::{Ask, Outcome};
use ccagent_proto::method::PermissionAddRule;
use ccagent_proto::permission::{PermissionAddRuleParams, PermissionBehavior, PermissionDestination};
use ccagent_proto::shown;

use super::desk::Desk;

impl Desk {
    /// Its hooks, which are told the mode that it has by now.
    async fn watch_of_now(&self) -> Option<Watch> {
        let watch = self.watch.as_ref()?;
        Some(match self.setting().await {
            Some(setting) => watch.in_mode(setting.mode),
            None => watch.clone(),
        })
    }

    pub(super) async fn hooks_before(&self, ask: &Ask, id: &str) -> Said {
        let Some(watch) = self.watch_of_now().await else { return Said::default() };
        self.told_by_hooks(watch.before(&ask.tool, &ask.input, id).await)
    }

    pub(super) async fn hooks_after(&self, ask: &Ask, id: &str, outcome: &Outcome) -> Said {
        let Some(watch) = self.watch_of_now().await else { return Said::default() };
        self.told_by_hooks(watch.after(&ask.tool, &ask.input, id, outcome).await)
    }

    pub(super) async fn hooks_ending(&self, text: Option<&str>, again: u32) -> Said {
        let Some(watch) = self.watch_of_now().await else { return Said::default() };
        self.told_by_hooks(watch.stop(text, again).await)
    }

    /// What the model is told by the hooks that hear of its beginning.
    pub(super) async fn hooks_start(&self) -> Vec<String> {
        let Some(watch) = self.watch_of_now().await else { return Vec::new() };
        self.told_by_hooks(watch.start().await).context
    }

    /// What hooks say in a person's place; `None` where they leave it to one. Where a rule wants a person asked, no word of
    /// theirs lets anything through, and so none gives rules.
    pub(super) async fn hooks_permit(&self, ask: &Ask, by_rule: bool) -> Option<Permission> {
        let watch = self.watch_of_now().await?;
        let said = self.told_by_hooks(watch.permission(&ask.tool, &ask.input).await);
        let denied = |why: &str| {
            let (tool, summary) = (&ask.tool, &ask.summary);
            format!("A hook denied this call: {}. {tool}({summary}) was not run.", quote::plain(why))
        };
        match (said.word, said.halt) {
            (Word::Deny(why), Some(halt)) => Some(Permission::Halted(denied(&why), halt)),
            (_, Some(halt)) => Some(Permission::Halted(denied(&halt), halt)),
            (Word::Deny(why), None) => Some(Permission::Denied(denied(&why))),
            (Word::Allow, None) => {
                if !by_rule {
                    self.take_rules(said.rules).await;
                }
                Some(said.input.map_or(Permission::Allowed, Permission::Changed))
            }
            (Word::Nothing | Word::Ask(_), None) => None,
        }
    }

    /// Gives the session the rules that hooks gave: they are programs of its person, or trusted by that.
    async fn take_rules(&self, rules: Vec<Rule>) {
        for Rule { text, behavior } in rules {
            let given = self.take_rule(&text, behavior).await;
            let note = match given {
                Ok(()) => format!("a hook gave the session a rule: {} {text}", behavior.as_str()),
                Err(why) => format!("a hook's rule {text:?} is passed over: {why}"),
            };
            self.output.say(&format!("! {}\n", shown::line(&note)));
        }
    }

    async fn take_rule(&self, rule: &str, behavior: Behavior) -> Result<(), String> {
        self.judge().check(rule, behavior).map_err(|bad| bad.to_string())?;
        let caller = Caller { who: Who::Operator, ..self.caller.clone() };
        let params = PermissionAddRuleParams {
            rule: rule.to_owned(),
            behavior: match behavior {
                Behavior::Allow => PermissionBehavior::Allow,
                Behavior::Ask => PermissionBehavior::Ask,
                Behavior::Deny => PermissionBehavior::Deny,
            },
            destination: PermissionDestination::Session,
            session_id: self.caller.session.clone(),
            cwd: None,
        };
        let given = self.handle.call::<PermissionAddRule>(caller, params).await;
        given.map(drop).map_err(|error| error.to_string())
    }

    fn told_by_hooks(&self, said: Said) -> Said {
        for note in &said.notes {
            self.output.say(&format!("! {}\n", shown::line(note)));
        }
        said
    }
}
