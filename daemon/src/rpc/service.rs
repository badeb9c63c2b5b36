//! From one JSON text to its answer, the same for every framing.
//!
//! The methods live in a jsonrpsee module; its server is not used, because it takes a request with an odd id for a
//! notification, never executes notifications, answers a subscription inside a batch twice, and drops calls halfway
//! when the connection ends.
//!
//! Deliberately not here: reading and writing of bytes, and what the methods do.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use ccagent_core::Who;
use ccagent_core::input::Run;
use ccagent_proto::method::{DaemonShutdown, TaskStop, TaskStopAll};
use ccagent_proto::{Error, Kind, Method};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jsonrpsee::core::server::{
    BoundedSubscriptions, ConnectionId, Extensions, MethodCallback, MethodResponse, MethodSink,
    SubscriptionState,
};
use jsonrpsee::server::{IdProvider, RandomStringIdProvider};
use jsonrpsee::types::error::{
    OVERSIZED_RESPONSE_CODE, TOO_BIG_BATCH_RESPONSE_CODE, TOO_MANY_SUBSCRIPTIONS_CODE,
};
use jsonrpsee::types::{ErrorObject, ErrorObjectOwned, Id, Params};
use serde_json::value::RawValue;

use super::Limits;
use super::batch::Batch;
use super::connection::{Connection, Origin, Revocable, UnderWay};
use super::registry::{Api, Course};
use super::request::{self, Request};
use super::stream::HIGH_WATER;
use super::taken::{Answer, Taken};
use super::turn::Turn;
use crate::panic;

/// The code for a message over the limit; jsonrpsee's meaning.
pub(crate) const TOO_LONG: i32 = -32007;

/// Answers the texts of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) api: Arc<Api>,
    pub(crate) connection: Arc<Connection>,
    pub(crate) limits: Arc<Limits>,
    /// Where a subscription's items go; `None` where nothing can be pushed.
    sink: Option<MethodSink>,
    subscriptions: BoundedSubscriptions,
}

/// What became of a text at once.
pub(crate) enum Begun {
    /// Nothing will be said.
    Silent,
    /// The answer.
    Now(Box<RawValue>),
    /// The answer will come.
    Later(Later),
}

/// An answer that will come.
pub(crate) struct Later {
    /// What becomes of the call meanwhile.
    pub(crate) course: Course,
    /// Gives the answer, or nothing where none is due.
    pub(crate) answer: BoxFuture<'static, Option<Answer>>,
}

/// What became of a request that may take a call back.
pub(crate) enum Cancellation {
    /// It is another request.
    NotOne,
    /// It is carried out, and no answer is due.
    Silent,
    /// It is carried out.
    Answered(MethodResponse),
}

impl Service {
    /// A service for one connection; subscriptions push into the sink.
    pub(crate) fn new(
        api: Arc<Api>,
        connection: Arc<Connection>,
        limits: Arc<Limits>,
        sink: Option<MethodSink>,
    ) -> Self {
        let subscriptions = BoundedSubscriptions::new(limits.subscriptions);
        Self { api, connection, limits, sink, subscriptions }
    }

    /// Begins to answer a text.
    pub(crate) fn begin(&self, text: &[u8]) -> Begun {
        let Ok(text) = std::str::from_utf8(text) else {
            let error = Error::new(Kind::ParseError, "not UTF-8");
            return Begun::Now(failure(Id::Null, &error));
        };
        if text.trim_start().starts_with('[') {
            return Batch::read(self, text);
        }
        match request::parse(text) {
            Err(refused) => Begun::Now(failure(refused.id, &refused.error)),
            Ok(request) => self.begin_one(&request, text.len()),
        }
    }

    /// The answer to a text over the limit.
    pub(crate) fn too_long(&self) -> Box<RawValue> {
        let message = format!("the message is longer than {} bytes", self.limits.frame);
        MethodResponse::error(Id::Null, bound(TOO_LONG, "tooLong", message, self.limits.frame)).into_json()
    }

    /// The answer to a text for which the budget of all connections had no room.
    pub(crate) fn no_room(&self) -> Box<RawValue> {
        failure(Id::Null, &self.spent())
    }

    fn spent(&self) -> Error {
        let why =
            "large messages that are unfinished or unanswered take up all the room there is: try again later";
        Error::new(Kind::Overloaded, why).with("limit", self.connection.budget().most())
    }

    /// The answer to a stream that can't be followed.
    pub(crate) fn broken(why: &str) -> Box<RawValue> {
        failure(Id::Null, &Error::new(Kind::ParseError, why))
    }

