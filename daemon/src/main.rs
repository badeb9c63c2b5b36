//! The program `ccagentd`.

mod heap;

use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use ccagentd::config::{self, Config, Flags, Live};
use ccagentd::log::Log;
use ccagentd::ready::Ready;
use ccagentd::store::{self, OpenError, Options, Store};
use ccagentd::{runtime, serve, shutdown, socket};
use clap::{Parser, ValueEnum};

/// Exit code where another daemon holds the state directory: try again, or talk to that one.
const HELD: u8 = 75;
/// How long the daemon that was too late waits for the other one's socket.
const OTHER: Duration = Duration::from_secs(5);
/// How long the last lines of the log may take.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long between two looks at that.
const AGAIN: Duration = Duration::from_millis(20);

/// The supervisor daemon for AI agents.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Args {
    /// The config file.
    #[arg(long, env = "CCAGENT_CONFIG")]
    config: Option<PathBuf>,
    /// The state directory; another one is another instance.
    #[arg(long, env = "CCAGENT_STATE_DIR")]
    state_dir: Option<PathBuf>,
    /// The socket: a path, or uds:<path>.
    #[arg(long, env = "CCAGENT_SOCKET")]
    socket: Option<String>,
    /// How log lines look.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// Check the config, print it and end.
    #[arg(long)]
    check_config: bool,
    /// Move a broken store aside and import an export: the newest, or the named one.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    #[expect(clippy::option_option, reason = "clap's shape of an option with or without a value")]
    restore: Option<Option<PathBuf>>,
    /// An inherited descriptor that gets one line once the socket is served.
    #[arg(long, hide = true)]
    ready_fd: Option<u32>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

fn main() -> ExitCode {
    heap::limit();
    let args = Args::parse();
    let ready_fd = args.ready_fd;
    let failed = |error: &anyhow::Error| {
        let ready = Ready { fd: ready_fd, socket: String::new() };
        drop(ready.line(&format!("failed {}", format!("{error:#}").replace('\n', " "))));
        ExitCode::FAILURE
    };
    if let Err(error) = shutdown::unblock() {
        return failed(&anyhow::Error::from(error).context("the signals could not be unblocked"));
    }
    let log = match Log::to(io::stderr()) {
        Ok(log) => log,
        Err(error) => return failed(&anyhow::Error::from(error).context("no thread for the log")),
    };
    let code = run(args, &log).unwrap_or_else(|error| {
        log.say(&format!("ccagentd: {error:#}"));
        failed(&error)
    });
    log.flush(LAST_WORDS);
    code
}

fn run(args: Args, out: &Log) -> anyhow::Result<ExitCode> {
    let flags =
        Flags { config: args.config.clone(), state_dir: args.state_dir.clone(), socket: args.socket.clone() };
    let config = Config::load(&flags, &config::variable)?;
    if args.check_config {
        print(&config)?;
        return Ok(ExitCode::SUCCESS);
    }
    log(&config, args.log_format, out.clone())?;
    let runtime = runtime::build()?;
    {
        let _inside = runtime.enter();
        shutdown::survive_file_limit().context("the limit of a file's size could not be watched")?;
    }
    if let Some(export) = args.restore {
        return restore(&config, export.as_deref());
    }

    // A daemon keeps no directory busy; its own paths are absolute by now.
    std::env::set_current_dir("/")?;
    let ready = Ready { fd: args.ready_fd, socket: config.socket.display().to_string() };
    let store = match open(&config)? {
        Opened::Ours(store) => store,
        Opened::Held(pid) => {
            ready.line(&format!("held {pid}"))?;
            tracing::warn!("the daemon {pid} serves {} already", config.state_dir.display());
            return Ok(ExitCode::from(HELD));
        }
    };
    heap::give_back();
    let socket = socket::listen(&config.socket)?;
    // Orphans of an agent whose shim was killed come to us, not to the machine's first process.
    nix::sys::prctl::set_child_subreaper(true).context("becoming a sub-reaper")?;
    tracing::info!(socket = %config.socket.display(), state = %config.state_dir.display(), "serving");
    let ended = runtime.block_on(serve(Live::new(flags, config), *store, socket, ready));
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended.map(|()| ExitCode::SUCCESS)
}

/// Whose the state directory is.
enum Opened {
    Ours(Box<Store>),
    /// Another daemon's, whose socket answers.
    Held(String),
}

/// Opens the store. Where another daemon holds it: once its socket answers, whoever started us can talk to it; and if
/// it is about to end and lets go, the store is ours.
#[expect(
    clippy::disallowed_methods,
    reason = "what another process does with its lock and socket is no event here"
)]
fn open(config: &Config) -> anyhow::Result<Opened> {
    let until = Instant::now() + OTHER;
    loop {
        let mut options = Options::new(ccagent_core::Record::KINDS);
        options.durability = config.durability();
        let holder = match Store::open(&config.state_dir, options) {
            Ok(store) => return Ok(Opened::Ours(Box::new(store))),
            Err(OpenError::Locked { holder, .. }) => holder,
            Err(error) => return Err(error.into()),
        };
        let pid = holder.map_or_else(|| "?".to_owned(), |pid| pid.to_string());
        if answers(&config.socket) {
            return Ok(Opened::Held(pid));
        }
        anyhow::ensure!(
            Instant::now() < until,
            "the process {pid} holds {}, and its socket {} does not answer",
            config.state_dir.display(),
            config.socket.display()
        );
        std::thread::sleep(AGAIN);
    }
}

/// Whether a daemon answers there: one that was killed a moment ago still takes connections.
fn answers(path: &std::path::Path) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = socket::connect_now(path)?;
        stream.set_read_timeout(Some(OTHER))?;
        stream.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"daemon.status\"}\n")?;
        Ok(stream.read(&mut [0; 1])? == 1)
    };
    ask().unwrap_or(false)
}

fn restore(config: &Config, export: Option<&std::path::Path>) -> anyhow::Result<ExitCode> {
    let restored = store::restore(&config.state_dir, export)?;
    let moved =
        restored.moved.map_or_else(String::new, |path| format!("; the old store is in {}", path.display()));
    tracing::info!("restored {} lines of {}{moved}", restored.lines, restored.export.display());
    Ok(ExitCode::SUCCESS)
}

fn print(config: &Config) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(&config.values)?;
    writeln!(io::stdout(), "{text}").context("the config could not be printed")
}

/// What is logged goes out, and panics with it: their usual way writes to stderr, and may have to wait there.
fn log(config: &Config, format: LogFormat, out: Log) -> anyhow::Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_new(config.log())
        .with_context(|| format!("daemon.log = {:?} is no log filter", config.log()))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(move || out.clone());
    match format {
        LogFormat::Text => builder.with_ansi(false).init(),
        LogFormat::Json => builder.json().init(),
    }
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    Ok(())
}
