//! What hooks said, put together: what forbids wins, and texts are data of a bounded length.

use serde::Deserialize;
use serde_json::Value;

use super::Event;
use super::exec::Ended;

/// Characters of a text of a hook at most.
const TEXT_MOST: usize = 10_000;
/// The exit code that objects.
const OBJECTS: i32 = 2;

/// What hooks say to a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Word {
    /// Nothing.
    #[default]
    Nothing,
    /// It need not be asked for.
    Allow,
    /// A person is to be asked, for this reason.
    Ask(String),
    /// It may not be, for this reason.
    Deny(String),
}

/// All that the hooks at an event said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    /// What they say to the call; at the end of a run and behind a call, `Deny` is an objection with its reason.
    pub word: Word,
    /// What the call is to be made with instead.
    pub input: Option<Value>,
    /// What the model is told.
    pub context: Vec<String>,
    /// Why the agent is to end.
    pub halt: Option<String>,
    /// What a person is told.
    pub notes: Vec<String>,
}

/// The JSON of a hook; what else stands in it is another program's business.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Json {
    #[serde(rename = "continue")]
    goes_on: Option<bool>,
    stop_reason: Option<String>,
    system_message: Option<String>,
    decision: Option<String>,
    reason: Option<String>,
    hook_specific_output: Option<Own>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Own {
    permission_decision: Option<String>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Value>,
    additional_context: Option<String>,
    decision: Option<Decision>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Decision {
    behavior: String,
    message: Option<String>,
    updated_input: Option<Value>,
}

impl Said {
    /// Adds how a hook ended.
    pub(super) fn take(&mut self, event: Event, command: &str, ended: Ended) {
        let Ended { code, out, err, broken } = ended;
        let mut note = |why: String| {
            let command: String = command.chars().take(80).collect();
            self.notes.push(cut(format!("the hook {command:?} of {} {why}", event.as_str())));
        };
        match (broken, code) {
            (Some(why), _) => note(format!("decided nothing: {why}")),
            (None, Some(0)) if out.starts_with('{') => {
                match serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(&out)) {
                    Ok(json) => self.json(event, json),
                    Err(error) => note(format!("decided nothing: its answer is not right: {error}")),
                }
            }
            (None, Some(0)) => {}
            (None, Some(OBJECTS)) => {
                let why = if err.is_empty() { "a hook objects".to_owned() } else { cut(err) };
                self.word(Word::Deny(why));
            }
            (None, code) => {
                let line = err.lines().next().unwrap_or_default();
                note(format!("decided nothing: exit code {}: {line}", code.unwrap_or_default()));
            }
        }
    }

    fn json(&mut self, event: Event, json: Json) {
        let own = json.hook_specific_output.unwrap_or_default();
        let reason = json.reason.map(cut);
        if json.goes_on == Some(false) {
            let why = json.stop_reason.map_or_else(|| "a hook stopped the agent".to_owned(), cut);
            self.halt.get_or_insert(why);
        }
        self.notes.extend(json.system_message.map(cut));
        self.context.extend(own.additional_context.map(cut));
        let why = || reason.clone().unwrap_or_else(|| "a hook objects".to_owned());
        match json.decision.as_deref() {
            Some("block" | "deny") => self.word(Word::Deny(why())),
            Some("approve" | "allow") if event == Event::PreToolUse => self.word(Word::Allow),
            Some(_) | None => {}
        }
        let own_why = || own.permission_decision_reason.clone().map_or_else(why, cut);
        match (event, own.permission_decision.as_deref()) {
            (Event::PreToolUse, Some("deny")) => self.word(Word::Deny(own_why())),
            (Event::PreToolUse, Some("ask")) => self.word(Word::Ask(own_why())),
            (Event::PreToolUse, Some("allow")) => self.word(Word::Allow),
            (Event::PreToolUse, Some(other)) if other != "defer" => {
                self.notes.push(cut(format!(
                    "a hook said permissionDecision {other:?}: allow, ask or deny is known"
                )));
            }
            (_, _) => {}
        }
        if event == Event::PreToolUse {
            self.changes(own.updated_input);
        }
        if let (Event::PermissionRequest, Some(decision)) = (event, own.decision) {
            self.decides(decision);
        }
    }

    /// The answer of a hook in a person's place.
    fn decides(&mut self, decision: Decision) {
        let Decision { behavior, message, updated_input } = decision;
        match behavior.as_str() {
            // It allows the call with that input alone.
            "allow" if updated_input.as_ref().is_some_and(|input| !input.is_object()) => {
                self.notes.push(
                    "a hook allowed a call with an updatedInput that is no object: it is asked for"
                        .to_owned(),
                );
            }
            "allow" => {
                self.word(Word::Allow);
                self.changes(updated_input);
            }
            "deny" => {
                self.word(Word::Deny(message.map_or_else(|| "a hook denied it".to_owned(), cut)));
            }
            other => self.notes.push(cut(format!("a hook said behavior {other:?}: allow or deny is known"))),
        }
    }

    fn changes(&mut self, input: Option<Value>) {
        match input {
            Some(input @ Value::Object(_)) => self.input = Some(input),
            Some(_) => {
                self.notes
                    .push("a hook gave an updatedInput that is no object: it is passed over".to_owned());
            }
            None => {}
        }
    }

    /// The stronger word counts, and of two that are as strong the first.
    fn word(&mut self, word: Word) {
        let rank = |word: &Word| match word {
            Word::Nothing => 0,
            Word::Allow => 1,
            Word::Ask(_) => 2,
            Word::Deny(_) => 3,
        };
        if rank(&word) > rank(&self.word) {
            self.word = word;
        }
    }
}

fn cut(mut text: String) -> String {
    if let Some((at, _)) = text.char_indices().nth(TEXT_MOST) {
        text.truncate(at);
        text.push_str("… [cut]");
    }
    text
}
