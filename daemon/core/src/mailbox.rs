//! Mailboxes: ordered durable inboxes.
//!
//! ```text
//! pending → processing (handed out to a connection) → acknowledged: out of memory, into the archive
//!    ▲            │ the connection ends, or never got it
//!    └────────────┘
//! ```
//!
//! Who holds what is not stored: a restart ends all connections, and so hands everything out again.

mod read;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ccagent_proto::event::Topic;
use ccagent_proto::json::Any;
use ccagent_proto::mailbox as wire;
use ccagent_proto::message::{Message, MessageKind, MessageState};
use ccagent_proto::task::Receives;
use ccagent_proto::{Acked, Error, Kind, MessageId, Millis, SessionId, TaskId};
use serde_json::json;

use crate::caller::{Caller, Who};
use crate::core::Core;
use crate::cx::{About, Cx};
use crate::message::{Row, Text, mail_event};
use crate::page;
use crate::record::Record;
use crate::session;
use crate::task;

pub(crate) use read::forget;
pub use read::{Read, is_kept, read_key};

/// Bytes of text in one page of messages at most.
const PAGE_BYTES: u64 = 8 << 20;

/// Whose mailbox it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The mailbox's name.
    pub mailbox: Arc<str>,
    /// As people call it.
    pub label: String,
    /// The team, for a member.
    pub team: Option<String>,
    /// The task, for an agent.
    pub task: Option<TaskId>,
    /// The session, for a session.
    pub session: Option<SessionId>,
    /// How its owner takes messages.
    pub receives: Receives,
}

/// How the names of agents' mailboxes begin.
const LONE: &str = "task:";
/// How those of members' begin.
const MEMBER: &str = "member:";

/// The name of the mailbox of an agent that is in no team.
pub(crate) fn of_lone(id: TaskId) -> Arc<str> {
    format!("{LONE}{id}").into()
}

/// The name of a member's mailbox.
pub(crate) fn of_member(team: &str, name: &str) -> Arc<str> {
    format!("{MEMBER}{team}/{name}").into()
}

/// The mailbox of a session.
pub(crate) fn of_session(row: &session::Row) -> Address {
    Address {
        mailbox: session::mailbox(&row.id),
        label: row.name.clone(),
        team: None,
        task: None,
        session: Some(row.id.clone()),
        receives: crate::message::POLL,
    }
}

/// What follows from the unread messages: which mailbox holds which, and how much.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mail {
    boxes: BTreeMap<Arc<str>, Inbox>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Inbox {
    ids: BTreeSet<MessageId>,
    bytes: u64,
}

impl Mail {
    pub(crate) fn add(&mut self, row: &Row) {
        let inbox = self.boxes.entry(row.mailbox.clone()).or_default();
        inbox.ids.insert(row.id);
        inbox.bytes += row.text.len();
    }

    fn drop(&mut self, row: &Row) {
        if let Some(inbox) = self.boxes.get_mut(&row.mailbox) {
            inbox.ids.remove(&row.id);
            inbox.bytes -= row.text.len();
            if inbox.ids.is_empty() {
                self.boxes.remove(&row.mailbox);
            }
        }
    }

    /// The unread messages of a mailbox, oldest first.
    pub(crate) fn ids(&self, mailbox: &str) -> impl Iterator<Item = MessageId> {
        self.boxes.get(mailbox).into_iter().flat_map(|inbox| inbox.ids.iter().copied())
    }
}

impl Core {
    /// The mailbox of an agent: the member's while it is that member, else one of its own (A14).
    pub(crate) fn address_of(&self, row: &task::Row) -> Address {
        let member = self.membership_of(row);
        let (mailbox, label) = match (member, row.team()) {
            (Some((team, name)), _) => (of_member(team, name), format!("{name}@{team}")),
            (None, None) => (of_lone(row.id), row.label()),
            (None, Some(_)) => (of_lone(row.id), row.id.to_string()),
        };
        Address {
            mailbox,
            label,
            team: member.map(|(team, _)| team.to_owned()),
            task: Some(row.id),
            session: None,
            receives: row.spec.receives,
        }
    }

    /// The caller's own mailbox.
    pub(crate) fn own_address(&self, caller: &Caller) -> Result<Address, Error> {
        match &caller.who {
            Who::Operator => {
                let session = self.session_of(caller, None)?;
                Ok(of_session(self.session(&session)?))
            }
            Who::Agent(id) => self.tasks.get(id).map(|row| self.address_of(row)).ok_or_else(|| {
                Error::new(Kind::TaskNotFound, "the task of this process is gone")
                    .with("taskId", id.to_string())
            }),
            Who::Member { team, name } => self
                .member_address(team, name)
                .ok_or_else(|| Error::new(Kind::NoMember, format!("{name} is no member of {team} any more"))),
        }
    }

    /// The team that a caller is in.
    pub fn own_team(&self, caller: &Caller) -> Option<String> {
        match &caller.who {
            Who::Member { team, .. } => Some(team.to_string()),
            Who::Agent(id) => self.membership_of(self.tasks.get(id)?).map(|(team, _)| team.to_owned()),
            Who::Operator => None,
        }
    }

