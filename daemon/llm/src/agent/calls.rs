//! Tool calls of one answer: who may be called, in which order, and what comes back.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use futures_util::future::Either;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::Value;
use tokio::sync::RwLock;

use super::{Agent, Counts, Leave, Problem, unanswered};
use crate::hook::Word;
use crate::host::{Permission, Progress};
use crate::message::{Block, Call, Message};
use crate::tool::{Access, Ask, Outcome, Spec, Tool, cut};

/// How often in a row nothing may come of calls, before the run ends.
const STALLS: u32 = 1;

/// The tools of one agent: what is offered to its model, and what it may call. The offer is a hint; what is not in the
/// pool is refused here, whatever the model was told (TP-17).
#[derive(Clone, Debug, Default)]
pub struct Toolbox {
    offered: Vec<Arc<Spec>>,
    pool: BTreeMap<String, Arc<dyn Tool>>,
    gone: BTreeSet<String>,
}

impl Toolbox {
    /// Tools that are offered in this order and may be called.
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Self {
        let offered: Vec<Arc<Spec>> = tools.iter().map(|tool| tool.spec()).collect();
        let pool = offered.iter().map(|spec| spec.name.clone()).zip(tools).collect();
        Self { offered, pool, gone: BTreeSet::new() }
    }

    /// The same, and names of tools that there were before: a call of one of them is told so.
    #[must_use]
    pub fn without(mut self, gone: impl IntoIterator<Item = String>) -> Self {
        self.gone = gone.into_iter().collect();
        self
    }

    /// The same offer, and tools that may be called although they are not in it. A tool that is there keeps its name.
    #[must_use]
    pub fn beside(mut self, tools: Vec<Arc<dyn Tool>>) -> Self {
        for tool in tools {
            self.pool.entry(tool.spec().name.clone()).or_insert(tool);
        }
        self
    }

    /// The same offer, of which only some may be called (FK-23).
    #[must_use]
    pub fn allowing(mut self, may: impl Fn(&str) -> bool) -> Self {
        self.pool.retain(|name, _| may(name));
        self
    }

    /// What is offered, in order.
    pub fn specs(&self) -> &[Arc<Spec>] {
        &self.offered
    }

    /// Whether an answer calls something, and nothing that changes anything.
    pub(super) fn only_looks(&self, message: &Message) -> bool {
        let looks =
            |call: Call<'_>| self.find(call.name).is_some_and(|tool| tool.access(call.input).is_look());
        message.calls().next().is_some() && message.calls().all(looks)
    }

    fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.pool.get(name)
    }
}

/// The same failing call in a row (M148).
#[derive(Debug, Default)]
pub(super) struct Repeats {
    last: Option<(String, Value)>,
    times: u32,
}

impl Repeats {
    /// Notes a call; gives how often it failed in a row.
    fn note(&mut self, call: Call<'_>, failed: bool) -> u32 {
        if !failed {
            *self = Self::default();
            return 0;
        }
        if self.last.as_ref().is_some_and(|(name, input)| name == call.name && input == call.input) {
            self.times += 1;
        } else {
            self.last = Some((call.name.to_owned(), call.input.clone()));
            self.times = 1;
        }
        self.times
    }
}

/// What the calls of an answer gave, and what is acknowledged once that stands in the transcript.
#[derive(Clone, Debug, Default)]
pub(super) struct Results {
    pub(super) content: Vec<Block>,
    pub(super) heard: Vec<String>,
}

/// A call with the tool that it is for, or why there is none.
enum Due<'a> {
    Run(&'a Arc<dyn Tool>),
    Refuse(String),
}

