//! Events after commit: numbered, kept in a ring, handed to subscribers, and waking who waits.
//!
//! The driver publishes, in order; nobody else numbers anything. A subscriber that is too slow is cut off with
//! `lagged` and subscribes again (I17). What a waiter missed is never missed: a watch counts from its creation.

mod ring;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ccagent_core::cx::About;
use ccagent_core::effect::Happened;
use ccagent_core::{Caller, Who};
use ccagent_proto::ask::Ask;
use ccagent_proto::event::{
    Event, EventItem, EventReplayParams, EventReplayResult, EventSubscribeParams, Marker, Topic,
};
use ccagent_proto::task::Task;
use ccagent_proto::{Error, Kind, SessionId, TaskId};
use tokio::sync::{Notify, mpsc};

use ring::{Entry, Past, Ring};

/// What a waiter waits on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// Anything about a task but its output.
    Task(TaskId),
    /// A task's output grew.
    Output(TaskId),
    /// A mailbox changed.
    Mailbox(Arc<str>),
    /// Anything about a session's tasks and notifications.
    Session(SessionId),
}

/// Bounds of the hub.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Events kept for replay.
    pub ring: usize,
    /// Events that a subscriber may be behind.
    pub subscriber: usize,
}

/// The place where events leave.
#[derive(Clone, Debug)]
pub struct Hub {
    inner: Arc<Mutex<Inner>>,
    epoch: Arc<str>,
}

#[derive(Debug)]
struct Inner {
    seq: u64,
    ring: Ring,
    bounds: Bounds,
    subscribers: Vec<Subscriber>,
    waiters: HashMap<Key, Vec<Weak<Notify>>>,
    /// Teams that were made in this life, with the number of that event: before it their name was another team's.
    teams: HashMap<Arc<str>, u64>,
}

/// What a subscriber gets of the events.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// What it asked for.
    pub params: EventSubscribeParams,
    /// In whose name it is: it hears what that identity may, and ends with it.
    pub caller: Option<Caller>,
    /// The team that the caller is in.
    pub team: Option<String>,
}

/// The state with which a subscription begins.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Live tasks.
    pub tasks: Vec<Task>,
    /// Asks that wait for an answer.
    pub asks: Vec<Ask>,
}

/// Whether a caller may hear of what happened.
pub type Sight<'a> = &'a dyn Fn(&Caller, &About) -> bool;

impl Wanted {
    /// Whether something is inside its filter.
    pub(crate) fn fits(&self, task: Option<TaskId>, session: Option<&SessionId>, team: Option<&str>) -> bool {
        self.params.filter.as_ref().is_none_or(|filter| {
            (filter.task_id.is_none() || filter.task_id == task)
                && (filter.session_id.is_none() || filter.session_id.as_ref() == session)
                && (filter.team_name.is_none() || filter.team_name.as_deref() == team)
        })
    }

    fn has(&self, topic: Topic, about: &About, sight: Sight<'_>) -> bool {
        self.params.topics.as_ref().is_none_or(|topics| topics.contains(&topic))
            && self.fits(about.task, about.session.as_ref(), about.team.as_deref())
            && self.caller.as_ref().is_none_or(|caller| sight(caller, about))
    }
}

#[derive(Debug)]
struct Subscriber {
    wanted: Wanted,
    queue: mpsc::Sender<Arc<Entry>>,
    lag: Arc<Mutex<Option<u64>>>,
}

impl Hub {
    /// A hub of one daemon life.
    pub fn new(epoch: Arc<str>, bounds: Bounds) -> Self {
        let ring = Ring::new(bounds.ring);
        let inner = Inner {
            seq: 0,
            ring,
            bounds,
            subscribers: Vec::new(),
            waiters: HashMap::new(),
            teams: HashMap::new(),
        };
        Self { inner: Arc::new(Mutex::new(inner)), epoch }
    }

