//! Putting methods, as declared in the protocol crate, into one jsonrpsee module.
//!
//! One generic function registers them all: params are one object or absent, unknown keys are refused with the place
//! where they stand, and the result is serialised straight into the answer.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, LazyLock};

use ccagent_core::input::Run;
use ccagent_core::role::is_for_operators;
use ccagent_core::{Caller, Who};
use ccagent_proto::{Error, Kind, Method, Subscription};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt};
use jsonrpsee::core::server::{
    Extensions, MethodCallback, MethodResponse, Methods, PendingSubscriptionSink, SubscriptionMessage,
};
use jsonrpsee::server::RegisterMethodError;
use jsonrpsee::types::Id;
use jsonrpsee::types::error::OVERSIZED_RESPONSE_CODE;
use jsonrpsee::{ResponsePayload, RpcModule};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::connection::Origin;
use super::service::{answer_too_long, cancelled_error, object};
use super::taken::Taken;
use crate::driver::Handle;

/// What becomes of a method's call when its caller goes away or takes it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// It is dropped.
    Read,
    /// It is dropped, and nothing is begun behind it before it is answered.
    Page,
    /// It is dropped with its connection; a cancellation it sees itself, so that nothing it took is lost.
    Take,
    /// It goes on without its connection; a cancellation it sees itself.
    Work,
}

/// What a stream does with a call that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// It finishes the call, and meanwhile goes on.
    Kept,
    /// It drops the call when the connection ends, and meanwhile goes on.
    Dropped,
    /// It drops the call when the connection ends, and begins nothing more before it is answered.
    Page,
}

/// Says whether a caller, which is no operator, may call a method at all.
pub type Gate = Arc<dyn Fn(Caller, &'static str) -> BoxFuture<'static, Result<(), Error>> + Send + Sync>;

/// A gate that lets everybody in.
pub(crate) fn open() -> Gate {
    Arc::new(|_, _| std::future::ready(Ok(())).boxed())
}

/// The methods of the daemon, ready to be served.
#[derive(Debug)]
pub struct Api {
    methods: Methods,
    manners: HashMap<&'static str, Manner>,
    driver: Option<Handle>,
}

impl Api {
    /// The same, answering nothing while the driver's inbox is full.
    pub(crate) fn bounded_by(self, driver: Handle) -> Self {
        Self { driver: Some(driver), ..self }
    }

    /// Whether there is no room for one more call.
    pub(crate) fn is_full(&self) -> bool {
        self.driver.as_ref().is_some_and(Handle::is_full)
    }

    /// Gives back what a connection took for an answer that is not said.
    pub(crate) async fn give_back(&self, taken: &Taken, conn: u64) {
        if let Some(driver) = &self.driver {
            taken.give_back(driver, conn).await;
        }
    }

    /// Says that a connection was sent the answer that tells of these ends.
    pub(crate) fn heard(&self, conn: u64, ends: Vec<Run>) {
        if let Some(driver) = self.driver.as_ref().filter(|_| !ends.is_empty()) {
            driver.heard(conn, ends);
        }
    }

    /// The module.
    pub(crate) fn methods(&self) -> &Methods {
        &self.methods
    }

    /// Whether a call of this method goes on when its connection ends.
    pub(crate) fn is_kept(&self, method: &str) -> bool {
        self.manners.get(method) == Some(&Manner::Work)
    }

    /// What a stream does with a call of this method.
    pub(crate) fn course(&self, method: &str) -> Course {
        match self.manners.get(method) {
            Some(Manner::Work) => Course::Kept,
            Some(Manner::Page) => Course::Page,
            Some(Manner::Read | Manner::Take) | None => Course::Dropped,
        }
    }

    /// Whether a call of this method may wait, and has no large answer for which it takes its turn.
    pub(crate) fn takes_no_turn(&self, method: &str) -> bool {
        matches!(self.manners.get(method), Some(Manner::Read | Manner::Work))
    }

    /// Whether a call of this method is dropped when it is taken back.
    pub(crate) fn is_dropped(&self, method: &str) -> bool {
        !matches!(self.manners.get(method), Some(Manner::Take | Manner::Work))
    }

    /// The names of all methods, in no order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.methods.method_names()
    }
}

impl<C> std::fmt::Debug for Registry<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").field("manners", &self.manners).finish_non_exhaustive()
    }
}

/// Collects methods; each handler gets the context, the origin of the call and the params.
pub struct Registry<C> {
    context: Arc<C>,
    gate: Gate,
    module: RpcModule<()>,
    manners: HashMap<&'static str, Manner>,
    failed: Option<RegisterMethodError>,
}

