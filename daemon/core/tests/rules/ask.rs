//! Asks: who may answer, which answer counts, what an answer leaves, and when nobody waits for one any more.

use ccagent_core::ask::answer::Granted;
use ccagent_core::ask::{Asked, CLOSED_MOST, OF_TASK_MOST, What};
use ccagent_core::bounds::SHOWN_MOST;
use ccagent_core::{Caller, Effect, Input, Limits};
use ccagent_proto::ask::{
    Ask, AskBehavior, AskGetParams, AskListParams, AskRespondParams, AskScope, AskState, AskSubscribeParams,
};
use ccagent_proto::method::{
    AgentSpawn, AskGet, AskList, AskRespond, Response, SessionClose, SessionOpen, TaskStop, TaskWait,
};
use ccagent_proto::permission::PermissionBehavior;
use ccagent_proto::session::{SessionCloseParams, SessionOpenParams};
use ccagent_proto::task::{TaskStatus, TaskStopParams, TaskWaitParams, WaitFor, WaitKind};
use ccagent_proto::{AskId, Error, Kind, SessionId, TaskId};
use serde_json::json;

use crate::desk::{Desk, agent, background, member, named, person, teammate};
use crate::message::team;

fn asked(rules: &[&str]) -> Asked {
    let what = What::Permission {
        tool: "Bash".into(),
        input: json!({ "command": "make" }),
        cut: false,
        reason: "no rule allows it".into(),
        risk: "runs".into(),
        root: "/repo".into(),
        rules: rules.iter().map(|rule| (*rule).into()).collect(),
    };
    Asked { what, call: None, summary: "make".into(), cwd: "/repo/src".into() }
}

pub(crate) fn plan() -> Asked {
    let what = What::Plan { plan: "first this".into() };
    Asked { what, call: Some("toolu_1".into()), summary: "a plan".into(), cwd: "/".into() }
}

pub(crate) fn try_ask(desk: &mut Desk, task: TaskId, attempt: u32, asked: Asked) -> Result<Ask, Error> {
    match desk.try_input(Input::Ask((task, attempt), Box::new(asked)))? {
        Some(Response::AskGet(ask)) => Ok(ask),
        other => panic!("{other:?}"),
    }
}

fn ask(desk: &mut Desk, task: TaskId) -> Ask {
    try_ask(desk, task, 1, asked(&["Bash(make)"])).unwrap()
}

pub(crate) fn running(desk: &mut Desk) -> TaskId {
    let task = desk.spawn(named("ann"));
    desk.started(task);
    task
}

pub(crate) fn answer(id: AskId, behavior: AskBehavior) -> AskRespondParams {
    let (scope, answers, message, updated_input, mode) = (None, None, None, None, None);
    AskRespondParams { ask_id: id, behavior, scope, answers, message, updated_input, mode }
}

fn allow(id: AskId, scope: AskScope) -> AskRespondParams {
    AskRespondParams { scope: Some(scope), ..answer(id, AskBehavior::Allow) }
}

fn state(desk: &mut Desk, id: AskId) -> AskState {
    desk.ok::<AskGet>(&person(), AskGetParams { ask_id: id }).state
}

/// E66, E74, E77, I12, C47: an ask is there for everybody, its task waits for it, and both end with the first answer.
#[test]
fn a_task_waits_as_long_as_its_asks_do() {
    let mut desk = Desk::new();
    let task = running(&mut desk);
    let first = ask(&mut desk, task);
    assert_eq!(desk.events(), ["ask.created", "task.status"]);
    let said = desk.effects.iter().find_map(|effect| match effect {
        Effect::Event(happened) if happened.r#type == "ask.created" => Some(happened.data.clone()),
        _ => None,
    });
    let said = said.unwrap();
    for (key, value) in [
        ("toolName", "Bash"),
        ("summary", "make"),
        ("cwd", "/repo/src"),
        ("agentName", "ann"),
        ("risk", "runs"),
        ("status", "waiting"),
    ] {
        assert_eq!(said[key], value, "{said}");
    }
    let second = ask(&mut desk, task);
    let view = desk.get(task);
    let on = view.waiting_on.unwrap();
    assert_eq!((view.status, view.pending_asks), (TaskStatus::Waiting, 2));
    assert_eq!((on.kind, on.id, on.until_at), (WaitKind::Ask, Some(first.id.to_string()), first.deadline_at));
    let wait = TaskWaitParams {
        task_ids: vec![task.to_string()],
        r#for: Some(WaitFor::Waiting),
        ..Default::default()
    };
    assert!(!desk.ok::<TaskWait>(&person(), wait).timed_out);
    for id in [first.id, second.id] {
        desk.ok::<AskRespond>(&person(), answer(id, AskBehavior::Allow));
    }
    assert_eq!(desk.events(), ["ask.answered", "task.status"]);
    assert_eq!(desk.logs()[0]["ask"]["answeredBy"], "operator");
    let view = desk.get(task);
    assert_eq!((view.status, view.pending_asks, view.waiting_on), (TaskStatus::Running, 0, None));
    let late = desk.refused::<AskRespond>(&person(), answer(first.id, AskBehavior::Deny), Kind::AskAnswered);
    assert_eq!(late.data["ask"]["answer"]["behavior"], "allow");
}

