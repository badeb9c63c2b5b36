//! What waits for tasks, mail and output, over a real core.

use std::time::Duration;

use ccagent_core::Limits as Rules;
use ccagent_core::input::Report;
use serde_json::{Value, json};

use super::client::{call, error, notification, result};
use super::world::{Order, World, spawn};

/// CD-03: every method of the contract is registered, and nothing else but the names that end subscriptions.
#[tokio::test]
async fn every_method_of_the_contract_is_there() {
    let world = World::new();
    let document = world.client().ask(&call(1, "rpc.discover", Value::Null)).await;
    assert_eq!(result(&document)["openrpc"], "1.3.2");
    let mut client = world.client();
    for (id, name) in ccagent_proto::openrpc::names().into_iter().enumerate() {
        let answer = client.ask(&call(id, &name, json!({"noSuchKey": 1}))).await;
        let code = error(&answer).1;
        assert_eq!(code, -32602, "{name}: {answer}");
    }
}

/// SP-19: a background spawn is answered once its program runs, with what to call next.
#[tokio::test]
async fn a_background_spawn_is_answered_once_it_runs() {
    let mut world = World::new();
    let mut client = world.client();
    client.send(&spawn(1, json!({"runInBackground": true}))).await;
    let start = world.start().await;
    assert_eq!(result(&client.ask(&call(2, "daemon.status", json!({}))).await)["pid"], std::process::id());
    world.started(&start).await;
    let answer = client.next().await.unwrap();
    let spawned = result(&answer);
    assert_eq!((&spawned["status"], &spawned["taskId"]), (&json!("async_launched"), &json!(start.task)));
    assert_eq!(spawned["task"]["runner"]["pid"], 4242);
    assert!(spawned["hint"].is_string());
}

/// SP-19: a program that could not be executed is the call's error, in the background and in the foreground.
#[tokio::test]
async fn a_failed_exec_is_the_calls_error() {
    let mut world = World::new();
    let mut client = world.client();
    for background in [true, false] {
        client.send(&spawn(1, json!({"runInBackground": background}))).await;
        let start = world.start().await;
        let (cause, message) = ("notFound".to_owned(), "prog: not found".to_owned());
        world.report(&start, Report::StartFailed { cause, message }).await;
        let answer = client.next().await.unwrap();
        assert_eq!(error(&answer), (json!(1), 1702, "processStartFailed".to_owned()));
        let data = &answer["error"]["data"];
        assert_eq!((&data["taskId"], &data["cause"]), (&json!(start.task), &json!("notFound")));
    }
}

/// SP-20, SP-22, FB-06: a foreground spawn answers with the end, and its text begins with a line that names it.
#[tokio::test]
async fn a_foreground_spawn_answers_with_the_end() {
    let mut world = World::new();
    let mut client = world.client();
    for (code, status) in [(0, "completed"), (3, "failed")] {
        client.send(&spawn(1, json!({}))).await;
        let start = world.start().await;
        world.started(&start).await;
        world.ended(&start, code, "said").await;
        let answer = client.next().await.unwrap();
        let done = result(&answer);
        assert_eq!((&done["status"], &done["task"]["exit"]["code"]), (&json!(status), &json!(code)));
        let text = done["text"].as_str().unwrap();
        assert!(text.starts_with(&format!("agentId: {} (", start.task)), "{text}");
        assert!(text.ends_with("\nsaid"), "{text}");
    }
}

/// FB-03, FB-04: a foreground spawn whose time is over, or that somebody moves, is answered as launched.
#[tokio::test]
async fn a_moved_spawn_is_answered_as_launched() {
    let mut world = World::new();
    let (mut client, mut other) = (world.client(), world.client());
    client.send(&spawn(1, json!({"timeoutMs": 20}))).await;
    let start = world.start().await;
    world.started(&start).await;
    let answer = client.next().await.unwrap();
    assert_eq!(result(&answer)["status"], "async_launched");
    assert_eq!(result(&answer)["task"]["isBackgrounded"], true);

    client.send(&spawn(2, json!({}))).await;
    let start = world.start().await;
    world.started(&start).await;
    result(&other.ask(&call(1, "task.background", json!({"taskId": start.task}))).await);
    assert_eq!(result(&client.next().await.unwrap())["status"], "async_launched");
}

