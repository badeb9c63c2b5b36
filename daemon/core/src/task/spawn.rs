//! Spawning: one entry for every kind of agent; the route follows from the params (SP-01).

mod lead;

use std::collections::BTreeMap;
use std::sync::Arc;

use ccagent_proto::agent::{AgentExplainResult, AgentSpawnParams, AgentSpawnResult, SpawnStatus};
use ccagent_proto::event::Topic;
use ccagent_proto::runner::RunnerKind;
use ccagent_proto::task::{Receives, TaskKind};
use ccagent_proto::{Error, Kind, Millis, SessionId, TaskId};
use serde_json::json;
use uuid::Uuid;

use super::overrides::Overrides;
use super::resolve::Found;
use super::{Budget, Launch, Outcome, Row, Spec, State, shape};
use crate::caller::{Caller, Who};
use crate::core::Core;
use crate::cx::Cx;
use crate::effect::Effect;
use crate::record::Record;
use crate::team::check_agent_name;

/// The methods that a spawn's answer points to (SP-19).
const HINT: &str = "read its output with task.output, wait with task.wait, stop it with task.stop";

/// The tool of who makes teams, and that of who keeps a task list.
const TEAM_CREATE: &str = "TeamCreate";
const TASK_UPDATE: &str = "TaskUpdate";

/// A spawn whose params were looked up and found good.
struct Plan {
    session: SessionId,
    parent: Option<TaskId>,
    name: Option<String>,
    team: Option<String>,
    argv: Vec<String>,
    cwd: String,
    env_names: Vec<String>,
    after: Vec<TaskId>,
    waits: Vec<TaskId>,
    doomed: Option<TaskId>,
    route: &'static str,
    reasons: Vec<String>,
    writable: Vec<Box<str>>,
    /// The id that its spawner chose.
    id: Option<TaskId>,
    /// With whose stop it is stopped, where that is not its parent's.
    stopped_with: Option<TaskId>,
}

impl Core {
    pub(crate) fn agent_spawn(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: AgentSpawnParams,
    ) -> Result<AgentSpawnResult, Error> {
        if let Some(id) = params.resume_agent_id {
            return self.resume_by_spawn(cx, caller, id, params);
        }
        shape::has_work(&params)?;
        let plan = self.plan(caller, &params)?;
        if plan.argv.is_empty() && caller.brief.is_none() {
            return Err(super::unbuilt("prompt"));
        }
        if plan.doomed.is_none() {
            self.has_queue_room(&plan.session, &plan.waits)?;
        }

        let id = plan.id.unwrap_or_else(|| TaskId(Uuid::from_u128(cx.ids.id())));
        let doomed = plan.doomed;
        let (row, launch) = self.rows_of(cx, caller, id, plan, params);
        cx.put(Record::Launch(launch));
        self.enlist(cx, &row);
        if !row.backgrounded {
            self.live.foreground.insert(id, caller.conn, cx.now);
        }
        if let Some(vault) = caller.vault {
            self.live.task_vaults.insert(id, vault);
        }
        self.tasks.insert(cx, row);

        self.task_event(cx, id, Topic::Task, "task.spawned", json!({}));
        self.task_event(cx, id, Topic::Sdk, "task_started", json!({ "task_type": "local_agent" }));
        match doomed {
            Some(predecessor) => self.finish(cx, id, self.dependency_failed(predecessor)),
            None => self.start_queued(cx),
        }
        self.spawn_result(cx, id)
    }

    /// How a spawn or resume is answered, as things stand.
    pub(crate) fn spawn_result(&self, cx: &Cx<'_>, id: TaskId) -> Result<AgentSpawnResult, Error> {
        Ok(self.answer_about(self.task(&id.to_string())?, cx.now))
    }

    /// How a spawn or resume of a task is answered.
    pub(crate) fn answer_about(&self, row: &Row, now: Millis) -> AgentSpawnResult {
        let status = match row.state {
            State::Done { outcome: Outcome::Completed, .. } => SpawnStatus::Completed,
            State::Done { outcome: Outcome::Killed, .. } => SpawnStatus::Killed,
            State::Done { outcome: Outcome::Failed | Outcome::Interrupted, .. } => SpawnStatus::Failed,
            State::Queued
            | State::Starting
            | State::Running { .. }
            | State::Leaving { .. }
            | State::Parked { .. } => match row.team() {
                Some(_) => SpawnStatus::TeammateSpawned,
                None => SpawnStatus::AsyncLaunched,
            },
        };
        let task = self.view_row(row, now);
        AgentSpawnResult { status, task_id: row.id, task, text: None, hint: Some(HINT.to_owned()) }
    }

