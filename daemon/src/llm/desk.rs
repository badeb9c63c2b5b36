//! An agent's side of the daemon: its mail, the ends of agents that it spawned, its progress, its output.
//!
//! What it is handed is acknowledged once it stands in the transcript; what is not comes again.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ccagent_core::input::{Report, Run};
use ccagent_core::notification::Coming;
use ccagent_core::session::lead::Setting;
use ccagent_core::task::Step;
use ccagent_core::{Caller, RunnerEvent};
use ccagent_llm::agent::Toolbox;
use ccagent_llm::hook::{Said, Watch};
use ccagent_llm::host::{Background, Errand, Host, Incoming, Permission, Progress, Switched};
use ccagent_llm::mcp::Offers;
use ccagent_llm::provider::price::Price;
use ccagent_llm::search::{Found, Query, SearchError};
use ccagent_llm::tool::{Ask, Outcome};
use ccagent_proto::mailbox::{MailboxAckParams, MailboxPollParams};
use ccagent_proto::message::Message;
use ccagent_proto::method::{MailboxAck, MailboxPoll, TaskList};
use ccagent_proto::notification::Notification;
use ccagent_proto::task::{TaskListParams, WaitKind, WaitingOn};
use ccagent_proto::{Error, MessageId, Millis, NotificationId, TaskId, shown};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::errands::Means;
use super::judge::Judge;
use super::lead::Model;
use super::output::Output;
use super::{ending, fork, toolbox};
use crate::driver::{Clock, Handle};
use crate::hub::{Hub, Key};

/// How the id of a message begins, and that of a notice.
const MESSAGE: &str = "message:";
const NOTICE: &str = "notice:";
/// How the id of an end begins that the result of a call told of.
pub(super) const END: &str = "end:";

/// The rest of the daemon, as one run sees it.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) task: TaskId,
    pub(super) attempt: u32,
    pub(super) caller: Caller,
    pub(super) handle: Handle,
    pub(super) hub: Hub,
    pub(super) output: Output,
    pub(super) judge: Mutex<Arc<Judge>>,
    pub(super) means: Means,
    /// The hooks that are asked about what it does.
    pub(super) watch: Option<Watch>,
    /// The ends of which results tell that do not stand in its transcript yet.
    pub(super) told: Mutex<HashSet<Run>>,
    /// How many of its calls wait for tasks of its own.
    pub(super) waits: AtomicU32,
    /// What its model's tokens cost, if that is known.
    pub(super) price: Mutex<Option<Price>>,
    /// Whether it leads its session: then it does not wait for what it spawned, but is woken.
    pub(super) leads: bool,
    /// Its model, which may be another one at its next request.
    pub(super) model: Model,
    /// What its MCP servers offer, once they are connected.
    pub(super) offers: tokio::sync::Mutex<Offers>,
    pub(super) clock: Clock,
}

impl Desk {
    pub(super) async fn report(&self, what: Report) {
        self.handle.report(RunnerEvent { task: self.task, attempt: self.attempt, what }).await;
    }

    /// What holds of it at this moment.
    pub(super) async fn setting(&self) -> Option<Setting> {
        let task = self.task;
        let setting = self.handle.ask(move |core, _| core.setting(task)).await.ok().flatten()?;
        let mode = fork::mode(&self.means.brief, &setting.mode).to_owned();
        Some(Setting { mode, ..setting })
    }

