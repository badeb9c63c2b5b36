//! The way to the driver: calls with typed answers, and what the edges add to them from the store.

use std::sync::Arc;

use ccagent_core::task::Past;
use ccagent_core::task::resolve::Found;
use ccagent_core::{Caller, Input, RunnerEvent};
use ccagent_proto::event::{EventReplayParams, EventReplayResult, EventSubscribeParams};
use ccagent_proto::method::{Call, Request, Response};
use ccagent_proto::task::{TaskWaitParams, TaskWaitResult, WaitMode};
use ccagent_proto::{Error, Kind, Millis, TaskId};
use tokio::sync::{mpsc, oneshot};

use super::Message;
use super::archive::Archive;
use crate::hub::{EventStream, Hub};
use crate::store::Store;

/// A handle to the driver's inbox.
#[derive(Clone, Debug)]
pub struct Handle {
    inbox: mpsc::Sender<Message>,
    hub: Hub,
    archive: Archive,
}

impl Handle {
    pub(super) fn new(inbox: mpsc::Sender<Message>, store: Arc<Store>, hub: Hub) -> Self {
        Self { inbox, hub, archive: Archive::new(store) }
    }

    /// Makes a call of the contract, as things stand: nothing here waits for more than the commit.
    ///
    /// # Errors
    /// The core's refusal; `shuttingDown` when the driver is gone.
    pub async fn call<M: Call>(&self, caller: Caller, params: M::Params) -> Result<M::Result, Error> {
        let request = M::request(params);
        let response = self.request(caller, request).await?;
        M::result(response).ok_or_else(|| Error::new(Kind::Internal, "the core answered another call"))
    }

    async fn request(&self, caller: Caller, request: Request) -> Result<Response, Error> {
        if matches!(request, Request::MessageSend(_) | Request::MessageDeliver(_)) {
            // Nothing stands in the store alone, and a large text is not copied.
            return self.send(Input::Call(caller, request)).await?.ok_or_else(gone);
        }
        if let Some(page) = self.archive.page(&caller, &request, self).await? {
            return Ok(page);
        }
        let answer = self.send(Input::Call(caller.clone(), request.clone())).await;
        if let Err(error) = &answer
            && let Some(id) = error.data.get("archived").and_then(|id| id.as_str()?.parse::<TaskId>().ok())
        {
            return self.archived(id, caller, request).await;
        }
        let mut response = answer?.ok_or_else(gone)?;
        self.archive.complete(&caller, &request, &mut response, self).await?;
        Ok(response)
    }

    /// A call about an archived task: reads are answered from the store, a resume brings the task back first.
    async fn archived(&self, id: TaskId, caller: Caller, request: Request) -> Result<Response, Error> {
        let past = self.archive.past(id).await?;
        match request {
            Request::TaskResume(_) | Request::AgentSpawn(_) => {
                self.send(Input::thaw(past)).await?;
                self.send(Input::Call(caller, request)).await?.ok_or_else(gone)
            }
            Request::TaskWait(params) if params.task_ids.len() > 1 => {
                Box::pin(self.wait_with(past, caller, params)).await
            }
            other => self.archive.answer(&caller, &other, past, self).await,
        }
    }

    /// A wait for several tasks of which one is archived, and so has ended: the others are asked for by themselves.
    async fn wait_with(&self, past: Past, caller: Caller, params: TaskWaitParams) -> Result<Response, Error> {
        let id = past.0.id;
        let ask = Request::TaskWait(TaskWaitParams { task_ids: vec![id.to_string()], ..params.clone() });
        let ended = self.archive.answer(&caller, &ask, past, self).await?;
        let (mut rest, mut places) = (params.clone(), Vec::new());
        for (place, text) in params.task_ids.iter().enumerate() {
            let named = text.clone();
            let found = self.ask(move |core, _| core.find(&named).map(Found::id)).await??;
            if found == id {
                places.push(place);
            }
        }
        rest.task_ids = Vec::new();
        let others = params.task_ids.iter().enumerate().filter(|(place, _)| !places.contains(place));
        rest.task_ids.extend(others.map(|(_, text)| text.clone()));
        let mode = rest.mode;
        let others = if rest.task_ids.is_empty() {
            Response::TaskWait(TaskWaitResult::default())
        } else {
            self.request(caller, Request::TaskWait(rest)).await?
        };
        let (Response::TaskWait(ended), Response::TaskWait(mut answer)) = (ended, others) else {
            return Err(gone());
        };
        for place in places {
            answer.tasks.splice(place..place, ended.tasks.clone());
        }
        answer.timed_out &= mode == WaitMode::All;
        Ok(Response::TaskWait(answer))
    }

    async fn send(&self, input: Input) -> Result<Option<Response>, Error> {
        let (reply, answer) = oneshot::channel();
        self.inbox.send(Message::Call(Box::new(input), reply)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    async fn tell(&self, input: Input) {
        // The driver ends only with the daemon; what it is told then concerns nobody.
        drop(self.inbox.send(Message::Tell(Box::new(input))).await);
    }

    /// A connection ended.
    pub async fn disconnected(&self, conn: u64) {
        self.tell(Input::Disconnected(conn)).await;
    }

    /// A runner reports.
    pub async fn report(&self, event: RunnerEvent) {
        self.tell(Input::Runner(event)).await;
    }

    /// Other bounds and times hold from now on.
    pub async fn reconfigure(&self, limits: ccagent_core::Limits) {
        self.tell(Input::Reconfigure(Box::new(limits))).await;
    }

    /// Deletes acknowledged messages that are past their bounds.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn sweep_mail(&self) -> Result<(), Error> {
        self.archive.sweep_mail(self).await
    }

    pub(super) async fn forget_mail(&self, read: Vec<(String, ccagent_proto::MessageId)>) {
        self.tell(Input::ForgetMail(read)).await;
    }

    /// Nothing new starts from now on.
    pub async fn close(&self) {
        self.tell(Input::Closing).await;
    }

    /// Begins a subscription to events.
    ///
    /// # Errors
    /// `replayGap` when what it wants first is gone.
    pub async fn subscribe(
        &self,
        caller: Caller,
        params: EventSubscribeParams,
    ) -> Result<EventStream, Error> {
        let (reply, answer) = oneshot::channel();
        self.inbox.send(Message::Subscribe(Box::new((caller, params)), reply)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Gives past events again.
    ///
    /// # Errors
    /// `replayGap` when some of them are gone.
    pub fn replay(&self, params: &EventReplayParams) -> Result<EventReplayResult, Error> {
        self.hub.replay(params)
    }

    /// Asks the core something that is no call of the contract.
    ///
    /// # Errors
    /// `shuttingDown` when the driver is gone.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&ccagent_core::Core, Millis) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let question = Box::new(move |core: &ccagent_core::Core, now: Millis| {
            drop(reply.send(question(core, now)));
        });
        self.inbox.send(Message::Ask(question)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())
    }

    /// The name of a mailbox, for a watch.
    ///
    /// # Errors
    /// As `mailbox.read`.
    pub async fn mailbox_address(
        &self,
        caller: &Caller,
        team: Option<String>,
        agent: Option<String>,
    ) -> Result<Arc<str>, Error> {
        let caller = caller.clone();
        self.ask(move |core, _| core.address(&caller, team.as_deref(), agent.as_deref()))
            .await?
            .map(|address| address.mailbox)
    }
}

fn gone() -> Error {
    Error::new(Kind::ShuttingDown, "the daemon is stopping")
}