    fn begin_one(&self, request: &Request<'_>, bytes: usize) -> Begun {
        match self.cancellation(request) {
            Cancellation::NotOne => {}
            Cancellation::Silent => return Begun::Silent,
            Cancellation::Answered(response) => return Begun::Now(response.into_json()),
        }
        let under_way = match self.admit(request.id.as_ref(), bytes) {
            Ok(under_way) => under_way,
            Err(refused) => return Begun::Now(refused.into_json()),
        };
        let notification = request.id.is_none();
        let course = self.api.course(&request.method);
        let revocable = self.connection.revocable(request.id.clone().map(Id::into_owned));
        let call = self.call(request, revocable, &Turn::of_call());
        let answer = async move {
            let _under_way = under_way;
            let response = call.await;
            // A subscription was answered through its sink, before its first item.
            let silent = notification || response.is_subscription();
            (!silent).then(|| response.into())
        };
        Begun::Later(Later { course, answer: answer.boxed() })
    }

    /// A place among the calls that are under way, or the refusal; the reader never waits for one.
    pub(crate) fn admit(&self, id: Option<&Id<'_>>, bytes: usize) -> Result<UnderWay, MethodResponse> {
        let (calls, held) = self.connection.under_way();
        // What is small always finds room: whoever holds all of it can still look and stop.
        let room = bytes <= HIGH_WATER || held.saturating_add(bytes) <= self.limits.held();
        let error = if calls >= self.limits.in_flight {
            Error::new(Kind::Overloaded, format!("{calls} calls of this connection are under way"))
        } else if !room {
            let why = format!("calls of this connection that are under way hold {held} bytes");
            Error::new(Kind::Overloaded, why).with("limit", self.limits.held())
        } else if let Some(under_way) = self.connection.begin(bytes) {
            return Ok(under_way);
        } else {
            self.spent()
        };
        Err(MethodResponse::error(id.cloned().unwrap_or(Id::Null), object(&error)))
    }

    /// Takes a call back where the request asks for that; an answer is due only where it has an id.
    pub(crate) fn cancellation(&self, request: &Request<'_>) -> Cancellation {
        #[derive(serde::Deserialize)]
        struct Cancel<'a> {
            #[serde(borrow)]
            id: &'a RawValue,
        }
        if request.method != "$/cancelRequest" {
            return Cancellation::NotOne;
        }
        let cancel = request.params.and_then(|params| serde_json::from_str::<Cancel<'_>>(params).ok());
        if let Some(id) = cancel.and_then(|cancel| request::id(cancel.id.get())) {
            self.connection.cancel(&id.into_owned());
        }
        let Some(id) = request.id.clone() else { return Cancellation::Silent };
        let empty = jsonrpsee::ResponsePayload::success(ccagent_proto::Empty {});
        Cancellation::Answered(MethodResponse::response(id, empty, self.limits.answer))
    }

    /// Says that what tells of these ends was written.
    pub(crate) fn heard(&self, ends: Vec<Run>) {
        self.api.heard(self.connection.id(), ends);
    }

