//! The state, and the one function that changes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccagent_proto::method::{Request, Response};
use ccagent_proto::task::WaitingOn;
use ccagent_proto::{Empty, Error, Kind, MessageId, Millis, NotificationId, SessionId, TaskId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ask::{Asks, Grant};
use crate::caller::{Caller, Who};
use crate::cx::Cx;
use crate::effect::Effect;
use crate::idempotency::{Key, Keys, Seen, Use};
use crate::input::Input;
use crate::limits::Limits;
use crate::mailbox::Mail;
use crate::record::Counter;
use crate::session::Pause;
use crate::table::Table;
use crate::task::foreground::Foreground;
use crate::task::output::Printed;
use crate::task::{Archive, Past, Tasks, Work};
use crate::tasklist::{self, Items};
use crate::{bounds, mailbox, message, notification, session, team};

/// Most tasks, entries or keys that one tick takes up: all of its writes are one commit, during which nothing else is
/// answered and the store frees no memory.
pub(crate) const AT_ONCE: usize = 64;

/// All that the rules know.
#[derive(Clone, Debug, PartialEq)]
pub struct Core {
    /// Bounds and times.
    pub limits: Limits,
    pub(crate) counters: Table<Counter>,
    pub(crate) sessions: Table<session::Row>,
    /// Live and held tasks.
    pub(crate) tasks: Tasks,
    pub(crate) archive: Archive,
    pub(crate) notifications: Table<notification::Row>,
    pub(crate) messages: Table<message::Row>,
    pub(crate) mail: Mail,
    pub(crate) teams: Table<team::Row>,
    pub(crate) items: Items,
    pub(crate) asks: Asks,
    pub(crate) grants: Table<Grant>,
    pub(crate) keys: Keys,
    pub(crate) live: Live,
    /// Whether the daemon is stopping: nothing new starts.
    pub(crate) closing: bool,
}

/// What a restart forgets: it concerns connections and memory of this daemon's life.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live {
    /// Connections that wait for a task in the foreground: its end is theirs to hear of first.
    pub(crate) foreground: Foreground,
    /// Connections that hold a message.
    pub(crate) handed: BTreeMap<MessageId, u64>,
    /// Connections that hold a notification.
    pub(crate) noted: BTreeMap<NotificationId, u64>,
    /// A running task's output as last reported: stored at most once a second.
    pub(crate) output: BTreeMap<TaskId, Printed>,
    /// What a running agent inside the daemon did, as last reported: stored at most once a second.
    pub(crate) work: BTreeMap<TaskId, Work>,
    /// What a running agent inside the daemon waits for.
    pub(crate) waits: BTreeMap<TaskId, WaitingOn>,
    /// Agents inside the daemon that a restart cut off, until the queue goes on.
    pub(crate) cut_off: Vec<TaskId>,
    /// Where the edge keeps a task's environment values.
    pub(crate) task_vaults: BTreeMap<TaskId, u64>,
    /// Where the edge keeps a session's environment values.
    pub(crate) session_vaults: BTreeMap<SessionId, u64>,
    /// Members that are or were there, by team and name.
    pub(crate) present: BTreeMap<(Arc<str>, Arc<str>), team::Seen>,
}

impl Core {
    /// A core that knows nothing.
    pub fn new(limits: Limits) -> Self {
        Self {
            tasks: Tasks::new(&limits),
            limits,
            counters: Table::default(),
            sessions: Table::default(),
            archive: Archive::default(),
            notifications: Table::default(),
            messages: Table::default(),
            mail: Mail::default(),
            teams: Table::default(),
            items: Items::default(),
            asks: Asks::default(),
            grants: Table::default(),
            keys: Keys::default(),
            live: Live::default(),
            closing: false,
        }
    }

