//! The only owner of the core: one future, one inbox.
//!
//! ```text
//! inbox ─▶ apply, up to a batch ─▶ one commit ─▶ release in order: events, effects, replies
//! ```
//!
//! Nothing leaves before the commit that it follows from: *durable before acknowledged* is the shape of the loop.
//! Reads take the same way, so that nobody sees a state that a crash could undo. A failed commit ends the loop.

mod archive;
mod clock;
mod handle;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ccagent_core::cx::About;
use ccagent_core::effect::Start;
use ccagent_core::record::Write;
use ccagent_core::recovery::Survivor;
use ccagent_core::task::{Row, Stop};
use ccagent_core::{Caller, Core, Cx, Effect, Ids, Input, bounds};
use ccagent_proto::event::EventSubscribeParams;
use ccagent_proto::method::Response;
use ccagent_proto::{Error, Millis, TaskId};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::hub::{EventStream, Hub, Snapshot, Wanted};
use crate::store::{self, Store, StoreError};

pub use clock::Clock;
pub use handle::Handle;

/// Inputs that one commit covers at most.
const BATCH: usize = 256;
/// Bytes of writes after which a batch is full.
const BATCH_BYTES: usize = 1 << 20;

// A row that the store refuses would end the daemon: the rules see to it that there is none.
const _: () = assert!(bounds::ROW_MOST <= store::MAX_VALUE);

/// A question about the core.
pub(crate) type Question = Box<dyn FnOnce(&Core, Millis) + Send>;
/// A call's way back.
type Reply = oneshot::Sender<Result<Option<Response>, Error>>;

/// What comes into the inbox.
pub(crate) enum Message {
    /// An input whose answer somebody waits for.
    Call(Box<Input>, Reply),
    /// An input that nobody waits for.
    Tell(Box<Input>),
    /// A subscription: its snapshot is a read like any other.
    Subscribe(Box<(Caller, EventSubscribeParams)>, oneshot::Sender<Result<EventStream, Error>>),
    /// A question about the core that is no call of the contract.
    Ask(Question),
}

/// Carries out what the core wants done to processes and files.
pub trait Hands: Send + 'static {
    /// Starts an attempt.
    fn start(&self, start: Start);
    /// Ends an attempt's process tree.
    fn stop(&self, task: TaskId, attempt: u32, stop: Stop);
    /// Keeps no more of what an attempt prints.
    fn close_output(&self, task: TaskId, attempt: u32);
    /// Appends a row to a task's `events.jsonl`.
    fn log(&self, directory: String, row: serde_json::Value);
    /// Deletes a task's directory.
    fn remove_files(&self, directory: String);
    /// Ends what waits for a lead's next turn.
    fn let_go(&self, lead: TaskId);
    /// Forgets environment values.
    fn forget(&self, vault: u64);
}

/// The driver before it runs.
pub struct Driver<H> {
    core: Core,
    store: Arc<Store>,
    hub: Hub,
    hands: H,
    clock: Clock,
    inbox: mpsc::Receiver<Message>,
}

impl<H> std::fmt::Debug for Driver<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Driver")
    }
}

/// What an applied message leaves for after the commit.
enum Release {
    Effects(Vec<Effect>),
    Reply(Box<Result<Option<Response>, Error>>, Reply),
    Subscribe(Box<Wanted>, Snapshot, oneshot::Sender<Result<EventStream, Error>>),
    Refuse(Error, oneshot::Sender<Result<EventStream, Error>>),
    Ask(Question),
}

/// Ids from the operating system's randomness and the time.
struct RandomIds;

impl Ids for RandomIds {
    fn id(&mut self) -> u128 {
        Uuid::now_v7().as_u128()
    }

    fn secret(&mut self) -> u128 {
        Uuid::new_v4().as_u128()
    }
}

impl<H: Hands> Driver<H> {
    /// A driver over a restored core, and the handle to its inbox.
    pub fn new(core: Core, store: Arc<Store>, hub: Hub, hands: H, inbox: usize) -> (Self, Handle) {
        let (sender, receiver) = mpsc::channel(inbox);
        let handle = Handle::new(sender, store.clone(), hub.clone());
        let clock = Clock::start();
        (Self { core, store, hub, hands, clock, inbox: receiver }, handle)
    }

    /// The first step of a daemon's life: decides what a restart decides, and says whom to look for.
    ///
    /// # Errors
    /// When the decisions could not be stored.
    pub async fn recover(&mut self) -> Result<Vec<Survivor>, StoreError> {
        self.step(Core::recover).await?;
        Ok(self.core.survivors())
    }

