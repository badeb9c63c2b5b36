//! The loop against the offline model and a host that only writes down.

mod compact;
mod halt;
mod stall;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::*;
use crate::hook::{Said, Word};
use crate::host::Permission;
use crate::provider::offline::Offline;
use crate::tool::{Access, Ask, Outcome, Tool, read};
use crate::transcript::{Found, Header, PROMPT, VERSION};

/// A host that writes down what it is told, and gives what a test put in.
#[derive(Debug, Default)]
struct Notes {
    came: Mutex<VecDeque<Vec<Incoming>>>,
    acknowledged: Mutex<Vec<String>>,
    shown: Mutex<String>,
    tools: Mutex<Vec<String>>,
    more: Mutex<VecDeque<bool>>,
    denied: Vec<&'static str>,
    /// Ends the run at once where something is looked for behind a call.
    ends: Option<CancellationToken>,
    /// Whether hooks object to its end.
    objects: bool,
    objections: Mutex<Vec<u32>>,
    /// The input that hooks give a call whose text this is.
    changes: Option<(&'static str, Value)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

impl Host for Notes {
    fn incoming(&self) -> BoxFuture<'_, Vec<Incoming>> {
        if let Some(force) = self.ends.as_ref().filter(|_| !lock(&self.tools).is_empty()) {
            force.cancel();
            return std::future::pending().boxed();
        }
        ready(lock(&self.came).pop_front().unwrap_or_default()).boxed()
    }

    fn acknowledge(&self, ids: Vec<String>) -> BoxFuture<'_, ()> {
        lock(&self.acknowledged).extend(ids);
        ready(()).boxed()
    }

    fn more(&self) -> BoxFuture<'_, bool> {
        ready(lock(&self.more).pop_front().unwrap_or(false)).boxed()
    }

    fn progress(&self, progress: Progress) -> BoxFuture<'_, ()> {
        if let Progress::Tool { name, summary } = progress {
            lock(&self.tools).push(format!("{name} {summary}"));
        }
        ready(()).boxed()
    }

    fn show(&self, text: &str) {
        lock(&self.shown).push_str(text);
    }

    fn ask(&self, ask: Ask) -> BoxFuture<'_, Permission> {
        let denied = self.denied.contains(&ask.tool.as_str());
        ready(if denied { Permission::Denied("not allowed here".into()) } else { Permission::Allowed })
            .boxed()
    }

    fn before<'a>(&'a self, ask: &'a Ask, _: &'a str) -> BoxFuture<'a, Said> {
        let changed = self.changes.as_ref().filter(|(text, _)| ask.input["text"] == *text);
        ready(Said { input: changed.map(|(_, input)| input.clone()), ..Said::default() }).boxed()
    }

    fn ending<'a>(&'a self, _: Option<&'a str>, again: u32) -> BoxFuture<'a, Said> {
        lock(&self.objections).push(again);
        let word = if self.objects { Word::Deny("not yet".to_owned()) } else { Word::Nothing };
        ready(Said { word, ..Said::default() }).boxed()
    }
}

/// A tool that says what it was given.
#[derive(Debug)]
struct Echo {
    name: &'static str,
    access: Access,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EchoInput {
    text: String,
    #[serde(default)]
    fail: bool,
}

impl Tool for Echo {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<EchoInput>(self.name, "Says what it is given.")
    }

    fn access(&self, _: &Value) -> Access {
        self.access
    }

    fn summary(&self, input: &Value) -> String {
        input["text"].as_str().unwrap_or_default().to_owned()
    }

    fn call<'a>(&'a self, _: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        let outcome = match read::<EchoInput>(input) {
            Ok(input) if input.fail => Outcome::error(input.text),
            Ok(input) => Outcome { changed: vec![PathBuf::from(&input.text)], ..Outcome::ok(input.text) },
            Err(outcome) => outcome,
        };
        ready(outcome).boxed()
    }
}

struct Lab {
    dir: tempfile::TempDir,
    host: Arc<Notes>,
    limits: Limits,
    halt: Halt,
}