impl<C: Send + Sync + 'static> Registry<C> {
    /// An empty registry whose handlers share a context, and are called by whom the gate lets in.
    pub fn new(context: Arc<C>, gate: Gate) -> Self {
        Self { context, gate, module: RpcModule::new(()), manners: HashMap::new(), failed: None }
    }

    /// A method that changes nothing, or only waits: its call is dropped with its connection, and when it is taken
    /// back.
    pub fn read<M, F, Fut>(&mut self, handler: F)
    where
        M: Method,
        F: Fn(Arc<C>, Origin, M::Params) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<M::Result, Error>> + Send + 'static,
    {
        self.add::<M, F, Fut>(Manner::Read, handler);
    }

    /// A method that changes nothing, waits for nothing, and may have a large answer: the next call of its connection
    /// is begun once it is answered.
    pub fn page<M, F, Fut>(&mut self, handler: F)
    where
        M: Method,
        F: Fn(Arc<C>, Origin, M::Params) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<M::Result, Error>> + Send + 'static,
    {
        self.add::<M, F, Fut>(Manner::Page, handler);
    }

    /// A method that waits and may then have a large answer, for which it takes its turn: its call is dropped with its
    /// connection, and sees a cancellation itself, so that nothing it took is lost.
    pub fn take<M, F, Fut>(&mut self, handler: F)
    where
        M: Method,
        F: Fn(Arc<C>, Origin, M::Params) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<M::Result, Error>> + Send + 'static,
    {
        self.add::<M, F, Fut>(Manner::Take, handler);
    }

    /// A method that changes something: its call goes on when its connection ends.
    pub fn work<M, F, Fut>(&mut self, handler: F)
    where
        M: Method,
        F: Fn(Arc<C>, Origin, M::Params) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<M::Result, Error>> + Send + 'static,
    {
        self.add::<M, F, Fut>(Manner::Work, handler);
    }

    fn add<M, F, Fut>(&mut self, manner: Manner, handler: F)
    where
        M: Method,
        F: Fn(Arc<C>, Origin, M::Params) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<M::Result, Error>> + Send + 'static,
    {
        self.manners.insert(M::NAME, manner);
        let (context, gate, handler) = (Arc::clone(&self.context), Arc::clone(&self.gate), Arc::new(handler));
        let callback = MethodCallback::Async(Arc::new(move |id, given, _, max, mut extensions| {
            let (context, gate, handler) = (Arc::clone(&context), Arc::clone(&gate), Arc::clone(&handler));
            let given = params::<M::Params>(given.as_str());
            async move {
                let call = async {
                    let origin = origin(&mut extensions)?;
                    let params = admitted(&gate, &origin, M::NAME, given).await?;
                    handler(context, origin, params).await
                };
                respond(id, call.await, max)
            }
            .boxed()
        }));
        let inserted = self.module.verify_and_insert(M::NAME, callback).map(|_| ());
        self.note(inserted);
    }

    /// A method without params whose answer never changes. It is made when it is first asked for: few ask.
    pub fn fixed(&mut self, name: &'static str, make: impl Fn() -> Value + Send + Sync + 'static) {
        self.manners.insert(name, Manner::Page);
        let answer = LazyLock::new(move || {
            to_raw_value(&make())
                .map(Arc::<RawValue>::from)
                .map_err(|error| Error::new(Kind::Internal, error.to_string()))
        });
        let inserted = self.module.register_method(name, move |params, (), _| {
            let params = self::params::<ccagent_proto::Empty>(params.as_str());
            params.and_then(|_| LazyLock::force(&answer).clone()).map_err(|error| object(&error))
        });
        let inserted = inserted.map(|_| ());
        self.note(inserted);
    }

    /// A subscription: the handler gives a stream, whose end ends it.
    pub fn subscription<S, F, Fut>(&mut self, handler: F)
    where
        S: Subscription,
        F: Fn(Arc<C>, Origin, S::Params) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<BoxStream<'static, S::Item>, Error>> + Send + 'static,
    {
        let (context, gate, handler) = (Arc::clone(&self.context), Arc::clone(&self.gate), Arc::new(handler));
        let inserted = self.module.register_subscription(
            S::NAME,
            S::NOTIFICATION,
            S::UNSUBSCRIBE,
            move |given, pending, _, mut extensions| {
                let (context, gate, handler) =
                    (Arc::clone(&context), Arc::clone(&gate), Arc::clone(&handler));
                async move {
                    let origin = match origin(&mut extensions) {
                        Ok(origin) => origin,
                        Err(error) => return pending.reject(object(&error)).await,
                    };
                    // Counted before it is answered, so that the connection never looks idle in between.
                    let _open = origin.connection.subscribed();
                    // What was opened in the name of one identity is not for the next.
                    let over = origin.connection.identity_over();
                    let cancelled = origin.cancelled.clone();
                    let opening = async {
                        let params = params(given.as_str());
                        let params = admitted(&gate, &origin, S::NAME, params).await?;
                        handler(context, origin, params).await
                    };
                    let opened = tokio::select! {
                        biased;
                        () = cancelled.cancelled() => Err(cancelled_error()),
                        opened = opening => opened,
                    };
                    match opened {
                        Ok(items) => push(pending, items.take_until(over.cancelled_owned()).boxed()).await,
                        Err(error) => pending.reject(object(&error)).await,
                    }
                }
            },
        );
        let inserted = inserted.map(|_| ());
        // Dropped half-way, it might be answered a second time by its sink.
        self.manners.insert(S::NAME, Manner::Take);
        self.note(inserted);
    }

    /// The collected methods.
    ///
    /// # Errors
    /// When a name was taken twice.
    pub fn finish(self) -> Result<Api, RegisterMethodError> {
        match self.failed {
            Some(error) => Err(error),
            None => Ok(Api { methods: self.module.into(), manners: self.manners, driver: None }),
        }
    }

    fn note(&mut self, inserted: Result<(), RegisterMethodError>) {
        if let Err(error) = inserted {
            self.failed.get_or_insert(error);
        }
    }
}

