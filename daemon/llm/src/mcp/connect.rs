//! Connections to servers: all at once, each within its time; what fails is said and holds nobody up.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ccagent_shim::confined;
use ccagent_shim::wire::{Stderr, TetherSpec};
use futures_util::future::join_all;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation};
use rmcp::service::{RoleClient, RunningService, serve_client};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio_util::task::AbortOnDropHandle;

use super::bound::{Bound, End};
use super::config::{Server, Way};
use super::expand::expand;
use super::lines::Lines;
use super::offer::{Offer, Offers};
use super::shared::{Shared, Use, User};
use super::words;
use crate::provider::http::{Http, Silence};
use crate::tether::Tether;
use crate::tool::cut;

/// How long a server has until its tools are known.
const CONNECT: Duration = Duration::from_secs(30);
/// Between the end of its input and TERM, and between that and KILL.
const GRACE: Duration = Duration::from_secs(2);
/// Bytes of one message of a server at most.
const MESSAGE_MOST: usize = 4 << 20;

/// The variable by which an agent's program is known.
const TOKEN: &str = "CCAGENT_TOKEN";

type Client = RunningService<RoleClient, ClientConfig>;

/// What servers are started with.
#[derive(Clone, Debug)]
pub struct Means {
    /// The shim, under which programs run.
    pub shim: PathBuf,
    /// The environment of programs, without keys of providers.
    pub env: BTreeMap<String, String>,
    /// Where programs begin.
    pub cwd: PathBuf,
    /// The only directories below which programs may write; none is anywhere.
    pub writable: Vec<PathBuf>,
}

/// The servers of one run. Dropping it ends them; [`end`](Self::end) lets them end by themselves first.
#[derive(Debug, Default)]
pub struct Connected {
    /// Their tools.
    pub offers: Offers,
    /// What is wrong with some, a sentence each.
    pub notes: Vec<String>,
    uses: Vec<Use>,
    failed: usize,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Line {
    client: Client,
    end: Arc<End>,
    tether: Option<Tether>,
    /// What reads its stderr.
    _hears: Option<AbortOnDropHandle<()>>,
}

/// Connects to servers, where nobody did with whom that is shared, and asks each for its tools.
pub async fn connect(servers: &[Server], means: &Means, (shared, user): (&Shared, &User)) -> Connected {
    let all = join_all(servers.iter().map(|server| async move {
        let used = shared.of(server, means, user);
        let offered = async {
            let Line { client, end, .. } = used.opened(Box::pin(open(server, means))).await?;
            let offer = in_time(Offer::of(server, client.peer().clone(), end.clone())).await;
            offer.map_err(|why| end.told(why))
        };
        let offered = Box::pin(offered).await;
        (used, offered)
    }));
    let mut connected = Connected::default();
    for (server, (used, offered)) in servers.iter().zip(all.await) {
        match offered {
            Ok((offer, note)) => {
                connected.uses.push(used);
                connected.offers.push(offer);
                connected.notes.extend(note.map(|note| format!("The MCP server {}: {note}", server.name)));
            }
            Err(why) => {
                let note = format!("The MCP server {} can't be used: {why}", server.name);
                connected.notes.push(note);
                connected.failed += 1;
            }
        }
    }
    connected
}

impl Connected {
    /// Whether every server gave its tools.
    pub fn is_whole(&self) -> bool {
        self.failed == 0
    }

    /// Keeps all for a while, for a next run of the same agent, and ends then what nobody uses.
    pub async fn rest(self) {
        join_all(self.uses.into_iter().map(Use::rest)).await;
    }

    /// Ends what nobody else uses.
    pub async fn end(self) {
        join_all(self.uses.into_iter().map(Use::end)).await;
    }
}

impl Line {
    /// Whether nothing comes of it any more.
    pub(super) fn is_over(&self) -> bool {
        self.end.why().is_some() || self.client.is_transport_closed()
    }

    /// Says of its program whose it is: with the end of that task's run it has to be gone, unless it rests.
    pub(super) fn belongs_to(&self, task: &str, how: (bool, bool)) {
        if let Some(tether) = &self.tether {
            tether.belongs_to(task, how);
        }
    }