impl Lab {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            host: Arc::default(),
            limits: Limits::default(),
            halt: Halt::default(),
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("history.jsonl")
    }

    async fn found(&self) -> Found {
        let header =
            || Header { version: VERSION, at: 1, model: "m".into(), system: Vec::new(), tools: Vec::new() };
        Transcript::open_or_begin(&self.path(), header).await.unwrap()
    }

    async fn agent(&self, script: &str) -> Agent {
        let found = self.found().await;
        let tools: Vec<Arc<dyn Tool>> = vec![
            Arc::new(Echo { name: "Echo", access: Access::Reads }),
            Arc::new(Echo { name: "Hidden", access: Access::Writes }),
        ];
        Agent {
            host: self.host.clone(),
            provider: Arc::new(Offline::of_script(script).unwrap()),
            model: "m".into(),
            system: Arc::from(["You are a test.".to_owned()]),
            toolbox: Toolbox::new(tools).allowing(|name| name != "Hidden"),
            context: Arc::new(Context {
                cwd: Mutex::new(self.dir.path().to_owned()),
                env: std::collections::BTreeMap::new(),
                temp: self.dir.path().to_owned(),
                writable: Vec::new(),
                memory: None,
                stop: CancellationToken::new(),
                most: 1000,
                mask: Arc::default(),
                files: crate::tool::Files::default(),
                shim: PathBuf::new(),
                left: crate::tool::Left::default(),
                beat: crate::tool::Beat::default(),
                host: self.host.clone(),
            }),
            transcript: found.transcript,
            messages: found.messages,
            begins: found.begins,
            asked: found.asked,
            asides: Vec::new(),
            seen: found.seen,
            limits: self.limits,
            reminder: None,
            max_output: 1000,
            effort: None,
            price: None,
            patience: Patience { first: Duration::from_millis(1), tries: 3, ..Patience::default() },
            halt: self.halt.clone(),
        }
    }

    async fn run(&self, script: &str) -> Ended {
        let agent = self.agent(script).await;
        agent.run().await
    }

    fn say(&self, id: &str, text: &str) {
        lock(&self.host.came).push_back(vec![Incoming { id: id.into(), text: text.into() }]);
    }

    async fn messages(&self) -> Vec<Message> {
        Transcript::open(&self.path()).await.unwrap().unwrap().messages
    }
}

fn failed(ended: &Ended) -> &'static str {
    match &ended.finish {
        Finish::Failed(problem) => problem.kind,
        other => panic!("{other:?}"),
    }
}

/// SP-17, SP-21, TS-11: request, call, result, answer; the newest text is what came of it.
#[tokio::test]
async fn an_agent_calls_its_tools_until_it_is_done() {
    let lab = Lab::new();
    lab.say("m1", "Do it.");
    let ended = lab
        .run("- say: first\n  call: Echo\n  with: {text: a}\n- call: Echo\n  with: {text: b}\n- say: 'got {{result}}'\n")
        .await;
    assert_eq!((&ended.finish, ended.text.as_deref()), (&Finish::Completed, Some("got b")));
    assert_eq!((ended.turns, ended.calls, ended.failed_calls), (3, 2, 0));
    assert_eq!(*lock(&lab.host.shown), "first\ngot b\n");
    assert_eq!(*lock(&lab.host.acknowledged), ["m1"]);
    assert_eq!(lab.messages().await.len(), 6);
}

/// TP-17: what is not in the pool is refused, whatever was offered; the agent goes on.
#[tokio::test]
async fn a_tool_outside_the_pool_is_refused() {
    let lab = Lab::new();
    lab.say("m1", "Do it.");
    let ended =
        lab.run("- calls: [{call: Hidden, with: {text: a}}, {call: Nowhere}]\n- say: '{{result}}'\n").await;
    assert_eq!((ended.finish, ended.failed_calls), (Finish::Completed, 2));
    assert!(
        ended.changed.is_empty()
            && ended.text.unwrap().contains("no tool \"Nowhere\" for you. You have: Echo")
    );
    assert!(lock(&lab.host.tools).is_empty());
}

/// MB-18, A5: what comes while a tool runs stands behind its result, oldest first, and is acknowledged then.
#[tokio::test]
async fn messages_go_in_at_the_next_tool_boundary() {
    let lab = Lab::new();
    lab.say("m1", "Do it.");
    lock(&lab.host.came).push_back(vec![
        Incoming { id: "m2".into(), text: "one".into() },
        Incoming { id: "m3".into(), text: "two".into() },
    ]);
    lab.run("- call: Echo\n  with: {text: a}\n- say: done\n").await;
    let content = &lab.messages().await[2].content;
    let text = |text: &str| Block::Text { text: text.into() };
    assert!(matches!(content[0], Block::ToolResult { .. }));
    assert_eq!(content[1..], [text("one"), text("two")]);
    assert_eq!(*lock(&lab.host.acknowledged), ["m1", "m2", "m3"]);
}

