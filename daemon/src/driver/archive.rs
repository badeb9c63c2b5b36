//! What answers need from the store: archived tasks, launch records, large texts, read mail.
//!
//! The core keeps none of it in memory, and no rule needs it.

mod mail;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccagent_core::idempotency::Answer;
use ccagent_core::record::Record;
use ccagent_core::session::lead::Texts;
use ccagent_core::table::Stored;
use ccagent_core::task::{Launch, Past, Prompt, Row};
use ccagent_core::{Caller, page};
use ccagent_proto::method::{Request, Response};
use ccagent_proto::task::{Task, TaskListParams, TaskListResult};
use ccagent_proto::{Error, Kind, SessionId, TaskId};

use super::Handle;
use crate::store::{Order, Store, StoreError};

/// Begins the cursor of a page of archived tasks; behind it stands the last task of the page before.
const PAST: &str = "past:";
/// Launch records that are remembered at most.
const LAUNCHES: usize = 256;
/// A longer prompt is not remembered, but read anew each time.
const LAUNCH_BYTES: usize = 4096;

/// What a task was started with, as callers see it: only a resume changes it, and an id is never given again.
#[derive(Debug)]
struct Work {
    command: Vec<String>,
    prompt: Option<String>,
}

/// Reads of the store, each on a thread that may block.
#[derive(Clone, Debug)]
pub(super) struct Archive {
    store: Arc<Store>,
    /// What was read of late: a client that looks at a task looks at it often.
    work: Arc<Mutex<HashMap<TaskId, Arc<Work>>>>,
}

