//! One connection to a daemon: typed calls, raw calls and subscriptions, any number at a time.

use std::path::Path;
use std::time::Duration;

use ccagent_proto::daemon::{DaemonHelloParams, DaemonHelloResult};
use ccagent_proto::method::DaemonHello;
use ccagent_proto::{Method, Subscription as Subscribe};
use jsonrpsee::async_client::{Client as Jsonrpsee, ClientBuilder};
use jsonrpsee::core::client::{ClientT, SubscriptionClientT};
use jsonrpsee::core::traits::ToRpcParams;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::net::UnixStream;

use crate::error::Error;
use crate::subscription::Subscription;
use crate::transport::{self, Refused};

/// Calls that wait, wait as long as their own params say; this bound only has to be longer than any of them.
const NO_TIMEOUT: Duration = Duration::from_hours(10 * 365 * 24);

/// How long a daemon may take to answer a greeting.
const PATIENCE: Duration = Duration::from_secs(10);

/// Items that may wait for a slow reader before its subscription ends as lagged.
const QUEUE: usize = 1024;

/// A connection to a daemon.
#[derive(Debug)]
pub struct Client {
    inner: Jsonrpsee,
    refused: Refused,
}

impl Client {
    /// Connects to the daemon that listens on a socket.
    ///
    /// # Errors
    /// `NotRunning` where nobody listens, `Full` where too many wait to be let in, `Unreachable` where the socket can't be used.
    pub async fn connect(socket: impl AsRef<Path>) -> Result<Self, Error> {
        let socket = socket.as_ref();
        match transport::connect(socket).await {
            Ok(halves) => Ok(Self::over(halves)),
            Err(source) => Err(match source.kind() {
                std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => {
                    Error::NotRunning { socket: socket.to_owned() }
                }
                std::io::ErrorKind::WouldBlock => {
                    Error::Full { socket: socket.to_owned(), waited: transport::FULL }
                }
                _ => Error::Unreachable { socket: socket.to_owned(), source },
            }),
        }
    }

    /// Speaks over a stream that is connected already.
    pub fn over_stream(stream: UnixStream) -> Self {
        Self::over(transport::halves(stream))
    }

    fn over((sender, receiver, refused): (transport::Sender, transport::Receiver, Refused)) -> Self {
        let inner = ClientBuilder::new()
            .request_timeout(NO_TIMEOUT)
            .max_concurrent_requests(QUEUE)
            .max_buffer_capacity_per_subscription(QUEUE)
            .disable_ws_ping()
            .build_with_tokio(sender, receiver);
        Self { inner, refused }
    }

    /// Greets the daemon, which answers at once where it answers at all.
    ///
    /// # Errors
    /// `Silent` when it does not; else as `call`.
    pub async fn greet(&self, params: DaemonHelloParams) -> Result<DaemonHelloResult, Error> {
        let answer = self.call::<DaemonHello>(params);
        tokio::time::timeout(PATIENCE, answer).await.unwrap_or(Err(Error::Silent { waited: PATIENCE }))
    }

    /// Calls a method.
    ///
    /// # Errors
    /// What the daemon answered, or that it went away.
    pub async fn call<M: Method>(&self, params: M::Params) -> Result<M::Result, Error> {
        self.inner.request(M::NAME, Params::of(&params)?).await.map_err(|error| self.failed(error))
    }

    /// Calls a method by its name, with any JSON as params; `null` stands for none.
    ///
    /// # Errors
    /// As `call`.
    pub async fn call_raw(&self, method: &str, params: Value) -> Result<Value, Error> {
        self.inner.request(method, Params::of(&params)?).await.map_err(|error| self.failed(error))
    }

    /// Follows a subscription.
    ///
    /// # Errors
    /// As `call`.
    pub async fn subscribe<S: Subscribe>(&self, params: S::Params) -> Result<Subscription<S::Item>, Error> {
        self.subscribe_as(S::NAME, Params::of(&params)?, S::UNSUBSCRIBE).await
    }

    /// Follows a subscription by its names, with items as JSON.
    ///
    /// # Errors
    /// As `call`.
    pub async fn subscribe_raw(
        &self,
        subscribe: &str,
        params: Value,
        unsubscribe: &str,
    ) -> Result<Subscription<Value>, Error> {
        self.subscribe_as(subscribe, Params::of(&params)?, unsubscribe).await
    }

    async fn subscribe_as<T: serde::de::DeserializeOwned + Send>(
        &self,
        subscribe: &str,
        params: Params,
        unsubscribe: &str,
    ) -> Result<Subscription<T>, Error> {
        let items = self.inner.subscribe(subscribe, params, unsubscribe).await;
        items.map(Subscription::new).map_err(|error| self.failed(error))
    }

    /// Why a call failed. A connection that the daemon refused fails with what it said.
    fn failed(&self, error: jsonrpsee::core::client::Error) -> Error {
        match (Error::from(error), self.refused.get()) {
            (Error::Closed, Some(refusal)) => Error::answered(refusal),
            (error, _) => error,
        }
    }

    /// Whether the connection still stands.
    pub fn is_connected(&self) -> bool {
        self.inner.is_connected()
    }

    /// Resolves when the connection has ended.
    pub async fn closed(&self) {
        self.inner.on_disconnect().await;
    }
}

/// Params as one JSON text, made before the call so that the call can move between threads; `null` sends none.
struct Params(Option<Box<RawValue>>);

impl Params {
    fn of(params: &impl Serialize) -> Result<Self, Error> {
        let raw =
            serde_json::value::to_raw_value(params).map_err(|why| Error::Unexpected(why.to_string()))?;
        Ok(Self(Some(raw).filter(|raw| raw.get() != "null")))
    }
}

impl ToRpcParams for Params {
    fn to_rpc_params(self) -> Result<Option<Box<RawValue>>, serde_json::Error> {
        Ok(self.0)
    }
}
