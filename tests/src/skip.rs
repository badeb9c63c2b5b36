//! Tests that can't run on this machine: they say so, and fail where everything has to run.

use std::fs::OpenOptions;
use std::io::Write;

/// Set to `1` where no test may be skipped.
const REQUIRE: &str = "CCAGENT_REQUIRE_ALL";
/// A file that gets a line for each skipped test.
const LOG: &str = "CCAGENT_SKIP_LOG";

/// Says that the running test is skipped, and why.
///
/// # Panics
/// Where no test may be skipped.
pub fn skip(reason: &str) {
    assert!(std::env::var(REQUIRE).as_deref() != Ok("1"), "this has to run, but {reason}");
    skip_anywhere(reason);
}

/// As [`skip`], for what no installation can bring to a machine, such as a cgroup inside a container.
pub fn skip_anywhere(reason: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("skipped: {test}: {reason}");
    if let Some(path) = std::env::var_os(LOG) {
        let log = OpenOptions::new().append(true).create(true).open(path);
        if let Ok(mut log) = log {
            drop(writeln!(log, "{test}: {reason}"));
        }
    }
}

/// Whether a program can be found in `PATH`.
pub fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// Whether the tests run as root, who alone can take other uids and mount.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