    /// This daemon life's name.
    pub fn epoch(&self) -> &str {
        &self.epoch
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers an event, and tells subscribers and waiters.
    pub fn publish(&self, happened: Happened, sight: Sight<'_>) {
        let mut inner = self.lock();
        inner.seq += 1;
        let seq = inner.seq;
        match (&happened.about.team, happened.r#type) {
            (Some(team), "team.created") => drop(inner.teams.insert(team.clone(), seq)),
            (Some(team), "team.deleted") => drop(inner.teams.remove(team)),
            _ => {}
        }
        let entry = Arc::new(Entry::new(seq, happened));
        inner.ring.push(entry.clone());
        inner.subscribers.retain(|subscriber| subscriber.offer(&entry, sight));
        let about = &entry.about;
        let task = about.task.map(Key::Task);
        let session = about.session.clone().map(Key::Session);
        let mailbox = about.mailbox.clone().map(Key::Mailbox);
        for key in [task, session, mailbox].into_iter().flatten() {
            inner.wake(&key);
        }
    }

    /// Wakes who waits on a key, without an event.
    pub fn wake(&self, key: &Key) {
        self.lock().wake(key);
    }

    /// Begins to watch some keys.
    pub fn watch(&self, keys: impl IntoIterator<Item = Key>) -> Watch {
        let notify = Arc::new(Notify::new());
        let keys: Vec<Key> = keys.into_iter().collect();
        let mut inner = self.lock();
        for key in &keys {
            inner.waiters.entry(key.clone()).or_default().push(Arc::downgrade(&notify));
        }
        Watch { hub: self.clone(), keys, notify }
    }

    /// Begins a subscription whose snapshot is the state after the newest event (called by the driver alone).
    pub(crate) fn subscribe(
        &self,
        mut wanted: Wanted,
        state: Snapshot,
        sight: Sight<'_>,
    ) -> Result<EventStream, Error> {
        if let Some(topics) = &mut wanted.params.topics {
            topics.sort_unstable();
            topics.dedup();
        }
        let mut inner = self.lock();
        let missed = match wanted.params.since_seq {
            None => Past::default(),
            Some(since) => {
                let heard = |topic, about: &About| wanted.has(topic, about, sight);
                inner.after(since, wanted.team.as_deref(), usize::MAX, heard)?
            }
        };
        let (queue, events) = mpsc::channel(inner.bounds.subscriber);
        let lag = Arc::new(Mutex::new(None));
        // Without an event in between nobody else would notice who left.
        inner.subscribers.retain(|subscriber| !subscriber.queue.is_closed());
        inner.subscribers.push(Subscriber { wanted, queue, lag: lag.clone() });
        let Snapshot { tasks, asks } = state;
        let first = Marker::Snapshot { seq: inner.seq, epoch: self.epoch.to_string(), tasks, asks };
        let epoch = self.epoch.clone();
        Ok(EventStream { first: Some(first), missed, events, lag, over: false, epoch })
    }

    /// Ends the subscriptions that an identity opened; what was published before still reaches them.
    pub(crate) fn end_of(&self, who: &Who) {
        self.lock()
            .subscribers
            .retain(|subscriber| subscriber.wanted.caller.as_ref().is_none_or(|caller| caller.who != *who));
    }

    /// Gives past events again, to a caller that may be in a team.
    ///
    /// # Errors
    /// `replayGap` when some of them are gone, `invalidParams` for a number that is not there yet.
    pub fn replay(
        &self,
        params: &EventReplayParams,
        team: Option<&str>,
        heard: impl Fn(&About) -> bool,
    ) -> Result<EventReplayResult, Error> {
        let limit = ccagent_core::page::limit(params.limit)?;
        let inner = self.lock();
        let past = inner.after(params.since_seq, team, limit + 1, |_, about| heard(about))?;
        let mut events: Vec<Event> = past.take(limit + 1).map(|entry| entry.event(&self.epoch)).collect();
        // Behind the last page stands what the caller may not hear of: it is not looked at again.
        let more = events.len() > limit;
        events.truncate(limit);
        let last = events.last().filter(|_| more).map_or(inner.seq, |event| event.seq);
        Ok(EventReplayResult { events, next_seq: last })
    }

    /// The newest event's number.
    pub fn seq(&self) -> u64 {
        self.lock().seq
    }
}

impl Inner {
    fn wake(&mut self, key: &Key) {
        if let Some(waiters) = self.waiters.get(key) {
            for waiter in waiters {
                if let Some(notify) = waiter.upgrade() {
                    notify.notify_one();
                }
            }
        }
    }