    /// The mailbox that a call means: the caller's own, or for an operator the one that it names.
    ///
    /// # Errors
    /// `noMember` where there is none; `notAuthorised` for another's, and for a caller that is not who it was.
    pub fn address(
        &self,
        caller: &Caller,
        team: Option<&str>,
        agent: Option<&str>,
    ) -> Result<Address, Error> {
        self.holds(caller)?;
        let Some(agent) = agent else {
            return self.own_address(caller);
        };
        let own_team = self.own_team(caller);
        let team = team.or(own_team.as_deref());
        let named = if let Some(row) = team.is_none().then(|| self.tasks.named(agent)).flatten() {
            self.tasks.get(&row).map(|row| self.address_of(row))
        } else {
            let (name, team) = match agent.split_once('@') {
                Some((name, team)) => (name, Some(team)),
                None => (agent, team),
            };
            team.and_then(|team| self.member_address(team, name))
                .or_else(|| self.task(agent).ok().map(|row| self.address_of(row)))
                .or_else(|| self.sessions.get(&SessionId::from(agent)).map(of_session))
        };
        let address = named.ok_or_else(|| {
            Error::new(Kind::NoMember, format!("no mailbox of {agent:?}")).with("agent", agent)
        })?;
        if self.own_address(caller).is_ok_and(|own| own.mailbox == address.mailbox) {
            return Ok(address);
        }
        self.needs_operator(caller, "another's mailbox")?;
        Ok(address)
    }

    /// The number of the newest message.
    pub fn newest_message(&self) -> u64 {
        self.counters.get(&"message".to_owned()).map_or(0, |row| row.last)
    }

    /// Unread messages; the edge adds the archive where it was asked for.
    pub(crate) fn mailbox_read(
        &self,
        caller: &Caller,
        params: &wire::MailboxReadParams,
    ) -> Result<wire::MailboxReadResult, Error> {
        let address = self.address(caller, params.team_name.as_deref(), params.agent.as_deref())?;
        let rows = self.mail.ids(&address.mailbox).filter_map(|id| self.messages.get(&id));
        let (rows, mut next_cursor) = page::cut(rows, params.limit, params.cursor.as_deref(), |row| row.id)?;
        let ids = self.within_bytes(rows.iter().map(|row| row.id).collect());
        if ids.len() < rows.len() {
            next_cursor = ids.last().map(ToString::to_string);
        }
        let rows = rows.into_iter().take(ids.len());
        let messages = rows.into_iter().map(|row| self.message_view(row)).collect();
        Ok(wire::MailboxReadResult { messages, next_cursor })
    }

    /// Hands out what nobody else holds, oldest first.
    pub(crate) fn mailbox_poll(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: &wire::MailboxPollParams,
    ) -> Result<wire::MailboxReadResult, Error> {
        let address = self.address(caller, params.team_name.as_deref(), params.agent.as_deref())?;
        let most = page::limit(params.max)?;
        let ids: Vec<MessageId> = self
            .mail
            .ids(&address.mailbox)
            .filter(|id| !self.live.handed.contains_key(id))
            .take(most)
            .collect();
        let ids = self.within_bytes(ids);
        for id in &ids {
            self.live.handed.insert(*id, caller.conn);
            mail_event(cx, &address, "mail.delivered", json!({ "messageId": id }));
        }
        let rows = ids.iter().filter_map(|id| self.messages.get(id));
        let messages = rows.map(|row| self.message_view(row)).collect();
        Ok(wire::MailboxReadResult { messages, next_cursor: None })
    }

    /// As many of some messages as an answer can hold, and one at least.
    fn within_bytes(&self, mut ids: Vec<MessageId>) -> Vec<MessageId> {
        let mut bytes = 0;
        let fits = ids.iter().take_while(|id| {
            bytes += self.messages.get(id).map_or(0, |row| row.text.len());
            bytes <= PAGE_BYTES
        });
        let count = fits.count().max(1);
        ids.truncate(count);
        ids
    }

    /// Takes messages for good; acknowledging one again changes nothing.
    pub(crate) fn mailbox_ack(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: &wire::MailboxAckParams,
    ) -> Result<Acked, Error> {
        let address = self.address(caller, params.team_name.as_deref(), params.agent.as_deref())?;
        let last = self.counters.get(&"message".to_owned()).map_or(0, |row| row.last);
        for id in &params.ids {
            let foreign = self.messages.get(id).is_some_and(|row| row.mailbox != address.mailbox);
            if id.0 == 0 || id.0 > last || foreign {
                return Err(Error::new(
                    Kind::NotFound,
                    format!("no message {id} in the mailbox of {}", address.label),
                )
                .with("id", id.to_string()));
            }
        }
        let mut acked = 0;
        for id in &params.ids {
            let Some(row) = self.messages.remove(cx, id) else {
                continue;
            };
            self.mail.drop(&row);
            self.live.handed.remove(id);
            cx.put(Record::Read(Read { row, at: cx.now }));
            mail_event(cx, &address, "mail.read", json!({ "messageId": id }));
            acked += 1;
        }
        Ok(Acked { acked })
    }

