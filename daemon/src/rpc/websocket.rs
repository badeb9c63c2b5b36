//! A WebSocket: its messages run as lines through the same loop as a plain stream, so bounds, order and the end of a
//! connection are the same.
//!
//! A request with an `Origin` is refused: it comes from a web page. A message over the limit, or one for which there is
//! no room, ends the socket after it was answered: the protocol library can't skip it.

mod checked;

use std::io;
use std::pin::pin;
use std::sync::Arc;

use ::http::StatusCode;
use ::http::header::ORIGIN;
use futures_util::FutureExt;
use futures_util::io::{BufReader, BufWriter};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use jsonrpsee::core::server::MethodSink;
use jsonrpsee::server::{HttpBody, HttpRequest, HttpResponse};
use serde_json::value::RawValue;
use soketto::connection::Error;
use soketto::handshake::http::{Server, is_upgrade_request};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio_util::bytes::BytesMut;
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt};
use tokio_util::sync::CancellationToken;

use super::budget::{SMALL, Share};
use super::framing::Cutter;
use super::http::{Http, plain};
use super::service::Service;
use super::stream::{Over, Stream, is_item};

use checked::{AGAIN, Checked, Code, Intake, PROTOCOL, TOO_BIG};

type Socket = Checked<BufReader<BufWriter<Compat<TokioIo<Upgraded>>>>>;

/// Bytes between the socket and the loop.
const PIPE: usize = 64 << 10;

/// Whether a request asks for a WebSocket.
pub(crate) fn is_wanted(request: &HttpRequest) -> bool {
    is_upgrade_request(request)
}

/// Answers the request and serves the socket that comes of it.
pub(crate) fn accept(http: &Arc<Http>, request: HttpRequest) -> HttpResponse {
    if request.headers().contains_key(ORIGIN) {
        // Only browsers send it, and they ask nobody before they open a socket: behind a proxy any page that a person
        // visits could speak here in the person's name.
        return plain(StatusCode::FORBIDDEN, "a WebSocket is not opened for a web page\n");
    }
    let mut server = Server::new();
    match server.receive_request(&request) {
        Ok(response) => {
            let session = serve(Arc::clone(http), server, request);
            http.sessions.spawn(session);
            response.map(|()| HttpBody::empty())
        }
        Err(error) => {
            tracing::debug!(%error, "a WebSocket was refused");
            plain(StatusCode::BAD_REQUEST, "no usable WebSocket handshake\n")
        }
    }
}

async fn serve(http: Arc<Http>, server: Server, request: HttpRequest) {
    let upgraded = match hyper::upgrade::on(request).await {
        Ok(upgraded) => upgraded,
        Err(error) => return tracing::debug!(%error, "a WebSocket did not come to be"),
    };
    drop(http.owed.settle());
    let (code, connection) = (Code::normal(), Arc::clone(&http.service.connection));
    let intake = Intake::new(Share::of(&connection), http.service.limits.frame);
    let socket = BufReader::new(BufWriter::new(TokioIo::new(upgraded).compat()));
    let socket = Checked::new(socket, code.clone(), intake.clone());
    let limits = Arc::clone(&http.service.limits);
    let mut builder = server.into_builder(socket);
    builder.set_max_message_size(limits.frame);
    builder.set_max_frame_size(limits.frame);
    let (sender, receiver) = builder.finish();

    let (to_loop, reader) = tokio::io::duplex(PIPE);
    let (writer, from_loop) = tokio::io::duplex(PIPE);
    let (sink, outbox) = mpsc::channel(limits.outbox);
    let service = Service::new(
        Arc::clone(&http.service.api),
        Arc::clone(&connection),
        Arc::clone(&limits),
        Some(MethodSink::new(sink.clone())),
    );
    let cutter = Cutter::ndjson(limits.frame).within(Share::of(&connection));
    let input = (BytesMut::new(), None);
    let refusal = Refusal { service: service.clone(), sink };
    let stream = Stream::new((reader, writer), input, cutter, service, (outbox, Some(http.owed.clone())));

    let gone = CancellationToken::new();
    let mut served = pin!(stream.serve(gone.cancelled(), &http.stop));
    let mut incoming = pin!(incoming(receiver, to_loop, &refusal, (&gone, &code, &intake)));
    let mut outgoing = pin!(outgoing(sender, from_loop, &http));
    let (mut reading, mut writing) = (true, true);
    let (over, unfinished) = loop {
        tokio::select! {
            // In this order, so that the time of an answer begins as soon as the loop has said it.
            biased;
            ended = &mut served => break ended,
            () = &mut incoming, if reading => reading = false,
            () = &mut outgoing, if writing => {
                // Nothing can be said any more.
                writing = false;
                gone.cancel();
            }
        }
    };
    tracing::debug!(?over, "a WebSocket ended");
    http.service.connection.end();
    http.work.spawn(unfinished.finish());
    if writing {
        // What the loop has said last is still on its way out; items that are not read by now hold up no stop.
        let last = tokio::time::timeout(limits.stall, outgoing);
        let over = over == Over::Stopped && http.owed.is_none();
        drop(if over { last.now_or_never().unwrap_or(Ok(())) } else { last.await });
    }
}

