//! The loop of one agent.
//!
//! ```text
//! boundary: stop? budget? what came ─▶ request ─▶ answer ─▶ calls ─▶ results ─┐
//!    ▲                                               │ none                   │
//!    │                                               ▼                        │
//!    │                         agents that it spawned run? ── no ──▶ ended    │
//!    └────────────────────────────── yes: wait ◀──────┴───────────────────────┘
//! ```
//!
//! Whatever the model says, and whatever a tool gave, is on the disk before anything follows from it that changes
//! something; calls that only look are written with what they gave.

mod calls;
mod compact;
mod ended;
mod hooked;
mod kept;

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::host::{Host, Incoming, Progress, Switched};
use crate::message::{Block, Call, Message, Role, Usage};
use crate::provider::price::Price;
use crate::provider::retry::{self, Patience};
use crate::provider::{Answer, Delta, Failure, Provider, Request, Stop};
use crate::tool::{Context, Outcome, Spec};
use crate::transcript::{Transcript, TranscriptError};

use calls::Results;
pub use calls::Toolbox;
pub use ended::{Ended, Finish, Problem};
use kept::Kept;

/// How often an answer that got too long is asked on.
const CONTINUES: u32 = 3;
/// How often in a row a provider may pause an answer.
const PAUSES: u32 = 10;
/// How often a model that answers nothing is asked again.
const EMPTY_TRIES: u32 = 2;

/// What bounds a run. `None` is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Answers of the model.
    pub turns: Option<u32>,
    /// Tool calls.
    pub calls: Option<u32>,
    /// Tokens: all input, cached or not, and all output.
    pub tokens: Option<u64>,
    /// Millionths of a US dollar, where prices are known.
    pub micro_usd: Option<u64>,
    /// Tokens of a conversation from which on it is compacted.
    pub context: Option<u64>,
    /// The same failing call in a row.
    pub repeats: Option<u32>,
}

/// Ends a run from outside.
#[derive(Clone, Debug, Default)]
pub struct Halt {
    /// After the tool call that runs.
    pub graceful: CancellationToken,
    /// At once.
    pub force: CancellationToken,
}

/// One run of an agent.
#[derive(Debug)]
pub struct Agent {
    /// The rest of the daemon.
    pub host: Arc<dyn Host>,
    /// Who answers.
    pub provider: Arc<dyn Provider>,
    /// The model.
    pub model: String,
    /// The parts of the system prompt.
    pub system: Arc<[String]>,
    /// What it may call.
    pub toolbox: Toolbox,
    /// What its tools share.
    pub context: Arc<Context>,
    /// Where its conversation is kept.
    pub transcript: Transcript,
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// How many of its turns are its parent's, where it is a fork: its own task stands behind them.
    pub begins: usize,
    /// Where the newest of its prompts stands.
    pub asked: usize,
    /// What is said beside whatever is said to it next.
    pub asides: Vec<String>,
    /// What stands in it already of that which comes again until it is acknowledged.
    pub seen: HashSet<String>,
    /// What bounds it.
    pub limits: Limits,
    /// A text that stands behind every request.
    pub reminder: Option<String>,
    /// Tokens of an answer at most.
    pub max_output: u32,
    /// How much the model thinks.
    pub effort: Option<String>,
    /// What the model's tokens cost, if that is known.
    pub price: Option<Price>,
    /// How long a request is tried.
    pub patience: Patience,
    /// Ends it.
    pub halt: Halt,
}

/// What is counted during a run.
#[derive(Debug, Default)]
struct Counts {
    turns: u32,
    continues: u32,
    /// Pauses in a row.
    pauses: u32,
    empty: u32,
    calls: u32,
    failed: u32,
    tokens: u64,
    micro_usd: u64,
    /// How often in a row the conversation was too long.
    too_long: u32,
    /// What of an answer was said so far.
    partial: String,
    changed: Vec<std::path::PathBuf>,
    repeats: calls::Repeats,
    /// How often in a row nothing came of a call.
    stalls: u32,
    /// What became of the calls of the newest answer, as far as they are done and it is not said yet.
    done: Vec<Option<Outcome>>,
    /// The same once all are done, until it is said.
    results: Option<Results>,
    /// How often in a row hooks kept it from ending.
    objections: u32,
}

