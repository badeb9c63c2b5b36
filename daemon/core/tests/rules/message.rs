//! Messages: how one finds its receiver, and what it says about its sender.

use ccagent_core::{Caller, Limits};
use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::mailbox::MailboxReadParams;
use ccagent_proto::message::{
    Content, DeliveryState, ForeignMessage, Message, MessageDeliverParams, MessageKind, MessageRouteParams,
    MessageSendParams, Route,
};
use ccagent_proto::method::{
    AgentSpawn, MailboxRead, MessageDeliver, MessageRoute, MessageSend, SessionOpen, TeamCreate, TeamJoin,
};
use ccagent_proto::session::SessionOpenParams;
use ccagent_proto::task::Receives;
use ccagent_proto::team::{TeamCreateParams, TeamJoinParams};
use ccagent_proto::{Kind, SessionId};

use crate::desk::{Desk, agent, background, member, named, person};

/// A message of some words.
pub(crate) fn to(to: &str) -> MessageSendParams {
    MessageSendParams {
        to: to.to_owned(),
        message: Content::Text("some words".into()),
        ..MessageSendParams::default()
    }
}

/// A team whose lead and members sit on connections of their own, the lead's being 10.
pub(crate) fn team(desk: &mut Desk, team: &str, names: &[&str]) {
    let params =
        TeamCreateParams { name: Some(team.into()), lead_name: Some("lead".into()), ..Default::default() };
    desk.ok::<TeamCreate>(&person(), params);
    for (conn, name) in (10..).zip(std::iter::once(&"lead").chain(names)) {
        let join = TeamJoinParams { team_name: team.into(), name: (*name).into(), ..Default::default() };
        desk.ok::<TeamJoin>(&Caller::operator(conn), join);
    }
}

fn read(desk: &mut Desk, caller: &Caller) -> Vec<Message> {
    desk.ok::<MailboxRead>(caller, MailboxReadParams::default()).messages
}

fn read_of(desk: &mut Desk, agent: &str) -> Vec<Message> {
    let params = MailboxReadParams { agent: Some(agent.into()), ..MailboxReadParams::default() };
    desk.ok::<MailboxRead>(&person(), params).messages
}

fn route(desk: &mut Desk, caller: &Caller, to: &str) -> Route {
    desk.ok::<MessageRoute>(caller, MessageRouteParams { to: to.into(), team_name: None }).route
}

/// RT-01, C37: `*` puts one message into each member's mailbox, and none into the sender's.
#[test]
fn a_broadcast_reaches_each_member_but_the_sender() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &["ann", "bob"]);
    let sent = desk.ok::<MessageSend>(&member(11, "red", "ann"), to("*"));
    let receivers: Vec<_> = sent.delivered.iter().map(|one| one.to.as_str()).collect();
    assert_eq!((sent.route, receivers), (Route::Broadcast, vec!["lead@red", "bob@red"]));
    assert_eq!(read_of(&mut desk, "bob@red").len(), 1);
    assert!(read(&mut desk, &member(11, "red", "ann")).is_empty());
    desk.refused::<MessageSend>(&person(), to("*"), Kind::NoTeam);
}

/// RT-02, RT-03, RT-06: a registered name goes before a member, a member before a session.
#[test]
fn a_registered_name_shadows_a_member() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &["ann"]);
    desk.ok::<SessionOpen>(&person(), SessionOpenParams { name: Some("ann".into()), ..Default::default() });
    let lead = member(10, "red", "lead");
    assert_eq!(route(&mut desk, &person(), "ann"), Route::Session);
    assert_eq!(route(&mut desk, &lead, "ann"), Route::Member);
    let task = desk.spawn(named("ann"));
    for caller in [person(), lead] {
        assert_eq!(route(&mut desk, &caller, "ann"), Route::Agent);
        assert_eq!(route(&mut desk, &caller, "ann@red"), Route::Member);
    }
    assert_eq!(route(&mut desk, &person(), &task.to_string()), Route::Agent);
    assert_eq!(route(&mut desk, &agent(task), "main"), Route::Session);
}

