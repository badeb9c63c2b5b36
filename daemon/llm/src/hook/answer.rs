//! What hooks said, put together: what forbids wins, and texts are data of a bounded length.

use serde::Deserialize;
use serde_json::Value;

use super::Event;
use super::exec::Ended;
use crate::permission::Behavior;

/// Characters of a text of a hook at most.
const TEXT_MOST: usize = 10_000;
/// Rules of one answer at most.
const RULES_MOST: usize = 20;
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
    /// Rules for the session, given with the word that a call may be.
    pub rules: Vec<Rule>,
}

/// A rule that a hook gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// `Tool` or `Tool(what)`.
    pub text: String,
    /// What it does with a call that it means.
    pub behavior: Behavior,
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
    updated_permissions: Option<Value>,
    interrupt: bool,
}

/// One entry of what is to hold from now on.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Update {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    rules: Vec<Part>,
    behavior: Option<String>,
    destination: Option<String>,
}

/// A rule in two parts.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    tool_name: String,
    rule_content: Option<String>,
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
        let Decision { behavior, message, updated_input, updated_permissions, interrupt } = decision;
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
                self.updates(updated_permissions);
            }
            "deny" => {
                let why = message.map_or_else(|| "a hook denied it".to_owned(), cut);
                if interrupt {
                    self.halt.get_or_insert_with(|| why.clone());
                }
                self.word(Word::Deny(why));
            }
            other => self.notes.push(cut(format!("a hook said behavior {other:?}: allow or deny is known"))),
        }
    }

    /// What a hook wants to hold from now on: rules of the session, and nothing that outlives it or takes a rule back.
    fn updates(&mut self, updates: Option<Value>) {
        let entries = match updates {
            None | Some(Value::Null) => return,
            Some(Value::Array(entries)) => entries,
            Some(_) => return self.passed_over("it is no list"),
        };
        for entry in entries {
            match read(entry) {
                Ok(rules) => {
                    let room = RULES_MOST.saturating_sub(self.rules.len());
                    if rules.len() > room {
                        self.passed_over(&format!("{RULES_MOST} rules at most are taken at once"));
                    }
                    self.rules.extend(rules.into_iter().take(room));
                }
                Err(why) => self.passed_over(&why),
            }
        }
    }

    fn passed_over(&mut self, why: &str) {
        self.notes.push(cut(format!("of a hook's updatedPermissions something is passed over: {why}")));
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

/// The rules of an entry.
fn read(entry: Value) -> Result<Vec<Rule>, String> {
    let Update { kind, rules, behavior, destination } =
        serde_path_to_error::deserialize(entry).map_err(|error| error.to_string())?;
    if kind != "addRules" {
        return Err(format!("type {kind:?}: a hook can give \"addRules\", and a person the rest"));
    }
    let destination = destination.as_deref().unwrap_or_default();
    if destination != "session" {
        return Err(format!(
            "destination {destination:?}: a hook's rules hold for the \"session\", no longer"
        ));
    }
    let behavior = match behavior.as_deref() {
        Some("allow") => Behavior::Allow,
        Some("ask") => Behavior::Ask,
        Some("deny") => Behavior::Deny,
        other => {
            return Err(format!("behavior {:?}: allow, ask or deny is known", other.unwrap_or_default()));
        }
    };
    let text = |Part { tool_name, rule_content }| match rule_content {
        Some(content) => format!("{tool_name}({content})"),
        None => tool_name,
    };
    Ok(rules.into_iter().map(|part| Rule { text: text(part), behavior }).collect())
}

fn cut(mut text: String) -> String {
    if let Some((at, _)) = text.char_indices().nth(TEXT_MOST) {
        text.truncate(at);
        text.push_str("… [cut]");
    }
    text
}