/// AB-05: taking a foreground spawn back stops it.
#[tokio::test]
async fn a_cancelled_spawn_is_stopped() {
    let mut world = World::new();
    let mut client = world.client();
    client.send(&spawn(1, json!({}))).await;
    let start = world.start().await;
    world.started(&start).await;
    let answer = client.ask(&notification("$/cancelRequest", json!({"id": 1}))).await;
    assert_eq!(error(&answer), (json!(1), -32800, "cancelled".to_owned()));
    assert!(matches!(world.order().await, Order::Stop(task, _) if task == start.task));
}

/// SV-04, K137: a foreground spawn whose client goes away goes on in the background, and its end is noted.
#[tokio::test]
async fn a_spawn_outlives_its_client() {
    let mut world = World::new();
    let mut client = world.client();
    client.send(&spawn(1, json!({}))).await;
    let start = world.start().await;
    world.started(&start).await;
    let mut other = world.client();
    other.send(&call(1, "notification.next", json!({"waitMs": 10_000}))).await;
    let mut watch = world.hub.watch([crate::hub::Key::Task(start.task)]);
    drop(client);
    let mut asker = world.client();
    let get = call(1, "task.get", json!({"taskId": start.task}));
    while result(&asker.ask(&get).await)["isBackgrounded"] != true {
        watch.changed().await;
    }
    world.ended(&start, 0, "done").await;
    let answer = other.next().await.unwrap();
    assert_eq!(result(&answer)["notifications"][0]["taskId"], json!(start.task));
}

/// B24, B25, SP-20: a foreground spawn that reaches the core after its connection's end goes to the background, and its
/// end is noted.
#[tokio::test]
async fn a_spawn_after_its_connections_end_is_noted() {
    let mut world = World::new();
    let mut other = world.client();
    let first = world.running(&mut other, &spawn(1, json!({"runInBackground": true}))).await;
    let mut client = world.client();
    // The wait is over when the connection is, and only then the spawn is made.
    let wait = call(1, "task.wait", json!({"taskIds": [first.task]}));
    client.send(&format!("[{wait},{}]", spawn(2, json!({})))).await;
    drop(client);
    let start = world.start().await;
    world.started(&start).await;
    let moved = async {
        let mut watch = world.hub.watch([crate::hub::Key::Task(start.task)]);
        let get = call(2, "task.get", json!({"taskId": start.task}));
        while result(&other.ask(&get).await)["isBackgrounded"] != true {
            watch.changed().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), moved).await.expect("it is never moved");
    world.ended(&start, 0, "done").await;
    let answer = other.ask(&call(3, "notification.next", json!({"waitMs": 10_000}))).await;
    assert_eq!(result(&answer)["notifications"][0]["taskId"], json!(start.task));
}

/// SP-19, AB-05: a background spawn whose wait is taken back says which task it made.
#[tokio::test]
async fn a_cancelled_background_spawn_names_its_task() {
    let mut world = World::new();
    let mut client = world.client();
    client.send(&spawn(1, json!({"runInBackground": true}))).await;
    let start = world.start().await;
    let answer = client.ask(&notification("$/cancelRequest", json!({"id": 1}))).await;
    assert_eq!((error(&answer).1, &answer["error"]["data"]["taskId"]), (-32800, &json!(start.task)));
    assert_eq!(
        result(&client.ask(&call(2, "task.get", json!({"taskId": start.task}))).await)["status"],
        "running"
    );
}

/// OF-09, FB-04: whoever waits for a task in the foreground says for how long.
#[tokio::test]
async fn a_foreground_wait_has_an_end() {
    let mut world = World::new();
    let mut client = world.client();
    let start = world.running(&mut client, &spawn(1, json!({"runInBackground": true}))).await;
    let params = json!({"taskId": start.task, "timeoutMs": 10});
    let answer = client.ask(&call(2, "task.foreground", params)).await;
    assert_eq!(result(&answer)["task"]["isBackgrounded"], true);
}