impl Archive {
    pub(super) fn new(store: Arc<Store>) -> Self {
        Self { store, work: Arc::default() }
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Error> {
        let store = self.store.clone();
        let read = tokio::task::spawn_blocking(move || read(&store)).await;
        match read {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(Error::new(Kind::StoreFailed, error.to_string())),
            Err(error) => Err(Error::new(Kind::Internal, error.to_string())),
        }
    }

    async fn record(&self, kind: &'static str, id: String) -> Result<Option<Record>, Error> {
        let text = self.read(move |store| store.get(kind, &id)).await?;
        text.map(|text| decode(kind, &text)).transpose()
    }

    /// An archived task.
    pub(super) async fn past(&self, id: TaskId) -> Result<Past, Error> {
        match self.record(Past::KIND, id.to_string()).await? {
            Some(Record::Past(past)) => Ok(past),
            _ => Err(Error::new(Kind::TaskNotFound, format!("no task {id}")).with("taskId", id.to_string())),
        }
    }

    /// The views of archived tasks, by their ids.
    ///
    /// # Errors
    /// `notAuthorised` for one that the caller may not see; `taskNotFound` for one that is gone.
    pub(super) async fn views(
        &self,
        caller: &Caller,
        ids: BTreeSet<TaskId>,
        handle: &Handle,
    ) -> Result<HashMap<TaskId, Task>, Error> {
        let mut pasts = Vec::with_capacity(ids.len());
        for id in ids {
            pasts.push(self.past(id).await?.0);
        }
        let asker = caller.clone();
        let views = handle.ask(move |core, now| {
            let view = |row: &Row| core.needs_sight(&asker, row).map(|()| (row.id, core.view_row(row, now)));
            pasts.iter().map(view).collect()
        });
        views.await?
    }

    /// What a task was started with.
    pub(super) async fn launch(&self, id: TaskId) -> Result<Option<Launch>, Error> {
        Ok(match self.record(Launch::KIND, id.to_string()).await? {
            Some(Record::Launch(launch)) => Some(launch),
            _ => None,
        })
    }

    /// The prompts that a session was opened with.
    pub(super) async fn texts(&self, session: &SessionId) -> Result<Texts, Error> {
        Ok(match self.record(Texts::KIND, session.to_string()).await? {
            Some(Record::Texts(texts)) => texts,
            _ => Texts::default(),
        })
    }

    /// Answers a read about an archived task.
    pub(super) async fn answer(
        &self,
        caller: &Caller,
        request: &Request,
        past: Past,
        handle: &Handle,
    ) -> Result<Response, Error> {
        let asker = caller.clone();
        let row = past.0;
        let id = row.id;
        let view = handle
            .ask(move |core, now| core.needs_sight(&asker, &row).map(|()| core.view_row(&row, now)))
            .await??;
        match request {
            Request::TaskGet(_) => Ok(Response::TaskGet(view)),
            _ => Err(Error::new(Kind::AlreadyTerminal, format!("task {id} has ended and is archived"))
                .with("taskId", id.to_string())),
        }
    }

    /// How a call with this key was answered whose task left memory.
    pub(super) async fn answered(&self, key: &str, request: &Request) -> Result<Option<Response>, Error> {
        let Some(Record::Answer(answer)) = self.record(Answer::KIND, key.to_owned()).await? else {
            return Ok(None);
        };
        let result = serde_json::from_str(&answer.text)
            .map_err(|error| Error::new(Kind::StoreFailed, error.to_string()))?;
        Ok(match request {
            Request::AgentSpawn(_) => Some(Response::AgentSpawn(result)),
            Request::TaskResume(_) => Some(Response::TaskResume(result)),
            _ => None,
        })
    }

    /// A page of archived tasks, where that is what the call goes on with.
    pub(super) async fn page(
        &self,
        caller: &Caller,
        request: &Request,
        handle: &Handle,
    ) -> Result<Option<Response>, Error> {
        let Request::TaskList(params) = request else { return Ok(None) };
        let Some(after) = params.cursor.as_deref().and_then(|cursor| cursor.strip_prefix(PAST)) else {
            return Ok(None);
        };
        // The core is not called for it.
        let asker = caller.clone();
        handle.ask(move |core, _| core.holds(&asker)).await??;
        let after = Some(after.to_owned()).filter(|id| !id.is_empty());
        let room = page::limit(params.limit)?;
        self.list(caller, params, after, room, handle).await.map(|list| Some(Response::TaskList(list)))
    }

    /// Adds to an answer what stands in the store alone.
    pub(super) async fn complete(
        &self,
        caller: &Caller,
        request: &Request,
        response: &mut Response,
        handle: &Handle,
    ) -> Result<(), Error> {
        match (request, response) {
            (Request::TaskGet(_), Response::TaskGet(task)) => self.complete_task(task).await,
            (
                _,
                Response::AgentSpawn(result)
                | Response::TaskResume(result)
                | Response::TaskForeground(result),
            ) => {
                // A resume may have given it other work.
                self.remembered().remove(&result.task.id);
                self.complete_task(&mut result.task).await
            }
            (_, Response::SessionPrompt(result)) => {
                self.remembered().remove(&result.task_id);
                Ok(())
            }
            (Request::TaskList(params), Response::TaskList(list)) if params.all == Some(true) => {
                if list.next_cursor.is_none() {
                    let room = page::limit(params.limit)?.saturating_sub(list.tasks.len());
                    let past = self.list(caller, params, None, room, handle).await?;
                    list.tasks.extend(past.tasks);
                    list.next_cursor = past.next_cursor;
                }
                if list.tasks.is_empty() && params.cursor.is_none() {
                    let (params, caller) = (params.clone(), caller.clone());
                    handle.ask(move |core, _| core.empty_list(&caller, &params)).await??;
                }
                Ok(())
            }
            (Request::MailboxPoll(_), Response::MailboxPoll(result)) => {
                self.complete_texts(&mut result.messages).await
            }
            (Request::MailboxRead(params), Response::MailboxRead(result)) => {
                if params.unread != Some(true) {
                    self.add_read_mail(caller, params, result, handle).await?;
                }
                self.complete_texts(&mut result.messages).await
            }
            _ => Ok(()),
        }
    }

    async fn complete_task(&self, task: &mut Task) -> Result<(), Error> {
        let known = self.remembered().get(&task.id).cloned();
        let work = match known {
            Some(work) => work,
            None => match self.launch(task.id).await? {
                Some(launch) => self.remember(self.with_new_prompt(launch, task.attempt).await?),
                None => return Ok(()),
            },
        };
        task.command = Some(work.command.clone()).filter(|command| !command.is_empty());
        task.prompt.clone_from(&work.prompt);
        Ok(())
    }

    /// The launch record of a task, with the work that its last resume gave.
    async fn with_new_prompt(&self, launch: Launch, attempt: u32) -> Result<Launch, Error> {
        if attempt == 1 {
            return Ok(launch);
        }
        let keys = Prompt::keys(launch.id);
        let behind = format!("{keys}~");
        let newest =
            self.read(move |store| store.scan(Prompt::KIND, Some(&behind), 1, Order::Descending)).await?;
        let newest = newest.into_iter().next().filter(|row| row.id.starts_with(&keys));
        Ok(match newest.map(|row| decode(Prompt::KIND, &row.value)).transpose()? {
            Some(Record::Prompt(prompt)) => Launch { prompt: Some(prompt.text), ..launch },
            _ => launch,
        })
    }

    fn remember(&self, launch: Launch) -> Arc<Work> {
        let bytes = launch.argv.iter().map(String::len).sum::<usize>()
            + launch.prompt.as_ref().map_or(0, String::len);
        let work = Arc::new(Work { command: launch.argv, prompt: launch.prompt });
        if bytes <= LAUNCH_BYTES {
            let mut remembered = self.remembered();
            if remembered.len() >= LAUNCHES {
                remembered.clear();
            }
            remembered.insert(launch.id, work.clone());
        }
        work
    }

    fn remembered(&self) -> MutexGuard<'_, HashMap<TaskId, Arc<Work>>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Archived tasks that match, newest first; the cursor is `past:<id>`.
    async fn list(
        &self,
        caller: &Caller,
        params: &TaskListParams,
        mut after: Option<String>,
        room: usize,
        handle: &Handle,
    ) -> Result<TaskListResult, Error> {
        let mut tasks: Vec<Task> = Vec::new();
        loop {
            let from = after.clone();
            let rows = self
                .read(move |store| store.scan(Past::KIND, from.as_deref(), 256, Order::Descending))
                .await?;
            let Some(last) = rows.last() else { return Ok(TaskListResult { tasks, next_cursor: None }) };
            after = Some(last.id.to_string());
            let mut pasts = Vec::new();
            for row in &rows {
                if let Record::Past(past) = decode(Past::KIND, &row.value)? {
                    pasts.push(past.0);
                }
            }
            let (params, asker) = (params.clone(), caller.clone());
            let views = handle.ask(move |core, now| core.past_views(&asker, &params, &pasts, now)).await??;
            for view in views {
                if tasks.len() == room {
                    let last = tasks.last().map(|task| task.id.to_string()).unwrap_or_default();
                    return Ok(TaskListResult { tasks, next_cursor: Some(format!("{PAST}{last}")) });
                }
                tasks.push(view);
            }
        }
    }
}

fn decode(kind: &str, text: &[u8]) -> Result<Record, Error> {
    Record::decode(kind, text).map_err(|error| Error::new(Kind::StoreFailed, error.to_string()))
}
