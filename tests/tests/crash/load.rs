//! The load: clients that spawn, send, read, acknowledge and stop until the daemon is gone.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ccagent_client::{Client, Error};
use fastrand::Rng;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::ledger::{Ledger, Spawned};

/// One client at work.
struct Worker {
    socket: PathBuf,
    ledger: Arc<Ledger>,
    name: String,
    random: Rng,
}

/// Starts the clients.
pub(crate) fn begin(socket: &Path, ledger: &Arc<Ledger>, round: u32, random: &mut Rng) -> JoinSet<()> {
    let mut work = JoinSet::new();
    let mut worker = |name: &str| Worker {
        socket: socket.to_owned(),
        ledger: ledger.clone(),
        name: format!("{round}-{name}"),
        random: random.fork(),
    };
    for number in 0..3 {
        work.spawn(worker(&format!("spawn{number}")).spawns());
        work.spawn(worker(&format!("send{number}")).sends());
        work.spawn(worker(&format!("wait{number}")).waits());
    }
    work.spawn(worker("read").reads());
    work.spawn(worker("stop").stops());
    work
}

/// Waits until all clients have seen that the daemon is gone.
pub(crate) async fn over(mut work: JoinSet<()>) {
    while let Some(done) = work.join_next().await {
        done.unwrap();
    }
}

impl Worker {
    async fn client(&self) -> Option<Client> {
        Client::connect(&self.socket).await.ok()
    }

    /// A result, or `None` where the daemon refused; ends where it is gone.
    fn answer(&self, answer: Result<Value, Error>) -> Result<Option<Value>, Error> {
        match answer {
            Ok(value) => {
                self.ledger.count();
                Ok(Some(value))
            }
            Err(Error::Rpc(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn spawns(mut self) {
        let Some(client) = self.client().await else { return };
        for number in 0.. {
            let name = format!("{}-{number}", self.name);
            let stays = self.random.u8(..10) == 0;
            let file = self.ledger.runs.join(&name);
            let end = if stays { "exec sleep 100000" } else { "echo output" };
            let script = format!("echo \"$CCAGENT_TASK_ID\" >> {}; {end}", file.display());
            let params = json!({ "command": ["/bin/sh", "-c", script], "runInBackground": true });
            self.ledger.known().tried.insert(name.clone());
            match self.answer(client.call_raw("agent.spawn", params).await) {
                Ok(Some(spawned)) => {
                    let id = spawned["taskId"].as_str().unwrap().to_owned();
                    let mut known = self.ledger.known();
                    known.spawns += 1;
                    known.spawned.push(Spawned { id, name, stays });
                }
                Ok(None) => {}
                Err(_) => return,
            }
        }
    }

    /// Programs in the foreground: the answer tells of the end, and the label finds one whose answer never came.
    async fn waits(self) {
        let Some(client) = self.client().await else { return };
        for number in 0.. {
            let name = format!("{}-{number}", self.name);
            let file = self.ledger.runs.join(&name);
            let script = format!("echo \"$CCAGENT_TASK_ID\" >> {}; echo output", file.display());
            let params = json!({ "command": ["/bin/sh", "-c", script], "labels": { "waited": name } });
            self.ledger.known().waiting.insert(name.clone());
            match self.answer(client.call_raw("agent.spawn", params).await) {
                Ok(Some(ended)) => {
                    assert_eq!(ended["status"], "completed", "{ended}");
                    let id = ended["taskId"].as_str().unwrap().to_owned();
                    let mut known = self.ledger.known();
                    known.waiting.remove(&name);
                    known.heard.insert(id, end_of(&ended["task"]));
                }
                Ok(None) => drop(self.ledger.known().waiting.remove(&name)),
                Err(_) => return,
            }
        }
    }

    async fn sends(mut self) {
        let Some(client) = self.client().await else { return };
        for number in 0.. {
            let mark = format!("{}-{number}", self.name);
            let size = if self.random.u8(..20) == 0 { self.random.usize(1000..1_000_000) } else { 10 };
            let text = format!("{mark} {}", "x".repeat(size));
            match self
                .answer(client.call_raw("message.send", json!({ "to": "reader", "message": text })).await)
            {
                Ok(Some(_)) => drop(self.ledger.known().sent.insert(mark)),
                Ok(None) => {}
                Err(_) => return,
            }
        }
    }

    async fn reads(mut self) {
        let Some(client) = self.client().await else { return };
        loop {
            let max = self.random.u32(1..8);
            let params = json!({ "agent": "reader", "waitMs": 20_000, "max": max });
            let messages = match self.answer(client.call_raw("mailbox.poll", params).await) {
                Ok(Some(mut mail)) => mail["messages"].take(),
                Ok(None) => continue,
                Err(_) => return,
            };
            let ids: Vec<String> =
                messages.as_array().unwrap().iter().map(|message| see(&self.ledger, message)).collect();
            if self.random.u8(..4) == 0 {
                continue;
            }
            self.ledger.known().acking.extend(ids.iter().cloned());
            let ack = json!({ "agent": "reader", "ids": ids });
            match self.answer(client.call_raw("mailbox.ack", ack).await) {
                Ok(Some(_)) => self.ledger.known().acked.extend(ids),
                Ok(None) => {}
                Err(_) => return,
            }
        }
    }

    async fn stops(mut self) {
        let Some(client) = self.client().await else { return };
        loop {
            let stays: Vec<String> = {
                let known = self.ledger.known();
                let staying =
                    known.spawned.iter().filter(|one| one.stays && !known.stopping.contains(&one.id));
                staying.map(|one| one.id.clone()).collect()
            };
            let Some(id) = self.random.choice(stays) else {
                // Nothing to stop yet: some other call that is answered, or ends with the daemon.
                match client.call_raw("task.list", json!({ "limit": 5 })).await {
                    Ok(_) | Err(Error::Rpc(_)) => continue,
                    Err(_) => return,
                }
            };
            self.ledger.known().stopping.insert(id.clone());
            let params = json!({ "taskId": id, "graceMs": self.random.u32(0..200) });
            match self.answer(client.call_raw("task.stop", params).await) {
                Ok(Some(_)) => drop(self.ledger.known().stopped.insert(id)),
                Ok(None) => {}
                Err(_) => return,
            }
        }
    }
}

/// How and when a task ended: it stays so.
pub(crate) fn end_of(task: &Value) -> String {
    format!("{} {}", task["status"], task["endedAt"])
}

/// Notes that a message was seen; gives its id. A mark has one id for ever, and what was acknowledged never comes again.
pub(crate) fn see(ledger: &Ledger, message: &Value) -> String {
    let id = message["id"].as_str().unwrap().to_owned();
    let text = message["text"].as_str().unwrap();
    let mark = text.split(' ').next().unwrap().to_owned();
    let mut known = ledger.known();
    assert!(!known.acked.contains(&id), "{mark} comes again after it was acknowledged");
    let before = known.seen.insert(mark.clone(), id.clone());
    assert!(before.as_ref().is_none_or(|before| *before == id), "{mark} is there twice: {before:?} and {id}");
    id
}
