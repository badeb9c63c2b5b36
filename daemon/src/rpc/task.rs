//! Tasks at the edge: waiting for them, their output and rows, and their standard input.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ccagent_core::Caller;
use ccagent_proto::method::{TaskGet, TaskWait};
use ccagent_proto::task::{
    OutputItem, OutputSource, Task, TaskEventsParams, TaskEventsResult, TaskFollowParams, TaskGetParams,
    TaskOutputParams, TaskOutputResult, TaskResizeParams, TaskResizeResult, TaskStatus, TaskWaitParams,
    TaskWaitResult, TaskWriteParams, TaskWriteResult,
};
use ccagent_proto::{Error, Kind, TaskId};
use ccagent_shim::index::Stream;
use futures_util::stream::{BoxStream, StreamExt};
use serde_json::Value;

use super::connection::Origin;
use super::context::Context;
use super::known::Known;
use super::output::{self, From, Piece, Wanted};
use super::rows;
use super::wait::{Look, Patience, Waited, until};
use crate::hub::{Key, Watch};

/// Bytes of one followed piece.
const FOLLOWED: u64 = 64 << 10;

/// Tasks that one wait names at most.
const WAITED_FOR: usize = 1000;

/// Waits for tasks.
pub(crate) async fn wait(
    context: Arc<Context>,
    origin: Origin,
    params: TaskWaitParams,
) -> Result<TaskWaitResult, Error> {
    let caller = origin.connection.caller();
    let patience = Patience::new(&origin, params.timeout_ms);
    let counted = if params.task_ids.len() > WAITED_FOR {
        let error = Error::new(Kind::InvalidParams, format!("taskIds names at most {WAITED_FOR} tasks"));
        Err(error.with("path", "taskIds").with("limit", WAITED_FOR))
    } else {
        Ok(())
    };
    let task_ids = params.task_ids.iter().take(WAITED_FOR).cloned().collect();
    let looked = TaskWaitParams { task_ids, ..params.clone() };
    let (stands, ()) = in_order(context.call::<TaskWait>(&caller, looked).await, counted)?;
    if !stands.timed_out {
        return Ok(stands);
    }
    let known = Known::new(stands.tasks, params.mode, params.r#for.unwrap_or_default());
    Ok(match known.until_there(&context, &caller, &patience).await? {
        Waited::There(tasks) => TaskWaitResult { tasks, timed_out: false },
        Waited::TimedOut(tasks) => TaskWaitResult { tasks, timed_out: true },
    })
}

/// Reads a task's output, and waits for more where asked.
pub(crate) async fn output(
    context: Arc<Context>,
    origin: Origin,
    params: TaskOutputParams,
) -> Result<TaskOutputResult, Error> {
    let caller = origin.connection.caller();
    let patience = Patience::new(&origin, params.timeout_ms);
    let first = get(&context, &caller, &params.task_id).await;
    let (first, from) = in_order(first, from_of(&params))?;
    let from = std::sync::Mutex::new(from);
    let id = first.id.to_string();
    let tail = params.tail_lines.is_some();
    let max = params.max_bytes.unwrap_or(if tail { output::MAX_BYTES } else { output::DEFAULT_BYTES });
    let look = async || {
        origin.turn().await?;
        let task = get(&context, &caller, &id).await?;
        let wanted = Wanted {
            from: *from.lock().unwrap_or_else(PoisonError::into_inner),
            stream: params.stream,
            max,
            // Who bounds the bytes wants the end of the lines, and not their beginning.
            back: params.max_bytes.unwrap_or(output::LOOK_BACK),
            end: context.runner.written(&task),
            grows: !task.status.is_done(),
        };
        let path = task.output_file.clone();
        let piece = Context::blocking(move || output::read(Path::new(&path), wanted)).await?;
        let there = !piece.bytes.is_empty() || piece.more || task.status.is_done();
        // The next look goes on behind what was passed over.
        *from.lock().unwrap_or_else(PoisonError::into_inner) = From::Offset(piece.next);
        if there {
            return Ok(Look::There((task, piece)));
        }
        origin.pass();
        Ok(Look::NotYet((task, piece)))
    };
    let (task, piece) = if params.block == Some(true) {
        let keys = [Key::Task(first.id), Key::Output(first.id)];
        until(&context.hub, keys, &patience, look).await?.into_inner()
    } else {
        match look().await? {
            Look::There(read) | Look::NotYet(read) => read,
        }
    };
    let next_offset = piece.next;
    let (text, base64) = piece.into_words();
    Ok(TaskOutputResult { text, base64, next_offset, status: task.status, truncated: task.output_truncated })
}

fn from_of(params: &TaskOutputParams) -> Result<From, Error> {
    if params.max_bytes == Some(0) {
        // A reader that goes on at the next offset would never come any further.
        return Err(Error::new(Kind::InvalidParams, "maxBytes is at least 1").with("path", "maxBytes"));
    }
    match (params.offset, params.tail_lines, params.since_at) {
        (None, None, None) => Ok(From::Offset(0)),
        (Some(offset), None, None) => Ok(From::Offset(offset)),
        (None, Some(lines), None) => Ok(From::LastLines(lines)),
        (None, None, Some(at)) => Ok(From::Since(at)),
        _ => {
            let error = Error::new(Kind::InvalidParams, "offset, tailLines and sinceAt exclude each other");
            Err(error.with("path", "offset"))
        }
    }
}

/// Follows a task's output.
pub(crate) async fn follow(
    context: Arc<Context>,
    origin: Origin,
    params: TaskFollowParams,
) -> Result<BoxStream<'static, OutputItem>, Error> {
    let from = match (params.offset, params.tail_lines) {
        (Some(_), Some(_)) => {
            let error = Error::new(Kind::InvalidParams, "offset and tailLines exclude each other");
            Err(error.with("path", "offset"))
        }
        (Some(offset), None) => Ok(From::Offset(offset)),
        (None, lines) => Ok(From::LastLines(lines.unwrap_or(0))),
    };
    let caller = origin.connection.caller();
    let (task, from) = in_order(get(&context, &caller, &params.task_id).await, from)?;
    let watch = context.hub.watch([Key::Task(task.id), Key::Output(task.id)]);
    let mut follower =
        Follower { context, caller, id: task.id.to_string(), from, watch, ready: Vec::new(), over: false };
    // The first look is taken now: "the end" is where the output ends at this call, not at the first item.
    follower.read().await?;
    let items = futures_util::stream::unfold(follower, |mut follower| async move {
        let item = follower.next().await?;
        Some((item, follower))
    });
    Ok(items.boxed())
}

