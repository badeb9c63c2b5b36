//! Directives in a prompt: what the fake says, step by step, and what goes wrong on the way.
//!
//! | directive | does |
//! |---|---|
//! | `[[say:TEXT]]` | an answer of text; before a call in the same answer with `&` |
//! | `[[tool:NAME {…}]]` | an answer that calls a tool, whether or not it is offered |
//! | `[[raw:NAME TEXT]]` | a call whose input is TEXT, JSON or not |
//! | `[[twice:NAME {…}]]` | two calls with one id |
//! | `[[found:URL TITLE]]` | a result of the server's own search, where that is offered |
//! | `[[long:BYTES]]` | a text of so many bytes |
//! | `[[empty]]` | an answer of nothing |
//! | `[[think:TEXT]]` | a thought before each answer |
//! | `[[stop:REASON]]` | why each answer ends, in the words of the dialect |
//! | `[[wait:MS]]` | a pause before each answer |
//! | `[[odd]]` | events that nobody knows, between all others |
//! | `[[error:STATUS]]` | an HTTP error; `after=7` behind the status: with `retry-after` |
//! | `[[cut:EVENTS]]` | the connection breaks behind so many events |
//! | `[[half]]` | the stream ends in the middle of an event |
//! | `[[garbage]]` | an event that is no JSON |
//! | `[[disorder]]` | the third and the fourth event are swapped |
//! | `[[fail:TYPE]]` | an error event within the answer |
//! | `[[silent:MS]]` | a pause behind the first event |
//!
//! Steps joined by `&` are one answer. A fault happens each time, or with `*N` behind it in the first N requests with
//! this prompt.

use serde_json::{Value, json};

/// A tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) name: String,
    /// The input's text.
    pub(super) input: String,
    /// Whether it has the id of the call before.
    pub(super) same_id: bool,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Say(String),
    Long(usize),
    Call(Call),
    Found { url: String, title: String },
}

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Error { status: u16, after: Option<String> },
    Cut(usize),
    Half,
    Garbage,
    Disorder,
    Fail(String),
    Silent(u64),
}

/// A fault, and how often it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) fault: Fault,
    pub(super) times: Option<u32>,
}

/// All directives of a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Script {
    /// Answers, each of parts.
    pub(super) steps: Vec<Vec<Part>>,
    pub(super) faults: Vec<Due>,
    pub(super) think: Option<String>,
    pub(super) stop: Option<String>,
    pub(super) wait: u64,
    pub(super) odd: bool,
}

impl Script {
    /// Reads the directives in a text; what is none of them is left alone.
    pub(super) fn of(text: &str) -> Self {
        let mut script = Self::default();
        let mut rest = text;
        let mut joined = false;
        while let Some((before, inner)) = rest.split_once("[[") {
            joined = joined && before.trim() == "&";
            let Some((directive, behind)) = split(inner) else {
                rest = inner;
                continue;
            };
            script.take(directive, joined);
            joined = behind.starts_with('&');
            rest = behind;
        }
        script
    }

    fn take(&mut self, directive: &str, joined: bool) {
        let (name, value) = directive.split_once(':').unwrap_or((directive, ""));
        match name.split('*').next().unwrap_or_default() {
            "say" => self.step(vec![Part::Say(value.to_owned())], joined),
            "found" => {
                let (url, title) = value.split_once(' ').unwrap_or((value, ""));
                let found = Part::Found { url: url.to_owned(), title: title.to_owned() };
                self.step(vec![found], joined);
            }
            "long" => self.step(vec![Part::Long(number(value))], joined),
            "empty" => self.step(Vec::new(), joined),
            "tool" | "raw" => self.step(vec![call(value, false)], joined),
            "twice" => self.step(vec![call(value, false), call(value, true)], joined),
            "think" => self.think = Some(value.to_owned()),
            "stop" => self.stop = Some(value.to_owned()),
            "wait" => self.wait = number(value),
            "odd" => self.odd = true,
            kind => self.faults.extend(due(kind, directive)),
        }
    }

    fn step(&mut self, parts: Vec<Part>, joined: bool) {
        match self.steps.last_mut().filter(|_| joined) {
            Some(step) => step.extend(parts),
            None => self.steps.push(parts),
        }
    }
}

/// Splits a directive from what is behind it. The brackets within JSON are its own.
fn split(inner: &str) -> Option<(&str, &str)> {
    let end = inner.find("]]")?;
    let json =
        inner.find('{').filter(|at| *at < end && (inner.starts_with("tool:") || inner.starts_with("twice:")));
    let from = json.map_or(0, |at| {
        let mut values = serde_json::Deserializer::from_str(&inner[at..]).into_iter::<Value>();
        match values.next() {
            Some(Ok(_)) => at + values.byte_offset(),
            Some(Err(_)) | None => 0,
        }
    });
    let end = from + inner[from..].find("]]")?;
    Some((&inner[..end], &inner[end + 2..]))
}

