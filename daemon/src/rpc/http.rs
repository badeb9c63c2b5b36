//! HTTP on the socket: a POST carries one text, a WebSocket carries many.
//!
//! The content type must be JSON: a browser then asks first, so a page of another origin can't post through a proxy.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use ::http::header::CONTENT_TYPE;
use ::http::{Method, StatusCode};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jsonrpsee::core::http_helpers::{HttpError, read_body};
use jsonrpsee::server::http::is_json;
use jsonrpsee::server::{HttpBody, HttpRequest, HttpResponse};
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::body::{Counted, NoRoom};
use super::budget::{SMALL, Share};
use super::registry::Course;
use super::service::{Begun, Service};
use super::stall::Owed;
use super::taken::Answer;
use super::websocket;

/// One HTTP connection.
#[derive(Clone, Debug)]
pub(crate) struct Http {
    /// Answers the texts.
    pub(crate) service: Service,
    /// WebSockets: the connection lasts as long as they do.
    pub(crate) sessions: TaskTracker,
    /// Calls that are finished in any case.
    pub(crate) work: TaskTracker,
    /// Ends everything.
    pub(crate) stop: CancellationToken,
    /// Answers that wait to be written: HTTP owes one all the time, until it becomes a WebSocket.
    pub(crate) owed: Owed,
    /// Cancelled once a first request was there as a whole.
    asked: CancellationToken,
}

impl Http {
    /// A connection for this service.
    pub(crate) fn new(service: Service, stop: CancellationToken) -> Arc<Self> {
        let (sessions, work) = (TaskTracker::new(), TaskTracker::new());
        let (owed, asked) = (Owed::default(), CancellationToken::new());
        owed.add(Vec::new());
        Arc::new(Self { service, sessions, work, stop, owed, asked })
    }

    /// Serves requests until the connection ends; WebSockets and kept calls may go on. The first request has to be
    /// there as a whole by the deadline.
    pub(crate) async fn serve<I>(self: Arc<Self>, io: I, deadline: Option<Instant>)
    where
        I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let http = Arc::clone(&self);
        let answer = service_fn(move |request: ::http::Request<hyper::body::Incoming>| {
            let http = Arc::clone(&http);
            async move { Ok::<_, Infallible>(http.answer(request.map(HttpBody::new)).await) }
        });
        // No HTTP/2: its requests come side by side, each with a body of its own.
        let mut server = http1::Builder::new();
        // Heads and pieces of bodies that wait to be taken: small, as they have no share of the budget.
        server.max_buf_size(SMALL);
        let served = server.serve_connection(TokioIo::new(io), answer).with_upgrades();
        let mut served = pin!(served);
        let mut stopping = false;
        loop {
            tokio::select! {
                served = &mut served => {
                    if let Err(error) = served {
                        tracing::debug!(%error, "an HTTP connection failed");
                    }
                    break;
                }
                () = self.stop.cancelled(), if !stopping => {
                    stopping = true;
                    served.as_mut().graceful_shutdown();
                }
                () = self.unasked(deadline) => {
                    tracing::debug!("an HTTP connection asked nothing");
                    break;
                }
            }
        }
        self.sessions.close();
        self.work.close();
    }

    /// Waits for the deadline, or for ever once something was asked.
    async fn unasked(&self, deadline: Option<Instant>) {
        if let Some(deadline) = deadline
            && tokio::time::timeout_at(deadline, self.asked.cancelled()).await.is_err()
        {
            return;
        }
        std::future::pending::<()>().await;
    }

    async fn answer(self: Arc<Self>, request: HttpRequest) -> HttpResponse {
        if websocket::is_wanted(&request) {
            self.asked.cancel();
            return websocket::accept(&self, request);
        }
        if request.method() != Method::POST {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "POST a JSON-RPC request, or open a WebSocket\n");
        }
        if !is_json(request.headers().get(CONTENT_TYPE)) {
            return plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content-type: application/json is required\n");
        }
        let (head, body) = request.into_parts();
        let max = u32::try_from(self.service.limits.frame).unwrap_or(u32::MAX);
        let body = Counted::new(body, Share::of(&self.service.connection));
        let body = read_body(&head.headers, body, max).await;
        self.asked.cancel();
        match body {
            Ok((text, _)) => self.call(text).await,
            Err(HttpError::TooLarge) => json(StatusCode::PAYLOAD_TOO_LARGE, &self.service.too_long()),
            Err(HttpError::Malformed) => json(StatusCode::BAD_REQUEST, &Service::broken("not JSON")),
            Err(HttpError::Stream(error)) if error.is::<NoRoom>() => {
                json(StatusCode::SERVICE_UNAVAILABLE, &self.service.no_room())
            }
            Err(HttpError::Stream(error)) => {
                tracing::debug!(%error, "a request body could not be read");
                json(StatusCode::BAD_REQUEST, &Service::broken("the body ended early"))
            }
        }
    }

    async fn call(&self, text: Vec<u8>) -> HttpResponse {
        let begun = self.service.begin(&text);
        // Only the call is counted while it is under way.
        drop(text);
        let answer = match begun {
            Begun::Silent => None,
            Begun::Now(answer) => Some(answer.into()),
            // The server drops this future when its client goes away.
            Begun::Later(later) if later.course == Course::Kept => {
                self.work.spawn(later.answer).await.unwrap_or(None)
            }
            Begun::Later(later) => later.answer.await,
        };
        let Some(Answer { text, ends }) = answer else { return plain(StatusCode::NO_CONTENT, "") };
        // Nothing says when the library has written it: here it is at least with it, and its client was still there.
        self.service.heard(ends);
        json(StatusCode::OK, &text)
    }
}

fn json(status: StatusCode, body: &RawValue) -> HttpResponse {
    response(status, "application/json; charset=utf-8", body.get().to_owned())
}

/// A response in plain words.
pub(crate) fn plain(status: StatusCode, body: &'static str) -> HttpResponse {
    response(status, "text/plain; charset=utf-8", body.to_owned())
}

fn response(status: StatusCode, content_type: &'static str, body: String) -> HttpResponse {
    let mut response = HttpResponse::new(HttpBody::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, ::http::HeaderValue::from_static(content_type));
    response
}
