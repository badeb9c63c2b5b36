//! Profiles: which built-ins there are, and which one a spawn without a type gets. A profile is data (C50).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A set of agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// General agents and specialised readers.
    #[default]
    Claude,
    /// Agents with a tool profile and a limit of turns each.
    Qlogic,
    /// One that reads, and one that writes.
    Minimal,
    /// Agents that a configuration makes.
    Executor,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Claude, Self::Qlogic, Self::Minimal, Self::Executor];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Qlogic => "qlogic",
            Self::Minimal => "minimal",
            Self::Executor => "executor",
        }
    }

    /// The type of an agent that none was named for (AD-19, C28).
    pub const fn default_type(self) -> &'static str {
        match self {
            Self::Claude | Self::Executor => "general-purpose",
            Self::Qlogic => "general",
            Self::Minimal => "explore",
        }
    }
}

/// There is no such profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no profile {0:?}: it is `claude`, `qlogic`, `minimal` or `executor`")]
pub struct UnknownProfile(pub String);

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Self, UnknownProfile> {
        let found = Self::ALL.into_iter().find(|profile| profile.as_str() == name);
        found.ok_or_else(|| UnknownProfile(name.to_owned()))
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
