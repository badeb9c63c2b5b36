//! The crash suite: many clients at work, the daemon killed by `kill -9` at any moment, again and again.
//!
//! ```text
//! load ─▶ so many acknowledgements ─▶ kill -9 ─▶ restart ─▶ check everything that was acknowledged ─▶ load …
//! ```
//!
//! A quick run is part of all tests; `CCAGENT_TORTURE` gives the number of kills of a longer one (`full` is 200), and
//! `CCAGENT_SEED` repeats one.

#![cfg(test)]

#[path = "crash/check.rs"]
mod check;
#[path = "crash/ledger.rs"]
mod ledger;
#[path = "crash/load.rs"]
mod load;

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use ccagent_tests::Daemon;
use serde_json::json;

use ledger::Ledger;

/// Kills of a run that is part of all tests.
const QUICK: u32 = 15;
/// Kills of the whole suite.
const FULL: u32 = 200;

fn kills() -> u32 {
    match std::env::var("CCAGENT_TORTURE").as_deref() {
        Err(_) => QUICK,
        Ok("full") => FULL,
        Ok(number) => number.parse().unwrap_or(FULL),
    }
}

fn seed() -> u64 {
    let given = std::env::var("CCAGENT_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().subsec_nanos().into()
    })
}

/// I1, I2, I3, I9, B24, J134, SV-07, NT-01, SE-04: whatever was acknowledged survives `kill -9`: each message is there
/// once until it is acknowledged, each run has one notification, each end stays as it was, nothing runs twice, and
/// no process is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_acknowledged_survives_any_number_of_kills() {
    let (seed, kills) = (seed(), kills());
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    // Agents that stay and whose spawn nobody heard of hold their slots to the end.
    let config = "[limits]\nagents = 1000\nagents_per_session = 1000\n[task]\nhold = \"1s\"\n";
    let mut daemon = Daemon::with().config(config).start();
    let runs = daemon.home.join("runs");
    std::fs::create_dir(&runs).unwrap();
    let ledger = Arc::new(Ledger::new(runs));
    let conn = daemon.connect().await;
    let reader = conn.spawn(&["/bin/sleep", "100000"], json!({ "name": "reader" })).await;
    let pid = conn.task(&reader).await["runner"]["pid"].clone();
    let begun = Instant::now();
    for round in 0..kills {
        let work = load::begin(&daemon.home.socket, &ledger, round, &mut random);
        // A moment that is random, and still never a matter of time: after so many acknowledgements.
        ledger.acknowledged(random.u32(1..80)).await;
        daemon.crash();
        load::over(work).await;
        daemon.restart();
        let conn = daemon.connect().await;
        assert_eq!(conn.task(&reader).await["runner"]["pid"], pid, "seed {seed}, round {round}");
        check::everything(&conn, &ledger, &format!("seed {seed}, round {round}"), &mut random).await;
    }
    println!("{kills} kills in {:?}: {}", begun.elapsed(), ledger.summary());
    daemon.end().await;
}