/// The params, once the caller is let in: roles come before params, and where nothing is wrong with either the core
/// looks at them only once, in the call itself.
async fn admitted<P>(
    gate: &Gate,
    origin: &Origin,
    method: &'static str,
    params: Result<P, Error>,
) -> Result<P, Error> {
    if params.is_err() || is_for_operators(method) {
        let caller = origin.connection.caller();
        if caller.who != Who::Operator {
            gate(caller, method).await?;
        }
    }
    params
}

/// Sends a stream's items until either side has enough.
async fn push<T: serde::Serialize>(pending: PendingSubscriptionSink, mut items: BoxStream<'static, T>) {
    let Ok(sink) = pending.accept().await else { return };
    loop {
        let item = tokio::select! {
            biased;
            // First, because it also says that the item before was passed on.
            item = items.next() => item,
            () = sink.closed() => return,
        };
        let Some(item) = item else { return };
        let item = match serde_json::value::to_raw_value(&item) {
            Ok(item) => SubscriptionMessage::from(item),
            Err(error) => return tracing::error!(%error, "an item could not be serialised"),
        };
        if sink.send(item).await.is_err() {
            return;
        }
    }
}

fn origin(extensions: &mut Extensions) -> Result<Origin, Error> {
    extensions.remove().ok_or_else(|| Error::new(Kind::Internal, "the call has no origin"))
}

fn respond<T: serde::Serialize>(id: Id<'static>, result: Result<T, Error>, max: usize) -> MethodResponse {
    let response = match result {
        // The library wants a payload that can be cloned.
        Ok(result) => MethodResponse::response(id.clone(), ResponsePayload::success(Arc::new(result)), max),
        Err(error) => return MethodResponse::error(id, object(&error)),
    };
    match response.as_error_code() {
        Some(OVERSIZED_RESPONSE_CODE) => MethodResponse::error(id, answer_too_long(max)),
        _ => response,
    }
}

/// Reads params: one object, or nothing, which counts as an empty one.
pub(crate) fn params<P: DeserializeOwned>(given: Option<&str>) -> Result<P, Error> {
    let given = given.map_or("{}", str::trim);
    let given = if given == "null" { "{}" } else { given };
    if !given.starts_with('{') {
        return Err(Error::new(Kind::InvalidParams, "params are one object with named keys").with("path", ""));
    }
    // The path costs time: it is looked for only where it is needed.
    serde_json::from_str(given).or_else(|_| {
        let mut deserializer = serde_json::Deserializer::from_str(given);
        serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
            let path = path_of(&error);
            let message = format!("{}: {}", if path.is_empty() { "params" } else { &path }, error.inner());
            Error::new(Kind::InvalidParams, message).with("path", path)
        })
    })
}

fn path_of(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    match error.path().to_string() {
        path if path == "." => String::new(),
        path => path,
    }
}

#[cfg(test)]
mod tests {
    use ccagent_proto::task::{TaskGetParams, TaskWaitParams};
    use ccagent_proto::{Empty, agent::AgentSpawnParams};

    use super::*;

    fn path<P: DeserializeOwned + std::fmt::Debug>(given: &str) -> String {
        let error = params::<P>(Some(given)).unwrap_err();
        assert_eq!(error.kind, Kind::InvalidParams);
        error.data["path"].as_str().unwrap().to_owned()
    }

    /// SV-03: what is wrong in the params is named by its place.
    #[test]
    fn wrong_params_are_named_by_their_place() {
        assert_eq!(path::<TaskGetParams>(r#"{"taskId":"a","extra":1}"#), "extra");
        assert_eq!(path::<TaskGetParams>(r#"{"taskId":1}"#), "taskId");
        assert_eq!(path::<TaskWaitParams>(r#"{"taskIds":["a",2]}"#), "taskIds[1]");
        assert_eq!(path::<AgentSpawnParams>(r#"{"env":{"A":1}}"#), "env.A");
        assert_eq!(path::<TaskGetParams>("{}"), "");
        assert_eq!(path::<TaskGetParams>(r#"["a"]"#), "");
    }

    /// SV-03: absent, null and empty params are the same.
    #[test]
    fn absent_params_are_empty() {
        for given in [None, Some("null"), Some("{}"), Some(" { } ")] {
            assert_eq!(params::<Empty>(given), Ok(Empty {}));
        }
    }
}
