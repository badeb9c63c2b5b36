//! The one place for exit codes, and for how a failure is said.
//!
//! ```text
//! 0 ok · 1 failed · 2 usage · 3 not running or not found · 4 not permitted · 5 needs input and none can be given
//! 6 conflict · 7 limit hit · 69 unreachable · 75 overloaded, try again · 124 time elapsed · 130/143 interrupted
//! ```

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::process::ExitCode;

use ccagent_client::{Error, RpcError};
use ccagent_proto::Kind;
use ccagent_proto::task::{Task, TaskStatus};
use serde_json::{Value, json};

use crate::{output, render, screen};

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit(pub(crate) u8);

impl Exit {
    pub(crate) const OK: Self = Self(0);
    pub(crate) const FAILED: Self = Self(1);
    pub(crate) const USAGE: Self = Self(2);
    pub(crate) const NOT_FOUND: Self = Self(3);
    pub(crate) const NOT_PERMITTED: Self = Self(4);
    pub(crate) const NEEDS_INPUT: Self = Self(5);
    pub(crate) const CONFLICT: Self = Self(6);
    pub(crate) const LIMIT: Self = Self(7);
    pub(crate) const UNREACHABLE: Self = Self(69);
    pub(crate) const OVERLOADED: Self = Self(75);
    pub(crate) const TIMEOUT: Self = Self(124);
    pub(crate) const NOT_EXECUTABLE: Self = Self(126);
    pub(crate) const NO_PROGRAM: Self = Self(127);
    pub(crate) const INTERRUPTED: Self = Self(130);
    pub(crate) const BROKEN_PIPE: Self = Self(141);
    pub(crate) const TERMINATED: Self = Self(143);
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}

/// A failure that arises on this side, with its exit code.
#[derive(Debug)]
pub(crate) struct Stop {
    pub(crate) exit: Exit,
    pub(crate) message: String,
}

impl Stop {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Stop {}

/// The exit code of a failure.
pub(crate) fn of(error: &anyhow::Error) -> Exit {
    for cause in error.chain() {
        if let Some(stop) = cause.downcast_ref::<Stop>() {
            return stop.exit;
        }
        if let Some(error) = cause.downcast_ref::<Error>() {
            return of_client(error);
        }
    }
    Exit::FAILED
}

fn of_client(error: &Error) -> Exit {
    match error {
        Error::Rpc(error) => of_rpc(error),
        Error::NotRunning { .. } => Exit::NOT_FOUND,
        Error::Full { .. } => Exit::OVERLOADED,
        Error::Unreachable { .. }
        | Error::Closed
        | Error::Silent { .. }
        | Error::Gone { .. }
        | Error::Start { .. } => Exit::UNREACHABLE,
        Error::Place(_) => Exit::USAGE,
        Error::Unexpected(_) => Exit::FAILED,
    }
}

/// The exit code of an error that the daemon answered; by code, so that kinds newer than this client have one too.
fn of_rpc(error: &RpcError) -> Exit {
    if error.kind == Some(Kind::IdempotencyConflict) {
        return Exit::CONFLICT;
    }
    match error.code {
        -32602 | -32601 | 1203 => Exit::USAGE,
        -32002 | 1101 | 1102 | 1104 | 1113 | 1301 | 1401 | 1404 => Exit::NOT_FOUND,
        -32000 | 1107 | 1405 | 1503 => Exit::NOT_PERMITTED,
        1111 | 1501 | 1502 | 1402 | 1403 | 1412 | 1416 | 1602 | 1605 | 1606 => Exit::CONFLICT,
        -32007 | 1112 | 1305 | 1610 => Exit::LIMIT,
        -32001 | -32020 | 1109 | 1303 | 1309 | 1821 | 1902 | 1903 => Exit::OVERLOADED,
        1901 => Exit::NEEDS_INPUT,
        1702 => match error.text("cause") {
            Some("notFound") => Exit::NO_PROGRAM,
            Some("notExecutable") => Exit::NOT_EXECUTABLE,
            _ => Exit::FAILED,
        },
        _ => Exit::FAILED,
    }
}

/// The exit code that stands for how a task's program ended, as a shell would give it.
pub(crate) fn of_run(task: &Task) -> Exit {
    match task.error.as_ref().map(|error| error.kind.as_str()) {
        Some("timeout") => return Exit::TIMEOUT,
        Some("output") => return Exit::LIMIT,
        Some("notFound") => return Exit::NO_PROGRAM,
        Some("notExecutable") => return Exit::NOT_EXECUTABLE,
        _ => {}
    }
    let exit = task.exit.unwrap_or_default();
    let code = exit.code.or(exit.signal.map(|signal| 128 + signal));
    match code.map(u8::try_from) {
        Some(Ok(code)) => Exit(code),
        Some(Err(_)) => Exit::FAILED,
        None => of_outcome(task),
    }
}

/// The exit code that stands for how a task ended.
pub(crate) fn of_outcome(task: &Task) -> Exit {
    match task.status {
        TaskStatus::Failed | TaskStatus::Killed | TaskStatus::Interrupted => Exit::FAILED,
        TaskStatus::Completed
        | TaskStatus::Queued
        | TaskStatus::Running
        | TaskStatus::Waiting
        | TaskStatus::Idle => Exit::OK,
    }
}

/// How failures are said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Voice {
    /// For the eye.
    Text,
    /// One JSON document a line.
    Json,
}

