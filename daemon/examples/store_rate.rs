//! Durable commits a second with 64 callers, beside the plainest thing that is as durable: append and fdatasync.
//! Then the load at start of 200 000 rows. Run with `cargo run --release -p ccagentd --example store_rate [DIR]`.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ccagentd::store::{Durability, Options, Row, Store, Write};

const CALLERS: usize = 64;
const VALUE: usize = 512;
const RUN: Duration = Duration::from_secs(4);
const ROWS: usize = 200_000;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let base =
        std::env::args_os().nth(1).map_or_else(|| Path::new("target/store-rate").to_path_buf(), Into::into);
    if base.exists() {
        return Err(format!("{} exists; name a directory that does not", base.display()).into());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    for (name, durability) in [("power", Durability::Power), ("process", Durability::Process)] {
        let mut options = Options::new(&["task"]);
        options.durability = durability;
        let store = Arc::new(Store::open(&base.join(name), options)?);
        for callers in [1, CALLERS] {
            report(&format!("store, {name}, {callers} callers"), runtime.block_on(rate(&store, callers))?);
        }
        println!("{:>44}: {} KiB", "on the disk", store.bytes_on_disk() >> 10);
    }
    report("append and fdatasync, groups of 64", append(&base)?);
    runtime.block_on(load(&base.join("load")))?;
    std::fs::remove_dir_all(&base)?;
    Ok(())
}

fn report(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let count = times.len();
    let at = |percent: usize| times.get(count * percent / 100).copied().unwrap_or_default();
    println!("{name:>44}: {:>8} /s, median {:?}, p99 {:?}", count as u64 / RUN.as_secs(), at(50), at(99));
}

async fn rate(store: &Arc<Store>, callers: usize) -> Outcome<Vec<Duration>> {
    let end = Instant::now() + RUN;
    let tasks: Vec<_> =
        (0..callers).map(|caller| tokio::spawn(call(Arc::clone(store), caller, end))).collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await??);
    }
    Ok(times)
}

async fn call(store: Arc<Store>, caller: usize, end: Instant) -> Outcome<Vec<Duration>> {
    let mut times = Vec::new();
    while Instant::now() < end {
        let id = format!("{caller}-{}", times.len() % 100).into();
        let start = Instant::now();
        store.commit(vec![Write { kind: "task", id, value: Some(vec![b'x'; VALUE]) }]).await?;
        times.push(start.elapsed());
    }
    Ok(times)
}

fn append(base: &Path) -> Outcome<Vec<Duration>> {
    let mut file = File::create(base.join("append"))?;
    let group = vec![b'x'; VALUE * CALLERS];
    let end = Instant::now() + RUN;
    let mut times = Vec::new();
    while Instant::now() < end {
        let start = Instant::now();
        file.write_all(&group)?;
        file.sync_data()?;
        times.extend(std::iter::repeat_n(start.elapsed(), CALLERS));
    }
    Ok(times)
}

async fn load(dir: &Path) -> Outcome<()> {
    let store = Store::open(dir, Options::new(&["task"]))?;
    for first in (0..ROWS).step_by(1000) {
        let row =
            |number| Write { kind: "task", id: format!("{number:06}").into(), value: Some(vec![b'x'; 600]) };
        store.commit((first..first + 1000).map(row).collect()).await?;
    }
    drop(store);
    let start = Instant::now();
    let store = Store::open(dir, Options::new(&["task"]))?;
    let opened = start.elapsed();
    let rows = store.rows(&["task"], Row::of).collect::<Result<Vec<_>, _>>()?;
    println!("{:>44}: open {opened:?}, with {} rows {:?}", "load at start", rows.len(), start.elapsed());
    let start = Instant::now();
    let export = store.export_now()?;
    println!("{:>44}: {:?}, {} KiB", "export", start.elapsed(), std::fs::metadata(export)?.len() >> 10);
    Ok(())
}