/// AD-23, M149: a budget is a normal end with the text so far and the reason.
#[tokio::test]
async fn a_budget_ends_the_run_with_its_text() {
    let mut lab = Lab::new();
    lab.say("m1", "Do it.");
    lab.limits.turns = Some(2);
    let ended =
        lab.run("- say: so far\n  call: Echo\n  with: {text: a}\n- call: Echo\n  with: {text: b}\n").await;
    assert_eq!((failed(&ended), ended.text.as_deref(), ended.turns), ("maxTurns", Some("so far"), 2));
}

/// M148: the same failing call, over and over, is seen.
#[tokio::test]
async fn the_same_failing_call_is_not_repeated_for_ever() {
    let mut lab = Lab::new();
    lab.say("m1", "Do it.");
    lab.limits.repeats = Some(3);
    let step = "- call: Echo\n  with: {text: no, fail: true}\n";
    assert_eq!(failed(&lab.run(&step.repeat(9)).await), "repeatedFailure");
    assert_eq!(lab.host.tools.lock().unwrap().len(), 3);
}

/// B30, TS-14: what may pass is tried again; what does not is the run's error.
#[tokio::test]
async fn transient_failures_are_tried_again_and_others_end_the_run() {
    let lab = Lab::new();
    lab.say("m1", "Do it.");
    assert_eq!(lab.run("- say: ok\n  fail: cut\n  times: 2\n").await.finish, Finish::Completed);
    let lab = Lab::new();
    lab.say("m1", "Do it.");
    assert_eq!(failed(&lab.run("- say: ok\n  fail: overloaded\n  times: 9\n").await), "overloaded");
    let lab = Lab::new();
    lab.say("m1", "Do it.");
    assert_eq!(failed(&lab.run("- say: ok\n  fail: authentication\n").await), "authentication");
}

/// RS-10, H108: a run that was cut off goes on from its transcript; the call that was under way is said to be unsure.
#[tokio::test]
async fn an_interrupted_run_goes_on_where_it_was() {
    let lab = Lab::new();
    lab.say("m1", "Do it.");
    let script = "- call: Echo\n  with: {text: a}\n- say: 'saw {{result}}'\n";
    let mut agent = lab.agent(script).await;
    agent.take_incoming(Results::default()).await.unwrap();
    let answer = agent.ask(&mut String::new()).await.unwrap();
    agent.keep(&answer, &mut Counts::default()).await.unwrap();
    assert_eq!(lab.messages().await.len(), 1, "an answer that only looks waits for its results");
    agent.transcript.write_waiting().await.unwrap();
    drop(agent);
    let ended = lab.run(script).await;
    assert_eq!(ended.finish, Finish::Completed);
    assert!(ended.text.unwrap().starts_with("saw The run was interrupted"), "{:?}", lab.messages().await);
}

/// G4, B38: while agents that it spawned run it waits for what they say, and goes on with it.
#[tokio::test]
async fn an_agent_waits_for_those_that_it_spawned() {
    let lab = Lab::new();
    lab.say("m1", "Do it.");
    lock(&lab.host.more).push_back(true);
    lab.say("n1", "<task-notification>");
    let ended = lab.run("- say: waiting\n- say: 'then {{prompt}}'\n").await;
    assert_eq!(ended.text.as_deref(), Some("then <task-notification>"));
}

/// AB-03, AB-11: a graceful halt lets the call end that runs, and takes nothing new.
#[tokio::test]
async fn a_halted_agent_asks_no_more() {
    let lab = Lab::new();
    lab.say("m1", "Do it.");
    lab.halt.graceful.cancel();
    let ended = lab.run("- say: never\n").await;
    assert_eq!((ended.finish, ended.turns), (Finish::Halted, 0));
    assert!(lock(&lab.host.acknowledged).is_empty());
}

/// A model that begins to say something, and then nothing more.
#[derive(Debug)]
struct Breathless(CancellationToken);

impl Provider for Breathless {
    fn answer<'a>(
        &'a self,
        _: Request<'a>,
        sink: crate::provider::Sink<'a>,
    ) -> BoxFuture<'a, Result<Answer, Failure>> {
        sink(Delta::Text("of a try that broke off"));
        sink(Delta::Began);
        sink(Delta::Text("I found "));
        sink(Delta::Text("this so far"));
        self.0.cancel();
        std::future::pending().boxed()
    }
}