    /// Kept events with a greater number, as far as they are looked for: at least the first `most` of them. For a member
    /// of a team none from before that team: another one had its name.
    fn after(
        &self,
        since: u64,
        team: Option<&str>,
        most: usize,
        looked_for: impl Fn(Topic, &About) -> bool,
    ) -> Result<Past, Error> {
        let oldest = self.seq + 1 - self.ring.len() as u64;
        if since > self.seq {
            return Err(Error::new(
                Kind::ReplayGap,
                format!("event {since} was not sent in this life of the daemon: take a snapshot"),
            )
            .with("newestSeq", self.seq));
        }
        if since + 1 < oldest {
            return Err(Error::new(
                Kind::ReplayGap,
                format!("events before {oldest} are gone: take a snapshot"),
            )
            .with("oldestSeq", oldest));
        }
        let made = team.and_then(|team| self.teams.get(team)).map_or(0, |made| made - 1);
        Ok(self.ring.after(since.max(made), most, looked_for))
    }
}

impl Subscriber {
    /// Hands an event over; `false` when this subscriber is over.
    fn offer(&self, entry: &Arc<Entry>, sight: Sight<'_>) -> bool {
        if !self.wanted.has(entry.topic, &entry.about, sight) {
            return !self.queue.is_closed();
        }
        match self.queue.try_send(entry.clone()) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Closed(_)) => false,
            Err(mpsc::error::TrySendError::Full(_)) => {
                *self.lag.lock().unwrap_or_else(PoisonError::into_inner) = Some(entry.seq);
                false
            }
        }
    }
}

/// A subscription: a snapshot, what was missed, then events as they come; a `lagged` last where it was too slow.
#[derive(Debug)]
pub struct EventStream {
    first: Option<Marker>,
    missed: Past,
    events: mpsc::Receiver<Arc<Entry>>,
    lag: Arc<Mutex<Option<u64>>>,
    over: bool,
    epoch: Arc<str>,
}

impl EventStream {
    /// The next item; `None` when the subscription is over.
    pub async fn next(&mut self) -> Option<EventItem> {
        if let Some(first) = self.first.take() {
            return Some(EventItem::Marker(first));
        }
        if let Some(missed) = self.missed.next() {
            return Some(EventItem::Event(missed.event(&self.epoch)));
        }
        if let Some(entry) = self.events.recv().await {
            return Some(EventItem::Event(entry.event(&self.epoch)));
        }
        if std::mem::replace(&mut self.over, true) {
            return None;
        }
        let from_seq = self.lag.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(EventItem::Marker(Marker::Lagged { from_seq }))
    }
}

/// A wait on some keys, from its creation on.
#[derive(Debug)]
pub struct Watch {
    hub: Hub,
    keys: Vec<Key>,
    notify: Arc<Notify>,
}

