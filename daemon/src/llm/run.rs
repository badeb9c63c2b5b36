//! One run: from what the store says of the agent to how it ended.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccagent_core::RunnerEvent;
use ccagent_core::effect::Start;
use ccagent_core::input::{Finished, Report};
use ccagent_core::session::lead::Setting;
use ccagent_core::task::{Agents, Brief, Launch, Prompt, Untold};
use ccagent_llm::agent::{Agent, Ended, Finish, Halt, Limits, unanswered};
use ccagent_llm::mcp::Connected;
use ccagent_llm::message::{Block, Message, Role};
use ccagent_llm::provider::mask::Mask;
use ccagent_llm::provider::retry::Patience;
use ccagent_llm::tool::{Beat, Context, Left};
use ccagent_llm::transcript::{self, Found, Header, PROMPT, Transcript};
use ccagent_proto::task::TaskError;
use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;

use super::company::Company;
use super::desk::{self, Desk};
use super::errands::Means;
use super::lead::Model;
use super::output::{Output, Writer, Written};
use super::setup::{Looked, Setup};
use super::{Inner, Known, failed, fork, overrides};
use crate::driver::{Clock, Handle};

/// The file of the conversation, in the task's directory.
pub(crate) const HISTORY: &str = "history.jsonl";
/// What stands before a prompt whose run somebody ended before it was said.
const CANCELLED: &str = "[Cancelled before you read it: do nothing for this one.]";
/// Bytes of a tool's result at most.
const RESULT_MOST: usize = 100_000;
/// Characters of a final text that the notice and the task carry; all of it is in the output (SP-35).
const TEXT_MOST: usize = 32_000;
/// Tokens of an answer at most, where nothing else is said.
pub(super) const OUTPUT_MOST: u32 = 16_384;
/// Tokens of a conversation from which on it is compacted: models that are asked over a network have 200 000 and more.
const CONTEXT: u64 = 160_000;
/// How long nothing may come of what an agent in the background does, in milliseconds.
const STALL: &str = "CLAUDE_ASYNC_AGENT_STALL_TIMEOUT_MS";
/// How often the same call may fail in a row (M148).
const REPEATS_MOST: u32 = 5;
/// Changed files that are named.
const CHANGED_MOST: usize = 200;

/// Runs an agent to its end.
pub(super) async fn run(inner: Arc<Inner>, handle: Handle, start: Start, run: u64, halt: Halt) -> Finished {
    let (output, writer) = match open(&start).await {
        Ok(opened) => opened,
        Err(why) => return failed("startFailed", why),
    };
    inner.has_output(start.task, run, &output);
    let (task, attempt) = (start.task, start.attempt);
    let told = {
        let handle = handle.clone();
        move |written: Written| {
            let what = Report::Output { bytes: written.bytes, truncated: written.truncated };
            let handle = handle.clone();
            async move { handle.report(RunnerEvent { task, attempt, what }).await }.boxed()
        }
    };
    let working = async {
        let worked = work(&inner, &handle, &start, run, halt, &output).await;
        output.end();
        worked
    };
    // Both are here: whatever drops this future leaves neither behind.
    let (worked, ()) = tokio::join!(working, writer.run(told));
    let mut finished = worked.unwrap_or_else(|why| failed("startFailed", why));
    let written = output.written();
    (finished.output_bytes, finished.output_truncated) = (written.bytes, written.truncated);
    finished
}

async fn open(start: &Start) -> Result<(Output, Writer), String> {
    let opened = Output::open(Path::new(&start.directory), start.budget.output).await;
    opened.map_err(|error| format!("its output file can't be used: {error}"))
}

async fn work(
    inner: &Arc<Inner>,
    handle: &Handle,
    start: &Start,
    run: u64,
    halt: Halt,
    output: &Output,
) -> Result<Finished, String> {
    let (agent, (servers, leads), brief) = prepare(inner, handle, start, run, halt.clone(), output).await?;
    let ended = agent.run().await;
    if leads && !halt.graceful.is_cancelled() {
        let (servers, detach) = (servers.rest(), inner.detach.clone());
        inner.tracker.spawn(async move { detach.run_until_cancelled(servers).await });
    } else {
        servers.end().await;
    }
    Ok(finished(&brief, ended))
}

