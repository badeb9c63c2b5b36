//! Acknowledged messages: out of memory, kept in the store within bounds.

use ccagent_proto::{MessageId, Millis};
use serde::{Deserialize, Serialize};

use crate::cx::Cx;
use crate::limits::Limits;
use crate::message::{Body, Row};
use crate::record::Record;
use crate::table::Stored;

/// An acknowledged message: never needed by a rule, listed by the edge from the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Read {
    /// The message.
    pub row: Row,
    /// When it was acknowledged.
    pub at: Millis,
}

impl Stored for Read {
    const KIND: &'static str = "read";
    type Id = String;

    fn id(&self) -> String {
        read_key(&self.row.mailbox, self.row.id)
    }

    fn record(self) -> Record {
        Record::Read(self)
    }
}

/// The id of a read message's record: by mailbox, then by rising number.
pub fn read_key(mailbox: &str, id: MessageId) -> String {
    format!("{mailbox}#{:020}", id.0)
}

/// Whether an acknowledged message is kept: like archived tasks, it goes by age, and when newer ones are too many.
pub fn is_kept(limits: &Limits, now: Millis, newest: u64, read: &Read) -> bool {
    let young = read.at.saturating_add(limits.archive_ms) > now;
    young && read.row.id.0.saturating_add(u64::from(limits.archive_count)) > newest
}

/// Deletes acknowledged messages that are not kept.
pub(crate) fn forget(cx: &mut Cx<'_>, read: Vec<(String, MessageId)>) {
    for (record, id) in read {
        cx.delete(Read::KIND, record);
        cx.delete(Body::KIND, id.to_string());
    }
}
