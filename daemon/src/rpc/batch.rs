//! Batches: several requests in one text, executed one after another, answered together in their order.
//!
//! Each request can be taken back from the moment the batch is read. A batch holds up no other one while it waits, unless
//! what the waiting ones hold of large answers is too much already.

use std::sync::Arc;

use ccagent_proto::{Error, Kind};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jsonrpsee::core::server::{MethodCallback, MethodResponse};
use jsonrpsee::types::Id;
use jsonrpsee::types::error::TOO_BIG_BATCH_REQUEST_CODE;
use serde_json::value::RawValue;

use super::connection::{Revocable, UnderWay};
use super::registry::Course;
use super::request::{self, Request};
use super::service::{
    Begun, Cancellation, Later, Service, batch_too_long, bound, cancelled_error, failure, object,
};
use super::stream::HIGH_WATER;
use super::taken::{Answer, Taken};
use super::turn::Turn;

/// A batch that is being executed.
pub(crate) struct Batch {
    entries: Vec<Entry>,
    service: Service,
    turn: Arc<Turn>,
    under_way: UnderWay,
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
    revocable: Revocable,
    kept: bool,
}

impl Batch {
    /// Reads a batch and begins with it.
    pub(crate) fn read(service: &Service, text: &str) -> Begun {
        let raws: Vec<&RawValue> = match serde_json::from_str(text) {
            Ok(raws) => raws,
            Err(error) => return Begun::Now(failure(Id::Null, &request::not_json(&error))),
        };
        if raws.is_empty() {
            let error = Error::new(Kind::InvalidRequest, "a batch has at least one request");
            return Begun::Now(failure(Id::Null, &error));
        }
        let limit = service.limits.batch;
        if raws.len() > limit {
            let message = format!("a batch has at most {limit} requests");
            let error = bound(TOO_BIG_BATCH_REQUEST_CODE, "tooManyRequests", message, limit);
            return Begun::Now(MethodResponse::error(Id::Null, error).into_json());
        }
        let under_way = match service.admit(None, text.len()) {
            Ok(under_way) => under_way,
            Err(refused) => return Begun::Now(refused.into_json()),
        };
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
        let batch = Self { entries, service: service.clone(), turn: Turn::of_batch(), under_way };
        let course = if kept { Course::Kept } else { Course::Dropped };
        Begun::Later(Later { course, answer: batch.run() })
    }

    fn run(self) -> BoxFuture<'static, Option<Answer>> {
        async move {
            let Self { entries, service, turn, under_way } = self;
            let _under_way = under_way;
            let (max_answer, taken) = (service.limits.answer, Taken::default());
            let mut answers = "[".to_owned();
            for entry in entries {
                let Some(answer) = entry.run(&turn).await else { continue };
                if let Some(more) = answer.extensions().get() {
                    taken.append(more);
                }
                let answer = request::said(answer.into_json());
                if answers.len() + answer.get().len() + 1 > max_answer {
                    service.api.give_back(&taken, service.connection.id()).await;
                    let error = batch_too_long(max_answer);
                    return Some(MethodResponse::error(Id::Null, error).into());
                }
                answers.push_str(answer.get());
                answers.push(',');
                if answers.len() >= HIGH_WATER {
                    turn.keep(answers.len());
                }
                turn.pass();
            }
            // Nothing but notifications: nothing is said.
            answers.pop().filter(|last| *last == ',')?;
            answers.push(']');
            let text = RawValue::from_string(answers).ok()?;
            Some(Answer { text, ends: taken.ends() })
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
    let revocable = service.connection.revocable(id.clone());
    let kept = service.api.is_kept(&request.method);
    Some(Entry::Call(Call { id, text: text.into(), service: service.clone(), revocable, kept }))
}

impl Entry {
    async fn run(self, turn: &Arc<Turn>) -> Option<MethodResponse> {
        match self {
            Self::Ready(response) => Some(response),
            Self::Call(call) => call.run(turn).await,
        }
    }
}

impl Call {
    async fn run(self, turn: &Arc<Turn>) -> Option<MethodResponse> {
        let Self { id, text, service, revocable, kept } = self;
        let cancelled = || MethodResponse::error(id.clone().unwrap_or(Id::Null), object(&cancelled_error()));
        let taken_back = revocable.cancelled.clone();
        let answered = async {
            // Read again rather than kept apart: the text owns all that a request borrows.
            let Ok(request) = request::parse(&text) else { return None };
            let page = service.api.course(&request.method) == Course::Page;
            let begins = tokio::select! {
                biased;
                // One that was taken back before it was reached has done nothing.
                () = taken_back.cancelled() => false,
                () = turn.take(service.connection.turns()), if page => true,
                () = std::future::ready(()), if !page => true,
            };
            if !begins {
                return Some(cancelled());
            }
            let lends = service.api.takes_no_turn(&request.method);
            let mut call = service.call(&request, revocable, turn);
            if lends && let Some(answer) = (&mut call).now_or_never() {
                return Some(answer);
            }
            if lends {
                turn.lend(service.connection.turns());
            }
            Some(call.await)
        };
        let response = tokio::select! {
            biased;
            response = answered => response?,
            // A batch that has work in it goes on for that work, and not for what only waits.
            () = service.connection.ended(), if !kept => cancelled(),
        };
        id.is_some().then_some(response)
    }
}
