//! How far a task's output goes. Its file is the agent's to change, and a hole costs it nothing: what lies behind what
//! the shim wrote is no output.

use ccagent_proto::TaskId;
use ccagent_proto::runner::RunnerKind;
use ccagent_proto::task::Task;

use super::{Inner, Runner};

/// Bytes that a shim adds beyond a limit, to say that it was reached.
const MARKS: u64 = 4096;

impl Runner {
    /// Bytes of a task's output file that can be its output: what its shim said last, or said at its end. Where nobody
    /// can say it, as of a shim that was killed, they are as many as it may be.
    pub fn written(&self, task: &Task) -> u64 {
        if task.runner.kind == RunnerKind::Llm {
            return self.inner.inside.written(task);
        }
        let most = self.inner.settings.output_most.max(task.output_bytes).saturating_add(MARKS);
        let told = self.agent(task.id).map(|agent| agent.output);
        match told {
            Some(told) if !task.status.is_done() => told.unwrap_or(most),
            Some(_) | None if ended_by_itself(task) => task.output_bytes,
            Some(_) | None => most,
        }
    }
}

/// Whether the end of its last run is on record, and its output with it.
fn ended_by_itself(task: &Task) -> bool {
    task.exit.is_some() && task.error.as_ref().is_none_or(|error| error.kind != "startFailed")
}

impl Inner {
    /// Notes how much output there is, or that this is not known for now.
    pub(super) fn has_written(&self, task: TaskId, attempt: u32, bytes: Option<u64>) {
        if let Some(agent) = self.agents().get_mut(&task).filter(|agent| agent.attempt == attempt) {
            agent.output = bytes;
        }
    }
}
