//! What a caller's role lets it do, as the edge says it.

use ccagent_core::Limits as Rules;
use serde_json::{Value, json};

use super::client::{Client, call, error, result};
use super::world::{World, spawn};

/// What only operators may call.
const OPERATORS: [&str; 33] = [
    "daemon.config",
    "daemon.export",
    "daemon.reload",
    "daemon.setFlag",
    "daemon.shutdown",
    "hook.list",
    "mcp.list",
    "message.deliver",
    "notification.ack",
    "notification.list",
    "notification.next",
    "permission.addRule",
    "permission.check",
    "permission.removeRule",
    "permission.rules",
    "provider.list",
    "provider.test",
    "session.close",
    "session.get",
    "session.interrupt",
    "session.list",
    "session.messages",
    "session.open",
    "session.pause",
    "session.prompt",
    "session.setMode",
    "session.setModel",
    "session.unpause",
    "task.prune",
    "task.stopAll",
    "trust.add",
    "trust.list",
    "trust.remove",
];

/// An agent's connection, and its task.
async fn agent(
    world: &mut World,
    operator: &mut Client<tokio::net::UnixStream>,
) -> (Client<tokio::net::UnixStream>, Value) {
    let start = world.running(operator, &spawn(1, json!({"runInBackground": true}))).await;
    *world.agent.lock().unwrap() = Some(start.task);
    let mut agent = world.client();
    result(&agent.ask(&call(1, "daemon.status", json!({}))).await);
    *world.agent.lock().unwrap() = None;
    (agent, json!(start.task))
}

/// A17, SV-05: roles come before params: whoever may not make a call hears nothing about its params.
#[tokio::test]
async fn roles_come_before_params() {
    let mut world = World::new();
    let mut operator = world.client();
    let (mut agent, _) = agent(&mut world, &mut operator).await;
    for name in ccagent_proto::openrpc::names() {
        let refused = agent.ask(&call(1, &name, json!({"noSuchKey": 1}))).await;
        // A program makes no team (1405), and has a task list only where it is in a team.
        let expected = match &*name {
            "team.create" => 1405,
            name if OPERATORS.contains(&name) || name.starts_with("tasklist.") => -32000,
            _ => -32602,
        };
        assert_eq!(error(&refused).1, expected, "{name}: {refused}");
        if expected == -32000 {
            let data = &refused["error"]["data"];
            assert_eq!((&data["role"], &data["needs"]), (&json!("agent"), &json!("operator")), "{name}");
        }
    }
}

/// A14, A17: an agent whose run is over hears that, and nothing about its params.
#[tokio::test]
async fn an_agent_that_is_over_hears_so_before_all_else() {
    let mut world = World::new();
    let (start, mut agent) = world.agent_by_token().await;
    world.ended(&start, 0, "").await;
    for method in ["task.get", "task.follow", "agent.spawn"] {
        let refused = agent.ask(&call(2, method, json!({"noSuchKey": 1}))).await;
        assert_eq!(error(&refused).1, -32000, "{method}: {refused}");
    }
}

/// A17: inside a call, too, what a caller may not touch is refused before anything is said about its params.
#[tokio::test]
async fn sight_comes_before_params() {
    let mut world = World::new();
    let mut operator = world.client();
    let (mut agent, _) = agent(&mut world, &mut operator).await;
    let other = world.running(&mut operator, &spawn(2, json!({"runInBackground": true}))).await;
    let many: Vec<_> = (0..1001).map(|_| other.task).collect();
    for (method, params) in [
        ("task.write", json!({"taskId": other.task, "base64": "?"})),
        ("task.output", json!({"taskId": other.task, "offset": 0, "tailLines": 1})),
        ("task.follow", json!({"taskId": other.task, "offset": 0, "tailLines": 1})),
        ("task.wait", json!({ "taskIds": many })),
    ] {
        assert_eq!(error(&agent.ask(&call(1, method, params.clone())).await).1, -32000, "{method}");
        assert_eq!(error(&operator.ask(&call(1, method, params)).await).1, -32602, "{method}");
    }
}