    /// What a spawn would do, as far as the core decides it. What the work says decides nothing of that, so it may be
    /// left out.
    pub(crate) fn agent_explain(
        &self,
        caller: &Caller,
        params: &AgentSpawnParams,
    ) -> Result<AgentExplainResult, Error> {
        let plan = self.plan(caller, params)?;
        let queued = !plan.waits.is_empty() || !self.may_start(&plan.session);
        Ok(AgentExplainResult {
            route: plan.route.to_owned(),
            reasons: plan.reasons,
            runner: runner_of(&plan.argv),
            argv: Some(plan.argv).filter(|argv| !argv.is_empty()),
            cwd: plan.cwd,
            env_names: plan.env_names,
            permission_mode: params.permission_mode.clone().unwrap_or_else(|| "default".to_owned()),
            permission_mode_source: None,
            isolation: "none".to_owned(),
            queued,
            definition: None,
            source: None,
            shadowed: None,
            tools: None,
            prompt: None,
            model: None,
            model_source: None,
            fork: None,
        })
    }

    /// Looks everything up and refuses what can't be.
    fn plan(&self, caller: &Caller, params: &AgentSpawnParams) -> Result<Plan, Error> {
        shape::refuse_unbuilt(params)?;
        let session = self.session_of(caller, params.session_id.as_ref())?;
        let argv = shape::command_of(params)?;
        let Overrides { agent_id, abort_controller, .. } = Overrides::of(params)?;
        agent_id.map_or(Ok(()), |id| self.is_new_id(id))?;
        shape::check_mode(params.permission_mode.as_deref())?;
        self.refuse_below_stop(self.task_of(caller))?;
        self.has_output_room()?;
        let (name, team) = self.names_of(caller, params)?;
        let (after, waits, doomed) =
            self.predecessors(caller, params.after.as_deref().unwrap_or_default())?;
        let (route, reasons) = route_of(params, team.is_some());
        Ok(Plan {
            parent: self.task_of(caller),
            cwd: self.cwd_of(caller, &session, params.cwd.as_deref())?,
            env_names: self.env_names_of(&session, params.env.as_ref())?,
            session,
            name,
            team,
            argv,
            after,
            waits,
            doomed,
            route,
            reasons,
            writable: self.writable_of(caller),
            id: agent_id,
            stopped_with: abort_controller.map(|named| self.stopped_with(caller, &named)).transpose()?,
        })
    }

    /// The name and team of the new agent; a team needs both. A team alone makes no member, but has to be one (SP-02).
    fn names_of(
        &self,
        caller: &Caller,
        params: &AgentSpawnParams,
    ) -> Result<(Option<String>, Option<String>), Error> {
        if let Some(team) = &params.team_name {
            self.team(team)?;
        }
        let Some(name) = params.name.clone() else {
            return Ok((None, None));
        };
        check_agent_name(&name, "name")?;
        // An agent gives no child a person's name: its messages would read as that person's (A17).
        if caller.who != Who::Operator && self.sessions.iter().any(|row| row.name == name) {
            return Err(name_taken(&name));
        }
        let Some(team) = params.team_name.clone() else {
            if self.tasks.named(&name).is_some() {
                return Err(name_taken(&name));
            }
            return Ok((Some(name), None));
        };
        self.may_add_member(caller, &team, &name)?;
        Ok((Some(name), Some(team)))
    }

    /// The predecessors, those of them that have not completed, and one that never will. How one ended is told to who
    /// waits for it, so a caller names only what it may see.
    #[expect(clippy::type_complexity, reason = "three lists that only `plan` takes apart")]
    fn predecessors(
        &self,
        caller: &Caller,
        after: &[String],
    ) -> Result<(Vec<TaskId>, Vec<TaskId>, Option<TaskId>), Error> {
        let (mut ids, mut waits, mut doomed) = (Vec::with_capacity(after.len()), Vec::new(), None);
        for text in after {
            let found = self.find_for(caller, text).map_err(|error| error.with("path", "after"))?;
            let id = found.id();
            if ids.contains(&id) {
                continue;
            }
            let outcome = match found {
                Found::Archived(id) => self.archive.get(&id).map(|entry| entry.outcome),
                Found::Live(id) => match self.tasks.get(&id).map(|row| &row.state) {
                    Some(State::Done { outcome, .. }) => Some(*outcome),
                    _ => None,
                },
            };
            ids.push(id);
            match outcome {
                None => waits.push(id),
                Some(Outcome::Completed) => {}
                Some(Outcome::Failed | Outcome::Killed | Outcome::Interrupted) => doomed = Some(id),
            }
        }
        Ok((ids, waits, doomed))
    }

