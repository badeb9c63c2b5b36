//! Teams: members come and go; their names and mailboxes stay.

use ccagent_core::{Caller, Effect, Input};
use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::mailbox::MailboxPollParams;
use ccagent_proto::method::{
    AgentExplain, AgentSpawn, MailboxPoll, MessageSend, TaskList, TaskResume, TeamCreate, TeamDelete,
    TeamGet, TeamHeartbeat, TeamJoin, TeamLeave, TeamList,
};
use ccagent_proto::session::PageParams;
use ccagent_proto::task::{TaskListParams, TaskResumeParams};
use ccagent_proto::team::{Presence, TeamCreateParams, TeamDeleteParams, TeamGetParams, TeamJoinParams};
use ccagent_proto::{Empty, Kind};

use crate::desk::{Desk, agent, background, foreground, member, person, teammate};
use crate::message::{team, to};

fn join(name: &str) -> TeamJoinParams {
    TeamJoinParams { team_name: "red".into(), name: name.into(), ..TeamJoinParams::default() }
}

fn with_token(name: &str, token: &str) -> TeamJoinParams {
    TeamJoinParams { token: Some(token.into()), ..join(name) }
}

fn of(desk: &mut Desk, name: &str) -> ccagent_proto::team::Member {
    let team = desk.ok::<TeamGet>(&person(), TeamGetParams { name: "red".into() });
    team.members.into_iter().find(|member| member.name == name).unwrap()
}

/// TM-02, TM-03, TM-08, TM-10: a new team has its lead alone, and is found.
#[test]
fn a_new_team_has_its_lead_alone() {
    let mut desk = Desk::new();
    let params = TeamCreateParams { name: Some("red".into()), ..TeamCreateParams::default() };
    let made = desk.ok::<TeamCreate>(&person(), params.clone());
    assert_eq!((made.lead_agent_id.as_str(), made.members.len()), ("team-lead@red", 1));
    assert_eq!(
        (made.members[0].agent_id.as_str(), made.members[0].presence),
        ("team-lead@red", Presence::Absent)
    );
    desk.refused::<TeamCreate>(&person(), params, Kind::TeamExists);
    assert_eq!(desk.ok::<TeamList>(&person(), PageParams::default()).teams.len(), 1);
    for bad in ["../x", "a/b", "main"] {
        let params = TeamCreateParams { name: Some(bad.into()), ..TeamCreateParams::default() };
        desk.refused::<TeamCreate>(&person(), params, Kind::InvalidParams);
    }
}

/// A team without a name gets one that is free.
#[test]
fn a_team_without_a_name_gets_a_free_one() {
    let mut desk = Desk::new();
    let mut create = || desk.ok::<TeamCreate>(&person(), TeamCreateParams::default()).name;
    assert_eq!((create(), create()), ("team-1".to_owned(), "team-2".to_owned()));
    desk.ok::<TeamDelete>(&person(), TeamDeleteParams { name: "team-1".into(), force: None });
    assert_eq!(desk.ok::<TeamCreate>(&person(), TeamCreateParams::default()).name, "team-1");
}

/// TM-02, D62: a list of a team that is not there is refused and not empty, as far as its caller may know of teams; whether
/// one that is gone left anything, the archive knows.
#[test]
fn a_list_of_no_team_is_refused() {
    let mut desk = Desk::new();
    desk.ok::<TeamCreate>(&person(), TeamCreateParams { name: Some("red".into()), ..Default::default() });
    let of = |name: &str| TaskListParams { team_name: Some(name.into()), ..TaskListParams::default() };
    assert!(desk.ok::<TaskList>(&person(), of("red")).tasks.is_empty());
    let refused = desk.refused::<TaskList>(&person(), of("blue"), Kind::NoTeam);
    assert_eq!(refused.data["teams"], serde_json::json!(["red"]));
    let all = TaskListParams { all: Some(true), ..of("blue") };
    assert!(desk.ok::<TaskList>(&person(), all).tasks.is_empty());
    let id = desk.spawn(crate::desk::background());
    assert!(desk.ok::<TaskList>(&agent(id), of("blue")).tasks.is_empty());
}