    /// Takes one input. On `Err` nothing changed and nothing is to be stored or done (L1).
    ///
    /// # Errors
    /// What the contract lists for the call.
    pub fn apply(&mut self, cx: &mut Cx<'_>, input: Input) -> Result<Option<Response>, Error> {
        match input {
            Input::Call(caller, request) => self.call(cx, &caller, request).map(Some),
            Input::Disconnected(conn) => {
                self.disconnected(cx, conn);
                Ok(None)
            }
            Input::ReturnMail(conn, ids) => {
                self.mailbox_return(cx, conn, ids);
                Ok(None)
            }
            Input::ReturnNotices(conn, ids) => {
                self.return_notices(cx, conn, ids);
                Ok(None)
            }
            Input::TakeNotices(conn, task) => {
                Ok(Some(Response::NotificationNext(self.take_notices_below(conn, task))))
            }
            Input::NoticesTaken(conn, ids) => {
                self.notices_taken(cx, conn, &ids);
                Ok(None)
            }
            Input::Heard(conn, runs) => {
                self.heard(cx, conn, &runs);
                Ok(None)
            }
            Input::Unheard(conn, runs) => {
                self.unheard(cx, conn, &runs);
                Ok(None)
            }
            Input::Ask(run, asked) => self.ask(cx, run, *asked).map(Some),
            Input::Plans(run) => self.begin_plan(cx, run).map(|()| None),
            Input::Runner(event) => {
                self.runner_event(cx, event);
                Ok(None)
            }
            Input::Thaw(past) => {
                self.thaw(cx, *past);
                Ok(None)
            }
            Input::Reconfigure(limits) => {
                self.tasks.reconfigure(&limits);
                self.limits = *limits;
                self.start_queued(cx);
                Ok(None)
            }
            Input::Forget(vault) => {
                cx.effects.push(Effect::Forget { vault });
                Ok(None)
            }
            Input::ForgetMail(read) => {
                mailbox::forget(cx, read);
                Ok(None)
            }
            Input::Closing => {
                self.closing = true;
                Ok(None)
            }
            Input::Tick => {
                self.tick(cx);
                Ok(None)
            }
        }
    }

    /// When a `Tick` is due.
    pub fn next_deadline(&self) -> Option<Millis> {
        let keys = self.keys.oldest().map(|key| key.at.saturating_add(self.limits.key_ms));
        let tasks = [self.tasks.next_deadline(), self.foreground_deadline(), self.archive_deadline()];
        tasks.into_iter().chain([self.asks.next_deadline(), keys]).flatten().min()
    }

    /// Does a share of what is due; what is left is due at once.
    fn tick(&mut self, cx: &mut Cx<'_>) {
        for id in self.tasks.due(cx.now, AT_ONCE) {
            self.due(cx, id);
        }
        self.leave_foreground(cx);
        self.prune_archive(cx);
        self.expire_asks(cx);
        self.expire_keys(cx);
    }

    fn disconnected(&mut self, cx: &mut Cx<'_>, conn: u64) {
        self.take_back(cx, conn);
        self.absent(cx, conn);
        self.take_back_notices(cx, conn);
        for id in self.live.foreground.of(conn) {
            self.move_to_background(cx, id);
        }
    }

    fn call(&mut self, cx: &mut Cx<'_>, caller: &Caller, request: Request) -> Result<Response, Error> {
        self.admit(caller, &request)?;
        bounds::check(&request)?;
        let used = match self.seen_key(cx, caller, &request)? {
            Repeat::Answer(response) => {
                // The first call's values are kept; this one's are not needed.
                if let Some(vault) = caller.vault {
                    cx.effects.push(Effect::Forget { vault });
                }
                return Ok(response);
            }
            Repeat::First(used) => used,
        };
        let response = self.dispatch(cx, caller, request)?;
        if let Who::Member { team, name } = &caller.who {
            self.seen(team, name, cx.now);
        }
        if let Some(used) = used {
            let answer = answer_of(&response)?;
            self.remember(cx, used, answer);
        }
        Ok(response)
    }

