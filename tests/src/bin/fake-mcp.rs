//! A stand-in for MCP servers: JSON-RPC by hand, a line a message, so that it can also do it wrong.
//!
//! | argument | does |
//! |---|---|
//! | `--tools N` | lists N tools beside the usual ones, ten a page |
//! | `--endless` | every page of the list has another one behind it |
//! | `--mute` | reads, and never answers |
//! | `--garbage` | says what is no JSON, and a line without end, before each answer |
//! | `--unfit` | lists three things that are no tools beside the usual ones |
//! | `--log FILE` | appends a line for each message that it gets, and `end` at the end of its input |
//!
//! Its tools: `echo` says what it is given, `fail` fails, `picture` has an image, `hang` never answers, `die` ends the
//! program and says why on its stderr, `env` says a variable, `flood` asks us for answers without end and reads none, `chat` tells us of progress
//! without end; `garble` gives an answer that can't be read: `long`, `deep` or odd; `meet` tells the pipe that it is given
//! that it was called, and never answers; `change` says a thousand times that the list changed, which from then on has the
//! tool `added` and no `picture`, where it is not to be the `same` in another order.

use std::fs::File;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use serde_json::{Value, json};

#[derive(Default)]
struct Manners {
    tools: usize,
    endless: bool,
    mute: bool,
    unfit: Vec<Value>,
    garbage: bool,
    log: Option<File>,
    /// How the list changed: `same`, or another way.
    changed: Option<String>,
}

fn main() -> io::Result<ExitCode> {
    let mut manners = Manners::default();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--tools" => manners.tools = args.next().and_then(|count| count.parse().ok()).unwrap_or(0),
            "--endless" => manners.endless = true,
            "--mute" => manners.mute = true,
            "--unfit" => {
                let (bare, list) = (json!({ "name": "bare" }), json!({ "name": "list", "inputSchema": [] }));
                manners.unfit = vec![bare, list, json!("text")];
            }
            "--garbage" => manners.garbage = true,
            "--log" => {
                let path = args.next().unwrap_or_default();
                manners.log = Some(File::options().create(true).append(true).open(path)?);
            }
            _ => return Ok(ExitCode::from(2)),
        }
    }
    for line in io::stdin().lock().lines() {
        let Ok(asked) = serde_json::from_str::<Value>(&line?) else { continue };
        let method = asked["method"].as_str().unwrap_or_default();
        manners.note(method)?;
        if asked["params"]["name"] == "die" {
            eprintln!("there is no more memory");
            return Ok(ExitCode::FAILURE);
        }
        if asked["params"]["name"] == "flood" {
            flood(|number| json!({ "jsonrpc": "2.0", "id": format!("ping{number}"), "method": "ping" }))?;
        }
        if asked["params"]["name"] == "chat" {
            let told = json!({ "progressToken": 1, "progress": 1 });
            flood(|_| json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": told }))?;
        }
        if asked["params"]["name"] == "change" {
            manners.changed = asked["params"]["arguments"]["text"].as_str().map(str::to_owned);
            let told = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
            let mut out = io::stdout().lock();
            (0..1000).try_for_each(|_| writeln!(out, "{told}"))?;
        }
        if let (Some(id), Some(answer)) = (asked.get("id"), manners.answer(method, &asked["params"])) {
            manners.say(id, answer)?;
        }
    }
    manners.note("end")?;
    Ok(ExitCode::SUCCESS)
}

impl Manners {
    fn note(&mut self, text: &str) -> io::Result<()> {
        self.log.as_mut().map_or(Ok(()), |log| writeln!(log, "{text}"))
    }

    fn say(&self, id: &Value, answer: Result<Value, Value>) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if self.garbage {
            writeln!(out, "Listening on port 8080 …\n{{\"jsonrpc\": 7}}\n{}", "x".repeat(5 << 20))?;
        }
        let message = match answer {
            Err(Value::String(error)) if error == "deep" => {
                let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
                return writeln!(out, "{{\"jsonrpc\":\"2.0\",\"result\":{deep},\"id\":{id}}}");
            }
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
        };
        writeln!(out, "{message}")?;
        out.flush()
    }

    fn answer(&self, method: &str, params: &Value) -> Option<Result<Value, Value>> {
        if self.mute {
            return None;
        }
        match method {
            "initialize" => Some(Ok(json!({
                "protocolVersion": params["protocolVersion"], "capabilities": { "tools": {} },
                "serverInfo": { "name": "fake", "version": "1" },
            }))),
            "tools/list" => Some(Ok(self.page(params["cursor"].as_str()))),
            "tools/call" => call(params["name"].as_str().unwrap_or_default(), &params["arguments"]),
            "ping" => Some(Ok(json!({}))),
            _ => Some(Err(json!({ "code": -32601, "message": "no such method" }))),
        }
    }

    fn page(&self, cursor: Option<&str>) -> Value {
        let tool = |name: &str| {
            let text = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
            json!({ "name": name, "description": format!("The tool {name}."), "inputSchema": text })
        };
        let from: usize = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
        let usual =
            ["echo", "fail", "picture", "hang", "die", "env", "flood", "chat", "garble", "meet", "change"]
                .map(str::to_owned);
        let more = (0..self.tools).map(|number| format!("more{number}"));
        let mut all: Vec<String> = usual.into_iter().chain(more).collect();
        match self.changed.as_deref() {
            Some("same") => all.reverse(),
            Some(_) => {
                all.retain(|name| name != "picture");
                all.push("added".to_owned());
            }
            None => {}
        }
        let page: Vec<Value> = all.iter().skip(from).take(10).map(|name| tool(name)).collect();
        let is_last = from + 10 >= all.len();
        let page: Vec<&Value> = self.unfit.iter().filter(|_| from == 0).chain(&page).collect();
        let mut answer = json!({ "tools": page });
        if self.endless || !is_last {
            answer["nextCursor"] = json!((from + 10).to_string());
        }
        answer
    }
}

/// Says one message after the other, until nobody hears it any more.
fn flood(message: impl Fn(u64) -> Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    (0..).try_for_each(|number| writeln!(out, "{}", message(number)))
}

fn call(name: &str, input: &Value) -> Option<Result<Value, Value>> {
    let said = |text: String| json!({ "content": [{ "type": "text", "text": text }] });
    match name {
        "echo" => Some(Ok(said(input["text"].as_str().unwrap_or_default().to_owned()))),
        "env" => {
            let value = std::env::var(input["text"].as_str().unwrap_or_default());
            Some(Ok(said(value.unwrap_or_else(|_| "not set".to_owned()))))
        }
        "fail" => Some(Ok(json!({ "content": [{ "type": "text", "text": "it broke" }], "isError": true }))),
        "picture" => {
            Some(Ok(json!({ "content": [{ "type": "image", "data": "AAAA", "mimeType": "image/png" }] })))
        }
        "change" | "added" => Some(Ok(said(name.to_owned()))),
        "hang" => None,
        "meet" => {
            std::fs::write(input["text"].as_str().unwrap_or_default(), "called\n").ok()?;
            None
        }
        "garble" if input["text"] == "long" => Some(Ok(said("x".repeat(5 << 20)))),
        // No error is a text.
        "garble" => Some(Err(input["text"].clone())),
        _ => Some(Err(json!({ "code": -32602, "message": format!("no tool {name}") }))),
    }
}