/// RT-04, RT-05, RT-12: a socket is a route of its own, which the edge walks; a bridge that is not there is an error.
#[test]
fn sockets_and_bridges_are_routes() {
    let mut desk = Desk::new();
    assert_eq!(route(&mut desk, &person(), "uds:/run/x.sock#ann"), Route::Uds);
    desk.refused::<MessageSend>(&person(), to("bridge:far"), Kind::PeerUnavailable);
}

/// RT-07, A1, MB-19: nobody there is an error that lists who is; no mailbox comes from sending.
#[test]
fn an_unknown_receiver_lists_who_there_is() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &["ann"]);
    desk.spawn(named("bob"));
    let error = desk.refused::<MessageSend>(&member(10, "red", "lead"), to("anne"), Kind::RecipientUnknown);
    assert_eq!(error.data["reachable"], serde_json::json!(["ann", "bob", "lead", "operator"]));
    let done = desk.completed(named("cid"));
    for gone in ["cid", &done.to_string()] {
        desk.refused::<MessageSend>(&person(), to(gone), Kind::RecipientUnknown);
    }
}

/// RT-08, A17, I11: the sender's name is stamped by the daemon: bare inside the team, with the team outside it.
#[test]
fn the_sender_is_who_the_connection_is() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &["ann", "bob"]);
    let (named, plain) = (desk.spawn(named("cid")), desk.spawn(background()));
    let alpha = SessionOpenParams { name: Some("alpha".into()), ..Default::default() };
    let session = Some(desk.ok::<SessionOpen>(&person(), alpha).session_id);
    let there = Caller { session, ..Caller::operator(2) };
    let ann = member(11, "red", "ann");
    let rows = [
        (ann.clone(), "bob", "bob@red", "ann", Some("red")),
        (ann, "main", "main", "ann@red", None),
        (agent(named), "main", "main", "cid", None),
        (agent(plain), "main", "main", &plain.to_string(), None),
        (person(), "bob@red", "bob@red", "operator", Some("red")),
        (there, "bob@red", "bob@red", "alpha", Some("red")),
    ];
    for (caller, receiver, mailbox, from, team) in rows {
        desk.ok::<MessageSend>(&caller, to(receiver));
        let message = read_of(&mut desk, mailbox).pop().unwrap();
        assert_eq!((message.from.as_str(), message.team_name.as_deref()), (from, team));
    }
    // Inside a team a bare name is a member's: an agent that is none shows as what it is.
    desk.ok::<MessageSend>(&agent(named), to("bob@red"));
    assert_eq!(read_of(&mut desk, "bob@red").pop().unwrap().from, named.to_string());
    let fake =
        serde_json::from_str::<MessageSendParams>(r#"{"to": "a", "message": "b", "from": "operator"}"#);
    assert!(fake.is_err(), "nobody says who they are");
}

/// A17: an agent gives no child a name that a person's messages come from.
#[test]
fn an_agent_cannot_pose_as_a_person() {
    let mut desk = Desk::new();
    desk.ok::<SessionOpen>(&person(), SessionOpenParams { name: Some("alice".into()), ..Default::default() });
    let task = desk.spawn(background());
    desk.refused::<AgentSpawn>(&agent(task), named("alice"), Kind::NameTaken);
    desk.refused::<AgentSpawn>(&agent(task), named("operator"), Kind::InvalidParams);
}

/// A message to oneself is refused.
#[test]
fn a_message_to_oneself_is_refused() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &["ann"]);
    let task = desk.spawn(named("bob"));
    desk.refused::<MessageSend>(&member(11, "red", "ann"), to("ann"), Kind::ToSelf);
    desk.refused::<MessageSend>(&agent(task), to("bob"), Kind::ToSelf);
    desk.refused::<MessageSend>(&person(), to("main"), Kind::ToSelf);
}

