//! What programs of others do for one run: its hooks hear of it, its MCP servers work for it, and both end with it.

use std::path::{Path, PathBuf};

use ccagent_core::effect::Start;
use ccagent_core::task::Brief;
use ccagent_llm::agent::{Halt, Toolbox};
use ccagent_llm::hook::{self, Event, Watch, Who};
use ccagent_llm::mcp::{self, Connected, Server, Shared};
use ccagent_llm::quote;
use ccagent_proto::{TaskId, shown};

use super::desk::Desk;
use super::outside::AtRun;
use super::run::HISTORY;
use super::setup::Looked;
use super::toolbox;

/// What a run has of others.
#[derive(Debug)]
pub(super) struct Company {
    /// The hooks that are asked about what it does.
    pub(super) watch: Option<Watch>,
    servers: Vec<Server>,
    means: mcp::Means,
    user: mcp::User,
    notes: Vec<String>,
}

impl Company {
    /// What there is; nothing is started.
    pub(super) fn of(
        looked: &Looked,
        (brief, cwd): (&Brief, &str),
        (start, circle): (&Start, TaskId),
        shim: &Path,
    ) -> Self {
        let user = mcp::User { task: start.task.to_string(), circle: circle.to_string() };
        let AtRun { hooks, servers, root, notes } = looked.outside.clone();
        let (shim, cwd, env) = (shim.to_owned(), PathBuf::from(cwd), looked.programs.clone());
        let (temp, writable) = (looked.temp.clone(), looked.writable.clone());
        let means =
            mcp::Means { shim: shim.clone(), env: env.clone(), cwd: cwd.clone(), writable: writable.clone() };
        let of_hooks = hook::Means { shim, env, cwd, root, temp, writable };
        let watch = (!hooks.hooks.is_empty()).then(|| Watch::new(hooks, who(start, brief), of_hooks));
        Self { watch, servers, means, user, notes }
    }

    /// Connects to the servers, unless the run is stopped meanwhile, and tells the hooks that it begins. Gives what is said
    /// to the model beside its prompt: what it has to do without, what it can find, and what hooks say.
    pub(super) async fn join(
        self,
        shared: &Shared,
        desk: &Desk,
        halt: &Halt,
    ) -> (Connected, Toolbox, Vec<String>) {
        let connecting = mcp::connect(&self.servers, &self.means, (shared, &self.user));
        let mut servers = halt.graceful.run_until_cancelled(connecting).await.unwrap_or_default();
        let offers = std::mem::take(&mut servers.offers);
        let (toolbox, unlisted) = toolbox::of(&desk.means.brief, &desk.means.known, &offers);
        *desk.offers.lock().await = offers;
        let notes: Vec<String> = self.notes.into_iter().chain(std::mem::take(&mut servers.notes)).collect();
        for note in &notes {
            desk.output.say(&format!("! {}\n", shown::line(note)));
        }
        let heard = halt.graceful.run_until_cancelled(desk.hooks_start()).await.unwrap_or_default();
        let mut asides: Vec<String> =
            heard.iter().map(|text| hook::quoted(Event::SubagentStart, text)).collect();
        if !notes.is_empty() {
            let notes = quote::plain(&notes.join("\n"));
            asides.push(format!("<system-reminder>\n{notes}\n</system-reminder>"));
        }
        asides.extend(unlisted);
        (servers, toolbox, asides)
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
