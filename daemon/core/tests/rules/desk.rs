//! A core on a desk: calls are made and time passes by hand.

use ccagent_core::effect::{Effect, Start};
use ccagent_core::input::{Ended, Report};
use ccagent_core::record::Write;
use ccagent_core::task::Shim;
use ccagent_core::{Caller, Core, Cx, Ids, Input, Limits, Record, RunnerEvent, Who};
use ccagent_proto::agent::{AgentSpawnParams, AgentSpawnResult};
use ccagent_proto::method::{
    AgentSpawn, Call, NotificationAck, NotificationList, Request, Response, TaskGet, TaskList,
};
use ccagent_proto::notification::{Notification, NotificationAckParams, NotificationListParams};
use ccagent_proto::task::{Exit, Task, TaskGetParams, TaskListParams};
use ccagent_proto::{Error, Kind, Millis, TaskId};

/// When every test begins.
pub(crate) const BEGIN: Millis = 1_700_000_000_000;

/// The connection of the person.
pub(crate) const PERSON: u64 = 1;

#[derive(Debug, Default)]
struct Rising(u128);

impl Ids for Rising {
    fn id(&mut self) -> u128 {
        self.0 += 1;
        (self.0 + 0xa000) << 112
    }

    fn secret(&mut self) -> u128 {
        self.0 += 1;
        self.0
    }
}

