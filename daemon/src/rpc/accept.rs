//! Taking connections: how many there may be, whose they are, and which framing they speak.
//!
//! A connection from another user, or from a process of which it can't be told whose it is, gets nothing.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ccagent_core::Who;
use ccagent_proto::framing::{Framing, Sniff, sniff};
use ccagent_proto::{Error, Kind};
use futures_util::future::BoxFuture;
use jsonrpsee::core::server::MethodSink;
use tokio::io::AsyncReadExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::bytes::BytesMut;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Limits;
use super::budget::{Budget, Share};
use super::connection::Connection;
use super::framing::Cutter;
use super::hangup::Hangup;
use super::http::Http;
use super::peer::{Environment, Peer, Shims};
use super::places::{Place, Places};
use super::rarely::Rarely;
use super::refusal::Refusals;
use super::registry::Api;
use super::service::Service;
use super::stall::Stalling;
use super::stream::Stream;

/// Pause after the system refused a connection, for example for want of descriptors.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// Hears of the end of a connection, by its number; it may hear twice.
pub type Disconnected = Arc<dyn Fn(u64) -> BoxFuture<'static, ()> + Send + Sync>;

/// Warnings about connections that are not served, one for each reason.
#[derive(Debug, Default)]
struct Warnings {
    not_taken: Rarely,
    foreign: Rarely,
    unknown_user: Rarely,
    untold: Rarely,
    unwatched: Rarely,
}

/// What all connections share.
pub struct Edge {
    api: Arc<Api>,
    limits: Arc<Limits>,
    budget: Arc<Budget>,
    places: Places,
    refusals: Refusals,
    warnings: Warnings,
    next: AtomicU64,
    /// For a process whose environment can't be read.
    fallback: Environment,
    shims: Shims,
    disconnected: Disconnected,
    stop: CancellationToken,
    tracker: TaskTracker,
}

impl fmt::Debug for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Edge").field("limits", &self.limits).field("next", &self.next).finish_non_exhaustive()
    }
}

impl Edge {
    /// An edge that serves these methods; connections live in the tracker and end with the token.
    pub fn new(
        api: Api,
        limits: Limits,
        shims: Shims,
        disconnected: Disconnected,
        (stop, tracker): (CancellationToken, TaskTracker),
    ) -> Arc<Self> {
        Arc::new(Self {
            api: Arc::new(api),
            limits: Arc::new(limits),
            budget: Budget::new(limits.large()),
            places: Places::new(&limits),
            refusals: Refusals::new(stop.clone(), tracker.clone()),
            warnings: Warnings::default(),
            next: AtomicU64::new(1),
            fallback: Environment::own(),
            shims,
            disconnected,
            stop,
            tracker,
        })
    }

    /// How many connections there are.
    pub fn connections(&self) -> u64 {
        self.places.taken() as u64
    }

