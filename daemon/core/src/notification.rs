//! Notifications: one a task's run, queued with the end itself, kept until the session acknowledges it.
//!
//! ```text
//! end ──▶ pending ── next ──▶ held by its reader ──── ack ────▶ gone
//!  │         ▲─── reader gone, answer lost ──┘                   ▲
//!  └─ somebody waits in the foreground ─▶ held by who waits ─ answer written
//! ```
//!
//! Nothing is said of a notice that who waits for the end holds from its beginning: nobody else could take it, and
//! mostly nobody has to. It is there for the case that the answer is lost, with its connection or with the daemon.

pub mod envelope;

use std::collections::BTreeSet;
use std::sync::Arc;

use ccagent_proto::event::Topic;
use ccagent_proto::notification as wire;
use ccagent_proto::runner::RunnerKind;
use ccagent_proto::task::{TaskStatus, Usage};
use ccagent_proto::{Acked, Error, Kind, Millis, NotificationId, SessionId, TaskId};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::caller::Caller;
use crate::core::Core;
use crate::cx::{About, Cx};
use crate::input::Run;
use crate::page;
use crate::record::Record;
use crate::session::mailbox;
use crate::table::Stored;
use crate::task::{Outcome, Row as Task, State, view};

/// A notification as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Its id, which is its place in the order of completion.
    pub id: NotificationId,
    /// The task.
    pub task: TaskId,
    /// The run.
    pub attempt: u32,
    /// The session that it is for.
    pub session: SessionId,
    /// How the run ended.
    pub status: TaskStatus,
    /// A sentence that names the agent and its end.
    pub summary: Arc<str>,
    /// Bytes of output.
    pub output_bytes: u64,
    /// The end of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Arc<str>>,
    /// Tokens that the run used.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tokens: u64,
    /// Its tool calls.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calls: u64,
    /// How long the run took.
    pub duration_ms: Millis,
    /// When it was queued.
    pub created_at: Millis,
}

/// Whether an agent has something to go on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coming {
    /// Something waits for it.
    Here,
    /// Agents that it spawned run, and will be told of.
    Later,
    /// Nothing, as far as is known.
    Never,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Stored for Row {
    const KIND: &'static str = "notification";
    type Id = NotificationId;

    fn id(&self) -> NotificationId {
        self.id
    }

    fn record(self) -> Record {
        Record::Notification(self)
    }
}

impl Core {
    /// Queues the notice of a run's end; a run is told of once (NT-01).
    pub(crate) fn notify(&mut self, cx: &mut Cx<'_>, id: TaskId) {
        let Some(task) = self.tasks.get(&id).filter(|task| !task.notified) else {
            return;
        };
        let State::Done { outcome, at } = task.state else {
            return;
        };
        if self.is_lead(task) {
            // Whom it would be told to is the lead itself.
            self.live.foreground.remove(&id);
            self.tasks.update(cx, id, |task| (task.notified, task.acked) = (true, true));
            return;
        }
        // A session that was closed meanwhile has no reader: `main` takes over.
        let session = self.sessions.get(&task.session).map_or_else(SessionId::main, |row| row.id.clone());
        let moved = session != task.session;
        let mut row = Row {
            id: NotificationId(0),
            task: id,
            attempt: task.attempt,
            session: session.clone(),
            status: outcome.status(),
            summary: summary(task, outcome).into(),
            output_bytes: task.output_bytes,
            result: task
                .tail
                .clone()
                .or_else(|| task.error.as_ref().map(|error| error.message.as_str().into())),
            tokens: task.work.as_ref().map_or(0, |work| work.latest_input + work.output),
            calls: task.work.as_ref().map_or(0, |work| work.calls),
            duration_ms: task.duration_ms(at),
            created_at: cx.now,
        };
        row.id = NotificationId(self.next(cx, "notification"));
        self.share_with_newest(&mut row);
        let data = json!({ "notificationId": row.id, "summary": row.summary });
        let notice = row.id;
        self.notifications.insert(cx, row);
        self.tasks.update(cx, id, |task| task.notified = true);
        // Whoever waits in the foreground has the end as an answer; nobody else has to be told (FB-06).
        if let Some(conn) = self.live.foreground.remove(&id) {
            self.live.noted.insert(notice, conn);
            return;
        }
        self.task_event(cx, id, Topic::Notification, "notification.queued", data.clone());
        if moved {
            notices_moved(cx, session);
        }
        self.task_event(cx, id, Topic::Sdk, "task_notification", data);
    }

