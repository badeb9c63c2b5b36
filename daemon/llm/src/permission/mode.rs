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
    /// Nothing is changed.
    Plan,
    /// What no rule allows is denied; nobody is asked.
    DontAsk,
    /// Everything goes through that no rule denies or asks for.
    BypassPermissions,
    /// As `default`; who is asked is the parent's person.
    Bubble,
}