impl Counts {
    fn count(&mut self, usage: &Usage, price: Option<&Price>) {
        self.tokens += usage.all_input() + usage.output;
        if let Some(price) = price {
            self.micro_usd = self.micro_usd.saturating_add(price.micro(*usage));
        }
    }
}

/// Why the loop leaves.
#[derive(Debug)]
enum Leave {
    Done,
    Halted,
    TooLong(String),
    /// What its calls came to ends it, and is not said yet.
    Called(Problem),
    Problem(Problem),
}

impl From<TranscriptError> for Leave {
    fn from(error: TranscriptError) -> Self {
        let source =
            std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
        Self::Problem(Problem::new("transcript", format!("{error}{source}")))
    }
}

impl Agent {
    /// Runs until it is done, halted or out of budget.
    pub async fn run(mut self) -> Ended {
        let (mut counts, mut kept) = (Counts::default(), Kept::default());
        let force = self.halt.force.clone();
        let leave = tokio::select! {
            biased;
            () = force.cancelled() => Leave::Halted,
            leave = self.turns(&mut counts, &mut kept) => match leave {
                Ok(never) => match never {},
                Err(leave) => leave,
            },
        };
        let leave = self.take_back(&mut kept).await.err().unwrap_or(leave);
        // What still runs of its tools ends with it.
        self.context.stop.cancel();
        self.context.left.end().await;
        let leave = match leave {
            Leave::Halted => self.close(&mut counts).await.err().unwrap_or(Leave::Halted),
            Leave::Called(problem) => self.close(&mut counts).await.err().unwrap_or(Leave::Problem(problem)),
            leave => leave,
        };
        ended::of(self.messages.get(self.begins..).unwrap_or_default(), counts, leave)
    }

    async fn turns(
        &mut self,
        counts: &mut Counts,
        kept: &mut Kept,
    ) -> Result<std::convert::Infallible, Leave> {
        self.settle_interrupted().await?;
        loop {
            if self.halt.graceful.is_cancelled() {
                return Err(Leave::Halted);
            }
            self.take_incoming(Results::default()).await?;
            if self.has_said_its_last() {
                self.rest(counts, kept).await?;
                continue;
            }
            self.check_budget(counts)?;
            if let Some(Switched { provider, model, price }) = self.host.switched().await {
                (self.provider, self.model, self.price) = (provider, model, price);
            }
            let retooled = self.halt.graceful.run_until_cancelled(self.host.retooled()).await;
            self.toolbox = retooled.flatten().unwrap_or_else(|| std::mem::take(&mut self.toolbox));
            let asked = self.ask(&mut counts.partial).await;
            let answer = match asked {
                Err(Leave::TooLong(why)) => {
                    self.make_room(counts, why).await?;
                    continue;
                }
                answer => answer?,
            };
            counts.partial.clear();
            counts.turns += 1;
            counts.too_long = 0;
            counts.count(&answer.usage, self.price.as_ref());
            let long = answer.usage.all_input() + answer.usage.output;
            self.keep(&answer, counts).await?;
            self.follow(answer, counts, kept).await?;
            if self.limits.context.is_some_and(|most| long > most) {
                self.compact(counts).await?;
            }
        }
    }

    /// Answers calls that were running when an earlier run ended: whether they took effect is not known.
    async fn settle_interrupted(&mut self) -> Result<(), Leave> {
        match unanswered(&self.messages) {
            results if results.is_empty() => Ok(()),
            content => self.take_incoming(Results { content, heard: Vec::new() }).await,
        }
    }

    /// Keeps what a run that leaves said, and answers the calls of its last answer: whoever reads the conversation finds
    /// it whole, and what came meanwhile is for the next run (AB-11, RS-12).
    async fn close(&mut self, counts: &mut Counts) -> Result<(), Leave> {
        if !counts.partial.is_empty() {
            let said = Message::assistant(vec![Block::Text { text: counts.partial.clone() }]);
            self.transcript.answer(&said, Usage::default()).await?;
            self.messages.push(said);
        }
        let last = self.messages.last().filter(|last| last.calls().next().is_some()).cloned();
        let Some(last) = last else { return Ok(()) };
        let Results { content, heard } = match counts.results.take() {
            Some(results) => results,
            None => self.results(&last, counts).await,
        };
        self.say(Message { role: Role::User, content }, heard.clone()).await?;
        if !heard.is_empty() {
            self.host.acknowledge(heard).await;
        }
        Ok(())
    }

