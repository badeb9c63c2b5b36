//! Errors of the contract: a stable code, a kind to match on, and typed detail.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Declares the kinds with their codes, wire names and whether trying again may help.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $code:literal $text:literal $retry:literal,)*) => {
        /// What went wrong; the wire carries its `code` and its name as `data.kind`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind { $($(#[$doc])* $name,)* }

        impl Kind {
            /// Every kind, in the order of the contract.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The JSON-RPC error code.
            pub const fn code(self) -> i32 {
                match self { $(Self::$name => $code,)* }
            }

            /// The name in `data.kind`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Whether the same call may succeed later.
            pub const fn retryable(self) -> bool {
                match self { $(Self::$name => $retry,)* }
            }
        }
    };
}

kinds! {
    /// The text was no JSON.
    ParseError = -32700 "parseError" false,
    /// The JSON was no request.
    InvalidRequest = -32600 "invalidRequest" false,
    /// No such method.
    MethodNotFound = -32601 "methodNotFound" false,
    /// Params of a wrong shape; `data.path` says where.
    InvalidParams = -32602 "invalidParams" false,
    /// An idempotency key that was used with other params.
    IdempotencyConflict = -32602 "idempotencyConflict" false,
    /// A fault of the daemon.
    Internal = -32603 "internalError" false,
    /// The store could not commit; the daemon stops.
    StoreFailed = -32603 "storeFailed" true,
    /// A stop that the operating system did not confirm in time.
    StopTimeout = -32603 "stopTimeout" true,
    /// The call was cancelled by its caller.
    Cancelled = -32800 "cancelled" false,
    /// The caller's role may not do this.
    NotAuthorised = -32000 "notAuthorised" false,
    /// A bound was met; try again.
    Overloaded = -32001 "overloaded" true,
    /// No such session, notification or other object without a code of its own.
    NotFound = -32002 "notFound" false,
    /// The client speaks another protocol version.
    ProtocolVersion = -32003 "protocolVersion" false,
    /// The daemon is stopping.
    ShuttingDown = -32020 "shuttingDown" true,
    /// No such task, or more than one matches (`data.matches`).
    TaskNotFound = 1101 "taskNotFound" false,
    /// No such agent type.
    AgentTypeNotFound = 1102 "agentTypeNotFound" false,
    /// The task still runs.
    StillRunning = 1103 "stillRunning" false,
    /// There is no record to resume.
    NoResumableRecord = 1104 "noResumableRecord" false,
    /// A fork inside a fork.
    ForkInsideFork = 1105 "forkInsideFork" false,
    /// The fork depth is reached.
    ForkDepth = 1106 "forkDepth" false,
    /// Recursion, or a spawn that only a lead may do.
    SpawnRefused = 1107 "spawnRefused" false,
    /// The agent would have no tool.
    ZeroTools = 1108 "zeroTools" false,
    /// Too many agents, and the queue is full.
    ConcurrencyLimit = 1109 "concurrencyLimit" true,
    /// A feature that is off, or a value that is not supported.
    FeatureOff = 1110 "featureOff" false,
    /// The name is alive already.
    NameTaken = 1111 "nameTaken" false,
    /// The run limit is reached.
    RunLimit = 1112 "runLimit" false,
    /// The task has ended.
    AlreadyTerminal = 1113 "alreadyTerminal" false,
    /// The task can't go to the background.
    BackgroundDisabled = 1114 "backgroundDisabled" false,
    /// The model may not be used.
    ModelNotAllowed = 1202 "modelNotAllowed" false,
    /// A config key, value or rule that is wrong.
    BadConfig = 1203 "badConfig" false,
    /// Events between the asked one and the oldest kept are gone.
    ReplayGap = 1204 "replayGap" false,
    /// No such recipient; `data.reachable` lists the ones there are.
    RecipientUnknown = 1301 "recipientUnknown" false,
    /// The lock of a mirrored file was not obtained.
    MirrorLock = 1302 "mirrorLock" true,
    /// The mailbox is full, or the write failed.
    MailboxFull = 1303 "mailboxFull" true,
    /// A structured message that is unknown, repeated or malformed.
    BadMessage = 1304 "badMessage" false,
    /// The message is larger than the limit.
    MessageTooLarge = 1305 "messageTooLarge" false,
    /// A message to oneself.
    ToSelf = 1306 "toSelf" false,
    /// The receiver refused.
    Refused = 1307 "refused" false,
    /// The address is not safe to use.
    UnsafeAddress = 1308 "unsafeAddress" false,
    /// Too many messages in a short time.
    RateLimited = 1309 "rateLimited" true,
    /// No such team.
    NoTeam = 1401 "noTeam" false,
    /// The team exists.
    TeamExists = 1402 "teamExists" false,
    /// Members are still active.
    MembersActive = 1403 "membersActive" false,
    /// No such member.
    NoMember = 1404 "noMember" false,
    /// Only the lead may do this.
    LeadOnly = 1405 "leadOnly" false,
    /// The item waits for others.
    ItemBlocked = 1411 "itemBlocked" false,
    /// The item is another one's.
    ItemOwned = 1412 "itemOwned" false,
    /// Items would wait for each other.
    DependencyCycle = 1413 "dependencyCycle" false,
    /// The item can't go from where it stands to there.
    BadTransition = 1414 "badTransition" false,
    /// It is another one now than the caller saw.
    RevisionConflict = 1416 "revisionConflict" false,
    /// The ask was answered already, or withdrawn.
    AskAnswered = 1501 "askAnswered" false,
    /// The ask's deadline passed.
    AskExpired = 1502 "askExpired" false,
    /// The ask is another one's to answer.
    AskNotYours = 1503 "askNotYours" false,
    /// A path or scope that is wrong.
    BadPath = 1601 "badPath" false,
    /// A link where a file was expected.
    SymlinkRefused = 1608 "symlinkRefused" false,
    /// The output cap is reached.
    OutputCap = 1610 "outputCap" false,
    /// No runner of that kind here.
    RunnerUnavailable = 1701 "runnerUnavailable" false,
    /// The program could not be started; `data.taskId` names the failed task.
    StartFailed = 1702 "processStartFailed" false,
    /// The peer is not reachable.
    PeerUnavailable = 1821 "peerUnavailable" true,
    /// No key for a model, or one that its provider refuses.
    Authentication = 1901 "authentication" false,
    /// The provider's rate limit is reached; `data.retryAfterMs` says when to come again.
    ProviderRateLimit = 1902 "providerRateLimit" true,
    /// The provider has too much to do.
    ProviderOverloaded = 1903 "providerOverloaded" true,
    /// The provider failed, or refused the request.
    Provider = 1904 "provider" false,
    /// The conversation is too long for the model.
    ContextTooLong = 1905 "contextTooLong" false,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An error on its way to a caller.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// What went wrong.
    pub kind: Kind,
    /// A sentence for a person: what was wrong, and what would be right.
    pub message: String,
    /// Typed detail beside `kind` and `retryable` in `error.data`.
    pub data: Map<String, Value>,
}

