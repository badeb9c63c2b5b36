//! Task lists over the socket: one of many claimers wins, nothing that was acknowledged is lost, agents work through them.

use std::collections::BTreeSet;

use ccagent_proto::Kind;
use ccagent_tests::conn::{merge, next};
use ccagent_tests::daemon::run;
use ccagent_tests::{Conn, Daemon, Home, programs};
use serde_json::{Value, json};

use super::agents::{World, agent, call, told};

/// Claimers that race.
const CLAIMERS: usize = 200;

/// A team on the daemon, and a connection that made it.
async fn team(daemon: &Daemon) -> Conn {
    let conn = daemon.connect().await;
    conn.ok("team.create", json!({ "name": "red" })).await;
    conn
}

async fn add(conn: &Conn, subject: &str, more: Value) -> Value {
    let mut params = json!({ "list": "red", "subject": subject });
    merge(&mut params, more);
    conn.ok("tasklist.create", params).await
}

async fn item(conn: &Conn, id: &str) -> Value {
    conn.ok("tasklist.get", json!({ "list": "red", "itemId": id })).await
}

/// Members on connections of their own.
async fn members(daemon: &Daemon, count: usize) -> Vec<Conn> {
    let mut members = Vec::new();
    for n in 0..count {
        let conn = daemon.connect().await;
        conn.ok("team.join", json!({ "teamName": "red", "name": format!("m{n}") })).await;
        members.push(conn);
    }
    members
}

