//! What the daemon says of itself: status, metrics, config, warnings. Filled into the RPC edge by the wiring.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use ccagent_llm::provider::choose::Table;
use ccagent_proto::daemon::{ConfigValue, DaemonExportResult, DaemonMetricsResult};
use ccagent_proto::{Error, Kind, Millis};
use rustix::fs::statfs;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{Config, KEYS, Live};
use crate::driver::Handle;
use crate::hub::Hub;
use crate::llm::Known;
use crate::rpc::accept::Edge;
use crate::rpc::context::{Context, Times};
use crate::rpc::daemon::{Daemon, Info, Overview};
use crate::rpc::peer::Node;
use crate::runner::Runner;
use crate::store::{Durability, Store};
use crate::trust::Trust;
use crate::vault::Vault;

/// The file system type of a memory disk.
const TMPFS: i64 = 0x0102_1994;

/// The parts that facts come from.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The config.
    pub config: Arc<Live>,
    /// The store.
    pub store: Arc<Store>,
    /// The way to the core.
    pub handle: Handle,
    /// Events.
    pub hub: Hub,
    /// Process agents.
    pub runner: Runner,
    /// Environment values.
    pub vault: Arc<Vault>,
    /// What of repositories may run.
    pub trust: Arc<Trust>,
    /// Ends the daemon.
    pub stop: CancellationToken,
    /// Where connections and their work live.
    pub tracker: TaskTracker,
    /// When the daemon started.
    pub started_at: Millis,
}

type Edges = Arc<OnceLock<Arc<Edge>>>;

impl Facts {
    /// The bounds of the RPC edge.
    pub fn edge_limits(&self) -> crate::rpc::Limits {
        let config = self.config.current();
        crate::rpc::Limits {
            connections: config.count("limits.connections") as usize,
            frame: usize::try_from(config.bytes("limits.frame")).unwrap_or(usize::MAX),
            ..crate::rpc::Limits::default()
        }
    }

    /// What the methods of the edge share.
    pub fn context(&self, limits: crate::rpc::Limits, edges: Edges) -> Context {
        let rules = self.config.current().limits();
        Context {
            handle: self.handle.clone(),
            hub: self.hub.clone(),
            runner: self.runner.clone(),
            vault: self.vault.clone(),
            times: Times { grace_ms: rules.grace_ms, stop_all_ms: rules.stop_all_ms },
            daemon: self.daemon(limits, edges),
            tracker: self.tracker.clone(),
            closing: CancellationToken::new(),
        }
    }

    fn daemon(&self, limits: crate::rpc::Limits, edges: Edges) -> Daemon {
        let current = self.config.current();
        let durability = match current.durability() {
            Durability::Power => "power",
            Durability::Process => "process",
        };
        let info = Info {
            socket: current.socket.display().to_string(),
            // Taken once: a socket that is moved later stays ours.
            node: Node::at(&current.socket),
            state_dir: current.state_dir.display().to_string(),
            epoch: self.hub.epoch().to_owned(),
            started_at: self.started_at,
            durability: durability.to_owned(),
        };
        let (overview, metrics, config, export, reload) =
            (self.clone(), self.clone(), self.config.clone(), self.clone(), self.clone());
        let also = edges.clone();
        let stop = self.stop.clone();
        Daemon {
            info,
            limits,
            overview: Box::new(move |()| Box::pin(overview.clone().overview(edges.clone()))),
            metrics: Box::new(move |()| Box::pin(metrics.clone().metrics(also.clone()))),
            config: Box::new(move |key| {
                Box::pin(std::future::ready(values(&config.current(), key.as_deref())))
            }),
            set_flag: {
                let facts = self.clone();
                Box::new(move |(name, on)| {
                    let facts = facts.clone();
                    Box::pin(async move { facts.set_flag(&name, on).await })
                })
            },
            reload: Box::new(move |()| Box::pin(reload.clone().reload())),
            export: Box::new(move |path| {
                let facts = export.clone();
                Box::pin(async move { facts.export(path).await })
            }),
            end: Box::new(move |_| stop.cancel()),
        }
    }

    /// Reads the config again, and gives the keys that changed.
    ///
    /// # Errors
    /// What is wrong with the config; then the old one goes on.
    pub async fn reload(self) -> Result<Vec<String>, Error> {
        let config = self.config.clone();
        let read = tokio::task::spawn_blocking(move || config.reload()).await;
        let changed = read
            .map_err(|error| Error::new(Kind::Internal, error.to_string()))?
            .map_err(|error| Error::new(Kind::BadConfig, error.to_string()))?;
        self.handle.reconfigure(self.config.current().limits()).await;
        self.tell_agents();
        Ok(changed)
    }

    /// Switches a feature on or off.
    async fn set_flag(&self, name: &str, on: bool) -> Result<bool, Error> {
        if !self.config.set_flag(name, on) {
            return Err(no_flag(name));
        }
        self.handle.reconfigure(self.config.current().limits()).await;
        self.tell_agents();
        Ok(true)
    }