    /// Calls a method. What it took goes with its answer, or back where that says nothing of it. Everything up to the
    /// first wait has happened only once the future was polled.
    pub(crate) fn call(
        &self,
        request: &Request<'_>,
        revocable: Revocable,
        turn: &Arc<Turn>,
    ) -> BoxFuture<'static, MethodResponse> {
        let id = request.id.clone().unwrap_or(Id::Null).into_owned();
        let cancelled = revocable.cancelled.clone();
        let (taken, mut extensions) = (Taken::default(), Extensions::new());
        extensions.insert(Origin {
            connection: Arc::clone(&self.connection),
            cancelled: cancelled.clone(),
            turn: Arc::clone(turn),
            taken: taken.clone(),
        });
        let call = self.dispatch(id.clone(), request, extensions);
        let dropped = self.api.is_dropped(&request.method);
        let (api, conn, silent) = (Arc::clone(&self.api), self.connection.id(), request.id.is_none());
        async move {
            let _revocable = revocable;
            let call = AssertUnwindSafe(call).catch_unwind();
            let finished = tokio::select! {
                biased;
                finished = call => finished,
                () = cancelled.cancelled(), if dropped => return MethodResponse::error(id, object(&cancelled_error())),
            };
            let mut response = finished.unwrap_or_else(|panic| {
                tracing::error!(cause = panic::text(&*panic), "a method panicked");
                MethodResponse::error(id, object(&Error::new(Kind::Internal, "the daemon failed in this call")))
            });
            // Of all errors this one tells of an end: the program could not be executed.
            let unsaid = response.is_error() && response.as_error_code() != Some(Kind::StartFailed.code());
            if silent || unsaid {
                api.give_back(&taken, conn).await;
            } else if !taken.is_empty() {
                response.extensions_mut().insert(taken);
            }
            response
        }
        .boxed()
    }

    fn dispatch(
        &self,
        id: Id<'static>,
        request: &Request<'_>,
        extensions: Extensions,
    ) -> BoxFuture<'static, MethodResponse> {
        let params = Params::new(request.params);
        let number = ConnectionId(usize::try_from(self.connection.id()).unwrap_or(usize::MAX));
        let ready = |response: MethodResponse| std::future::ready(response).boxed();
        match self.api.methods().method(&request.method) {
            None => ready(MethodResponse::error(id, object(&no_method(&request.method)))),
            Some(MethodCallback::Async(_) | MethodCallback::Subscription(_))
                if self.api.is_full() && !self.waits_in_line(&request.method) =>
            {
                let error =
                    Error::new(Kind::Overloaded, "too many calls wait for the daemon: try again later");
                ready(MethodResponse::error(id, object(&error)))
            }
            Some(MethodCallback::Sync(method)) => ready(method(id, params, self.limits.answer, extensions)),
            Some(MethodCallback::Async(method)) => {
                method(id, params.into_owned(), number, self.limits.answer, extensions)
            }
            Some(MethodCallback::Subscription(method)) => {
                match self.subscription(number, request.id.is_some()) {
                    Ok((sink, state)) => method(id, params, sink, state, extensions),
                    Err(error) => ready(MethodResponse::error(id, error)),
                }
            }
            Some(MethodCallback::Unsubscription(method)) => match subscription_id(request.params) {
                Ok(params) => {
                    ready(method(id, Params::new(Some(&params)), number, self.limits.answer, extensions))
                }
                Err(error) => ready(MethodResponse::error(id, object(&error))),
            },
        }
    }

    /// Whether a call waits for its place in a full inbox: an operator's, and a stop, which no flood may hold off. Their
    /// number is bounded with that of the connections and of their calls under way.
    fn waits_in_line(&self, method: &str) -> bool {
        const STOPS: [&str; 3] = [TaskStop::NAME, TaskStopAll::NAME, DaemonShutdown::NAME];
        STOPS.contains(&method) || self.connection.caller().who == Who::Operator
    }

    fn subscription(
        &self,
        conn_id: ConnectionId,
        answered: bool,
    ) -> Result<(MethodSink, SubscriptionState<'static>), ErrorObjectOwned> {
        static IDS: std::sync::LazyLock<RandomStringIdProvider> =
            std::sync::LazyLock::new(|| RandomStringIdProvider::new(16));
        let refuse = |why: &str| object(&Error::new(Kind::InvalidRequest, why));
        let Some(sink) = &self.sink else {
            return Err(refuse(
                "a subscription needs a connection that stays: a WebSocket, or no HTTP at all",
            ));
        };
        if !answered {
            return Err(refuse("a subscription needs an id to be answered under"));
        }
        let permit = self.subscriptions.acquire();
        let subscription_permit = permit.ok_or_else(|| {
            let limit = self.limits.subscriptions as usize;
            let message = format!("this connection has {limit} subscriptions: end one of them");
            bound(TOO_MANY_SUBSCRIPTIONS_CODE, "tooManySubscriptions", message, limit)
        })?;
        let id_provider: &'static dyn IdProvider = &*IDS;
        Ok((sink.clone(), SubscriptionState { conn_id, id_provider, subscription_permit }))
    }
}

/// Turns our one object, `{"subscription": id}`, into what the library takes.
fn subscription_id(params: Option<&str>) -> Result<String, Error> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Unsubscribe {
        subscription: String,
    }
    let unsubscribe: Unsubscribe = super::registry::params(params)?;
    Ok(serde_json::Value::from(vec![unsubscribe.subscription]).to_string())
}

fn no_method(name: &str) -> Error {
    Error::new(
        Kind::MethodNotFound,
        format!("there is no method {name:?}; rpc.discover lists those there are"),
    )
}

/// The error of an answer over the limit; the call itself was carried out.
pub(crate) fn answer_too_long(max: usize) -> ErrorObjectOwned {
    let message = format!("the answer is longer than {max} bytes: ask for less at once");
    bound(OVERSIZED_RESPONSE_CODE, "answerTooLong", message, max)
}

/// The error of a batch whose answers together are over the limit; its calls were carried out.
pub(crate) fn batch_too_long(max: usize) -> ErrorObjectOwned {
    let message = format!("the answers of the batch are longer than {max} bytes: send smaller batches");
    bound(TOO_BIG_BATCH_RESPONSE_CODE, "answerTooLong", message, max)
}

/// The error of a bound that jsonrpsee has a code for, and the contract no kind.
pub(crate) fn bound(code: i32, kind: &str, message: String, limit: usize) -> ErrorObjectOwned {
    let data = serde_json::json!({ "kind": kind, "retryable": false, "limit": limit });
    ErrorObject::owned(code, message, Some(data))
}

