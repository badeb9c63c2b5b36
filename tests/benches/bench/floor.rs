//! The floors: what a bare echo and a bare log can do on this machine.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::stats::Times;

/// About what a message takes up in the store.
const RECORD: usize = 512;

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    params: &'a RawValue,
}

#[derive(Serialize)]
struct Answer<'a> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    result: &'a RawValue,
}

/// Serves an echo: parses each line as a request, and answers with its params.
pub(crate) async fn echo(socket: &Path) -> Result<()> {
    let listener = UnixListener::bind(socket)?;
    println!("ready");
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(answer(stream));
    }
}

async fn answer(stream: UnixStream) -> Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::with_capacity(64 << 10, reader);
    let (mut line, mut output) = (Vec::new(), Vec::new());
    while reader.read_until(b'\n', &mut line).await? > 0 {
        let Request { id, params } = serde_json::from_slice(&line)?;
        serde_json::to_writer(&mut output, &Answer { jsonrpc: "2.0", id, result: params })?;
        output.push(b'\n');
        line.clear();
        // What has come already is answered in the same write.
        if !reader.buffer().contains(&b'\n') {
            writer.write_all(&output).await?;
            output.clear();
        }
    }
    Ok(())
}

/// An echo server in a process of its own.
pub(crate) async fn start_echo(socket: &Path) -> Result<Child> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("--echo")
        .arg(socket)
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let stdout = child.stdout.take().context("the echo's output")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).await?;
    anyhow::ensure!(line == "ready\n", "the echo did not start");
    Ok(child)
}

/// A log that one writer appends to.
pub(crate) struct Log(File);

impl Log {
    /// An empty one.
    pub(crate) fn create(directory: &Path) -> Result<Self> {
        Ok(Self(File::create(directory.join("floor-commit"))?))
    }

    /// How long it takes to append a record and sync it.
    pub(crate) fn commit(&mut self) -> Result<Duration> {
        let began = Instant::now();
        self.0.write_all(&[b'x'; RECORD])?;
        self.0.sync_data()?;
        Ok(began.elapsed())
    }

    /// How long so many commits took.
    pub(crate) fn commits(&mut self, count: usize) -> Result<Times> {
        Ok(Times::new((0..count).map(|_| self.commit()).collect::<Result<_>>()?))
    }
}

/// Lets writers append records for a while, each waiting for the sync behind its last one; gives their number.
pub(crate) async fn grouped_append(directory: &Path, writers: usize, time: Duration) -> Result<usize> {
    let mut file = File::create(directory.join("floor-append"))?;
    let (queue, mut jobs) = mpsc::channel::<(Vec<u8>, oneshot::Sender<()>)>(1024);
    let committer = std::thread::spawn(move || -> std::io::Result<()> {
        while let Some(first) = jobs.blocking_recv() {
            let mut group = vec![first];
            while let Ok(job) = jobs.try_recv() {
                group.push(job);
            }
            let bytes: Vec<u8> = group.iter().flat_map(|(record, _)| record).copied().collect();
            file.write_all(&bytes)?;
            file.sync_data()?;
            for (_, done) in group {
                // A writer whose time is over does not listen any more.
                done.send(()).ok();
            }
        }
        Ok(())
    });
    let end = Instant::now() + time;
    let mut set = JoinSet::new();
    for _ in 0..writers {
        let queue = queue.clone();
        set.spawn(async move {
            let mut count = 0;
            while Instant::now() < end {
                let (done, synced) = oneshot::channel();
                queue.send((vec![b'x'; RECORD], done)).await?;
                synced.await?;
                count += 1;
            }
            anyhow::Ok(count)
        });
    }
    drop(queue);
    let mut total = 0;
    while let Some(count) = set.join_next().await {
        total += count??;
    }
    committer.join().map_err(|_| anyhow::anyhow!("the committer panicked"))??;
    Ok(total)
}
