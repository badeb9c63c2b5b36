//! Mail in the store: large texts, and acknowledged messages, which a mailbox still shows in their order.

use ccagent_core::mailbox::{self, Read};
use ccagent_core::record::Record;
use ccagent_core::table::Stored;
use ccagent_core::{Caller, message, page};
use ccagent_proto::mailbox::{MailboxReadParams, MailboxReadResult};
use ccagent_proto::message::{Message, MessageState};
use ccagent_proto::{Error, Kind, MessageId};

use super::{Archive, Handle, decode};
use crate::store::Order;

/// Bytes of acknowledged text in one page at most; the unread ones have the same bound.
const PAGE_BYTES: u64 = 8 << 20;

impl Archive {
    /// Puts the acknowledged messages of a page between the unread ones: all of a mailbox by rising number.
    pub(super) async fn add_read_mail(
        &self,
        caller: &Caller,
        params: &MailboxReadParams,
        page: &mut MailboxReadResult,
        handle: &Handle,
    ) -> Result<(), Error> {
        let limit = page::limit(params.limit)?;
        let mailbox = handle.mailbox_address(caller, params.team_name.clone(), params.agent.clone()).await?;
        // The core has refused any other cursor.
        let after = params.cursor.as_deref().and_then(|cursor| cursor.parse().ok()).unwrap_or(MessageId(0));
        let (read, more) = self.read_mail(&mailbox, after, limit).await?;

        // Where one of the two goes on, nothing behind its last message belongs to this page.
        let end =
            |more: bool, last: Option<&Message>| last.filter(|_| more).map_or(u64::MAX, |last| last.seq);
        let end = end(more, read.last()).min(end(page.next_cursor.is_some(), page.messages.last()));
        page.messages.extend(read);
        page.messages.sort_by_key(|message| message.seq);
        let all = page.messages.len();
        page.messages.retain(|message| message.seq <= end);
        page.messages.truncate(limit);
        let cut = page.messages.len() < all || more || page.next_cursor.is_some();
        page.next_cursor = page.messages.last().filter(|_| cut).map(|last| last.id.to_string());
        Ok(())
    }

    /// Acknowledged messages of a mailbox behind a number, and whether there are more.
    async fn read_mail(
        &self,
        mailbox: &str,
        after: MessageId,
        limit: usize,
    ) -> Result<(Vec<Message>, bool), Error> {
        let from = mailbox::read_key(mailbox, after);
        let prefix = format!("{mailbox}#");
        let rows =
            self.read(move |store| store.scan(Read::KIND, Some(&from), limit, Order::Ascending)).await?;
        let (mut messages, mut bytes) = (Vec::new(), 0);
        for row in rows.iter().take_while(|row| row.id.starts_with(&prefix)) {
            let Record::Read(read) = decode(Read::KIND, &row.value)? else { continue };
            bytes += read.row.text.len();
            if bytes > PAGE_BYTES && !messages.is_empty() {
                return Ok((messages, true));
            }
            messages.push(mailbox::view(&read.row, MessageState::Processed));
        }
        let more = messages.len() == limit;
        Ok((messages, more))
    }

    /// Reads the texts that are stored apart.
    pub(super) async fn complete_texts(&self, messages: &mut [Message]) -> Result<(), Error> {
        for message in messages.iter_mut().filter(|message| message.text.is_empty()) {
            message.text = self.body(message.id).await?;
            message.data = mailbox::structured(message.kind, &message.text);
        }
        Ok(())
    }

    async fn body(&self, id: MessageId) -> Result<String, Error> {
        match self.record(message::Body::KIND, id.to_string()).await? {
            Some(Record::Body(body)) => Ok(body.text),
            _ => Err(Error::new(Kind::Internal, format!("the text of {id} is not in the store"))),
        }
    }

    /// Deletes acknowledged messages that are past their bounds, a page at a time.
    pub(in crate::driver) async fn sweep_mail(&self, handle: &Handle) -> Result<(), Error> {
        let mut after: Option<String> = None;
        loop {
            let from = after.take();
            let rows = self
                .read(move |store| store.scan(Read::KIND, from.as_deref(), 256, Order::Ascending))
                .await?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = Some(last.id.to_string());
            let mut reads = Vec::new();
            for row in &rows {
                if let Record::Read(read) = decode(Read::KIND, &row.value)? {
                    reads.push((row.id.to_string(), read));
                }
            }
            let gone = handle
                .ask(move |core, now| {
                    let newest = core.newest_message();
                    let kept = |read: &Read| mailbox::is_kept(&core.limits, now, newest, read);
                    let gone = reads.into_iter().filter(|(_, read)| !kept(read));
                    gone.map(|(id, read)| (id, read.row.id)).collect::<Vec<_>>()
                })
                .await?;
            if !gone.is_empty() {
                handle.forget_mail(gone).await;
            }
        }
    }
}