    /// Puts results of calls, and what came meanwhile, into the conversation: a boundary.
    async fn take_incoming(&mut self, results: Results) -> Result<(), Leave> {
        let Results { mut content, heard: mut all } = results;
        let came = self.host.incoming().await;
        all.extend(came.iter().map(|incoming| incoming.id.clone()));
        let new = came.into_iter().filter(|incoming| !self.seen.contains(&incoming.id));
        let (ids, texts): (Vec<String>, Vec<String>) = new.map(|Incoming { id, text }| (id, text)).unzip();
        content.extend(texts.into_iter().map(|text| Block::Text { text }));
        if !content.is_empty() || !self.has_said_its_last() {
            content.extend(self.asides.drain(..).map(|text| Block::Text { text }));
        }
        let message = Message { role: Role::User, content };
        if !message.content.is_empty() && all.is_empty() {
            self.messages.push(message.clone());
            self.transcript.results(&message).await?;
        } else if !message.content.is_empty() {
            self.say(message, ids).await?;
        }
        if !all.is_empty() {
            self.host.acknowledge(all).await;
        }
        Ok(())
    }

    /// Says something to the model, with the ids of what came in it. It counts as said from the beginning: where the run is
    /// ended at once, what is being written is written all the same, and must not be said twice.
    async fn say(&mut self, message: Message, ids: Vec<String>) -> Result<(), Leave> {
        self.messages.push(message.clone());
        self.transcript.message(&message, ids.clone()).await?;
        self.seen.extend(ids);
        Ok(())
    }

    /// Whether an earlier run ended with its answer, and nothing was said to it since.
    fn has_said_its_last(&self) -> bool {
        self.messages.last().is_none_or(|last| last.role == Role::Assistant && last.calls().next().is_none())
    }

    fn check_budget(&self, counts: &Counts) -> Result<(), Leave> {
        let over = |kind, what: String| Err(Leave::Problem(Problem::new(kind, what)));
        match self.limits {
            Limits { turns: Some(most), .. } if counts.turns >= most => {
                over("maxTurns", format!("it was stopped after {most} turns"))
            }
            Limits { calls: Some(most), .. } if counts.calls >= most => {
                over("maxToolCalls", format!("it was stopped after {most} tool calls"))
            }
            Limits { tokens: Some(most), .. } if counts.tokens >= most => {
                over("maxTokens", format!("it used {} tokens of {most}", counts.tokens))
            }
            Limits { micro_usd: Some(most), .. } if counts.micro_usd >= most => {
                over("maxUsd", format!("it cost {} of {} millionths of a dollar", counts.micro_usd, most))
            }
            Limits { .. } => Ok(()),
        }
    }