/// RS-12, B29: what a halted run had said so far stands in its conversation and is its text, whichever way it was halted.
#[tokio::test]
async fn a_halted_agent_keeps_what_it_said_so_far() {
    for halt in [|halt: &Halt| halt.graceful.clone(), |halt: &Halt| halt.force.clone()] {
        let lab = Lab::new();
        lab.say("m1", "Do it.");
        let mut agent = lab.agent("- say: never\n").await;
        agent.provider = Arc::new(Breathless(halt(&lab.halt)));
        let ended = agent.run().await;
        assert_eq!((ended.finish, ended.text.as_deref()), (Finish::Halted, Some("I found this so far")));
        let last = lab.messages().await.pop().unwrap();
        assert_eq!((last.role, last.text().as_deref()), (Role::Assistant, Some("I found this so far")));
    }
}

/// PM-09: what is denied does not run, and the model reads why.
#[tokio::test]
async fn a_denied_call_does_not_run() {
    let mut lab = Lab::new();
    lab.host = Arc::new(Notes { denied: vec!["Echo"], ..Notes::default() });
    lab.say("m1", "Do it.");
    let ended = lab.run("- call: Echo\n  with: {text: a}\n- say: '{{result}}'\n").await;
    assert_eq!((ended.text.as_deref(), ended.changed.len()), (Some("not allowed here"), 0));
}

/// TS-12: an answer that is cut off is asked on, and an empty one again; not for ever.
#[tokio::test]
async fn answers_that_are_cut_off_or_empty_are_asked_on() {
    let cut = "- say: more\n  stop: max_tokens\n";
    for (script, ends) in [(format!("{cut}- say: end\n"), None), (cut.repeat(9), Some("maxOutput"))] {
        let lab = Lab::new();
        lab.say("m1", "Do it.");
        let ended = lab.run(&script).await;
        match ends {
            None => assert_eq!((ended.finish, ended.text.as_deref()), (Finish::Completed, Some("end"))),
            Some(kind) => assert_eq!((failed(&ended), ended.text.as_deref()), (kind, Some("more"))),
        }
    }
    let lab = Lab::new();
    lab.say("m1", "Do it.");
    let ended = lab.run("- {}\n").await;
    assert_eq!((failed(&ended), ended.text, ended.turns), ("emptyAnswer", None, 3));
}

/// TP-17: bad input is an answer that the model can act on.
#[tokio::test]
async fn bad_input_is_an_answer_to_the_model() {
    let lab = Lab::new();
    lab.say("m1", "Do it.");
    let ended = lab.run("- call: Echo\n  with: {text: 1}\n- say: '{{result}}'\n").await;
    assert!(ended.text.unwrap().starts_with("bad input at text: "));
}

/// AB-03, D50: what the tools of an agent left running ends with it, before its run does.
#[tokio::test]
async fn what_tools_left_running_ends_with_the_agent() {
    let lab = Lab::new();
    lab.say("m1", "Do it.");
    let script = "- call: Bash\n  with: {command: 'sleep 1000 & echo $!'}\n- say: '{{result}}'\n";
    let mut agent = lab.agent(script).await;
    agent.toolbox = Toolbox::new(crate::tool::builtin());
    let context = Arc::get_mut(&mut agent.context).unwrap();
    context.shim = ccagent_tests::programs::shim();
    context.env.insert("PATH".into(), "/usr/bin:/bin".into());
    let text = agent.run().await.text.unwrap();
    let pid = text.lines().next().unwrap().parse().unwrap();
    assert!(text.contains("[Processes of it that go on: 1;"), "{text}");
    assert_eq!(ccagent_shim::tree::stat::read(pid).unwrap(), None);
}

/// What is said beside a prompt is not lost where an interrupted run goes on without one; it alone is no reason to ask.
#[tokio::test]
async fn what_is_said_aside_is_heard_without_a_prompt() {
    let lab = Lab::new();
    let transcript = lab.found().await.transcript;
    transcript.message(&Message::user("Do it."), vec![format!("{PROMPT}1")]).await.unwrap();
    for (answers, turns) in [("- say: '1'\n- say: '2'\n- say: done\n", 1), ("- say: never\n", 0)] {
        let mut agent = lab.agent(answers).await;
        agent.asides = vec!["mind the gap".into()];
        let ended = agent.run().await;
        assert_eq!((&ended.finish, ended.turns), (&Finish::Completed, turns));
        let told = lab.messages().await;
        assert_eq!(format!("{told:?}").matches("mind the gap").count(), 1, "{told:?}");
    }
}

