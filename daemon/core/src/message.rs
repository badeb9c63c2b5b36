//! Messages: how one finds its receiver, and what is kept of it.

mod route;

use std::sync::Arc;

use ccagent_proto::event::Topic;
use ccagent_proto::json::Any;
use ccagent_proto::message as wire;
use ccagent_proto::message::{Content, Delivered, DeliveryState, MessageKind, MessageSendResult, Route};
use ccagent_proto::task::Receives;
use ccagent_proto::{Error, Kind, MessageId, Millis};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::bounds::MESSAGE_MOST;
use crate::caller::{Caller, Who};
use crate::core::Core;
use crate::cx::{About, Cx};
use crate::mailbox::Address;
use crate::record::Record;
use crate::table::Stored;

/// Texts above this many bytes are stored apart and kept out of memory.
pub const INLINE: usize = 3072;
/// Words of a summary at most (MB-03).
const SUMMARY_WORDS: usize = 10;

/// A message's text: in memory, or stored apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Text {
    /// In memory.
    Here(Box<str>),
    /// Stored apart under the message's id.
    Apart {
        /// Its bytes.
        len: u64,
        /// Its BLAKE3 hash, hexadecimal.
        hash: Box<str>,
    },
}

impl Text {
    /// Bytes of the text.
    pub const fn len(&self) -> u64 {
        match self {
            Self::Here(text) => text.len() as u64,
            Self::Apart { len, .. } => *len,
        }
    }

    /// Whether the text is empty.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A message that was not acknowledged, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Its id, which is its place in the order of all messages.
    pub id: MessageId,
    /// The mailbox that it is in.
    pub mailbox: Arc<str>,
    /// Who sent it.
    pub from: Box<str>,
    /// Whose mailbox it is in, as people call it.
    pub to: Box<str>,
    /// The team that both are in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<Box<str>>,
    /// The text.
    pub text: Text,
    /// What it is.
    pub kind: MessageKind,
    /// The sender's colour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub color: Option<Box<str>>,
    /// Ten words at most.
    pub summary: Box<str>,
    /// When it was sent.
    pub sent_at: Millis,
}

impl Stored for Row {
    const KIND: &'static str = "message";
    type Id = MessageId;

    fn id(&self) -> MessageId {
        self.id
    }

    fn record(self) -> Record {
        Record::Message(self)
    }
}

/// A large text, stored apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body {
    /// The message.
    pub id: MessageId,
    /// Its text.
    pub text: String,
}

impl Stored for Body {
    const KIND: &'static str = "body";
    type Id = MessageId;

    fn id(&self) -> MessageId {
        self.id
    }

    fn record(self) -> Record {
        Record::Body(self)
    }
}

impl Core {
    /// Puts a message into the receivers' mailboxes: into all of them or into none.
    pub(crate) fn message_send(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: wire::MessageSendParams,
    ) -> Result<MessageSendResult, Error> {
        let target = self.route(caller, &params.to, params.team_name.as_deref())?;
        let (text, kind) = content(params.message)?;
        self.may_say(caller, kind)?;
        let bytes = text.len() as u64;
        self.fits(bytes)?;
        for address in &target.addresses {
            self.has_room(address, bytes)?;
        }

        let summary = summary_of(params.summary.as_deref(), &text);
        let mut delivered = Vec::new();
        for address in target.addresses {
            let from = self.sender(caller, address.team.as_deref());
            delivered.push(self.post(cx, address, from, &text, kind, &summary));
        }
        Ok(MessageSendResult { route: target.route, delivered })
    }

    /// Refuses a message that is too large.
    fn fits(&self, bytes: u64) -> Result<(), Error> {
        let most = self.limits.message.min(MESSAGE_MOST);
        if bytes <= most {
            return Ok(());
        }
        let why = format!("a message has at most {most} bytes: send a file's path");
        Err(Error::new(Kind::MessageTooLarge, why).with("limit", most).with("bytes", bytes))
    }

    /// Adds one message to one mailbox.
    fn post(
        &mut self,
        cx: &mut Cx<'_>,
        address: Address,
        from: Box<str>,
        text: &str,
        kind: MessageKind,
        summary: &str,
    ) -> Delivered {
        let id = MessageId(self.next(cx, "message"));
        let stored = if text.len() > INLINE {
            cx.put(Record::Body(Body { id, text: text.to_owned() }));
            Text::Apart {
                len: text.len() as u64,
                hash: blake3::hash(text.as_bytes()).to_hex().as_str().into(),
            }
        } else {
            Text::Here(text.into())
        };
        let row = Row {
            id,
            mailbox: address.mailbox.clone(),
            from,
            to: address.label.as_str().into(),
            team: address.team.as_deref().map(Into::into),
            text: stored,
            kind,
            color: None,
            summary: summary.into(),
            sent_at: cx.now,
        };
        let data = json!({ "messageId": id, "from": row.from, "to": row.to, "summary": row.summary });
        self.mail.add(&row);
        self.messages.insert(cx, row);
        mail_event(cx, &address, "mail.queued", data);
        if let Some(lead) = address.task {
            self.wake(cx, lead);
            self.start_queued(cx);
        }
        Delivered {
            to: address.label,
            message_id: id,
            state: DeliveryState::Queued,
            receives: address.receives,
        }
    }

