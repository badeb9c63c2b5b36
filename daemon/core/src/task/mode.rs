//! The permission mode of an agent inside the daemon, as far as its life changes it: planning begins and ends.
//!
//! ```text
//! any mode ── the agent, or session.setMode ──▶ plan ── its plan is approved ──▶ the mode from before, or another one
//! ```
//!
//! A lead's mode is its session's. Deliberately not here: what a mode lets through (`ccagent_llm::permission`).

use std::sync::Arc;

use ccagent_proto::event::Topic;
use ccagent_proto::{Error, Kind, TaskId};
use serde_json::json;

use super::shape;
use crate::core::Core;
use crate::cx::Cx;
use crate::input::Run;

/// The mode in which nothing is changed.
pub(crate) const PLAN: &str = "plan";
/// Modes in which a plan can be carried out: `bubble` is a fork's.
const TO_WORK_IN: &[&str] = &["default", "acceptEdits", "dontAsk", "bypassPermissions"];

/// Refuses a mode in which no plan is carried out.
pub(crate) fn check(mode: &str) -> Result<(), Error> {
    shape::check_mode(Some(mode)).map_err(|error| error.with("path", "mode"))?;
    if TO_WORK_IN.contains(&mode) {
        return Ok(());
    }
    let why =
        format!("a plan is carried out in one of the modes {}, and {mode:?} is none", TO_WORK_IN.join(", "));
    Err(Error::new(Kind::InvalidParams, why).with("path", "mode"))
}

/// Whether a mode lets nothing through unasked that another person would have to allow.
pub(crate) fn asks_as_much(mode: &str) -> bool {
    matches!(mode, "default" | "dontAsk")
}

impl Core {
    /// A run begins to plan: from now on it changes nothing.
    pub(crate) fn begin_plan(&mut self, cx: &mut Cx<'_>, (id, attempt): Run) -> Result<(), Error> {
        let running = |row: &super::Row| row.attempt == attempt && row.is_under_way() && row.stop.is_none();
        if !self.tasks.get(&id).is_some_and(running) {
            return Err(Error::new(Kind::AlreadyTerminal, "the run is over, or is being stopped"));
        }
        self.switch_mode(cx, id, PLAN);
        Ok(())
    }

    /// A plan was approved. Whoever ended the planning meanwhile said in which mode it goes on.
    pub(crate) fn end_plan(&mut self, cx: &mut Cx<'_>, id: TaskId, mode: Option<&str>) {
        let Some(row) = self.tasks.get(&id) else { return };
        let before = row.spec.mode_before.as_deref().unwrap_or("default");
        let plans = *row.spec.permission_mode == *PLAN;
        if let Some(mode) = mode.or(plans.then_some(before)).map(str::to_owned) {
            self.switch_mode(cx, id, &mode);
        }
    }

    /// Gives a task another mode, and its session with it, whose lead it is. The one before planning is kept.
    pub(crate) fn switch_mode(&mut self, cx: &mut Cx<'_>, id: TaskId, mode: &str) {
        let Some(row) = self.tasks.get(&id).filter(|row| *row.spec.permission_mode != *mode) else { return };
        let leads = self.is_lead(row).then(|| row.session.clone());
        self.tasks.update(cx, id, |row| {
            let spec = Arc::make_mut(&mut row.spec);
            let before = std::mem::replace(&mut spec.permission_mode, mode.into());
            spec.mode_before = (mode == PLAN).then_some(before);
        });
        self.log(cx, id, json!({ "phase": "mode", "mode": mode }));
        self.task_event(cx, id, Topic::Task, "task.status", json!({ "permissionMode": mode }));
        if let Some(session) = leads {
            self.mode_of_session(cx, &session, mode.to_owned());
        }
    }
}
