//! ccagentd: the supervisor daemon for AI agents.
//!
//! ```text
//! proto ← core ← store ← driver ← { llm, rpc, runner } ← here
//! ```
//!
//! This file is the only wiring: it opens the store, restores the core, and joins driver, runner and RPC edge.

pub mod config;
mod confined;
pub mod driver;
pub mod facts;
pub mod hub;
pub mod llm;
pub mod log;
mod panic;
pub mod ready;
mod removal;
pub mod rpc;
pub mod runner;
pub mod runtime;
pub mod shutdown;
pub mod socket;
pub mod store;
pub mod trust;
pub mod vault;

use std::os::unix::net::UnixListener;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use ccagent_core::{BadRecord, Core, Record};
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use config::{Config, Live};
use driver::{Clock, Driver, Handle};
use facts::Facts;
use hub::{Bounds, Hub};
use runner::{Delegated, Runner, Settings};
use socket::Bound;
use store::Store;
use trust::Trust;
use vault::Vault;

/// How long connections may go on after the daemon was told to stop, and after them the runner.
const DRAIN: Duration = Duration::from_secs(2);
/// How long work that panicked rests: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LAST_PAUSE: Duration = Duration::from_hours(1);
/// The fewest descriptors that a daemon can work with: its own, and some connections and agents.
const FEWEST_FILES: u64 = 64;

/// Reads all records of a store.
///
/// # Errors
/// A record that can't be read or understood: nothing is skipped.
fn restore(config: &Config, store: &Store) -> anyhow::Result<Core> {
    let mut broken = None;
    // Each goes into the core as it is read: all of them at once would take up the memory twice.
    let records = store
        .rows(Record::LOADED, record)
        .map_while(|read| known(config, read).map_err(|error| broken = Some(error)).ok());
    let core = Core::restore(config.limits(), records);
    broken.map_or(Ok(core), Err)
}

/// A record, or its key and what is wrong with it.
type Known = Result<Record, (String, BadRecord)>;

fn record(kind: &str, id: &str, value: &[u8]) -> Known {
    Record::decode(kind, value).map_err(|error| (format!("{kind}/{id}"), error))
}

fn known(config: &Config, read: Result<Known, store::StoreError>) -> anyhow::Result<Record> {
    read?.or_else(|(key, error)| {
        Err(error).with_context(|| format!("{key} in {} can't be understood", config.state_dir.display()))
    })
}

/// Runs a daemon until it is told to stop.
///
/// # Errors
/// What kept it from starting, or the store's failure.
pub async fn serve(
    live: Live,
    store: Store,
    socket: (UnixListener, Bound),
    ready: ready::Ready,
) -> anyhow::Result<()> {
    let config = live.current();
    let store = Arc::new(store);
    // Dropped before the store, whichever way this ends: while the store is locked no successor can have bound the
    // socket's path, so what is removed there is ours.
    let (listener, bound) = socket;
    let core = restore(&config, &store)?;
    let epoch: Arc<str> = Uuid::new_v4().simple().to_string().into();
    let bounds = Bounds {
        ring: config.count("event.ring") as usize,
        subscriber: config.count("limits.subscriber_queue") as usize,
    };
    let hub = Hub::new(epoch, bounds);
    let vault = Arc::new(Vault::default());
    let trust = Arc::new(Trust::open(&config.state_dir)?);
    let runner = Runner::new(settings(&config)?, store.clone(), hub.clone(), vault.clone())?;
    let inbox = config.count("limits.inbox") as usize;
    let (mut driver, handle) = Driver::new(core, store.clone(), hub.clone(), runner.clone(), inbox);
    runner.report_to(handle.clone());
    let survivors = driver.recover().await?;
    let driver = tokio::spawn(driver.run());
    runner.adopt(survivors);

    let stop = CancellationToken::new();
    let tracker = TaskTracker::new();
    let facts = Facts {
        config: Arc::new(live),
        store: store.clone(),
        handle: handle.clone(),
        hub,
        runner: runner.clone(),
        vault,
        trust,
        stop: stop.clone(),
        tracker: tracker.clone(),
        started_at: Clock::start().now(),
    };
    facts.tell_agents();
    let reloading = facts.clone();
    shutdown::on_signal(stop.clone(), move || reload(reloading.clone()))?;
    let over = CancellationToken::new();
    let serving = edge(&facts, listener, over.clone())?;
    tokio::spawn(kept_up("the keeping of the house", stop.clone(), move || keep_house(facts.clone())));
    ready.say()?;
    // Behind the first answers: with many tasks it takes a while.
    tracker.spawn({
        let (runner, handle) = (runner.clone(), handle.clone());
        kept_up("the sweep of old agents", stop.clone(), move || {
            let (runner, handle) = (runner.clone(), handle.clone());
            async move { runner.sweep(&handle).await }
        })
    });

    let ended = tokio::select! {
        ended = driver => ended.context("the driver panicked").and_then(|run| run.context("the store failed")),
        // An accept loop that ended leaves a deaf daemon (J121): that is an end as well.
        ended = serving => ended.context("the socket is not served any more"),
        () = bound.gone() => Err(anyhow::anyhow!("the socket's file was removed: nobody can reach this daemon; agents go on")),
        () = stop.cancelled() => Ok(()),
    };
    ready::stopping();
    stop.cancel();
    // Gone before the first connection is: who waits on for the next daemon sees that this one was meant to end.
    drop(bound);
    over.cancel();
    tracker.close();
    drop(tokio::time::timeout(DRAIN, tracker.wait()).await);
    let leave = async {
        handle.close().await;
        // Answered behind its commit: what was written in the last moment counts as heard.
        drop(handle.ask(|_, _| ()).await);
        runner.detach().await;
    };
    if tokio::time::timeout(DRAIN, leave).await.is_err() {
        tracing::warn!("not everything let go of its agent in time; the agents go on");
    }
    ended
}

