//! A stream of typed items that the daemon pushes.

use jsonrpsee::core::client::{Subscription as Inner, SubscriptionCloseReason};
use serde::de::DeserializeOwned;

use crate::error::Error;

/// Why a subscription has no more items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The daemon or the connection ended it.
    Closed,
    /// This reader was too slow: items were lost, subscribe again from where it stands.
    Lagged,
}

/// A subscription; dropping it ends it at the daemon too.
#[derive(Debug)]
pub struct Subscription<T> {
    inner: Inner<T>,
}

impl<T: DeserializeOwned + Send> Subscription<T> {
    pub(crate) fn new(inner: Inner<T>) -> Self {
        Self { inner }
    }

    /// The next item; `None` when there is none any more, for the reason that `ended` gives.
    pub async fn next(&mut self) -> Option<Result<T, Error>> {
        let item = self.inner.next().await?;
        Some(item.map_err(|why| Error::Unexpected(why.to_string())))
    }

    /// Why there are no more items, after `next` gave `None`.
    pub fn ended(&self) -> Ended {
        match self.inner.close_reason() {
            Some(SubscriptionCloseReason::Lagged) => Ended::Lagged,
            Some(SubscriptionCloseReason::ConnectionClosed) | None => Ended::Closed,
        }
    }

    /// Ends it at the daemon, and waits for that.
    ///
    /// # Errors
    /// When the connection is gone, which ended it too.
    pub async fn unsubscribe(self) -> Result<(), Error> {
        Ok(self.inner.unsubscribe().await?)
    }
}