impl Voice {
    /// The voice that a command line which can't be understood asks for.
    pub(crate) fn of_arguments(arguments: impl Iterator<Item = OsString>) -> Self {
        if arguments.take_while(|word| word != "--").any(|word| word == "--json") {
            Self::Json
        } else {
            Self::Text
        }
    }

    /// Says a failure on stderr, and gives its exit code. A reader that went away is no failure.
    pub(crate) fn report(self, error: &anyhow::Error) -> ExitCode {
        if is_broken_pipe(error) {
            return Exit::OK.into();
        }
        match self {
            Self::Json => screen::line(output::json(&document(error).to_string())),
            Self::Text => {
                let style = anstyle::AnsiColor::Red.on_default().bold();
                screen::line(format_args!("{style}error{style:#}: {}", render::clean(&format!("{error:#}"))));
                if let Some(hint) = hint(error) {
                    screen::line(hint);
                }
            }
        }
        of(error).into()
    }

    /// Says what clap found, on the stream that it belongs to.
    pub(crate) fn usage(self, error: &clap::Error) -> ExitCode {
        if !error.use_stderr() {
            return error.print().map_or_else(|why| self.report(&why.into()), |()| Exit::OK.into());
        }
        match self {
            Self::Json => self.report(&Stop::new(Exit::USAGE, found(error)).into()),
            Self::Text => error.print().map_or_else(|why| self.report(&why.into()), |()| Exit::USAGE.into()),
        }
    }
}

/// What clap found, without how to use the command.
fn found(error: &clap::Error) -> String {
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "a command is missing: --help lists them".to_owned();
    }
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    first.strip_prefix("error: ").unwrap_or(first).trim().to_owned()
}

/// A failure as a document: the daemon's error as it came, or a message alone.
fn document(error: &anyhow::Error) -> Value {
    let mut said = json!({ "message": format!("{error:#}"), "exitCode": of(error).0 });
    if let Some(error) = error.chain().find_map(|cause| cause.downcast_ref::<Error>()?.rpc()) {
        said["code"] = error.code.into();
        said["data"] = error.data.clone().into();
    }
    json!({ "error": said })
}

/// Whether the failure is that no daemon runs.
pub(crate) fn is_not_running(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| matches!(cause.downcast_ref(), Some(Error::NotRunning { .. })))
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// What the detail of an error has for a person beyond its sentence.
fn hint(error: &anyhow::Error) -> Option<String> {
    let error = error.chain().find_map(|cause| cause.downcast_ref::<Error>())?;
    let data = &error.rpc()?.data;
    let list = |key: &str, words: &str| {
        let entries: Vec<String> = data.get(key)?.as_array()?.iter().map(entry).collect();
        (!entries.is_empty()).then(|| format!("{words}: {}", entries.join(", ")))
    };
    list("matches", "these match")
        .or_else(|| list("reachable", "these can be reached"))
        .or_else(|| list("near", "did you mean"))
        .or_else(|| list("members", "still active"))
}

