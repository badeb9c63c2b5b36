//! One history: callers on connections, processes, a store, and a daemon that commits in batches and crashes.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use ccagent_core::ask::{Asked, What};
use ccagent_core::effect::Effect;
use ccagent_core::input::Run;
use ccagent_core::record::Write;
use ccagent_core::task::{Brief, Row, State};
use ccagent_core::{Caller, Core, Cx, Ids, Input, Limits, Record, RunnerEvent, Who};
use ccagent_proto::method::{Request, Response};
use ccagent_proto::{Error, Millis, SessionId};

use crate::calls::{self, Known};
use crate::disk::Disk;
use crate::ledger::Ledger;
use crate::process::Processes;
use crate::random::Random;

/// Steps that a failure shows.
const SHOWN: usize = 30;

/// Ids that rise and never repeat, over crashes too.
#[derive(Clone, Debug, Default)]
struct Rising(u128);

impl Ids for Rising {
    fn id(&mut self) -> u128 {
        self.0 += 1;
        self.0 << 64
    }

    fn secret(&mut self) -> u128 {
        self.0 += 1;
        self.0
    }
}

/// A step as a failure shows it; made into text only then.
#[derive(Debug)]
#[expect(dead_code, reason = "read by its Debug form")]
enum Shown {
    Step(&'static str),
    Gone(u64),
    Returned(u64),
    Heard(u64),
    Ask(Run, bool),
    Thaw(String),
    Runner(RunnerEvent),
    Call(Who, Box<Request>, Result<(), String>),
}

/// The whole of it.
#[derive(Debug)]
pub(crate) struct World {
    seed: u64,
    core: Core,
    disk: Disk,
    ledger: Ledger,
    processes: Processes,
    random: Random,
    known: Known,
    callers: Vec<Caller>,
    conns: u64,
    ids: Rising,
    now: Millis,
    /// Applied, not committed.
    writes: Vec<Write>,
    effects: Vec<Effect>,
    /// Committed, not carried out.
    todo: VecDeque<Effect>,
    steps: usize,
    shown: VecDeque<Shown>,
    digest: Option<DefaultHasher>,
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("seed {}, step {}; the last steps:", self.seed, self.steps);
            for line in &self.shown {
                println!("  {line:?}");
            }
        }
    }
}