/// Makes the agent, with its servers, and whether it leads its session. What was needed for that only is gone when it runs: most of its life it waits.
async fn prepare(
    inner: &Arc<Inner>,
    handle: &Handle,
    start: &Start,
    run: u64,
    halt: Halt,
    output: &Output,
) -> Result<(Agent, (Connected, bool), Arc<Brief>), String> {
    let Setup { launch, first, later, brief, setting, given, env, known, route, looked } =
        Setup::of(inner, handle, start).await?;
    let company = Company::of(&looked, (&brief, &launch.cwd), (start, setting.circle), &inner.settings.shim);
    let Looked { provider, judge, programs, temp, writable, .. } = looked;
    let mask = Mask::new(secrets(&known, &env, &start.token));
    let stall = stall(&known, &env, &setting);
    let desk = Arc::new(Desk {
        task: start.task,
        attempt: start.attempt,
        caller: desk::caller(start.task, run, start.session.clone(), &launch.cwd),
        handle: handle.clone(),
        hub: inner.hub.clone(),
        output: output.clone(),
        judge: Mutex::new(Arc::new(judge)),
        leads: setting.leads,
        model: Model {
            inner: inner.clone(),
            env: env.clone(),
            cwd: launch.cwd.clone(),
            now: Mutex::new(setting.model),
        },
        means: means(inner, start, &launch, (&brief, &known, given)),
        watch: company.watch.clone(),
        told: Mutex::default(),
        offers: tokio::sync::Mutex::default(),
        waits: AtomicU32::new(0),
        price: Mutex::new(route.price),
        clock: Clock::start(),
    });
    // Before it begins: a fork that began has what it goes on from, whatever becomes of its parent. Done again, it is the
    // same.
    let mut found = conversation(start, &brief).await?;
    begin(&desk, &mut found, &mask).await?;
    let files = inner.files_for(brief.fork.as_ref().filter(|_| fork::is_new(&found)));
    if !brief.given.files.is_empty() && is_new(&brief, &found) {
        overrides::note(&brief, &files).await;
    }
    inner.has_files(start.task, run, &files);
    let (servers, toolbox, mut asides) = company.join(&inner.servers, &desk, &halt).await;
    let work = prompts(&brief, first.filter(|_| is_new(&brief, &found)), later);
    let found = take_up(work, &brief, found, &mut asides).await?;
    desk.report(Report::Told).await;
    let context = Context {
        cwd: Mutex::new(launch.cwd.clone().into()),
        env: programs,
        temp,
        writable,
        memory: brief.memory.as_ref().map(PathBuf::from),
        stop: CancellationToken::new(),
        most: RESULT_MOST,
        mask: Arc::new(mask),
        files,
        shim: inner.settings.shim.clone(),
        left: Left::default(),
        beat: Beat::default(),
        host: desk.clone(),
    };
    let agent = Agent {
        host: desk,
        provider,
        model: route.model,
        system: brief.system.clone(),
        toolbox,
        context: Arc::new(context),
        transcript: found.transcript,
        messages: found.messages,
        begins: found.begins,
        asked: found.asked,
        asides,
        seen: found.seen,
        limits: limits(&brief),
        reminder: brief.reminder.clone(),
        max_output: OUTPUT_MOST,
        effort: brief.effort.clone(),
        price: route.price,
        patience: Patience { stall, ..Patience::default() },
        halt,
    };
    Ok((agent, (servers, setting.leads), brief))
}

/// What it has to spawn agents of its own with.
fn means(
    inner: &Inner,
    start: &Start,
    launch: &Launch,
    (brief, known, given): (&Arc<Brief>, &Arc<Known>, BTreeMap<String, String>),
) -> Means {
    Means {
        vault: inner.vault.clone(),
        base: Arc::new(launch.base.clone()),
        for_programs: known.table.without_keys(given.clone()),
        given,
        history: Path::new(&start.directory).join(HISTORY),
        brief: brief.clone(),
        known: known.clone(),
    }
}

/// What is masked in what its tools give.
fn secrets(known: &Known, env: &BTreeMap<String, String>, token: &str) -> Vec<String> {
    let search = known.search.as_ref().and_then(|search| search.key(env));
    let search = search.map(|key| key.reveal().to_owned());
    known.table.secrets(env).map(str::to_owned).chain([token.to_owned()]).chain(search).collect()
}

/// How long nothing may come of what it does: as the config says, and where it runs in the background, as the environment
/// of its spawner says; 0 is as long as it takes.
fn stall(known: &Known, env: &BTreeMap<String, String>, setting: &Setting) -> Option<Duration> {
    let said = env.get(STALL).filter(|_| setting.background).and_then(|text| {
        let read = text.trim().parse().map(Duration::from_millis);
        read.inspect_err(|error| tracing::warn!(%error, text, "{STALL} is no number of milliseconds")).ok()
    });
    Some(said.unwrap_or(known.stall)).filter(|stall| !stall.is_zero())
}

/// What bounds a run.
fn limits(brief: &Brief) -> Limits {
    Limits {
        turns: brief.max_turns,
        calls: brief.max_calls,
        tokens: brief.max_tokens,
        micro_usd: brief.max_micro_usd,
        context: (!brief.model.starts_with("offline")).then_some(CONTEXT),
        repeats: Some(REPEATS_MOST),
    }
}