impl Agent {
    /// Runs the calls of an answer; gives a result for each, in the order of the calls. Calls that change nothing run
    /// beside each other, the others alone. What is done stands in the counts until then: whatever ends this, it is known.
    pub(super) async fn call_all(&self, message: &Message, counts: &mut Counts) -> Result<Results, Leave> {
        let calls: Vec<Call<'_>> = message.calls().collect();
        let due: Vec<Due<'_>> = calls.iter().map(|call| self.due(*call)).collect();
        counts.done = vec![None; calls.len()];
        let turn = RwLock::new(());
        for range in groups(&calls, &due) {
            let call = |at: usize| self.call(calls[at], &due[at], &turn).map(move |outcome| (at, outcome));
            let mut group: FuturesUnordered<_> = range.map(call).collect();
            while let Some((at, outcome)) = group.next().await {
                counts.done[at] = Some(outcome);
            }
            if self.halt.graceful.is_cancelled() {
                break;
            }
        }
        let stalled = self.stalled(&calls, counts);
        let mut repeated = None;
        for (call, done) in calls.iter().zip(&mut counts.done) {
            let outcome =
                done.get_or_insert_with(|| Outcome::error("The agent was stopped before this call."));
            let times = counts.repeats.note(*call, outcome.is_error);
            if self.limits.repeats.is_some_and(|most| times >= most) {
                repeated = Some((call.name.to_owned(), times));
            }
        }
        if let Some(why) = counts.done.iter().flatten().find_map(|outcome| outcome.halt.clone()) {
            return Err(Leave::Called(Problem::new("hookStopped", why)));
        }
        if let Some(why) = stalled {
            return Err(Leave::Problem(Problem::new("stalled", why)));
        }
        if let Some((name, times)) = repeated {
            let why = format!("the same call of {name} failed {times} times in a row");
            return Err(Leave::Called(Problem::new("repeatedFailure", why)));
        }
        Ok(self.results(message, counts).await)
    }

    /// What became of the calls of an answer: those that were not done by now may have taken effect, or not.
    pub(super) async fn results(&self, message: &Message, counts: &mut Counts) -> Results {
        let mut results = Results { content: unanswered(std::slice::from_ref(message)), heard: Vec::new() };
        let done = std::mem::take(&mut counts.done);
        for (result, outcome) in results.content.iter_mut().zip(done) {
            let (Block::ToolResult { content, is_error, .. }, Some(outcome)) = (result, outcome) else {
                continue;
            };
            if outcome.is_error {
                counts.failed += 1;
                self.host.progress(Progress::ToolFailed).await;
            }
            if let Some(usage) = outcome.used {
                counts.count(&usage, self.price.as_ref());
                self.host.progress(Progress::Aside(*usage)).await;
            }
            counts.changed.extend(outcome.changed);
            results.heard.extend(outcome.heard);
            (*content, *is_error) = (outcome.text, outcome.is_error);
        }
        results
    }

    fn due(&self, call: Call<'_>) -> Due<'_> {
        if let Value::String(text) = call.input {
            let start: String = text.chars().take(80).collect();
            return Due::Refuse(format!("The input of this call is no JSON object: {start:?}"));
        }
        if let Some(tool) = self.toolbox.find(call.name) {
            Due::Run(tool)
        } else if self.toolbox.gone.contains(call.name) {
            Due::Refuse(format!("The tool {} is gone: its MCP server does not list it any more.", call.name))
        } else {
            let names: Vec<&str> = self.toolbox.pool.keys().map(String::as_str).collect();
            Due::Refuse(format!("There is no tool {:?} for you. You have: {}", call.name, names.join(", ")))
        }
    }

    /// Makes a call. Hooks may have given it an input that changes something: then it is alone all the same.
    async fn call(&self, call: Call<'_>, due: &Due<'_>, turn: &RwLock<()>) -> Outcome {
        let tool = match due {
            Due::Refuse(why) => return Outcome::error(why.clone()),
            Due::Run(tool) => tool,
        };
        let summary = tool.summary(call.input);
        self.host.progress(Progress::Tool { name: call.name.to_owned(), summary: summary.clone() }).await;
        let mut ask = Ask {
            tool: call.name.to_owned(),
            input: call.input.clone(),
            summary,
            access: tool.access(call.input),
            cwd: self.context.cwd(),
            hooked: Word::Nothing,
        };
        let said = match self.before(tool, call.id, &mut ask).await {
            Ok(said) => said,
            Err(refused) => return *refused,
        };
        match self.host.ask(ask.clone()).await {
            Permission::Allowed => {}
            Permission::Changed(input) => ask.give(&***tool, input),
            Permission::Denied(why) => return Outcome::error(why),
            Permission::Halted(why, halt) => return Outcome { halt: Some(halt), ..Outcome::error(why) },
        }
        let _turn = if ask.access.is_parallel() {
            Either::Left(turn.read().await)
        } else {
            Either::Right(turn.write().await)
        };
        let mut outcome = self.made(&***tool, call.id, &ask).await;
        outcome.text = self.context.mask.text(outcome.text);
        cut(&mut outcome.text, self.context.most);
        self.after(&ask, call.id, said, &mut outcome).await;
        outcome
    }
}

impl Agent {
    /// Makes a call that was allowed. One of which nothing comes for too long is ended; who waits for somebody else does
    /// not stall (M150).
    async fn made(&self, tool: &dyn Tool, id: &str, ask: &Ask) -> Outcome {
        let making = tool.call_as(&self.context, id, ask.input.clone());
        let most = match ask.access {
            Access::Talks | Access::Steers => None,
            Access::Reads | Access::Writes | Access::Runs | Access::Fetches => self.patience.stall,
        };
        // A tenth longer: a call that has the same bound of its own ends by that.
        let Some(most) = most.map(|most| most + most / 10) else { return making.await };
        self.context.beat.felt();
        tokio::select! {
            biased;
            outcome = making => outcome,
            () = self.context.beat.missed(most) => Outcome {
                stalled: true,
                ..Outcome::error(format!(
                    "Nothing came of this call for {} s, so it was ended. It may have taken effect, or not: look before \
                     you repeat it.",
                    most.as_secs_f32()
                ))
            },
        }
    }

