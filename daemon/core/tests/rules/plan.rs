//! Plans: how an agent comes to plan, and what an answer to its plan makes of its mode.

use std::sync::Arc;

use ccagent_core::input::Report;
use ccagent_core::task::Brief;
use ccagent_core::{Caller, Input};
use ccagent_proto::ask::{AskBehavior, AskRespondParams};
use ccagent_proto::method::{AskRespond, SessionGet, SessionOpen, SessionPrompt, SessionSetMode};
use ccagent_proto::session::{SessionGetParams, SessionOpenParams, SessionPromptParams, SessionSetParams};
use ccagent_proto::{AskId, Kind, SessionId, TaskId};

use crate::ask::{answer, plan, try_ask};
use crate::desk::{Desk, member, person, teammate};
use crate::message::team;

/// A session's lead at work, in a mode.
fn lead(desk: &mut Desk, mode: &str) -> (SessionId, TaskId) {
    let params = SessionOpenParams { permission_mode: Some(mode.into()), ..SessionOpenParams::default() };
    let opened = desk.ok::<SessionOpen>(&person(), params);
    let brief = Brief { model: "offline".into(), permission_mode: mode.into(), ..Brief::default() };
    let caller = Caller { brief: Some(Arc::new(brief)), ..person() };
    let session_id = Some(opened.session_id.clone());
    let params = SessionPromptParams { session_id, text: "go".into(), ..SessionPromptParams::default() };
    let task = desk.ok::<SessionPrompt>(&caller, params).task_id;
    desk.report(task, Report::Began);
    (opened.session_id, task)
}

fn mode_of(desk: &mut Desk, (session, task): &(SessionId, TaskId)) -> (String, String) {
    let session = desk.ok::<SessionGet>(&person(), SessionGetParams { session_id: session.clone() });
    (session.permission_mode, desk.get(*task).permission_mode)
}

fn both(mode: &str) -> (String, String) {
    (mode.to_owned(), mode.to_owned())
}

fn planned(desk: &mut Desk, task: TaskId) -> AskId {
    try_ask(desk, task, 1, plan()).unwrap().id
}

fn approve(id: AskId, mode: Option<&str>) -> AskRespondParams {
    AskRespondParams { mode: mode.map(Into::into), ..answer(id, AskBehavior::Allow) }
}

/// PL-03, PL-05: planning is the mode of the session and of its lead, over a restart as well; a plan that is
/// refused changes nothing, and one that is approved leads back to the mode from before.
#[test]
fn an_approved_plan_leads_back() {
    let mut desk = Desk::new();
    let lead = lead(&mut desk, "acceptEdits");
    desk.input(Input::Plans((lead.1, 1)));
    assert_eq!(desk.events(), ["task.status", "session.updated"]);
    assert_eq!(mode_of(&mut desk, &lead), both("plan"));
    assert_eq!(desk.core.setting(lead.1).unwrap().mode, "plan");
    // Said again, it is still known what was before.
    desk.input(Input::Plans((lead.1, 1)));
    let refused = planned(&mut desk, lead.1);
    let words = AskRespondParams { message: Some("smaller".into()), ..answer(refused, AskBehavior::Deny) };
    assert_eq!(desk.ok::<AskRespond>(&person(), words).answer.unwrap().message.as_deref(), Some("smaller"));
    assert_eq!(mode_of(&mut desk, &lead), both("plan"));
    let again = planned(&mut desk, lead.1);
    desk.ok::<AskRespond>(&person(), approve(again, None));
    assert_eq!(mode_of(&mut desk, &lead), both("acceptEdits"));
    desk.restart();
    assert_eq!(mode_of(&mut desk, &lead), both("acceptEdits"));
}