/// What the runner needs of the config and the machine.
fn settings(config: &Config) -> anyhow::Result<Settings> {
    Ok(Settings {
        shim: shim()?,
        socket: config.socket.clone(),
        state_dir: config.state_dir.clone(),
        output_rate: config.bytes("output.rate"),
        output_most: config.bytes("output.task"),
        open_files: raise_open_files()?,
        cgroup: Delegated::find(),
    })
}

/// Lets the daemon itself have as many descriptors as it may: thousands of connections. Gives the limit from before.
///
/// # Errors
/// When they are too few to serve anybody.
fn raise_open_files() -> anyhow::Result<Option<u64>> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
    if let Some(most) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        anyhow::ensure!(
            most >= FEWEST_FILES,
            "the daemon may open only {most} files: it needs at least {FEWEST_FILES} (ulimit -n)"
        );
    }
    Ok(limit.current)
}

/// The shim stands beside the daemon; its path is fixed at the start, so that a replaced binary changes nothing.
fn shim() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("the daemon's own path is unknown")?;
    let path = own.with_file_name("ccagent-shim");
    anyhow::ensure!(path.exists(), "{} is missing: it is installed beside ccagentd", path.display());
    Ok(path)
}

/// Starts to serve the socket.
fn edge(
    facts: &Facts,
    listener: UnixListener,
    over: CancellationToken,
) -> anyhow::Result<tokio::task::JoinHandle<()>> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::UnixListener::from_std(listener)?;
    let limits = facts.edge_limits();
    let connections = Arc::new(std::sync::OnceLock::new());
    let context = Arc::new(facts.context(limits, connections.clone()));
    let api = rpc::methods::api(context).context("the methods could not be registered")?;
    let (runner, handle) = (facts.runner.clone(), facts.handle.clone());
    let gone = move |conn: u64| -> futures_util::future::BoxFuture<'static, ()> {
        let handle: Handle = handle.clone();
        Box::pin(async move { handle.disconnected(conn).await })
    };
    let edge = rpc::accept::Edge::new(
        api,
        limits,
        rpc::peer::Shims::new(shim()?, Arc::new(move |pid| runner.task_of_shim(pid))),
        Arc::new(gone),
        (over, facts.tracker.clone()),
    );
    drop(connections.set(edge.clone()));
    Ok(tokio::spawn(edge.serve(listener)))
}

/// Reads the config again, as `daemon.reload` does.
async fn reload(facts: Facts) {
    match facts.reload().await {
        Ok(changed) => tracing::info!(?changed, "the config was read again"),
        Err(error) => tracing::warn!(%error, "the config was not taken: the old one goes on"),
    }
}

/// Runs work that nobody waits for: a panic in it ends nothing else, is seen and named, and the work begins anew after a
/// while.
async fn kept_up<F: Future<Output = ()>>(
    what: &'static str,
    stop: CancellationToken,
    mut work: impl FnMut() -> F,
) {
    let mut pause = FIRST_PAUSE;
    while let Err(panic) = AssertUnwindSafe(work()).catch_unwind().await {
        tracing::error!(cause = panic::text(&*panic), again_in = ?pause, "{what} panicked");
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LAST_PAUSE),
            () = stop.cancelled() => return,
        }
    }
}

/// From time to time: an export, so that there is something to restore, and the end of old mail.
async fn keep_house(facts: Facts) {
    let every = facts.config.current().duration("daemon.export").max(Duration::from_mins(1));
    loop {
        if let Err(error) = facts.handle.sweep_mail().await {
            tracing::warn!(%error, "old mail could not be deleted");
        }
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = facts.stop.cancelled() => return,
        }
        if let Err(error) = facts.export(None).await {
            tracing::warn!(%error, "the store could not be exported");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::time::Instant;

    use super::*;

    /// I8: work that panicked begins anew after a pause, which grows; once it ends by itself it is over, and so it is when
    /// the daemon stops.
    #[tokio::test(start_paused = true)]
    async fn work_that_panicked_begins_anew() {
        let (rounds, began) = (AtomicU32::new(0), Instant::now());
        let work = || async {
            assert!(rounds.fetch_add(1, Ordering::Relaxed) == 2, "on purpose");
        };
        kept_up("the work", CancellationToken::new(), work).await;
        assert_eq!((rounds.into_inner(), began.elapsed()), (3, 3 * FIRST_PAUSE));
        let stop = CancellationToken::new();
        stop.cancel();
        kept_up("the work", stop, || async { panic!("on purpose") }).await;
    }
}
