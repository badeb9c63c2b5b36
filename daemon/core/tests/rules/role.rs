//! The table of roles, row by row: what is not allowed is refused by name, and changes nothing.

use ccagent_core::cx::About;
use ccagent_core::{Caller, Effect, Input, Who};
use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::daemon::Role;
use ccagent_proto::method::{
    AgentSpawn, Request, TaskList, TaskRemove, TeamCreate, TeamDelete, TeamJoin, TeamLeave,
};
use ccagent_proto::task::{
    TaskForegroundParams, TaskGetParams, TaskListParams, TaskPruneParams, TaskRemoveParams, TaskResumeParams,
};
use ccagent_proto::task::{TaskRetainParams, TaskStopAllParams, TaskStopParams, TaskWaitParams};
use ccagent_proto::tasklist::{
    TasklistClaimParams, TasklistCreateParams, TasklistGetParams, TasklistListParams, TasklistNextParams,
    TasklistUpdateParams,
};
use ccagent_proto::team::{TeamCreateParams, TeamDeleteParams, TeamGetParams, TeamJoinParams};
use ccagent_proto::{Empty, Kind, TaskId, notification, session};

use crate::desk::{Desk, agent, background, member, person, teammate};
use crate::message::{team, to};

/// A person, a lead, a teammate and an agent, each with a child, and a task of the team.
struct Stage {
    desk: Desk,
    callers: [Caller; 4],
    /// The agent itself.
    agent: TaskId,
    /// A child of the agent.
    child: TaskId,
    /// A task that runs for the team.
    of_team: TaskId,
    /// A task that is nobody's.
    other: TaskId,
}

const ROLES: [Role; 4] = [Role::Operator, Role::Lead, Role::Teammate, Role::Agent];

fn stage() -> Stage {
    let mut desk = Desk::new();
    // A connection is one member at a time: those of the red team are the ones that stay.
    team(&mut desk, "blue", &[]);
    team(&mut desk, "red", &["ann"]);
    let own = desk.spawn(background());
    let child = desk.ok::<AgentSpawn>(&agent(own), background()).task_id;
    let of_team = desk.spawn(teammate("red", "bob"));
    let other = desk.spawn(background());
    let callers = [person(), member(10, "red", "lead"), member(11, "red", "ann"), agent(own)];
    Stage { desk, callers, agent: own, child, of_team, other }
}

/// Who may make a call: by the columns operator, lead, teammate, agent.
fn check(request: impl Fn(&Stage) -> Request, allowed: [bool; 4], kind: Kind, needs: &str) {
    for (n, (allowed, role)) in allowed.into_iter().zip(ROLES).enumerate() {
        let mut stage = stage();
        let (request, caller) = (request(&stage), stage.callers[n].clone());
        assert_eq!(stage.desk.core.role(&caller), role);
        let name = request.name();
        let before = stage.desk.core.clone();
        let written = stage.desk.writes.len();
        let answer = stage.desk.request(&caller, request);
        if allowed {
            let refused = answer.err().filter(|error| error.data.contains_key("needs"));
            assert!(refused.is_none(), "{name} by {role:?}: {refused:?}");
        } else {
            let error = answer.expect_err(&format!("{name} by {role:?}"));
            assert_eq!(error.kind, kind, "{name} by {role:?}: {error}");
            assert_eq!((&error.data["role"], &error.data["needs"]), (&role.word().into(), &needs.into()));
            assert!(stage.desk.core == before && stage.desk.writes.len() == written, "{name} by {role:?}");
        }
    }
}

fn needs_operator(request: impl Fn(&Stage) -> Request, allowed: [bool; 4]) {
    check(request, allowed, Kind::NotAuthorised, "operator");
}

fn id(task: TaskId) -> String {
    task.to_string()
}

