//! What waits for tasks, mail and output, over a real core.

use ccagent_core::input::Report;
use ccagent_proto::daemon::ShutdownMode;
use serde_json::{Value, json};

use super::client::{call, error, notification};
use super::world::{Order, World, spawn};

fn result(answer: &Value) -> &Value {
    assert!(answer.get("error").is_none(), "{answer}");
    &answer["result"]
}

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
        client.send(&spawn(id, json!({"runInBackground": true}))).await;
        let start = world.start().await;
        world.started(&start).await;
        client.next().await.unwrap();
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

/// D49: a stop is answered only after every end was confirmed.
#[tokio::test]
async fn a_stop_is_answered_after_the_end() {
    let mut world = World::new();
    let mut client = world.client();
    client.send(&spawn(1, json!({"runInBackground": true}))).await;
    let start = world.start().await;
    world.started(&start).await;
    client.next().await.unwrap();
    client.send(&call(2, "task.stop", json!({"taskId": start.task}))).await;
    assert!(matches!(world.order().await, Order::Stop(task, 10_000) if task == start.task));
    // Other calls are answered meanwhile, and this one is not.
    assert_eq!(client.ask(&call(3, "task.get", json!({"taskId": start.task}))).await["id"], 3);
    world.ended(&start, 143, "").await;
    let answer = client.next().await.unwrap();
    assert_eq!(result(&answer)["task"]["status"], "killed");
    let again = client.ask(&call(4, "task.stop", json!({"taskId": start.task}))).await;
    assert_eq!(error(&again).1, 1113);
}

/// AB-06: stop-all says what ended and what did not, and kills the rest.
#[tokio::test]
async fn stop_all_kills_what_does_not_end() {
    let mut world = World::new();
    let mut client = world.client();
    let mut starts = Vec::new();
    for id in 0..2 {
        client.send(&spawn(id, json!({"runInBackground": true}))).await;
        let start = world.start().await;
        world.started(&start).await;
        client.next().await.unwrap();
        starts.push(start);
    }
    client.send(&call(5, "task.stopAll", json!({"timeoutMs": 100}))).await;
    for _ in 0..2 {
        assert!(matches!(world.order().await, Order::Stop(_, 100)));
    }
    world.ended(&starts[0], 143, "").await;
    let answer = client.next().await.unwrap();
    assert_eq!(result(&answer)["stopped"], json!([starts[0].task]));
    assert_eq!(result(&answer)["abandoned"], json!([starts[1].task]));
    assert!(matches!(world.order().await, Order::Stop(task, 0) if task == starts[1].task));
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

/// SV-08, RT-13: events reach a subscriber in order; a message over `uds:` reaches our own socket's like any other.
#[tokio::test]
async fn a_message_to_a_socket_is_delivered_by_its_reply() {
    let world = World::new();
    let path = world.path("s");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    tokio::spawn(std::sync::Arc::clone(&world.edge).serve(listener));
    let mut client = world.client();
    result(&client.ask(&call(0, "session.open", json!({"name": "other"}))).await);
    let first = client.ask(&call(1, "event.subscribe", json!({"topics": ["mail"]}))).await;
    assert!(first["result"].is_string());
    assert_eq!(client.next().await.unwrap()["params"]["result"]["type"], "snapshot");
    let mut sender = world.client();
    let params = json!({"to": format!("uds:{}#other", path.display()), "message": "hi"});
    let sent = sender.ask(&call(1, "message.send", params)).await;
    assert_eq!(
        (&result(&sent)["route"], &result(&sent)["delivered"][0]["state"]),
        (&json!("uds"), &json!("delivered"))
    );
    assert_eq!(client.next().await.unwrap()["params"]["result"]["topic"], "mail");
    let read = client.ask(&call(2, "mailbox.read", json!({}))).await;
    let from = result(&read)["messages"][0]["from"].as_str().unwrap().to_owned();
    assert_eq!(from, format!("uds:{}#operator", path.display()));
}

/// SV-05: another protocol version and a token that nobody has are refused; hello says who one is.
#[tokio::test]
async fn hello_says_who_one_is() {
    let world = World::new();
    let mut client = world.client();
    let hello = |version: u32, token: Option<&str>| {
        let client = json!({"name": "t", "version": "1"});
        let mut params = json!({"protocolVersion": version, "client": client});
        if let Some(token) = token {
            params["token"] = token.into();
        }
        call(1, "daemon.hello", params)
    };
    assert_eq!(result(&client.ask(&hello(1, None)).await)["role"], "operator");
    assert_eq!(error(&client.ask(&hello(2, None)).await).1, -32003);
    assert_eq!(error(&client.ask(&hello(1, Some("none"))).await).1, -32000);
}

/// CD-05: a connection that joined is that member until it leaves, and its token makes another connection it.
#[tokio::test]
async fn a_member_is_one_until_it_leaves() {
    let world = World::new();
    let (mut operator, mut member, mut again) = (world.client(), world.client(), world.client());
    result(&operator.ask(&call(1, "team.create", json!({"name": "t"}))).await);
    let joined = member.ask(&call(1, "team.join", json!({"teamName": "t", "name": "n"}))).await;
    let token = result(&joined)["token"].clone();
    assert_eq!(error(&member.ask(&call(2, "daemon.config", json!({}))).await).1, -32000);
    let hello = json!({"protocolVersion": 1, "client": {"name": "t", "version": "1"}, "token": token});
    let hello = again.ask(&call(1, "daemon.hello", hello)).await;
    assert_eq!((&result(&hello)["role"], &result(&hello)["identity"]), (&json!("teammate"), &json!("n@t")));
    let other = json!({"filter": {"teamName": "other"}});
    assert_eq!(error(&member.ask(&call(2, "event.subscribe", other)).await).1, -32000);
    assert_eq!(error(&member.ask(&call(2, "event.replay", json!({"sinceSeq": 0}))).await).1, -32000);
    assert_eq!(error(&member.ask(&call(2, "daemon.shutdown", json!({}))).await).1, -32000);
    result(&member.ask(&call(3, "team.leave", json!({}))).await);
    result(&member.ask(&call(4, "daemon.config", json!({}))).await);
}

/// AB-06: a shutdown ends agents first, still answers, and starts nothing new.
#[tokio::test]
async fn a_shutdown_ends_agents_first() {
    let mut world = World::new();
    let mut client = world.client();
    client.send(&spawn(1, json!({"runInBackground": true}))).await;
    let start = world.start().await;
    world.started(&start).await;
    client.next().await.unwrap();
    client.send(&call(2, "daemon.shutdown", json!({"timeoutMs": 5000}))).await;
    assert!(matches!(world.order().await, Order::Stop(task, 5000) if task == start.task));
    let late = world.client().ask(&spawn(1, json!({"runInBackground": true}))).await;
    assert_eq!(error(&late).1, -32020);
    world.ended(&start, 143, "").await;
    assert_eq!(result(&client.next().await.unwrap())["stopped"], json!([start.task]));
    assert_eq!(world.ended.recv().await, Some(ShutdownMode::Graceful));
}