    /// Why the run is to end, where nothing came of calls twice in a row.
    fn stalled(&self, calls: &[Call<'_>], counts: &mut Counts) -> Option<String> {
        let stalled = |done: &Option<Outcome>| done.as_ref().is_some_and(|outcome| outcome.stalled);
        let Some(at) = counts.done.iter().position(stalled) else {
            counts.stalls = 0;
            return None;
        };
        counts.stalls += 1;
        let secs = self.patience.stall.unwrap_or_default().as_secs();
        let name = calls.get(at).map_or("a tool", |call| call.name);
        let why = || format!("nothing came of a call of {name} for {secs} s, twice in a row");
        (counts.stalls > STALLS).then(why)
    }
}

/// Neighbours that may run beside each other, as ranges of places.
fn groups(calls: &[Call<'_>], due: &[Due<'_>]) -> Vec<Range<usize>> {
    let parallel = |at: usize| match &due[at] {
        Due::Run(tool) => tool.access(calls[at].input).is_parallel(),
        Due::Refuse(_) => true,
    };
    let mut groups: Vec<Range<usize>> = Vec::new();
    for at in 0..calls.len() {
        match groups.last_mut() {
            Some(group) if parallel(at) && parallel(group.start) => group.end = at + 1,
            _ => groups.push(at..at + 1),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool;

    fn answer(tools: &[&str]) -> Message {
        let call = |(at, tool): (usize, &&str)| Block::ToolUse {
            id: at.to_string(),
            name: (*tool).to_owned(),
            input: json!({}),
        };
        Message::assistant(tools.iter().enumerate().map(call).collect())
    }

    /// RS-12, J134: an answer need not be on the disk before its calls only where each of them looks and no more: what
    /// could be done twice after a power cut is told from what can.
    #[test]
    fn only_calls_that_change_nothing_are_made_before_they_are_on_the_disk() {
        let toolbox = Toolbox::new(tool::builtin());
        for looks in ["Read", "Grep", "Glob", "Skill", "WebFetch", "WebSearch"] {
            assert!(toolbox.only_looks(&answer(&["Read", looks])), "{looks}");
        }
        let names: Vec<String> = tool::builtin().iter().map(|tool| tool.spec().name.clone()).collect();
        let looks = names.iter().filter(|name| toolbox.only_looks(&answer(&[name.as_str()]))).count();
        assert_eq!(looks, 6, "a tool that the list above does not know changes nothing: {names:?}");
        assert!(!toolbox.only_looks(&answer(&["Read", "Bash"])));
        assert!(!toolbox.only_looks(&answer(&["Read", "NoSuchTool"])));
        assert!(!toolbox.only_looks(&answer(&[])), "a last answer");
    }
}
