//! Teams: processes of their own join over the socket, leave, and come back.

use ccagent_proto::Kind;
use ccagent_tests::Daemon;
use serde_json::json;

/// CD-05: a process joins with a name, is that member until it leaves, and absent members still receive.
#[tokio::test]
async fn a_process_joins_and_absent_members_still_receive() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let team = conn.ok("team.create", json!({ "name": "t", "description": "d" })).await;
    assert_eq!((&team["name"], &team["description"]), (&json!("t"), &json!("d")));
    assert_eq!(conn.kind("team.create", json!({ "name": "t" })).await, Kind::TeamExists);
    let mut raw = daemon.raw();
    let joined = raw.call("team.join", &json!({ "teamName": "t", "name": "mate" }));
    assert_eq!(joined["result"]["member"]["agentId"], "mate@t");
    let presence = async || {
        let team = conn.ok("team.get", json!({ "name": "t" })).await;
        let members = team["members"].as_array().unwrap().clone();
        members.iter().find(|member| member["name"] == "mate").unwrap()["presence"].clone()
    };
    assert_eq!(presence().await, "connected");
    let other = daemon.connect().await;
    assert_eq!(other.kind("team.join", json!({ "teamName": "t", "name": "mate" })).await, Kind::NameTaken);
    let mut events = conn.events(json!(["team"])).await;
    drop(raw);
    while presence().await == "connected" {
        ccagent_tests::conn::next(&mut events).await;
    }
    let params = json!({ "to": "mate", "teamName": "t", "message": "while away" });
    conn.ok("message.send", params).await;
    let token = joined["result"]["token"].clone();
    let mut back = daemon.raw();
    let again = back.call("team.join", &json!({ "teamName": "t", "name": "mate", "token": token }));
    assert_eq!(again["result"]["member"]["generation"], joined["result"]["member"]["generation"]);
    let mail = back.call("mailbox.poll", &json!({ "waitMs": 50_000 }));
    assert_eq!(mail["result"]["messages"][0]["text"], "while away");
    back.call("team.leave", &json!({}));
    let params = json!({ "to": "mate", "teamName": "t", "message": "after it left" });
    assert_eq!(conn.kind("message.send", params).await, Kind::RecipientUnknown);
    daemon.end().await;
}

/// CD-05, I13: a name whose process died is free for the holder of its token, also after a restart.
#[tokio::test]
async fn a_member_comes_back_with_its_token_after_a_restart() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    conn.ok("team.create", json!({ "name": "t" })).await;
    let joined = conn.ok("team.join", json!({ "teamName": "t", "name": "mate" })).await;
    daemon.crash();
    daemon.restart();
    let conn = daemon.connect().await;
    let params = json!({ "teamName": "t", "name": "mate", "token": joined["token"] });
    let again = conn.ok("team.join", params).await;
    assert_eq!(again["member"]["generation"], joined["member"]["generation"]);
    daemon.end().await;
}

/// SP-02, SP-36: an agent with a name and a team is a member; a team with live members is not deleted without force.
#[tokio::test]
async fn a_spawned_member_belongs_to_the_team() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    conn.ok("team.create", json!({ "name": "t" })).await;
    let params = json!({ "command": ["/bin/sleep", "600"], "name": "mate", "teamName": "t" });
    assert_eq!(conn.ok("agent.explain", params.clone()).await["route"], "teammate");
    let spawned = conn.ok("agent.spawn", params).await;
    assert_eq!(spawned["status"], "teammate_spawned");
    assert_eq!(conn.task("mate@t").await["id"], spawned["taskId"]);
    let team = conn.ok("team.get", json!({ "name": "t" })).await;
    assert!(team["members"].to_string().contains(spawned["taskId"].as_str().unwrap()), "{team}");
    assert_eq!(conn.kind("team.delete", json!({ "name": "t" })).await, Kind::MembersActive);
    conn.ok("team.delete", json!({ "name": "t", "force": true })).await;
    assert_eq!(conn.kind("team.get", json!({ "name": "t" })).await, Kind::NoTeam);
    daemon.end().await;
}