impl Watch {
    /// Returns when something changed since the creation or the last return.
    pub async fn changed(&mut self) {
        self.notify.notified().await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let own = Arc::downgrade(&self.notify);
        let mut inner = self.hub.lock();
        for key in &self.keys {
            if let Some(waiters) = inner.waiters.get_mut(key) {
                waiters.retain(|waiter| !waiter.ptr_eq(&own));
                if waiters.is_empty() {
                    inner.waiters.remove(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ccagent_core::cx::About;
    use ccagent_proto::event::Topic;

    use super::*;

    fn hub(ring: usize, subscriber: usize) -> Hub {
        Hub::new("e".into(), Bounds { ring, subscriber })
    }

    fn publish(hub: &Hub, count: u64) {
        for _ in 0..count {
            let about = About { session: Some(SessionId::main()), ..About::default() };
            let data = serde_json::json!({});
            hub.publish(
                Happened { at: 0, topic: Topic::Session, r#type: "session.opened", about, data },
                &|_, _| true,
            );
        }
    }

    fn seq_of(item: Option<EventItem>) -> Option<u64> {
        match item? {
            EventItem::Event(event) => Some(event.seq),
            EventItem::Marker(Marker::Snapshot { seq, .. }) => Some(seq),
            EventItem::Marker(Marker::Lagged { .. }) => None,
        }
    }

    /// I17, K138: a snapshot's number and the events after it have no gap, whatever was published before.
    #[tokio::test]
    async fn a_subscription_goes_on_from_its_snapshot() {
        let hub = hub(8, 8);
        publish(&hub, 3);
        let mut stream = hub.subscribe(Wanted::default(), Snapshot::default(), &|_, _| true).unwrap();
        publish(&hub, 2);
        let seen = [seq_of(stream.next().await), seq_of(stream.next().await), seq_of(stream.next().await)];
        assert_eq!(seen, [Some(3), Some(4), Some(5)]);
    }

    /// I17: a subscriber that doesn't read is told from where on it missed something, and nothing waits for it.
    #[tokio::test]
    async fn a_slow_subscriber_ends_with_lagged() {
        let hub = hub(8, 2);
        let mut stream = hub.subscribe(Wanted::default(), Snapshot::default(), &|_, _| true).unwrap();
        publish(&hub, 5);
        let mut items = Vec::new();
        while let Some(item) = stream.next().await {
            items.push(item);
        }
        assert_eq!(items.len(), 4);
        assert_eq!(items.last(), Some(&EventItem::Marker(Marker::Lagged { from_seq: 3 })));
    }

    /// K138: what fell out of the ring is a gap that is named, not an empty answer.
    #[test]
    fn a_replay_of_what_is_gone_names_the_oldest() {
        let hub = hub(2, 2);
        publish(&hub, 5);
        let params = EventReplayParams { since_seq: 3, limit: None };
        assert_eq!(hub.replay(&params, None, |_| true).unwrap().next_seq, 5);
        let gap = hub.replay(&EventReplayParams { since_seq: 1, limit: None }, None, |_| true).unwrap_err();
        assert_eq!((gap.kind, &gap.data["oldestSeq"]), (Kind::ReplayGap, &serde_json::json!(4)));
        let ahead = hub.replay(&EventReplayParams { since_seq: 9, limit: None }, None, |_| true).unwrap_err();
        assert_eq!(ahead.kind, Kind::ReplayGap);
    }

    /// A wake between the making of a watch and its first wait is not missed; a dropped watch leaves nothing.
    #[tokio::test]
    async fn a_wake_after_the_watch_was_made_is_not_missed() {
        let hub = hub(2, 2);
        let mut watch = hub.watch([Key::Session(SessionId::main())]);
        publish(&hub, 1);
        watch.changed().await;
        drop(watch);
        assert!(hub.lock().waiters.is_empty());
    }
    /// I8: subscriptions that ended leave nothing behind where no event tells of them, and naming a topic a thousand
    /// times costs as much as once.
    #[test]
    fn what_is_kept_of_subscribers_is_bounded() {
        let hub = hub(2, 2);
        for _ in 0..10 {
            let topics = Some([Topic::Mail, Topic::Task].repeat(1000));
            let params = EventSubscribeParams { topics, ..EventSubscribeParams::default() };
            hub.subscribe(Wanted { params, ..Wanted::default() }, Snapshot::default(), &|_, _| true).unwrap();
        }
        let inner = hub.lock();
        assert_eq!(inner.subscribers.len(), 1);
        let topics = inner.subscribers[0].wanted.params.topics.clone();
        assert_eq!(topics, Some(vec![Topic::Task, Topic::Mail]));
    }
}
