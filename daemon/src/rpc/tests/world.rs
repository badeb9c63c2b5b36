//! The whole edge over a real core and store; the test plays the runner.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccagent_core::effect::Start;
use ccagent_core::input::{Ended, Report};
use ccagent_core::task::{Shim, Stop};
use ccagent_core::{Core, Limits as Rules, RunnerEvent};
use ccagent_proto::daemon::{DaemonExportResult, DaemonMetricsResult, ShutdownMode};
use ccagent_proto::task::Exit;
use ccagent_proto::{Millis, TaskId};
use serde_json::{Value, json};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::super::accept::Edge;
use super::super::context::{Context, Times};
use super::super::daemon::{Daemon, Info, Overview};
use super::super::peer::{Node, Shims};
use super::super::{Limits, methods};
use super::client::{Client, call, result};
use crate::driver::{Driver, Handle, Hands};
use crate::hub::{Bounds, Hub};
use crate::runner::{Runner, Settings};
use crate::store::Store;
use crate::vault::Vault;

/// What the core wants of the runner.
#[derive(Debug)]
pub(super) enum Order {
    Start(Box<Start>),
    Stop(TaskId, Millis),
    Forget,
}

struct Orders(mpsc::Sender<Order>, Arc<Vault>);

impl Hands for Orders {
    fn start(&self, start: Start) {
        self.0.try_send(Order::Start(Box::new(start))).unwrap();
    }

    fn stop(&self, task: TaskId, _: u32, Stop { grace_ms, .. }: Stop) {
        self.0.try_send(Order::Stop(task, grace_ms)).unwrap();
    }

    fn close_output(&self, _: TaskId, _: u32) {}

    fn let_go(&self, _: TaskId) {}

    fn log(&self, _: String, _: Value) {}

    fn remove_files(&self, _: String) {}

    fn forget(&self, vault: u64) {
        self.1.forget(vault);
        self.0.try_send(Order::Forget).unwrap();
    }
}

pub(super) struct World {
    pub(super) edge: Arc<Edge>,
    pub(super) context: Arc<Context>,
    pub(super) handle: Handle,
    pub(super) hub: Hub,
    pub(super) vault: Arc<Vault>,
    pub(super) ended: mpsc::Receiver<ShutdownMode>,
    /// Whose connections are taken from now on: an agent's, or an operator's.
    pub(super) agent: Arc<Mutex<Option<TaskId>>>,
    orders: mpsc::Receiver<Order>,
    dir: tempfile::TempDir,
}

impl World {
    pub(super) fn new() -> Self {
        Self::under(Rules::default())
    }

    pub(super) fn under(rules: Rules) -> Self {
        Self::within(rules, Limits::default())
    }

    pub(super) fn within(mut rules: Rules, limits: Limits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let state_dir = dir.path().join("state");
        let store = Arc::new(
            Store::open(&state_dir, crate::store::Options::new(ccagent_core::Record::KINDS)).unwrap(),
        );
        let listener = UnixListener::bind(dir.path().join("s")).unwrap();
        let hub = Hub::new("epoch".into(), Bounds { ring: 1000, subscriber: 1000 });
        rules.state_dir = state_dir.to_str().unwrap().into();
        let (sender, orders) = mpsc::channel(1000);
        let core = Core::restore(rules, []);
        let vault = Arc::new(Vault::default());
        let hands = Orders(sender, Arc::clone(&vault));
        let (mut driver, handle) = Driver::new(core, Arc::clone(&store), hub.clone(), hands, 1000);
        tokio::spawn(async move {
            driver.recover().await.unwrap();
            driver.run().await.unwrap();
        });
        let settings = Settings {
            shim: PathBuf::new(),
            socket: PathBuf::new(),
            state_dir,
            output_rate: 0,
            output_most: 1 << 30,
            open_files: None,
            cgroup: None,
        };
        let runner = Runner::new(settings, store, hub.clone(), Arc::clone(&vault)).unwrap();
        let (end, ended) = mpsc::channel(1);
        let tracker = TaskTracker::new();
        let context = Context {
            handle: handle.clone(),
            hub: hub.clone(),
            runner,
            vault: Arc::clone(&vault),
            times: Times { grace_ms: 10_000, stop_all_ms: 5_000 },
            daemon: daemon(&dir, end),
            tracker: tracker.clone(),
            closing: CancellationToken::new(),
        };
        let context = Arc::new(context);
        let api = methods::api(Arc::clone(&context)).unwrap();
        let teller = handle.clone();
        let disconnected = Arc::new(move |conn| {
            let teller = teller.clone();
            Box::pin(async move { teller.disconnected(conn).await }) as _
        });
        let stop = CancellationToken::new();
        let agent: Arc<Mutex<Option<TaskId>>> = Arc::default();
        let whose = Arc::clone(&agent);
        let shims = Shims::new(PathBuf::new(), Arc::new(move |_| *whose.lock().unwrap()));
        let edge = Edge::new(api, limits, shims, disconnected, (stop, tracker));
        tokio::spawn(Arc::clone(&edge).serve(listener));
        Self { edge, context, handle, hub, vault, ended, agent, orders, dir }
    }

