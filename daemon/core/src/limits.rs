//! The bounds and times that the core keeps, from the config.

use ccagent_proto::Millis;

/// Every number that a rule uses. The config page of the README names each with its default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The state directory, for the paths that tasks show.
    pub state_dir: String,
    /// Agents that run at once in a session.
    pub agents_per_session: u32,
    /// Agents that run at once.
    pub agents: u32,
    /// Agents that wait for a slot.
    pub queue: u32,
    /// Bytes of a message.
    pub message: u64,
    /// Messages of a mailbox that were not acknowledged.
    pub mailbox_unread: u32,
    /// Their bytes.
    pub mailbox_bytes: u64,
    /// How long an ended task stays in the list.
    pub hold_ms: Millis,
    /// How long it stays in a task panel.
    pub panel_hold_ms: Millis,
    /// How long an archived task is kept.
    pub archive_ms: Millis,
    /// How many archived tasks are kept.
    pub archive_count: u32,
    /// The run limit; 0 is none.
    pub run_ms: Millis,
    /// After how long an agent that is waited for goes to the background by itself; 0 is never.
    pub auto_background_ms: Millis,
    /// Time between TERM and KILL.
    pub grace_ms: Millis,
    /// How long stop-all waits.
    pub stop_all_ms: Millis,
    /// Bytes of output kept a task.
    pub output: u64,
    /// Bytes of output kept of all tasks together.
    pub output_total: u64,
    /// How long an idempotency key is kept.
    pub key_ms: Millis,
    /// How many idempotency keys are kept.
    pub key_count: u32,
    /// How long an ask waits for an answer.
    pub ask_ms: Millis,
    /// Whether interrupted tasks are resumed by themselves.
    pub resume_interrupted: bool,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: u64 = 1 << 20;
        const DAY: Millis = 86_400_000;
        Self {
            state_dir: String::new(),
            agents_per_session: 20,
            agents: 1000,
            queue: 10_000,
            message: MIB,
            mailbox_unread: 10_000,
            mailbox_bytes: 256 * MIB,
            hold_ms: 3_000,
            panel_hold_ms: 30_000,
            archive_ms: 30 * DAY,
            archive_count: 100_000,
            run_ms: 0,
            auto_background_ms: 0,
            grace_ms: 10_000,
            stop_all_ms: 5_000,
            output: 5 * 1024 * MIB,
            output_total: 20 * 1024 * MIB,
            key_ms: DAY,
            key_count: 100_000,
            ask_ms: DAY,
            resume_interrupted: false,
        }
    }
}