/// Says that it begins, and waits until that is stored: from here on a crash interrupts it. What was answered to an earlier
/// run that could not be told any more is told now.
async fn begin(desk: &Desk, found: &mut Found, mask: &Mask) -> Result<(), String> {
    desk.report(Report::Began).await;
    desk.handle.ask(|_, _| ()).await.map_err(|error| error.to_string())?;
    desk.tell_late(found, mask).await
}

/// The conversation that an earlier run left, or a new one.
async fn conversation(start: &Start, brief: &Brief) -> Result<Found, String> {
    let path = Path::new(&start.directory).join(HISTORY);
    let what = header(brief);
    let mut found = Transcript::open_or_begin(&path, || what).await.map_err(said)?;
    if let Some(fork) = &brief.fork {
        fork::inherit(fork, Path::new(&start.directory), &mut found).await?;
    }
    overrides::begin(brief, &mut found).await?;
    Ok(found)
}

/// What an agent is.
fn header(brief: &Brief) -> Header {
    Header {
        version: transcript::VERSION,
        at: transcript::now_ms(),
        model: brief.model.clone(),
        system: brief.system.to_vec(),
        tools: brief.tools.clone(),
    }
}

/// Whether nothing stands in a conversation yet that is its agent's own.
fn is_new(brief: &Brief, found: &Found) -> bool {
    let not_its_own = brief.fork.is_some() || !brief.given.messages.is_empty();
    found.messages.is_empty() || not_its_own && fork::is_new(found)
}

/// Says to an agent what it is given to do, unless an earlier run said it, and with it what is said beside it. What that
/// run left unanswered goes before it, as a provider wants it.
async fn take_up(
    work: Vec<(String, String)>,
    brief: &Brief,
    mut found: Found,
    asides: &mut Vec<String>,
) -> Result<Found, String> {
    asides.extend(attached(brief, &found));
    for (id, text) in work {
        let fork = brief.fork.as_ref().filter(|_| fork::is_new(&found));
        if !found.seen.insert(id.clone()) {
            continue;
        }
        let mut message = if let Some(fork) = fork {
            fork::first(fork, &found.messages, &text)
        } else {
            let mut content = unanswered(&found.messages);
            content.push(Block::Text { text });
            Message { role: Role::User, content }
        };
        message.content.extend(asides.drain(..).map(|text| Block::Text { text }));
        found.transcript.message(&message, vec![id]).await.map_err(said)?;
        found.asked = found.messages.len();
        found.messages.push(message);
    }
    Ok(found)
}

/// The agents that it can spawn, where it is told of them in its first turn; a fork has its parent's.
fn attached(brief: &Brief, found: &Found) -> Option<String> {
    match &brief.agents {
        Some(Agents::Attached(list))
            if found.messages.is_empty() || brief.fork.is_none() && is_new(brief, found) =>
        {
            Some(format!("<system-reminder>\n{list}\n</system-reminder>"))
        }
        Some(Agents::Attached(_) | Agents::Tool(_)) | None => None,
    }
}

/// What a run is given to do, with the ids under which it stands in the conversation: the first work in a new one, and
/// what resumes and prompts brought since, also for runs that did not come to say it (I2, H108).
fn prompts(brief: &Brief, first: Option<String>, later: Vec<(Prompt, Untold)>) -> Vec<(String, String)> {
    let id = |attempt: u32| format!("{PROMPT}{attempt}");
    let whole = |text: String| match &brief.initial {
        Some(initial) => format!("{initial}\n\n{text}"),
        None => text,
    };
    let first = first.map(|text| (id(1), whole(text)));
    let later = later.into_iter().map(|(prompt, untold)| {
        let text = if untold.cancelled { format!("{CANCELLED}\n\n{}", prompt.text) } else { prompt.text };
        (id(untold.run), text)
    });
    first.into_iter().chain(later).collect()
}

fn finished(brief: &Brief, ended: Ended) -> Finished {
    let report = ended.text.as_deref().filter(|_| brief.fork.is_some() && ended.finish == Finish::Completed);
    let warnings = report.and_then(ccagent_llm::prompt::fork::warning).into_iter().collect();
    let messages = u32::try_from(ended.messages).unwrap_or(u32::MAX);
    let error = match ended.finish {
        Finish::Completed | Finish::Halted => None,
        Finish::Failed(problem) => {
            Some(TaskError { kind: problem.kind.to_owned(), cause: None, message: problem.message })
        }
    };
    let text = ended.text.map(|mut text| {
        if let Some((at, _)) = text.char_indices().nth(TEXT_MOST) {
            text.truncate(at);
            text.push_str("\n[cut here: the whole of it is in the output file]");
        }
        text.into()
    });
    let changed = ended.changed.iter().take(CHANGED_MOST).map(|path| path.display().to_string()).collect();
    Finished { error, text, changed, messages, warnings, ..Finished::default() }
}

/// An error with its causes, as a sentence.
pub(super) fn said(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