/// E73, I1: a daemon that ends while a plan waits leaves the session in plan mode, and what was before it is still known.
#[test]
fn planning_outlives_the_daemon() {
    let mut desk = Desk::new();
    let lead = lead(&mut desk, "acceptEdits");
    desk.input(Input::Plans((lead.1, 1)));
    let id = planned(&mut desk, lead.1);
    desk.restart();
    desk.refused::<AskRespond>(&person(), approve(id, None), Kind::AskAnswered);
    assert_eq!(mode_of(&mut desk, &lead), both("plan"));
    let params = SessionPromptParams {
        session_id: Some(lead.0.clone()),
        text: "go on".into(),
        ..SessionPromptParams::default()
    };
    assert_eq!(desk.ok::<SessionPrompt>(&person(), params).attempt, 2);
    desk.report(lead.1, Report::Began);
    let id = try_ask(&mut desk, lead.1, 2, plan()).unwrap().id;
    desk.ok::<AskRespond>(&person(), approve(id, None));
    assert_eq!(mode_of(&mut desk, &lead), both("acceptEdits"));
}

/// PL-03, I11: a person says in which mode a plan is carried out, if another one; what is no such mode is refused with its
/// place, and the plan waits on. Who changed the mode meanwhile is not overruled.
#[test]
fn a_plan_is_carried_out_in_the_mode_that_was_given() {
    let mut desk = Desk::new();
    let lead = lead(&mut desk, "plan");
    let id = planned(&mut desk, lead.1);
    let denied = AskRespondParams { behavior: AskBehavior::Deny, ..approve(id, Some("default")) };
    for params in [approve(id, Some("plan")), approve(id, Some("bubble")), approve(id, Some("loud")), denied]
    {
        assert_eq!(desk.refused::<AskRespond>(&person(), params, Kind::InvalidParams).data["path"], "mode");
    }
    let kept = desk.ok::<AskRespond>(&person(), approve(id, Some("acceptEdits"))).answer.unwrap();
    assert_eq!((kept.mode.as_deref(), mode_of(&mut desk, &lead)), (Some("acceptEdits"), both("acceptEdits")));

    desk.input(Input::Plans((lead.1, 1)));
    let id = planned(&mut desk, lead.1);
    let session_id = Some(lead.0.clone());
    desk.ok::<SessionSetMode>(&person(), SessionSetParams { session_id, value: "dontAsk".into() });
    desk.ok::<AskRespond>(&person(), approve(id, None));
    assert_eq!(mode_of(&mut desk, &lead), both("dontAsk"));

    // Nobody planned before it began: the usual mode is the one to go on with.
    let first = self::lead(&mut desk, "plan");
    let id = planned(&mut desk, first.1);
    desk.ok::<AskRespond>(&person(), approve(id, None));
    assert_eq!(mode_of(&mut desk, &first), both("default"));
}

/// A14, D54: a run that is over, or being stopped, does not change what the next one may do.
#[test]
fn a_run_that_is_over_does_not_plan() {
    let mut desk = Desk::new();
    let lead = lead(&mut desk, "default");
    for run in [(lead.1, 2), (lead.1, 0)] {
        assert_eq!(desk.try_input(Input::Plans(run)).unwrap_err().kind, Kind::AlreadyTerminal);
    }
    desk.restart();
    assert_eq!(desk.try_input(Input::Plans((lead.1, 1))).unwrap_err().kind, Kind::AlreadyTerminal);
    assert_eq!(mode_of(&mut desk, &lead), both("default"));
}

/// G5, I11: a team's lead approves its members' plans, and gives with that no mode that asks for less.
#[test]
fn a_lead_gives_no_mode_that_asks_for_less() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &[]);
    let bob = desk.spawn(teammate("red", "bob"));
    desk.started(bob);
    let of_bob = planned(&mut desk, bob);
    let lead = member(10, "red", "lead");
    for mode in ["acceptEdits", "bypassPermissions"] {
        let wide = desk.refused::<AskRespond>(&lead, approve(of_bob, Some(mode)), Kind::NotAuthorised);
        assert_eq!((&wide.data["needs"], &wide.data["path"]), (&"operator".into(), &"mode".into()));
    }
    let answered = desk.ok::<AskRespond>(&lead, approve(of_bob, Some("default")));
    assert_eq!(answered.answered_by.as_deref(), Some("lead@red"));
}
