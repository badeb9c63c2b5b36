//! Planning: an agent that asks for it, or was told to, changes nothing until a person has approved what it is about to do.
//!
//! Its mode is the core's: every call is decided on in the one that it has by then, and an approval changes that in the
//! same commit. Deliberately not here: members that have to hand in a plan first.

use ccagent_core::ask::{Asked, What};
use ccagent_llm::permission::Mode;
use ccagent_llm::quote;
use ccagent_llm::tool::Outcome;
use ccagent_proto::ask::{Ask, AskAnswer, AskBehavior, AskState};
use ccagent_proto::task::Task;
use ccagent_proto::{Error, Kind};

use super::desk::Desk;

/// Characters of a plan that stand for it in a line.
const SUMMARY_MOST: usize = 200;

impl Desk {
    /// The mode that it has by now.
    pub(super) async fn mode(&self) -> Option<Mode> {
        let mode = self.setting().await?.mode;
        Some(serde_json::from_value(mode.into()).unwrap_or_default())
    }

    /// Begins to plan. That takes nobody's word: it may do less from now on.
    pub(super) async fn begin_plan(&self) -> Result<Outcome, Error> {
        if self.mode().await == Some(Mode::DontAsk) {
            let why =
                "In the mode dontAsk nobody is asked, so nobody could approve a plan. Go on without one.";
            return Ok(Outcome::error(why));
        }
        self.handle.plans((self.task, self.attempt)).await?;
        Ok(Outcome::ok(
            "You are in plan mode now: what changes a file is denied. Look at what you need, ask what is open, and hand in \
             your plan with ExitPlanMode.",
        ))
    }

    /// Hands in a plan, and waits for a person's word on it.
    pub(super) async fn hand_in(&self, call: String, plan: &str) -> Result<Outcome, Error> {
        if self.mode().await != Some(Mode::Plan) {
            return Ok(Outcome::error(
                "You are not in plan mode, so there is no plan to approve: go on, or begin plan mode with EnterPlanMode.",
            ));
        }
        let first = plan.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        let summary = first.chars().take(SUMMARY_MOST).collect();
        let what = What::Plan { plan: plan.into() };
        let ended = self.put(Asked { what, call: Some(call), summary, cwd: self.cwd() }).await?;
        let mode = self.setting().await.map(|setting| setting.mode).unwrap_or_default();
        Ok(told(&ended, &mode))
    }

    /// Refuses that an agent of its own goes on, which would change in its name what it may not change itself.
    pub(super) async fn may_go_on(&self, task: &Task) -> Result<(), Error> {
        if self.mode().await != Some(Mode::Plan) || task.permission_mode == "plan" {
            return Ok(());
        }
        let why = format!(
            "{} works in the mode {}, so it does nothing for you while you plan: begin a new agent, which plans as well, or hand \
             in your plan first",
            task.id, task.permission_mode
        );
        Err(Error::new(Kind::NotAuthorised, why))
    }

    /// Where it began.
    pub(super) fn cwd(&self) -> String {
        self.caller.cwd.clone().unwrap_or_default()
    }
}

/// A person's word on a plan as the model reads it (PL-05).
pub(super) fn told(ended: &Ask, mode: &str) -> Outcome {
    const STAY: &str = "You stay in plan mode.";
    let words = |message: &Option<String>| message.as_deref().map(quote::plain);
    match (&ended.answer, ended.state) {
        (Some(AskAnswer { behavior: AskBehavior::Allow, message, .. }), _) => {
            let add = words(message).map(|text| format!(" They add: {text}")).unwrap_or_default();
            Outcome::ok(format!(
                "The plan is approved: carry it out. The permission mode is {mode} now.{add}"
            ))
        }
        (Some(AskAnswer { behavior: AskBehavior::Deny, message, .. }), _) => {
            let why = words(message).map(|text| format!(": {text}")).unwrap_or_default();
            Outcome::error(format!(
                "The plan is not approved{why}\n{STAY} Change the plan, and hand it in again."
            ))
        }
        (None, AskState::Withdrawn) => {
            Outcome::error(format!("The agent was stopped before anybody said anything to its plan. {STAY}"))
        }
        (None, AskState::Expired | AskState::Pending | AskState::Answered) => Outcome::error(format!(
            "Nobody said anything to the plan in time, which approves nothing. {STAY} End here, with the plan as your answer."
        )),
    }
}