    fn price(&self) -> Option<Price> {
        *self.price.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn mail(&self) -> Result<Vec<Message>, Error> {
        let polled = self.handle.call::<MailboxPoll>(self.caller.clone(), MailboxPollParams::default());
        Ok(polled.await?.messages)
    }

    /// The ends that it was not told of yet. Those that a result tells of are held for it until that stands in its
    /// transcript.
    async fn notices(&self) -> Result<Vec<Notification>, Error> {
        let mut notices = self.handle.notices_below(self.caller.conn, self.task).await?;
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        notices.retain(|notice| !told.contains(&(notice.task_id, notice.attempt)));
        drop(told);
        Ok(notices)
    }

    async fn came(&self) -> Result<Vec<Incoming>, Error> {
        let mut came: Vec<Incoming> = self.mail().await?.iter().map(of_message).collect();
        came.extend(self.notices().await?.iter().map(of_notice));
        Ok(came)
    }

    async fn wait(&self) -> Result<bool, Error> {
        let mailbox = self.handle.mailbox_address(&self.caller, None, None).await?;
        let session = self.caller.session.clone().unwrap_or_default();
        let mut watch = self.hub.watch([Key::Mailbox(mailbox), Key::Session(session)]);
        let mut said = false;
        let more = loop {
            let (caller, task) = (self.caller.clone(), self.task);
            match self.handle.ask(move |core, _| core.coming(&caller, task)).await? {
                Coming::Here => break true,
                Coming::Never => break false,
                Coming::Later if self.leads => break false,
                Coming::Later => {}
            }
            if !std::mem::replace(&mut said, true) {
                self.waits_below().await;
            }
            watch.changed().await;
        };
        if said {
            self.goes_on().await;
        }
        Ok(more)
    }

    /// Waits for what a task of its own comes to: others have its slot meanwhile. What runs beside it in the same answer
    /// only looks, and ends soon; so one such wait is enough.
    pub(super) async fn below<T>(&self, wait: impl Future<Output = T>) -> T {
        self.waits_below().await;
        let done = wait.await;
        self.goes_on().await;
        done
    }

    /// The agents and programs that it began and that go on, a line each.
    async fn children(&self) -> Result<Vec<String>, Error> {
        let params = TaskListParams { parent_id: Some(self.task.to_string()), ..TaskListParams::default() };
        let listed = self.handle.call::<TaskList>(self.caller.clone(), params).await?;
        Ok(listed.tasks.iter().filter(|task| !task.status.is_done()).map(ending::entry).collect())
    }

    async fn waits_below(&self) {
        if self.waits.fetch_add(1, Ordering::Relaxed) == 0 {
            self.report(Report::Waits(Some(on(WaitKind::Children)))).await;
        }
    }

    async fn goes_on(&self) {
        if self.waits.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.report(Report::Waits(None)).await;
        }
    }

    async fn take(&self, ids: Vec<String>) -> Result<(), Error> {
        let messages: Vec<MessageId> =
            ids.iter().filter_map(|id| number(id, MESSAGE)).map(MessageId).collect();
        let notices: Vec<NotificationId> =
            ids.iter().filter_map(|id| number(id, NOTICE)).map(NotificationId).collect();
        let ends: Vec<Run> = ids.iter().filter_map(|id| end(id)).collect();
        if !ends.is_empty() {
            self.told.lock().unwrap_or_else(PoisonError::into_inner).retain(|run| !ends.contains(run));
            self.handle.told(self.caller.conn, ends).await;
        }
        if !messages.is_empty() {
            let params = MailboxAckParams { ids: messages, ..MailboxAckParams::default() };
            self.handle.call::<MailboxAck>(self.caller.clone(), params).await?;
        }
        if !notices.is_empty() {
            self.handle.notices_taken(self.caller.conn, notices).await;
        }
        Ok(())
    }
}