    /// A session's notifications, in completion order.
    pub(crate) fn notifications_of(&self, session: &SessionId) -> impl Iterator<Item = &Row> {
        self.notifications.iter().filter(move |row| row.session == *session)
    }

    pub(crate) fn notification_list(
        &self,
        caller: &Caller,
        params: &wire::NotificationListParams,
    ) -> Result<wire::NotificationListResult, Error> {
        self.needs_operator(caller, "notifications")?;
        let rows = self
            .notifications
            .iter()
            .filter(|row| params.session_id.as_ref().is_none_or(|session| *session == row.session))
            .map(|row| self.notification_view(row));
        let (notifications, next_cursor) =
            page::cut(rows, params.limit, params.cursor.as_deref(), |row| row.id)?;
        Ok(wire::NotificationListResult { notifications, next_cursor })
    }

    /// Hands out what nobody else holds.
    pub(crate) fn notification_next(
        &mut self,
        caller: &Caller,
        params: &wire::NotificationNextParams,
    ) -> Result<wire::NotificationListResult, Error> {
        self.needs_operator(caller, "notifications")?;
        let session = self.session_of(caller, params.session_id.as_ref())?;
        let most = page::limit(params.max)?;
        let ids: Vec<NotificationId> = self
            .notifications_of(&session)
            .filter(|row| !self.has_reader_inside(row))
            .map(|row| row.id)
            .filter(|id| !self.live.noted.contains_key(id))
            .take(most)
            .collect();
        for id in &ids {
            self.live.noted.insert(*id, caller.conn);
        }
        let rows = ids.iter().filter_map(|id| self.notifications.get(id));
        let notifications = rows.map(|row| self.notification_view(row)).collect();
        Ok(wire::NotificationListResult { notifications, next_cursor: None })
    }

    /// Whether an agent inside the daemon that runs is told of an end, and not its session (NT-09).
    fn has_reader_inside(&self, row: &Row) -> bool {
        let parent = self.tasks.get(&row.task).and_then(|task| self.tasks.get(&task.parent?));
        parent.is_some_and(|parent| {
            parent.spec.runner == RunnerKind::Llm && parent.is_under_way() || self.hears(parent)
        })
    }

    /// Hands an agent inside the daemon the notices of those that it spawned, in completion order.
    pub(crate) fn take_notices_below(&mut self, conn: u64, task: TaskId) -> wire::NotificationListResult {
        let mut ids: Vec<NotificationId> =
            self.tasks.children(task).filter_map(|child| self.untold(task, child)).collect();
        ids.sort();
        for id in &ids {
            self.live.noted.insert(*id, conn);
        }
        let rows = ids.iter().filter_map(|id| self.notifications.get(id));
        let notifications = rows.map(|row| self.notification_view(row)).collect();
        wire::NotificationListResult { notifications, next_cursor: None }
    }

    /// The notice of a child that its parent was not told of, and nobody else is being told of.
    pub(crate) fn untold(&self, parent: TaskId, child: TaskId) -> Option<NotificationId> {
        let row = self.tasks.get(&child).filter(|row| row.parent == Some(parent))?;
        self.notice_of((row.id, row.attempt)).filter(|id| !self.live.noted.contains_key(id))
    }

    /// Whether something waits for an agent inside the daemon, or can still come.
    pub fn coming(&self, caller: &Caller, task: TaskId) -> Coming {
        let mail = self
            .own_address(caller)
            .is_ok_and(|own| self.mail.ids(&own.mailbox).any(|id| !self.live.handed.contains_key(&id)));
        let (mut untold, mut live) = (false, false);
        for child in self.tasks.children(task).filter_map(|child| self.tasks.get(&child)) {
            // What somebody else holds does not come as long as they do.
            untold |= self.untold(task, child.id).is_some();
            live |= !child.is_done();
        }
        match (mail || untold, live) {
            (true, _) => Coming::Here,
            (false, true) => Coming::Later,
            (false, false) => Coming::Never,
        }
    }

    /// Takes for good what an agent inside the daemon was handed.
    pub(crate) fn notices_taken(&mut self, cx: &mut Cx<'_>, conn: u64, ids: &[NotificationId]) {
        for id in ids {
            if self.live.noted.get(id) == Some(&conn)
                && let Some(row) = self.take_notice(cx, *id)
            {
                self.notice_acked(cx, &row);
            }
        }
    }