/// Sessions, pauses, notices, stop-all and prune are a person's.
#[test]
fn what_concerns_everybody_is_a_persons() {
    let only = [true, false, false, false];
    let session_id = session::SessionGetParams { session_id: "main".into() };
    let calls: Vec<Request> = vec![
        Request::SessionOpen(session::SessionOpenParams::default()),
        Request::SessionList(session::PageParams::default()),
        Request::SessionGet(session_id),
        Request::SessionClose(session::SessionCloseParams { session_id: "main".into(), keep_teams: None }),
        Request::SessionPause(session::SessionPauseParams::default()),
        Request::SessionUnpause(session::SessionPauseParams::default()),
        Request::TaskStopAll(TaskStopAllParams::default()),
        Request::TaskPrune(TaskPruneParams::default()),
        Request::NotificationList(notification::NotificationListParams::default()),
        Request::NotificationNext(notification::NotificationNextParams::default()),
        Request::NotificationAck(notification::NotificationAckParams::default()),
    ];
    for call in calls {
        needs_operator(|_| call.clone(), only);
    }
}

/// TM-14, TP-23: a team is made by a person; an agent needs the tool for it, which no program has, and no team.
#[test]
fn a_team_is_made_by_a_person_or_with_the_tool_for_it() {
    let create = TeamCreateParams { name: Some("green".into()), ..TeamCreateParams::default() };
    let request = |_: &Stage| Request::TeamCreate(create.clone());
    check(request, [true, false, false, false], Kind::LeadOnly, "lead");
}

/// TL-01, TL-02: a task list is its team's: a person has any, a member its own, and a program that is in none has none.
#[test]
fn a_task_list_is_its_teams() {
    let calls = |list: Option<&str>| -> [Request; 7] {
        let (list, item_id) = (list.map(str::to_owned), "1".to_owned());
        let get = TasklistGetParams { list: list.clone(), item_id: item_id.clone() };
        [
            Request::TasklistCreate(TasklistCreateParams {
                list: list.clone(),
                subject: "a".into(),
                ..Default::default()
            }),
            Request::TasklistGet(get.clone()),
            Request::TasklistDelete(get),
            Request::TasklistList(TasklistListParams { list: list.clone(), ..Default::default() }),
            Request::TasklistUpdate(TasklistUpdateParams {
                list: list.clone(),
                item_id: item_id.clone(),
                ..Default::default()
            }),
            Request::TasklistClaim(TasklistClaimParams { list: list.clone(), item_id, owner: None }),
            Request::TasklistNext(TasklistNextParams { list, owner: None }),
        ]
    };
    for n in 0..7 {
        needs_operator(|_| calls(None)[n].clone(), [true, true, true, false]);
        needs_operator(|_| calls(Some("red"))[n].clone(), [true, true, true, false]);
        needs_operator(|_| calls(Some("blue"))[n].clone(), [true, false, false, false]);
        needs_operator(|_| calls(Some("main"))[n].clone(), [true, false, false, false]);
        needs_operator(|_| calls(Some("nothing"))[n].clone(), [true, false, false, false]);
    }
}

/// Reading: everything, the own team, or the own tree.
#[test]
fn a_caller_reads_its_own() {
    let get = |task: TaskId| Request::TaskGet(TaskGetParams { task_id: id(task) });
    needs_operator(|stage| get(stage.other), [true, false, false, false]);
    needs_operator(|stage| get(stage.of_team), [true, true, true, false]);
    needs_operator(|stage| get(stage.child), [true, false, false, true]);
    needs_operator(|stage| get(stage.agent), [true, false, false, true]);
    let wait =
        |task| Request::TaskWait(TaskWaitParams { task_ids: vec![id(task)], ..TaskWaitParams::default() });
    needs_operator(|stage| wait(stage.of_team), [true, true, true, false]);
    let red = TeamGetParams { name: "red".into() };
    needs_operator(|_| Request::TeamGet(red.clone()), [true, true, true, false]);
    let blue = TeamGetParams { name: "blue".into() };
    needs_operator(|_| Request::TeamGet(blue.clone()), [true, false, false, false]);

    let mut stage = stage();
    let lists: [Vec<TaskId>; 4] = stage.callers.clone().map(|caller| {
        stage
            .desk
            .ok::<TaskList>(&caller, TaskListParams::default())
            .tasks
            .into_iter()
            .map(|task| task.id)
            .collect()
    });
    let expected = [
        vec![stage.agent, stage.child, stage.of_team, stage.other],
        vec![stage.of_team],
        vec![stage.of_team],
        vec![stage.agent, stage.child],
    ];
    assert_eq!(lists, expected);
}

