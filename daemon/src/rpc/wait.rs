//! Waiting for a condition over the core's state. The core answers at once how things stand; here it is asked again
//! when something changed.
//!
//! The watch is made before the first look, so a change between the look and the wait is never missed. Deadlines
//! are kept by the runtime's monotonic clock. Nothing is asked again by a timer.

use std::time::Duration;

use ccagent_proto::{Error, Millis};
use tokio::time::Instant;

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

/// The end of a wait of so many milliseconds; `None` waits for ever.
pub(crate) fn deadline(wait: Option<Millis>) -> Option<Instant> {
    // A wait that the clock can't hold is as good as none.
    Instant::now().checked_add(Duration::from_millis(wait?))
}

/// Looks until the condition holds, whenever one of the keys changed.
pub(crate) async fn until<T, Fut>(
    hub: &Hub,
    keys: impl IntoIterator<Item = Key>,
    deadline: Option<Instant>,
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
        let changed = watch.changed();
        match deadline {
            None => changed.await,
            Some(deadline) => {
                if tokio::time::timeout_at(deadline, changed).await.is_err() {
                    return Ok(Waited::TimedOut(stands));
                }
            }
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
        let waited = until(&hub, [key.clone()], None, async || {
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
        let waited = until(&hub, [key], deadline(Some(3_600_000)), async || {
            looks.set(looks.get() + 1);
            Ok(Look::NotYet(looks.get()))
        });
        assert_eq!(waited.await, Ok(Waited::TimedOut(1)));
        assert_eq!(before.elapsed(), Duration::from_hours(1));
    }
}
