//! Who a connection is, and what follows from that, over a real core.

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use super::client::{call, error, notification, result};
use super::world::{World, spawn};

/// SV-08, RT-13: events reach a subscriber in order; a message over `uds:` reaches another daemon like any other.
#[tokio::test]
async fn a_message_to_a_socket_is_delivered_by_its_reply() {
    let (world, far) = (World::new(), World::new());
    let mut client = far.client();
    result(&client.ask(&call(0, "session.open", json!({"name": "other"}))).await);
    let first = client.ask(&call(1, "event.subscribe", json!({"topics": ["mail"]}))).await;
    assert!(first["result"].is_string());
    assert_eq!(client.next().await.unwrap()["params"]["result"]["type"], "snapshot");
    let mut sender = world.client();
    let params = json!({"to": format!("uds:{}#other", far.path("s").display()), "message": "hi"});
    let sent = sender.ask(&call(1, "message.send", params)).await;
    assert_eq!(
        (&result(&sent)["route"], &result(&sent)["delivered"][0]["state"]),
        (&json!("uds"), &json!("delivered"))
    );
    assert_eq!(client.next().await.unwrap()["params"]["result"]["topic"], "mail");
    let read = client.ask(&call(2, "mailbox.read", json!({}))).await;
    let from = result(&read)["messages"][0]["from"].as_str().unwrap().to_owned();
    assert_eq!(from, format!("uds:{}#operator", world.path("s").display()));
}

/// SV-09, RT-13: a message to a socket that does not reply can be taken back.
#[tokio::test]
async fn a_message_to_a_silent_socket_is_taken_back() {
    let world = World::new();
    let silent = tokio::net::UnixListener::bind(world.path("silent")).unwrap();
    let mut client = world.client();
    let to = format!("uds:{}", world.path("silent").display());
    client.send(&call(1, "message.send", json!({"to": to, "message": "hi"}))).await;
    let (mut socket, _) = silent.accept().await.unwrap();
    assert!(socket.read_u8().await.is_ok());
    client.send(&notification("$/cancelRequest", json!({"id": 1}))).await;
    let answer = client.next().await.unwrap();
    assert_eq!(error(&answer).1, -32800);
    // Not because its time was over.
    assert_eq!(answer["error"]["data"]["kind"], "cancelled");
}

/// RT-12, SV-05: nobody reaches the daemon through the daemon: it would speak there as an operator.
#[tokio::test]
async fn the_daemon_sends_nothing_to_itself() {
    let mut world = World::new();
    let mut client = world.client();
    let start = world.running(&mut client, &spawn(1, json!({"runInBackground": true}))).await;
    std::fs::hard_link(world.path("s"), world.path("other")).unwrap();
    *world.agent.lock().unwrap() = Some(start.task);
    let mut agent = world.client();
    let deliver = json!({"message": {"from": "me", "text": "hi"}});
    assert_eq!(error(&agent.ask(&call(1, "message.deliver", deliver)).await).1, -32000);
    for caller in [&mut agent, &mut client] {
        for name in ["s", "other"] {
            let params = json!({"to": format!("uds:{}#main", world.path(name).display()), "message": "hi"});
            assert_eq!(error(&caller.ask(&call(2, "message.send", params)).await).1, 1308);
        }
    }
}