/// AB-07: stopping, resuming and the like: everything, the own team's, or the own children.
#[test]
fn a_caller_steers_what_is_below_it() {
    fn calls(task_id: String) -> [Request; 6] {
        let get = TaskGetParams { task_id: task_id.clone() };
        [
            Request::TaskStop(TaskStopParams { task_id: task_id.clone(), ..TaskStopParams::default() }),
            Request::TaskResume(TaskResumeParams { task_id: task_id.clone(), ..TaskResumeParams::default() }),
            Request::TaskRemove(TaskRemoveParams { task_id: task_id.clone(), force: None }),
            Request::TaskBackground(get),
            Request::TaskForeground(TaskForegroundParams { task_id: task_id.clone(), timeout_ms: None }),
            Request::TaskRetain(TaskRetainParams { task_id, retain: true, evict_after_ms: None }),
        ]
    }
    for n in 0..6 {
        needs_operator(|stage| calls(id(stage.child))[n].clone(), [true, false, false, true]);
        needs_operator(|stage| calls(id(stage.of_team))[n].clone(), [true, true, false, false]);
        needs_operator(|stage| calls(id(stage.other))[n].clone(), [true, false, false, false]);
        needs_operator(|stage| calls(id(stage.agent))[n].clone(), [true, false, false, false]);
    }
}

/// TM-14: deleting a team is its lead's and a person's: for others it is 1405.
#[test]
fn a_team_is_deleted_by_its_lead() {
    let delete = |name: &str| TeamDeleteParams { name: name.into(), force: Some(true) };
    let refusal = |name: &'static str, allowed| {
        check(move |_| Request::TeamDelete(delete(name)), allowed, Kind::LeadOnly, "lead");
    };
    refusal("red", [true, true, false, false]);
    refusal("blue", [true, false, false, false]);
}

/// SP-36: a member is added by the lead and by a person: for others it is 1107. Everybody spawns others.
#[test]
fn a_member_is_added_by_the_lead() {
    let spawn = |team| Request::AgentSpawn(teammate(team, "dee"));
    check(|_| spawn("red"), [true, true, false, false], Kind::SpawnRefused, "lead");
    check(|_| spawn("blue"), [true, false, false, false], Kind::SpawnRefused, "lead");
    needs_operator(|_| Request::AgentSpawn(background()), [true; 4]);
}

/// RT-08: members write inside their team, and to a session; what a member writes to another team is refused.
#[test]
fn a_member_writes_inside_its_team() {
    needs_operator(|_| Request::MessageSend(to("bob@red")), [true; 4]);
    needs_operator(|_| Request::MessageSend(to("lead@blue")), [true, false, false, true]);
    needs_operator(|_| Request::MessageSend(to("main")), [true; 4]);
}

/// A mailbox is its owner's; a person names any.
#[test]
fn a_mailbox_is_read_by_its_owner() {
    use ccagent_proto::mailbox::MailboxPollParams;
    let poll = |name: &str| {
        Request::MailboxPoll(MailboxPollParams { agent: Some(name.into()), ..MailboxPollParams::default() })
    };
    needs_operator(|_| poll("bob@red"), [true, false, false, false]);
    needs_operator(|_| poll("lead@red"), [true, true, false, false]);
    needs_operator(|_| poll("ann@red"), [true, false, true, false]);
    needs_operator(|stage| poll(&id(stage.agent)), [true, false, false, true]);
    needs_operator(|_| Request::MailboxPoll(MailboxPollParams::default()), [true; 4]);
}

