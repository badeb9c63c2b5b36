//! Running a hook: on a tether as all programs of an agent, within its time, with as much of its output as is read.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ccagent_shim::confined;
use ccagent_shim::wire::{LeaderEnd, Stderr, TetherSpec};
use rustix::fs::Mode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{OpenOptions, Receiver, Sender};

use super::Hook;
use crate::tether::Tether;

/// Bytes of each stream that are kept.
const KEPT: usize = 64 << 10;
/// Between TERM and KILL.
const GRACE: Duration = Duration::from_secs(1);

/// What hooks are run with.
#[derive(Clone, Debug)]
pub struct Means {
    /// The shim, under which programs run.
    pub shim: PathBuf,
    /// The environment of programs, without keys of providers.
    pub env: BTreeMap<String, String>,
    /// Where they begin.
    pub cwd: PathBuf,
    /// The root of the repository, which they find in their environment.
    pub root: PathBuf,
    /// A directory of the task's own.
    pub temp: PathBuf,
    /// The only directories below which they may write; none is anywhere.
    pub writable: Vec<PathBuf>,
}

/// How a hook ended, and what it said.
#[derive(Debug, Default)]
pub(super) struct Ended {
    pub(super) code: Option<i32>,
    pub(super) out: String,
    pub(super) err: String,
    /// Why it did not end by itself, or did not begin.
    pub(super) broken: Option<String>,
}

/// Runs a hook to its end. What it leaves running ends with it.
pub(super) async fn run(hook: &Hook, means: &Means, input: &[u8]) -> Ended {
    let ended = began(hook, means, input).await;
    ended.unwrap_or_else(|why| Ended { broken: Some(why), ..Ended::default() })
}

async fn began(hook: &Hook, means: &Means, input: &[u8]) -> Result<Ended, String> {
    let failed = |error: io::Error| format!("it can't be started: {error}");
    // The shim hands on two streams: the third goes by a name of its own.
    std::fs::create_dir_all(&means.temp).map_err(failed)?;
    let pipes = tempfile::Builder::new().prefix("hook-").tempdir_in(&means.temp).map_err(failed)?;
    let err_path = pipes.path().join("err");
    let made = rustix::fs::mkfifoat(rustix::fs::CWD, &err_path, Mode::RUSR | Mode::WUSR);
    made.map_err(|error| failed(error.into()))?;
    let err = OpenOptions::new().read_write(true).open_receiver(&err_path).map_err(failed)?;
    let ((its_input, our_output), (our_input, its_output)) =
        (io::pipe().map_err(failed)?, io::pipe().map_err(failed)?);
    let out = Receiver::from_owned_fd(our_input.into()).map_err(failed)?;
    let feed = Sender::from_owned_fd(our_output.into()).map_err(failed)?;
    let spec = spec(hook, means, &err_path);
    let started = Tether::start(&means.shim, &spec, its_input.into(), its_output.into()).await;
    let tether = started.map_err(|error| format!("it can't be started: {error}"))?;
    Ok(follow(hook, tether, (out, err), feed, input).await)
}

fn spec(hook: &Hook, means: &Means, err: &Path) -> TetherSpec {
    let err = err.display().to_string();
    let words: Vec<String> = match &hook.args {
        None => vec![format!("exec 2>\"$0\"\n{}", hook.command), err],
        Some(args) => {
            let own = ["exec 2>\"$0\"; exec \"$@\"".to_owned(), err, hook.command.clone()];
            own.into_iter().chain(args.iter().cloned()).collect()
        }
    };
    let mut env = means.env.clone();
    env.insert("CLAUDE_PROJECT_DIR".to_owned(), means.root.display().to_string());
    let argv = ["sh".to_owned(), "-c".to_owned()].into_iter().chain(words).collect();
    TetherSpec {
        argv: confined::argv(&means.shim, &means.writable, argv),
        env,
        cwd: means.cwd.clone(),
        stderr: Stderr::Null,
        grace_ms: u64::try_from(GRACE.as_millis()).unwrap_or(u64::MAX),
        open_files: None,
    }
}

async fn follow(
    hook: &Hook,
    mut tether: Tether,
    (mut out, mut err): (Receiver, Receiver),
    mut feed: Sender,
    input: &[u8],
) -> Ended {
    let (mut out_kept, mut err_kept) = (Vec::new(), Vec::new());
    let feeding = async move {
        // Who does not read it does not need it.
        feed.write_all(input).await.ok();
        drop(feed);
        std::future::pending::<()>().await;
    };
    let ended = tokio::select! {
        biased;
        () = tokio::time::sleep(hook.timeout) => None,
        ended = tether.leader() => Some(ended),
        () = feeding => None,
        () = take(&mut out, &mut out_kept) => None,
        () = take(&mut err, &mut err_kept) => None,
    };
    rest(&out, &mut out_kept);
    rest(&err, &mut err_kept);
    tether.stop(GRACE).await;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
    let broken = match &ended {
        Some(Ok(end)) => match end.end {
            LeaderEnd { code: Some(_), .. } => None,
            LeaderEnd { code: None, signal } => {
                Some(format!("it was ended by signal {}", signal.unwrap_or_default()))
            }
        },
        Some(Err(_)) => Some("its supervisor was killed".to_owned()),
        None => Some(format!("it was ended: its {} ms were up", hook.timeout.as_millis())),
    };
    let code = ended.and_then(Result::ok).and_then(|end| end.end.code);
    Ended { code, out: text(out_kept), err: text(err_kept), broken }
}

/// Takes what comes for as long as somebody waits; what is beyond the bound is read and dropped.
async fn take(stream: &mut Receiver, kept: &mut Vec<u8>) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        keep(kept, &buffer[..read]);
    }
    std::future::pending::<()>().await;
}

/// Takes what is in a pipe by now.
fn rest(stream: &Receiver, kept: &mut Vec<u8>) {
    let mut buffer = vec![0; 16 << 10];
    while kept.len() < KEPT
        && let Ok(read @ 1..) = rustix::io::read(stream, &mut buffer)
    {
        keep(kept, &buffer[..read]);
    }
}

fn keep(kept: &mut Vec<u8>, bytes: &[u8]) {
    let room = KEPT.saturating_sub(kept.len()).min(bytes.len());
    kept.extend_from_slice(&bytes[..room]);
}