/// PM-09, C17, I7: what nobody answers in time is expired, which is no permission.
#[test]
fn time_never_allows() {
    let mut desk = Desk::with(Limits { ask_ms: 1000, ..Limits::default() });
    let task = running(&mut desk);
    let id = ask(&mut desk, task).id;
    desk.after(999);
    assert_eq!(state(&mut desk, id), AskState::Pending);
    desk.after(1);
    assert_eq!(desk.events(), ["ask.expired", "task.status"]);
    assert_eq!(state(&mut desk, id), AskState::Expired);
    desk.refused::<AskRespond>(&person(), answer(id, AskBehavior::Allow), Kind::AskExpired);
    assert_eq!(desk.get(task).status, TaskStatus::Running);
}

/// E73, D54: an ask goes with its run: when it ends, when it is told to stop, and when the daemon does; and a run that is
/// over, or being stopped, asks nothing.
#[test]
fn an_ask_does_not_outlive_who_asked() {
    let mut desk = Desk::new();
    let task = running(&mut desk);
    let ended = ask(&mut desk, task).id;
    desk.exited(task, 0);
    assert_eq!(state(&mut desk, ended), AskState::Withdrawn);
    desk.refused::<AskRespond>(&person(), answer(ended, AskBehavior::Allow), Kind::AskAnswered);
    assert_eq!(try_ask(&mut desk, task, 1, asked(&[])).unwrap_err().kind, Kind::AlreadyTerminal);

    let task = running(&mut desk);
    assert_eq!(try_ask(&mut desk, task, 2, asked(&[])).unwrap_err().kind, Kind::AlreadyTerminal);
    let stopped = ask(&mut desk, task).id;
    desk.ok::<TaskStop>(&person(), TaskStopParams { task_id: task.to_string(), ..Default::default() });
    assert_eq!(state(&mut desk, stopped), AskState::Withdrawn);
    assert_eq!(try_ask(&mut desk, task, 1, asked(&[])).unwrap_err().kind, Kind::AlreadyTerminal);
    desk.exited(task, 0);

    let task = running(&mut desk);
    let forgotten = ask(&mut desk, task).id;
    desk.restart();
    assert_eq!(state(&mut desk, forgotten), AskState::Withdrawn);
    assert_eq!(desk.get(task).pending_asks, 0);
}