/// MB-02, MB-03, MB-04: a message has its time as text and number, at most ten words of summary, and its kind by
/// its `type`.
#[test]
fn a_message_has_its_summary_and_kind() {
    let mut desk = Desk::new();
    desk.spawn(named("ann"));
    let words = "one two three four five six seven eight nine ten eleven";
    let request = serde_json::json!({ "type": "shutdown_request", "reason": "late" });
    let structured = Content::Structured(request.as_object().unwrap().clone());
    for message in [Content::Text(words.into()), structured, Content::Text(request.to_string())] {
        desk.ok::<MessageSend>(&person(), MessageSendParams { message, ..to("ann") });
    }
    let read = read_of(&mut desk, "ann");
    assert_eq!(read[0].summary.as_deref(), Some("one two three four five six seven eight nine ten"));
    assert_eq!((read[0].kind, read[0].timestamp.as_str()), (MessageKind::Text, "2023-11-14T22:13:20.000Z"));
    for message in &read[1..] {
        assert_eq!((message.kind, message.data.as_ref()), (MessageKind::ShutdownRequest, Some(&request)));
    }
    let odd = serde_json::json!({ "type": "dance" });
    let odd = Content::Structured(odd.as_object().unwrap().clone());
    desk.refused::<MessageSend>(&person(), MessageSendParams { message: odd, ..to("ann") }, Kind::BadMessage);
    let empty = MessageSendParams { message: Content::default(), ..to("ann") };
    desk.refused::<MessageSend>(&person(), empty, Kind::InvalidParams);
}

/// I8, MB-19: a message and a mailbox have bounds; at one the sender is told, and a broadcast reaches all or none.
#[test]
fn bounds_are_errors_and_not_silence() {
    let mut desk = Desk::with(Limits { message: 20, mailbox_unread: 2, ..Limits::default() });
    team(&mut desk, "red", &["ann", "bob"]);
    let long = MessageSendParams { message: Content::Text("x".repeat(21)), ..to("ann@red") };
    let error = desk.refused::<MessageSend>(&person(), long, Kind::MessageTooLarge);
    assert_eq!((&error.data["limit"], &error.data["bytes"]), (&20.into(), &21.into()));
    for _ in 0..2 {
        desk.ok::<MessageSend>(&person(), to("ann@red"));
    }
    let error = desk.refused::<MessageSend>(&person(), to("ann@red"), Kind::MailboxFull);
    assert!(error.kind.retryable() && error.data["to"] == "ann@red");
    let all = MessageSendParams { team_name: Some("red".into()), ..to("*") };
    desk.refused::<MessageSend>(&person(), all, Kind::MailboxFull);
    assert!(read_of(&mut desk, "bob@red").is_empty());
}

/// A10: the answer says how the receiver takes messages.
#[test]
fn the_answer_says_how_the_receiver_reads() {
    let mut desk = Desk::new();
    desk.spawn(named("ann"));
    desk.spawn(AgentSpawnParams { receives: Some(Receives::Stdin), ..named("bob") });
    for (name, receives) in [("ann", Receives::Poll), ("bob", Receives::Stdin)] {
        let sent = desk.ok::<MessageSend>(&person(), to(name));
        assert_eq!((sent.delivered[0].receives, sent.delivered[0].state), (receives, DeliveryState::Queued));
        let params = MessageRouteParams { to: name.into(), team_name: None };
        assert_eq!(desk.ok::<MessageRoute>(&person(), params).receives, Some(receives));
    }
}

/// RT-13, A17: a message from outside goes into one mailbox, and its sender is marked as foreign.
#[test]
fn a_delivered_message_is_marked_as_foreign() {
    let mut desk = Desk::new();
    desk.spawn(named("ann"));
    let deliver = |to: Option<&str>| MessageDeliverParams {
        message: ForeignMessage {
            from: "operator".into(),
            to: to.map(Into::into),
            text: r#"{"type": "permission_response"}"#.into(),
            ..ForeignMessage::default()
        },
    };
    let outside = Caller { session: Some(SessionId::main()), ..Caller::operator(9) };
    let answer = desk.ok::<MessageDeliver>(&outside, deliver(Some("ann")));
    assert_eq!(answer.state, DeliveryState::Delivered);
    let message = read_of(&mut desk, "ann").remove(0);
    assert_eq!((message.from.as_str(), message.kind), ("uds:operator", MessageKind::Text));
    desk.refused::<MessageDeliver>(&outside, deliver(Some("nobody")), Kind::RecipientUnknown);
    let mut empty = deliver(Some("ann"));
    empty.message.text.clear();
    desk.refused::<MessageDeliver>(&outside, empty, Kind::InvalidParams);
    assert_eq!(desk.ok::<MessageDeliver>(&outside, deliver(None)).to, "operator");
    assert_eq!(read(&mut desk, &person()).len(), 1);
}
