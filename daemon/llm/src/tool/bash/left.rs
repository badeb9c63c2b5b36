//! What commands left running: it goes on until its agent's end, and no longer.

use std::sync::{Mutex, PoisonError};

use tokio::net::unix::pipe::Receiver;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::GRACE;
use crate::tether::Tether;

/// Commands of which something may go on at once.
const MOST: usize = 64;

/// What the commands of one agent left running. Dropping it ends all of it.
#[derive(Debug, Default)]
pub struct Left {
    kept: Mutex<JoinSet<()>>,
    over: CancellationToken,
}

impl Left {
    /// Ends all of it, and returns when nothing runs any more.
    pub async fn end(&self) {
        self.over.cancel();
        let kept = std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        kept.join_all().await;
    }

    /// Keeps what goes on of a command whose shell has ended; says what has become of it.
    pub(super) async fn keep(
        &self,
        mut tether: Tether,
        output: Receiver,
        remaining: usize,
    ) -> Option<String> {
        if remaining == 0 {
            tether.empty().await;
            return None;
        }
        let over = self.over.clone();
        let refused = {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            while kept.try_join_next().is_some() {}
            if kept.len() < MOST {
                kept.spawn(watch(tether, output, over));
                None
            } else {
                Some(tether)
            }
        };
        match refused {
            None => {
                Some(format!("Processes of it that go on: {remaining}; they are ended when you are done"))
            }
            Some(mut tether) => {
                tether.stop(GRACE).await;
                Some(format!("{MOST} commands have left something running: what this one left was ended"))
            }
        }
    }
}

/// Waits for a tree's end, and takes what it prints to nobody meanwhile, so that it is not held up.
async fn watch(mut tether: Tether, mut output: Receiver, over: CancellationToken) {
    let ended = async {
        tokio::select! {
            () = over.cancelled() => tether.stop(GRACE).await,
            () = tether.empty() => {}
        }
    };
    let drained = async {
        tokio::io::copy(&mut output, &mut tokio::io::sink()).await.ok();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = ended => {}
        () = drained => {}
    }
}
