//! Batches: several requests in one text, executed one after another, answered together in their order.

use ccagent_proto::{Error, Kind};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jsonrpsee::core::server::{BatchResponseBuilder, MethodCallback, MethodResponse};
use jsonrpsee::types::Id;
use serde_json::value::RawValue;

use super::registry::Course;
use super::request::{self, Request};
use super::service::{Begun, Cancellation, Later, Service, batch_too_long, cancelled_error, failure, object};
use super::turn::Turn;

/// A batch that is being executed.
pub(crate) struct Batch {
    entries: Vec<Entry>,
    max_answer: usize,
}

enum Entry {
    /// Answered already.
    Ready(MethodResponse),
    /// To be called after those before it.
    Call(Call),
}

struct Call {
    id: Option<Id<'static>>,
    text: Box<str>,
    service: Service,
    kept: bool,
    /// Whether its answer may be a large one.
    large: bool,
}

impl Batch {
    /// Reads a batch and begins with it.
    pub(crate) fn read(service: &Service, text: &str) -> Begun {
        let raws: Vec<&RawValue> = match serde_json::from_str(text) {
            Ok(raws) => raws,
            Err(error) => return Begun::Now(failure(Id::Null, &request::not_json(&error))),
        };
        let refuse = |why: String| Begun::Now(failure(Id::Null, &Error::new(Kind::InvalidRequest, why)));
        if raws.is_empty() {
            return refuse("a batch has at least one request".to_owned());
        }
        if raws.len() > service.limits.batch {
            return refuse(format!("a batch has at most {} requests", service.limits.batch));
        }
        if let Some(refused) = service.overloaded(None) {
            return Begun::Now(refused.into_json());
        }
        let (mut kept, mut entries) = (false, Vec::with_capacity(raws.len()));
        for raw in raws {
            match request::parse(raw.get()) {
                Err(refused) => {
                    let response = MethodResponse::error(refused.id, object(&refused.error));
                    entries.push(Entry::Ready(response));
                }
                Ok(request) => {
                    let entry = entry(service, &request, raw.get());
                    kept |= matches!(entry, Some(Entry::Call(Call { kept: true, .. })));
                    entries.extend(entry);
                }
            }
        }
        let batch = Self { entries, max_answer: service.limits.answer };
        let course = if kept { Course::Kept } else { Course::Dropped };
        Begun::Later(Later { course, answer: batch.run() })
    }

    fn run(self) -> BoxFuture<'static, Option<Box<RawValue>>> {
        async move {
            // Kept to the end: until then the answers pile up here.
            let mut turn = None;
            let mut answers = BatchResponseBuilder::new_with_limit(self.max_answer);
            for entry in self.entries {
                let Some(answer) = entry.run(&mut turn).await else { continue };
                if answers.append(answer).is_err() {
                    let error = batch_too_long(self.max_answer);
                    return Some(MethodResponse::error(Id::Null, error).into_json());
                }
            }
            // Nothing but notifications: nothing is said.
            (!answers.is_empty()).then(|| MethodResponse::from_batch(answers.finish()).into_json())
        }
        .boxed()
    }
}

fn entry(service: &Service, request: &Request<'_>, text: &str) -> Option<Entry> {
    match service.cancellation(request) {
        Cancellation::NotOne => {}
        Cancellation::Silent => return None,
        Cancellation::Answered(response) => return Some(Entry::Ready(response)),
    }
    let method = service.api.methods().method(&request.method);
    if matches!(method, Some(MethodCallback::Subscription(_))) {
        // Its answer goes out before its first item, which can't be done from inside a batch.
        let error = Error::new(Kind::InvalidRequest, "a subscription can't stand in a batch");
        return request.id.clone().map(|id| Entry::Ready(MethodResponse::error(id, object(&error))));
    }
    let id = request.id.clone().map(Id::into_owned);
    let kept = service.api.is_kept(&request.method);
    let large = service.api.is_large(&request.method);
    Some(Entry::Call(Call { id, text: text.into(), service: service.clone(), kept, large }))
}

impl Entry {
    async fn run(self, turn: &mut Option<Turn>) -> Option<MethodResponse> {
        match self {
            Self::Ready(response) => Some(response),
            Self::Call(call) => call.run(turn).await,
        }
    }
}

impl Call {
    async fn run(self, turn: &mut Option<Turn>) -> Option<MethodResponse> {
        let Self { id, text, service, kept, large } = self;
        let answered = async {
            if large && turn.is_none() {
                // Under way while it waits, so that batches without end are refused.
                let _under_way = service.connection.begin(None);
                *turn = Some(service.connection.turns().batch().await);
            }
            // Read again rather than kept apart: the text owns all that a request borrows.
            match request::parse(&text) {
                Ok(request) => Some(service.call(&request).await),
                Err(_) => None,
            }
        };
        let response = tokio::select! {
            biased;
            response = answered => response?,
            // A batch that has work in it goes on for that work, and not for what only waits.
            () = service.connection.ended(), if !kept => {
                MethodResponse::error(id.clone().unwrap_or(Id::Null), object(&cancelled_error()))
            }
        };
        id.is_some().then_some(response)
    }
}
