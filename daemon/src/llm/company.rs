//! What programs of others do for one run: its hooks hear of it, its MCP servers work for it, and both end with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ccagent_core::effect::Start;
use ccagent_core::task::Brief;
use ccagent_llm::agent::Halt;
use ccagent_llm::hook::{self, Event, Watch, Who};
use ccagent_llm::mcp::{self, Connected, Server};
use ccagent_llm::quote;

use super::Inner;
use super::desk::Desk;
use super::outside::{self, AtRun};
use super::run::{HISTORY, said, temp};

/// What a run has of others.
#[derive(Debug)]
pub(super) struct Company {
    /// The hooks that are asked about what it does.
    pub(super) watch: Option<Watch>,
    servers: Vec<Server>,
    means: mcp::Means,
    notes: Vec<String>,
}

impl Company {
    /// Looks what there is; nothing is started. Reads files, so it blocks elsewhere.
    pub(super) async fn read(
        inner: &Inner,
        start: &Start,
        (brief, cwd): (&Brief, &str),
        programs: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let cwd = PathBuf::from(cwd);
        let (read, files) = (brief.clone(), outside::files(programs, &cwd));
        let trusted = inner.known().trust.current();
        let read = tokio::task::spawn_blocking(move || outside::at_run(&read, &files, &trusted)).await;
        let AtRun { hooks, servers, root, notes } = read.map_err(said)?;
        let (shim, (temp, writable)) = (inner.settings.shim.clone(), temp(start)?);
        let watch = if hooks.hooks.is_empty() {
            None
        } else {
            let (shim, env, cwd, writable) = (shim.clone(), programs.clone(), cwd.clone(), writable.clone());
            let means = hook::Means { shim, env, cwd, root, temp, writable };
            Some(Watch::new(hooks, who(start, brief), means))
        };
        Ok(Self { watch, servers, means: mcp::Means { shim, env: programs.clone(), cwd, writable }, notes })
    }

    /// Connects to the servers, unless the run is stopped meanwhile, and tells the hooks that it begins. Gives what is said
    /// to the model beside its prompt: what it has to do without, and what hooks say.
    pub(super) async fn join(self, desk: &Desk, halt: &Halt) -> (Connected, Vec<String>) {
        let connecting = mcp::connect(&self.servers, &self.means);
        let mut servers = halt.graceful.run_until_cancelled(connecting).await.unwrap_or_default();
        let notes: Vec<String> = self.notes.into_iter().chain(std::mem::take(&mut servers.notes)).collect();
        for note in &notes {
            desk.output.say(&format!("! {note}\n"));
        }
        let heard = halt.graceful.run_until_cancelled(desk.hooks_start()).await.unwrap_or_default();
        let mut asides: Vec<String> =
            heard.iter().map(|text| hook::quoted(Event::SubagentStart, text)).collect();
        if !notes.is_empty() {
            let notes = quote::plain(&notes.join("\n"));
            asides.push(format!("<system-reminder>\n{notes}\n</system-reminder>"));
        }
        (servers, asides)
    }
}

fn who(start: &Start, brief: &Brief) -> Who {
    Who {
        session_id: start.session.to_string(),
        agent_id: start.task.to_string(),
        agent_type: brief.definition.clone(),
        permission_mode: brief.permission_mode.clone(),
        transcript: Path::new(&start.directory).join(HISTORY),
    }
}