/// I11, A17, G5: an operator answers; a lead the plans of its team and nothing else; a teammate and an agent nothing,
/// least of all their own asks. Whoever may see a task sees what it asks.
#[test]
fn only_an_operator_permits() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &["ann"]);
    let of_team = desk.spawn(teammate("red", "bob"));
    let child = desk.ok::<AgentSpawn>(&agent(of_team), background()).task_id;
    for task in [of_team, child] {
        desk.started(task);
    }
    let permission = ask(&mut desk, of_team).id;
    let planned = try_ask(&mut desk, of_team, 1, plan()).unwrap().id;
    let below = ask(&mut desk, child).id;
    let (lead, ann) = (member(10, "red", "lead"), member(11, "red", "ann"));
    for caller in [&ann, &agent(of_team), &agent(child)] {
        for id in [permission, planned, below, AskId(99)] {
            let refused =
                desk.refused::<AskRespond>(caller, answer(id, AskBehavior::Allow), Kind::NotAuthorised);
            assert_eq!(refused.data["needs"], "operator");
        }
    }
    desk.refused::<AskRespond>(&lead, answer(permission, AskBehavior::Allow), Kind::AskNotYours);
    assert_eq!(
        desk.ok::<AskRespond>(&lead, answer(planned, AskBehavior::Allow)).answered_by.unwrap(),
        "lead@red"
    );
    let seen = |desk: &mut Desk, caller: &Caller| -> Vec<AskId> {
        desk.ok::<AskList>(caller, AskListParams::default()).asks.iter().map(|ask| ask.id).collect()
    };
    assert_eq!(seen(&mut desk, &person()), [permission, planned, below]);
    assert_eq!(seen(&mut desk, &agent(of_team)), [permission, planned, below]);
    assert_eq!(seen(&mut desk, &agent(child)), [below]);
    desk.refused::<AskGet>(&agent(child), AskGetParams { ask_id: permission }, Kind::NotFound);
    let filter = AskSubscribeParams { task_id: Some(of_team), session_id: None };
    assert!(desk.core.followed_ask(&person(), below, &filter).is_some());
    let filter = AskSubscribeParams { task_id: Some(child), session_id: None };
    assert!(desk.core.followed_ask(&person(), permission, &filter).is_none());
}

/// PM-02: an answer for the session holds as long as that, one for always for its repository, and both over a restart; one
/// for once leaves nothing.
#[test]
fn an_answer_reaches_as_far_as_it_says() {
    let mut desk = Desk::new();
    let opened = desk.ok::<SessionOpen>(&person(), SessionOpenParams::default()).session_id;
    let mut params = background();
    params.session_id = Some(opened.clone());
    let task = desk.spawn(params);
    desk.started(task);
    let id = ask(&mut desk, task).id;
    desk.ok::<AskRespond>(&person(), allow(id, AskScope::Once));
    assert_eq!(desk.core.granted(&opened, "/repo"), Granted::default());
    for scope in [AskScope::Session, AskScope::Always, AskScope::Always] {
        let id = ask(&mut desk, task).id;
        desk.ok::<AskRespond>(&person(), allow(id, scope));
    }
    desk.restart();
    let granted = desk.core.granted(&opened, "/repo");
    let of_session = vec![(PermissionBehavior::Allow, "Bash(make)".into())];
    assert_eq!((granted.session, granted.local), (of_session, vec!["Bash(make)".into()]));
    assert_eq!(granted.project, []);
    assert_eq!(desk.core.granted(&SessionId::main(), "/other"), Granted::default());
    let close = SessionCloseParams { session_id: opened.clone(), keep_teams: None };
    desk.ok::<SessionClose>(&person(), close);
    assert!(desk.core.granted(&opened, "/repo").session.is_empty());
}

/// I11, L1: an answer that this ask can't take is refused with its place, and the ask waits on.
#[test]
fn an_answer_that_does_not_fit_is_refused() {
    let mut desk = Desk::new();
    let task = running(&mut desk);
    let opaque = try_ask(&mut desk, task, 1, asked(&[])).unwrap().id;
    let known = ask(&mut desk, task).id;
    let denied = AskRespondParams { behavior: AskBehavior::Deny, ..allow(known, AskScope::Session) };
    let answers = AskRespondParams {
        answers: Some([("a".into(), "b".into())].into()),
        ..answer(known, AskBehavior::Allow)
    };
    let long = AskRespondParams { message: Some("x".repeat(40_000)), ..answer(known, AskBehavior::Deny) };
    for (params, path) in [
        (allow(opaque, AskScope::Always), "scope"),
        (denied, "scope"),
        (answers, "answers"),
        (long, "message"),
    ] {
        let refused = desk.refused::<AskRespond>(&person(), params, Kind::InvalidParams);
        assert_eq!(refused.data["path"], path, "{refused}");
    }
    let input = |input| AskRespondParams { updated_input: Some(input), ..answer(known, AskBehavior::Allow) };
    let (text, other) = (input(json!("rm")), input(json!({ "command": "make all" })));
    let large = input(json!({ "command": "x".repeat(SHOWN_MOST) }));
    let denied = AskRespondParams { behavior: AskBehavior::Deny, ..other.clone() };
    let further = AskRespondParams { scope: Some(AskScope::Session), ..other.clone() };
    let mode = AskRespondParams { mode: Some("acceptEdits".into()), ..answer(known, AskBehavior::Allow) };
    for (params, path) in [
        (text, "updatedInput"),
        (large, "updatedInput"),
        (denied, "updatedInput"),
        (further, "scope"),
        (mode, "mode"),
    ] {
        let refused = desk.refused::<AskRespond>(&person(), params, Kind::InvalidParams);
        assert_eq!(refused.data["path"], path, "{refused}");
    }
    desk.refused::<AskRespond>(&person(), answer(AskId(99), AskBehavior::Deny), Kind::NotFound);
    assert_eq!(desk.get(task).pending_asks, 2);
    let answered = desk.ok::<AskRespond>(&person(), other).answer.unwrap();
    assert_eq!(answered.updated_input, Some(json!({ "command": "make all" })));
}

