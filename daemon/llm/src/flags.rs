//! Feature flags: what of agents is on (FF-01 … FF-09). Where the values come from is not this module's business.

use serde::{Deserialize, Serialize};

/// Which features are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each flag is switched on its own")]
pub struct Flags {
    /// A spawn without a type is a fork where it can be one.
    #[serde(rename = "FORK_SUBAGENT")]
    pub fork_subagent: bool,
    /// The built-ins `Explore` and `Plan` exist.
    #[serde(rename = "BUILTIN_EXPLORE_PLAN_AGENTS")]
    pub explore_plan: bool,
    /// The built-in `Verification` exists.
    #[serde(rename = "VERIFICATION_AGENT")]
    pub verification: bool,
    /// A session's environment may ask for coordinator mode.
    #[serde(rename = "COORDINATOR_MODE")]
    pub coordinator_mode: bool,
    /// The Agent tool takes a directory.
    #[serde(rename = "KAIROS")]
    pub kairos: bool,
    /// An agent that takes long goes to the background by itself.
    #[serde(rename = "tengu_auto_background_agents")]
    pub auto_background: bool,
    /// Agents that only read don't get the instructions of the project.
    #[serde(rename = "tengu_slim_subagent_claudemd")]
    pub slim_instructions: bool,
    /// The list of agents is an attachment and not a part of the Agent tool.
    #[serde(rename = "tengu_agent_list_attach")]
    pub agent_list_attach: bool,
}

impl Default for Flags {
    fn default() -> Self {
        Self {
            fork_subagent: true,
            explore_plan: true,
            verification: true,
            coordinator_mode: true,
            kairos: false,
            auto_background: false,
            slim_instructions: true,
            agent_list_attach: false,
        }
    }
}

/// What says whether a session is a coordinator's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Coordinator<'a> {
    /// What `session.open` said.
    pub opened: bool,
    /// `CLAUDE_CODE_COORDINATOR_MODE` of the session's environment.
    pub env: Option<&'a str>,
}

impl Coordinator<'_> {
    /// Whether it is (CO-01). Asked once, when the session opens (CO-02).
    pub fn is_on(self, flags: &Flags) -> bool {
        self.opened || flags.coordinator_mode && self.env.is_some_and(is_truthy)
    }
}

/// Whether a value of the environment switches something on.
fn is_truthy(value: &str) -> bool {
    ["1", "true", "yes", "on"].iter().any(|yes| value.trim().eq_ignore_ascii_case(yes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CO-01: the session says so, or flag and environment together.
    #[test]
    fn coordinator_mode_is_opened_or_asked_for_by_the_environment() {
        for (flag, env, opened, on) in [
            (true, Some("1"), false, true),
            (true, Some("true"), false, true),
            (true, Some("0"), false, false),
            (true, None, false, false),
            (false, Some("1"), false, false),
            (false, None, true, true),
        ] {
            let flags = Flags { coordinator_mode: flag, ..Flags::default() };
            assert_eq!(Coordinator { opened, env }.is_on(&flags), on, "{flag} {env:?} {opened}");
        }
    }

    /// FF-01 … FF-09: the flags have their names on the wire, and their defaults.
    #[test]
    fn flags_have_the_documented_defaults() {
        let wire = serde_json::to_value(Flags::default()).unwrap();
        let on: Vec<_> =
            wire.as_object().unwrap().iter().filter(|(_, on)| on.as_bool() == Some(true)).collect();
        let names: Vec<_> = on.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "BUILTIN_EXPLORE_PLAN_AGENTS",
                "COORDINATOR_MODE",
                "FORK_SUBAGENT",
                "VERIFICATION_AGENT",
                "tengu_slim_subagent_claudemd"
            ]
        );
        assert!(serde_json::from_str::<Flags>(r#"{"KAIRO": true}"#).is_err());
    }
}