    /// A new connection.
    pub(super) fn client(&self) -> Client<UnixStream> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        self.edge.admit(ours);
        Client::ndjson(theirs)
    }

    pub(super) async fn order(&mut self) -> Order {
        tokio::time::timeout(Duration::from_secs(10), self.orders.recv()).await.unwrap().unwrap()
    }

    /// The next start that the core wants.
    pub(super) async fn start(&mut self) -> Start {
        match self.order().await {
            Order::Start(start) => *start,
            other => panic!("{other:?}"),
        }
    }

    pub(super) async fn report(&self, start: &Start, what: Report) {
        self.handle.report(RunnerEvent { task: start.task, attempt: start.attempt, what }).await;
    }

    /// Says that a program runs.
    pub(super) async fn started(&self, start: &Start) {
        self.report(start, Report::Started { pid: 4242, shim: Shim::default() }).await;
    }

    /// Sends a spawn, says that its program runs, and takes the answer.
    pub(super) async fn running(&mut self, client: &mut Client<UnixStream>, spawn: &str) -> Start {
        client.send(spawn).await;
        let start = self.start().await;
        self.started(&start).await;
        client.next().await.unwrap();
        start
    }

    /// A run, and a client that is its agent by its token.
    pub(super) async fn agent_by_token(&mut self) -> (Start, Client<UnixStream>) {
        let start = self.running(&mut self.client(), &spawn(1, json!({"runInBackground": true}))).await;
        let mut agent = self.client();
        let client = json!({"name": "t", "version": "1"});
        let hello = json!({"protocolVersion": 1, "client": client, "token": start.token});
        assert_eq!(result(&agent.ask(&call(1, "daemon.hello", hello)).await)["role"], "agent");
        (start, agent)
    }

    /// Says that a program ended with this code.
    pub(super) async fn ended(&self, start: &Start, code: i32, tail: &str) {
        let exit = Exit { code: Some(code), signal: None };
        let tail = (!tail.is_empty()).then(|| tail.into());
        self.report(start, Report::Ended(Ended { exit, tail, ..Ended::default() })).await;
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

fn daemon(dir: &tempfile::TempDir, end: mpsc::Sender<ShutdownMode>) -> Daemon {
    Daemon {
        info: Info {
            socket: dir.path().join("s").display().to_string(),
            node: Node::at(&dir.path().join("s")),
            state_dir: dir.path().display().to_string(),
            epoch: "epoch".into(),
            started_at: 1,
            durability: "process".into(),
        },
        limits: Limits::default(),
        overview: Box::new(|()| Box::pin(async { Ok(Overview::default()) })),
        metrics: Box::new(|()| {
            Box::pin(async { Ok(DaemonMetricsResult { text: String::new(), values: BTreeMap::default() }) })
        }),
        config: Box::new(|_| Box::pin(async { Ok(BTreeMap::default()) })),
        set_flag: Box::new(|_| Box::pin(async { Ok(true) })),
        reload: Box::new(|()| Box::pin(async { Ok(Vec::new()) })),
        export: Box::new(|_| Box::pin(async { Ok(DaemonExportResult::default()) })),
        end: Box::new(move |mode| end.try_send(mode).unwrap()),
    }
}

/// A spawn call.
pub(super) fn spawn(id: u64, mut params: Value) -> String {
    params["command"] = json!(["prog"]);
    params["cwd"] = "/".into();
    call(id, "agent.spawn", params)
}
