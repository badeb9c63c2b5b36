//! What an agent inside the daemon asks of the rest of it, done in its own name: other agents, messages, its tasks.
//!
//! ```text
//! Agent ─▶ spawn, by the path of every spawn ─┬─ waited for ─▶ its text; the notice is acknowledged with the result
//!                                             └─ else ─▶ its id; its end comes as a notice
//! ```
//!
//! Who may do what the core's rules say, as for every caller. What another agent or a program said is data: it can't look
//! like what the daemon itself tells an agent. Deliberately not here: what a child is (`brief`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use ccagent_core::task::Brief;
use ccagent_core::{Caller, bounds};
use ccagent_llm::host::{Background, Child, Errand, Wait};
use ccagent_llm::permission::Mode;
use ccagent_llm::tool::Outcome;
use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::message::{Content, MessageSendParams};
use ccagent_proto::method::{AgentSpawn, MessageSend, TaskGet, TaskList, TaskResume, TaskStop};
use ccagent_proto::task::{
    Task, TaskGetParams, TaskListParams, TaskResumeParams, TaskStatus, TaskStopParams,
};
use ccagent_proto::{Error, Kind, TaskId};

use super::Known;
use super::brief::{self, By};
use super::desk::{Desk, END};
use super::ending;
use super::fork::{self, Ancestor};
use super::lead::Within;
use crate::hub::Key;
use crate::vault::Vault;

/// All members of a team, as an address.
const ALL: &str = "*";
/// How long a stop is waited for: its grace, and what a kill takes.
const STOP: Duration = Duration::from_secs(30);

/// What an agent hands on to those that it spawns.
pub(super) struct Means {
    pub(super) vault: Arc<Vault>,
    /// What its process would have begun with.
    pub(super) base: Arc<BTreeMap<String, String>>,
    /// The values that it was given.
    pub(super) given: BTreeMap<String, String>,
    /// Those of them that a program of its gets.
    pub(super) for_programs: BTreeMap<String, String>,
    /// The file of its conversation.
    pub(super) history: PathBuf,
    /// What it is itself.
    pub(super) brief: Arc<Brief>,
    /// What its children are made with.
    pub(super) known: Arc<Known>,
}

/// There are secrets among the values.
impl std::fmt::Debug for Means {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Means").field("brief", &self.brief.definition).finish_non_exhaustive()
    }
}

impl Desk {
    /// Does an errand; what went wrong is for the model to read.
    pub(super) async fn run(&self, errand: Errand) -> Outcome {
        let done = match errand {
            Errand::Spawn(child) => self.spawn(*child).await,
            Errand::Send { to, message, summary } => self.send(to, message, summary).await,
            Errand::Look { task, wait } => self.look(&task, wait).await,
            Errand::Stop { task } => self.stop(&task).await,
            Errand::Question { call, questions } => self.question(call, questions).await,
            Errand::BeginPlan => self.begin_plan().await,
            Errand::Plan { call, plan } => self.hand_in(call, &plan).await,
            Errand::Tasklist(wish) => self.tasklist(wish).await,
            Errand::MakeTeam { name, description } => self.make_team(name, description).await,
            Errand::DropTeam => self.drop_team().await,
        };
        done.unwrap_or_else(|error| Outcome::error(sentence(&error)))
    }

    /// Makes a command a task of its own, and gives its id.
    pub(super) async fn command(&self, command: Background) -> Result<String, String> {
        let params = AgentSpawnParams {
            command: Some(["/bin/bash", "-c", &command.command].map(str::to_owned).to_vec()),
            description: command.description.or(Some(command.command)),
            cwd: Some(command.cwd.display().to_string()),
            run_in_background: Some(true),
            env: values(&self.means.for_programs),
            ..AgentSpawnParams::default()
        };
        let made = self.call_with_values(params).await;
        made.map(|task| task.id.to_string()).map_err(|error| sentence(&error))
    }

    async fn spawn(&self, child: Child) -> Result<Outcome, Error> {
        let wait = child.wait;
        let mut params = AgentSpawnParams {
            prompt: Some(child.prompt),
            description: Some(child.description),
            subagent_type: child.agent_type,
            model: child.model,
            name: child.name,
            team_name: child.team,
            isolation: child.isolation,
            cwd: Some(child.cwd.display().to_string()),
            run_in_background: Some(wait == Wait::No),
            env: values(&self.means.given),
            ..AgentSpawnParams::default()
        };
        if let Some(id) = child.resume {
            let task = self.own(&id).await?;
            self.may_go_on(&task).await?;
            params.resume_agent_id = Some(task.id);
            params.cwd = None;
        }
        let task = self.call_with_values(params).await?;
        if task.is_backgrounded {
            return Ok(Outcome::ok(ending::launched(&task)));
        }
        let wait = self.until(task.id, |task| task.status.is_done() || task.is_backgrounded);
        let task = self.below(wait).await?;
        Ok(if task.status.is_done() {
            let is_error = task.status != TaskStatus::Completed;
            Outcome { is_error, ..self.told(&task, ending::of_agent(&task)) }
        } else {
            Outcome::ok(ending::launched(&task))
        })
    }