impl Error {
    /// An error of a kind with its sentence.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), data: Map::new() }
    }

    /// Adds one key of detail.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.data.insert(key.to_owned(), value.into());
        self
    }

    /// The object that stands in `error.data`.
    pub fn wire_data(&self) -> Map<String, Value> {
        let mut data = self.data.clone();
        data.insert("kind".into(), self.kind.name().into());
        data.insert("retryable".into(), self.kind.retryable().into());
        data
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// `error.data` as a client reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorData {
    /// The kind's name.
    pub kind: String,
    /// Whether the same call may succeed later.
    pub retryable: bool,
    /// The rest of the detail.
    #[serde(flatten)]
    pub detail: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kind has a name of its own, and a code stands for one kind but for JSON-RPC's own.
    #[test]
    fn kinds_are_told_apart_by_name() {
        let mut names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Kind::ALL.len());
        let mut own: Vec<_> = Kind::ALL.iter().map(|kind| kind.code()).filter(|code| *code > 0).collect();
        let count = own.len();
        own.sort_unstable();
        own.dedup();
        assert_eq!(own.len(), count);
    }

    /// The wire object has the kind and the retry hint beside the detail.
    #[test]
    fn data_names_kind_and_retry() {
        let data = Error::new(Kind::RecipientUnknown, "nobody").with("reachable", vec!["a"]).wire_data();
        assert_eq!(
            Value::from(data),
            serde_json::json!({ "kind": "recipientUnknown", "retryable": false, "reachable": ["a"] })
        );
    }
}
