//! Where the built programs are: beside the test programs, built once where they are missing.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The daemon.
pub fn daemon() -> PathBuf {
    directory().join("ccagentd")
}

/// The command-line client.
pub fn client() -> PathBuf {
    directory().join("ccagentctl")
}

/// The supervisor of one process.
pub fn shim() -> PathBuf {
    directory().join("ccagent-shim")
}

/// The fake model API, which is built with the tests.
pub fn fake_api() -> PathBuf {
    beside().join("fake-api")
}

/// The stand-in for MCP servers, which is built with the tests.
pub fn fake_mcp() -> PathBuf {
    beside().join("fake-mcp")
}

/// `target/<profile>`.
fn beside() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let deps = own.parent().unwrap();
    if deps.ends_with("deps") { deps.parent().unwrap() } else { deps }.to_owned()
}

/// `target/<profile>`, with the three programs in it.
fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let directory = beside();
        if !["ccagentd", "ccagent-shim", "ccagentctl"].iter().all(|name| directory.join(name).exists()) {
            build(&directory);
        }
        directory
    })
}

/// Cargo locks its directory, so that of many test programs one builds and the others wait.
fn build(directory: &Path) {
    let profile = match directory.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--profile", profile, "--bins"])
        .args(["-p", "ccagentd", "-p", "ccagent-shim", "-p", "ccagent-client"])
        .arg("--target-dir")
        .arg(directory.parent().unwrap())
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .status();
    assert!(status.unwrap().success(), "the programs could not be built");
}
