//! What was tried, and what was acknowledged: the truth that the daemon is held against.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use tokio::sync::watch;

/// A spawn that was acknowledged.
#[derive(Clone, Debug)]
pub(crate) struct Spawned {
    /// Its task.
    pub(crate) id: String,
    /// The name of its own file of runs.
    pub(crate) name: String,
    /// Whether it runs until it is stopped.
    pub(crate) stays: bool,
}

/// Everything that clients know.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Every spawn that was sent, by the name of its file; acknowledged or not.
    pub(crate) tried: BTreeSet<String>,
    /// Spawns that were acknowledged and whose end was not checked yet.
    pub(crate) spawned: Vec<Spawned>,
    /// Stops that were sent, acknowledged or not.
    pub(crate) stopping: BTreeSet<String>,
    /// Stops that were acknowledged.
    pub(crate) stopped: BTreeSet<String>,
    /// Spawns in the foreground that were sent and not answered, by their labels.
    pub(crate) waiting: BTreeSet<String>,
    /// Ends that an answer in the foreground told: status and time.
    pub(crate) heard: BTreeMap<String, String>,
    /// Ends that were seen: status and time.
    pub(crate) ended: BTreeMap<String, String>,
    /// Marks of messages whose sending was acknowledged.
    pub(crate) sent: BTreeSet<String>,
    /// Marks of messages by the ids that they were seen under.
    pub(crate) seen: BTreeMap<String, String>,
    /// Ids of messages whose acknowledgement was sent.
    pub(crate) acking: BTreeSet<String>,
    /// Ids of messages whose acknowledgement was answered.
    pub(crate) acked: BTreeSet<String>,
    /// Ids of notifications whose acknowledgement was answered.
    pub(crate) notices: BTreeSet<String>,
    /// Notifications that were seen, by task and attempt.
    pub(crate) noticed: BTreeMap<(String, u64), String>,
    /// All spawns that were acknowledged.
    pub(crate) spawns: u64,
}

/// The shared ledger.
#[derive(Debug)]
pub(crate) struct Ledger {
    known: Mutex<Known>,
    count: watch::Sender<u32>,
    /// Where each program writes a line for each of its runs.
    pub(crate) runs: PathBuf,
}

impl Ledger {
    /// An empty one.
    pub(crate) fn new(runs: PathBuf) -> Self {
        Self { known: Mutex::default(), count: watch::Sender::new(0), runs }
    }

    /// What is known.
    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap()
    }

    /// Counts an acknowledgement.
    pub(crate) fn count(&self) {
        self.count.send_modify(|count| *count += 1);
    }

    /// Waits for so many more acknowledgements.
    pub(crate) async fn acknowledged(&self, more: u32) {
        let mut count = self.count.subscribe();
        let goal = *count.borrow() + more;
        let reached = count.wait_for(|count| *count >= goal);
        drop(tokio::time::timeout(ccagent_tests::PATIENCE, reached).await.expect("the load stands still"));
    }

    /// A line for a person.
    pub(crate) fn summary(&self) -> String {
        let known = self.known();
        format!(
            "{} spawns acknowledged of {} tried, {} ends, {} in the foreground, {} stops; {} messages sent, {} acknowledged; {} notifications",
            known.spawns,
            known.tried.len(),
            known.ended.len(),
            known.heard.len(),
            known.stopped.len(),
            known.sent.len(),
            known.acked.len(),
            known.noticed.len(),
        )
    }
}