/// PM-09, I2: what a person makes of the part of an input that they were shown does not stand for all of it: the ask
/// waits on, and is answered without.
#[test]
fn an_input_that_is_shown_in_part_is_not_changed() {
    let mut desk = Desk::new();
    let task = running(&mut desk);
    let mut asked = asked(&[]);
    let What::Permission { cut, .. } = &mut asked.what else { panic!("{asked:?}") };
    *cut = true;
    let id = try_ask(&mut desk, task, 1, asked).unwrap().id;
    let changed = AskRespondParams {
        updated_input: Some(json!({ "command": "make" })),
        ..answer(id, AskBehavior::Allow)
    };
    let refused = desk.refused::<AskRespond>(&person(), changed, Kind::InvalidParams);
    assert_eq!(refused.data["path"], "updatedInput");
    assert_eq!(desk.get(task).pending_asks, 1);
    desk.ok::<AskRespond>(&person(), answer(id, AskBehavior::Allow));
}

/// I8: asks are bounded in size and number; of those that are over the oldest are forgotten.
#[test]
fn asks_are_bounded() {
    let mut desk = Desk::new();
    let task = running(&mut desk);
    let large = Asked { what: What::Plan { plan: "x".repeat(SHOWN_MOST + 1).into() }, ..plan() };
    assert_eq!(try_ask(&mut desk, task, 1, large).unwrap_err().kind, Kind::InvalidParams);
    let ids: Vec<AskId> = (0..OF_TASK_MOST).map(|_| ask(&mut desk, task).id).collect();
    assert_eq!(try_ask(&mut desk, task, 1, asked(&[])).unwrap_err().kind, Kind::Overloaded);
    for id in ids {
        desk.ok::<AskRespond>(&person(), answer(id, AskBehavior::Deny));
    }
    for _ in 0..=(CLOSED_MOST - OF_TASK_MOST) {
        let id = ask(&mut desk, task).id;
        desk.ok::<AskRespond>(&person(), answer(id, AskBehavior::Deny));
    }
    desk.refused::<AskGet>(&person(), AskGetParams { ask_id: AskId(1) }, Kind::NotFound);
    assert_eq!(state(&mut desk, AskId(2)), AskState::Answered);
}

/// I1, I4, L1: an ask that waited while many later ones were closed keeps its answer: what was closed first is forgotten.
#[test]
fn a_late_answer_is_not_forgotten_at_once() {
    let mut desk = Desk::new();
    let task = running(&mut desk);
    let late = ask(&mut desk, task).id;
    let others: Vec<AskId> = (0..CLOSED_MOST)
        .map(|_| {
            let id = ask(&mut desk, task).id;
            desk.ok::<AskRespond>(&person(), answer(id, AskBehavior::Deny));
            id
        })
        .collect();
    desk.after(1);
    desk.ok::<AskRespond>(&person(), answer(late, AskBehavior::Allow));
    assert_eq!(state(&mut desk, late), AskState::Answered);
    desk.refused::<AskGet>(&person(), AskGetParams { ask_id: others[0] }, Kind::NotFound);
    desk.restart();
    let id = ask(&mut desk, task).id;
    desk.ok::<AskRespond>(&person(), answer(id, AskBehavior::Deny));
    desk.refused::<AskGet>(&person(), AskGetParams { ask_id: others[1] }, Kind::NotFound);
}
