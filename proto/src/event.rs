//! Events: numbered after-commit facts that subscribers follow and replay.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Millis;
use crate::Subscription;
use crate::ask::Ask;
use crate::id::{SessionId, TaskId};
use crate::task::Task;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Topic {
    /// A task's life.
    Task,
    /// The same in the words of the agent SDKs.
    Sdk,
    /// Output was appended.
    Output,
    /// A notification was queued or acknowledged.
    Notification,
    /// A message was queued, delivered, read or rejected.
    Mail,
    /// A team changed.
    Team,
    /// A team's task list changed.
    Tasklist,
    /// An ask was made, answered or withdrawn.
    Ask,
    /// A lease was granted or ended.
    Lease,
    /// A worktree was made, kept or removed.
    Worktree,
    /// A dream began or ended.
    Dream,
    /// A solo changed.
    Solo,
    /// A peer came or went.
    Peer,
    /// A session was opened, paused or closed.
    Session,
    /// The daemon itself.
    Daemon,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its number: gap-free within an epoch.
    pub seq: u64,
    /// The daemon's life that numbered it.
    pub epoch: String,
    /// When.
    pub at: Millis,
    /// What it is about.
    pub topic: Topic,
    /// What happened, for example `task.spawned`.
    pub r#type: String,
    /// The facts; `taskId`, `sessionId` and `teamName` where they apply.
    pub data: serde_json::Value,
}

/// What of the stream is wanted.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventFilter {
    /// Only this session's.
    pub session_id: Option<SessionId>,
    /// Only this task's.
    pub task_id: Option<TaskId>,
    /// Only this team's.
    pub team_name: Option<String>,
}

/// Params of the subscription `event.subscribe`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventSubscribeParams {
    /// Only these topics; all of them when absent.
    pub topics: Option<Vec<Topic>>,
    /// Only what matches.
    pub filter: Option<EventFilter>,
    /// Replay what came after this number first.
    pub since_seq: Option<u64>,
}

/// One item of the event stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum Marker {
    /// The first item: the state as of `seq`.
    #[serde(rename = "snapshot")]
    Snapshot {
        /// The number of the newest event that the snapshot holds.
        seq: u64,
        /// The daemon's life.
        epoch: String,
        /// Live tasks.
        tasks: Vec<Task>,
        /// Asks that wait for an answer.
        asks: Vec<Ask>,
    },
    /// The subscriber was too slow: subscribe again.
    #[serde(rename = "lagged")]
    Lagged {
        /// The first number that was not sent.
        #[serde(rename = "fromSeq")]
        from_seq: u64,
    },
}

/// An item of `event.subscribe`: an event, or a marker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum EventItem {
    /// An event.
    Event(Event),
    /// A snapshot or `lagged`.
    Marker(Marker),
}

/// The subscription to events.
#[derive(Debug)]
pub struct EventSubscribe;

impl Subscription for EventSubscribe {
    const NAME: &'static str = "event.subscribe";
    const UNSUBSCRIBE: &'static str = "event.unsubscribe";
    const NOTIFICATION: &'static str = "event";
    const SUMMARY: &'static str = "Follows events; the first item is a snapshot.";
    type Params = EventSubscribeParams;
    type Item = EventItem;
}

/// Params of `event.replay`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventReplayParams {
    /// Events after this number.
    pub since_seq: u64,
    /// At most so many; 100 when absent.
    pub limit: Option<u32>,
}

/// Result of `event.replay`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventReplayResult {
    /// The events, oldest first.
    pub events: Vec<Event>,
    /// The `sinceSeq` of the next page.
    pub next_seq: u64,
}