fn entry(value: &Value) -> String {
    let text = value
        .as_str()
        .or_else(|| value.get("id").and_then(Value::as_str))
        .map_or_else(|| value.to_string(), str::to_owned);
    render::clean(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rpc(code: i32, data: Value) -> anyhow::Error {
        let Value::Object(data) = data else {
            panic!("data is an object");
        };
        Error::Rpc(Box::new(RpcError {
            code,
            kind: Kind::ALL.iter().copied().find(|kind| kind.code() == code),
            message: "no".into(),
            data,
        }))
        .into()
    }

    /// cli.md, exit codes: each family of errors has its code.
    #[test]
    fn errors_of_the_daemon_have_their_exit_codes() {
        let cases = [
            (1101, Exit::NOT_FOUND),
            (1301, Exit::NOT_FOUND),
            (1404, Exit::NOT_FOUND),
            (-32002, Exit::NOT_FOUND),
            (-32000, Exit::NOT_PERMITTED),
            (1405, Exit::NOT_PERMITTED),
            (1109, Exit::OVERLOADED),
            (-32001, Exit::OVERLOADED),
            (1111, Exit::CONFLICT),
            (1402, Exit::CONFLICT),
            (1412, Exit::CONFLICT),
            (1416, Exit::CONFLICT),
            (1112, Exit::LIMIT),
            (1305, Exit::LIMIT),
            (-32007, Exit::LIMIT),
            (1610, Exit::LIMIT),
            (-32602, Exit::USAGE),
            (1411, Exit::FAILED),
            (4242, Exit::FAILED),
        ];
        for (code, expected) in cases {
            assert_eq!(of(&rpc(code, json!({}))), expected, "{code}");
        }
    }

    /// cli.md, `--json`: a failure is a document too, with all that the daemon said of it.
    #[test]
    fn a_failure_is_a_document() {
        let missing = rpc(1101, json!({ "kind": "taskNotFound", "retryable": false, "matches": ["a"] }));
        let data = json!({ "kind": "taskNotFound", "retryable": false, "matches": ["a"] });
        let said = json!({ "error": { "message": "no", "exitCode": 3, "code": 1101, "data": data } });
        assert_eq!(document(&missing), said);
        let ours = Stop::new(Exit::NEEDS_INPUT, "say --yes").into();
        assert_eq!(document(&ours), json!({ "error": { "message": "say --yes", "exitCode": 5 } }));
        let voice = |words: &[&str]| Voice::of_arguments(words.iter().map(OsString::from));
        assert_eq!(voice(&["ctl", "ps", "--json", "--nonsense"]), Voice::Json);
        assert_eq!(voice(&["ctl", "exec", "--", "x", "--json"]), Voice::Text);
    }

    /// cli.md: a program that can't be found or executed gives 127 or 126.
    #[test]
    fn a_program_that_cannot_start_gives_the_shells_codes() {
        assert_eq!(of(&rpc(1702, json!({ "cause": "notFound" }))), Exit::NO_PROGRAM);
        assert_eq!(of(&rpc(1702, json!({ "cause": "notExecutable" }))), Exit::NOT_EXECUTABLE);
        assert_eq!(of(&rpc(1702, json!({}))), Exit::FAILED);
    }

    /// cli.md: 3 where no daemon runs, 69 where one can't be reached; context around it changes nothing.
    #[test]
    fn not_running_and_unreachable_are_told_apart() {
        let not_running = Error::NotRunning { socket: "/a.sock".into() };
        let unreachable =
            Error::Unreachable { socket: "/a.sock".into(), source: io::ErrorKind::PermissionDenied.into() };
        assert_eq!(of(&anyhow::Error::from(not_running).context("while")), Exit::NOT_FOUND);
        assert_eq!(of(&unreachable.into()), Exit::UNREACHABLE);
        assert_eq!(of(&Error::Closed.into()), Exit::UNREACHABLE);
        let full = Error::Full { socket: "/a.sock".into(), waited: std::time::Duration::from_secs(2) };
        assert_eq!(of(&full.into()), Exit::OVERLOADED);
        let gone = Error::Gone { waited: std::time::Duration::from_secs(1) };
        assert_eq!(of(&gone.into()), Exit::UNREACHABLE);
    }

    /// cli.md: a foreground run gives the child's own code, 128 and the signal for a signal.
    #[test]
    fn a_run_gives_the_childs_own_code() {
        let run = |change: Value| {
            let mut task = crate::render::task::sample();
            let mut value = serde_json::to_value(&task).unwrap();
            value.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            task = serde_json::from_value(value).unwrap();
            of_run(&task).0
        };
        assert_eq!(run(json!({ "status": "completed", "exit": { "code": 0 } })), 0);
        assert_eq!(run(json!({ "status": "failed", "exit": { "code": 42 } })), 42);
        assert_eq!(run(json!({ "status": "killed", "exit": { "signal": 9 } })), 137);
        assert_eq!(run(json!({ "status": "completed" })), 0);
        assert_eq!(run(json!({ "status": "interrupted" })), 1);
        let timeout = json!({ "status": "failed", "exit": { "signal": 15 }, "error": { "kind": "timeout", "message": "" } });
        assert_eq!(run(timeout), 124);
    }
}
