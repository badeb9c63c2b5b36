//! Mailboxes: durable and ordered; what was handed out and not acknowledged comes again.

use ccagent_core::{Caller, Input};
use ccagent_proto::mailbox::{MailboxAckParams, MailboxPollParams, MailboxReadParams};
use ccagent_proto::message::{Content, Message, MessageSendParams, MessageState};
use ccagent_proto::method::{
    MailboxAck, MailboxPoll, MailboxRead, MessageSend, TaskRemove, TaskResume, TeamDelete, TeamJoin,
    TeamLeave,
};
use ccagent_proto::task::{TaskRemoveParams, TaskResumeParams};
use ccagent_proto::team::{TeamDeleteParams, TeamJoinParams};
use ccagent_proto::{Empty, Kind, MessageId};

use crate::desk::{Desk, agent, member, named, person, teammate};
use crate::message::{team, to};

fn poll(desk: &mut Desk, caller: &Caller) -> Vec<MessageId> {
    let read = desk.ok::<MailboxPoll>(caller, MailboxPollParams::default());
    read.messages.into_iter().map(|message| message.id).collect()
}

fn read(desk: &mut Desk, caller: &Caller) -> Vec<Message> {
    desk.ok::<MailboxRead>(caller, MailboxReadParams::default()).messages
}

fn ack(desk: &mut Desk, caller: &Caller, ids: Vec<MessageId>) -> u64 {
    desk.ok::<MailboxAck>(caller, MailboxAckParams { ids, ..MailboxAckParams::default() }).acked
}

/// MB-01, MB-06, MB-18: many senders lose nothing, and the reader has all of it, oldest first.
#[test]
fn fifty_sends_are_fifty_messages_in_order() {
    let mut desk = Desk::new();
    let task = desk.spawn(named("ann"));
    for n in 0..50 {
        let message = Content::Text(format!("number {n}"));
        desk.ok::<MessageSend>(&Caller::operator(100 + n), MessageSendParams { message, ..to("ann") });
    }
    let messages = desk.ok::<MailboxPoll>(&agent(task), MailboxPollParams::default()).messages;
    assert_eq!(messages.len(), 50);
    for (n, message) in messages.iter().enumerate() {
        assert_eq!((message.text.as_str(), message.seq), (format!("number {n}").as_str(), n as u64 + 1));
    }
}

/// MB-12, MB-16, A9: pending, processing with its reader, pending again without it, gone once acknowledged.
#[test]
fn a_message_goes_from_pending_to_processed() {
    let mut desk = Desk::new();
    let task = desk.spawn(named("ann"));
    desk.ok::<MessageSend>(&person(), to("ann"));
    let (near, other) = (agent(task), Caller { conn: 51, ..agent(task) });
    assert_eq!(read(&mut desk, &near)[0].state, MessageState::Pending);
    let ids = poll(&mut desk, &near);
    assert_eq!(desk.events(), ["mail.delivered"]);
    assert_eq!(read(&mut desk, &near)[0].state, MessageState::Processing);
    assert!(poll(&mut desk, &near).is_empty() && poll(&mut desk, &other).is_empty());
    desk.input(Input::Disconnected(near.conn));
    assert_eq!(desk.events(), ["mail.returned"]);
    assert_eq!(poll(&mut desk, &other), ids);
    desk.restart();
    assert_eq!(poll(&mut desk, &other), ids);
    assert_eq!(ack(&mut desk, &other, ids.clone()), 1);
    assert_eq!(ack(&mut desk, &other, ids), 0);
    desk.restart();
    assert!(read(&mut desk, &near).is_empty());
}

/// A9, MB-12: what never reached its reader is given back alone, to its place, and by its holder only.
#[test]
fn undelivered_mail_goes_back_to_its_place() {
    let mut desk = Desk::new();
    let task = desk.spawn(named("ann"));
    for _ in 0..3 {
        desk.ok::<MessageSend>(&person(), to("ann"));
    }
    let (near, other) = (agent(task), Caller { conn: 51, ..agent(task) });
    let ids = poll(&mut desk, &near);
    desk.input(Input::ReturnMail(other.conn, ids.clone()));
    assert!(desk.events().is_empty() && poll(&mut desk, &other).is_empty());
    assert_eq!(ack(&mut desk, &near, vec![ids[2]]), 1);
    let written = desk.writes.len();
    desk.input(Input::ReturnMail(near.conn, vec![ids[2], ids[0], MessageId(77)]));
    assert_eq!((desk.events(), desk.writes.len()), (vec!["mail.returned"], written));
    let states: Vec<_> = read(&mut desk, &near).iter().map(|message| message.state).collect();
    assert_eq!(states, [MessageState::Pending, MessageState::Processing]);
    assert_eq!(poll(&mut desk, &other), [ids[0]]);
    desk.input(Input::ReturnMail(near.conn, vec![ids[1], ids[0]]));
    assert_eq!((poll(&mut desk, &near), poll(&mut desk, &other)), (vec![ids[1]], vec![]));
}

/// A6: a large text is stored beside the message, and not kept in memory.
#[test]
fn a_large_text_is_stored_apart() {
    let mut desk = Desk::new();
    desk.spawn(named("ann"));
    let message = Content::Text("x".repeat(4_000));
    desk.ok::<MessageSend>(&person(), MessageSendParams { message, ..to("ann") });
    let kinds: Vec<_> = desk.writes.iter().map(|write| write.key().0).collect();
    assert!(kinds.contains(&"body"));
    let kept: usize = desk.core.records().iter().map(|record| record.encode().unwrap().len()).sum();
    assert!(kept < 4_000);
}

