//! A provider for tests: a real server on loopback that says, byte for byte, what it was given.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::endpoint::Endpoint;
use super::http::{Http, Silence};
use super::limiter::Limiter;
use super::mask::Mask;
use super::{Answer, Delta, Failure, Provider, Request};
use crate::message::Message;

/// The key of all tests.
pub(crate) const KEY: &str = "sk-test-0123456789";

/// What the server does with a request, in order.
#[derive(Clone, Debug)]
pub(crate) enum Say {
    /// Sends bytes.
    Bytes(String),
    /// Says nothing more.
    Silence,
}

/// The server.
#[derive(Debug)]
pub(crate) struct Stub {
    url: String,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Stub {
    /// A server that gives each request the next answer.
    pub(crate) async fn start(answers: Vec<Vec<Say>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heard = Arc::new(Mutex::new(Vec::new()));
        let list = heard.clone();
        tokio::spawn(async move {
            for answer in answers {
                let (stream, _) = listener.accept().await.unwrap();
                serve(stream, answer, &list).await;
            }
        });
        Self { url, heard }
    }

    /// The same behind TLS, with a certificate that nobody else trusts, and that certificate.
    pub(super) async fn start_tls(answers: Vec<Vec<Say>>) -> (Self, String) {
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let heard = Arc::new(Mutex::new(Vec::new()));
        let list = heard.clone();
        tokio::spawn(async move {
            let acceptor = TlsAcceptor::from(Arc::new(config));
            let mut answers = answers.into_iter();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // A client that does not trust us leaves.
                let Ok(stream) = acceptor.accept(stream).await else { continue };
                serve(stream, answers.next().unwrap(), &list).await;
            }
        });
        (Self { url, heard }, cert.pem())
    }

    /// Where it is, with short timers for silence.
    pub(crate) fn endpoint(&self) -> Endpoint {
        let other = Duration::from_mins(1);
        let silence = Silence { connect: other, headers: other, pieces: Duration::from_millis(200) };
        endpoint(&self.url, silence)
    }

    /// The requests so far: head and body.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

/// An endpoint for tests.
pub(super) fn endpoint(url: &str, silence: Silence) -> Endpoint {
    Endpoint {
        http: Http::new(&BTreeMap::new(), silence).unwrap(),
        limiter: Arc::new(Limiter::new(None)),
        mask: Arc::new(Mask::new([KEY])),
        base_url: url.to_owned(),
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: Vec<Say>,
    heard: &Mutex<Vec<String>>,
) {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            if body.len() >= length.parse().unwrap() {
                break;
            }
        }
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).await.unwrap();
        assert!(read > 0, "a request that is cut: {bytes:?}");
        bytes.extend_from_slice(&piece[..read]);
    }
    heard.lock().unwrap().push(String::from_utf8(bytes).unwrap());
    for say in answer {
        match say {
            Say::Bytes(text) => stream.write_all(text.as_bytes()).await.unwrap(),
            // Until the other side has had enough.
            Say::Silence => drop(stream.read(&mut [0; 1]).await),
        }
    }
    stream.shutdown().await.ok();
}

/// A response of events that ends with its connection.
pub(super) fn stream(body: &str) -> Say {
    Say::Bytes(format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{body}"
    ))
}

/// A response of events of which all but the last chunk comes.
pub(super) fn cut(body: &str) -> Say {
    let length = body.len();
    Say::Bytes(format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n"
    ))
}

/// An HTTP error.
pub(crate) fn refusal(status: u16, headers: &str, body: &str) -> Say {
    let length = body.len();
    Say::Bytes(format!(
        "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
    ))
}

/// A request without anything but its messages.
pub(super) fn request(messages: &[Message]) -> Request<'_> {
    Request { model: "m", system: &[], tools: &[], messages, reminder: None, max_output: 1000, effort: None }
}

/// Asks, and writes down what the stream brought.
pub(super) async fn ask(
    provider: &dyn Provider,
    messages: &[Message],
) -> (Result<Answer, Failure>, Vec<String>) {
    let mut brought = Vec::new();
    let mut sink = |delta: Delta<'_>| {
        brought.push(match delta {
            Delta::Sent => return,
            Delta::Began => "began".to_owned(),
            Delta::Text(text) => text.to_owned(),
            Delta::Thinking(text) => format!("({text})"),
            Delta::Call(name) => format!("{name}!"),
        });
    };
    let answer = provider.answer(request(messages), &mut sink).await;
    (answer, brought)
}