/// A17, SP-18: an agent waits for its own tasks, archived ones too, and for no other's: those are unknown to it.
#[tokio::test]
async fn only_own_tasks_are_waited_for_when_archived_too() {
    let mut world = World::under(Rules { hold_ms: 0, ..Rules::default() });
    let mut operator = world.client();
    let (mut agent, _) = agent(&mut world, &mut operator).await;
    let background = json!({"runInBackground": true});
    let mut own = Vec::new();
    for id in 2..4 {
        own.push(world.running(&mut agent, &spawn(id, background.clone())).await);
    }
    let other = world.running(&mut operator, &spawn(4, background)).await;
    for start in own.iter().chain([&other]) {
        world.ended(start, 0, "").await;
    }
    let taken = operator.ask(&call(5, "notification.next", json!({"max": 10}))).await;
    let notices = result(&taken)["notifications"].as_array().unwrap().clone();
    let ids: Vec<&Value> = notices.iter().map(|notice| &notice["id"]).collect();
    assert_eq!(ids.len(), 3);
    result(&operator.ask(&call(6, "notification.ack", json!({ "ids": ids }))).await);
    // Their hold was over at their end: they go right behind the acknowledgement.
    let listed = operator.ask(&call(7, "task.list", json!({}))).await;
    assert_eq!(result(&listed)["tasks"].as_array().unwrap().len(), 1);
    let refused = agent.ask(&spawn(8, json!({"after": [own[0].task, other.task]}))).await;
    let unknown = agent.ask(&spawn(9, json!({"after": ["nobody"]}))).await;
    assert_eq!(error(&refused).1, error(&unknown).1);
    assert_eq!(refused["error"]["message"], json!(format!("no task {:?}", other.task.to_string())));
    assert!(refused["error"]["data"].get("archived").is_none(), "{refused}");
    let after = json!({"after": [own[0].task, own[1].task], "runInBackground": true});
    let start = world.running(&mut agent, &spawn(10, after)).await;
    assert!(own.iter().all(|child| child.task != start.task));
}

/// A17: a refusal names the caller's role as the core knows it: a lead is no teammate.
#[tokio::test]
async fn a_refusal_names_the_role() {
    let world = World::new();
    let (mut operator, mut lead, mut mate) = (world.client(), world.client(), world.client());
    result(&operator.ask(&call(1, "team.create", json!({"name": "t"}))).await);
    for (client, name) in [(&mut lead, "team-lead"), (&mut mate, "ann")] {
        result(&client.ask(&call(1, "team.join", json!({"teamName": "t", "name": name}))).await);
    }
    let hello = json!({"protocolVersion": 1, "client": {"name": "t", "version": "1"}, "token": "none"});
    for (client, role) in [(&mut lead, "lead"), (&mut mate, "teammate")] {
        for (method, params) in [
            ("daemon.config", json!({})),
            ("daemon.hello", hello.clone()),
            ("event.subscribe", json!({"filter": {"teamName": "other"}})),
        ] {
            let refused = client.ask(&call(2, method, params)).await;
            let data = &refused["error"]["data"];
            assert_eq!((error(&refused).1, &data["role"]), (-32000, &json!(role)), "{method}: {refused}");
            assert!(data["needs"].is_string(), "{method}: {refused}");
        }
    }
}

/// SV-08, A17: an agent hears of its tree and of nothing beside it, in a subscription and in a replay; a member of its
/// team as well.
#[tokio::test]
async fn events_are_heard_as_far_as_tasks_are_seen() {
    let mut world = World::new();
    let mut operator = world.client();
    result(&operator.ask(&call(1, "team.create", json!({"name": "t"}))).await);
    let (mut agent, own) = agent(&mut world, &mut operator).await;
    let mut mate = world.client();
    result(&mate.ask(&call(1, "team.join", json!({"teamName": "t", "name": "ann"}))).await);
    for client in [&mut agent, &mut mate] {
        assert!(
            result(&client.ask(&call(2, "event.subscribe", json!({"topics": ["task"]}))).await).is_string()
        );
        assert_eq!(client.next().await.unwrap()["params"]["result"]["type"], "snapshot");
    }
    let background = json!({"runInBackground": true});
    world.running(&mut operator, &spawn(3, background.clone())).await;
    agent.send(&spawn(3, background)).await;
    let child = world.start().await;
    let in_team = json!({"runInBackground": true, "teamName": "t", "name": "ben"});
    let ben = world.running(&mut operator, &spawn(4, in_team)).await;
    let first = |message: Value| message["params"]["result"]["data"]["taskId"].clone();
    assert_eq!(first(agent.next().await.unwrap()), json!(child.task));
    assert_eq!(first(mate.next().await.unwrap()), json!(ben.task));

    for (client, tasks) in [(&mut mate, vec![json!(ben.task)]), (&mut agent, vec![own, json!(child.task)])] {
        let replay = call(5, "event.replay", json!({"sinceSeq": 0, "limit": 1000}));
        client.send(&replay).await;
        let answer = loop {
            let message = client.next().await.unwrap();
            if message["id"] == 5 {
                break message;
            }
        };
        let events = result(&answer)["events"].as_array().unwrap();
        let mut heard: Vec<&Value> = events.iter().map(|event| &event["data"]["taskId"]).collect();
        heard.retain(|task| !task.is_null());
        heard.dedup();
        for task in &tasks {
            assert!(heard.contains(&task), "{task}: {heard:?}");
        }
        assert!(heard.iter().all(|task| tasks.contains(task)), "{heard:?}");
    }
}