    /// Ends it: the input of a program is closed, then it is asked to end, then it is ended.
    pub(super) async fn end(self) {
        let Self { client, end, tether, _hears } = self;
        // What it did not read by now it is not waited for.
        end.cut();
        // A server that does not listen any more ends all the same.
        drop(tokio::time::timeout(GRACE, client.cancel()).await);
        if let Some(mut tether) = tether
            && tokio::time::timeout(GRACE, tether.empty()).await.is_err()
        {
            tether.stop(GRACE).await;
        }
    }
}

/// What comes in the time that a server has until its tools are known.
async fn in_time<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let late = |_| Err(format!("it did not give its tools within {} s", CONNECT.as_secs()));
    tokio::time::timeout(CONNECT, Box::pin(work)).await.unwrap_or_else(late)
}

/// A new connection.
async fn open(server: &Server, means: &Means) -> Result<Line, String> {
    let end = Arc::new(End::default());
    let opening = in_time(async {
        match &server.way {
            Way::Stdio { command, args, env } => program((command, args, env), means, &end).await,
            Way::Http { url, headers } => address(url, headers, means, &end).await,
        }
    });
    opening.await.map_err(|why| end.told(why))
}

fn us() -> ClientConfig {
    let us = Implementation::new("ccagent", env!("CARGO_PKG_VERSION"));
    ClientConfig::new(ClientCapabilities::default(), us)
}

async fn program(
    (command, args, own): (&str, &[String], &BTreeMap<String, String>),
    means: &Means,
    end: &Arc<End>,
) -> Result<Line, String> {
    let failed = |error: io::Error| format!("its program can't be started: {error}");
    let own = own.iter().map(|(name, value)| Ok((name.clone(), expand(value, &means.env)?)));
    let own: BTreeMap<String, String> = own.collect::<Result<_, String>>()?;
    let argv = std::iter::once(command).chain(args.iter().map(String::as_str));
    let argv = argv.map(|word| expand(word, &means.env)).collect::<Result<_, _>>()?;
    let heard = words::hear(&own).map_err(failed)?;
    end.has(heard.words.clone());
    let mut env = means.env.clone();
    // Others may come to use it, and are not to act as this agent: who it is shows by what stands above it.
    env.remove(TOKEN);
    env.extend(own);
    let spec = TetherSpec {
        argv: confined::argv(&means.shim, &means.writable, argv),
        env,
        cwd: means.cwd.clone(),
        stderr: Stderr::Pipe(heard.path.clone()),
        grace_ms: u64::try_from(GRACE.as_millis()).unwrap_or(u64::MAX),
        open_files: None,
    };
    let ((its_input, our_output), (our_input, its_output)) =
        (io::pipe().map_err(failed)?, io::pipe().map_err(failed)?);
    let reader = Receiver::from_owned_fd(our_input.into()).map_err(failed)?;
    let writer = Sender::from_owned_fd(our_output.into()).map_err(failed)?;
    let started = Tether::start(&means.shim, &spec, its_input.into(), its_output.into()).await;
    let tether = started.map_err(|error| format!("its program can't be started: {error}"))?;
    let client = spoken(Lines::new(reader, writer, MESSAGE_MOST), end).await?;
    Ok(Line { client, end: end.clone(), tether: Some(tether), _hears: Some(heard.reader) })
}

async fn address(
    url: &str,
    headers: &BTreeMap<String, String>,
    means: &Means,
    end: &Arc<End>,
) -> Result<Line, String> {
    let mut config = StreamableHttpClientTransportConfig::with_uri(expand(url, &means.env)?);
    let mut own = HashMap::new();
    for (name, value) in headers {
        let name: reqwest::header::HeaderName =
            name.parse().map_err(|_| format!("{name:?} is no name of a header"))?;
        let value = expand(value, &means.env)?;
        let value = value.parse().map_err(|_| format!("the value of the header {name} can't be sent"))?;
        own.insert(name, value);
    }
    config.custom_headers = own;
    config.max_sse_event_size = MESSAGE_MOST;
    config.max_json_response_size = MESSAGE_MOST;
    let http = Http::new(&means.env, Silence::default()).map_err(|error| error.to_string())?;
    let transport = StreamableHttpClientTransport::with_client(http.client(), config);
    let client = spoken(transport, end).await?;
    Ok(Line { client, end: end.clone(), tether: None, _hears: None })
}

/// Says and hears what a connection begins with.
async fn spoken(way: impl Transport<RoleClient> + 'static, end: &Arc<End>) -> Result<Client, String> {
    let client = serve_client(us(), Bound::new(way, end.clone())).await;
    client.map_err(|error| {
        let mut text = format!("it does not speak MCP as it should: {error}");
        cut(&mut text, 500);
        end.why().map_or(text, str::to_owned)
    })
}
