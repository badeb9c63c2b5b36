//! The way to the driver: calls with typed answers, and what the edges add to them from the store.

use std::sync::Arc;

use ccagent_core::ask::Asked;
use ccagent_core::input::Run;
use ccagent_core::session::lead::Texts;
use ccagent_core::task::Launch;
use ccagent_core::task::resolve::Found;
use ccagent_core::{Caller, Core, Input, RunnerEvent, bounds};
use ccagent_proto::ask::Ask;
use ccagent_proto::event::{EventReplayParams, EventReplayResult, EventSubscribeParams};
use ccagent_proto::method::{Call, Request, Response};
use ccagent_proto::notification::Notification;
use ccagent_proto::task::{TaskWaitParams, TaskWaitResult, WaitMode};
use ccagent_proto::{Error, Kind, MessageId, Millis, NotificationId, SessionId, TaskId};
use tokio::sync::mpsc::error::TrySendError;
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
        let mut response = match self.send(Input::Call(caller.clone(), request.clone())).await {
            // Rare and large: every call would be as large.
            Err(error) => Box::pin(self.recall(&caller, &request, error)).await?,
            Ok(answer) => answer.ok_or_else(gone)?,
        };
        match self.archive.complete(&caller, &request, &mut response, self).await {
            // What was made is made, and its caller has to know it, whatever could not be read about it.
            Err(error) if made(&response) => {
                tracing::warn!(%error, "what a task was started with could not be read");
            }
            Err(error) => {
                // Mail that was handed out and does not arrive is its mailbox's again, for whoever asks next.
                if let Response::MailboxPoll(result) = &response {
                    let ids = result.messages.iter().map(|message| message.id).collect();
                    self.mailbox_return(caller.conn, ids).await;
                }
                return Err(error);
            }
            Ok(()) => {}
        }
        Ok(response)
    }

    /// Answers a call that the core refused because a task left memory.
    async fn recall(&self, caller: &Caller, request: &Request, mut error: Error) -> Result<Response, Error> {
        let answered = error.data.remove("answered");
        if let Some(key) = answered.as_ref().and_then(|key| key.as_str())
            && let Some(answer) = self.archive.answered(key, request).await?
        {
            if let Some(vault) = caller.vault {
                self.tell(Input::Forget(vault)).await;
            }
            return Ok(answer);
        }
        let Some(id) = archived_in(&error) else { return Err(error) };
        match request {
            Request::TaskWait(_) => self.wait_with_archived(caller.clone(), request.clone()).await,
            Request::AgentSpawn(_) | Request::AgentExplain(_) if error.data.contains_key("path") => {
                self.spawn_after_archived(caller.clone(), request, error).await
            }
            Request::TaskResume(_) | Request::AgentSpawn(_) | Request::SessionPrompt(_) => {
                // It is brought back first.
                self.send(Input::thaw(self.archive.past(id).await?)).await?;
                self.send(Input::Call(caller.clone(), request.clone())).await?.ok_or_else(gone)
            }
            _ => self.archive.answer(caller, request, self.archive.past(id).await?, self).await,
        }
    }

    /// A spawn by an agent or a member that names archived tasks to wait for. One that it may not see is none.
    async fn spawn_after_archived(
        &self,
        mut caller: Caller,
        request: &Request,
        mut error: Error,
    ) -> Result<Response, Error> {
        // Each round finds out about another one of those that the call names.
        while let Some(id) = archived_in(&error) {
            match self.archive.views(&caller, [id].into(), self).await {
                Ok(_) => caller.past.push(id),
                Err(refused) if matches!(refused.kind, Kind::NotAuthorised | Kind::TaskNotFound) => {
                    error.data.remove("archived");
                    return Err(error);
                }
                Err(failed) => return Err(failed),
            }
            match self.send(Input::Call(caller.clone(), request.clone())).await {
                Ok(answer) => return answer.ok_or_else(gone),
                Err(next) => error = next,
            }
        }
        Err(error)
    }

    /// A wait of whose tasks some are archived, and so have ended: the others are asked for by themselves.
    async fn wait_with_archived(&self, caller: Caller, request: Request) -> Result<Response, Error> {
        let Request::TaskWait(params) = request else { return Err(gone()) };
        loop {
            let texts = params.task_ids.clone();
            let find = move |core: &Core, _| texts.iter().map(|text| core.find(text)).collect();
            let found: Result<Vec<Found>, Error> = self.ask(find).await?;
            let found = found?;
            let past =
                found.iter().filter(|found| matches!(found, Found::Archived(_))).map(|found| found.id());
            let past = self.archive.views(&caller, past.collect(), self).await?;
            let live: Vec<TaskId> =
                found.iter().map(|found| found.id()).filter(|id| !past.contains_key(id)).collect();
            let waited = match self.wait_for_live(&caller, &params, live).await {
                // One was archived since it was found.
                Err(error) if archived_in(&error).is_some() => continue,
                waited => waited?,
            };
            let mut live = waited.tasks.into_iter();
            let tasks =
                found.iter().filter_map(|found| past.get(&found.id()).cloned().or_else(|| live.next()));
            // Those of the archive have ended: any one of them is enough where one is.
            let timed_out = waited.timed_out && (past.is_empty() || params.mode == WaitMode::All);
            return Ok(Response::TaskWait(TaskWaitResult { tasks: tasks.collect(), timed_out }));
        }
    }

    async fn wait_for_live(
        &self,
        caller: &Caller,
        params: &TaskWaitParams,
        live: Vec<TaskId>,
    ) -> Result<TaskWaitResult, Error> {
        if live.is_empty() {
            return Ok(TaskWaitResult::default());
        }
        let task_ids = live.iter().map(TaskId::to_string).collect();
        let request = Request::TaskWait(TaskWaitParams { task_ids, ..params.clone() });
        match self.send(Input::Call(caller.clone(), request)).await? {
            Some(Response::TaskWait(waited)) => Ok(waited),
            Some(_) | None => Err(gone()),
        }
    }

    async fn send(&self, input: Input) -> Result<Option<Response>, Error> {
        let (reply, answer) = oneshot::channel();
        self.inbox.send(Message::Call(Box::new(input), reply)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Whether the inbox has no room: what an agent begins now would wait, and is refused instead. Stops, what an operator
    /// calls and what is under way wait for their place, and so do the runners' reports.
    pub fn is_full(&self) -> bool {
        self.inbox.capacity() == 0
    }

    async fn tell(&self, input: Input) {
        // The driver ends only with the daemon; what it is told then concerns nobody.
        drop(self.inbox.send(Message::Tell(Box::new(input))).await);
    }

    /// A connection ended.
    pub async fn disconnected(&self, conn: u64) {
        self.tell(Input::Disconnected(conn)).await;
    }

    /// Gives back messages that a connection was handed and that never reached it.
    pub async fn mailbox_return(&self, conn: u64, ids: Vec<MessageId>) {
        self.tell(Input::ReturnMail(conn, ids)).await;
    }

    /// Gives back notifications that a connection was handed and that never reached it.
    pub async fn notices_return(&self, conn: u64, ids: Vec<NotificationId>) {
        self.tell(Input::ReturnNotices(conn, ids)).await;
    }

    /// Takes the notices of agents that an agent inside the daemon spawned, in the name of its run.
    ///
    /// # Errors
    /// `shuttingDown` when the driver is gone.
    pub async fn notices_below(&self, run: u64, task: TaskId) -> Result<Vec<Notification>, Error> {
        match self.send(Input::TakeNotices(run, task)).await? {
            Some(Response::NotificationNext(taken)) => Ok(taken.notifications),
            Some(_) | None => Err(gone()),
        }
    }

    /// They stand in its transcript.
    pub async fn notices_taken(&self, run: u64, ids: Vec<NotificationId>) {
        self.tell(Input::NoticesTaken(run, ids)).await;
    }

    /// A connection was sent the answer that tells of these ends. Whoever wrote it does not wait, unlike all others here.
    pub fn heard(&self, conn: u64, runs: Vec<Run>) {
        let message = Message::Tell(Box::new(Input::Heard(conn, runs)));
        if let Err(TrySendError::Full(message)) = self.inbox.try_send(message) {
            let inbox = self.inbox.clone();
            tokio::spawn(async move { drop(inbox.send(message).await) });
        }
    }

    /// An agent inside the daemon has a result in its transcript that tells of these ends.
    pub async fn told(&self, run: u64, runs: Vec<Run>) {
        self.tell(Input::Heard(run, runs)).await;
    }

    /// A connection does not get the answer that would have told of these ends.
    pub async fn unheard(&self, conn: u64, runs: Vec<Run>) {
        self.tell(Input::Unheard(conn, runs)).await;
    }

    /// A run asks; the ask is there for everybody to see.
    ///
    /// # Errors
    /// `alreadyTerminal` for a run that is over or is being stopped, `overloaded` where too many asks wait,
    /// `invalidParams`.
    pub async fn asks(&self, run: Run, asked: Asked) -> Result<Ask, Error> {
        match self.send(Input::Ask(run, Box::new(asked))).await? {
            Some(Response::AskGet(ask)) => Ok(ask),
            Some(_) | None => Err(gone()),
        }
    }

    /// A run plans from now on.
    ///
    /// # Errors
    /// `alreadyTerminal` for a run that is over or is being stopped.
    pub async fn plans(&self, run: Run) -> Result<(), Error> {
        self.send(Input::Plans(run)).await.map(drop)
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

    pub(super) async fn forget_mail(&self, read: Vec<(String, MessageId)>) {
        self.tell(Input::ForgetMail(read)).await;
    }

    /// Nothing new starts from now on.
    pub async fn close(&self) {
        self.tell(Input::Closing).await;
    }

    /// What a task was started with, as it is stored. Who may see that is the caller's business.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn launch(&self, id: TaskId) -> Result<Option<Launch>, Error> {
        self.archive.launch(id).await
    }

    /// The prompts that a session was opened with.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn texts(&self, session: &SessionId) -> Result<Texts, Error> {
        self.archive.texts(session).await
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

    /// Gives past events again, as far as the caller may hear of them.
    ///
    /// # Errors
    /// `replayGap` when some of them are gone; `notAuthorised` or `noMember` for a caller that is not who it was.
    pub async fn replay(
        &self,
        caller: Caller,
        params: EventReplayParams,
    ) -> Result<EventReplayResult, Error> {
        let hub = self.hub.clone();
        self.ask(move |core, _| {
            core.holds(&caller)?;
            hub.replay(&params, core.own_team(&caller).as_deref(), |about| core.may_hear(&caller, about))
        })
        .await?
    }

    /// Asks the core something that is no call of the contract.
    ///
    /// # Errors
    /// `shuttingDown` when the driver is gone.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Core, Millis) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let question = Box::new(move |core: &Core, now: Millis| {
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
        bounds::mailbox(team.as_ref(), agent.as_ref())?;
        let caller = caller.clone();
        self.ask(move |core, _| core.address(&caller, team.as_deref(), agent.as_deref()))
            .await?
            .map(|address| address.mailbox)
    }
}

/// Whether a call set something going.
const fn made(response: &Response) -> bool {
    matches!(response, Response::AgentSpawn(_) | Response::TaskResume(_) | Response::TaskForeground(_))
}

/// The archived task that a refusal names.
fn archived_in(error: &Error) -> Option<TaskId> {
    error.data.get("archived")?.as_str()?.parse().ok()
}

fn gone() -> Error {
    Error::new(Kind::ShuttingDown, "the daemon is stopping")
}