/// A tool that reads until all of its calls do, and writes alone: it says what it finds running.
#[derive(Debug)]
struct Crowd {
    readers: tokio::sync::Barrier,
    inside: std::sync::atomic::AtomicUsize,
}

impl Tool for Crowd {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<EchoInput>("Crowd", "Says how many calls of it run.")
    }

    fn access(&self, input: &Value) -> Access {
        if input["fail"] == true { Access::Writes } else { Access::Reads }
    }

    fn summary(&self, _: &Value) -> String {
        String::new()
    }

    fn call<'a>(&'a self, _: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        use std::sync::atomic::Ordering::SeqCst;
        let inside = self.inside.fetch_add(1, SeqCst);
        async move {
            if input["fail"] != true {
                self.readers.wait().await;
            }
            self.inside.fetch_sub(1, SeqCst);
            Outcome::ok(format!("{inside} beside it"))
        }
        .boxed()
    }
}

/// TP-17, C18: a call that a hook made one that writes is alone, though it is in the group of two that run beside each other.
#[tokio::test]
async fn a_call_that_a_hook_made_a_writing_one_is_alone() {
    let mut lab = Lab::new();
    let changed = serde_json::json!({ "text": "two", "fail": true });
    lab.host = Arc::new(Notes { changes: Some(("two", changed)), ..Notes::default() });
    lab.say("m1", "Do it.");
    let calls = ["one", "three", "two"].map(|text| format!("{{call: Crowd, with: {{text: {text}}}}}"));
    let mut agent = lab.agent(&format!("- calls: [{}]\n- say: done\n", calls.join(", "))).await;
    let crowd =
        Crowd { readers: tokio::sync::Barrier::new(2), inside: std::sync::atomic::AtomicUsize::new(0) };
    agent.toolbox = Toolbox::new(vec![Arc::new(crowd)]);
    assert_eq!(agent.run().await.finish, Finish::Completed);
    let results = format!("{:?}", lab.messages().await[2]);
    let beside = |n: usize| results.matches(&format!("{n} beside it")).count();
    assert_eq!((beside(0), beside(1), beside(2)), (2, 1, 0), "{results}");
}

/// M148: a provider that pauses its answer again and again is not asked for ever; pauses that are not in a row don't count.
#[tokio::test]
async fn a_provider_that_pauses_for_ever_is_given_up() {
    let lab = Lab::new();
    lab.say("m1", "Do it.");
    let ended = lab.run(&"- say: wait\n  stop: pause\n".repeat(30)).await;
    assert_eq!((failed(&ended), ended.turns), ("pausedAgain", PAUSES + 1));
    let lab = Lab::new();
    lab.say("m1", "Do it.");
    let step = "- say: wait\n  stop: pause\n- call: Echo\n  with: {text: a}\n".repeat(20);
    assert_eq!(lab.run(&format!("{step}- say: end\n")).await.finish, Finish::Completed);
}

/// M149: money ends a run as the other budgets do.
#[tokio::test]
async fn money_ends_the_run() {
    let mut lab = Lab::new();
    lab.say("m1", "Do it.");
    lab.limits.micro_usd = Some(10);
    let step = "- call: Echo\n  with: {text: a}\n  usage: {input: 4, output: 2}\n";
    let mut agent = lab.agent(&step.repeat(5)).await;
    let price = Price { input: 1.0, output: 1.0, cache_write: 0.0, cache_read: 0.0 };
    agent.price = Some(price);
    let ended = agent.run().await;
    assert_eq!((failed(&ended), ended.turns), ("maxUsd", 2));
}

/// C18: hooks keep a run from ending, eight times in a row and not for ever.
#[tokio::test]
async fn hooks_keep_a_run_from_ending_only_so_often() {
    let mut lab = Lab::new();
    lab.host = Arc::new(Notes { objects: true, ..Notes::default() });
    lab.say("m1", "Do it.");
    let ended = lab.run(&"- say: done\n".repeat(9)).await;
    assert_eq!((&ended.finish, ended.turns), (&Finish::Completed, 9));
    assert_eq!(*lock(&lab.host.objections), (0..=8).collect::<Vec<_>>());
    let said = lab.messages().await;
    assert_eq!(said.iter().filter(|message| format!("{message:?}").contains("not yet")).count(), 8);
}