    async fn ask(&self, partial: &mut String) -> Result<Answer, Leave> {
        let request = Request {
            model: &self.model,
            system: &self.system,
            tools: self.toolbox.specs(),
            messages: &self.messages,
            reminder: self.reminder.as_deref(),
            max_output: self.max_output,
            effort: self.effort.as_deref(),
        };
        let host = &*self.host;
        let mut shown = Shown::default();
        let mut sink = |delta: Delta<'_>| {
            match delta {
                Delta::Began => partial.clear(),
                Delta::Text(text) => partial.push_str(text),
                Delta::Sent | Delta::Thinking(_) | Delta::Call(_) => {}
            }
            shown.take(host, delta);
        };
        let asked = retry::answer(&*self.provider, request, &mut sink, self.patience, host);
        let answer = tokio::select! {
            biased;
            () = self.halt.graceful.cancelled() => Err(Leave::Halted),
            answer = asked => Ok(answer),
        };
        shown.end(host);
        answer?.map_err(|failure: Failure| match failure {
            Failure::TooLong(why) => Leave::TooLong(why),
            failure => Leave::Problem(Problem::new(failure.kind(), failure.to_string())),
        })
    }

    async fn keep(&mut self, answer: &Answer, counts: &mut Counts) -> Result<(), Leave> {
        let calls = u32::try_from(answer.message.calls().count()).unwrap_or(u32::MAX);
        counts.calls = counts.calls.saturating_add(calls);
        if !answer.message.content.is_empty() {
            if self.toolbox.only_looks(&answer.message) {
                self.transcript.look(&answer.message, answer.usage)?;
            } else {
                self.transcript.answer(&answer.message, answer.usage).await?;
            }
            self.messages.push(answer.message.clone());
        }
        self.host.progress(Progress::Answered { usage: answer.usage, calls }).await;
        Ok(())
    }

    /// Does what an answer asks for.
    async fn follow(&mut self, answer: Answer, counts: &mut Counts, kept: &mut Kept) -> Result<(), Leave> {
        if answer.stop != Stop::Pause {
            counts.pauses = 0;
        }
        if answer.message.calls().next().is_some() {
            kept.put(std::mem::take(&mut self.messages));
            let results = kept.during(&self.transcript, pin!(self.call_all(&answer.message, counts))).await;
            self.take_back(kept).await?;
            let results = results?;
            counts.results = Some(results.clone());
            self.take_incoming(results).await?;
            counts.results = None;
            return Ok(());
        }
        let empty = answer.message.text().is_none();
        match answer.stop {
            Stop::Refusal => {
                let said = answer.message.text().unwrap_or_default();
                Err(Leave::Problem(Problem::new("refusal", format!("the model refused: {said}"))))
            }
            Stop::MaxTokens if counts.continues < CONTINUES => {
                counts.continues += 1;
                self.say(Message::user("Your answer was cut off. Go on exactly where it ended."), Vec::new())
                    .await
            }
            Stop::MaxTokens => {
                Err(Leave::Problem(Problem::new("maxOutput", "its answer was cut off again and again")))
            }
            Stop::Pause if counts.pauses < PAUSES => {
                counts.pauses += 1;
                self.say(Message::user("Go on."), Vec::new()).await
            }
            Stop::Pause => Err(Leave::Problem(Problem::new(
                "pausedAgain",
                "the provider paused its answer again and again",
            ))),
            Stop::EndTurn | Stop::ToolUse if empty && counts.empty < EMPTY_TRIES => {
                counts.empty += 1;
                Ok(())
            }
            Stop::EndTurn | Stop::ToolUse if empty => Err(Leave::Problem(Problem::new(
                "emptyAnswer",
                "the model answered nothing, again and again",
            ))),
            Stop::EndTurn | Stop::ToolUse => Ok(()),
        }
    }

    /// The specs that leave with each request.
    pub fn specs(&self) -> &[Arc<Spec>] {
        self.toolbox.specs()
    }
}

/// Results for the calls at a conversation's end that nobody answered: an earlier run was cut off in them.
pub fn unanswered(messages: &[Message]) -> Vec<Block> {
    let last = messages.last().filter(|last| last.role == Role::Assistant);
    let result = |call: Call<'_>| {
        Block::ToolResult {
        tool_use_id: call.id.to_owned(),
        content: "The run was interrupted while this call was under way: it may have taken effect, or not. Look before \
                  you repeat it."
            .to_owned(),
        is_error: true,
    }
    };
    last.into_iter().flat_map(Message::calls).map(result).collect()
}

/// What of a stream is shown: its text as it comes, each answer ended by a newline.
#[derive(Debug, Default)]
struct Shown {
    open: bool,
}

impl Shown {
    fn take(&mut self, host: &dyn Host, delta: Delta<'_>) {
        match delta {
            Delta::Text(text) => {
                host.show(text);
                self.open = !text.ends_with('\n');
            }
            Delta::Sent | Delta::Began | Delta::Thinking(_) | Delta::Call(_) => {}
        }
    }

    fn end(&self, host: &dyn Host) {
        if self.open {
            host.show("\n");
        }
    }
}

#[cfg(test)]
mod tests;
