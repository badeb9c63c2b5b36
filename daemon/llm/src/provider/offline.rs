//! The model that needs no network and no key: it plays a script, and says plainly that it is no model.
//!
//! A script is a list of steps in YAML, one for each answer. It stands in the newest message that has one, in a fenced
//! block whose info string is `offline`, or in a file:
//!
//! ```yaml
//! - call: Read
//!   with: { file_path: notes.txt }
//! - say: "It says: {{result}}"
//!   fail: overloaded     # before it answers, once
//!   times: 1
//!   wait: 200ms          # before it begins
//! ```
//!
//! Which step is next follows from the conversation alone, so a run that was interrupted goes on where it was.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;

use super::{Answer, Delta, Failure, Provider, Request, Sink, Stop};
use crate::message::{Block, Message, Role, Usage};

/// What it says where there is no script.
const NO_SCRIPT: &str = "This is the offline model: it plays a script and asks nobody. There is no script in the prompt \
                         (a fenced block `offline`), and none was named (`offline:FILE`). The prompt was:";
/// The fence that begins a script in a message.
const FENCE: &str = "```offline";

/// A fault on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Fault {
    Authentication,
    RateLimit,
    Overloaded,
    Server,
    Cut,
    Silent,
    Malformed,
    TooLong,
    Invalid,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Called {
    /// The tool.
    call: String,
    /// Its input.
    #[serde(default)]
    with: Option<Value>,
}

/// One answer.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Step {
    /// A thought before it.
    think: Option<String>,
    /// Its text.
    say: Option<String>,
    /// The tool that it calls.
    call: Option<String>,
    /// What it calls it with.
    with: Option<Value>,
    /// Tools that it calls at once.
    calls: Vec<Called>,
    /// How long it takes to begin.
    wait: Option<String>,
    /// What goes wrong first.
    fail: Option<Fault>,
    /// How often.
    times: Option<u32>,
    /// Why it ends, where it is not the usual reason.
    stop: Option<Stop>,
    /// What it counts, where it is not a fourth of the bytes.
    usage: Option<Usage>,
}

/// The offline model of one agent.
#[derive(Debug, Default)]
pub struct Offline {
    script: Option<Vec<Step>>,
    /// How often each step failed already.
    failed: Mutex<HashMap<usize, u32>>,
}

impl Offline {
    /// One that plays what stands in the conversation.
    pub fn of_prompt() -> Self {
        Self::default()
    }

    /// One that plays a script.
    ///
    /// # Errors
    /// What is wrong with the script, and where.
    pub fn of_script(text: &str) -> Result<Self, String> {
        Ok(Self { script: Some(steps(text)?), ..Self::default() })
    }

    /// Whether this try of a step fails.
    fn fails(&self, at: usize, step: &Step) -> Option<Failure> {
        let fault = step.fail?;
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let before = failed.entry(at).or_default();
        if *before >= step.times.unwrap_or(1) {
            return None;
        }
        *before += 1;
        Some(fault.failure())
    }

    async fn play(&self, request: Request<'_>, sink: Sink<'_>) -> Result<Answer, Failure> {
        let place = Place::find(request.messages);
        let steps = match (&self.script, place.script) {
            (_, Some(text)) => steps(text).map_err(Failure::Invalid)?,
            (Some(script), None) => script.clone(),
            (None, None) => {
                vec![Step { say: Some(format!("{NO_SCRIPT}\n\n{}", place.prompt)), ..Step::default() }]
            }
        };
        let ended = || Step { say: Some("The script has ended.".to_owned()), ..Step::default() };
        let step = steps.get(place.answers).cloned().unwrap_or_else(ended);
        sink(Delta::Sent);
        if let Some(wait) = &step.wait {
            let wait = humantime::parse_duration(wait)
                .map_err(|error| Failure::Invalid(format!("wait: {error}")))?;
            tokio::time::sleep(wait).await;
        }
        if let Some(failure) = self.fails(request.messages.len(), &step) {
            return Err(failure);
        }
        sink(Delta::Began);
        Ok(answer(step, &place, request, sink))
    }
}

impl Provider for Offline {
    fn answer<'a>(&'a self, request: Request<'a>, sink: Sink<'a>) -> BoxFuture<'a, Result<Answer, Failure>> {
        self.play(request, sink).boxed()
    }
}

impl Fault {
    fn failure(self) -> Failure {
        let message = "the script says so".to_owned();
        match self {
            Self::Authentication => Failure::Authentication(message),
            Self::RateLimit => Failure::RateLimit { after: None, message },
            Self::Overloaded => Failure::Overloaded { after: None, message },
            Self::Server => Failure::Server(message),
            Self::Cut => Failure::Cut(message),
            Self::Silent => Failure::Silent(Duration::ZERO),
            Self::Malformed => Failure::Malformed(message),
            Self::TooLong => Failure::TooLong(message),
            Self::Invalid => Failure::Invalid(message),
        }
    }
}

/// Where a conversation is in its script.
struct Place<'a> {
    /// The newest script in it.
    script: Option<&'a str>,
    /// Answers since it.
    answers: usize,
    /// The newest text of the user.
    prompt: String,
    /// The newest result of a tool.
    result: &'a str,
}

impl<'a> Place<'a> {
    fn find(messages: &'a [Message]) -> Self {
        let mut place = Self { script: None, answers: 0, prompt: String::new(), result: "" };
        for message in messages {
            match message.role {
                Role::Assistant => place.answers += 1,
                Role::User => place.read(message),
            }
        }
        place
    }