/// A place in a task's output.
struct Follower {
    context: Arc<Context>,
    caller: Caller,
    id: String,
    from: From,
    watch: Watch,
    /// Items that were read and not given yet, the next one last.
    ready: Vec<OutputItem>,
    over: bool,
}

impl Follower {
    async fn next(&mut self) -> Option<OutputItem> {
        loop {
            if let Some(item) = self.ready.pop() {
                return Some(item);
            }
            if self.over {
                return None;
            }
            match self.read().await {
                Ok(true) => {}
                Ok(false) => self.watch.changed().await,
                Err(error) => {
                    // It was removed, or its file was replaced: the subscription ends without `done`.
                    tracing::debug!(%error, task = self.id, "output can't be followed any further");
                    return None;
                }
            }
        }
    }

    /// Reads the next piece; says whether there was one, or the end.
    async fn read(&mut self) -> Result<bool, Error> {
        let task = get(&self.context, &self.caller, &self.id).await?;
        let (status, done) = (task.status, task.status.is_done());
        let max = if matches!(self.from, From::LastLines(_)) { output::DEFAULT_BYTES } else { FOLLOWED };
        let back = output::LOOK_BACK;
        let end = self.context.runner.written(&task);
        let wanted = Wanted { from: self.from, stream: None, max, back, end, grows: !done };
        let path = task.output_file;
        let (items, next) = Context::blocking(move || items(Path::new(&path), wanted, status)).await?;
        self.from = From::Offset(next);
        self.ready = items;
        if self.ready.is_empty() && done {
            self.over = true;
            self.ready = vec![item(Piece { next, ..Piece::default() }, None, status)];
        }
        Ok(!self.ready.is_empty())
    }
}

/// One item a stretch of one stream, the first one last.
fn items(path: &Path, wanted: Wanted, status: TaskStatus) -> Result<(Vec<OutputItem>, u64), Error> {
    let mut piece = output::read(path, wanted)?;
    let spans = output::spans(path, &mut piece).map_err(|error| output::failed(path, &error))?;
    let next = piece.next;
    let mut rest = piece.bytes;
    let mut items = Vec::with_capacity(spans.len());
    for span in spans {
        let later = rest.split_off(usize::try_from(span.len).unwrap_or(usize::MAX).min(rest.len()));
        let bytes = std::mem::replace(&mut rest, later);
        let piece = Piece { bytes, next: span.offset + span.len, more: false };
        items.push(item(piece, Some(span.stream), status));
    }
    items.reverse();
    Ok((items, next))
}

