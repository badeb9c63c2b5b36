//! What answers hand out: a call notes here what it took for its answer, and what is not said goes back to its place.
//!
//! Deliberately not here: connections that end. The core gives back itself what they held.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccagent_proto::message::Message;
use ccagent_proto::notification::Notification;
use ccagent_proto::{MessageId, NotificationId};

use crate::driver::Handle;

/// What a call, or a batch, took so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taken(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    mail: Vec<MessageId>,
    notices: Vec<NotificationId>,
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

    /// Whether nothing was noted.
    pub(crate) fn is_empty(&self) -> bool {
        let held = self.held();
        held.mail.is_empty() && held.notices.is_empty()
    }

    /// Notes what another one noted.
    pub(crate) fn append(&self, other: &Self) {
        let Held { mail, notices } = std::mem::take(&mut *other.held());
        let mut held = self.held();
        held.mail.extend(mail);
        held.notices.extend(notices);
    }

    /// Gives all of it back in the name of the connection that took it.
    pub(crate) async fn give_back(&self, handle: &Handle, conn: u64) {
        let Held { mail, notices } = std::mem::take(&mut *self.held());
        if !mail.is_empty() {
            handle.mailbox_return(conn, mail).await;
        }
        if !notices.is_empty() {
            handle.notices_return(conn, notices).await;
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