/// RT-13: a message out of the daemon has a sender that the core stamped; members send none, and no key makes one
/// that is sent twice one.
#[tokio::test]
async fn a_message_out_of_the_daemon_is_the_agents_own() {
    let (mut world, far) = (World::new(), World::new());
    let mut client = world.client();
    let start = world.running(&mut client, &spawn(1, json!({"runInBackground": true, "name": "ann"}))).await;
    *world.agent.lock().unwrap() = Some(start.task);
    let mut agent = world.client();
    let params = json!({"to": format!("uds:{}", far.path("s").display()), "message": "hi"});
    result(&agent.ask(&call(2, "message.send", params.clone())).await);
    let read = far.client().ask(&call(3, "mailbox.read", json!({}))).await;
    let from = result(&read)["messages"][0]["from"].as_str().unwrap().to_owned();
    assert_eq!(from, format!("uds:{}#ann", world.path("s").display()));

    let mut keyed = params.clone();
    keyed["idempotencyKey"] = "k".into();
    let refused = client.ask(&call(4, "message.send", keyed)).await;
    assert_eq!((error(&refused).1, &refused["error"]["data"]["path"]), (-32602, &json!("idempotencyKey")));
    result(&client.ask(&call(5, "team.create", json!({"name": "t"}))).await);
    result(&client.ask(&call(6, "team.join", json!({"teamName": "t", "name": "n"}))).await);
    assert_eq!(error(&client.ask(&call(7, "message.send", params)).await).1, -32000);
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

/// CD-05: a connection that joined is that member until it leaves.
#[tokio::test]
async fn a_member_is_one_until_it_leaves() {
    let world = World::new();
    let (mut operator, mut member) = (world.client(), world.client());
    result(&operator.ask(&call(1, "team.create", json!({"name": "t"}))).await);
    result(&member.ask(&call(1, "team.join", json!({"teamName": "t", "name": "n"}))).await);
    assert_eq!(error(&member.ask(&call(2, "daemon.config", json!({}))).await).1, -32000);
    let other = json!({"filter": {"teamName": "other"}});
    assert_eq!(error(&member.ask(&call(2, "event.subscribe", other)).await).1, -32000);
    assert_eq!(error(&member.ask(&call(2, "daemon.shutdown", json!({}))).await).1, -32000);
    result(&member.ask(&call(3, "team.leave", json!({}))).await);
    result(&member.ask(&call(4, "daemon.config", json!({}))).await);
}

/// CD-05: a member's token makes another connection it, once its own has ended.
#[tokio::test]
async fn a_token_takes_the_members_seat() {
    let world = World::new();
    let (mut operator, mut member, mut again) = (world.client(), world.client(), world.client());
    result(&operator.ask(&call(1, "team.create", json!({"name": "t"}))).await);
    let joined = member.ask(&call(1, "team.join", json!({"teamName": "t", "name": "n"}))).await;
    let hello = json!({"protocolVersion": 1, "client": {"name": "t", "version": "1"}});
    let mut hello = call(1, "daemon.hello", hello);
    hello.insert_str(hello.len() - 2, &format!(",\"token\":{}", result(&joined)["token"]));
    assert_eq!(error(&again.ask(&hello).await).1, 1111);
    result(&again.ask(&call(2, "daemon.config", json!({}))).await);

    operator.ask(&call(2, "event.subscribe", json!({"topics": ["team"]}))).await;
    assert_eq!(operator.next().await.unwrap()["params"]["result"]["type"], "snapshot");
    drop(member);
    assert_eq!(operator.next().await.unwrap()["params"]["result"]["type"], "team.presence");
    let hello = again.ask(&hello).await;
    assert_eq!((&result(&hello)["role"], &result(&hello)["identity"]), (&json!("teammate"), &json!("n@t")));
}

/// CD-05, SV-09: a hello is finished once it is begun: what takes it back leaves no seat to a connection that does not
/// know of it.
#[tokio::test]
async fn a_hello_is_finished_once_it_is_begun() {
    let world = World::new();
    let (mut operator, mut member, mut again) = (world.client(), world.client(), world.client());
    result(&operator.ask(&call(1, "team.create", json!({"name": "t"}))).await);
    let joined = member.ask(&call(1, "team.join", json!({"teamName": "t", "name": "n"}))).await;
    let token = result(&joined)["token"].clone();
    operator.ask(&call(2, "event.subscribe", json!({"topics": ["team"]}))).await;
    operator.next().await.unwrap();
    drop(member);
    assert_eq!(operator.next().await.unwrap()["params"]["result"]["type"], "team.presence");
    let who = json!({"name": "t", "version": "1"});
    let hello = json!({"protocolVersion": 1, "client": who, "token": token});
    let mut both = Vec::new();
    again.frame(&call(1, "daemon.hello", hello), &mut both);
    again.frame(&notification("$/cancelRequest", json!({"id": 1})), &mut both);
    again.raw(&both).await;
    assert_eq!(result(&again.next().await.unwrap())["identity"], "n@t");
    result(&again.ask(&call(2, "mailbox.read", json!({}))).await);
}

/// SV-05: a refused hello changes nothing: neither who one is nor which session one means.
#[tokio::test]
async fn a_refused_hello_changes_nothing() {
    let world = World::new();
    let (mut operator, mut member) = (world.client(), world.client());
    result(&operator.ask(&call(1, "team.create", json!({"name": "t"}))).await);
    let joined = member.ask(&call(1, "team.join", json!({"teamName": "t", "name": "n"}))).await;
    let token = result(&joined)["token"].clone();
    drop(member);
    let mut hello = json!({"protocolVersion": 1, "client": {"name": "t", "version": "1"}});
    (hello["token"], hello["sessionId"]) = (token, "session_none".into());
    assert_eq!(error(&operator.ask(&call(2, "daemon.hello", hello.clone())).await).1, -32000);
    result(&operator.ask(&call(3, "daemon.config", json!({}))).await);
}

/// SV-05: an agent may name its own session at hello, and no other.
#[tokio::test]
async fn an_agent_may_name_its_own_session() {
    let mut world = World::new();
    let mut client = world.client();
    let start = world.running(&mut client, &spawn(1, json!({"runInBackground": true}))).await;
    let opened = client.ask(&call(2, "session.open", json!({"name": "other"}))).await;
    *world.agent.lock().unwrap() = Some(start.task);
    let mut agent = world.client();
    let hello = |session: &Value| {
        let client = json!({"name": "t", "version": "1"});
        call(1, "daemon.hello", json!({"protocolVersion": 1, "client": client, "sessionId": session}))
    };
    assert_eq!(result(&agent.ask(&hello(&json!("main"))).await)["role"], "agent");
    assert_eq!(error(&agent.ask(&hello(&result(&opened)["sessionId"])).await).1, -32000);
}

/// MB-04, CD-05: a member hears of its own mail and of no teammate's, and of nothing once it has left.
#[tokio::test]
async fn a_member_hears_of_its_own_mail_only() {
    let world = World::new();
    let (mut operator, mut member, mut mate) = (world.client(), world.client(), world.client());
    result(&operator.ask(&call(1, "team.create", json!({"name": "t"}))).await);
    result(&member.ask(&call(1, "team.join", json!({"teamName": "t", "name": "ann"}))).await);
    result(&mate.ask(&call(1, "team.join", json!({"teamName": "t", "name": "ben"}))).await);
    member.ask(&call(2, "event.subscribe", json!({"topics": ["mail", "team"]}))).await;
    assert_eq!(member.next().await.unwrap()["params"]["result"]["type"], "snapshot");
    for (id, to) in [(2, "ben@t"), (3, "ann@t")] {
        result(&operator.ask(&call(id, "message.send", json!({"to": to, "message": "hi"}))).await);
    }
    let heard = member.next().await.unwrap()["params"]["result"].clone();
    assert_eq!((&heard["type"], &heard["data"]["to"]), (&json!("mail.queued"), &json!("ann@t")), "{heard}");

    member.send(&call(4, "team.leave", json!({}))).await;
    while member.next().await.unwrap()["id"] != 4 {}
    result(&mate.ask(&call(5, "team.leave", json!({}))).await);
    member.send(&call(7, "daemon.status", json!({}))).await;
    loop {
        let message = member.next().await.unwrap();
        if message["id"] == 7 {
            break;
        }
        // That it left itself it may hear or not.
        assert_eq!(message["params"]["result"]["data"]["name"], "ann", "{message}");
    }
}

/// A14, I11: a connection whose seat is gone steers nothing, reads nothing and hears nothing of the next team of that
/// name; what it had subscribed to ends.
#[tokio::test]
async fn a_lost_seat_takes_all_rights_along() {
    let mut world = World::new();
    let (mut operator, mut lead) = (world.client(), world.client());
    let seat = json!({"teamName": "t", "name": "team-lead"});
    result(&operator.ask(&call(1, "team.create", json!({"name": "t"}))).await);
    result(&lead.ask(&call(1, "team.join", seat.clone())).await);
    lead.ask(&call(2, "event.subscribe", json!({}))).await;
    assert_eq!(lead.next().await.unwrap()["params"]["result"]["type"], "snapshot");

    result(&operator.ask(&call(2, "team.delete", json!({"name": "t", "force": true}))).await);
    result(&operator.ask(&call(3, "team.create", json!({"name": "t"}))).await);
    result(&world.client().ask(&call(1, "team.join", seat)).await);
    let member = spawn(4, json!({"teamName": "t", "name": "new", "runInBackground": true}));
    let start = world.running(&mut operator, &member).await;
    lead.send(&call(3, "task.write", json!({"taskId": start.task, "text": "x"}))).await;
    lead.send(&call(4, "task.resize", json!({"taskId": start.task, "cols": 1, "rows": 1}))).await;
    lead.send(&call(5, "event.subscribe", json!({}))).await;
    lead.send(&call(6, "task.list", json!({"cursor": "past:"}))).await;

    // The connection is at its end once its subscriptions are.
    lead.half_close().await;
    let mut refused = Vec::new();
    while let Some(message) = lead.next().await {
        if message.get("id").is_some() {
            refused.push(error(&message).1);
        } else {
            // The last that it hears is the end of its own team.
            assert_eq!(message["params"]["result"]["type"], "team.deleted", "{message}");
        }
    }
    assert_eq!(refused, [1404; 4]);
}

/// A14: events that an agent's token opened end with the agent's run.
#[tokio::test]
async fn an_agents_events_end_with_its_run() {
    let mut world = World::new();
    let (start, mut agent) = world.agent_by_token().await;
    agent.ask(&call(2, "event.subscribe", json!({"topics": ["sdk"]}))).await;
    world.ended(&start, 0, "").await;
    agent.half_close().await;
    let mut heard = Vec::new();
    while let Some(message) = agent.next().await {
        heard.push(message["params"]["result"]["type"].clone());
    }
    assert_eq!(heard, ["snapshot", "task_notification", "task_updated", "task_completed"]);
}
