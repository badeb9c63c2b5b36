//! What the edge knows of one connection: who is at its other end, and which of its calls are under way.
//!
//! ```text
//! born (operator or agent) ── team.join ──▶ member ── team.leave ──▶ born
//!        └── hello with a token ──▶ that agent
//! ```
//!
//! Identity comes from the socket and from tokens, never from params. What an identity may do is not decided here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccagent_core::{Caller, Who};
use ccagent_proto::{Error, SessionId};
use jsonrpsee::types::Id;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::budget::{Budget, Share};
use super::peer::{Environment, Peer};
use super::service::cancelled_error;
use super::taken::Taken;
use super::turn::{Turn, Turns};

/// One connection.
#[derive(Debug)]
pub struct Connection {
    id: u64,
    peer: Peer,
    /// As it was when the connection began; where its process is may be looked at again.
    environment: Mutex<Environment>,
    identity: Mutex<Identity>,
    calls: Mutex<HashMap<Id<'static>, (u64, CancellationToken)>>,
    numbers: AtomicUsize,
    under_way: AtomicUsize,
    /// Bytes of the texts of calls that are under way.
    held: AtomicUsize,
    subscriptions: AtomicUsize,
    turns: Turns,
    idle: Notify,
    ended: CancellationToken,
    budget: Arc<Budget>,
}

#[derive(Debug)]
struct Identity {
    born: Who,
    now: Who,
    session: Option<SessionId>,
    /// Cancelled once it is another one: what was opened in its name ends.
    over: CancellationToken,
}

impl Identity {
    fn become_who(&mut self, who: Who) {
        if self.now != who {
            std::mem::take(&mut self.over).cancel();
        }
        self.now = who;
    }
}

/// What a handler knows of its call.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The connection that it came on.
    pub connection: Arc<Connection>,
    /// Cancelled when the caller takes the call back.
    pub cancelled: CancellationToken,
    /// Its turn to make a large answer.
    pub(crate) turn: Arc<Turn>,
    /// What it takes for its answer.
    pub(crate) taken: Taken,
}

impl Origin {
    /// Waits until the call may make a large answer; it may until it is answered, or passes its turn on.
    ///
    /// # Errors
    /// When the caller takes the call back before.
    pub async fn turn(&self) -> Result<(), Error> {
        tokio::select! {
            biased;
            () = self.cancelled.cancelled() => Err(cancelled_error()),
            () = self.turn.take(&self.connection.turns) => Ok(()),
        }
    }

    /// Passes the turn on: there is nothing to answer yet.
    pub fn pass(&self) {
        self.turn.lend(&self.connection.turns);
    }
}

impl Connection {
    /// A connection of this peer, which gives this environment to what it makes, and whose large messages take shares of
    /// the budget.
    pub fn new(id: u64, peer: Peer, who: Who, environment: Environment, budget: Arc<Budget>) -> Arc<Self> {
        Arc::new(Self {
            id,
            peer,
            environment: Mutex::new(environment),
            identity: Mutex::new(Identity {
                born: who.clone(),
                now: who,
                session: None,
                over: CancellationToken::new(),
            }),
            calls: Mutex::default(),
            numbers: AtomicUsize::new(0),
            under_way: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            subscriptions: AtomicUsize::new(0),
            turns: Turns::new(),
            idle: Notify::new(),
            ended: CancellationToken::new(),
            budget,
        })
    }

    /// Its number; no other connection of this daemon's life has it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The caller of a call that makes nothing: without its process's environment.
    pub fn caller(&self) -> Caller {
        let identity = lock(&self.identity);
        Caller {
            conn: self.id,
            who: identity.now.clone(),
            born: match identity.born {
                Who::Agent(task) => Some(task),
                Who::Operator | Who::Member { .. } => None,
            },
            session: identity.session.clone(),
            cwd: None,
            base: Arc::default(),
            vault: None,
            brief: None,
            past: Vec::new(),
        }
    }

    /// The caller of a call that makes something: with its process's base environment, and its working directory as it
    /// is now, or was last where it is gone.
    pub fn creator(&self) -> Caller {
        let mut environment = lock(&self.environment);
        self.peer.renew(&mut environment);
        let Environment { base, cwd } = environment.clone();
        drop(environment);
        Caller { cwd, base, ..self.caller() }
    }

    /// Makes this session the one that calls mean by default.
    pub fn open_session(&self, session: SessionId) {
        lock(&self.identity).session = Some(session);
    }

    /// Makes the connection someone else, as a token or a join proved.
    pub fn become_who(&self, who: Who) {
        lock(&self.identity).become_who(who);
    }

    /// Takes over what a hello proved and named: both, or nothing was said of it.
    pub fn introduce(&self, who: Who, session: Option<SessionId>) {
        let mut identity = lock(&self.identity);
        identity.become_who(who);
        if session.is_some() {
            identity.session = session;
        }
    }

    /// Makes the connection what it was at first.
    pub fn become_born(&self) {
        let mut identity = lock(&self.identity);
        let born = identity.born.clone();
        identity.become_who(born);
    }

    /// Cancelled once the connection is someone else than now.
    pub(crate) fn identity_over(&self) -> CancellationToken {
        lock(&self.identity).over.clone()
    }

    /// Says that nobody is there any more to whom a wait could be answered.
    pub(crate) fn end(&self) {
        self.ended.cancel();
    }

    /// Waits until nobody is there any more.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Whether it is a person's.
    pub(crate) fn is_operator(&self) -> bool {
        lock(&self.identity).now == Who::Operator
    }