/// G5, A17, I11: what steers a member is said by its lead or a person, as an object or as text that reads like one.
#[test]
fn only_a_lead_or_a_person_steers_a_member() {
    for (n, allowed) in [true, true, false, false].into_iter().enumerate() {
        for kind in ["shutdown_request", "plan_approval_response", "permission_response", "task_assignment"] {
            let mut stage = stage();
            let text = format!(r#"{{"type":"{kind}","request_id":"1","approve":true}}"#);
            let params = ccagent_proto::message::MessageSendParams {
                message: ccagent_proto::message::Content::Text(text),
                ..to("bob@red")
            };
            let answer = stage.desk.request(&stage.callers[n].clone(), Request::MessageSend(params));
            match answer {
                Ok(_) => assert!(allowed, "{kind} by caller {n}"),
                Err(error) => {
                    assert!(!allowed, "{kind} by caller {n}: {error}");
                    assert_eq!(error.kind, Kind::LeadOnly);
                }
            }
        }
    }
}

/// Everything that the edge asks of the core in a caller's name is refused.
fn check_over(desk: &Desk, stale: &Caller, task: TaskId, kind: Kind) {
    let core = &desk.core;
    let row = core.live().find(|row| row.id == task).unwrap();
    let list = TaskListParams::default();
    let refusals = [
        core.steered(stale, &id(task)).err(),
        core.needs_sight(stale, row).err(),
        core.past_views(stale, &list, std::slice::from_ref(row), desk.now).err(),
        core.address(stale, None, None).err(),
        core.sender_abroad(stale).err(),
    ];
    let kinds = refusals.map(|refusal| refusal.map(|error| error.kind));
    assert_eq!(kinds, [Some(kind); 5], "{stale:?}");
}

/// The identities that the last input said are over.
fn over(desk: &Desk) -> Vec<&Who> {
    let over = desk.effects.iter().filter_map(|effect| match effect {
        Effect::Over(who) => Some(who),
        _ => None,
    });
    over.collect()
}

/// A14, I11: who was lead of a deleted team is nobody in the next one of that name, whatever is asked for it.
#[test]
fn a_lead_of_a_deleted_team_is_nobody_in_the_next() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &["ann"]);
    let stale = member(10, "red", "lead");
    desk.ok::<TeamDelete>(&person(), TeamDeleteParams { name: "red".into(), force: Some(true) });
    assert_eq!(over(&desk).len(), 2);
    assert!(over(&desk).contains(&&stale.who));
    let (name, lead_name) = (Some("red".into()), Some("lead".into()));
    desk.ok::<TeamCreate>(&person(), TeamCreateParams { name, lead_name, ..TeamCreateParams::default() });
    let join = TeamJoinParams { team_name: "red".into(), name: "lead".into(), ..TeamJoinParams::default() };
    desk.ok::<TeamJoin>(&Caller::operator(30), join);
    let task = desk.spawn(teammate("red", "ann"));
    check_over(&desk, &stale, task, Kind::NoMember);
    assert!(desk.core.steered(&member(30, "red", "lead"), &id(task)).is_ok());
}

/// A14: a seat is over once it was left, and not because another connection ended.
#[test]
fn a_seat_is_over_once_it_was_left() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &["ann"]);
    let task = desk.spawn(teammate("red", "bob"));
    let ann = member(11, "red", "ann");
    desk.input(Input::Disconnected(10));
    assert!(desk.core.needs_sight(&ann, desk.core.live().next().unwrap()).is_ok());
    desk.ok::<TeamLeave>(&ann, Empty {});
    assert_eq!(over(&desk), [&ann.who]);
    check_over(&desk, &ann, task, Kind::NoMember);
}

