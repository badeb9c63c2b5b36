//! A connection through the project's own client library, with the few calls that most tests make.

use std::path::Path;

use ccagent_client::{Client, Error, RpcError, Subscription};
use ccagent_proto::Kind;
use serde_json::{Map, Value, json};

use crate::PATIENCE;

/// A connection to a daemon.
#[derive(Debug)]
pub struct Conn {
    /// The client itself.
    pub client: Client,
}

impl Conn {
    /// Connects.
    pub async fn to(socket: &Path) -> Self {
        Self { client: Client::connect(socket).await.unwrap() }
    }

    /// A call, whatever comes of it.
    pub async fn call(&self, method: &str, params: Value) -> Result<Value, Error> {
        let call = self.client.call_raw(method, params.clone());
        tokio::time::timeout(PATIENCE, call)
            .await
            .unwrap_or_else(|_| panic!("no answer to {method} {params}"))
    }

    /// A call that is answered with a result.
    pub async fn ok(&self, method: &str, params: Value) -> Value {
        match self.call(method, params.clone()).await {
            Ok(value) => value,
            Err(error) => panic!("{method} {params}: {error}"),
        }
    }

    /// A call that is refused.
    pub async fn err(&self, method: &str, params: Value) -> RpcError {
        match self.call(method, params.clone()).await {
            Ok(value) => panic!("{method} {params} was not refused: {value}"),
            Err(Error::Rpc(error)) => *error,
            Err(error) => panic!("{method} {params}: {error}"),
        }
    }

    /// The kind of error that a call is refused with.
    pub async fn kind(&self, method: &str, params: Value) -> Kind {
        let error = self.err(method, params).await;
        error.kind.unwrap_or_else(|| panic!("an unknown kind: {error:?}"))
    }

    /// Spawns a program in the background with further params; gives its task's id.
    pub async fn spawn(&self, argv: &[&str], more: Value) -> String {
        let mut params = json!({ "command": argv, "runInBackground": true });
        merge(&mut params, more);
        self.ok("agent.spawn", params).await["taskId"].as_str().unwrap().to_owned()
    }

    /// Spawns a shell script in the background; gives its task's id.
    pub async fn sh(&self, script: &str) -> String {
        self.spawn(&["/bin/sh", "-c", script], json!({})).await
    }

    /// The task.
    pub async fn task(&self, id: &str) -> Value {
        self.ok("task.get", json!({ "taskId": id })).await
    }

    /// Waits until the task is done; gives it.
    pub async fn wait(&self, id: &str) -> Value {
        let mut waited = self.ok("task.wait", json!({ "taskIds": [id], "timeoutMs": 55_000 })).await;
        assert_eq!(waited["timedOut"], false, "still not done: {waited}");
        waited["tasks"][0].take()
    }

    /// All output of the task so far.
    pub async fn output(&self, id: &str) -> String {
        let output = self.ok("task.output", json!({ "taskId": id })).await;
        output["text"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the task's output has a text; gives all of it so far.
    pub async fn see(&self, id: &str, text: &str) -> String {
        let (mut offset, mut seen) = (0, String::new());
        loop {
            let params = json!({ "taskId": id, "offset": offset, "block": true, "timeoutMs": 50_000 });
            let more = self.ok("task.output", params).await;
            seen.push_str(more["text"].as_str().unwrap_or_default());
            let next = more["nextOffset"].as_u64().unwrap();
            if seen.contains(text) {
                return seen;
            }
            assert!(next > offset, "the output of {id} never has {text:?}: {seen:?} ({})", more["status"]);
            offset = next;
        }
    }

    /// Spawns a script that writes a number as its first line, and waits for that number.
    pub async fn sh_pid(&self, script: &str) -> (String, Value) {
        let id = self.sh(script).await;
        let seen = self.see(&id, "\n").await;
        (id, json!(seen.lines().next().unwrap().trim().parse::<i64>().unwrap()))
    }

    /// Follows events of these topics; the snapshot comes first.
    pub async fn events(&self, topics: Value) -> Subscription<Value> {
        let params = json!({ "topics": topics });
        self.client.subscribe_raw("event.subscribe", params, "event.unsubscribe").await.unwrap()
    }

    /// Sends a text; gives the result.
    pub async fn send(&self, to: &str, text: &str) -> Value {
        self.ok("message.send", json!({ "to": to, "message": text })).await
    }
}

/// The next item of a subscription.
pub async fn next(items: &mut Subscription<Value>) -> Value {
    let item = tokio::time::timeout(PATIENCE, items.next()).await.expect("no item comes");
    item.expect("the subscription ended").unwrap()
}

/// Items until one of a type has come; all of them.
pub async fn until(items: &mut Subscription<Value>, r#type: &str) -> Vec<Value> {
    let mut all = Vec::new();
    loop {
        let item = next(items).await;
        let last = item["type"] == r#type;
        all.push(item);
        if last {
            return all;
        }
    }
}

/// Puts the keys of one object into another.
pub fn merge(into: &mut Value, more: Value) {
    let more: Map<String, Value> = serde_json::from_value(more).unwrap();
    into.as_object_mut().unwrap().extend(more);
}