/// A core, its clock, and what came out of it.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) core: Core,
    pub(crate) now: Millis,
    ids: Rising,
    /// Everything written, in order.
    pub(crate) writes: Vec<Write>,
    /// What the last input wanted done.
    pub(crate) effects: Vec<Effect>,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self::with(Limits::default())
    }

    pub(crate) fn with(mut limits: Limits) -> Self {
        "/s".clone_into(&mut limits.state_dir);
        let mut desk = Self {
            core: Core::new(limits),
            now: BEGIN,
            ids: Rising::default(),
            writes: Vec::new(),
            effects: Vec::new(),
        };
        desk.step(Core::recover);
        desk
    }

    fn step<T>(&mut self, change: impl FnOnce(&mut Core, &mut Cx<'_>) -> T) -> T {
        let answer = self.unchecked(change);
        self.core.check().unwrap();
        answer
    }

    fn unchecked<T>(&mut self, change: impl FnOnce(&mut Core, &mut Cx<'_>) -> T) -> T {
        let mut cx = Cx::new(self.now, &mut self.ids);
        let answer = change(&mut self.core, &mut cx);
        self.writes.extend(cx.writes);
        self.effects = cx.effects;
        answer
    }

    /// A new daemon on the same store, before its runner reported.
    pub(crate) fn restart(&mut self) {
        self.restart_on(self.core.records());
    }

    /// A new daemon on a store in which an older one left a record.
    pub(crate) fn restart_with(&mut self, kind: &str, old: &serde_json::Value) {
        let old = Record::decode(kind, old.to_string().as_bytes()).unwrap();
        let mut records = self.core.records();
        records.retain(|record| (record.kind(), record.id()) != (old.kind(), old.id()));
        records.push(old);
        self.restart_on(records);
    }

    fn restart_on(&mut self, records: Vec<Record>) {
        self.core = Core::restore(self.core.limits.clone(), records);
        self.step(|core, cx| {
            core.recover(cx);
            core.resume_queue(cx);
        });
    }

    pub(crate) fn input(&mut self, input: Input) {
        self.step(|core, cx| core.apply(cx, input)).unwrap();
    }

    /// An input that may be refused, and then changes nothing.
    pub(crate) fn try_input(&mut self, input: Input) -> Result<Option<Response>, Error> {
        let before = self.core.clone();
        let answer = self.step(|core, cx| core.apply(cx, input));
        if answer.is_err() {
            assert!(self.core == before && self.effects.is_empty(), "a refusal changes something");
        }
        answer
    }

    /// What an input that is no call answers.
    pub(crate) fn answer(&mut self, input: Input) -> Option<Response> {
        self.step(|core, cx| core.apply(cx, input)).unwrap()
    }

    pub(crate) fn call<M: Call>(&mut self, caller: &Caller, params: M::Params) -> Result<M::Result, Error> {
        let input = Input::Call(caller.clone(), M::request(params));
        let response = self.step(|core, cx| core.apply(cx, input))?.unwrap();
        Ok(M::result(response).unwrap())
    }

    /// A call of any method.
    pub(crate) fn request(&mut self, caller: &Caller, request: Request) -> Result<Response, Error> {
        let input = Input::Call(caller.clone(), request);
        self.step(|core, cx| core.apply(cx, input)).map(|response| response.unwrap())
    }

    pub(crate) fn ok<M: Call>(&mut self, caller: &Caller, params: M::Params) -> M::Result {
        self.call::<M>(caller, params).unwrap()
    }

    /// A call that is refused, and so changes nothing.
    pub(crate) fn refused<M: Call>(&mut self, caller: &Caller, params: M::Params, kind: Kind) -> Error
    where
        M::Result: std::fmt::Debug,
    {
        let (before, written) = (self.core.clone(), self.writes.len());
        let error = self.call::<M>(caller, params).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(self.core == before && self.writes.len() == written && self.effects.is_empty(), "{error}");
        error
    }

    /// Time passes, and the tick comes when it is due.
    pub(crate) fn after(&mut self, ms: Millis) {
        self.now += ms;
        if self.core.next_deadline().is_some_and(|at| at <= self.now) {
            self.input(Input::Tick);
        }
    }

    pub(crate) fn spawn(&mut self, params: AgentSpawnParams) -> TaskId {
        self.spawned(params).task_id
    }

    pub(crate) fn spawned(&mut self, params: AgentSpawnParams) -> AgentSpawnResult {
        self.ok::<AgentSpawn>(&person(), params)
    }

    /// For many of them: the invariants are looked at later.
    pub(crate) fn spawn_unchecked(&mut self, params: AgentSpawnParams) -> TaskId {
        let input = Input::Call(person(), AgentSpawn::request(params));
        let response = self.unchecked(|core, cx| core.apply(cx, input)).unwrap().unwrap();
        AgentSpawn::result(response).unwrap().task_id
    }

    /// The same of any call.
    pub(crate) fn call_unchecked<M: Call>(
        &mut self,
        caller: &Caller,
        params: M::Params,
    ) -> Result<M::Result, Error> {
        let input = Input::Call(caller.clone(), M::request(params));
        let response = self.unchecked(|core, cx| core.apply(cx, input))?;
        Ok(M::result(response.unwrap()).unwrap())
    }

    pub(crate) fn report(&mut self, task: TaskId, what: Report) {
        let attempt = self.attempt(task);
        self.input(Input::Runner(RunnerEvent { task, attempt, what }));
    }

    fn attempt(&self, task: TaskId) -> u32 {
        let survivor = self.core.survivors().into_iter().find(|survivor| survivor.task == task);
        let inside = || {
            self.core.records().into_iter().find_map(|record| match record {
                Record::Task(row) if row.id == task => Some(row.attempt),
                _ => None,
            })
        };
        survivor.map(|found| found.attempt).or_else(inside).unwrap_or(0)
    }

    /// The program runs.
    pub(crate) fn started(&mut self, task: TaskId) {
        self.report(task, Report::Started { pid: 7, shim: Shim::default() });
    }

    /// The whole tree ended, its leader with a code.
    pub(crate) fn exited(&mut self, task: TaskId, code: i32) {
        self.report(task, ended(Exit { code: Some(code), signal: None }));
    }

    /// The person has the answer that tells of the end of a first run.
    pub(crate) fn heard(&mut self, task: TaskId) {
        self.input(Input::Heard(PERSON, vec![(task, 1)]));
    }

    /// A task that ran and ended well.
    pub(crate) fn completed(&mut self, params: AgentSpawnParams) -> TaskId {
        let task = self.spawn(params);
        self.started(task);
        self.exited(task, 0);
        task
    }

    pub(crate) fn get(&mut self, task: TaskId) -> Task {
        self.ok::<TaskGet>(&person(), TaskGetParams { task_id: task.to_string() })
    }

    pub(crate) fn list(&mut self, params: TaskListParams) -> Vec<TaskId> {
        self.ok::<TaskList>(&person(), params).tasks.into_iter().map(|task| task.id).collect()
    }

    pub(crate) fn notices(&mut self) -> Vec<Notification> {
        self.ok::<NotificationList>(&person(), NotificationListParams::default()).notifications
    }

    /// The person takes all notices.
    pub(crate) fn ack_all(&mut self) {
        let ids = self.notices().into_iter().map(|notice| notice.id).collect();
        self.ok::<NotificationAck>(&person(), NotificationAckParams { ids });
    }

    /// The types of the events that the last input gave.
    pub(crate) fn events(&self) -> Vec<&'static str> {
        self.effects
            .iter()
            .filter_map(
                |effect| if let Effect::Event(happened) = effect { Some(happened.r#type) } else { None },
            )
            .collect()
    }

    /// The tasks whose start the last input asked for.
    pub(crate) fn starts(&self) -> Vec<TaskId> {
        self.start_effects().map(|start| start.task).collect()
    }

    pub(crate) fn start_effects(&self) -> impl Iterator<Item = &Start> {
        self.effects
            .iter()
            .filter_map(|effect| if let Effect::Start(start) = effect { Some(&**start) } else { None })
    }

    /// The tasks whose stop the last input asked for, with the grace.
    pub(crate) fn stops(&self) -> Vec<(TaskId, Millis)> {
        self.effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Stop { task, grace_ms, .. } => Some((*task, *grace_ms)),
                _ => None,
            })
            .collect()
    }

    /// The rows for `events.jsonl` that the last input gave.
    pub(crate) fn logs(&self) -> Vec<serde_json::Value> {
        self.effects
            .iter()
            .filter_map(|effect| if let Effect::Log { row, .. } = effect { Some(row.clone()) } else { None })
            .collect()
    }

    /// The archived row of a task, as the edge reads it from the store.
    pub(crate) fn past(&self, task: TaskId) -> Option<ccagent_core::task::Past> {
        self.writes.iter().rev().find_map(|write| match write {
            Write::Put(Record::Past(past)) if past.0.id == task => Some(past.clone()),
            _ => None,
        })
    }
}

