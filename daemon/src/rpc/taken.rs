//! What answers hand out: a call notes here what it took for its answer, and what is not said goes back to its place.
//! Ends of runs that were waited for in the foreground are acknowledged once the answer was written.
//!
//! Deliberately not here: connections that end. The core gives back itself what they held.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccagent_core::input::Run;
use ccagent_proto::message::Message;
use ccagent_proto::notification::Notification;
use ccagent_proto::{MessageId, NotificationId};
use jsonrpsee::core::server::MethodResponse;
use serde_json::value::RawValue;

use super::request;
use crate::driver::Handle;

/// An answer on its way out.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) text: Box<RawValue>,
    /// The runs of whose end it tells who waited for them.
    pub(crate) ends: Vec<Run>,
}

impl From<Box<RawValue>> for Answer {
    fn from(text: Box<RawValue>) -> Self {
        Self { text: request::said(text), ends: Vec::new() }
    }
}

impl From<MethodResponse> for Answer {
    fn from(mut response: MethodResponse) -> Self {
        let taken: Option<Taken> = response.extensions_mut().remove();
        let ends = taken.map(|taken| taken.ends()).unwrap_or_default();
        Self { text: request::said(response.into_json()), ends }
    }
}

/// What a call, or a batch, took so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taken(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    mail: Vec<MessageId>,
    notices: Vec<NotificationId>,
    ends: Vec<Run>,
}

impl Taken {
    /// Notes messages.
    pub(crate) fn mail(&self, messages: &[Message]) {
        self.held().mail.extend(messages.iter().map(|message| message.id));
    }

    /// Notes notifications.
    pub(crate) fn notices(&self, notices: &[Notification]) {
        self.held().notices.extend(notices.iter().map(|notice| notice.id));
    }

    /// Notes that a run was waited for: its end is told by the answer, or else by its notice.
    pub(crate) fn end(&self, run: Run) {
        self.held().ends.push(run);
    }

    /// The ends that the answer tells, which is about to be said.
    pub(crate) fn ends(&self) -> Vec<Run> {
        std::mem::take(&mut self.held().ends)
    }

    /// Whether nothing was noted.
    pub(crate) fn is_empty(&self) -> bool {
        let held = self.held();
        held.mail.is_empty() && held.notices.is_empty() && held.ends.is_empty()
    }

    /// Notes what another one noted.
    pub(crate) fn append(&self, other: &Self) {
        let Held { mail, notices, ends } = std::mem::take(&mut *other.held());
        let mut held = self.held();
        held.mail.extend(mail);
        held.notices.extend(notices);
        held.ends.extend(ends);
    }

    /// Gives all of it back in the name of the connection that took it.
    pub(crate) async fn give_back(&self, handle: &Handle, conn: u64) {
        let Held { mail, notices, ends } = std::mem::take(&mut *self.held());
        if !mail.is_empty() {
            handle.mailbox_return(conn, mail).await;
        }
        if !notices.is_empty() {
            handle.notices_return(conn, notices).await;
        }
        if !ends.is_empty() {
            handle.unheard(conn, ends).await;
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
