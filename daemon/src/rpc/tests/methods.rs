//! Methods that do little, each for one property of the edge.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ccagent_proto::{Empty, Error, Kind, Method, Subscription, TaskId};
use futures_util::StreamExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::super::Limits;
use super::super::accept::Edge;
use super::super::peer::Shims;
use super::super::registry::{Api, Registry, open};
use super::client::Client;

macro_rules! method {
    ($name:ident $wire:literal $params:ty => $result:ty) => {
        pub(super) struct $name;
        impl Method for $name {
            const NAME: &'static str = $wire;
            const SUMMARY: &'static str = "For tests.";
            type Params = $params;
            type Result = $result;
        }
    };
}

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Text {
    pub(super) text: String,
}

method! { Echo "test.echo" Text => Text }
method! { Wait "test.wait" Empty => Empty }
method! { Page "test.page" Empty => Text }
method! { Take "test.take" Empty => Text }
method! { Work "test.work" Empty => Empty }
method! { Release "test.release" Empty => Empty }
method! { Panic "test.panic" Empty => Empty }
method! { Undo "test.undo" Empty => Empty }

macro_rules! subscription {
    ($name:ident $wire:literal $end:literal $notification:literal) => {
        pub(super) struct $name;
        impl Subscription for $name {
            const NAME: &'static str = $wire;
            const UNSUBSCRIBE: &'static str = $end;
            const NOTIFICATION: &'static str = $notification;
            const SUMMARY: &'static str = "For tests.";
            type Params = Empty;
            type Item = Text;
        }
    };
}

subscription! { Count "test.count" "test.uncount" "count" }
// One large item, and no end.
subscription! { Once "test.once" "test.unonce" "once" }

/// What the methods report to their test.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Seen {
    Echoed,
    Began,
    Paged,
    Dropped,
    Worked,
    Undone,
    Disconnected(u64),
}

#[derive(Debug)]
pub(super) struct Context {
    seen: mpsc::Sender<Seen>,
    release: watch::Sender<bool>,
    items: AtomicU64,
}

impl Context {
    async fn say(&self, seen: Seen) {
        self.seen.send(seen).await.unwrap();
    }

    async fn released(&self) {
        self.release.subscribe().wait_for(|released| *released).await.unwrap();
    }
}

/// More than a socket takes unread.
pub(super) const PAGE: usize = 4 << 20;

fn page() -> Text {
    Text { text: "x".repeat(PAGE) }
}

/// Says so when a call is dropped before its end.
struct Waiting(Option<Arc<Context>>);

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(context) = self.0.take() {
            context.seen.try_send(Seen::Dropped).unwrap();
        }
    }
}

fn api(context: &Arc<Context>) -> Api {
    let mut registry = Registry::new(Arc::clone(context), open());
    registry.read::<Echo, _, _>(|context, _, text| async move {
        context.say(Seen::Echoed).await;
        Ok(text)
    });
    registry.read::<Wait, _, _>(|context, _, _| async move {
        context.say(Seen::Began).await;
        let mut waiting = Waiting(Some(Arc::clone(&context)));
        context.released().await;
        waiting.0 = None;
        Ok(Empty {})
    });
    registry.page::<Page, _, _>(|context, _, _| async move {
        context.say(Seen::Paged).await;
        Ok(page())
    });
    registry.take::<Take, _, _>(|context, origin, _| async move {
        origin.turn().await?;
        context.say(Seen::Paged).await;
        Ok(page())
    });
    registry.work::<Work, _, _>(|context, _, _| async move {
        context.say(Seen::Began).await;
        context.released().await;
        context.say(Seen::Worked).await;
        Ok(Empty {})
    });
    registry.work::<Release, _, _>(|context, _, _| async move {
        context.release.send_replace(true);
        Ok(Empty {})
    });
    registry.read::<Panic, _, _>(|_, _, _| async move { panic!("on purpose") });
    registry.work::<Undo, _, _>(|context, origin, _| async move {
        context.say(Seen::Began).await;
        origin.cancelled.cancelled().await;
        context.say(Seen::Undone).await;
        Err(Error::new(Kind::Cancelled, "undone"))
    });
    registry.subscription::<Count, _, _>(|context, _, _| async move {
        let items = futures_util::stream::repeat_with(move || Text {
            text: format!("{}{}", context.items.fetch_add(1, Ordering::Relaxed), "x".repeat(1000)),
        });
        Ok(items.boxed())
    });
    registry.subscription::<Once, _, _>(|_, _, _| async move {
        Ok(futures_util::stream::iter([page()]).chain(futures_util::stream::pending()).boxed())
    });
    registry.fixed("rpc.discover", || serde_json::json!({"openrpc": "1"}));
    registry.finish().unwrap()
}

/// An edge behind a socket in a directory of its own.
#[derive(Debug)]
pub(super) struct Daemon {
    pub(super) edge: Arc<Edge>,
    pub(super) stop: CancellationToken,
    pub(super) tracker: TaskTracker,
    release: watch::Sender<bool>,
    seen: mpsc::Receiver<Seen>,
    dir: tempfile::TempDir,
}

impl Daemon {
    pub(super) fn start(limits: Limits) -> Self {
        Self::start_under(limits, |_| None)
    }

    pub(super) fn start_under(
        limits: Limits,
        task_of_shim: impl Fn(u32) -> Option<TaskId> + Send + Sync + 'static,
    ) -> Self {
        let (seen_by, seen) = mpsc::channel(4096);
        let release = watch::Sender::new(false);
        let context = Context { seen: seen_by.clone(), release: release.clone(), items: AtomicU64::new(0) };
        let api = api(&Arc::new(context));
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("s")).unwrap();
        let (stop, tracker) = (CancellationToken::new(), TaskTracker::new());
        let disconnected = Arc::new(move |conn| {
            let seen = seen_by.clone();
            Box::pin(async move { seen.send(Seen::Disconnected(conn)).await.unwrap() }) as _
        });
        let shims = Shims::new(PathBuf::new(), Arc::new(task_of_shim));
        let edge = Edge::new(api, limits, shims, disconnected, (stop.clone(), tracker.clone()));
        tracker.spawn(Arc::clone(&edge).serve(listener));
        Self { edge, stop, tracker, release, seen, dir }
    }

    pub(super) async fn socket(&self) -> UnixStream {
        UnixStream::connect(self.dir.path().join("s")).await.unwrap()
    }

    /// A client that speaks lines.
    pub(super) async fn client(&self) -> Client<UnixStream> {
        Client::ndjson(self.socket().await)
    }

    /// Lets the calls go that wait for it.
    pub(super) fn release(&self) {
        self.release.send_replace(true);
    }

    /// The next thing that a method reports.
    pub(super) async fn next(&mut self) -> Seen {
        tokio::time::timeout(Duration::from_secs(10), self.seen.recv()).await.unwrap().unwrap()
    }
}
