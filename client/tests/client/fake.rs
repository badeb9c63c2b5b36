//! A daemon that a test plays: it listens on a socket of its own and answers each request by a function.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::OwnedWriteHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

/// What the fake does after a request: lines to send, then whether it hangs up.
pub(crate) type Script = dyn FnMut(&str, &Value, &Value) -> Vec<Value> + Send;

/// A fake daemon.
pub(crate) struct Fake {
    pub(crate) dir: TempDir,
    pub(crate) socket: PathBuf,
    /// Method and params of each request that was answered, in the order that they came.
    pub(crate) asked: mpsc::Receiver<(String, Value)>,
}

impl Fake {
    /// Listens; `script` gets method, params and id, and gives the lines to send.
    pub(crate) fn new(script: impl FnMut(&str, &Value, &Value) -> Vec<Value> + Send + 'static) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("d.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let (tell, asked) = mpsc::channel(1000);
        let script: Arc<Mutex<Box<Script>>> = Arc::new(Mutex::new(Box::new(script)));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, script.clone(), tell.clone()));
            }
        });
        Self { dir, socket, asked }
    }

    /// The next request of a method; others are passed over.
    pub(crate) async fn next(&mut self, method: &str) -> Value {
        loop {
            let (asked, params) = self.asked.recv().await.expect("the fake ended");
            if asked == method {
                return params;
            }
        }
    }

    /// `ccagentctl` for this daemon.
    pub(crate) fn ctl(&self, arguments: &[&str]) -> tokio::process::Command {
        ctl(&self.socket, self.dir.path(), arguments)
    }
}

/// `ccagentctl` with a home of its own.
pub(crate) fn ctl(socket: &Path, home: &Path, arguments: &[&str]) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_ccagentctl"));
    command
        .arg("--socket")
        .arg(socket)
        .args(arguments)
        .env("HOME", home)
        .env("NO_COLOR", "1")
        .env_remove("CCAGENT_SOCKET")
        .env_remove("CCAGENT_TOKEN")
        .env_remove("CCAGENT_CONFIG")
        .env_remove("CCAGENT_STATE_DIR")
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("XDG_STATE_HOME")
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true);
    command
}

async fn serve(stream: UnixStream, script: Arc<Mutex<Box<Script>>>, tell: mpsc::Sender<(String, Value)>) {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let request: Value = serde_json::from_str(&line).unwrap();
        let method = request["method"].as_str().unwrap().to_owned();
        let replies = script.lock().unwrap()(&method, &request["params"], &request["id"]);
        for reply in replies {
            if reply.is_null() {
                return;
            }
            send(&mut write, &reply).await;
        }
        tell.send((method, request["params"].clone())).await.ok();
    }
}

async fn send(write: &mut OwnedWriteHalf, reply: &Value) {
    // A client that went away is what some tests are about.
    write.write_all(format!("{reply}\n").as_bytes()).await.ok();
}

/// An answer.
pub(crate) fn result(id: &Value, result: Value) -> Value {
    let mut answer = json!({ "jsonrpc": "2.0", "id": id });
    answer["result"] = result;
    answer
}

/// An error.
pub(crate) fn error(id: &Value, code: i32, message: &str, data: Value) -> Value {
    let mut answer = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } });
    answer["error"]["data"] = data;
    answer
}

/// An item of a subscription.
pub(crate) fn item(method: &str, subscription: &str, item: Value) -> Value {
    let mut pushed =
        json!({ "jsonrpc": "2.0", "method": method, "params": { "subscription": subscription } });
    pushed["params"]["result"] = item;
    pushed
}

/// The id of the task that the tests are about.
pub(crate) const TASK: &str = "agent_00000000-0000-0000-0000-000000000001";

/// A task with some values changed.
#[expect(clippy::needless_pass_by_value, reason = "every caller makes the change in place")]
pub(crate) fn task(change: Value) -> Value {
    let mut task = json!({
        "id": TASK, "kind": "local_command", "sessionId": "main", "description": "work", "command": ["x"],
        "status": "running", "attempt": 1, "runner": { "kind": "process" }, "cwd": "/w",
        "permissionMode": "default", "isBackgrounded": true, "retain": false, "notified": false,
        "progress": { "latestInputTokens": 0, "cumulativeOutputTokens": 0, "toolUseCount": 0, "recentActivities": [], "lastActivityAt": 0 },
        "usage": { "totalTokens": 0, "billedTokens": 0, "toolUses": 0, "durationMs": 0 },
        "outputFile": "/no/such", "outputBytes": 0, "outputTruncated": false, "receives": "poll",
        "resumable": false, "createdAt": 0, "updatedAt": 0
    });
    let changed = task.as_object_mut().unwrap();
    changed.extend(change.as_object().unwrap().clone());
    task
}
