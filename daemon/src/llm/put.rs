//! Putting something to a person, and waiting for its end: the ask is the daemon's, everybody sees it, and the first answer
//! counts (C47). Nothing becomes allowed because time passed (PM-09, C17).

use ccagent_core::ask::{Asked, What};
use ccagent_proto::Error;
use ccagent_proto::ask::{Ask, AskState};

use super::desk::Desk;
use crate::hub::Key;

impl Desk {
    /// Asks, and gives the ask as it ended.
    pub(super) async fn put(&self, asked: Asked) -> Result<Ask, Error> {
        let waits = match &asked.what {
            What::Permission { .. } => "for permission",
            What::Question { .. } => "for an answer",
            What::Plan { .. } => "for its plan to be approved",
        };
        // Watched from before it is there: an answer that comes at once is not missed.
        let mut watch = self.hub.watch([Key::Task(self.task)]);
        let id = self.handle.asks((self.task, self.attempt), asked).await?.id;
        self.output.say(&format!("? waits {waits}: {id}\n"));
        loop {
            let caller = self.caller.clone();
            let now = self.handle.ask(move |core, _| core.ask_get(&caller, id)).await??;
            match now.state {
                AskState::Pending => watch.changed().await,
                AskState::Answered | AskState::Expired | AskState::Withdrawn => return Ok(now),
            }
        }
    }
}