    async fn step(&mut self, change: impl FnOnce(&mut Core, &mut Cx<'_>)) -> Result<(), StoreError> {
        let (writes, effects) = {
            let mut ids = RandomIds;
            let mut cx = Cx::new(self.clock.now(), &mut ids);
            change(&mut self.core, &mut cx);
            (cx.writes, cx.effects)
        };
        self.commit(writes).await?;
        self.release(vec![Release::Effects(effects)]);
        Ok(())
    }

    /// Runs until every handle is gone, or the store fails.
    ///
    /// # Errors
    /// The store's failure: the daemon has to stop.
    pub async fn run(mut self) -> Result<(), StoreError> {
        self.step(Core::resume_queue).await?;
        loop {
            let wait = self.core.next_deadline().map(|at| at.saturating_sub(self.clock.now()));
            let first = match wait {
                Some(0) => Some(Message::Tell(Box::new(Input::Tick))),
                Some(ms) => tokio::select! {
                    message = self.inbox.recv() => message,
                    () = tokio::time::sleep(Duration::from_millis(ms)) => Some(Message::Tell(Box::new(Input::Tick))),
                },
                None => self.inbox.recv().await,
            };
            let Some(first) = first else { return Ok(()) };
            let (writes, releases) = self.apply_batch(first);
            self.commit(writes).await?;
            self.release(releases);
        }
    }

    /// Applies a message and everything that is queued behind it, up to a bound.
    fn apply_batch(&mut self, first: Message) -> (Vec<Write>, Vec<Release>) {
        let (mut writes, mut releases) = (Vec::new(), Vec::new());
        let (mut count, mut bytes) = (0, 0);
        let mut next = Some(first);
        while let Some(message) = next {
            let before = writes.len();
            self.apply(message, &mut writes, &mut releases);
            count += 1;
            bytes += writes.iter().skip(before).map(weight).sum::<usize>();
            next = if count < BATCH && bytes < BATCH_BYTES { self.inbox.try_recv().ok() } else { None };
        }
        (writes, releases)
    }

    fn apply(&mut self, message: Message, writes: &mut Vec<Write>, releases: &mut Vec<Release>) {
        let now = self.clock.now();
        let mut ids = RandomIds;
        let mut cx = Cx::new(now, &mut ids);
        let reply = match message {
            Message::Call(input, reply) => Some((self.core.apply(&mut cx, *input), reply)),
            Message::Tell(input) => {
                if let Err(error) = self.core.apply(&mut cx, *input) {
                    tracing::warn!(%error, "an input was refused");
                }
                None
            }
            Message::Subscribe(asked, reply) => {
                let (caller, params) = *asked;
                releases.push(match self.core.holds(&caller) {
                    Ok(()) => {
                        let team = self.core.own_team(&caller);
                        let wanted = Wanted { params, caller: Some(caller.clone()), team };
                        let state = snapshot(&self.core, &caller, &wanted, now);
                        Release::Subscribe(Box::new(wanted), state, reply)
                    }
                    Err(error) => Release::Refuse(error, reply),
                });
                None
            }
            // It may see what was applied just now: its answer waits for the commit like any other.
            Message::Ask(question) => {
                releases.push(Release::Ask(question));
                None
            }
        };
        writes.append(&mut cx.writes);
        if !cx.effects.is_empty() {
            releases.push(Release::Effects(cx.effects));
        }
        if let Some((answer, reply)) = reply {
            releases.push(Release::Reply(Box::new(answer), reply));
        }
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        if writes.is_empty() {
            return Ok(());
        }
        // The last write of a key wins, and is the only one that is encoded.
        let mut last: BTreeMap<(&'static str, String), Write> = BTreeMap::new();
        for write in writes {
            last.insert(write.key(), write);
        }
        let mut rows = Vec::with_capacity(last.len());
        for ((kind, id), write) in last {
            let value = match write {
                Write::Put(record) => Some(record.encode().map_err(|_| StoreError::Refused {
                    kind: kind.into(),
                    id: id.as_str().into(),
                    why: "it has no text form",
                })?),
                Write::Delete { .. } => None,
            };
            rows.push(store::Write { kind, id: id.into(), value });
        }
        self.store.commit(rows).await
    }

    fn release(&self, releases: Vec<Release>) {
        for release in releases {
            match release {
                Release::Effects(effects) => effects.into_iter().for_each(|effect| self.carry_out(effect)),
                // A caller that is gone needs no answer.
                Release::Reply(answer, reply) => drop(reply.send(*answer)),
                Release::Subscribe(wanted, state, reply) => {
                    drop(reply.send(self.hub.subscribe(*wanted, state, &self.sight())));
                }
                Release::Refuse(error, reply) => drop(reply.send(Err(error))),
                Release::Ask(question) => question(&self.core, self.clock.now()),
            }
        }
    }

    fn sight(&self) -> impl Fn(&Caller, &About) -> bool {
        |caller, about| self.core.may_hear(caller, about)
    }

    fn carry_out(&self, effect: Effect) {
        let directory = |session: &ccagent_proto::SessionId, task: TaskId| {
            format!("{}/sessions/{session}/{task}", self.core.limits.state_dir)
        };
        match effect {
            Effect::Event(happened) => self.hub.publish(happened, &self.sight()),
            Effect::Start(start) => self.hands.start(*start),
            Effect::Stop { task, attempt, grace_ms, cause } => {
                self.hands.stop(task, attempt, Stop { cause, grace_ms });
            }
            Effect::CloseOutput { task, attempt } => self.hands.close_output(task, attempt),
            Effect::Log { task, session, row } => self.hands.log(directory(&session, task), row),
            Effect::RemoveFiles { task, session } => self.hands.remove_files(directory(&session, task)),
            Effect::LetGo { lead } => self.hands.let_go(lead),
            Effect::Over(who) => self.hub.end_of(&who),
            Effect::Forget { vault } => self.hands.forget(vault),
        }
    }
}

/// The live tasks and pending asks that a subscription is about, as far as its caller may see them.
fn snapshot(core: &Core, caller: &Caller, wanted: &Wanted, now: Millis) -> Snapshot {
    let fits = |row: &&Row| {
        core.needs_sight(caller, row).is_ok() && wanted.fits(Some(row.id), Some(&row.session), row.team())
    };
    let tasks = core.live().filter(fits).map(|row| core.view_row(row, now)).collect();
    let asks = core
        .pending_asks(caller, |row| wanted.fits(Some(row.task), Some(&row.session), core.team_of_ask(row)));
    Snapshot { tasks, asks }
}

/// About how many bytes a write has.
fn weight(write: &Write) -> usize {
    match write {
        Write::Put(ccagent_core::Record::Body(body)) => body.text.len(),
        Write::Put(_) => 512,
        Write::Delete { .. } => 64,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use ccagent_core::Record;
    use ccagent_core::message::Body;
    use ccagent_core::table::Stored;
    use ccagent_proto::mailbox::MailboxPollParams;
    use ccagent_proto::message::{Content, MessageSendParams};
    use ccagent_proto::method::{MailboxPoll, MessageSend, SessionOpen};
    use ccagent_proto::session::SessionOpenParams;

    use super::*;
    use crate::hub::Bounds;

    pub(crate) struct NoHands;

    impl Hands for NoHands {
        fn start(&self, _: Start) {}
        fn stop(&self, _: TaskId, _: u32, _: Stop) {}
        fn close_output(&self, _: TaskId, _: u32) {}
        fn let_go(&self, _: TaskId) {}
        fn log(&self, _: String, _: serde_json::Value) {}
        fn remove_files(&self, _: String) {}
        fn forget(&self, _: u64) {}
    }

    /// A driver that does not run yet.
    pub(crate) fn idle(inbox: usize) -> (Driver<NoHands>, Handle, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let options = store::Options::new(ccagent_core::Record::KINDS);
        let store = Arc::new(Store::open(&dir.path().join("state"), options).unwrap());
        let hub = Hub::new("e".into(), Bounds { ring: 1, subscriber: 1 });
        let core = Core::new(ccagent_core::Limits::default());
        let (driver, handle) = Driver::new(core, store, hub, NoHands, inbox);
        (driver, handle, dir)
    }

    /// MB-16, I2: mail whose text can't be read is handed to nobody: whoever asks next gets it.
    #[tokio::test]
    async fn mail_that_can_not_be_given_is_its_mailboxs_again() {
        let (mut driver, handle, _dir) = idle(8);
        driver.recover().await.unwrap();
        let store = driver.store.clone();
        let running = tokio::spawn(driver.run());
        let params = MessageSendParams {
            to: "main".into(),
            message: Content::Text("x".repeat(100_000)),
            ..MessageSendParams::default()
        };
        let opened =
            handle.call::<SessionOpen>(Caller::operator(1), SessionOpenParams::default()).await.unwrap();
        let sender = Caller { session: Some(opened.session_id), ..Caller::operator(1) };
        let id = handle.call::<MessageSend>(sender, params).await.unwrap().delivered[0].message_id;
        let body = Body { id, text: "again".into() };
        let row = |value| store::Write { kind: Body::KIND, id: body.id.to_string().into(), value };
        store.commit(vec![row(None)]).await.unwrap();
        let poll = async |conn| {
            handle.call::<MailboxPoll>(Caller::operator(conn), MailboxPollParams::default()).await
        };
        assert!(poll(1).await.is_err());
        store.commit(vec![row(Some(Record::Body(body.clone()).encode().unwrap()))]).await.unwrap();
        assert_eq!(poll(2).await.unwrap().messages[0].text, "again");
        running.abort();
    }

    /// L6: a question, too, is answered only after the commit of what it saw.
    #[tokio::test]
    async fn a_question_is_answered_after_the_commit() {
        let (mut driver, _handle, _dir) = idle(1);
        let (reply, mut answer) = oneshot::channel();
        let question: Question = Box::new(move |core, _| reply.send(core.paused()).unwrap());
        let (writes, releases) = driver.apply_batch(Message::Ask(question));
        assert_eq!(answer.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        driver.commit(writes).await.unwrap();
        driver.release(releases);
        assert_eq!(answer.try_recv(), Ok(false));
    }
}
