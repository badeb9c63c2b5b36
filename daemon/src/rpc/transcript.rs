//! What an agent with a model has said and was told, and what it works with.
//!
//! The transcript is its own file, read as it stands; of what it works with the launch record says the most.

use std::sync::Arc;

use ccagent_core::task::Brief;
use ccagent_proto::runner::RunnerKind;
use ccagent_proto::task::{
    ForkContext, TaskContextResult, TaskGetParams, TaskTranscriptParams, TaskTranscriptResult,
};
use ccagent_proto::{Error, Kind};
use serde_json::Value;

use super::connection::Origin;
use super::context::Context;
use super::{rows, task};

/// The file of a conversation, in the directory of its task.
pub(super) const FILE: &str = "history.jsonl";

/// Reads a page of a task's transcript.
pub(crate) async fn transcript(
    context: Arc<Context>,
    origin: Origin,
    params: TaskTranscriptParams,
) -> Result<TaskTranscriptResult, Error> {
    let task = task::get(&context, &origin.connection.caller(), &params.task_id).await?;
    if task.runner.kind != RunnerKind::Llm {
        let why =
            format!("task {} is a program and has no transcript: task.output has what it prints", task.id);
        return Err(Error::new(Kind::NoResumableRecord, why).with("taskId", task.id.to_string()));
    }
    let path = rows::beside(&task, FILE);
    let page = Context::blocking(move || rows::read(&path, params.cursor.as_deref(), params.limit)).await?;
    Ok(entries(page))
}

/// A page of a conversation's file, as it is answered.
pub(super) fn entries(page: rows::Page) -> TaskTranscriptResult {
    let messages = page.rows.into_iter().map(entry).collect();
    TaskTranscriptResult { messages, next_cursor: page.next }
}

/// An entry with a role, also where its file needs none.
fn entry(mut row: Value) -> Value {
    if row["type"] == "system" {
        row["role"] = "system".into();
    }
    row
}

fn fork(brief: &Brief) -> Option<ForkContext> {
    let fork = brief.fork.as_ref()?;
    Some(ForkContext {
        parent_agent_id: fork.parent,
        parent_messages: fork.messages,
        system_prompt: brief.system.to_vec(),
        user_context: brief.layers_of(&["instructions", "memory", "directory"]),
        system_context: brief.layers_of(&["environment", "gitStatus"]),
        parent_tools: fork.offered.clone(),
        depth: fork.depth,
        lineage_id: fork.lineage.clone(),
    })
}

/// Says what a task works with.
pub(crate) async fn context(
    context: Arc<Context>,
    origin: Origin,
    params: TaskGetParams,
) -> Result<TaskContextResult, Error> {
    let task = task::get(&context, &origin.connection.caller(), &params.task_id).await?;
    let launch = context.handle.launch(task.id).await?;
    let brief = launch.and_then(|launch| launch.brief);
    let brief = brief.as_deref();
    Ok(TaskContextResult {
        task_id: task.id,
        isolation: "none".to_owned(),
        shares: Vec::new(),
        tools: brief.map(|brief| brief.tools.clone()),
        abort: context.runner.told_to_end(&task),
        mode: task.permission_mode,
        cwd: task.cwd,
        agent_type: task.agent_type,
        model: task.model,
        critical_reminder: brief.and_then(|brief| brief.reminder.clone()),
        max_turns: brief.and_then(|brief| brief.max_turns),
        max_tool_calls: brief.and_then(|brief| brief.max_calls),
        max_tokens: brief.and_then(|brief| brief.max_tokens),
        memory: brief.and_then(|brief| brief.memory.clone()),
        may_ask: brief.map(|brief| brief.tools.iter().any(|tool| tool == "AskUserQuestion")),
        read_file_state: brief.map(|brief| brief.given.files.clone()).filter(|files| !files.is_empty()),
        abort_controller: brief.and_then(|brief| brief.given.stopped_with),
        effort: brief.and_then(|brief| brief.effort.clone()),
        fork: brief.and_then(fork),
    })
}
