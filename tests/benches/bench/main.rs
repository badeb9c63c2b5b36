//! The benchmark: starts the real daemon on a disk and measures it beside its floors, in one run, into one table.
//!
//! ```text
//! cargo bench -p ccagent-tests                    all of it
//! cargo bench -p ccagent-tests -- reads memory    some sections
//! BENCH_FULL=1 cargo bench -p ccagent-tests       with an agent that prints 10 GB instead of 2 GB
//! ```
//!
//! It is no test: nothing fails by a figure. The same program is the echo server and the mail's receiver, each in a
//! process of its own, when its first argument says so.

mod agents;
mod daemon;
mod file_mailbox;
mod fleet;
mod floor;
mod mail;
mod memory;
mod model;
mod reads;
mod search;
mod stats;
mod table;
mod turn;
mod wire;

use std::future::Future;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use table::Table;

/// What the sections share.
pub(crate) struct Bench {
    /// Where the programs under test are.
    programs: PathBuf,
    /// A directory on a disk that goes away with the run.
    scratch: tempfile::TempDir,
    /// How long one commit takes on that disk.
    commit: stats::Times,
    /// The figures so far.
    table: Table,
}

impl Bench {
    fn new() -> Result<Self> {
        let own = std::env::current_exe().context("where this program is")?;
        let programs = own.ancestors().nth(2).context("the directory of the release programs")?.to_owned();
        for program in ["ccagentd", "ccagent-shim", "ccagentctl"] {
            let path = programs.join(program);
            anyhow::ensure!(path.exists(), "{} is missing: make build", path.display());
        }
        let scratch = tempfile::Builder::new().prefix("b").tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        let commit = floor::Log::create(scratch.path())?.commits(300)?;
        Ok(Self { programs, scratch, commit, table: Table::default() })
    }

    /// A new directory below the scratch directory.
    fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.scratch.path().join(name);
        std::fs::create_dir_all(&path)?;
        Ok(path)
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match words.as_slice() {
        ["--echo", socket] => runtime.block_on(floor::echo(Path::new(socket))),
        ["--receive", socket] => runtime.block_on(mail::receive(Path::new(socket))),
        sections => runtime.block_on(run(sections)),
    }
}

async fn run(sections: &[&str]) -> Result<()> {
    let mut bench = Bench::new()?;
    eprintln!("{}", machine(&bench));
    let wanted = |name: &str| sections.is_empty() || sections.contains(&name);
    if wanted("reads") {
        section("reads", reads::run(&mut bench)).await?;
    }
    if wanted("mail") {
        section("mail", mail::run(&mut bench)).await?;
    }
    if wanted("agents") {
        section("agents", agents::run(&mut bench)).await?;
    }
    if wanted("memory") {
        section("memory", memory::run(&mut bench)).await?;
    }
    if wanted("output") {
        section("output", agents::output(&mut bench)).await?;
    }
    if wanted("turn") {
        section("turn", turn::run(&mut bench)).await?;
    }
    if wanted("fleet") {
        section("fleet", fleet::run(&mut bench)).await?;
    }
    if wanted("search") {
        section("search", search::run(&mut bench)).await?;
    }
    println!("{}\n\n{}", machine(&bench), bench.table);
    Ok(())
}

async fn section(name: &str, work: impl Future<Output = Result<()>>) -> Result<()> {
    let began = std::time::Instant::now();
    work.await.with_context(|| format!("section {name}"))?;
    eprintln!("section {name}: {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// The machine in a line: the figures mean little without it.
fn machine(bench: &Bench) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kind = std::process::Command::new("stat").args(["-f", "-c", "%T"]).arg(bench.scratch.path()).output();
    let kind = kind.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    format!(
        "{cores} cores, {} on the disk, append + fdatasync of 512 bytes: p50 {}, p99 {}",
        kind.unwrap_or_else(|_| "an unknown file system".to_owned()),
        stats::time(bench.commit.p50()),
        stats::time(bench.commit.p99()),
    )
}
