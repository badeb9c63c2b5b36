//! An editor's own JSON-RPC library, as it is, against the daemon.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ccagent_tests::daemon::run;
use ccagent_tests::skip::{has, skip};
use ccagent_tests::{Daemon, Home};

/// The scripts with their library: as checked out where it was installed there, else a copy with it.
fn with_library(home: &Home) -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("node");
    if own.join("node_modules/vscode-jsonrpc").is_dir() {
        return Some(own);
    }
    let copy = home.join("node");
    std::fs::create_dir(&copy).unwrap();
    for file in ["package.json", "package-lock.json", "client.mjs"] {
        std::fs::copy(own.join(file), copy.join(file)).unwrap();
    }
    let npm = run(Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit"])
        .current_dir(&copy)
        .stdin(Stdio::null()));
    (npm.code == Some(0)).then_some(copy)
}

/// CD-04, CD-05: vscode-jsonrpc spawns, messages, polls, follows, cancels, joins and stops.
#[tokio::test]
async fn vscode_jsonrpc_does_everything_over_the_socket() {
    if !has("node") || !has("npm") {
        return skip("node or npm is not installed");
    }
    let daemon = Daemon::start();
    let Some(directory) = with_library(&daemon.home) else {
        return skip("vscode-jsonrpc can't be installed");
    };
    let mut node = Command::new("node");
    node.arg(directory.join("client.mjs")).arg(&daemon.home.socket).stdin(Stdio::null());
    let ended = run(&mut node);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "all is well\n"), "{}", ended.err);
    daemon.end().await;
}
