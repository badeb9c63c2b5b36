//! The fake's HTTP: requests in, pieces out, and a list of what came.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::answer::{self, Outcome, Piece};
use super::cache::{self, Cache};
use super::events::{self, Dialect};
use super::script::Fault;

/// Requests that are kept, and their bytes.
const MOST_KEPT: (usize, usize) = (10_000, 256 << 20);
/// Faults that are counted; beyond it, counting begins anew.
const MOST_COUNTED: usize = 100_000;

type Body = BoxBody<Bytes, io::Error>;

#[derive(Debug, Default)]
struct State {
    kept: VecDeque<Kept>,
    bytes: usize,
    /// Where the clock of the requests began.
    began: Option<Instant>,
    /// How many came in all.
    came: watch::Sender<usize>,
    /// What it would not have to read again.
    cache: Cache,
    /// How often a fault of a prompt happened.
    counts: HashMap<(String, String), u32>,
}

#[derive(Debug)]
struct Kept {
    path: String,
    key: String,
    body: Bytes,
    /// When it came, on the clock of the requests.
    at: Duration,
}

/// Serves until it is dropped; each answer takes `latency` to begin.
pub async fn serve(listener: TcpListener, latency: Duration) {
    let state = Arc::new(Mutex::new(State::default()));
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        stream.set_nodelay(true).ok();
        let state = state.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(state.clone(), latency, request));
            http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.ok();
        });
    }
}

async fn answer(
    state: Arc<Mutex<State>>,
    latency: Duration,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let key = header("x-api-key").or_else(|| header("authorization")).unwrap_or_default().to_owned();
    let dialect = match (request.method(), path.as_str()) {
        (&Method::GET, "/log") => return Ok(whole(200, state.lock().unwrap().log())),
        (&Method::GET, path) if path.starts_with("/log/") => {
            let least: usize = path.trim_start_matches("/log/").parse().unwrap_or_default();
            let mut came = state.lock().unwrap().came.subscribe();
            came.wait_for(|came| *came >= least).await.ok();
            return Ok(whole(200, Bytes::new()));
        }
        (&Method::POST, "/reset") => {
            *state.lock().unwrap() = State::default();
            return Ok(whole(200, Bytes::new()));
        }
        (&Method::POST, path) if path.ends_with("/messages") => Some(Dialect::Messages),
        (&Method::POST, path) if path.ends_with("/chat/completions") => Some(Dialect::Chat),
        (&Method::POST, path) if path.ends_with("/search") => None,
        _ => return Ok(whole(404, events::error("not_found_error", &path).into())),
    };
    let Ok(body) = request.into_body().collect().await else {
        return Ok(whole(400, events::error("invalid_request_error", "the body is cut").into()));
    };
    let body = body.to_bytes();
    let Ok(asked) = serde_json::from_slice::<Value>(&body) else {
        return Ok(whole(400, events::error("invalid_request_error", "the body is no JSON").into()));
    };
    let Some(dialect) = dialect else {
        state.lock().unwrap().keep(path, key, body);
        return Ok(whole(200, searched(&asked).into()));
    };
    let prefixes = cache::prefixes(&asked);
    let (wait, outcome) = {
        let mut state = state.lock().unwrap();
        state.keep(path, key, body.clone());
        let cached = state.cache.look(&prefixes);
        answer::of(dialect, &asked, (body.len(), cached), |prompt, fault, times| {
            state.due(prompt, fault, times)
        })
    };
    if !(latency + wait).is_zero() {
        tokio::time::sleep(latency + wait).await;
    }
    if matches!(outcome, Outcome::Stream(_)) {
        // As with the real one, a prefix is there once an answer to it has begun.
        state.lock().unwrap().cache.keep(&prefixes);
    }
    Ok(match outcome {
        Outcome::Error { status, after, body } => {
            let mut response = whole(status, body);
            if let Some(after) = after.and_then(|after| after.parse().ok()) {
                response.headers_mut().insert("retry-after", after);
            }
            response
        }
        Outcome::Stream(pieces) => streamed(pieces),
    })
}

impl State {
    fn keep(&mut self, path: String, key: String, body: Bytes) {
        let at = self.began.get_or_insert_with(Instant::now).elapsed();
        self.bytes += body.len();
        self.kept.push_back(Kept { path, key, body, at });
        self.came.send_modify(|came| *came += 1);
        while self.kept.len() > MOST_KEPT.0 || self.bytes > MOST_KEPT.1 {
            let Some(oldest) = self.kept.pop_front() else { break };
            self.bytes -= oldest.body.len();
        }
    }

    fn log(&self) -> Bytes {
        let requests = self.kept.iter().map(
            |kept| json!({"path": kept.path, "key": kept.key, "at": kept.at.as_secs_f64(), "body": String::from_utf8_lossy(&kept.body)}),
        );
        requests.collect::<Value>().to_string().into()
    }

    fn due(&mut self, prompt: &str, fault: &Fault, times: u32) -> bool {
        if self.counts.len() >= MOST_COUNTED {
            self.counts.clear();
        }
        let count = self.counts.entry((prompt.to_owned(), format!("{fault:?}"))).or_default();
        *count += 1;
        *count <= times
    }
}

/// What the endpoint that searches finds: the query itself, at one address.
fn searched(asked: &Value) -> String {
    let result = json!({ "title": asked["query"], "url": "https://example.com/found", "text": "as text" });
    json!({ "results": [result] }).to_string()
}

fn whole(status: u16, body: Bytes) -> Response<Body> {
    let body = Full::new(body).map_err(|never| match never {}).boxed();
    Response::builder().status(status).header("content-type", "application/json").body(body).unwrap()
}

fn streamed(pieces: Vec<Piece>) -> Response<Body> {
    let frames = stream::iter(pieces).filter_map(|piece| async {
        match piece {
            Piece::Bytes(bytes) => Some(Ok(Frame::data(bytes))),
            Piece::Pause(pause) => {
                tokio::time::sleep(pause).await;
                None
            }
            Piece::Break => Some(Err(io::ErrorKind::ConnectionReset.into())),
        }
    });
    let body = BodyExt::boxed(StreamBody::new(frames));
    Response::builder().header("content-type", "text/event-stream").body(body).unwrap()
}
