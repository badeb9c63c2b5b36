//! Mail and notifications at the edge: waiting for them, following them, and sending out of the daemon.

use std::sync::Arc;

use ccagent_core::{Caller, bounds};
use ccagent_proto::mailbox::{MailboxPollParams, MailboxReadResult, MailboxSubscribeParams};
use ccagent_proto::message::{Message, MessageSendParams, MessageSendResult};
use ccagent_proto::method::{MailboxPoll, MessageSend, NotificationNext};
use ccagent_proto::notification::{
    NotificationListResult, NotificationNextParams, NotificationParseParams, NotificationParseResult,
};
use ccagent_proto::{Error, MessageId};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, OptionFuture};
use futures_util::stream::{BoxStream, StreamExt};

use super::connection::Origin;
use super::context::Context;
use super::service::cancelled_error;
use super::uds;
use super::wait::{Look, Patience, until_at};
use crate::hub::{Key, Watch};

/// Takes messages, and waits for one where asked.
pub(crate) async fn poll(
    context: Arc<Context>,
    origin: Origin,
    params: MailboxPollParams,
) -> Result<MailboxReadResult, Error> {
    let caller = origin.connection.caller();
    // Without a time there is no wait.
    let patience = Patience::new(&origin, Some(params.wait_ms.unwrap_or(0)));
    let at = async || {
        let (team, agent) = (params.team_name.clone(), params.agent.clone());
        Ok(Key::Mailbox(context.handle.mailbox_address(&caller, team, agent).await?))
    };
    let polled = until_at(&context.hub, at, &patience, async || {
        origin.turn().await?;
        let polled = context.call::<MailboxPoll>(&caller, params.clone()).await?;
        if !polled.messages.is_empty() {
            origin.taken.mail(&polled.messages);
            return Ok(Look::There(polled));
        }
        origin.pass();
        Ok(Look::NotYet(polled))
    });
    Ok(polled.await?.into_inner())
}

/// Takes notifications, and waits for one where asked.
pub(crate) async fn next_notification(
    context: Arc<Context>,
    origin: Origin,
    params: NotificationNextParams,
) -> Result<NotificationListResult, Error> {
    let caller = origin.connection.caller();
    let patience = Patience::new(&origin, Some(params.wait_ms.unwrap_or(0)));
    bounds::in_session(params.session_id.as_ref())?;
    let at = async || {
        let (asker, named) = (caller.clone(), params.session_id.clone());
        let session = context.handle.ask(move |core, _| core.session_of(&asker, named.as_ref())).await??;
        Ok(Key::Session(session))
    };
    let taken = until_at(&context.hub, at, &patience, async || {
        origin.turn().await?;
        let taken = context.call::<NotificationNext>(&caller, params.clone()).await?;
        if !taken.notifications.is_empty() {
            origin.taken.notices(&taken.notifications);
            return Ok(Look::There(taken));
        }
        origin.pass();
        Ok(Look::NotYet(taken))
    });
    Ok(taken.await?.into_inner())
}

/// Reads an XML envelope.
pub(crate) async fn parse_notification(
    _: Arc<Context>,
    _: Origin,
    params: NotificationParseParams,
) -> Result<NotificationParseResult, Error> {
    Ok(ccagent_core::notification::envelope::parse(&params.xml))
}

/// Follows a mailbox.
pub(crate) async fn subscribe(
    context: Arc<Context>,
    origin: Origin,
    params: MailboxSubscribeParams,
) -> Result<BoxStream<'static, Message>, Error> {
    let caller = origin.connection.caller();
    let MailboxSubscribeParams { team_name, agent } = params;
    let mailbox = context.handle.mailbox_address(&caller, team_name.clone(), agent.clone()).await?;
    let watch = context.hub.watch([Key::Mailbox(mailbox.clone())]);
    // One at a time: a subscription that ends holds no message that its reader has not seen.
    let params = MailboxPollParams { team_name, agent, wait_ms: None, max: Some(1) };
    let reader = Reader { context, caller, params, mailbox, watch, polling: None, held: None };
    let messages = futures_util::stream::unfold(reader, |mut reader| async move {
        let message = reader.next().await?;
        Some((message, reader))
    });
    Ok(messages.boxed())
}

/// A subscriber's place in a mailbox. What it took and did not pass on goes back to the mailbox when it is dropped.
struct Reader {
    context: Arc<Context>,
    caller: Caller,
    params: MailboxPollParams,
    mailbox: Arc<str>,
    watch: Watch,
    /// A poll that is under way: once it is sent it hands out messages, whoever still waits for them.
    polling: Option<BoxFuture<'static, Result<MailboxReadResult, Error>>>,
    /// The message that was given last, until the next one is asked for.
    held: Option<MessageId>,
}

impl Reader {
    async fn next(&mut self) -> Option<Message> {
        self.held = None;
        loop {
            let (context, caller, params) = (&self.context, &self.caller, &self.params);
            let polling = self.polling.get_or_insert_with(|| {
                let (context, caller, params) = (context.clone(), caller.clone(), params.clone());
                async move { context.call::<MailboxPoll>(&caller, params).await }.boxed()
            });
            let polled = polling.await;
            self.polling = None;
            match polled {
                Ok(polled) => match polled.messages.into_iter().next() {
                    Some(message) => {
                        self.held = Some(message.id);
                        return Some(message);
                    }
                    None => self.changed().await?,
                },
                Err(error) => {
                    tracing::debug!(%error, "a mailbox can't be followed any further");
                    return None;
                }
            }
        }
    }
}

impl Reader {
    /// Waits for a change, unless the caller's mailbox is another one now: its session may be closed.
    async fn changed(&mut self) -> Option<()> {
        let (team, agent) = (self.params.team_name.clone(), self.params.agent.clone());
        let mailbox = self.context.handle.mailbox_address(&self.caller, team, agent).await.ok()?;
        if mailbox == self.mailbox {
            self.watch.changed().await;
        } else {
            self.watch = self.context.hub.watch([Key::Mailbox(mailbox.clone())]);
            self.mailbox = mailbox;
        }
        Some(())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let (held, polling) = (self.held.take(), self.polling.take());
        // Without a runtime the daemon is at its end, and all mail is its mailbox's again.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if held.is_none() && polling.is_none() {
            return;
        }
        let (handle, conn) = (self.context.handle.clone(), self.caller.conn);
        let give_back = async move {
            let mut ids = Vec::from_iter(held);
            if let Some(Ok(polled)) = OptionFuture::from(polling).await {
                ids.extend(polled.messages.iter().map(|message| message.id));
            }
            handle.mailbox_return(conn, ids).await;
        };
        self.context.tracker.spawn_on(give_back, &runtime);
    }
}

/// Sends a message: inside the daemon, or to a socket.
pub(crate) async fn send(
    context: Arc<Context>,
    origin: Origin,
    params: MessageSendParams,
) -> Result<MessageSendResult, Error> {
    let caller = origin.connection.caller();
    if params.to.starts_with("uds:") {
        return tokio::select! {
            biased;
            () = origin.cancelled.cancelled() => Err(cancelled_error()),
            sent = uds::send(&context, &caller, params) => sent,
        };
    }
    context.call::<MessageSend>(&caller, params).await
}