    /// Spawns with values that only the vault keeps.
    async fn call_with_values(&self, mut params: AgentSpawnParams) -> Result<Task, Error> {
        bounds::spawn(&params)?;
        let caller = Caller { base: self.means.base.clone(), ..self.caller.clone() };
        let mut caller = self.means.vault.keep(caller, params.env.as_mut())?;
        let vault = caller.vault;
        let made = async {
            if params.command.is_none() && params.resume_agent_id.is_none() {
                caller.brief = Some(Arc::new(self.brief_of(&params).await?));
            }
            let brief = caller.brief.clone();
            let made = self.handle.call::<AgentSpawn>(caller, params).await?;
            fork::keep(brief.as_deref(), &made.task).await;
            Ok(made)
        };
        let made = made.await;
        if let (Err(_), Some(vault)) = (&made, vault) {
            self.means.vault.forget(vault);
        }
        Ok(made?.task)
    }

    async fn brief_of(&self, params: &AgentSpawnParams) -> Result<Brief, Error> {
        let Means { base, given, .. } = &self.means;
        let mut env = (**base).clone();
        env.extend(given.clone());
        let gone = || Error::new(Kind::TaskNotFound, "the task of this agent is gone");
        let setting = self.setting().await.ok_or_else(gone)?;
        let mode: Mode = serde_json::from_value(setting.mode.as_str().into()).unwrap_or_default();
        let own = fork::as_set(&self.means.brief, &setting);
        let history = self.means.history.clone();
        let (within, known) = (Within::around(&setting), self.means.known.clone());
        let Brief { effort, max_turns, .. } = &*self.means.brief;
        let by = By::Agent { model: setting.model, mode, effort: effort.clone(), max_turns: *max_turns };
        let ancestor = if fork::may_be(params, &within, &by, known.flags) {
            Ancestor::read(self.task, own, history).await?
        } else {
            None
        };
        let (cwd, env) = (self.caller.cwd.clone(), brief::environment(env));
        let by = brief::Caller { cwd, env, by, ancestor, within };
        let params = params.clone();
        let worked = tokio::task::spawn_blocking(move || brief::of(&params, &by, &known)).await;
        Ok(worked.map_err(|_| Error::new(Kind::Internal, "reading a file failed half-way"))??.brief)
    }

    async fn send(&self, to: String, message: String, summary: Option<String>) -> Result<Outcome, Error> {
        self.may_tell(&to).await?;
        let params = MessageSendParams {
            to: to.clone(),
            message: Content::Text(message.clone()),
            summary,
            ..MessageSendParams::default()
        };
        match self.handle.call::<MessageSend>(self.caller.clone(), params).await {
            Ok(sent) => {
                let names: Vec<String> = sent.delivered.into_iter().map(|one| one.to).collect();
                Ok(Outcome::ok(format!("It is in the mailbox of {}.", names.join(", "))))
            }
            Err(error) if error.kind == Kind::RecipientUnknown => self.wake(&to, message, error).await,
            Err(error) => Err(error),
        }
    }

    /// Refuses a message that has an agent of its own, which is at work, do what it may not do itself.
    async fn may_tell(&self, to: &str) -> Result<(), Error> {
        if self.mode().await != Some(Mode::Plan) {
            return Ok(());
        }
        let own =
            if to == ALL { self.own_members().await? } else { self.own(to).await.into_iter().collect() };
        // One that ended is refused when it would go on; others work in their own name.
        for task in own.iter().filter(|task| !task.status.is_done()) {
            self.may_go_on(task).await?;
        }
        Ok(())
    }