    /// What its large messages take shares of.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The turns of its large answers.
    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Takes a pending call back; nothing happens when there is none of that id.
    pub fn cancel(&self, id: &Id<'static>) {
        if let Some((_, token)) = lock(&self.calls).get(id) {
            token.cancel();
        }
    }

    /// Calls and batches that are under way, and the bytes of their texts.
    pub fn under_way(&self) -> (usize, usize) {
        (self.under_way.load(Ordering::Relaxed), self.held.load(Ordering::Relaxed))
    }

    /// Whether a subscription is open.
    pub fn has_subscriptions(&self) -> bool {
        self.subscriptions.load(Ordering::Acquire) > 0
    }

    /// Waits until a subscription ended.
    pub async fn subscription_ended(&self) {
        self.idle.notified().await;
    }

    /// Waits until no subscription is open; what they took for the connection is settled then.
    pub async fn subscriptions_ended(&self) {
        while self.has_subscriptions() {
            self.subscription_ended().await;
        }
    }

    /// Counts a call, or a batch, of so many bytes as under way until the guard is dropped; `None` where the budget of
    /// all connections has no room for it.
    pub(crate) fn begin(self: &Arc<Self>, bytes: usize) -> Option<UnderWay> {
        let mut share = Share::of(self);
        if !share.hold(bytes) {
            return None;
        }
        self.under_way.fetch_add(1, Ordering::Relaxed);
        self.held.fetch_add(bytes, Ordering::Relaxed);
        Some(UnderWay { connection: Arc::clone(self), bytes, _share: share })
    }

    /// Lets a call be taken back by its id until it is dropped.
    pub(crate) fn revocable(self: &Arc<Self>, id: Option<Id<'static>>) -> Revocable {
        let cancelled = CancellationToken::new();
        let number = self.numbers.fetch_add(1, Ordering::Relaxed) as u64;
        if let Some(id) = &id {
            lock(&self.calls).insert(id.clone(), (number, cancelled.clone()));
        }
        Revocable { connection: Arc::clone(self), id, number, cancelled }
    }

    /// Counts a subscription as open until the guard is dropped.
    pub(crate) fn subscribed(self: &Arc<Self>) -> Subscribed {
        self.subscriptions.fetch_add(1, Ordering::AcqRel);
        Subscribed(Arc::clone(self))
    }
}

/// A call or batch that is under way.
#[derive(Debug)]
pub(crate) struct UnderWay {
    connection: Arc<Connection>,
    bytes: usize,
    _share: Share,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.connection.under_way.fetch_sub(1, Ordering::Relaxed);
        self.connection.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A call that can be taken back.
#[derive(Debug)]
pub(crate) struct Revocable {
    connection: Arc<Connection>,
    id: Option<Id<'static>>,
    number: u64,
    /// Cancelled when the caller takes the call back.
    pub(crate) cancelled: CancellationToken,
}

impl Drop for Revocable {
    fn drop(&mut self) {
        let Some(id) = &self.id else { return };
        let mut calls = lock(&self.connection.calls);
        // A later call may have taken the same id: it stays.
        if calls.get(id).is_some_and(|(number, _)| *number == self.number) {
            calls.remove(id);
        }
    }
}

/// A subscription that is open.
#[derive(Debug)]
pub(crate) struct Subscribed(Arc<Connection>);

impl Drop for Subscribed {
    fn drop(&mut self) {
        self.0.subscriptions.fetch_sub(1, Ordering::AcqRel);
        self.0.idle.notify_one();
    }
}

/// Nothing under these locks can panic half-way, so a poisoned one still holds whole values.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    use super::*;

    /// An operator's connection of this very process.
    pub(crate) fn operator(id: u64) -> Arc<Connection> {
        Connection::new(id, Peer::own(), Who::Operator, Environment::own(), Budget::new(usize::MAX))
    }

    /// SV-05: leaving a team gives back what the connection was, not what it claims.
    #[test]
    fn a_member_that_leaves_is_what_it_was() {
        let connection = operator(1);
        connection.become_who(Who::Member { team: "t".into(), name: "n".into() });
        assert!(matches!(connection.caller().who, Who::Member { .. }));
        connection.become_born();
        assert_eq!(connection.caller().who, Who::Operator);
    }

    /// SV-09: an id that is used again names the newer call.
    #[test]
    fn a_reused_id_cancels_the_newer_call() {
        let connection = operator(1);
        let first = connection.revocable(Some(Id::Number(1)));
        let second = connection.revocable(Some(Id::Number(1)));
        drop(first);
        connection.cancel(&Id::Number(1));
        assert!(second.cancelled.is_cancelled());
    }

    /// A caller that makes something brings its process's base environment.
    #[test]
    fn only_a_creator_brings_its_environment() {
        let connection = operator(1);
        assert!(connection.caller().base.is_empty());
        let creator = connection.creator();
        assert_eq!(creator.base.get("PATH").cloned(), std::env::var("PATH").ok());
        assert_eq!(creator.cwd.as_deref(), std::env::current_dir().unwrap().to_str());
    }

    /// I14: a process that changed its directory makes things where it is now, and a gone one where it was last.
    #[test]
    fn a_creator_is_where_its_process_is_now() {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "read go; cd /usr; echo there; read end"]).current_dir("/");
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let peer = Peer::process(shell.id().cast_signed());
        let connection =
            Connection::new(1, peer, Who::Operator, Environment::default(), Budget::new(usize::MAX));
        assert_eq!(connection.creator().cwd.as_deref(), Some("/"));
        shell.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
        assert_eq!(connection.creator().cwd.as_deref(), Some("/usr"));
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert_eq!(connection.creator().cwd.as_deref(), Some("/usr"));
    }
}
