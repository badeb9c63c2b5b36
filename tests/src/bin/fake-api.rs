//! The fake model API on a port of loopback: `fake-api [--port N] [--latency MS]`. It prints its address and runs until
//! its standard input ends, so that it never outlives a test.

use std::io::{Read, Write};
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (mut port, mut latency) = (0, 0);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--port" => port = value.parse().context("--port")?,
            "--latency" => latency = value.parse().context("--latency, in milliseconds")?,
            _ => anyhow::bail!("{name} is none of --port and --latency"),
        }
    }
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    writeln!(std::io::stdout(), "http://{}", listener.local_addr()?)?;
    let (ended, end) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        std::io::stdin().read_to_end(&mut Vec::new()).ok();
        ended.send(()).ok();
    });
    tokio::select! {
        () = ccagent_tests::fake::serve(listener, Duration::from_millis(latency)) => {}
        _ = end => {}
    }
    // The thread that reads the input may still wait there.
    Ok(())
}