    fn dispatch(&mut self, cx: &mut Cx<'_>, caller: &Caller, request: Request) -> Result<Response, Error> {
        let now = cx.now;
        Ok(match request {
            Request::SessionOpen(p) => Response::SessionOpen(self.session_open(cx, caller, p)?),
            Request::SessionList(p) => Response::SessionList(self.session_list(&p)?),
            Request::SessionGet(p) => Response::SessionGet(self.session_get(&p)?),
            Request::SessionClose(p) => Response::SessionClose(self.session_close(cx, caller, &p)?),
            Request::SessionPause(p) => Response::SessionPause(self.session_pause(cx, &p, Pause::On)?),
            Request::SessionUnpause(p) => Response::SessionUnpause(self.session_pause(cx, &p, Pause::Off)?),
            Request::SessionPrompt(p) => Response::SessionPrompt(self.session_prompt(cx, caller, p)?),
            Request::SessionInterrupt(p) => {
                Response::SessionInterrupt(self.session_interrupt(cx, caller, &p)?)
            }
            Request::SessionSetMode(p) => Response::SessionSetMode(self.session_set_mode(cx, caller, p)?),
            Request::SessionSetModel(p) => Response::SessionSetModel(self.session_set_model(cx, caller, p)?),
            Request::AgentSpawn(p) => Response::AgentSpawn(self.agent_spawn(cx, caller, p)?),
            Request::AgentExplain(p) => Response::AgentExplain(self.agent_explain(caller, &p)?),
            Request::TaskList(p) => Response::TaskList(self.task_list(now, caller, &p)?),
            Request::TaskGet(p) => Response::TaskGet(self.task_get(now, caller, &p.task_id)?),
            Request::TaskWait(p) => Response::TaskWait(self.task_wait(now, caller, &p)?),
            Request::TaskStop(p) => Response::TaskStop(self.task_stop(cx, caller, &p)?),
            Request::TaskStopAll(p) => Response::TaskStopAll(self.task_stop_all(cx, caller, &p)?),
            Request::TaskResume(p) => Response::TaskResume(self.task_resume(cx, caller, p)?),
            Request::TaskBackground(p) => Response::TaskBackground(self.task_background(cx, caller, &p)?),
            Request::TaskForeground(p) => Response::TaskForeground(self.task_foreground(cx, caller, &p)?),
            Request::TaskRetain(p) => Response::TaskRetain(self.task_retain(cx, caller, &p)?),
            Request::TaskRemove(p) => Response::TaskRemove(self.task_remove(cx, caller, &p)?),
            Request::TaskPrune(p) => Response::TaskPrune(self.task_prune(cx, &p)),
            Request::NotificationList(p) => Response::NotificationList(self.notification_list(caller, &p)?),
            Request::NotificationNext(p) => Response::NotificationNext(self.notification_next(caller, &p)?),
            Request::NotificationAck(p) => Response::NotificationAck(self.notification_ack(cx, caller, &p)?),
            Request::MessageSend(p) => Response::MessageSend(self.message_send(cx, caller, p)?),
            Request::MessageRoute(p) => Response::MessageRoute(self.message_route(caller, &p)?),
            Request::MessageDeliver(p) => Response::MessageDeliver(self.message_deliver(cx, caller, p)?),
            Request::MailboxRead(p) => Response::MailboxRead(self.mailbox_read(caller, &p)?),
            Request::MailboxPoll(p) => Response::MailboxPoll(self.mailbox_poll(cx, caller, &p)?),
            Request::MailboxAck(p) => Response::MailboxAck(self.mailbox_ack(cx, caller, &p)?),
            Request::AskList(p) => Response::AskList(self.ask_list(caller, &p)?),
            Request::AskGet(p) => Response::AskGet(self.ask_get(caller, p.ask_id)?),
            Request::AskRespond(p) => Response::AskRespond(self.ask_respond(cx, caller, p)?),
            Request::PermissionAddRule(p) => {
                Response::PermissionAddRule(self.permission_add_rule(cx, caller, p)?)
            }
            Request::PermissionRemoveRule(p) => {
                Response::PermissionRemoveRule(self.permission_remove_rule(cx, caller, &p)?)
            }
            Request::TeamCreate(p) => Response::TeamCreate(self.team_create(cx, caller, p)?),
            Request::TeamGet(p) => Response::TeamGet(self.team_get(now, caller, &p.name)?),
            Request::TeamList(p) => Response::TeamList(self.team_list(now, caller, &p)?),
            Request::TeamDelete(p) => Response::TeamDelete(self.team_delete(cx, caller, &p)?),
            Request::TeamJoin(p) => Response::TeamJoin(self.team_join(cx, caller, p)?),
            Request::TeamLeave(Empty {}) => Response::TeamLeave(self.team_leave(cx, caller)?),
            Request::TeamHeartbeat(Empty {}) => Response::TeamHeartbeat(self.team_heartbeat(now, caller)?),
            Request::TasklistCreate(p) => Response::TasklistCreate(self.tasklist_create(cx, caller, p)?),
            Request::TasklistGet(p) => Response::TasklistGet(self.tasklist_get(caller, &p)?),
            Request::TasklistList(p) => Response::TasklistList(self.tasklist_list(caller, &p)?),
            Request::TasklistUpdate(p) => Response::TasklistUpdate(self.tasklist_update(cx, caller, p)?),
            Request::TasklistDelete(p) => Response::TasklistDelete(self.tasklist_delete(cx, caller, &p)?),
            Request::TasklistClaim(p) => Response::TasklistClaim(self.tasklist_claim(cx, caller, &p)?),
            Request::TasklistNext(p) => Response::TasklistNext(self.tasklist_next(cx, caller, &p)?),
        })
    }