fn limits() -> Limits {
    Limits {
        state_dir: "/s".to_owned(),
        agents_per_session: 3,
        agents: 5,
        queue: 6,
        message: 8_000,
        mailbox_unread: 6,
        mailbox_bytes: 20_000,
        archive_count: 12,
        output_total: 150_000,
        archive_ms: 600_000,
        key_count: 8,
        key_ms: 900_000,
        ask_ms: 20_000,
        ..Limits::default()
    }
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut world = Self {
            seed,
            core: Core::new(limits()),
            disk: Disk::default(),
            ledger: Ledger::default(),
            processes: Processes::default(),
            random: Random::new(seed),
            known: Known::default(),
            callers: Vec::new(),
            conns: 0,
            ids: Rising::default(),
            now: 1_700_000_000_000,
            writes: Vec::new(),
            effects: Vec::new(),
            todo: VecDeque::new(),
            steps: 0,
            shown: VecDeque::new(),
            digest: None,
        };
        world.begin(false);
        world
    }

    /// Goes on for so many steps, and to a quiet end.
    pub(crate) fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            self.step();
        }
        self.settle();
    }

    /// A digest of all that comes out on the way (L2).
    pub(crate) fn digest(mut self, steps: usize) -> u64 {
        self.digest = Some(DefaultHasher::new());
        self.run(steps);
        self.digest.take().map_or(0, |digest| digest.finish())
    }

    fn step(&mut self) {
        self.steps += 1;
        match self.random.below(1000) {
            0..=7 => self.crash(),
            8..=80 => self.time_passes(),
            81..=105 => self.disconnect(),
            106..=110 => self.give_back(),
            113..=125 => self.answers_arrive(),
            111..=112 => self.apply(Shown::Step("closing"), Input::Closing),
            126..=330 => self.report(),
            331..=480 => self.processes.step(&self.random),
            481..=640 => self.commit(),
            641..=760 => self.carry_out(),
            761..=783 => self.ask(),
            784..=785 => self.plans(),
            _ => self.call(),
        }
    }

    /// A run asks; one that is over, or about to be, is refused.
    fn ask(&mut self) {
        let Some(run) = self.random.pick(&self.processes.runs()).copied() else { return };
        let rules = if self.random.percent(80) { vec!["Bash(make)".into()] } else { Vec::new() };
        let permission = What::Permission {
            tool: "Bash".into(),
            input: serde_json::json!({}),
            cut: false,
            reason: "no rule allows it".into(),
            risk: "runs".into(),
            root: self.random.one(&["/a", "/b"]).into(),
            rules,
        };
        let plan = What::Plan { plan: "first this".into() };
        let question = What::Question { questions: calls::questions() };
        let what = match self.random.below(10) {
            0..=4 => permission,
            5..=6 => plan,
            _ => question,
        };
        let asked = Asked { what, call: None, summary: "make".to_owned(), cwd: "/a".to_owned() };
        let before = self.core.clone();
        let mut cx = Cx::new(self.now, &mut self.ids);
        let answer = self.core.apply(&mut cx, Input::Ask(run, Box::new(asked)));
        let (writes, effects) = (cx.writes, cx.effects);
        self.show(Shown::Ask(run, answer.is_ok()));
        match answer {
            Ok(Some(Response::AskGet(ask))) => keep(&mut self.known.asks, ask.id),
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                assert!(writes.is_empty() && effects.is_empty(), "L1: a refusal says something: {error}");
                assert!(before == self.core, "L1: a refusal changes something: {error}");
            }
        }
        self.took(writes, effects);
    }

    /// A run plans from now on; one that is over, or about to be, is refused.
    fn plans(&mut self) {
        let Some(run) = self.random.pick(&self.processes.runs()).copied() else { return };
        let before = self.core.clone();
        let mut cx = Cx::new(self.now, &mut self.ids);
        let answer = self.core.apply(&mut cx, Input::Plans(run));
        let (writes, effects) = (cx.writes, cx.effects);
        self.show(Shown::Step("plans"));
        if let Err(error) = answer {
            assert!(writes.is_empty() && effects.is_empty(), "L1: a refusal says something: {error}");
            assert!(before == self.core, "L1: a refusal changes something: {error}");
        }
        self.took(writes, effects);
    }

    fn show(&mut self, line: Shown) {
        self.shown.push_back(line);
        if self.shown.len() > SHOWN {
            self.shown.pop_front();
        }
    }

    fn time_passes(&mut self) {
        self.now += self.random.one(&[1, 700, 3_000, 30_000, 100_000]);
        self.apply(Shown::Step("tick"), Input::Tick);
        for _ in 0..100 {
            if self.core.next_deadline().is_none_or(|at| at > self.now) {
                return;
            }
            self.apply(Shown::Step("tick"), Input::Tick);
        }
        panic!("ticks come to no end");
    }

    fn report(&mut self) {
        if let Some(event) = self.processes.report(&self.random) {
            self.ledger.hears(&event);
            self.apply(Shown::Runner(event.clone()), Input::Runner(event));
        }
    }

    fn disconnect(&mut self) {
        let place = self.random.below(self.callers.len());
        let gone = self.callers.remove(place);
        self.apply(Shown::Gone(gone.conn), Input::Disconnected(gone.conn));
        self.connect();
    }

    /// A connection never got some of what it was handed.
    fn give_back(&mut self) {
        let conn = self.callers[self.random.below(self.callers.len())].conn;
        let messages = self.known.messages.iter().filter(|_| self.random.percent(50)).copied().collect();
        self.apply(Shown::Returned(conn), Input::ReturnMail(conn, messages));
        let notices = self.known.notices.iter().filter(|_| self.random.percent(50)).copied().collect();
        self.apply(Shown::Returned(conn), Input::ReturnNotices(conn, notices));
    }

    /// Answers about ends reach a connection or do not, whether it waited for these or not.
    fn answers_arrive(&mut self) {
        let conn = self.callers[self.random.below(self.callers.len())].conn;
        let mut runs = self.processes.runs();
        runs.retain(|_| self.random.percent(30));
        if self.random.percent(70) {
            // What is written was committed before.
            self.commit();
            self.ledger.hear(&mut runs);
            self.apply(Shown::Heard(conn), Input::Heard(conn, runs));
        } else {
            self.apply(Shown::Returned(conn), Input::Unheard(conn, runs));
        }
    }

    fn connect(&mut self) {
        self.conns += 1;
        let mut caller = Caller::operator(self.conns);
        caller.session = self.random.pick(&self.known.sessions).cloned().filter(|_| self.random.percent(40));
        if self.random.percent(35)
            && let Some(task) = self.random.pick(&self.known.tasks)
        {
            caller.who = Who::Agent(*task);
        }
        self.callers.push(caller);
    }

    fn call(&mut self) {
        let mut request = calls::call(&self.known, &self.random);
        let place = self.random.below(self.callers.len());
        let mut caller = self.callers[place].clone();
        // An agent that may make a team makes one, and calls as its lead.
        let maker = |row: &Row| row.is_under_way() && row.spec.makes_teams;
        if self.random.percent(8)
            && let Some(row) = self.live().find(maker)
        {
            caller.who = Who::Agent(row.id);
            if self.random.percent(60) {
                request = calls::team_call(&self.known, &self.random);
            }
        }
        caller.vault = gives_env(&request).then_some(self.steps as u64);
        // The edge works out what an agent with a model is: it may make teams.
        let tools = ["TeamCreate", "TaskUpdate"].map(str::to_owned).to_vec();
        let brief = || Arc::new(Brief { tools, ..Brief::default() });
        let is_of_model = match &request {
            Request::SessionPrompt(_) => true,
            Request::AgentSpawn(params) => params.command.is_none(),
            _ => false,
        };
        caller.brief = is_of_model.then(brief);
        let answer = self.apply_call(&caller, &request);
        if let Err(error) = &answer
            && let Some(id) = error.data.get("archived").and_then(|id| id.as_str())
            && matches!(request, Request::TaskResume(_) | Request::AgentSpawn(_) | Request::SessionPrompt(_))
        {
            let id = id.to_owned();
            self.thaw(&id);
            drop(self.apply_call(&caller, &request));
        }
        if let Ok(response) = answer {
            self.learn(place, &request, response);
        }
    }

    fn thaw(&mut self, id: &str) {
        self.commit();
        if let Some(Record::Past(past)) = self.disk.get("past", id) {
            self.apply(Shown::Thaw(id.to_owned()), Input::thaw(past));
        }
    }

    fn apply_call(&mut self, caller: &Caller, request: &Request) -> Result<Response, Error> {
        let input = Input::Call(caller.clone(), request.clone());
        let before = self.core.clone();
        let mut cx = Cx::new(self.now, &mut self.ids);
        let answer = self.core.apply(&mut cx, input);
        let (writes, effects) = (cx.writes, cx.effects);
        let said = answer.as_ref().map(|_| ()).map_err(ToString::to_string);
        self.show(Shown::Call(caller.who.clone(), Box::new(request.clone()), said));
        if let Err(error) = &answer {
            assert!(writes.is_empty() && effects.is_empty(), "L1: a refusal says something: {error}");
            assert!(before == self.core, "L1: a refusal changes something: {error}");
            assert_ne!(error.kind, ccagent_proto::Kind::Internal, "{error}");
        }
        self.ledger.check_step(Some(request), &writes, &effects);
        self.took(writes, effects);
        answer.map(|response| response.expect("a call has an answer"))
    }

    fn apply(&mut self, shown: Shown, input: Input) {
        self.show(shown);
        let mut cx = Cx::new(self.now, &mut self.ids);
        self.core.apply(&mut cx, input).expect("only calls are refused");
        let (writes, effects) = (cx.writes, cx.effects);
        self.ledger.check_step(None, &writes, &effects);
        self.took(writes, effects);
    }

    fn took(&mut self, writes: Vec<Write>, effects: Vec<Effect>) {
        if let Some(digest) = &mut self.digest {
            format!("{writes:?} {effects:?}").hash(digest);
        }
        let changed = !writes.is_empty();
        self.writes.extend(writes);
        self.effects.extend(effects);
        if let Err(broken) = if changed { self.core.check() } else { Ok(()) } {
            panic!("L5: {broken}");
        }
    }

    fn learn(&mut self, place: usize, request: &Request, response: Response) {
        let known = &mut self.known;
        match response {
            Response::AgentSpawn(result) => keep(&mut known.tasks, result.task_id),
            Response::SessionPrompt(result) => keep(&mut known.tasks, result.task_id),
            Response::SessionOpen(result) => {
                keep(&mut known.sessions, result.session_id.clone());
                self.callers[place].session = Some(result.session_id);
            }
            Response::SessionClose(_) => {
                if let Request::SessionClose(params) = request {
                    known.sessions.retain(|id| *id != params.session_id);
                }
            }
            Response::MailboxPoll(result) | Response::MailboxRead(result) => {
                result.messages.into_iter().for_each(|message| keep(&mut known.messages, message.id));
            }
            Response::NotificationList(result) | Response::NotificationNext(result) => {
                result.notifications.into_iter().for_each(|notice| keep(&mut known.notices, notice.id));
            }
            Response::TeamJoin(result) => {
                if let Request::TeamJoin(params) = request {
                    let (team, name) = (params.team_name.clone(), params.name.clone());
                    self.callers[place].who =
                        Who::Member { team: team.as_str().into(), name: name.as_str().into() };
                    known.tokens.insert((team, name), result.token);
                }
            }
            Response::TeamLeave(_) => self.callers[place].who = Who::Operator,
            _ => {}
        }
    }

    fn commit(&mut self) {
        let writes = std::mem::take(&mut self.writes);
        self.disk.commit(&writes);
        self.ledger.commit(&writes, &self.disk);
        self.todo.extend(std::mem::take(&mut self.effects));
        if self.random.percent(10) {
            self.disk.assert_holds(&self.core);
        }
    }

    fn carry_out(&mut self) {
        while let Some(effect) = self.todo.pop_front() {
            match effect {
                Effect::Start(start) => self.processes.start((start.task, start.attempt), start.runner),
                Effect::Stop { task, attempt, .. } => self.processes.stop((task, attempt)),
                Effect::Event(_)
                | Effect::Log { .. }
                | Effect::CloseOutput { .. }
                | Effect::RemoveFiles { .. }
                | Effect::LetGo { .. }
                | Effect::Over(_)
                | Effect::Forget { .. } => {}
            }
            if self.random.percent(20) {
                break;
            }
        }
        self.check_processes();
    }

    /// I3, I9: what runs is what the core says runs.
    fn check_processes(&self) {
        let records = self.core.records();
        for ((task, attempt), _) in self.processes.alive() {
            let row = records.iter().find_map(|record| match record {
                Record::Task(row) if row.id == task => Some(row),
                _ => None,
            });
            let Some(row) = row else { panic!("I3: {task} runs and is not there") };
            assert!(
                row.is_under_way() && row.attempt == attempt,
                "I3: run {attempt} of {task} runs: {row:?}"
            );
        }
    }

    /// The daemon goes away between any two instructions, and comes back.
    fn crash(&mut self) {
        let machine = self.random.percent(25);
        self.show(Shown::Step(if machine { "the machine goes away" } else { "the daemon goes away" }));
        self.writes.clear();
        self.effects.clear();
        self.todo.clear();
        self.ledger.crash();
        self.processes.crash(machine, &self.random);
        self.now = self.now.saturating_sub(self.random.one(&[0, 0, 5_000]));
        self.core = self.disk.restore(limits());
        self.disk.assert_holds(&self.core);
        self.begin(machine);
        if self.random.percent(30) {
            self.all_arrives();
        }
    }

    fn begin(&mut self, machine: bool) {
        self.first_step(Core::recover);
        self.processes.adopt(&self.core, machine, &self.random);
        self.first_step(Core::resume_queue);
        self.callers.clear();
        self.known.sessions = vec![SessionId::main()];
        for record in self.core.records() {
            if let Record::Session(row) = record {
                keep(&mut self.known.sessions, row.id);
            }
        }
        for _ in 0..8 {
            self.connect();
        }
    }

    fn first_step(&mut self, change: impl FnOnce(&mut Core, &mut Cx<'_>)) {
        let mut cx = Cx::new(self.now, &mut self.ids);
        change(&mut self.core, &mut cx);
        let (writes, effects) = (cx.writes, cx.effects);
        self.ledger.check_step(None, &writes, &effects);
        self.took(writes, effects);
        self.commit();
    }

    /// Everything goes well from now on: nothing may hang.
    fn settle(&mut self) {
        self.show(Shown::Step("all goes well from here"));
        self.commit();
        self.crash();
        for session in std::iter::once(None).chain(self.known.sessions.clone().into_iter().map(Some)) {
            let params = ccagent_proto::session::SessionPauseParams { session_id: session };
            drop(self.apply_call(&Caller::operator(0), &Request::SessionUnpause(params)));
        }
        for _ in 0..100 {
            self.all_arrives();
            if self.live().next().is_none() {
                return;
            }
            for _ in 0..20 {
                self.processes.step(&self.random);
            }
        }
        panic!("these never end: {:#?}", self.live().collect::<Vec<Row>>());
    }

    /// All that is on its way arrives. I4, L6: then who is asked to stop was told so, in this daemon's life.
    fn all_arrives(&mut self) {
        while !(self.processes.reports.is_empty() && self.effects.is_empty() && self.todo.is_empty()) {
            self.report();
            self.commit();
            self.carry_out();
        }
        let told: Vec<_> = self.processes.alive().collect();
        let asked = |row: &Row| row.stop.is_some() && matches!(row.state, State::Running { .. });
        for row in self.live().filter(asked) {
            assert!(told.contains(&((row.id, row.attempt), true)), "nobody stops {row:?}");
        }
    }

    fn live(&self) -> impl Iterator<Item = Row> {
        self.core.records().into_iter().filter_map(|record| match record {
            Record::Task(row) if !row.is_done() => Some(row),
            _ => None,
        })
    }
}

fn gives_env(request: &Request) -> bool {
    match request {
        Request::AgentSpawn(params) => params.env.is_some(),
        Request::TaskResume(params) => params.env.is_some(),
        Request::SessionOpen(params) => params.env.is_some(),
        Request::SessionPrompt(params) => params.env.is_some(),
        _ => false,
    }
}

/// Remembers the newest ids.
fn keep<T: PartialEq>(known: &mut Vec<T>, id: T) {
    if !known.contains(&id) {
        known.push(id);
    }
    if known.len() > 60 {
        known.remove(0);
    }
}