    /// Refuses a message for which a mailbox has no room.
    pub(crate) fn has_room(&self, address: &Address, bytes: u64) -> Result<(), Error> {
        let Some(inbox) = self.mail.boxes.get(&address.mailbox) else {
            return Ok(());
        };
        let many = inbox.ids.len() >= self.limits.mailbox_unread as usize;
        if many || inbox.bytes + bytes > self.limits.mailbox_bytes {
            return Err(Error::new(Kind::MailboxFull, format!("the mailbox of {} is full", address.label))
                .with("to", address.label.as_str())
                .with("unread", inbox.ids.len())
                .with("bytes", inbox.bytes));
        }
        Ok(())
    }

    /// Takes back what a connection was handed and did not acknowledge.
    pub(crate) fn take_back(&mut self, cx: &mut Cx<'_>, conn: u64) {
        let held = self.live.handed.iter().filter(|(_, holder)| **holder == conn);
        let ids = held.map(|(id, _)| *id).collect();
        self.mailbox_return(cx, conn, ids);
    }

    /// Puts messages that a connection holds back to their places: its other messages, and those that it does not
    /// hold any more, stay as they are. A lead whose they are hears of them as if they had come just now.
    pub(crate) fn mailbox_return(&mut self, cx: &mut Cx<'_>, conn: u64, ids: Vec<MessageId>) {
        let mut boxes: BTreeSet<Arc<str>> = BTreeSet::new();
        for id in ids {
            if self.live.handed.get(&id) == Some(&conn) {
                self.live.handed.remove(&id);
                boxes.extend(self.messages.get(&id).map(|row| row.mailbox.clone()));
            }
        }
        let owners = boxes.iter().filter_map(|mailbox| self.task_of_mailbox(mailbox)).collect();
        for mailbox in boxes {
            let about = About { mailbox: Some(mailbox), ..About::default() };
            cx.event(Topic::Mail, "mail.returned", about, json!({}));
        }
        self.wake_all(cx, owners);
    }

    /// The task whose mailbox it is.
    fn task_of_mailbox(&self, mailbox: &str) -> Option<TaskId> {
        if let Some(id) = mailbox.strip_prefix(LONE) {
            return id.parse().ok();
        }
        let (team, name) = mailbox.strip_prefix(MEMBER)?.split_once('/')?;
        self.member_address(team, name)?.task
    }

    /// The mailbox of a session, or that of `main` when it was closed.
    pub(crate) fn mailbox_of_session(&self, session: &SessionId) -> Arc<str> {
        match self.sessions.get(session) {
            Some(row) => session::mailbox(&row.id),
            None => session::mailbox(&SessionId::main()),
        }
    }

    /// Moves unread mail whose reader is gone to another mailbox: nothing is dropped in silence.
    pub(crate) fn forward(&mut self, cx: &mut Cx<'_>, from: &str, to: &Arc<str>) {
        let ids: Vec<MessageId> = self.mail.ids(from).collect();
        for id in &ids {
            if let Some(row) = self.messages.get(id) {
                self.mail.drop(row);
            }
            self.messages.update(cx, id, |row| row.mailbox = to.clone());
            if let Some(row) = self.messages.get(id) {
                self.mail.add(row);
            }
            self.live.handed.remove(id);
        }
        if !ids.is_empty() {
            let about = About { mailbox: Some(to.clone()), ..About::default() };
            cx.event(Topic::Mail, "mail.forwarded", about, json!({ "messageIds": ids }));
        }
    }

    fn message_view(&self, row: &Row) -> Message {
        let state = match self.live.handed.get(&row.id) {
            Some(_) => MessageState::Processing,
            None => MessageState::Pending,
        };
        view(row, state)
    }
}

/// A message as its reader sees it. A text that is stored apart is empty here; the edge reads it.
pub fn view(row: &Row, state: MessageState) -> Message {
    let text = match &row.text {
        Text::Here(text) => text.to_string(),
        Text::Apart { .. } => String::new(),
    };
    Message {
        id: row.id,
        seq: row.id.0,
        from: row.from.to_string(),
        to: row.to.to_string(),
        team_name: row.team.as_deref().map(str::to_owned),
        data: structured(row.kind, &text),
        text,
        kind: row.kind,
        color: row.color.as_deref().map(str::to_owned),
        summary: Some(row.summary.to_string()),
        timestamp: iso(row.sent_at),
        sent_at: row.sent_at,
        read: state == MessageState::Processed,
        state,
    }
}

/// The parsed form of a structured message.
pub fn structured(kind: MessageKind, text: &str) -> Option<serde_json::Value> {
    if kind == MessageKind::Text {
        return None;
    }
    serde_json::from_str(text).ok().map(|Any(data)| data)
}

/// A time as ISO 8601.
pub fn iso(at: Millis) -> String {
    let at = i64::try_from(at).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(at).map(|time| format!("{time:.3}")).unwrap_or_default()
}