/// A name with a live connection is taken; a token resumes the same generation, none begins the next.
#[test]
fn a_token_resumes_the_same_generation() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &[]);
    let first = desk.ok::<TeamJoin>(&Caller::operator(20), join("ann"));
    assert_eq!((first.member.generation, first.member.presence), (1, Presence::Connected));
    desk.refused::<TeamJoin>(&Caller::operator(21), join("ann"), Kind::NameTaken);
    desk.refused::<TeamJoin>(&Caller::operator(21), with_token("ann", &first.token), Kind::NameTaken);
    desk.input(Input::Disconnected(20));
    assert_eq!(of(&mut desk, "ann").presence, Presence::Absent);
    desk.refused::<TeamJoin>(&Caller::operator(21), with_token("ann", "wrong"), Kind::NotAuthorised);
    let again = desk.ok::<TeamJoin>(&Caller::operator(21), with_token("ann", &first.token));
    assert_eq!((again.member.generation, &again.token), (1, &first.token));
    desk.input(Input::Disconnected(21));
    let other = desk.ok::<TeamJoin>(&Caller::operator(22), join("ann"));
    assert_eq!(other.member.generation, 2);
    assert_ne!(other.token, first.token);
}

/// A connection is one member at a time: the name that it gave up is free.
#[test]
fn a_connection_is_one_member_at_a_time() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &[]);
    desk.ok::<TeamJoin>(&Caller::operator(20), join("ann"));
    desk.ok::<TeamJoin>(&Caller::operator(20), join("bob"));
    desk.ok::<TeamJoin>(&Caller::operator(21), join("ann"));
    assert_eq!(of(&mut desk, "bob").presence, Presence::Connected);
}

/// An agent joins only as the member that it was spawned as, or with a token.
#[test]
fn an_agent_joins_as_itself() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &["bob"]);
    let task = desk.spawn(teammate("red", "ann"));
    let caller = agent(task);
    desk.refused::<TeamJoin>(&caller, join("bob"), Kind::NotAuthorised);
    desk.refused::<TeamJoin>(&caller, join("cid"), Kind::NotAuthorised);
    let joined = desk.ok::<TeamJoin>(&caller, join("ann"));
    assert_eq!((joined.member.task_id, joined.member.generation), (Some(task), 1));
    desk.refused::<TeamJoin>(&Caller::operator(30), join("ann"), Kind::NameTaken);
}

/// A14: a member is there while its connection is; that identity and its token are worth nothing after it left.
#[test]
fn a_member_is_its_connection_until_it_leaves() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &[]);
    let token = desk.ok::<TeamJoin>(&Caller::operator(20), join("ann")).token;
    desk.input(Input::Disconnected(20));
    assert_eq!(of(&mut desk, "ann").presence, Presence::Absent);
    let ann = member(21, "red", "ann");
    desk.refused::<TeamHeartbeat>(&ann, Empty {}, Kind::NoMember);
    desk.ok::<TeamJoin>(&Caller::operator(21), with_token("ann", &token));
    assert_eq!(desk.ok::<TeamHeartbeat>(&ann, Empty {}).presence, Presence::Connected);
    desk.ok::<TeamLeave>(&ann, Empty {});
    assert_eq!(of(&mut desk, "ann").presence, Presence::Ended);
    desk.refused::<TeamHeartbeat>(&ann, Empty {}, Kind::NoMember);
    assert_eq!(desk.core.member_by_token(&token), None);
    desk.refused::<TeamJoin>(&Caller::operator(22), with_token("ann", &token), Kind::NotAuthorised);
    desk.refused::<TeamHeartbeat>(&person(), Empty {}, Kind::NoMember);
}

/// H104, H105: a member whose task ended is ended by itself, and its name is free again.
#[test]
fn a_member_ends_with_its_task() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &[]);
    let first = desk.spawn(teammate("red", "ann"));
    desk.refused::<AgentSpawn>(&person(), teammate("red", "ann"), Kind::NameTaken);
    desk.exited(first, 0);
    let view = of(&mut desk, "ann");
    assert_eq!((view.presence, view.is_active), (Presence::Ended, Some(false)));
    let second = desk.spawn(teammate("red", "ann"));
    let view = of(&mut desk, "ann");
    assert_eq!((view.task_id, view.generation, view.is_active), (Some(second), 2, None));
    desk.refused::<AgentSpawn>(&person(), teammate("red", "lead"), Kind::NameTaken);
    desk.refused::<AgentSpawn>(&person(), teammate("blue", "ann"), Kind::NoTeam);
}