/// TS-07: whoever writes to a task that ended hears the same before and after it is archived.
#[tokio::test]
async fn an_archived_task_has_ended_too() {
    let mut world = World::under(Rules { hold_ms: 0, ..Rules::default() });
    let mut client = world.client();
    let start = world.running(&mut client, &spawn(1, json!({"runInBackground": true}))).await;
    world.ended(&start, 0, "").await;
    let steers = [("task.write", json!({"text": "x"})), ("task.resize", json!({"cols": 1, "rows": 1}))];
    for archived in [false, true] {
        if archived {
            let taken = client.ask(&call(2, "notification.next", json!({}))).await;
            let ids = [&result(&taken)["notifications"][0]["id"]];
            result(&client.ask(&call(3, "notification.ack", json!({ "ids": ids }))).await);
            // Its hold was over at its end: it goes right behind the acknowledgement.
            let list = client.ask(&call(5, "task.list", json!({}))).await;
            assert_eq!(result(&list)["tasks"], json!([]));
        }
        for (method, params) in &steers {
            let mut params = params.clone();
            params["taskId"] = json!(start.task);
            let refused = client.ask(&call(6, method, params)).await;
            assert_eq!((error(&refused).1, &refused["error"]["data"]["taskId"]), (1113, &json!(start.task)));
        }
    }
}

/// SP-23: environment values reach the vault and nothing else; a refused spawn leaves none behind.
#[tokio::test]
async fn environment_values_stay_in_the_vault() {
    let mut world = World::new();
    let mut client = world.client();
    client.send(&spawn(1, json!({"runInBackground": true, "env": {"KEY": "secret"}}))).await;
    let start = world.start().await;
    assert_eq!(world.vault.get(&[1])["KEY"], "secret");
    world.started(&start).await;
    let answer = client.next().await.unwrap();
    assert_eq!(result(&answer)["task"]["envNames"], json!(["KEY"]));
    assert!(!answer.to_string().contains("secret"));
    let refused = client.ask(&spawn(2, json!({"after": ["none"], "env": {"KEY": "secret"}}))).await;
    assert!(error(&refused).1 > 0);
    assert!(world.vault.get(&[2]).is_empty());
}

/// OF-09: a wait answers all asked tasks in their order, when it holds and when the time is over.
#[tokio::test]
async fn a_wait_answers_in_the_order_asked() {
    let mut world = World::new();
    let mut client = world.client();
    let mut starts = Vec::new();
    for id in 0..2 {
        let start = world.running(&mut client, &spawn(id, json!({"runInBackground": true}))).await;
        starts.push(start);
    }
    let ids = json!([starts[1].task, starts[0].task]);
    let over = client.ask(&call(5, "task.wait", json!({"taskIds": ids, "timeoutMs": 10}))).await;
    assert_eq!(result(&over)["timedOut"], true);
    assert_eq!(result(&over)["tasks"][0]["id"], ids[0]);

    client.send(&call(6, "task.wait", json!({"taskIds": ids}))).await;
    client.send(&call(7, "task.wait", json!({"taskIds": ids, "mode": "any"}))).await;
    world.ended(&starts[0], 0, "").await;
    assert_eq!(client.next().await.unwrap()["id"], 7);
    world.ended(&starts[1], 0, "").await;
    let all = client.next().await.unwrap();
    assert_eq!((&all["id"], &result(&all)["timedOut"]), (&json!(6), &json!(false)));
}

/// OF-05, OF-09: a blocking read and a follower see output as it comes, and the follower sees the end.
#[tokio::test]
async fn output_is_seen_as_it_comes() {
    let mut world = World::new();
    let mut client = world.client();
    client.send(&spawn(1, json!({"runInBackground": true}))).await;
    let start = world.start().await;
    world.started(&start).await;
    let spawned = client.next().await.unwrap();
    let file = result(&spawned)["task"]["outputFile"].as_str().unwrap().to_owned();
    std::fs::create_dir_all(std::path::Path::new(&file).parent().unwrap()).unwrap();

    let task = json!(start.task);
    let subscription = client.ask(&call(2, "task.follow", json!({"taskId": task}))).await["result"].clone();
    let mut reader = world.client();
    reader.send(&call(1, "task.output", json!({"taskId": task, "block": true}))).await;
    std::fs::write(&file, "hello").unwrap();
    world.hub.wake(&crate::hub::Key::Output(start.task));
    let read = reader.next().await.unwrap();
    assert_eq!(result(&read)["text"], "hello", "{read}");
    let item = client.next().await.unwrap();
    assert_eq!((&item["method"], &item["params"]["subscription"]), (&json!("output"), &subscription));
    assert_eq!(item["params"]["result"]["text"], "hello", "{item}");
    world.ended(&start, 0, "hello").await;
    let last = client.next().await.unwrap()["params"]["result"].clone();
    assert_eq!(
        (&last["done"], &last["status"], &last["nextOffset"]),
        (&json!(true), &json!("completed"), &json!(5))
    );
}