fn item(piece: Piece, stream: Option<Stream>, status: TaskStatus) -> OutputItem {
    let next_offset = piece.next;
    let done = piece.bytes.is_empty().then_some(true);
    let (text, base64) = piece.into_words();
    let stream = stream.map(|stream| match stream {
        Stream::Out => OutputSource::Out,
        Stream::Err => OutputSource::Err,
        Stream::Pty => OutputSource::Pty,
    });
    OutputItem { text: text.filter(|text| !text.is_empty()), base64, stream, next_offset, status, done }
}

/// Reads a task's events file.
pub(crate) async fn events(
    context: Arc<Context>,
    origin: Origin,
    params: TaskEventsParams,
) -> Result<TaskEventsResult, Error> {
    let task = get(&context, &origin.connection.caller(), &params.task_id).await?;
    let path = rows::beside(&task, "events.jsonl");
    let page = Context::blocking(move || rows::read(&path, params.cursor.as_deref(), params.limit)).await?;
    Ok(TaskEventsResult { events: page.rows, next_cursor: page.next })
}

/// Writes to a task's standard input, and waits until the program has all of it, or as long as the caller says.
pub(crate) async fn write(
    context: Arc<Context>,
    origin: Origin,
    params: TaskWriteParams,
) -> Result<TaskWriteResult, Error> {
    let patience = Patience::new(&origin, params.timeout_ms);
    let task = steered(&context, &origin, &params.task_id).await;
    let (task, bytes) = in_order(task, bytes_of(params.text, params.base64))?;
    let written = Arc::new(AtomicU64::new(0));
    let write = context.runner.write(task, (bytes, params.eof == Some(true)), written.clone());
    match patience.wait(write).await? {
        Some(done) => done.map(|()| TaskWriteResult::default()),
        None => Ok(TaskWriteResult { timed_out: Some(true), written: Some(written.load(Ordering::Relaxed)) }),
    }
}

fn bytes_of(text: String, base64: Option<String>) -> Result<Vec<u8>, Error> {
    let mut bytes = text.into_bytes();
    if let Some(encoded) = base64 {
        let decoded = BASE64_STANDARD.decode(encoded).map_err(|why| {
            Error::new(Kind::InvalidParams, format!("base64: {why}")).with("path", "base64")
        })?;
        bytes.extend(decoded);
    }
    Ok(bytes)
}

/// Sets the size of a task's terminal, and waits until it has it, or as long as the caller says.
pub(crate) async fn resize(
    context: Arc<Context>,
    origin: Origin,
    params: TaskResizeParams,
) -> Result<TaskResizeResult, Error> {
    let patience = Patience::new(&origin, params.timeout_ms);
    let task = steered(&context, &origin, &params.task_id).await?;
    let resized = patience.wait(context.runner.resize(task, params.cols, params.rows)).await?;
    let timed_out = resized.is_none().then_some(true);
    resized.transpose()?;
    Ok(TaskResizeResult { timed_out })
}

/// What was found and what was asked, or the first error in the order of the contract: roles, params, state.
fn in_order<T, P>(found: Result<T, Error>, params: Result<P, Error>) -> Result<(T, P), Error> {
    match (found, params) {
        (Err(error), _) if error.kind == Kind::NotAuthorised => Err(error),
        (_, Err(error)) => Err(error),
        (found, Ok(params)) => Ok((found?, params)),
    }
}

/// A running task that the caller may write to.
async fn steered(context: &Context, origin: &Origin, text: &str) -> Result<TaskId, Error> {
    let caller = origin.connection.caller();
    let (asker, text) = (caller.clone(), text.to_owned());
    let found = context.handle.ask(move |core, _| {
        let row = core.steered(&asker, &text)?;
        if row.is_done() { Err(ended(&row.id.to_string())) } else { Ok(row.id) }
    });
    let error = match found.await? {
        Ok(id) => return Ok(id),
        Err(error) => error,
    };
    let Some(id) = error.data.get("archived").and_then(Value::as_str) else { return Err(error) };
    // It is still there, and ended: to whom may see it that is said as before.
    get(context, &caller, id).await?;
    Err(ended(id))
}

fn ended(id: &str) -> Error {
    Error::new(Kind::AlreadyTerminal, format!("task {id} has ended")).with("taskId", id)
}

pub(super) async fn get(context: &Context, caller: &Caller, task_id: &str) -> Result<Task, Error> {
    context.call::<TaskGet>(caller, TaskGetParams { task_id: task_id.to_owned() }).await
}