/// The error of a call that was taken back.
pub(crate) fn cancelled_error() -> Error {
    Error::new(Kind::Cancelled, "the caller took the call back")
}

/// An error as the library takes it.
pub(crate) fn object(error: &Error) -> ErrorObjectOwned {
    ErrorObject::owned(error.kind.code(), error.message.clone(), Some(error.wire_data()))
}

/// An error as an answer.
pub(crate) fn failure(id: Id<'_>, error: &Error) -> Box<RawValue> {
    MethodResponse::error(id, object(error)).into_json()
}

#[cfg(test)]
mod tests {
    use ccagent_core::input::Report;
    use ccagent_core::{Caller, RunnerEvent};
    use ccagent_proto::method::TaskList;
    use serde_json::Value;

    use super::super::connection::tests::operator;
    use super::super::registry::{Registry, open};
    use super::*;
    use crate::driver::Handle;
    use crate::driver::tests::idle;

    /// A service whose methods ask the driver.
    fn service(handle: &Handle, connection: Arc<Connection>) -> Service {
        let mut registry = Registry::new(Arc::new(handle.clone()), open());
        registry.read::<TaskList, _, _>(|handle: Arc<Handle>, _, params| async move {
            handle.call::<TaskList>(Caller::operator(1), params).await
        });
        registry.work::<TaskStop, _, _>(|handle: Arc<Handle>, _, params| async move {
            handle.call::<TaskStop>(Caller::operator(1), params).await
        });
        registry.work::<TaskStopAll, _, _>(|handle: Arc<Handle>, _, params| async move {
            handle.call::<TaskStopAll>(Caller::operator(1), params).await
        });
        registry.work::<DaemonShutdown, _, _>(|handle: Arc<Handle>, _, _| async move {
            handle.ask(|_, _| ()).await.map(|()| ccagent_proto::daemon::DaemonShutdownResult::default())
        });
        let api = Arc::new(registry.finish().unwrap().bounded_by(handle.clone()));
        Service::new(api, connection, Arc::new(Limits::default()), None)
    }

    fn agent(id: u64) -> Arc<Connection> {
        let agent = operator(id);
        agent.become_who(Who::Agent("agent_01890000-0000-7000-8000-0000000000aa".parse().unwrap()));
        agent
    }

    /// A call's answer, once it was begun.
    fn call(service: &Service, method: &str, params: &str) -> BoxFuture<'static, Value> {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        let Begun::Later(later) = service.begin(text.as_bytes()) else { panic!("it is answered later") };
        async { serde_json::from_str(later.answer.await.unwrap().text.get()).unwrap() }.boxed()
    }

    /// I8, SV-09: an agent's call that would have to wait for the driver is refused at once, and can be made again; a
    /// report of a runner waits, and is not lost.
    #[tokio::test]
    async fn a_full_inbox_refuses_calls_and_no_reports() {
        let (driver, handle, _dir) = idle(1);
        let service = service(&handle, agent(1));
        let task = "agent_01890000-0000-7000-8000-0000000000ff".parse().unwrap();
        let report = || handle.report(RunnerEvent { task, attempt: 1, what: Report::NeverStarted });
        assert!(report().now_or_never().is_some());
        let mut second = report().boxed();
        assert!((&mut second).now_or_never().is_none());
        let error = &call(&service, "task.list", "{}").await["error"];
        assert_eq!((&error["code"], &error["data"]["retryable"]), (&(-32001).into(), &true.into()));
        let running = tokio::spawn(driver.run());
        second.await;
        handle.ask(|_, _| ()).await.unwrap();
        assert!(call(&service, "task.list", "{}").await["result"].is_object());
        running.abort();
    }

    /// I8, SV-09: a stop, and whatever an operator calls, waits in a full inbox for its turn: nobody who keeps it full
    /// can hold off an end.
    #[tokio::test]
    async fn a_full_inbox_refuses_no_stop_and_no_operator() {
        let (driver, handle, _dir) = idle(1);
        let (person, agent) = (service(&handle, operator(1)), service(&handle, agent(2)));
        let stops = [("task.stop", r#"{"taskId":"x"}"#), ("task.stopAll", "{}")];
        let shutdown = ("daemon.shutdown", r#"{"mode":"graceful"}"#);
        handle.disconnected(3).await;
        let mut waiting = Vec::new();
        for service in [&person, &agent] {
            for (method, params) in stops.into_iter().chain([shutdown]) {
                let mut answer = call(service, method, params);
                assert!((&mut answer).now_or_never().is_none(), "{method}");
                waiting.push(answer);
            }
        }
        waiting.push(call(&person, "task.list", "{}"));
        let running = tokio::spawn(driver.run());
        for answer in waiting {
            assert_ne!(answer.await["error"]["code"], -32001);
        }
        running.abort();
    }
}