fn call(value: &str, same_id: bool) -> Part {
    let (name, input) = value.split_once(' ').unwrap_or((value, "{}"));
    Part::Call(Call { name: name.to_owned(), input: input.to_owned(), same_id })
}

fn due(kind: &str, directive: &str) -> Option<Due> {
    let (what, times) = match directive.rsplit_once('*') {
        Some((what, times)) => (what, Some(number(times))),
        None => (directive, None),
    };
    let value = what.split_once(':').map_or("", |(_, value)| value);
    let (first, second) = value.split_once(' ').unwrap_or((value, ""));
    let fault = match kind {
        "error" => Fault::Error {
            status: number(first),
            after: second.strip_prefix("after=").map(|after| after.trim().to_owned()),
        },
        "cut" => Fault::Cut(number(value)),
        "half" => Fault::Half,
        "garbage" => Fault::Garbage,
        "disorder" => Fault::Disorder,
        "fail" => Fault::Fail(value.to_owned()),
        "silent" => Fault::Silent(number(value)),
        _ => return None,
    };
    Some(Due { fault, times })
}

fn number<T: std::str::FromStr + Default>(text: &str) -> T {
    text.trim().parse().unwrap_or_default()
}

/// What a conversation comes to: the newest prompt with directives, and what happened since.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// The prompt.
    pub(super) prompt: String,
    /// Its directives.
    pub(super) script: Script,
    /// Answers since.
    pub(super) answers: usize,
    /// The newest result of a tool.
    pub(super) result: Option<String>,
}

impl Place {
    /// Reads the messages of a request of either dialect.
    pub(super) fn of(request: &Value) -> Self {
        let mut place = Self::default();
        for message in request["messages"].as_array().into_iter().flatten() {
            let content = &message["content"];
            match message["role"].as_str() {
                Some("assistant") => place.answers += 1,
                Some("tool") => place.result = Some(text(content)),
                Some("user") => match content.as_array() {
                    Some(blocks) => blocks.iter().for_each(|block| place.block(block)),
                    None => place.block(&json!({"type": "text", "text": content})),
                },
                Some(_) | None => {}
            }
        }
        place
    }

    fn block(&mut self, block: &Value) {
        if block["type"] == "tool_result" {
            self.result = Some(text(&block["content"]));
            return;
        }
        let said = block["text"].as_str().unwrap_or_default();
        let script = Script::of(said);
        if script != Script::default() || self.prompt.is_empty() {
            *self = Self { prompt: said.to_owned(), script, answers: 0, result: None };
        }
    }

    /// The parts of the next answer.
    pub(super) fn step(&self) -> Vec<Part> {
        self.script.steps.get(self.answers).cloned().unwrap_or_else(|| {
            let said = match &self.result {
                Some(result) => format!("done: {result}"),
                None => format!("heard: {}", self.prompt),
            };
            vec![Part::Say(said)]
        })
    }
}

/// A text, or the texts of blocks.
fn text(content: &Value) -> String {
    match content.as_array() {
        Some(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        None => content.as_str().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SP-21: the fake does what the prompt says, and brackets within JSON end nothing.
    #[test]
    fn directives_are_read_in_their_order() {
        let script = Script::of(
            "Do [[tool:A {\"x\":[[1]]}]]&[[say:hi]] then [[raw:B {bad]] [[error:429*2]] [[error:529 after=7*1]] [[odd]] [[nothing]]",
        );
        let call = |name: &str, input: &str| {
            Part::Call(Call { name: name.into(), input: input.into(), same_id: false })
        };
        assert_eq!(
            script.steps,
            [vec![call("A", "{\"x\":[[1]]}"), Part::Say("hi".into())], vec![call("B", "{bad")]]
        );
        let errors = [
            Due { fault: Fault::Error { status: 429, after: None }, times: Some(2) },
            Due { fault: Fault::Error { status: 529, after: Some("7".into()) }, times: Some(1) },
        ];
        assert_eq!((script.faults.as_slice(), script.odd), (errors.as_slice(), true));
    }

    /// SP-21: where a conversation is follows from its messages, in either dialect.
    #[test]
    fn the_place_follows_from_the_messages() {
        let messages = json!({"messages": [
            {"role": "user", "content": [{"type": "text", "text": "[[tool:A {}]] [[say:one]]"}]},
            {"role": "assistant", "content": []},
            {"role": "user", "content": [{"type": "tool_result", "content": "r"}, {"type": "text", "text": "a reminder"}]},
        ]});
        let place = Place::of(&messages);
        assert_eq!((place.step(), place.result.as_deref()), (vec![Part::Say("one".into())], Some("r")));
        let chat = json!({"messages": [
            {"role": "system", "content": "[[say:no]]"},
            {"role": "user", "content": "[[tool:A {}]]"},
            {"role": "assistant", "content": null},
            {"role": "tool", "content": "r"},
        ]});
        assert_eq!(Place::of(&chat).step(), [Part::Say("done: r".into())]);
    }
}