    fn read(&mut self, message: &'a Message) {
        for block in &message.content {
            match block {
                Block::ToolResult { content, .. } => self.result = content,
                Block::Text { text } => {
                    self.prompt.clone_from(text);
                    if let Some(script) = fenced(text) {
                        (self.script, self.answers) = (Some(script), 0);
                    }
                }
                Block::Thinking { .. } | Block::RedactedThinking { .. } | Block::ToolUse { .. } => {}
            }
        }
    }

    fn fill(&self, text: &str) -> String {
        text.replace("{{result}}", self.result).replace("{{prompt}}", &self.prompt)
    }

    fn fill_value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill(&text)),
            Value::Array(values) => values.into_iter().map(|value| self.fill_value(value)).collect(),
            Value::Object(fields) => {
                fields.into_iter().map(|(name, value)| (name, self.fill_value(value))).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
        }
    }
}

/// The script in a message.
fn fenced(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(FENCE)?;
    let (_, body) = rest.split_once('\n')?;
    Some(body.split_once("\n```").map_or(body, |(script, _)| script))
}

fn steps(text: &str) -> Result<Vec<Step>, String> {
    serde_saphyr::from_str(text).map_err(|error| format!("the offline script is not right: {error}"))
}

fn answer(step: Step, place: &Place<'_>, request: Request<'_>, sink: Sink<'_>) -> Answer {
    let mut content = Vec::new();
    if let Some(thinking) = step.think {
        sink(Delta::Thinking(&thinking));
        content.push(Block::Thinking { thinking, signature: None });
    }
    if let Some(text) = step.say.map(|text| place.fill(&text)) {
        sink(Delta::Text(&text));
        content.push(Block::Text { text });
    }
    let single = step.call.map(|call| Called { call, with: step.with });
    for (at, called) in single.into_iter().chain(step.calls).enumerate() {
        sink(Delta::Call(&called.call));
        let input = called.with.map_or_else(|| serde_json::json!({}), |with| place.fill_value(with));
        let id = format!("call_{}_{at}", request.messages.len());
        content.push(Block::ToolUse { id, name: called.call, input });
    }
    let message = Message::assistant(content);
    let calls = message.calls().next().is_some();
    let stop = step.stop.unwrap_or(if calls { Stop::ToolUse } else { Stop::EndTurn });
    let usage = step.usage.unwrap_or_else(|| Usage {
        input: tokens(&request.messages) + tokens(&request.system),
        output: tokens(&message),
        ..Usage::default()
    });
    Answer { message, stop, usage }
}

/// A fourth of the bytes, which is about what models count.
fn tokens(said: &impl serde::Serialize) -> u64 {
    serde_json::to_string(said).map_or(0, |text| text.len() as u64 / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ask(offline: &Offline, messages: &[Message]) -> Result<Answer, Failure> {
        let request = Request {
            model: "offline",
            system: &[],
            tools: &[],
            messages,
            reminder: None,
            max_output: 1000,
            effort: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(offline.answer(request, &mut |_| {}))
    }

    /// SP-21: the next step follows from the conversation alone.
    #[test]
    fn a_script_in_the_prompt_is_played_step_by_step() {
        let offline = Offline::of_prompt();
        let prompt =
            "Do it.\n```offline\n- call: Read\n  with: {file_path: a}\n- say: 'It says: {{result}}'\n```\n";
        let mut messages = vec![Message::user(prompt)];
        let first = ask(&offline, &messages).unwrap();
        let call = first.message.calls().next().unwrap();
        assert_eq!((call.name, call.input), ("Read", &json!({"file_path": "a"})));
        let tool_use_id = call.id.to_owned();
        messages.push(first.message);
        let result = Block::ToolResult { tool_use_id, content: "42".into(), is_error: false };
        messages.push(Message { role: Role::User, content: vec![result] });
        let second = ask(&Offline::of_prompt(), &messages).unwrap();
        assert_eq!((second.message.text().unwrap().as_str(), second.stop), ("It says: 42", Stop::EndTurn));
        messages.push(second.message);
        messages.push(Message::user("And now?\n```offline\n- say: done\n```"));
        assert_eq!(ask(&offline, &messages).unwrap().message.text().unwrap(), "done");
    }

    /// B30: faults come on demand, so often and no oftener.
    #[test]
    fn a_fault_comes_as_often_as_the_script_says() {
        let offline = Offline::of_script("- say: hi\n  fail: overloaded\n  times: 2\n").unwrap();
        let messages = [Message::user("x")];
        for _ in 0..2 {
            assert!(matches!(ask(&offline, &messages), Err(Failure::Overloaded { .. })));
        }
        assert_eq!(ask(&offline, &messages).unwrap().message.text().unwrap(), "hi");
    }

    /// It says what it is, and a script that is not right is named with its place.
    #[test]
    fn without_a_script_it_says_what_it_is() {
        let said = ask(&Offline::of_prompt(), &[Message::user("hello")]).unwrap().message.text().unwrap();
        assert!(said.starts_with("This is the offline model") && said.ends_with("hello"), "{said}");
        let error = Offline::of_script("- say: a\n  saay: b\n").unwrap_err();
        assert!(error.contains("saay") && error.contains('2'), "{error}");
    }
}