    /// What agents are made with from now on.
    pub fn tell_agents(&self) {
        self.runner.learn(known(&self.config.current(), self.trust.clone()));
    }

    async fn overview(self, edges: Edges) -> Result<Overview, Error> {
        let (counts, paused) = self.handle.ask(|core, _| (core.counts(), core.paused())).await?;
        let store = self.store.clone();
        let store_bytes = tokio::task::spawn_blocking(move || store.bytes_on_disk()).await.unwrap_or(0);
        Ok(Overview {
            counts,
            paused,
            connections: edges.get().map_or(0, |edge| edge.connections()),
            store_bytes,
            flags: self.config.current().flags(),
            warnings: self.warnings(),
        })
    }

    async fn metrics(self, edges: Edges) -> Result<DaemonMetricsResult, Error> {
        let events = self.hub.seq();
        let overview = self.overview(edges).await?;
        let mut values: BTreeMap<String, f64> = BTreeMap::new();
        for (status, count) in &overview.counts {
            values.insert(format!("ccagent_tasks{{status=\"{status}\"}}"), to_float(*count));
        }
        values.insert("ccagent_connections".to_owned(), to_float(overview.connections));
        values.insert("ccagent_store_bytes".to_owned(), to_float(overview.store_bytes));
        values.insert("ccagent_events_total".to_owned(), to_float(events));
        let mut text = String::new();
        for (name, value) in &values {
            // Writing to a String can't fail.
            _ = writeln!(text, "{name} {value}");
        }
        Ok(DaemonMetricsResult { text, values })
    }

    /// Writes the store to a file: the named one, or the next below the state directory.
    ///
    /// # Errors
    /// What kept the file from being written.
    pub async fn export(&self, path: Option<String>) -> Result<DaemonExportResult, Error> {
        if let Some(path) = path.as_deref()
            && (!path.starts_with('/') || std::fs::symlink_metadata(path).is_ok())
        {
            let why = "an export goes to an absolute path where nothing is yet";
            return Err(Error::new(Kind::BadPath, why).with("path", path));
        }
        let store = self.store.clone();
        let written = tokio::task::spawn_blocking(move || match path {
            Some(path) => store.export(Path::new(&path)).map(|()| path.into()),
            None => store.export_now(),
        });
        let path = written
            .await
            .map_err(|error| Error::new(Kind::Internal, error.to_string()))?
            .map_err(|error| Error::new(Kind::BadPath, error.to_string()))?;
        let bytes = std::fs::metadata(&path).map_or(0, |file| file.len());
        Ok(DaemonExportResult { path: path.display().to_string(), bytes })
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let own = std::fs::read_link("/proc/self/exe");
        if own.is_ok_and(|path| path.to_string_lossy().ends_with(" (deleted)")) {
            warnings.push("the daemon's program was replaced: restart it to run the new one".to_owned());
        }
        if statfs(&self.config.current().state_dir).is_ok_and(|fs| fs.f_type == TMPFS) {
            warnings.push(
                "the state is on a memory disk: it does not survive a restart of the machine".to_owned(),
            );
        }
        warnings
    }
}

#[expect(clippy::cast_precision_loss, reason = "metrics are floating point")]
fn to_float(count: u64) -> f64 {
    count as f64
}

fn values(config: &Config, key: Option<&str>) -> Result<BTreeMap<String, ConfigValue>, Error> {
    match key {
        None => Ok(config.values.clone()),
        Some(key) => {
            let value = config.values.get(key).ok_or_else(|| {
                let known: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
                Error::new(Kind::BadConfig, format!("there is no config key {key:?}")).with("keys", known)
            })?;
            Ok(BTreeMap::from([(key.to_owned(), value.clone())]))
        }
    }
}

fn no_flag(name: &str) -> Error {
    let known: Vec<&str> = KEYS.iter().filter_map(|key| key.name.strip_prefix("flags.")).collect();
    Error::new(Kind::FeatureOff, format!("there is no feature flag {name:?}: there are {}", known.join(", ")))
        .with("flag", name)
}

/// What of a config agents inside the daemon are made with.
fn known(config: &Config, trust: Arc<Trust>) -> Known {
    let flags = config.flags().into_iter().map(|(name, on)| (name, serde_json::Value::from(on)));
    let search = config.search();
    let key = search.as_ref().and_then(|search| search.key_env.clone());
    Known {
        table: Table::new(config.providers.clone()).beside(key),
        search,
        max_fork_depth: config.max_fork_depth(),
        confines: config.confines(),
        stall: config.duration("task.stall"),
        precedence: config.precedence(),
        plugins: config.plugins(),
        flags: serde_json::from_value(flags.collect::<serde_json::Map<_, _>>().into()).unwrap_or_default(),
        trust,
    }
}
