//! From the start line to a running agent, in the one order that never runs anything twice.
//!
//! Claim first; what fails after it is final for this attempt and leaves an exit record, so that a daemon that died
//! while it waited for the reply learns the same as one that did not.

use ccagent_shim::{
    files::{self, ClaimRecord, ShimRecord},
    timeline::now_ms,
    tree::{self, Process},
    wire::{ExitRecord, StartErrorKind, StartFailure, StartSpec},
};
use nix::sys::{
    signal::{SigSet, Signal},
    signalfd::{SfdFlags, SignalFd},
};
use rustix::process::getpid;

use crate::{
    attempt::Attempt,
    cgroup::Cgroup,
    child::{self, Started},
    control::Control,
    failure, other,
    sink::Sink,
    supervisor::Supervisor,
};

/// Claims the attempt and starts its agent.
pub(crate) fn launch(spec: &StartSpec) -> Result<Supervisor, StartFailure> {
    let shim = own_process()?;
    let boot_id = files::boot_id().map_err(|error| other("boot id", &error))?;
    let claim = ClaimRecord {
        version: files::VERSION,
        shim_pid: shim.pid,
        shim_start: shim.start_time,
        boot_id: boot_id.clone(),
    };
    let attempt = Attempt::claim(&spec.dir, &claim)?;
    let record = ShimRecord {
        version: files::VERSION,
        task_id: spec.task_id.clone(),
        attempt: spec.attempt,
        shim_pid: shim.pid,
        shim_start: shim.start_time,
        boot_id,
        pid: None,
        start_time: None,
        token_hash: files::token_hash(&spec.token),
    };
    let mut bytes = 0;
    match start(spec, &attempt, record, &mut bytes) {
        Ok(parts) => Ok(Supervisor::new(attempt, shim, parts)),
        Err(failure) => {
            leave_failure(&attempt, &failure, bytes);
            Err(failure)
        }
    }
}

/// What a started attempt consists of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) sink: Sink,
    pub(crate) control: Control,
    pub(crate) signals: SignalFd,
    pub(crate) cgroup: Option<Cgroup>,
    pub(crate) started: Started,
}

fn start(
    spec: &StartSpec,
    attempt: &Attempt,
    mut record: ShimRecord,
    bytes: &mut u64,
) -> Result<Parts, StartFailure> {
    let sink = Sink::open(spec)?;
    *bytes = sink.len();
    let listener = attempt
        .bind_control()
        .map_err(|error| failure(StartErrorKind::ControlSocket, "control socket", &error))?;
    let control = Control::new(listener, spec.token.clone());
    let cgroup = spec.cgroup.as_deref().map(Cgroup::open).transpose();
    let cgroup = cgroup.map_err(|error| other("cgroup", &error))?;
    let signals = signals().map_err(|error| other("signals", &error.into()))?;
    attempt.write(files::SHIM, &record).map_err(|error| other("shim record", &error))?;
    let started = child::start(spec, cgroup.as_ref())?;
    record.pid = Some(started.leader.pid);
    record.start_time = Some(started.leader.start_time);
    // The agent runs: whatever happens to this file now, it must be supervised.
    attempt.write(files::SHIM, &record).ok();
    Ok(Parts { sink, control, signals, cgroup, started })
}

fn leave_failure(attempt: &Attempt, failure: &StartFailure, output_bytes: u64) {
    let record = ExitRecord {
        version: files::VERSION,
        code: None,
        signal: None,
        start_failed: Some(failure.clone()),
        ended_at: now_ms(),
        output_bytes,
        output_truncated: false,
        output_error: None,
        stopped: false,
        forced: false,
        oom: false,
    };
    // The reply says it too; only both failing together would leave the claim as the last word.
    attempt.write_exit(&record).ok();
    attempt.unlink_control();
}

/// Blocked in `main`, so that none is lost between there and here.
pub(crate) fn signals() -> nix::Result<SignalFd> {
    let mut set = SigSet::empty();
    set.add(Signal::SIGCHLD);
    set.add(Signal::SIGTERM);
    SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
}

fn own_process() -> Result<Process, StartFailure> {
    let stat = tree::stat::read(getpid().as_raw_nonzero().get()).map_err(|error| other("/proc", &error))?;
    stat.map(|stat| stat.process()).ok_or_else(|| other("/proc", &rustix::io::Errno::SRCH.into()))
}
