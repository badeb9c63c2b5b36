//! Asks: what an agent may not do or decide by itself, until somebody answers, or its deadline passes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use crate::id::{AskId, SessionId, TaskId};
use crate::{Millis, Subscription};

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AskKind {
    /// That a tool call may go on.
    Permission,
    /// An answer to questions.
    Question,
    /// That a plan may be carried out.
    Plan,
}

/// Where an ask stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AskState {
    /// It waits for an answer.
    Pending,
    /// Somebody answered.
    Answered,
    /// Nobody did in time: it counts as denied.
    Expired,
    /// The run that asked is over, or is being stopped.
    Withdrawn,
}

/// What is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AskBehavior {
    /// It may go on.
    Allow,
    /// It may not.
    Deny,
}

/// How far a permission reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AskScope {
    /// This call.
    #[default]
    Once,
    /// Such calls of all agents of the session, while it lasts.
    Session,
    /// Such calls in this repository: a rule in its `.claude/settings.local.json`.
    Always,
}

/// An answer.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AskAnswer {
    /// What was answered.
    pub behavior: AskBehavior,
    /// How far a permission reaches.
    pub scope: Option<AskScope>,
    /// Words for the agent.
    pub message: Option<String>,
    /// Answers to questions, by question.
    pub answers: Option<BTreeMap<String, String>>,
    /// What the tool is called with instead.
    pub updated_input: Option<Value>,
    /// The permission mode in which a plan is carried out.
    pub mode: Option<String>,
}

/// One of the answers that a question offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Choice {
    /// The answer, in a few words.
    pub label: String,
    /// What it means.
    pub description: String,
}

/// A question to a person. Words of one's own are an answer as well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// The whole question.
    pub question: String,
    /// The same in a word or two.
    pub header: String,
    /// The answers to choose from.
    pub options: Vec<Choice>,
    /// Whether more than one of them may be chosen.
    pub multi_select: bool,
}

/// Who asks, where an agent asks through another one's window.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Badge {
    /// The agent.
    pub name: String,
    /// Its colour.
    pub color: String,
    /// Its team.
    pub team_name: Option<String>,
}

/// An ask.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ask {
    /// Its id.
    pub id: AskId,
    /// What is asked for.
    pub kind: AskKind,
    /// The task that asks.
    pub task_id: TaskId,
    /// Its run.
    pub attempt: u32,
    /// Its session.
    pub session_id: SessionId,
    /// Its name.
    pub agent_name: Option<String>,
    /// Who asks, in the colours of its team.
    pub badge: Option<Badge>,
    /// The tool of the call.
    pub tool_name: Option<String>,
    /// A line for the eye.
    pub summary: String,
    /// Why it is asked.
    pub reason: Option<String>,
    /// What the call does: `reads`, `writes`, `runs`, `fetches`, `talks` or `steers`.
    pub risk: Option<String>,
    /// What the tool is called with; of a long text the beginning, with a note how much is not shown.
    pub input: Option<Value>,
    /// What is asked, where it is a question.
    pub questions: Option<Vec<Question>>,
    /// The plan, where it is one.
    pub plan: Option<String>,
    /// Where relative paths begin.
    pub cwd: String,
    /// The rules that an answer for the session or for always makes; none where no rule could say just this.
    pub rules: Vec<String>,
    /// Where it stands.
    pub state: AskState,
    /// The answer.
    pub answer: Option<AskAnswer>,
    /// Who gave it.
    pub answered_by: Option<String>,
    /// When it was made.
    pub created_at: Millis,
    /// When it expires.
    pub deadline_at: Option<Millis>,
}

/// Params of `ask.list`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AskListParams {
    /// Only those that stand there; all of them when absent.
    pub state: Option<AskState>,
    /// Only this session's.
    pub session_id: Option<SessionId>,
    /// At most so many; 100 when absent.
    pub limit: Option<u32>,
    /// Where the last page ended.
    pub cursor: Option<String>,
}

/// Result of `ask.list`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AskListResult {
    /// The asks, oldest first.
    pub asks: Vec<Ask>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// Params of `ask.get`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AskGetParams {
    /// The ask.
    pub ask_id: AskId,
}

/// Params of `ask.respond`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AskRespondParams {
    /// The ask.
    pub ask_id: AskId,
    /// What is answered.
    pub behavior: AskBehavior,
    /// How far a permission reaches; `once` when absent.
    pub scope: Option<AskScope>,
    /// Answers to questions, by question: a label, words of one's own, or with `multiSelect` several of them with a comma
    /// and a space between.
    pub answers: Option<BTreeMap<String, String>>,
    /// Words for the agent.
    pub message: Option<String>,
    /// What the tool is to be called with instead, where a call is allowed once.
    pub updated_input: Option<Value>,
    /// The permission mode in which an approved plan is carried out; that from before the planning when absent.
    pub mode: Option<String>,
}

/// Params of the subscription `ask.subscribe`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AskSubscribeParams {
    /// Only this session's.
    pub session_id: Option<SessionId>,
    /// Only those of this task and of the tasks below it.
    pub task_id: Option<TaskId>,
}

/// The subscription to asks: first those that wait, then each one as it is made, answered, expired or withdrawn.
#[derive(Debug)]
pub struct AskSubscribe;

impl Subscription for AskSubscribe {
    const NAME: &'static str = "ask.subscribe";
    const UNSUBSCRIBE: &'static str = "ask.unsubscribe";
    const NOTIFICATION: &'static str = "ask";
    const SUMMARY: &'static str = "Pushes asks that wait for an answer, and each one whenever it changes.";
    type Params = AskSubscribeParams;
    type Item = Ask;
}