    /// What an agent that ended was not told of, its session is.
    pub(crate) fn notices_left(&self, cx: &mut Cx<'_>, task: TaskId) {
        let left = |child: TaskId| self.tasks.get(&child).is_some_and(|row| row.notified && !row.acked);
        if let Some(row) = self.tasks.get(&task)
            && self.tasks.children(task).any(left)
        {
            notices_moved(cx, row.session.clone());
        }
    }

    /// Takes notifications for good; acknowledging one again changes nothing.
    pub(crate) fn notification_ack(
        &mut self,
        cx: &mut Cx<'_>,
        caller: &Caller,
        params: &wire::NotificationAckParams,
    ) -> Result<Acked, Error> {
        self.needs_operator(caller, "notifications")?;
        let last = self.counters.get(&"notification".to_owned()).map_or(0, |row| row.last);
        if let Some(id) = params.ids.iter().find(|id| id.0 > last || id.0 == 0) {
            return Err(
                Error::new(Kind::NotFound, format!("no notification {id}")).with("id", id.to_string())
            );
        }
        let mut acked = 0;
        for id in &params.ids {
            if let Some(row) = self.take_notice(cx, *id) {
                acked += 1;
                self.notice_acked(cx, &row);
            }
        }
        Ok(Acked { acked })
    }

    /// Takes a notice for good.
    fn take_notice(&mut self, cx: &mut Cx<'_>, id: NotificationId) -> Option<Row> {
        let row = self.notifications.remove(cx, &id)?;
        self.live.noted.remove(&id);
        if self.tasks.get(&row.task).is_some_and(|task| task.attempt == row.attempt) {
            self.tasks.update(cx, row.task, |task| task.acked = true);
        }
        Some(row)
    }

    fn notice_acked(&self, cx: &mut Cx<'_>, row: &Row) {
        let task = self.tasks.get(&row.task);
        let above = task.into_iter().flat_map(|task| self.tasks.above(task)).collect();
        let session = Some(row.session.clone());
        let about = About { task: Some(row.task), above, session, ..About::default() };
        cx.event(Topic::Notification, "notification.acked", about, json!({ "notificationId": row.id }));
    }

    /// Takes the notices of ends that a connection's answers told it of, unless another one holds them: it tells there.
    pub(crate) fn heard(&mut self, cx: &mut Cx<'_>, conn: u64, runs: &[Run]) {
        for run in runs {
            let Some(id) = self.notice_of(*run) else { continue };
            let holder = self.live.noted.get(&id).copied();
            if holder.is_some_and(|holder| holder != conn) {
                continue;
            }
            if let Some(row) = self.take_notice(cx, id)
                && holder.is_none()
            {
                // Its readers were told that it is there.
                self.notice_acked(cx, &row);
            }
        }
    }

    /// A connection does not hear of these ends any more, whether they came already or not: its session does.
    pub(crate) fn unheard(&mut self, cx: &mut Cx<'_>, conn: u64, runs: &[Run]) {
        for (task, attempt) in runs {
            if self.tasks.get(task).is_some_and(|row| row.attempt == *attempt)
                && self.live.foreground.get(task) == Some(conn)
            {
                self.live.foreground.remove(task);
            }
        }
        let ids = runs.iter().filter_map(|run| self.notice_of(*run)).collect();
        self.return_notices(cx, conn, ids);
    }

    /// The notice of a run that nobody took yet; it is one of the newest.
    fn notice_of(&self, (id, attempt): Run) -> Option<NotificationId> {
        let task = self.tasks.get(&id).filter(|task| task.attempt == attempt);
        if task.is_some_and(|task| task.acked || !task.notified) {
            return None;
        }
        self.notifications.iter().rev().find(|row| (row.task, row.attempt) == (id, attempt)).map(|row| row.id)
    }

    /// Takes back what a connection was given and did not acknowledge: whoever waits gets it now.
    pub(crate) fn take_back_notices(&mut self, cx: &mut Cx<'_>, conn: u64) {
        let held = self.live.noted.iter().filter(|(_, holder)| **holder == conn);
        let ids = held.map(|(id, _)| *id).collect();
        self.return_notices(cx, conn, ids);
    }