/// TM-11, G96: members that are active block a deletion; forced, it ends what they run.
#[test]
fn a_team_with_active_members_is_not_deleted() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &["bob"]);
    let task = desk.spawn(teammate("red", "ann"));
    let delete = |force| TeamDeleteParams { name: "red".into(), force };
    let error = desk.refused::<TeamDelete>(&person(), delete(None), Kind::MembersActive);
    assert_eq!(error.data["members"], serde_json::json!(["bob", "ann"]));
    desk.ok::<TeamDelete>(&person(), delete(Some(true)));
    assert_eq!(desk.stops(), [(task, 10_000)]);
    desk.refused::<TeamHeartbeat>(&member(11, "red", "bob"), Empty {}, Kind::NoMember);
    // A team of the same name is another one: the old connections are nobody there.
    team(&mut desk, "red", &[]);
    desk.refused::<TeamHeartbeat>(&member(11, "red", "bob"), Empty {}, Kind::NoMember);
}

/// H101: teams and their members are there after a restart; connections are not.
#[test]
fn a_team_outlives_the_daemon() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &["ann"]);
    let token = {
        desk.input(Input::Disconnected(11));
        desk.ok::<TeamJoin>(&Caller::operator(11), join("ann")).token
    };
    desk.restart();
    assert_eq!(of(&mut desk, "ann").presence, Presence::Absent);
    assert_eq!(desk.core.member_by_token(&token), Some(("red".to_owned(), "ann".into())));
    desk.ok::<TeamJoin>(&Caller::operator(40), with_token("ann", &token));
}

/// TM-09, SP-36: the lead adds members when it wants to; a teammate does not.
#[test]
fn only_the_lead_adds_members() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &["ann"]);
    let lead = member(10, "red", "lead");
    desk.ok::<AgentSpawn>(&lead, teammate("red", "bob"));
    desk.ok::<AgentSpawn>(&lead, teammate("red", "cid"));
    let error =
        desk.refused::<AgentSpawn>(&member(11, "red", "ann"), teammate("red", "dee"), Kind::SpawnRefused);
    assert_eq!((&error.data["role"], &error.data["needs"]), (&"teammate".into(), &"lead".into()));
    let loner = AgentSpawnParams { name: None, ..teammate("red", "x") };
    desk.ok::<AgentSpawn>(&member(11, "red", "ann"), loner);
}

/// A14, A17: a name has one holder: who had it before can't run under it, and has it again once it is free.
#[test]
fn a_name_has_one_holder() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &[]);
    let first = desk.completed(teammate("red", "ann"));
    let second = desk.spawn(teammate("red", "ann"));
    let resume = || TaskResumeParams { task_id: first.to_string(), ..TaskResumeParams::default() };
    desk.refused::<TaskResume>(&person(), resume(), Kind::NameTaken);
    desk.ok::<MessageSend>(&person(), to("ann@red"));
    desk.exited(second, 0);
    desk.ok::<TaskResume>(&person(), resume());
    let view = of(&mut desk, "ann");
    assert_eq!((view.task_id, view.generation, view.is_active), (Some(first), 3, None));
    let poll = |desk: &mut Desk, caller: &Caller| {
        desk.ok::<MailboxPoll>(caller, MailboxPollParams::default()).messages.len()
    };
    assert_eq!((poll(&mut desk, &agent(first)), poll(&mut desk, &person())), (0, 1));
    desk.ok::<MessageSend>(&person(), to("ann@red"));
    assert_eq!(poll(&mut desk, &agent(first)), 1);

    desk.exited(first, 0);
    desk.ok::<TeamJoin>(&Caller::operator(20), join("ann"));
    desk.refused::<TaskResume>(&person(), resume(), Kind::NameTaken);
}

/// A14: the name of a member that left is free once its program has ended.
#[test]
fn a_member_that_left_has_its_name_while_it_runs() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &[]);
    let first = desk.spawn(teammate("red", "ann"));
    desk.ok::<TeamLeave>(&agent(first), Empty {});
    desk.refused::<AgentSpawn>(&person(), teammate("red", "ann"), Kind::NameTaken);
    desk.exited(first, 0);
    desk.ok::<AgentSpawn>(&person(), teammate("red", "ann"));
}