/// An acknowledgement of another's message, or of none, is named and acknowledges nothing.
#[test]
fn only_ones_own_mail_can_be_acknowledged() {
    let mut desk = Desk::new();
    let (ann, bob) = (desk.spawn(named("ann")), desk.spawn(named("bob")));
    for name in ["ann", "bob"] {
        desk.ok::<MessageSend>(&person(), to(name));
    }
    let theirs = poll(&mut desk, &agent(bob));
    let own = poll(&mut desk, &agent(ann));
    for bad in [theirs[0], MessageId(0), MessageId(77)] {
        let params = MailboxAckParams { ids: vec![own[0], bad], ..MailboxAckParams::default() };
        let error = desk.refused::<MailboxAck>(&agent(ann), params, Kind::NotFound);
        assert_eq!(error.data["id"], bad.to_string());
    }
}

/// A member names its own mailbox by its bare name; another's is not for it; a person reads any.
#[test]
fn a_mailbox_is_its_owners() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &["ann"]);
    desk.ok::<MessageSend>(&person(), to("ann@red"));
    let of = |name: &str| MailboxReadParams { agent: Some(name.into()), ..MailboxReadParams::default() };
    let ann = member(11, "red", "ann");
    for name in ["ann", "ann@red"] {
        assert_eq!(desk.ok::<MailboxRead>(&ann, of(name)).messages.len(), 1);
    }
    assert_eq!(desk.ok::<MailboxRead>(&person(), of("ann@red")).messages.len(), 1);
    desk.refused::<MailboxRead>(&ann, of("lead"), Kind::NotAuthorised);
    desk.refused::<MailboxRead>(&person(), of("nobody"), Kind::NoMember);
}

/// Pages of a mailbox go on behind the last message of the page before.
#[test]
fn a_mailbox_is_read_in_pages() {
    let mut desk = Desk::new();
    let task = desk.spawn(named("ann"));
    for _ in 0..3 {
        desk.ok::<MessageSend>(&person(), to("ann"));
    }
    let page = |cursor| MailboxReadParams { limit: Some(2), cursor, ..MailboxReadParams::default() };
    let first = desk.ok::<MailboxRead>(&agent(task), page(None));
    assert_eq!((first.messages.len(), first.next_cursor.as_deref()), (2, Some("msg_2")));
    let rest = desk.ok::<MailboxRead>(&agent(task), page(first.next_cursor));
    assert_eq!((rest.messages.len(), rest.next_cursor), (1, None));
}

/// A2, I1: mail of an agent that ended waits for its resume; when it is removed, its session has it.
#[test]
fn mail_outlives_its_reader() {
    let mut desk = Desk::new();
    let task = desk.spawn(named("ann"));
    desk.ok::<MessageSend>(&person(), to("ann"));
    desk.exited(task, 0);
    let resume = TaskResumeParams { task_id: task.to_string(), ..TaskResumeParams::default() };
    desk.ok::<TaskResume>(&person(), resume);
    assert_eq!(read(&mut desk, &agent(task)).len(), 1);
    desk.exited(task, 0);
    desk.ok::<TaskRemove>(&person(), TaskRemoveParams { task_id: task.to_string(), force: None });
    assert_eq!(read(&mut desk, &person())[0].to, "ann");
}

/// A14: who takes the name of a member that ended does not read that member's mail; the team's session does.
#[test]
fn a_new_generation_does_not_read_the_old_ones_mail() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &["ann"]);
    let ann = member(11, "red", "ann");
    desk.ok::<MessageSend>(&person(), to("ann@red"));
    desk.ok::<TeamLeave>(&ann, Empty {});
    desk.refused::<MessageSend>(&person(), to("ann@red"), Kind::RecipientUnknown);
    desk.spawn(teammate("red", "ann"));
    desk.refused::<MailboxRead>(&ann, MailboxReadParams::default(), Kind::NoMember);
    assert_eq!(read(&mut desk, &person()).len(), 1);
}

/// Members that are absent still receive: the same member finds its mail when it is back.
#[test]
fn an_absent_member_still_receives() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &["ann"]);
    desk.input(Input::Disconnected(11));
    desk.ok::<MessageSend>(&person(), to("ann@red"));
    let join = TeamJoinParams { team_name: "red".into(), name: "ann".into(), ..TeamJoinParams::default() };
    desk.ok::<TeamJoin>(&Caller::operator(12), join);
    assert_eq!(read(&mut desk, &member(12, "red", "ann")).len(), 1);
}

/// I1: a deleted team's mail goes to the session that made it.
#[test]
fn a_deleted_teams_mail_is_not_lost() {
    let mut desk = Desk::new();
    team(&mut desk, "red", &["ann"]);
    desk.ok::<MessageSend>(&person(), to("ann@red"));
    desk.ok::<TeamDelete>(&person(), TeamDeleteParams { name: "red".into(), force: Some(true) });
    assert_eq!(read(&mut desk, &person())[0].to, "ann@red");
}

/// A9, I8: a page of mail is bounded in bytes as well; what does not fit is not handed out.
#[test]
fn a_page_of_mail_is_bounded_in_bytes() {
    let mut desk = Desk::new();
    let task = desk.spawn(named("ann"));
    let large = || MessageSendParams { message: Content::Text("x".repeat(1 << 20)), ..to("ann") };
    for _ in 0..9 {
        desk.ok::<MessageSend>(&person(), large());
    }
    let poll =
        |desk: &mut Desk| desk.ok::<MailboxPoll>(&agent(task), MailboxPollParams::default()).messages.len();
    assert_eq!(desk.ok::<MailboxRead>(&agent(task), MailboxReadParams::default()).messages.len(), 8);
    assert_eq!((poll(&mut desk), poll(&mut desk), poll(&mut desk)), (8, 1, 0));
}