/// The person's client.
pub(crate) fn person() -> Caller {
    Caller::operator(PERSON)
}

/// The program of a task.
pub(crate) fn agent(task: TaskId) -> Caller {
    Caller { who: Who::Agent(task), ..Caller::operator(50) }
}

/// A member on a connection.
pub(crate) fn member(conn: u64, team: &str, name: &str) -> Caller {
    Caller { who: Who::Member { team: team.into(), name: name.into() }, ..Caller::operator(conn) }
}

/// A program in the background.
pub(crate) fn background() -> AgentSpawnParams {
    AgentSpawnParams { run_in_background: Some(true), ..foreground() }
}

/// A program that its caller waits for.
pub(crate) fn foreground() -> AgentSpawnParams {
    AgentSpawnParams {
        command: Some(vec!["make".to_owned(), "all".to_owned()]),
        ..AgentSpawnParams::default()
    }
}

/// A program in the background with a name.
pub(crate) fn named(name: &str) -> AgentSpawnParams {
    AgentSpawnParams { name: Some(name.to_owned()), ..background() }
}

/// A program that is a member.
pub(crate) fn teammate(team: &str, name: &str) -> AgentSpawnParams {
    AgentSpawnParams { team_name: Some(team.to_owned()), ..named(name) }
}

/// A tree that ended.
pub(crate) fn ended(exit: Exit) -> Report {
    Report::Ended(Ended { exit, ..Ended::default() })
}