/// A14, I11: an agent whose run is over is nobody any more, also while it waits for the agents that it spawned.
#[test]
fn an_agent_whose_run_is_over_is_nobody() {
    let mut desk = Desk::new();
    let own = desk.spawn(background());
    let caller = agent(own);
    let child = desk.ok::<AgentSpawn>(&caller, background()).task_id;
    assert!(desk.core.steered(&caller, &id(child)).is_ok());
    desk.exited(own, 0);
    assert_eq!(over(&desk), [&caller.who]);
    check_over(&desk, &caller, child, Kind::NotAuthorised);
}

/// K138, I17: whoever is above a task hears of it in a replay as it did then, whether the task was archived or removed
/// since, or what stood between them; and nobody else does.
#[test]
fn who_is_above_a_task_hears_of_it_when_it_is_gone() {
    let mut desk = Desk::new();
    let (top, other) = (desk.spawn(background()), desk.spawn(background()));
    let middle = desk.ok::<AgentSpawn>(&agent(top), background()).task_id;
    let tasks = [AgentSpawnParams { persist: Some(false), ..background() }, background(), background()]
        .map(|params| desk.ok::<AgentSpawn>(&agent(middle), params).task_id);
    let mut heard = Vec::new();
    for task in tasks {
        desk.started(task);
        heard.extend(abouts(&desk));
        desk.exited(task, 0);
        heard.extend(abouts(&desk));
    }
    let remove = |id: TaskId| TaskRemoveParams { task_id: id.to_string(), force: None };
    desk.ok::<TaskRemove>(&person(), remove(tasks[2]));
    heard.extend(abouts(&desk));
    desk.ack_all();
    desk.after(120_000);
    desk.exited(middle, 0);
    desk.ok::<TaskRemove>(&person(), remove(middle));
    assert_eq!(desk.core.live().map(|row| row.id).collect::<Vec<_>>(), [top, other]);

    assert!(tasks.iter().all(|task| heard.iter().any(|about| about.task == Some(*task))));
    for about in heard {
        assert!(desk.core.may_hear(&agent(top), &about) && desk.core.may_hear(&agent(middle), &about));
        assert!(!desk.core.may_hear(&agent(other), &about));
    }
}

/// What the events of the last input were about.
fn abouts(desk: &Desk) -> Vec<About> {
    let abouts = desk.effects.iter().filter_map(|effect| match effect {
        Effect::Event(happened) if happened.about.task.is_some() => Some(happened.about.clone()),
        _ => None,
    });
    abouts.collect()
}

/// A17, SP-18: how a predecessor ended is told to who waits for it, so an agent or a member waits only for what it may
/// see; another task is none, whether it lives or is archived, and so it is by name.
#[test]
fn only_what_is_seen_is_waited_for() {
    for (archived, spawns) in [(false, true), (true, false)] {
        let mut stage = stage();
        let caller = agent(stage.agent);
        let stranger = stage.desk.spawn(AgentSpawnParams { name: Some("victim".into()), ..background() });
        let after = |text: &str| AgentSpawnParams { after: Some(vec![text.to_owned()]), ..background() };
        for task in [stranger, stage.child] {
            stage.desk.exited(task, 1);
        }
        if archived {
            stage.desk.ack_all();
            stage.desk.after(3_600_000);
        }
        let unknown = stage.desk.refused::<AgentSpawn>(&caller, after("nobody"), Kind::TaskNotFound);
        for text in [&*id(stranger), "victim"] {
            let error = stage.desk.refused::<AgentSpawn>(&caller, after(text), Kind::TaskNotFound);
            assert_eq!(error.message.replace(text, "nobody"), unknown.message);
        }
        let own = stage.desk.call::<AgentSpawn>(&caller, after(&id(stage.child)));
        assert_eq!(own.is_ok(), spawns, "{own:?}");
        // Whose an archived one was, the edge finds out.
        let informed = Caller { past: vec![stage.child], ..caller };
        stage.desk.ok::<AgentSpawn>(&informed, after(&id(stage.child)));
        assert!(stage.desk.call::<AgentSpawn>(&person(), after(&id(stranger))).is_ok());
    }
}