/// A14, A17, I11: what still runs of a deleted team is nobody in the next one of that name: neither its mail nor its
/// name are for it, and the new lead does not steer it.
#[test]
fn an_agent_of_a_deleted_team_is_nobody_in_the_next() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &[]);
    let old = desk.spawn(teammate("red", "ann"));
    desk.ok::<TeamDelete>(&person(), TeamDeleteParams { name: "red".into(), force: Some(true) });
    desk.now += 1;
    team(&mut desk, "red", &[]);
    let new = desk.spawn(teammate("red", "ann"));
    desk.ok::<MessageSend>(&person(), to("ann@red"));
    let (ann, lead) = (agent(old), member(10, "red", "lead"));
    assert!(desk.ok::<MailboxPoll>(&ann, MailboxPollParams::default()).messages.is_empty());
    desk.refused::<TeamGet>(&ann, TeamGetParams { name: "red".into() }, Kind::NotAuthorised);
    desk.refused::<TeamHeartbeat>(&ann, Empty {}, Kind::NoMember);
    desk.refused::<TeamLeave>(&ann, Empty {}, Kind::NoMember);
    desk.refused::<TeamJoin>(&ann, join("ann"), Kind::NotAuthorised);
    desk.ok::<MessageSend>(&ann, to("lead@red"));
    let messages = desk.ok::<MailboxPoll>(&lead, MailboxPollParams::default()).messages;
    assert_eq!(messages[0].from, old.to_string());
    let seen: Vec<_> = desk.ok::<TaskList>(&lead, TaskListParams::default()).tasks;
    assert_eq!(seen.iter().map(|task| task.id).collect::<Vec<_>>(), [new]);
    desk.exited(old, 0);
    let of_team = desk.effects.iter().any(
        |effect| matches!(effect, Effect::Event(happened) if happened.about.team.as_deref() == Some("red")),
    );
    assert!(!of_team, "{:?}", desk.effects);
}

/// A14: whose task is whose does not follow the clock, which may be set back over a restart.
#[test]
fn a_clock_that_was_set_back_makes_nobody_a_member() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &[]);
    desk.spawn(teammate("red", "ann"));
    desk.ok::<TeamDelete>(&person(), TeamDeleteParams { name: "red".into(), force: Some(true) });
    desk.now -= 1_000_000;
    desk.restart();
    team(&mut desk, "red", &[]);
    desk.now -= 1_000_000;
    let new = desk.completed(teammate("red", "ann"));
    let newest = desk.spawn(teammate("red", "ann"));
    let lead = member(10, "red", "lead");
    let seen: Vec<_> = desk.ok::<TaskList>(&lead, TaskListParams::default()).tasks;
    assert_eq!(seen.iter().map(|task| task.id).collect::<Vec<_>>(), [new, newest]);
}

/// SP-02: a team without a name makes no member, as the explanation says; a team that there is not is refused by name,
/// with and without one.
#[test]
fn an_agent_is_for_no_team_that_there_is_not() {
    let mut desk = Desk::new();
    for name in [None, Some("ann".to_owned())] {
        let params = AgentSpawnParams { team_name: Some("red".into()), name, ..background() };
        let error = desk.refused::<AgentSpawn>(&person(), params.clone(), Kind::NoTeam);
        assert!(error.message.contains("\"red\""), "{error}");
        desk.refused::<AgentExplain>(&person(), params, Kind::NoTeam);
    }
    team(&mut desk, "red", &[]);
    let alone = AgentSpawnParams { team_name: Some("red".into()), ..foreground() };
    let explained = desk.ok::<AgentExplain>(&person(), alone.clone());
    assert_eq!(explained.route, "sync");
    assert!(explained.reasons.iter().any(|reason| reason.contains("give name")), "{:?}", explained.reasons);
    let explained =
        desk.ok::<AgentExplain>(&person(), AgentSpawnParams { run_in_background: Some(true), ..alone });
    assert_eq!(explained.route, "background");
    assert!(explained.reasons.iter().any(|reason| reason.contains("give name")), "{:?}", explained.reasons);
}