    /// The next number of a counter that goes on over restarts (L4).
    pub(crate) fn next(&mut self, cx: &mut Cx<'_>, name: &str) -> u64 {
        let next = self.counters.get(&name.to_owned()).map_or(0, |row| row.last) + 1;
        self.set_counter(cx, name, next);
        next
    }

    pub(crate) fn set_counter(&mut self, cx: &mut Cx<'_>, name: &str, last: u64) {
        self.counters.insert(cx, Counter { name: name.to_owned(), last });
    }

    fn seen_key(&self, cx: &Cx<'_>, caller: &Caller, request: &Request) -> Result<Repeat, Error> {
        let answer = match self.used(caller, request)? {
            None => return Ok(Repeat::First(None)),
            Some(Seen::New(used)) => return Ok(Repeat::First(Some(used))),
            Some(Seen::Before(key)) => key,
        };
        let Key { id, answer, .. } = *answer;
        let spawned = |wrap: fn(ccagent_proto::agent::AgentSpawnResult) -> Response| {
            let task: TaskId = answer.parse().map_err(internal)?;
            // Where it left memory, the edge reads the answer.
            self.spawn_result(cx, task).map(wrap).map_err(|error| error.with("answered", id))
        };
        let response = match request {
            Request::AgentSpawn(_) => spawned(Response::AgentSpawn)?,
            Request::TaskResume(_) => spawned(Response::TaskResume)?,
            Request::SessionOpen(_) => Response::SessionOpen(read(&answer)?),
            Request::SessionPrompt(_) => Response::SessionPrompt(read(&answer)?),
            Request::MessageSend(_) => Response::MessageSend(read(&answer)?),
            Request::TeamCreate(_) => Response::TeamCreate(read(&answer)?),
            // As it stands by now, like a task.
            Request::TasklistCreate(_) => {
                // Older daemons did not remember when it was made.
                let (key, made) = answer.rsplit_once('@').unzip();
                let key = tasklist::Key::parse(key.unwrap_or(&answer)).ok_or_else(|| internal(&answer))?;
                let item = self.item_view(&key)?;
                if made.is_some_and(|made| made != item.created_at.to_string()) {
                    return Err(tasklist::not_there(&key));
                }
                Response::TasklistCreate(item)
            }
            other => return Err(internal(other.name())),
        };
        Ok(Repeat::Answer(response))
    }
}

impl Input {
    /// Brings an archived task back.
    pub fn thaw(past: Past) -> Self {
        Self::Thaw(Box::new(past))
    }
}

/// Whether a call was made before.
#[expect(clippy::large_enum_variant, reason = "it lives for one match")]
enum Repeat {
    First(Option<Use>),
    Answer(Response),
}

/// What is remembered of the answer to a call that creates.
fn answer_of(response: &Response) -> Result<String, Error> {
    match response {
        Response::AgentSpawn(result) | Response::TaskResume(result) => Ok(result.task_id.to_string()),
        Response::SessionOpen(result) => text(result),
        Response::SessionPrompt(result) => text(result),
        Response::MessageSend(result) => text(result),
        Response::TeamCreate(result) => text(result),
        Response::TasklistCreate(item) => Ok(format!("{}/{}@{}", item.list, item.id, item.created_at)),
        _ => Err(internal("no answer to remember")),
    }
}

fn text(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(internal)
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(internal)
}

fn internal(why: impl std::fmt::Display) -> Error {
    Error::new(Kind::Internal, format!("a remembered answer can't be read: {why}"))
}
