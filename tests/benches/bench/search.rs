//! Grep and Glob beside `rg`, over a large tree.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use ccagent_llm::tool::{Beat, Context, Files, Glob, Grep, Left, Tool};
use ccagent_llm::{Host, Incoming, Progress, host::Permission, tool::Ask};
use futures_util::future::{BoxFuture, FutureExt, ready};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use crate::Bench;
use crate::stats::{self, Times};
use crate::table::{Row, Verdict, at_most};

const DIRECTORIES: usize = 1000;
const FILES: usize = 100;
const ROUNDS: usize = 5;
/// What each search has to find.
const LEAST: usize = 100;
const TEXT: &str = "fn nothing() -> usize {\n    let some = 1 + 2;\n    some * 3\n}\n\n";

/// Measures both.
pub(crate) async fn run(bench: &mut Bench) -> Result<()> {
    let tree = bench.directory("tree")?;
    plant(&tree)?;
    let grep = ["-l", "needle_[0-9]+"];
    compare(bench, &tree, ("Grep", &Grep, json!({ "pattern": "needle_[0-9]+" })), &grep).await?;
    let newest_first = ["--files", "-g", "*7.rs", "--sortr", "modified"];
    for (name, glob) in
        [("Glob", &newest_first[..3]), ("Glob, beside `rg` in the same order,", &newest_first)]
    {
        compare(bench, &tree, (name, &Glob, json!({ "pattern": "**/*7.rs" })), glob).await?;
    }
    Ok(())
}

/// Takes turns with `rg`; the first round of each only fills the system's cache.
async fn compare(
    bench: &mut Bench,
    tree: &Path,
    (name, tool, input): (&str, &dyn Tool, Value),
    arguments: &[&str],
) -> Result<()> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..=ROUNDS {
        ours.push(time(tool, tree, &input).await?);
        theirs.push(rg(tree, arguments).await?);
    }
    show(bench, name, &Times::new(ours.split_off(1)), theirs.split_off(1));
    Ok(())
}

fn show(bench: &mut Bench, name: &str, ours: &Times, theirs: Vec<Option<Duration>>) {
    let figure = format!("{name} over {} files, p50", DIRECTORIES * FILES);
    let (floor, ratio, verdict) = match theirs.into_iter().collect::<Option<Vec<_>>>() {
        Some(times) => {
            let floor = Times::new(times).p50();
            let ratio = stats::ratio(ours.p50(), floor);
            (format!("`rg` {}", stats::time(floor)), format!("{ratio:.2}"), at_most(ratio, 1.2, 1.2))
        }
        None => ("–".to_owned(), "–".to_owned(), Verdict::Skipped("no `rg` here".to_owned())),
    };
    let target = "≤ 1.2 times".to_owned();
    bench.table.add(Row { figure, measured: stats::time(ours.p50()), floor, ratio, target, verdict });
}

/// Small files, one of a thousand of which has what is looked for.
fn plant(tree: &Path) -> Result<()> {
    for directory in 0..DIRECTORIES {
        let path = tree.join(format!("d{}/d{directory}", directory % 30));
        std::fs::create_dir_all(&path)?;
        for file in 0..FILES {
            let needle = if directory % 10 == 0 && file == 50 { "needle_42\n" } else { "" };
            std::fs::write(path.join(format!("f{file}.rs")), TEXT.repeat(1 + file % 30) + needle)?;
        }
    }
    Ok(())
}

async fn time(tool: &dyn Tool, tree: &Path, input: &Value) -> Result<Duration> {
    let context = context(tree);
    let began = Instant::now();
    let outcome = tool.call(&context, input.clone()).await;
    let time = began.elapsed();
    let found = format!("{outcome:?}").matches(".rs").count();
    anyhow::ensure!(found >= LEAST, "{found} found: {outcome:?}");
    Ok(time)
}

/// `None` where it is not installed.
async fn rg(tree: &Path, arguments: &[&str]) -> Result<Option<Duration>> {
    let began = Instant::now();
    let output = match Command::new("rg").args(arguments).current_dir(tree).output().await {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context("rg"),
    };
    let time = began.elapsed();
    let found = String::from_utf8_lossy(&output.stdout).lines().count();
    anyhow::ensure!(found >= LEAST, "{found} found by rg");
    Ok(Some(time))
}

fn context(tree: &Path) -> Context {
    Context {
        cwd: Mutex::new(tree.to_owned()),
        env: BTreeMap::new(),
        temp: tree.to_owned(),
        writable: Vec::new(),
        memory: None,
        stop: CancellationToken::new(),
        most: 1 << 20,
        mask: Arc::default(),
        files: Files::default(),
        shim: PathBuf::new(),
        left: Left::default(),
        beat: Beat::default(),
        host: Arc::new(Nobody),
    }
}

/// A daemon that is not there.
#[derive(Debug)]
struct Nobody;

impl Host for Nobody {
    fn incoming(&self) -> BoxFuture<'_, Vec<Incoming>> {
        ready(Vec::new()).boxed()
    }

    fn acknowledge(&self, _: Vec<String>) -> BoxFuture<'_, ()> {
        ready(()).boxed()
    }

    fn more(&self) -> BoxFuture<'_, bool> {
        ready(false).boxed()
    }

    fn progress(&self, _: Progress) -> BoxFuture<'_, ()> {
        ready(()).boxed()
    }

    fn show(&self, _: &str) {}

    fn ask(&self, _: Ask) -> BoxFuture<'_, Permission> {
        ready(Permission::Allowed).boxed()
    }
}