    /// The working directory: the call's, else the session's, else the caller's process's.
    fn cwd_of(&self, caller: &Caller, session: &SessionId, named: Option<&str>) -> Result<String, Error> {
        let base = self.sessions.get(session).and_then(|row| row.cwd.clone()).or_else(|| caller.cwd.clone());
        match (named, base) {
            (Some(path), _) if path.starts_with('/') => Ok(path.to_owned()),
            (Some(path), Some(base)) if caller.cwd.is_some() => {
                Ok(format!("{}/{path}", caller.cwd.as_deref().unwrap_or(&base)))
            }
            (Some(path), _) => Err(Error::new(
                Kind::InvalidParams,
                format!("cwd {path:?} is relative: give an absolute path"),
            )
            .with("path", "cwd")),
            (None, Some(base)) => Ok(base),
            (None, None) => Ok("/".to_owned()),
        }
    }

    /// Names of the variables that the session and the call give.
    fn env_names_of(
        &self,
        session: &SessionId,
        env: Option<&BTreeMap<String, String>>,
    ) -> Result<Vec<String>, Error> {
        let named = &self.session(session)?.env_names;
        let given = |name: &String| env.is_some_and(|env| env.contains_key(name));
        let lost: Vec<String> = named.iter().filter(|name| !given(name)).cloned().collect();
        if !lost.is_empty() && !self.live.session_vaults.contains_key(session) {
            return Err(Error::new(
                Kind::InvalidParams,
                format!("a restart lost the session's values of {}: give them as env", lost.join(", ")),
            )
            .with("path", "env")
            .with("missing", lost));
        }
        let mut names: Vec<String> =
            named.iter().chain(env.into_iter().flat_map(BTreeMap::keys)).cloned().collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn rows_of(
        &self,
        cx: &Cx<'_>,
        caller: &Caller,
        id: TaskId,
        mut plan: Plan,
        mut params: AgentSpawnParams,
    ) -> (Row, Launch) {
        let mut brief = caller.brief.clone();
        if let (Some(brief), Some(with)) = (&mut brief, plan.stopped_with) {
            Arc::make_mut(brief).given.stopped_with = Some(with);
        }
        let launch = Launch {
            id,
            argv: std::mem::take(&mut plan.argv),
            brief,
            prompt: params.prompt.take(),
            cwd: std::mem::take(&mut plan.cwd),
            base: (*caller.base).clone(),
            stdin: params.stdin.unwrap_or_default(),
        };
        (self.row_of(cx.now, &launch, plan, params), launch)
    }

    fn row_of(&self, now: Millis, launch: &Launch, plan: Plan, params: AgentSpawnParams) -> Row {
        let brief = launch.brief.as_deref();
        let background = params.run_in_background == Some(true)
            || plan.team.is_some()
            || brief.is_some_and(|brief| brief.background);
        let budget = self.budget_of(&params, brief.and_then(|brief| brief.run_ms));
        let given = params.description.or_else(|| launch.prompt.clone());
        let description = given.unwrap_or_else(|| launch.argv.join(" "));
        let spec = Spec {
            agent_type: brief.map(|brief| brief.definition.clone()).or(params.subagent_type).map(Into::into),
            model: brief.map(|brief| brief.model.clone()).or(params.model).map(Into::into),
            permission_mode: brief
                .map(|brief| brief.permission_mode.clone())
                .or(params.permission_mode)
                .unwrap_or_else(|| "default".to_owned())
                .into(),
            mode_before: None,
            runner: runner_of(&launch.argv),
            program: launch.argv.first().map(String::as_str).unwrap_or_default().into(),
            cwd: launch.cwd.as_str().into(),
            env_names: plan.env_names,
            labels: params.labels.unwrap_or_default(),
            after: plan.after,
            persist: params.persist != Some(false),
            budget,
            writable: plan.writable,
            makes_teams: brief.is_some_and(|brief| brief.has(TEAM_CREATE)),
            keeps_list: brief.is_some_and(|brief| brief.has(TASK_UPDATE)),
            receives: match runner_of(&launch.argv) {
                RunnerKind::Llm => Receives::Turn,
                _ => params.receives.unwrap_or(Receives::Poll),
            },
        };
        Row {
            id: launch.id,
            kind: kind_of(&spec),
            spec: spec.into(),
            session: plan.session,
            parent: plan.parent,
            above: plan.stopped_with.or(plan.parent).filter(|id| self.tasks.get(id).is_some()),
            name: plan.name.map(Into::into),
            teams: plan.team.map(|team| self.membership_in(&team).into()),
            description: crate::message::shorten(&description, 200).into(),
            waits: plan.waits,
            state: State::Queued,
            attempt: 1,
            stop: None,
            stopped_by: None,
            tie: None,
            prompts: None,
            backgrounded: background,
            retain: false,
            notified: false,
            acked: false,
            evict_after: None,
            output_bytes: 0,
            output_truncated: false,
            output_error: None,
            tail: None,
            work: None,
            exit: None,
            error: None,
            active_at: now,
            created_at: now,
            started_at: None,
            updated_at: now,
        }
    }

    /// The call's limits; else what its kind of agent has, within what all have.
    fn budget_of(&self, params: &AgentSpawnParams, own: Option<Millis>) -> Budget {
        let run_ms = match (own, self.limits.run_ms) {
            (None, all) => all,
            (Some(own), 0) => own,
            (Some(own), all) => own.min(all),
        };
        Budget {
            run_ms: params.run_timeout_ms.unwrap_or(run_ms),
            memory: params.max_memory_bytes.unwrap_or(0),
            output: params.max_output_bytes.unwrap_or(self.limits.output).min(self.limits.output),
        }
    }

    /// The agent inside the daemon in whose conversation a caller stands, with the directory of its files: what a fork of
    /// it would go on from.
    pub fn conversation_of(&self, caller: &Caller) -> Option<(TaskId, String)> {
        let row = self.tasks.get(&self.task_of(caller)?)?;
        (row.spec.runner == RunnerKind::Llm).then(|| (row.id, row.directory(&self.limits.state_dir)))
    }

    /// The task that a caller runs as.
    pub(crate) fn task_of(&self, caller: &Caller) -> Option<TaskId> {
        match &caller.who {
            Who::Operator => None,
            Who::Agent(id) => Some(*id),
            Who::Member { team, name } => self.teams.get(&team.to_string())?.member(name)?.task,
        }
    }

    /// A row for the task's `events.jsonl`.
    pub(crate) fn log(&self, cx: &mut Cx<'_>, id: TaskId, mut row: serde_json::Value) {
        if let Some(task) = self.tasks.get(&id).filter(|task| task.spec.persist) {
            row["at"] = json!(cx.now);
            cx.effects.push(Effect::Log { task: id, session: task.session.clone(), row });
        }
    }
}

/// What carries out a task: a program is a process, a prompt is for a model.
const fn runner_of(argv: &[String]) -> RunnerKind {
    if argv.is_empty() { RunnerKind::Llm } else { RunnerKind::Process }
}

const fn kind_of(spec: &Spec) -> TaskKind {
    match spec.runner {
        RunnerKind::Process => TaskKind::LocalCommand,
        RunnerKind::Llm | RunnerKind::Acp | RunnerKind::Tmux | RunnerKind::Iterm2 | RunnerKind::Remote => {
            TaskKind::LocalAgent
        }
    }
}

/// The route, by the ordered predicate: teammate, background, then synchronous (SP-07).
fn route_of(params: &AgentSpawnParams, teammate: bool) -> (&'static str, Vec<String>) {
    let (route, why) = if teammate {
        ("teammate", "teamName and name are both given")
    } else if params.run_in_background == Some(true) {
        ("background", "runInBackground is true")
    } else {
        ("sync", "neither a team member nor in the background")
    };
    let alone = params.team_name.is_some() && !teammate;
    let hint = alone.then_some("teamName without name makes no member: give name too");
    (route, [why].into_iter().chain(hint).map(str::to_owned).collect())
}

pub(crate) fn name_taken(name: &str) -> Error {
    Error::new(Kind::NameTaken, format!("an agent named {name:?} is alive: take another name or stop it"))
        .with("name", name)
}