    /// A message from another program or daemon; its sender is what it said, marked as foreign.
    pub(crate) fn message_deliver(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: wire::MessageDeliverParams,
    ) -> Result<Delivered, Error> {
        self.needs_operator(caller, "message.deliver")?;
        let message = params.message;
        let to = message.to.unwrap_or_else(|| "main".to_owned());
        if message.text.is_empty() {
            return Err(
                Error::new(Kind::InvalidParams, "a message says something").with("path", "message.text")
            );
        }
        self.fits(message.text.len() as u64)?;
        // Who brings it is not who sent it: it may well be for the person whose connection this is.
        let (_, address) = self.lookup(&to, None).ok_or_else(|| self.unreachable(&to, None))?;
        self.has_room(&address, message.text.len() as u64)?;
        let summary = summary_of(message.summary.as_deref(), &message.text);
        let from = format!("uds:{}", shorten(&message.from, 200));
        let mut delivered = self.post(cx, address, from.into(), &message.text, MessageKind::Text, &summary);
        delivered.state = DeliveryState::Delivered;
        Ok(delivered)
    }

    pub(crate) fn message_route(
        &self,
        caller: &Caller,
        params: &wire::MessageRouteParams,
    ) -> Result<wire::MessageRouteResult, Error> {
        if params.to.starts_with("uds:") {
            let target = vec![params.to.clone()];
            return Ok(wire::MessageRouteResult { route: Route::Uds, target, receives: None });
        }
        let target = self.route(caller, &params.to, params.team_name.as_deref())?;
        let receives = match target.addresses.as_slice() {
            [one] => Some(one.receives),
            _ => None,
        };
        let names = target.addresses.into_iter().map(|address| address.label).collect();
        Ok(wire::MessageRouteResult { route: target.route, target: names, receives })
    }

    /// The sender's name on a message that leaves the daemon.
    ///
    /// # Errors
    /// `notAuthorised` for members: they write inside their team; for a confined agent, and for one whose run is over.
    pub fn sender_abroad(&self, caller: &Caller) -> Result<Box<str>, Error> {
        self.holds(caller)?;
        self.refuse_held_abroad(caller)?;
        match caller.who {
            Who::Operator | Who::Agent(_) => Ok(self.sender(caller, None)),
            Who::Member { .. } => {
                Err(self.refusal(caller, "a member may write only inside its own team", "operator"))
            }
        }
    }

    /// The sender's name: bare inside the team, `name@team` elsewhere, the session's for an operator.
    fn sender(&self, caller: &Caller, team: Option<&str>) -> Box<str> {
        let member = |name: &str, of: &str| {
            if team == Some(of) { name.into() } else { format!("{name}@{of}").into() }
        };
        match &caller.who {
            Who::Operator => {
                let session = caller.session.clone().unwrap_or_default();
                self.sessions.get(&session).map_or_else(|| "operator".into(), |row| row.name.as_str().into())
            }
            Who::Member { team: of, name } => member(name, of),
            Who::Agent(id) => match self.tasks.get(id) {
                Some(row) => match (self.membership_of(row), &row.name, row.team()) {
                    (Some((of, name)), _, _) => member(name, of),
                    // Inside a team a bare name is a member's: whoever is none shows as what it is (A17).
                    (None, Some(name), None) if team.is_none() => name.clone(),
                    (None, _, _) => row.id.to_string().into(),
                },
                None => id.to_string().into(),
            },
        }
    }
}

pub(crate) fn mail_event(cx: &mut Cx<'_>, address: &Address, r#type: &'static str, data: serde_json::Value) {
    let about = About {
        task: address.task,
        above: Arc::default(),
        session: address.session.clone(),
        team: address.team.as_deref().map(Into::into),
        mailbox: Some(address.mailbox.clone()),
    };
    cx.event(Topic::Mail, r#type, about, data);
}

/// The text of a message, and its kind, told by the `type` of a structured one (MB-04).
///
/// # Errors
/// `badMessage` for an unknown `type`, `invalidParams` for a message that says nothing.
pub fn content(content: Content) -> Result<(String, MessageKind), Error> {
    let (text, r#type) = match content {
        Content::Text(text) => {
            let r#type = serde_json::from_str(&text)
                .ok()
                .and_then(|Any(data)| data.get("type").and_then(|value| value.as_str().map(str::to_owned)));
            (text, r#type)
        }
        Content::Structured(map) => {
            let r#type = map.get("type").and_then(|value| value.as_str().map(str::to_owned));
            let Some(r#type) = r#type else {
                return Err(
                    Error::new(Kind::BadMessage, "a structured message has a type").with("path", "message")
                );
            };
            if kind_of(&r#type).is_none() {
                return Err(Error::new(
                    Kind::BadMessage,
                    format!("no structured message has the type {type:?}"),
                )
                .with("path", "message.type"));
            }
            (serde_json::Value::Object(map).to_string(), Some(r#type))
        }
    };
    if text.is_empty() {
        return Err(Error::new(Kind::InvalidParams, "a message says something").with("path", "message"));
    }
    Ok((text, r#type.as_deref().and_then(kind_of).unwrap_or_default()))
}

fn kind_of(r#type: &str) -> Option<MessageKind> {
    serde_json::from_value(json!(r#type)).ok().filter(|kind| *kind != MessageKind::Text)
}

/// The given summary, else the text's first words; ten words at most.
fn summary_of(given: Option<&str>, text: &str) -> String {
    let source = given.filter(|text| !text.trim().is_empty()).unwrap_or(text);
    let words: Vec<&str> = source.split_whitespace().take(SUMMARY_WORDS).collect();
    shorten(&words.join(" "), 200)
}

/// The first characters of a text, an ellipsis behind them where it was longer.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

/// How an agent takes messages when nothing else is known.
pub(crate) const POLL: Receives = Receives::Poll;