    /// The members of its team that it began itself, and that are at work.
    async fn own_members(&self) -> Result<Vec<Task>, Error> {
        let (mut members, mut cursor) = (Vec::new(), None);
        loop {
            let params = TaskListParams {
                parent_id: Some(self.task.to_string()),
                cursor,
                ..TaskListParams::default()
            };
            let page = self.handle.call::<TaskList>(self.caller.clone(), params).await?;
            members.extend(page.tasks.into_iter().filter(|task| task.team_name.is_some()));
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(members);
            }
        }
    }

    /// An agent of its own that ended goes on with a message (RT-11); one that was stopped stays stopped.
    async fn wake(&self, to: &str, message: String, unknown: Error) -> Result<Outcome, Error> {
        let Ok(task) = self.own(to).await else { return Err(unknown) };
        if task.status == TaskStatus::Killed {
            let why = format!(
                "{to} was stopped, and does not go on by a message: Agent with resume takes it up again"
            );
            return Ok(Outcome::error(why));
        }
        if task.prompt.is_none() && task.command.is_some() {
            return Err(unknown);
        }
        self.may_go_on(&task).await?;
        let mut params = TaskResumeParams {
            task_id: task.id.to_string(),
            prompt: Some(message),
            run_in_background: Some(true),
            env: values(&self.means.given),
            ..TaskResumeParams::default()
        };
        let caller = self.means.vault.keep(self.caller.clone(), params.env.as_mut())?;
        let vault = caller.vault;
        let resumed = self.handle.call::<TaskResume>(caller, params).await;
        if let (Err(_), Some(vault)) = (&resumed, vault) {
            self.means.vault.forget(vault);
        }
        let task = resumed?.task;
        Ok(Outcome::ok(format!("{to} had ended, and goes on with it. {}", ending::launched(&task))))
    }

    async fn look(&self, id: &str, wait: Wait) -> Result<Outcome, Error> {
        let mut task = self.own(id).await?;
        let ends = self.until(task.id, |task| task.status.is_done());
        let ended = match wait {
            Wait::No => None,
            Wait::Most(most) => self.below(tokio::time::timeout(most, ends)).await.ok(),
            Wait::ToTheEnd => Some(self.below(ends).await),
        };
        if let Some(ended) = ended {
            task = ended?;
        }
        let output = output(&task).await?;
        let text = ending::look(&task, &output);
        Ok(if task.status.is_done() { self.told(&task, text) } else { Outcome::ok(text) })
    }

    async fn stop(&self, id: &str) -> Result<Outcome, Error> {
        let task = self.own(id).await?;
        let params = TaskStopParams { task_id: task.id.to_string(), ..TaskStopParams::default() };
        self.handle.call::<TaskStop>(self.caller.clone(), params).await?;
        let ends = self.until(task.id, |task| task.status.is_done());
        match self.below(tokio::time::timeout(STOP, ends)).await {
            Ok(task) => {
                let task = task?;
                Ok(self.told(&task, ending::stopped(&task)))
            }
            Err(_) => {
                Ok(Outcome::error(format!("{} is being stopped; you are told when it has ended.", task.id)))
            }
        }
    }

    /// A task that this agent itself began.
    async fn own(&self, id: &str) -> Result<Task, Error> {
        let task = self.task(id.to_owned()).await?;
        if task.parent_id == Some(self.task) {
            return Ok(task);
        }
        let why =
            format!("{id} is no task that you began: only those can be looked at, stopped or taken up again");
        Err(Error::new(Kind::NotAuthorised, why))
    }

    /// A result that tells of an end: its notice is not needed any more once the result stands in the transcript.
    fn told(&self, task: &Task, text: String) -> Outcome {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).insert((task.id, task.attempt));
        Outcome { heard: vec![format!("{END}{}:{}", task.id, task.attempt)], ..Outcome::ok(text) }
    }

    async fn task(&self, task_id: String) -> Result<Task, Error> {
        self.handle.call::<TaskGet>(self.caller.clone(), TaskGetParams { task_id }).await
    }

    /// Looks at a task until it is as wanted.
    async fn until(&self, id: TaskId, wanted: impl Fn(&Task) -> bool) -> Result<Task, Error> {
        let mut watch = self.hub.watch([Key::Task(id)]);
        loop {
            let task = self.task(id.to_string()).await?;
            if wanted(&task) {
                return Ok(task);
            }
            watch.changed().await;
        }
    }
}

/// Values for a call, where there are any.
fn values(values: &BTreeMap<String, String>) -> Option<BTreeMap<String, String>> {
    Some(values.clone()).filter(|values| !values.is_empty())
}

/// The end of a task's output.
async fn output(task: &Task) -> Result<String, Error> {
    let (path, end) = (task.output_file.clone(), task.output_bytes);
    let read = tokio::task::spawn_blocking(move || ending::tail(Path::new(&path), end)).await;
    let failed = |why: String| Error::new(Kind::Internal, format!("its output can't be read: {why}"));
    read.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))
}

/// An error as the model reads it, with the names that would have been right.
fn sentence(error: &Error) -> String {
    let near =
        ["reachable", "near", "matches", "members"].iter().filter_map(|key| error.data.get(*key)?.as_array());
    let names: Vec<&str> = near.flatten().filter_map(|name| name.as_str()).collect();
    if names.is_empty() { error.message.clone() } else { format!("{} ({})", error.message, names.join(", ")) }
}
