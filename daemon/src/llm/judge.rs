//! Whether a tool call may go on: the rules of the settings files, and the agent's mode.
//!
//! What nobody allowed and nobody can be asked about is denied, with the reason (PM-09). Rules that came with a
//! repository can forbid; that they allow something takes a person's word.

use std::path::PathBuf;

use ccagent_llm::host::Permission;
use ccagent_llm::permission::{self, Behavior, Call, Files, Mode, Rules, Settings, Source};
use ccagent_llm::tool::{Access, Ask};

/// Decides for one agent.
#[derive(Debug)]
pub(super) struct Judge {
    mode: Mode,
    rules: Rules,
}

impl Judge {
    /// Reads the rules that hold where an agent works. Reads files, so it may block.
    pub(super) fn load(mode: &str, home: Option<&str>, cwd: &str) -> Self {
        let files = Files { managed: None, home: PathBuf::from(home.unwrap_or("/")), cwd: cwd.into() };
        let Settings { mut rules, bypass_disabled, problems, .. } = Settings::load(&files);
        for problem in problems {
            tracing::warn!(?problem, "a rule of a settings file is not right, and does not hold");
        }
        rules.rules.retain(|placed| {
            let of_repository = matches!(placed.source, Source::Project | Source::Local);
            !(of_repository && placed.rule.behavior() == Behavior::Allow)
        });
        let mode: Mode = serde_json::from_value(mode.into()).unwrap_or_default();
        Self { mode: if bypass_disabled { mode.without_bypass() } else { mode }, rules }
    }

    /// What becomes of a call.
    pub(super) fn judge(&self, ask: &Ask) -> Permission {
        let Ask { tool, input, access, cwd, summary } = ask;
        if *access == Access::Talks {
            // What it may say to the daemon the daemon's own rules decide.
            return Permission::Allowed;
        }
        let decision =
            permission::decide(self.mode, &self.rules, &Call { tool, input, access: *access, cwd });
        match decision.behavior {
            Behavior::Allow => Permission::Allowed,
            Behavior::Deny => Permission::Denied(format!("This call is not permitted: {}", decision.reason)),
            Behavior::Ask => Permission::Denied(format!(
                "This call needs a person's permission, and there is nobody to ask: {}. {tool}({summary}) was not run.",
                decision.reason
            )),
        }
    }
}