    /// What large messages take shares of.
    #[cfg(test)]
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Takes connections until the edge is stopped.
    pub async fn serve(self: Arc<Self>, listener: UnixListener) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.stop.cancelled() => return,
            };
            match accepted {
                Ok((socket, _)) => self.admit(socket),
                Err(error) => {
                    if let Some(times) = self.warnings.not_taken.due() {
                        tracing::warn!(%error, times, "a connection could not be taken");
                    }
                    tokio::time::sleep(REFUSED_PAUSE).await;
                }
            }
        }
    }

    /// Takes one connection.
    pub fn admit(self: &Arc<Self>, socket: UnixStream) {
        let edge = Arc::clone(self);
        if let Some(place) = self.places.take() {
            self.tracker.spawn(async move {
                match edge.identify(&socket) {
                    Ok(known) => edge.connection(socket, place, known).await,
                    Err(error) => edge.refuse(socket, error),
                }
            });
            return;
        }
        // Who is there is looked at before a kept place is taken, so that agents never hold one even for a moment.
        let kept = self.identify(&socket).map(|known| match known.1 {
            Who::Operator => self.places.take_kept().map(|place| (place, known)),
            Who::Agent(_) | Who::Member { .. } => None,
        });
        match kept {
            Ok(Some((place, known))) => {
                self.tracker.spawn(async move { edge.connection(socket, place, known).await });
            }
            Ok(None) => {
                let count = self.places.taken();
                let error = Error::new(Kind::Overloaded, format!("there are {count} connections"));
                self.refuse(socket, Some(error));
            }
            Err(error) => self.refuse(socket, error),
        }
    }

    /// Closes a connection, with an error where there is one to be told.
    fn refuse(&self, socket: UnixStream, error: Option<Error>) {
        if let Some(error) = error {
            self.refusals.refuse(socket, &error);
        }
    }

    async fn connection(self: Arc<Self>, mut socket: UnixStream, place: Place, (peer, who): (Peer, Who)) {
        let _place = place;
        // A time that the clock can't hold is as good as none.
        let deadline = Instant::now().checked_add(self.limits.first_bytes);
        let mut first = BytesMut::with_capacity(16 << 10);
        // Read before the first call: none has to wait for it, and be passed by the next one.
        let begun = async {
            tokio::join!(within(deadline, first_bytes(&mut socket, &mut first)), peer.environment(&who))
        };
        let (framing, environment) = tokio::select! {
            begun = begun => begun,
            () = self.stop.cancelled() => return,
        };
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let environment = environment.unwrap_or_else(|| self.fallback.clone());
        let connection = Connection::new(id, peer, who, environment, Arc::clone(&self.budget));
        match framing {
            Some(Ok(Sniff::Known(Framing::Ndjson))) => {
                let cutter = Cutter::ndjson(self.limits.frame);
                self.plain(socket, (first, deadline), cutter, connection).await;
            }
            Some(Ok(Sniff::Known(Framing::ContentLength))) => {
                let cutter = Cutter::content_length(self.limits.frame);
                self.plain(socket, (first, deadline), cutter, connection).await;
            }
            Some(Ok(Sniff::Known(Framing::Http))) => self.http(socket, (first, deadline), connection).await,
            Some(Ok(Sniff::Unknown)) => {
                let why = "the first bytes begin no framing we know";
                self.refusals.refuse(socket, &Error::new(Kind::ParseError, why));
            }
            // It said nothing, or not enough.
            Some(Ok(Sniff::More) | Err(_)) | None => {}
        }
    }

    /// Who is there, or what is to be told; nothing is said to another user.
    fn identify(&self, socket: &UnixStream) -> Result<(Peer, Who), Option<Error>> {
        let peer = match Peer::of(socket) {
            Ok(peer) if peer.is_ours() => peer,
            Ok(peer) => {
                if let Some(times) = self.warnings.foreign.due() {
                    tracing::warn!(uid = peer.uid, times, "a connection of another user was closed");
                }
                return Err(None);
            }
            Err(error) => {
                if let Some(times) = self.warnings.unknown_user.due() {
                    tracing::warn!(%error, times, "a connection of an unknown user was closed");
                }
                return Err(None);
            }
        };
        peer.who(&self.shims).map(|who| (peer, who)).ok_or_else(|| {
            if let Some(times) = self.warnings.untold.due() {
                let pid = peer.pid;
                tracing::warn!(pid, times, "a connection was closed: whose process it is can't be told");
            }
            Some(Error::new(Kind::NotAuthorised, "whose process this is can't be told"))
        })
    }

    async fn plain(
        &self,
        socket: UnixStream,
        first: (BytesMut, Option<Instant>),
        cutter: Cutter,
        connection: Arc<Connection>,
    ) {
        let hangup = match Hangup::of(&socket) {
            Ok(hangup) => hangup,
            Err(error) => {
                if let Some(times) = self.warnings.unwatched.due() {
                    tracing::warn!(%error, times, "a connection could not be watched");
                }
                return;
            }
        };
        let (sink, outbox) = mpsc::channel(self.limits.outbox);
        let service = self.service(&connection, Some(MethodSink::new(sink)));
        let cutter = cutter.within(Share::of(&connection));
        let stream = Stream::new(socket.into_split(), first, cutter, service, (outbox, None));
        let (over, unfinished) = stream.serve(hangup.happened(), &self.stop).await;
        tracing::debug!(connection = connection.id(), ?over, "a connection ended");
        connection.end();
        connection.subscriptions_ended().await;
        (self.disconnected)(connection.id()).await;
        if !unfinished.is_empty() {
            // Work may still take or wait for something in the connection's name: it is given back at the end.
            let disconnected = Arc::clone(&self.disconnected);
            self.tracker.spawn(async move {
                unfinished.finish().await;
                disconnected(connection.id()).await;
            });
        }
    }

    async fn http(
        &self,
        socket: UnixStream,
        (first, deadline): (BytesMut, Option<Instant>),
        connection: Arc<Connection>,
    ) {
        let http = Http::new(self.service(&connection, None), self.stop.clone());
        let (reader, writer) = socket.into_split();
        let reader = std::io::Cursor::new(first.freeze()).chain(reader);
        let writer = Stalling::new(writer, self.limits.stall, http.owed.clone());
        Arc::clone(&http).serve(tokio::io::join(reader, writer), deadline).await;
        http.sessions.wait().await;
        connection.end();
        connection.subscriptions_ended().await;
        (self.disconnected)(connection.id()).await;
        if !http.work.is_empty() {
            let disconnected = Arc::clone(&self.disconnected);
            self.tracker.spawn(async move {
                http.work.wait().await;
                disconnected(connection.id()).await;
            });
        }
    }

    fn service(&self, connection: &Arc<Connection>, sink: Option<MethodSink>) -> Service {
        Service::new(Arc::clone(&self.api), Arc::clone(connection), Arc::clone(&self.limits), sink)
    }
}

/// Reads until the framing is known.
async fn first_bytes(socket: &mut UnixStream, first: &mut BytesMut) -> std::io::Result<Sniff> {
    loop {
        match sniff(first) {
            Sniff::More if first.len() < first.capacity() => {
                if socket.read_buf(first).await? == 0 {
                    return Ok(Sniff::More);
                }
            }
            Sniff::More => return Ok(Sniff::Unknown),
            known => return Ok(known),
        }
    }
}

/// What a future gives before the deadline.
async fn within<T>(deadline: Option<Instant>, future: impl Future<Output = T>) -> Option<T> {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline, future).await.ok(),
        None => Some(future.await),
    }
}