/// Messages from the socket become lines.
async fn incoming(
    mut receiver: soketto::Receiver<Socket>,
    mut to_loop: DuplexStream,
    refusal: &Refusal,
    (gone, code, intake): (&CancellationToken, &Code, &Intake),
) {
    let mut message = Vec::new();
    loop {
        message.clear();
        // One large message must not cost its size for the rest of the connection.
        message.shrink_to(SMALL);
        let received = tokio::select! {
            received = receiver.receive_data(&mut message) => received,
            () = gone.cancelled() => return,
        };
        let passed = match received {
            Ok(_) => {
                let passed = pass(&mut message, &mut to_loop).await;
                intake.taken();
                passed
            }
            Err(
                Error::MessageTooLarge { .. } | Error::Codec(soketto::base::Error::PayloadTooLarge { .. }),
            ) => {
                code.set(TOO_BIG);
                return refusal.say(refusal.service.too_long()).await;
            }
            Err(_) if intake.is_refused() => {
                code.set(AGAIN);
                return refusal.say(refusal.service.no_room()).await;
            }
            Err(error) => {
                if matches!(error, Error::Codec(_) | Error::UnexpectedOpCode(_)) {
                    code.set(PROTOCOL);
                }
                Err(io::Error::other(error))
            }
        };
        if passed.is_err() {
            return gone.cancel();
        }
    }
}

/// The way to say of a message that it was not taken.
struct Refusal {
    service: Service,
    sink: mpsc::Sender<Box<RawValue>>,
}

impl Refusal {
    /// Says it, in line with what subscriptions say: the loop takes that up before it ends.
    async fn say(&self, answer: Box<RawValue>) {
        drop(self.sink.send(answer).await);
    }
}

async fn pass(message: &mut Vec<u8>, to_loop: &mut DuplexStream) -> io::Result<()> {
    for byte in message.iter_mut() {
        if matches!(*byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    message.push(b'\n');
    to_loop.write_all(message).await
}

/// Lines from the loop become messages. Like the loop, the socket waits as long as it takes for an item to be read.
async fn outgoing(mut sender: soketto::Sender<Socket>, from_loop: DuplexStream, http: &Http) {
    let mut lines = tokio::io::BufReader::new(from_loop).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let answer = !is_item(&line);
        let sent = sender.send_text_owned(line).await;
        let sent = if sent.is_ok() { sender.flush().await } else { sent };
        if let Err(error) = sent {
            return tracing::debug!(%error, "a WebSocket could not be written to");
        }
        if answer {
            http.service.heard(http.owed.settle());
        }
    }
    if let Err(error) = sender.close().await {
        tracing::debug!(%error, "a WebSocket was not closed in order");
    }
}
