//! Modes: what happens to a call that no rule speaks of.

use serde::{Deserialize, Serialize};

/// What happens to a call that no rule speaks of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// What changes something is asked for.
    #[default]
    #[serde(alias = "manual", alias = "auto")]
    Default,
    /// Edits in the working directories go through; the rest is asked for.
    AcceptEdits,
    /// No file is edited; the rest is asked for.
    Plan,
    /// What no rule allows is denied; nobody is asked.
    DontAsk,
    /// Everything goes through that no rule denies or asks for.
    BypassPermissions,
    /// As `default`; who is asked is the parent's person.
    Bubble,
}

impl Mode {
    /// The mode of an agent whose parent has this one: a parent that asks for less wins over the definition (PM-07), and so
    /// does one that plans, for what it may not change it has nobody else change.
    #[must_use]
    pub const fn of_child(self, definition: Option<Self>) -> Self {
        match (self, definition) {
            (Self::BypassPermissions | Self::AcceptEdits | Self::Plan, _) | (_, None) => self,
            (Self::Default | Self::DontAsk | Self::Bubble, Some(mode)) => mode,
        }
    }

    /// The mode of an agent for which a program of an agent of this mode asks: rules may let that program run, and it asks for
    /// no more than its agent has (PM-07). None asked for is this one.
    #[must_use]
    pub fn at_most(self, asked: Option<Self>) -> Self {
        asked.filter(|asked| asked.reach() <= self.reach()).unwrap_or(self)
    }

    /// Its name.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Plan => "plan",
            Self::DontAsk => "dontAsk",
            Self::BypassPermissions => "bypassPermissions",
            Self::Bubble => "bubble",
        }
    }

    /// How much goes on unasked: more is more.
    const fn reach(self) -> u8 {
        match self {
            Self::Plan => 0,
            Self::DontAsk => 1,
            Self::Default | Self::Bubble => 2,
            Self::AcceptEdits => 3,
            Self::BypassPermissions => 4,
        }
    }

    /// The mode where bypassing is switched off.
    #[must_use]
    pub const fn without_bypass(self) -> Self {
        match self {
            Self::BypassPermissions => Self::Default,
            Self::Default | Self::AcceptEdits | Self::Plan | Self::DontAsk | Self::Bubble => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E68, PM-07: over all parents and children, a parent that bypasses, accepts edits or plans wins.
    #[test]
    fn a_parent_that_asks_for_less_or_plans_wins() {
        let all = [
            Mode::Default,
            Mode::AcceptEdits,
            Mode::Plan,
            Mode::DontAsk,
            Mode::BypassPermissions,
            Mode::Bubble,
        ];
        for parent in all {
            assert_eq!(parent.of_child(None), parent);
            for child in all {
                let wins = matches!(parent, Mode::BypassPermissions | Mode::AcceptEdits | Mode::Plan);
                assert_eq!(parent.of_child(Some(child)), if wins { parent } else { child });
                assert_ne!(parent.of_child(Some(child)).without_bypass(), Mode::BypassPermissions);
            }
        }
        assert_eq!(serde_json::from_str::<Mode>("\"manual\"").unwrap(), Mode::Default);
    }

    /// E68, PM-07: a program of an agent asks for no more than its agent has, over all modes.
    #[test]
    fn a_program_asks_for_no_more_than_its_agent_has() {
        let all = [Mode::Plan, Mode::DontAsk, Mode::Default, Mode::AcceptEdits, Mode::BypassPermissions];
        for (own, mode) in all.into_iter().enumerate() {
            assert_eq!(mode.at_most(None), mode);
            for (asked, other) in all.into_iter().enumerate() {
                assert_eq!(mode.at_most(Some(other)), all[own.min(asked)]);
            }
        }
    }
}