/// TL-10, I113: of two hundred members on connections of their own that claim one item, one wins, and each other one is
/// told who; of as many that ask for the next item, each gets another one.
#[tokio::test]
async fn one_of_many_claimers_wins() {
    let daemon = Daemon::start();
    let conn = team(&daemon).await;
    add(&conn, "the one", json!({})).await;
    for n in 0..CLAIMERS {
        add(&conn, &format!("part {n}"), json!({})).await;
    }
    let members = members(&daemon, CLAIMERS).await;
    let claims = members.iter().map(|member| member.call("tasklist.claim", json!({ "itemId": "1" })));
    let (mut won, mut lost) = (Vec::new(), Vec::new());
    for claim in futures_util::future::join_all(claims).await {
        match claim {
            Ok(item) => won.push(item["owner"].as_str().unwrap().to_owned()),
            Err(error) => lost.push(error.rpc().unwrap().data["owner"].as_str().unwrap().to_owned()),
        }
    }
    assert_eq!((won.len(), lost.len()), (1, CLAIMERS - 1));
    assert!(lost.iter().all(|owner| *owner == won[0]), "{won:?} {lost:?}");
    assert_eq!(item(&conn, "1").await["owner"], won[0].as_str());

    let asked = members.iter().map(|member| member.ok("tasklist.next", json!({})));
    let got = futures_util::future::join_all(asked).await;
    let ids: BTreeSet<&str> = got.iter().map(|got| got["item"]["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), CLAIMERS);
    assert_eq!(members[0].ok("tasklist.next", json!({})).await, json!({}));
    daemon.end().await;
}

/// TL-04, TL-09, I2, H101: whatever was acknowledged is there after a `kill -9`: items, who has them, and what waits for
/// what; a claim whose answer may have been lost is made again and has the one outcome.
#[tokio::test]
async fn a_list_outlives_a_kill() {
    let mut daemon = Daemon::start();
    let conn = team(&daemon).await;
    add(&conn, "first", json!({ "metadata": { "k": { "deep": [1, null] } } })).await;
    add(&conn, "second", json!({ "blockedBy": ["1"] })).await;
    let spawn = json!({ "name": "ann", "teamName": "red" });
    let ann = conn.spawn(&["/bin/sleep", "600"], spawn).await;
    let claim = json!({ "list": "red", "itemId": "1", "owner": "ann" });
    let claimed = conn.ok("tasklist.claim", claim.clone()).await;
    daemon.crash();
    daemon.restart();
    let conn = daemon.connect().await;
    assert_eq!(item(&conn, "1").await, claimed);
    assert_eq!(conn.ok("tasklist.claim", claim).await, claimed);
    assert_eq!(item(&conn, "2").await["blockedBy"], json!(["1"]));
    let done = json!({ "list": "red", "itemId": "1", "patch": { "status": "completed" } });
    conn.ok("tasklist.update", done).await;
    daemon.crash();
    daemon.restart();
    let conn = daemon.connect().await;
    assert_eq!(item(&conn, "2").await["blockedBy"], json!([]));
    conn.ok("tasklist.claim", json!({ "list": "red", "itemId": "2", "owner": "ann" })).await;
    let mut events = conn.events(json!(["tasklist"])).await;
    // I114: its owner is gone, and it is open again, with the cause.
    conn.ok("task.stop", json!({ "taskId": ann, "force": true })).await;
    let event = loop {
        let event = next(&mut events).await;
        if event["type"] == "tasklist.reopened" {
            break event;
        }
    };
    assert_eq!((&event["data"]["itemId"], &event["data"]["was"]), (&json!("2"), &json!("ann")), "{event}");
    assert_eq!(add(&conn, "third", json!({})).await["id"], "3");
    daemon.end().await;
}

/// SV-03, I8, I13, TL-05: hostile calls are refused by their kinds and places, and the list stays as it is.
#[tokio::test]
async fn hostile_calls_leave_a_list_as_it_is() {
    let daemon = Daemon::start();
    let conn = team(&daemon).await;
    add(&conn, "first", json!({})).await;
    add(&conn, "second", json!({ "blockedBy": ["1"] })).await;
    let all = conn.ok("tasklist.list", json!({ "list": "red" })).await;
    let update =
        |id: &str, patch: Value| ("tasklist.update", json!({ "list": "red", "itemId": id, "patch": patch }));
    let create = |more: Value| {
        let mut params = json!({ "list": "red", "subject": "x" });
        merge(&mut params, more);
        ("tasklist.create", params)
    };
    let nested = (0..90).fold(json!(1), |inner, _| json!([inner]));
    assert!(conn.call("tasklist.create", create(json!({ "metadata": { "n": nested } })).1).await.is_ok());
    conn.ok("tasklist.delete", json!({ "list": "red", "itemId": "3" })).await;
    let stale = json!({ "list": "red", "itemId": "1", "patch": { "subject": "y" }, "ifRevision": 7 });
    let rows = [
        (create(json!({ "subject": "\u{1b}]0;title\u{7}" })), Kind::InvalidParams),
        (create(json!({ "subject": "a\u{0}b" })), Kind::InvalidParams),
        (create(json!({ "description": "x".repeat(10 << 20) })), Kind::InvalidParams),
        (create(json!({ "metadata": { "k": "x".repeat(1 << 20) } })), Kind::InvalidParams),
        (create(json!({ "metadata": [] })), Kind::InvalidParams),
        (create(json!({ "metadata": { "$serde_json::private::RawValue": "[1]" } })), Kind::InvalidParams),
        (create(json!({ "owner": "me" })), Kind::InvalidParams),
        (create(json!({ "blockedBy": ["99"] })), Kind::NotFound),
        (update("1", json!({ "addBlockedBy": ["2"] })), Kind::DependencyCycle),
        (update("2", json!({ "addBlocks": ["1"] })), Kind::DependencyCycle),
        (update("1", json!({ "addBlocks": ["1"] })), Kind::DependencyCycle),
        (update("2", json!({ "status": "completed" })), Kind::ItemBlocked),
        (update("1", json!({ "status": "done" })), Kind::InvalidParams),
        (update("1", json!({ "revision": 1 })), Kind::InvalidParams),
        (update("1", json!({ "owner": "nobody" })), Kind::NoMember),
        (update("3", json!({ "status": "pending" })), Kind::BadTransition),
        (update("-1", json!({})), Kind::InvalidParams),
        (("tasklist.update", stale), Kind::RevisionConflict),
        (("tasklist.claim", json!({ "list": "red", "itemId": "2" })), Kind::ItemBlocked),
        (("tasklist.list", json!({ "list": "../red" })), Kind::NoTeam),
        (("tasklist.list", json!({ "list": "red", "cursor": "x" })), Kind::InvalidParams),
    ];
    for ((method, params), kind) in rows {
        let shown: String = params.to_string().chars().take(200).collect();
        assert_eq!(conn.kind(method, params).await, kind, "{method} {shown}");
    }
    let error = conn.err("tasklist.create", json!({ "list": "red", "subject": "x", "ownr": 1 })).await;
    assert_eq!(error.data["path"], "ownr");
    let mut huge = daemon.raw();
    let text = "x".repeat(50 << 20);
    huge.send(format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tasklist.create\",\"params\":{{\"subject\":\"{text}\"}}}}\n"));
    assert!(huge.line().unwrap()["error"]["code"].is_i64());
    assert_eq!(conn.ok("tasklist.list", json!({ "list": "red" })).await, all);
    daemon.end().await;
}

/// TL-01, SV-05: a program that is a member works on its team's list by itself, whatever it names; one that is in no
/// team has none.
#[tokio::test]
async fn a_program_has_its_teams_list() {
    let daemon = Daemon::start();
    let conn = team(&daemon).await;
    let ctl = programs::client().display().to_string();
    let script = format!(
        "{ctl} tasklist add build && {ctl} tasklist claim && {ctl} tasklist done 1; {ctl} tasklist ls --list main; echo over"
    );
    let params = json!({ "name": "ann", "teamName": "red" });
    let id = conn.spawn(&["/bin/sh", "-c", &script], params).await;
    conn.see(&id, "over\n").await;
    let made = item(&conn, "1").await;
    assert_eq!(
        (&made["subject"], &made["status"], &made["owner"]),
        (&json!("build"), &json!("completed"), &json!("ann"))
    );
    let alone = conn.sh(&format!("{ctl} tasklist ls; echo code $?")).await;
    let said = conn.see(&alone, "code ").await;
    assert!(said.contains("code 4") && said.contains("its own team"), "{said}");
    daemon.end().await;
}

/// TP-22, TP-23, TL-02, TL-08, TL-09, TM-17: a scripted agent makes a team, puts work on its list, and starts a member,
/// which takes what is free, is refused what waits, completes its part, and so frees the rest; the lead does that, and
/// deletes the team.
#[tokio::test]
async fn a_team_works_through_its_list() {
    let world = World::start().await;
    let task = |id: &str, more: Value| {
        let mut input = json!({ "taskId": id });
        merge(&mut input, more);
        call("TaskUpdate", &input)
    };
    let mate = [
        "MATE".to_owned(),
        call("TaskList", &json!({})),
        task("2", json!({ "status": "in_progress" })),
        task("1", json!({ "owner": "ann", "status": "in_progress" })),
        call("TaskGet", &json!({ "taskId": "1" })),
        task("1", json!({ "status": "completed" })),
        call("TeamDelete", &json!({})),
        "[[say:my part is done]]".to_owned(),
    ];
    let lead = [
        "LEAD".to_owned(),
        call("TeamCreate", &json!({ "team_name": "red", "description": "d" })),
        call(
            "TaskCreate",
            &json!({ "subject": "build", "description": "all of it", "activeForm": "Building" }),
        ),
        call("TaskCreate", &json!({ "subject": "test", "description": "all of that" })),
        task("2", json!({ "addBlockedBy": ["1"] })),
        agent(&mate.join(" "), json!({ "name": "ann", "team_name": "red" })),
        "[[say:waiting]]".to_owned(),
        task("2", json!({ "status": "in_progress" })),
        task("2", json!({ "status": "completed" })),
        call("TaskList", &json!({})),
        call("TeamDelete", &json!({})),
        "[[say:all is done]]".to_owned(),
    ];
    assert_eq!(world.say(&lead.join(" ")).await, "all is done");

    let mate = told(world.requests("MATE").last().unwrap());
    for said in [
        r#"{"tasks":[{"blockedBy":[],"id":"1","status":"pending","subject":"build"},{"blockedBy":["1"],"id":"2","status":"pending","subject":"test"}]}"#,
        "item 2 waits for 1: those come first",
        r#"{"statusChange":{"from":"pending","to":"in_progress"},"success":true,"taskId":"1","updatedFields":["status","owner"]}"#,
        r#""activeForm":"Building","blockedBy":[],"blocks":["2"],"description":"all of it""#,
        r#"There is no tool \"TeamDelete\" for you"#,
    ] {
        let (said, heard) = (said.replace("\\\"", "\""), mate.replace("\\\"", "\""));
        assert!(heard.contains(&said), "{said} in {heard}");
    }
    let lead = told(world.requests("LEAD").last().unwrap()).replace("\\\"", "\"");
    for said in [
        r#"{"lead_agent_id":"team-lead@red","team_name":"red"}"#,
        r#"{"task":{"id":"1","subject":"build"}}"#,
        r#""updatedFields":["blockedBy"]"#,
        r#""owner":"ann","status":"completed""#,
        r#""owner":"team-lead","status":"completed""#,
        "the team red is deleted, with its task list",
    ] {
        assert!(lead.contains(said), "{said} in {lead}");
    }
    assert_eq!(world.conn.kind("team.get", json!({ "name": "red" })).await, Kind::NoTeam);
    let tools = |request: &Value| -> Vec<String> {
        let tools = request["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let (of_lead, of_mate) = (tools(&world.requests("LEAD")[0]), tools(&world.requests("MATE")[0]));
    for tool in ["TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "SendMessage"] {
        assert!(of_lead.iter().any(|own| own == tool) && of_mate.iter().any(|own| own == tool), "{tool}");
    }
    for tool in ["TeamCreate", "TeamDelete", "Agent", "TaskOutput", "TaskStop"] {
        assert!(of_lead.iter().any(|own| own == tool) && !of_mate.iter().any(|own| own == tool), "{tool}");
    }
    world.daemon.end().await;
}

/// TL-01, TP-23, C49: the lead of a session keeps the session's list over its turns and over a `kill -9` between them, and
/// what it had taken is still its own.
#[tokio::test]
async fn a_lead_keeps_its_list_over_a_kill() {
    let mut world = World::start().await;
    let env = json!({ "ANTHROPIC_BASE_URL": world.fake.url, "ANTHROPIC_API_KEY": super::agents::KEY, "HOME": world.home() });
    let params = json!({ "cwd": world.home(), "permissionMode": "bypassPermissions" });
    let opened = world.conn.ok("session.open", params).await;
    let (session, lead) = (opened["sessionId"].clone(), opened["mainAgentId"].as_str().unwrap().to_owned());
    let prompt = async |conn: &Conn, text: String| {
        conn.ok("session.prompt", json!({ "sessionId": session, "text": text, "env": env })).await;
        let task = conn.wait(&lead).await;
        task["result"]["text"].as_str().unwrap_or_default().to_owned()
    };
    let first = [
        call("TaskCreate", &json!({ "subject": "first", "description": "d" })),
        call("TaskCreate", &json!({ "subject": "second", "description": "d" })),
        call("TaskUpdate", &json!({ "taskId": "1", "status": "in_progress", "addBlocks": ["2"] })),
        "[[say:begun]]".to_owned(),
    ];
    assert_eq!(prompt(&world.conn, first.join(" ")).await, "begun");
    world.daemon.crash();
    world.daemon.restart();
    let conn = world.daemon.connect().await;
    let of = json!({ "list": session, "itemId": "1" });
    let item = conn.ok("tasklist.get", of.clone()).await;
    assert_eq!((&item["owner"], &item["status"]), (&json!("main"), &json!("in_progress")), "{item}");
    let then = [
        call("TaskUpdate", &json!({ "taskId": "1", "status": "completed" })),
        call("TaskUpdate", &json!({ "taskId": "1", "status": "pending" })),
    ];
    let said = prompt(&conn, then.join(" ")).await;
    assert!(said.contains("item 1 is completed: what is left to do is another item"), "{said}");
    let listed = conn.ok("tasklist.list", json!({ "list": session, "filter": { "claimable": true } })).await;
    assert_eq!(listed["items"][0]["id"], "2", "{listed}");
    world.daemon.end().await;
}

/// TP-23, C9: whom a person asks, and a session's lead, have the tools for teams; an agent that is spawned has none of them.
#[tokio::test]
async fn an_agent_that_is_spawned_makes_no_team() {
    let world = World::start().await;
    let child = format!("CHILD {} [[say:end]]", call("TeamCreate", &json!({ "team_name": "red" })));
    world.say(&format!("PARENT {} [[say:end]]", agent(&child, json!({})))).await;
    let heard = told(world.requests("CHILD").last().unwrap());
    assert!(heard.contains("There is no tool \"TeamCreate\" for you"), "{heard}");
    assert_eq!(world.conn.kind("team.get", json!({ "name": "red" })).await, Kind::NoTeam);
    world.daemon.end().await;
}

/// I1, H101: an export has the lists, and a restore brings them back as they stood then.
#[tokio::test]
async fn an_export_has_the_lists() {
    let mut daemon = Daemon::start();
    let conn = team(&daemon).await;
    add(&conn, "first", json!({ "description": "x".repeat(60_000) })).await;
    add(&conn, "second", json!({ "blockedBy": ["1"] })).await;
    conn.ok("tasklist.claim", json!({ "list": "red", "itemId": "1" })).await;
    let before = conn.ok("tasklist.list", json!({ "list": "red" })).await;
    conn.ok("daemon.export", json!({})).await;
    add(&conn, "third", json!({})).await;
    daemon.crash();
    let restored = run(daemon.home.command().arg("--restore"));
    assert_eq!(restored.code, Some(0), "{}", restored.err);
    daemon.restart();
    let conn = daemon.connect().await;
    assert_eq!(conn.ok("tasklist.list", json!({ "list": "red" })).await, before);
    assert_eq!(add(&conn, "another third", json!({})).await["id"], "3");
    daemon.end().await;
}

/// cli.md, `tasklist`: a list from its first item to its last, each end with its exit code.
#[tokio::test]
async fn a_list_by_the_command_line() {
    let daemon = Daemon::start();
    let conn = team(&daemon).await;
    conn.ok("team.join", json!({ "teamName": "red", "name": "ann" })).await;
    let home = &daemon.home;
    let ctl = |args: &[&str]| run(&mut home.ctl(args));
    let ok = |home: &Home, args: &[&str]| {
        let ended = run(&mut home.ctl(args));
        assert_eq!(ended.code, Some(0), "{args:?}: {}", ended.err);
        ended.out
    };
    assert_eq!(ok(home, &["tasklist", "add", "--list", "red", "build it", "-d", "all of it"]), "1\n");
    assert_eq!(ok(home, &["tasklist", "add", "test it", "--blocked-by", "1", "--list", "red"]), "2\n");
    let listed = ok(home, &["tasklist", "ls", "--list", "red"]);
    assert!(listed.contains("WAITS FOR") && listed.contains("build it"), "{listed}");
    assert!(ok(home, &["tasklist", "show", "1", "--list", "red"]).contains("all of it"));
    assert_eq!(ctl(&["tasklist", "claim", "2", "--list", "red"]).code, Some(1));
    let claimed = ok(home, &["tasklist", "claim", "--owner", "ann", "--list", "red"]);
    assert_eq!(claimed, "1 in_progress (ann): build it\n");
    assert_eq!(ctl(&["tasklist", "claim", "--list", "red"]).code, Some(3), "nothing is free");
    assert_eq!(ctl(&["tasklist", "claim", "1", "--owner", "team-lead", "--list", "red"]).code, Some(6));
    let stale = ["tasklist", "update", "1", "--subject", "other", "--if-revision", "9", "--list", "red"];
    assert_eq!(ctl(&stale).code, Some(6));
    assert_eq!(ctl(&["tasklist", "show", "7", "--list", "red"]).code, Some(3));
    assert_eq!(ctl(&["tasklist", "ls", "--list", "blue"]).code, Some(3));
    assert_eq!(ok(home, &["tasklist", "done", "1", "--list", "red"]), "1 completed (ann): build it\n");
    let free = ok(home, &["tasklist", "ls", "--free", "--json", "--list", "red"]);
    let free: Value = serde_json::from_str(&free).unwrap();
    assert_eq!(free["items"][0]["id"], "2", "{free}");
    let changed =
        ok(home, &["tasklist", "update", "2", "--status", "in_progress", "--owner", "ann", "--list", "red"]);
    assert_eq!(changed, "2 in_progress (ann): test it\n");
    assert_eq!(ctl(&["tasklist", "rm", "2", "--list", "red"]).code, Some(5), "nobody said yes");
    ok(home, &["tasklist", "rm", "2", "--yes", "--list", "red"]);
    assert_eq!(ok(home, &["tasklist", "ls", "--status", "deleted", "--list", "red"]).lines().count(), 2);
    // Without a list it is the session's own.
    assert_eq!(ok(home, &["tasklist", "add", "alone"]), "1\n");
    assert_eq!(ok(home, &["tasklist", "show", "1", "--json", "--list", "main"]).matches("alone").count(), 1);
    daemon.end().await;
}
