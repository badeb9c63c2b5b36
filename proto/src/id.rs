//! Ids as they stand on the wire. Each is its own type, so that one can't be taken for another.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A text that is no id of the wanted kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadId {
    /// What an id of that kind looks like.
    pub expected: &'static str,
    /// What was given.
    pub given: String,
}

impl fmt::Display for BadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no id: expected {}", self.given, self.expected)
    }
}

impl std::error::Error for BadId {}

/// A task's id: `agent_<uuid>`, the only form that resume admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TaskId(pub Uuid);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "agent_{}", self.0.hyphenated())
    }
}

impl FromStr for TaskId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let bad = || BadId { expected: "agent_ and a hyphenated UUID", given: text.to_owned() };
        let rest = text.strip_prefix("agent_").filter(|rest| rest.len() == 36).ok_or_else(bad)?;
        Uuid::try_parse(rest).map(Self).map_err(|_| bad())
    }
}

impl From<TaskId> for String {
    fn from(id: TaskId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for TaskId {
    type Error = BadId;

    fn try_from(text: String) -> Result<Self, BadId> {
        text.parse()
    }
}

impl JsonSchema for TaskId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TaskId".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^agent_[0-9a-f-]{36}$" })
    }
}

/// A session's id: `main`, which always exists, or `session_<uuid>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SessionId(pub Arc<str>);

impl SessionId {
    /// The session that always exists.
    pub fn main() -> Self {
        Self("main".into())
    }
}

impl Default for SessionId {
    fn default() -> Self {
        Self::main()
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for SessionId {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

/// Declares an id that is a number behind a prefix.
macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(into = "String", try_from = "String")]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                text.strip_prefix($prefix)
                    .filter(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
                    .and_then(|digits| digits.parse().ok())
                    .map(Self)
                    .ok_or_else(|| BadId { expected: concat!($prefix, "<number>"), given: text.to_owned() })
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadId;

            fn try_from(text: String) -> Result<Self, BadId> {
                text.parse()
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "pattern": concat!("^", $prefix, "[0-9]+$") })
            }
        }
    };
}

numbered! {
    /// A message's id: `msg_<number>`; the number is also its place in the total order of all messages.
    MessageId, "msg_"
}

numbered! {
    /// A notification's id: `note_<number>`.
    NotificationId, "note_"
}

numbered! {
    /// An ask's id: `ask_<number>`.
    AskId, "ask_"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SP-23, RS-01: the id has the one form that resume admits, and nothing else parses.
    #[test]
    fn only_agent_and_a_hyphenated_uuid_is_a_task_id() {
        let id = TaskId(Uuid::from_u128(7));
        assert_eq!(id.to_string().parse::<TaskId>(), Ok(id));
        for bad in ["", "agent_", "agent_7", "agent_00000000000000000000000000000007", "msg_1"] {
            assert!(bad.parse::<TaskId>().is_err(), "{bad}");
        }
    }

    /// Each numbered id parses what it prints and nothing else.
    #[test]
    fn a_numbered_id_is_its_prefix_and_digits() {
        assert_eq!("msg_12".parse::<MessageId>(), Ok(MessageId(12)));
        for bad in ["12", "msg_", "msg_-1", "msg_+1", "note_1"] {
            assert!(bad.parse::<MessageId>().is_err(), "{bad}");
        }
    }
}