    /// Puts notifications that a connection holds back to their places; its other ones stay as they are. A lead that is to
    /// be told of one hears of it as if the end had come just now.
    pub(crate) fn return_notices(&mut self, cx: &mut Cx<'_>, conn: u64, ids: Vec<NotificationId>) {
        let (mut sessions, mut parents) = (BTreeSet::new(), BTreeSet::new());
        for id in ids {
            if self.live.noted.get(&id) == Some(&conn) {
                self.live.noted.remove(&id);
                let row = self.notifications.get(&id);
                sessions.extend(row.map(|row| row.session.clone()));
                parents.extend(row.and_then(|row| self.tasks.get(&row.task)?.parent));
            }
        }
        for session in sessions {
            let about = About { session: Some(session), ..About::default() };
            cx.event(Topic::Notification, "notification.returned", about, json!({}));
        }
        self.wake_all(cx, parents);
    }

    /// Forgets the notices of a task that is removed.
    pub(crate) fn drop_notices(&mut self, cx: &mut Cx<'_>, task: TaskId) {
        let ids: Vec<NotificationId> =
            self.notifications.iter().filter(|row| row.task == task).map(|row| row.id).collect();
        for id in ids {
            self.notifications.remove(cx, &id);
            self.live.noted.remove(&id);
        }
    }

    /// Gives a closed session's notices and mail to `main`.
    pub(crate) fn rehome(&mut self, cx: &mut Cx<'_>, session: &SessionId) {
        let ids: Vec<NotificationId> = self.notifications_of(session).map(|row| row.id).collect();
        for id in ids {
            self.notifications.update(cx, &id, |row| row.session = SessionId::main());
        }
        notices_moved(cx, SessionId::main());
        self.forward(cx, &mailbox(session), &mailbox(&SessionId::main()));
    }

    fn notification_view(&self, row: &Row) -> wire::Notification {
        let state = match self.live.noted.get(&row.id) {
            Some(_) => wire::NotificationState::Delivered,
            None => wire::NotificationState::Pending,
        };
        // Whoever reads the notice: the output stays where the task's session has its files.
        let owner = self
            .tasks
            .get(&row.task)
            .map(|task| &task.session)
            .or_else(|| self.archive.get(&row.task).map(|task| &task.session))
            .unwrap_or(&row.session);
        let output_file = view::output_file(&self.limits.state_dir, owner, row.task);
        wire::Notification {
            id: row.id,
            task_id: row.task,
            attempt: row.attempt,
            session_id: row.session.clone(),
            status: row.status,
            summary: row.summary.to_string(),
            output_file: output_file.clone(),
            output_bytes: row.output_bytes,
            result: row.result.as_deref().map(str::to_owned),
            usage: Some(Usage {
                duration_ms: row.duration_ms,
                total_tokens: row.tokens,
                tool_uses: row.calls,
                ..Usage::default()
            }),
            worktree: None,
            xml: envelope::write(row, &output_file),
            created_at: row.created_at,
            state,
        }
    }
}

impl Core {
    /// Puts a stored notice back, at restore.
    pub(crate) fn load_notice(&mut self, mut row: Row) {
        self.share_with_newest(&mut row);
        self.notifications.load(row);
    }

    /// Holds what a notice has in common with the one before it once: the agents of a fleet end much alike.
    fn share_with_newest(&self, row: &mut Row) {
        let Some(newest) = self.notifications.iter().next_back() else { return };
        if row.session == newest.session {
            row.session = newest.session.clone();
        }
        if row.summary == newest.summary {
            row.summary = newest.summary.clone();
        }
    }
}

/// A sentence that names the agent and says how it ended (NT-07, C41).
fn summary(task: &Task, outcome: Outcome) -> String {
    let verb = outcome.verb();
    let name = match &task.name {
        Some(_) => task.label(),
        None => task.description.to_string(),
    };
    match &task.error {
        Some(error) => format!("Agent \"{name}\" {verb}: {}", error.message),
        None => format!("Agent \"{name}\" {verb}"),
    }
}

/// Tells a session's readers that it has notices of another one's tasks (B25).
fn notices_moved(cx: &mut Cx<'_>, session: SessionId) {
    let data = json!({ "sessionId": session });
    let about = About { session: Some(session), ..About::default() };
    cx.event(Topic::Notification, "notification.moved", about, data);
}
