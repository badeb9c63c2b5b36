//! Hooks around what an agent does: they are asked in its name, and what they say beside it stands in its output.

use ccagent_llm::hook::{Said, Watch, Word};
use ccagent_llm::host::Permission;
use ccagent_llm::quote;
use ccagent_llm::tool::{Ask, Outcome};
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

    /// What hooks say in a person's place; `None` where they leave it to one.
    pub(super) async fn hooks_permit(&self, ask: &Ask) -> Option<Permission> {
        let watch = self.watch_of_now().await?;
        let said = self.told_by_hooks(watch.permission(&ask.tool, &ask.input).await);
        match said.word {
            Word::Allow => Some(said.input.map_or(Permission::Allowed, Permission::Changed)),
            Word::Deny(why) => Some(Permission::Denied(format!(
                "A hook denied this call: {}. {}({}) was not run.",
                quote::plain(&why),
                ask.tool,
                ask.summary
            ))),
            Word::Nothing | Word::Ask(_) => None,
        }
    }

    fn told_by_hooks(&self, said: Said) -> Said {
        for note in &said.notes {
            self.output.say(&format!("! {}\n", shown::line(note)));
        }
        said
    }
}
