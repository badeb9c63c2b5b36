//! Waiting for a condition over the core's state. The core answers at once how things stand; here it is asked again
//! when something changed.
//!
//! The watch is made before the first look, so a change between the look and the wait is never missed. Deadlines
//! are kept by the runtime's monotonic clock. Nothing is asked again by a timer.

use std::time::Duration;

use ccagent_proto::{Error, Millis};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::connection::Origin;
use super::service::cancelled_error;
use crate::hub::{Hub, Key};

/// How a look at the state went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Look<T> {
    /// The condition holds.
    There(T),
    /// It does not yet; this is how things stand.
    NotYet(T),
}

/// How a wait ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Waited<T> {
    /// The condition holds.
    There(T),
    /// The time is over; this is how things stood.
    TimedOut(T),
}

impl<T> Waited<T> {
    /// How things stand, whichever way it ended.
    pub(crate) fn into_inner(self) -> T {
        match self {
            Self::There(value) | Self::TimedOut(value) => value,
        }
    }
}

/// How long a caller waits.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    deadline: Option<Instant>,
    cancelled: CancellationToken,
}

impl Patience {
    /// So many milliseconds from now, or until the call is taken back.
    pub(crate) fn new(origin: &Origin, wait: Option<Millis>) -> Self {
        Self::until(origin.cancelled.clone(), wait)
    }

    /// So many milliseconds from now, whoever asked for it.
    pub(crate) fn alone(wait: Millis) -> Self {
        Self::until(CancellationToken::new(), Some(wait))
    }

    fn until(cancelled: CancellationToken, wait: Option<Millis>) -> Self {
        // A wait that the clock can't hold is as good as none.
        let deadline = wait.and_then(|wait| Instant::now().checked_add(Duration::from_millis(wait)));
        Self { deadline, cancelled }
    }

    /// Whether there is nothing left of it.
    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// What comes in time, or nothing.
    ///
    /// # Errors
    /// `cancelled` when the call is taken back.
    pub(crate) async fn wait<T>(&self, coming: impl Future<Output = T>) -> Result<Option<T>, Error> {
        let in_time = async {
            match self.deadline {
                None => Some(coming.await),
                Some(deadline) => tokio::time::timeout_at(deadline, coming).await.ok(),
            }
        };
        tokio::select! {
            biased;
            () = self.cancelled.cancelled() => Err(cancelled_error()),
            came = in_time => Ok(came),
        }
    }
}

/// Looks until the condition holds, whenever one of the keys changed. A look is never given up half-way: what it
/// took is not lost.
///
/// # Errors
/// What a look says; `cancelled` when the call is taken back.
pub(crate) async fn until<T, Fut>(
    hub: &Hub,
    keys: impl IntoIterator<Item = Key>,
    patience: &Patience,
    mut look: impl FnMut() -> Fut,
) -> Result<Waited<T>, Error>
where
    Fut: Future<Output = Result<Look<T>, Error>>,
{
    let mut watch = hub.watch(keys);
    loop {
        let stands = match look().await? {
            Look::There(value) => return Ok(Waited::There(value)),
            Look::NotYet(value) => value,
        };
        if patience.wait(watch.changed()).await?.is_none() {
            return Ok(Waited::TimedOut(stands));
        }
    }
}

/// Looks like [`until`], where what is watched may move: a session that is closed makes `main` the caller's.
///
/// # Errors
/// What a look or the question for the key says; `cancelled` when the call is taken back.
pub(crate) async fn until_at<T, At, Fut>(
    hub: &Hub,
    mut at: impl FnMut() -> At,
    patience: &Patience,
    mut look: impl FnMut() -> Fut,
) -> Result<Waited<T>, Error>
where
    At: Future<Output = Result<Key, Error>>,
    Fut: Future<Output = Result<Look<T>, Error>>,
{
    loop {
        let key = at().await?;
        let waited = until(hub, [key.clone()], patience, || {
            let (looked, now) = (look(), at());
            let key = &key;
            async move {
                Ok(match looked.await? {
                    Look::There(value) => Look::There(Some(value)),
                    // Asked after the watch was made: a move that comes later wakes it.
                    Look::NotYet(_) if !patience.is_over() && now.await? != *key => Look::There(None),
                    Look::NotYet(value) => Look::NotYet(Some(value)),
                })
            }
        });
        match waited.await? {
            Waited::There(Some(value)) => return Ok(Waited::There(value)),
            Waited::TimedOut(Some(value)) => return Ok(Waited::TimedOut(value)),
            Waited::There(None) | Waited::TimedOut(None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use ccagent_proto::SessionId;

    use super::*;
    use crate::hub::Bounds;

    fn hub() -> (Hub, Key) {
        (Hub::new("e".into(), Bounds { ring: 1, subscriber: 1 }), Key::Session(SessionId::main()))
    }

    /// D62, OF-09: a change that falls between the look and the wait is seen.
    #[tokio::test]
    async fn a_change_during_the_look_is_seen() {
        let ((hub, key), looks) = (hub(), Cell::new(0));
        let forever = Patience::until(CancellationToken::new(), None);
        let waited = until(&hub, [key.clone()], &forever, async || {
            looks.set(looks.get() + 1);
            hub.wake(&key);
            Ok(if looks.get() == 3 { Look::There(()) } else { Look::NotYet(()) })
        });
        assert_eq!(waited.await, Ok(Waited::There(())));
    }

    /// OF-09: time running out is no error, and without a change there is no second look.
    #[tokio::test(start_paused = true)]
    async fn time_running_out_says_how_things_stand() {
        let ((hub, key), looks) = (hub(), Cell::new(0));
        let before = Instant::now();
        let hour = Patience::until(CancellationToken::new(), Some(3_600_000));
        let waited = until(&hub, [key], &hour, async || {
            looks.set(looks.get() + 1);
            Ok(Look::NotYet(looks.get()))
        });
        assert_eq!(waited.await, Ok(Waited::TimedOut(1)));
        assert_eq!(before.elapsed(), Duration::from_hours(1));
    }

    /// SV-09: a wait that is taken back ends, and its last look was whole.
    #[tokio::test]
    async fn a_wait_that_is_taken_back_ends() {
        let (hub, key) = hub();
        let patience = Patience::until(CancellationToken::new(), None);
        let waited = until(&hub, [key], &patience, async || {
            patience.cancelled.cancel();
            tokio::task::yield_now().await;
            Ok(Look::NotYet(()))
        });
        assert_eq!(waited.await.unwrap_err().kind, ccagent_proto::Kind::Cancelled);
    }
}