/// RT-02, MB-04: mail is waited for, handed out once, and handed out again when its reader goes away unacknowledged.
#[tokio::test]
async fn mail_comes_back_when_its_reader_goes_away() {
    let world = World::new();
    let (mut first, mut sender) = (world.client(), world.client());
    first.send(&call(1, "mailbox.poll", json!({"waitMs": 10_000}))).await;
    // Mail to oneself is refused, so another session writes.
    result(&sender.ask(&call(1, "session.open", json!({"name": "other"}))).await);
    result(&sender.ask(&call(2, "message.send", json!({"to": "main", "message": "hi"}))).await);
    assert_eq!(result(&first.next().await.unwrap())["messages"][0]["text"], "hi");
    assert_eq!(result(&first.ask(&call(2, "mailbox.poll", json!({}))).await)["messages"], json!([]));
    let mut second = world.client();
    second.ask(&call(1, "mailbox.subscribe", json!({}))).await;
    drop(first);
    let again = second.next().await.unwrap();
    assert_eq!((&again["method"], &again["params"]["result"]["text"]), (&json!("mail"), &json!("hi")));
}

/// OF-09, SP-24: a wait keeps what it saw last of a task that is erased meanwhile; the others are still waited for.
#[tokio::test]
async fn a_wait_outlives_an_erased_task() {
    let mut world = World::new();
    let (mut client, mut other) = (world.client(), world.client());
    let mut starts = Vec::new();
    for persist in [false, true] {
        let start =
            world.running(&mut client, &spawn(1, json!({"runInBackground": true, "persist": persist}))).await;
        starts.push(start);
    }
    let ids = json!([starts[0].task, starts[1].task]);
    client.send(&call(2, "task.wait", json!({"taskIds": ids}))).await;
    world.ended(&starts[0], 0, "").await;
    let remove = call(1, "task.remove", json!({"taskId": starts[0].task}));
    result(&other.ask(&remove).await);
    let gone = other.ask(&call(2, "task.wait", json!({"taskIds": [starts[0].task]}))).await;
    assert_eq!(error(&gone).1, 1101);
    world.ended(&starts[1], 0, "").await;
    let answer = client.next().await.unwrap();
    let waited = result(&answer);
    assert_eq!((&waited["timedOut"], &waited["tasks"][0]["id"]), (&json!(false), &ids[0]));
    assert_eq!(waited["tasks"][1]["status"], "completed");

    let many: Vec<String> = (0..1001).map(|_| starts[1].task.to_string()).collect();
    let refused = client.ask(&call(3, "task.wait", json!({"taskIds": many}))).await;
    assert_eq!((error(&refused).1, &refused["error"]["data"]["path"]), (-32602, &json!("taskIds")));
}

/// I17: the snapshot holds every live task inside the filter, those of which no record is kept too, and no other.
#[tokio::test]
async fn a_snapshot_is_as_narrow_as_its_subscription() {
    let mut world = World::new();
    let mut client = world.client();
    let mut ids = Vec::new();
    for persist in [true, false] {
        let start =
            world.running(&mut client, &spawn(1, json!({"runInBackground": true, "persist": persist}))).await;
        ids.push(json!(start.task));
    }
    let none = json!({"teamName": "none"});
    for (filter, seen) in [(json!({}), &ids[..]), (json!({"taskId": ids[1]}), &ids[1..]), (none, &[])] {
        let mut reader = world.client();
        reader.ask(&call(1, "event.subscribe", json!({ "filter": filter }))).await;
        let snapshot = reader.next().await.unwrap()["params"]["result"]["tasks"].clone();
        let snapshot: Vec<_> = snapshot.as_array().unwrap().iter().map(|task| task["id"].clone()).collect();
        assert_eq!(snapshot, seen);
    }
}