impl Host for Desk {
    fn incoming(&self) -> BoxFuture<'_, Vec<Incoming>> {
        let log = |error: &Error| tracing::warn!(%error, "an agent's mail could not be read");
        async move { self.came().await.inspect_err(log).unwrap_or_default() }.boxed()
    }

    fn acknowledge(&self, ids: Vec<String>) -> BoxFuture<'_, ()> {
        async move {
            if let Err(error) = self.take(ids).await {
                // It comes again, and is found in the transcript then.
                tracing::warn!(%error, "an agent's mail could not be acknowledged");
            }
        }
        .boxed()
    }

    fn more(&self) -> BoxFuture<'_, bool> {
        async move { self.wait().await.unwrap_or(false) }.boxed()
    }

    fn progress(&self, progress: Progress) -> BoxFuture<'_, ()> {
        let report = match progress {
            Progress::Answered { usage, calls } => Report::Worked(Step::Answered {
                input: usage.all_input(),
                output: usage.output,
                micro_usd: self.price().map(|price| price.micro(usage)),
                calls,
            }),
            Progress::Aside(usage) => Report::Worked(Step::Aside {
                input: usage.all_input(),
                output: usage.output,
                micro_usd: self.price().map(|price| price.micro(usage)),
            }),
            Progress::Tool { name, summary } => {
                self.output.say(&format!("● {name}({})\n", shown::line(&summary)));
                Report::Worked(Step::Tool { name, summary })
            }
            Progress::ToolFailed => Report::Worked(Step::Failed),
            Progress::Backoff { pause, why } => {
                let why = shown::line(&why);
                self.output.say(&format!("… {why}: again in {} s\n", pause.as_secs_f32().ceil()));
                let pause = u64::try_from(pause.as_millis()).unwrap_or(Millis::MAX);
                let until_at = Some(self.clock.now().saturating_add(pause));
                Report::Waits(Some(WaitingOn { kind: WaitKind::Backoff, id: None, until_at }))
            }
            Progress::Resumed => Report::Waits(None),
        };
        self.report(report).boxed()
    }

    fn show(&self, text: &str) {
        self.output.say(text);
    }

    fn ask(&self, ask: Ask) -> BoxFuture<'_, Permission> {
        self.permit(ask).boxed()
    }

    fn before<'a>(&'a self, ask: &'a Ask, id: &'a str) -> BoxFuture<'a, Said> {
        self.hooks_before(ask, id).boxed()
    }

    fn after<'a>(&'a self, ask: &'a Ask, id: &'a str, outcome: &'a Outcome) -> BoxFuture<'a, Said> {
        self.hooks_after(ask, id, outcome).boxed()
    }

    fn ending<'a>(&'a self, text: Option<&'a str>, again: u32) -> BoxFuture<'a, Said> {
        self.hooks_ending(text, again).boxed()
    }

    fn roster(&self) -> BoxFuture<'_, Vec<String>> {
        let log = |error: &Error| tracing::warn!(%error, "an agent's children could not be listed");
        async move { self.children().await.inspect_err(log).unwrap_or_default() }.boxed()
    }

    fn switched(&self) -> BoxFuture<'_, Option<Switched>> {
        async move {
            let wanted = self.setting().await?.model;
            let switched = self.model.switched(&wanted).await?;
            *self.price.lock().unwrap_or_else(PoisonError::into_inner) = switched.price;
            Some(switched)
        }
        .boxed()
    }

    fn retooled(&self) -> BoxFuture<'_, Option<Toolbox>> {
        async move {
            let mut offers = self.offers.lock().await;
            let (differ, notes) = offers.renew().await;
            for note in notes {
                self.output.say(&format!("! {}\n", shown::line(&note)));
            }
            differ.then(|| toolbox::of(&self.means.brief, &self.means.known, &offers).0)
        }
        .boxed()
    }

    fn errand(&self, errand: Errand) -> BoxFuture<'_, Outcome> {
        self.run(errand).boxed()
    }

    fn search<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Found, SearchError>> {
        self.find(query).boxed()
    }

    fn background(&self, command: Background) -> BoxFuture<'_, Result<String, String>> {
        self.command(command).boxed()
    }
}

const fn on(kind: WaitKind) -> WaitingOn {
    WaitingOn { kind, id: None, until_at: None }
}

/// The run of whose end a result told.
fn end(id: &str) -> Option<Run> {
    let (task, attempt) = id.strip_prefix(END)?.rsplit_once(':')?;
    Some((task.parse().ok()?, attempt.parse().ok()?))
}

fn number(id: &str, kind: &str) -> Option<u64> {
    id.strip_prefix(kind)?.parse().ok()
}

/// A message as the model reads it: data from somebody who is named, and nothing that its text could forge.
fn of_message(message: &Message) -> Incoming {
    let text = format!("<message from=\"{}\">\n{}\n</message>", escape(&message.from), escape(&message.text));
    Incoming { id: format!("{MESSAGE}{}", message.id.0), text }
}

fn of_notice(notice: &Notification) -> Incoming {
    Incoming { id: format!("{NOTICE}{}", notice.id.0), text: notice.xml.clone() }
}

/// Text inside an element: it can neither close it nor open another.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// What an agent inside the daemon calls as: the number of its run stands for its connection.
pub(super) fn caller(task: TaskId, conn: u64, session: ccagent_proto::SessionId, cwd: &str) -> Caller {
    Caller {
        who: ccagent_core::Who::Agent(task),
        session: Some(session),
        cwd: Some(cwd.to_owned()),
        base: Arc::default(),
        ..Caller::operator(conn)
    }
}
