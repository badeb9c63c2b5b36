//! Plan mode, from end to end: an agent that plans changes nothing, and goes on in the mode that a person gives it.

use std::fs;

use ccagent_proto::Kind;
use ccagent_tests::daemon::run;
use ccagent_tests::{Conn, Daemon};
use serde_json::{Value, json};

use super::ask::{Terminal, asked, play, respond};

/// A session with a lead, in a mode.
struct World {
    session: Value,
    lead: String,
    env: Value,
}

impl World {
    async fn open(daemon: &Daemon, conn: &Conn, mode: &str) -> Self {
        let home = daemon.home.path();
        let env = json!({ "HOME": home });
        let params = json!({ "cwd": home, "model": "offline", "env": env, "permissionMode": mode });
        let opened = conn.ok("session.open", params).await;
        let lead = opened["mainAgentId"].as_str().unwrap().to_owned();
        Self { session: opened["sessionId"].clone(), lead, env }
    }

    async fn prompt(&self, conn: &Conn, script: &str) {
        let text = format!("```offline\n{script}\n```");
        conn.ok("session.prompt", json!({ "sessionId": self.session, "text": text, "env": self.env })).await;
    }

    /// The mode of the session, which is its lead's.
    async fn mode(&self, conn: &Conn) -> String {
        let session = conn.ok("session.get", json!({ "sessionId": self.session })).await;
        assert_eq!(session["permissionMode"], conn.task(&self.lead).await["permissionMode"]);
        session["permissionMode"].as_str().unwrap().to_owned()
    }
}

const ENTER: &str = "- call: EnterPlanMode\n";
const EXIT: &str = "- call: ExitPlanMode\n  with: {plan: \"# First\\nthen\"}\n";
const SAY: &str = "- say: 'it says {{result}}'";

fn write(name: &str) -> String {
    format!("- call: Write\n  with: {{file_path: {name}, content: x}}\n")
}

async fn results(conn: &Conn, id: &str) -> String {
    conn.ok("task.transcript", json!({ "taskId": id })).await["messages"].to_string()
}

/// PL-03, PL-05, E72: an agent that plans changes nothing; its plan that is sent back leaves it there, with what is to be
/// different; one that is approved leads back to the mode from before, which is the session's as well.
#[tokio::test]
async fn a_plan_is_sent_back_and_approved() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let lead = World::open(&daemon, &conn, "acceptEdits").await;
    let script = format!("{ENTER}{}{EXIT}{}{EXIT}{}{SAY}", write("a"), write("b"), write("c"));
    lead.prompt(&conn, &script).await;
    let first = asked(&conn, &lead.lead).await;
    assert_eq!(
        (&first["kind"], &first["plan"], &first["summary"]),
        (&json!("plan"), &json!("# First\nthen"), &json!("# First"))
    );
    assert_eq!(lead.mode(&conn).await, "plan");
    respond(&conn, &first, json!({ "behavior": "deny", "message": "leave b alone" })).await;
    let second = asked(&conn, &lead.lead).await;
    assert_ne!(first["id"], second["id"]);
    assert_eq!(lead.mode(&conn).await, "plan");
    let told = results(&conn, &lead.lead).await;
    assert!(told.contains("The plan is not approved: leave b alone"), "{told}");
    assert_eq!(told.matches("in plan mode no file is changed").count(), 2, "{told}");
    assert!(!daemon.home.join("a").exists() && !daemon.home.join("b").exists());
    let wrong = json!({ "askId": second["id"], "behavior": "allow", "mode": "plan" });
    let error = conn.err("ask.respond", wrong).await;
    assert_eq!((error.kind, &error.data["path"]), (Some(Kind::InvalidParams), &json!("mode")));
    respond(&conn, &second, json!({ "behavior": "allow", "message": "go" })).await;
    conn.wait(&lead.lead).await;
    assert_eq!(lead.mode(&conn).await, "acceptEdits");
    assert!(daemon.home.join("c").exists());
    let told = results(&conn, &lead.lead).await;
    assert!(told.contains("The permission mode is acceptEdits now. They add: go"), "{told}");
    daemon.end().await;
}

/// I1, E73, C49: a daemon that is killed while a plan waits leaves the session in plan mode; the plan is handed in again, and
/// approved with the mode that the person gives.
#[tokio::test]
async fn plan_mode_outlives_the_daemon() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    let lead = World::open(&daemon, &conn, "default").await;
    lead.prompt(&conn, &format!("{ENTER}{EXIT}{SAY}")).await;
    let ask = asked(&conn, &lead.lead).await;
    daemon.crash();
    daemon.restart();
    let conn = daemon.connect().await;
    assert_eq!(conn.ok("ask.get", json!({ "askId": ask["id"] })).await["state"], "withdrawn");
    assert_eq!(lead.mode(&conn).await, "plan");
    lead.prompt(&conn, &format!("{}{EXIT}{}{SAY}", write("a"), write("b"))).await;
    let again = asked(&conn, &lead.lead).await;
    respond(&conn, &again, json!({ "behavior": "allow", "mode": "acceptEdits" })).await;
    conn.wait(&lead.lead).await;
    assert_eq!(lead.mode(&conn).await, "acceptEdits");
    assert!(!daemon.home.join("a").exists() && daemon.home.join("b").exists());
    daemon.crash();
    daemon.restart();
    let conn = daemon.connect().await;
    assert_eq!(lead.mode(&conn).await, "acceptEdits");
    daemon.end().await;
}

/// PM-09, D54: a plan that nobody approves in time approves nothing, and neither does one whose turn was interrupted.
#[tokio::test]
async fn a_plan_that_nobody_approves_is_not_carried_out() {
    let daemon = Daemon::with().config("[ask]\ndeadline = \"50ms\"").start();
    let conn = daemon.connect().await;
    let lead = World::open(&daemon, &conn, "acceptEdits").await;
    lead.prompt(&conn, &format!("{ENTER}{EXIT}{}{SAY}", write("a"))).await;
    let task = conn.wait(&lead.lead).await;
    let told = results(&conn, &lead.lead).await;
    assert!(told.contains("Nobody said anything to the plan in time"), "{told}");
    assert!(task["result"]["text"].as_str().unwrap().contains("in plan mode no file is changed"), "{task}");
    assert_eq!(lead.mode(&conn).await, "plan");
    daemon.end().await;

    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let lead = World::open(&daemon, &conn, "acceptEdits").await;
    lead.prompt(&conn, &format!("{ENTER}{EXIT}{}{SAY}", write("a"))).await;
    let ask = asked(&conn, &lead.lead).await;
    conn.ok("session.interrupt", json!({ "sessionId": lead.session })).await;
    assert_eq!(conn.wait(&lead.lead).await["status"], "killed");
    let late = json!({ "askId": ask["id"], "behavior": "allow" });
    assert_eq!(conn.err("ask.respond", late).await.code, 1501);
    assert_eq!(lead.mode(&conn).await, "plan");
    assert!(!daemon.home.join("a").exists());
    daemon.end().await;
}

/// PM-07, TP-17, I11: in plan mode no rule and no child of it lets a file be changed, and what a person allowed before it
/// began is decided anew. A mode in which nobody is asked has no plans, and outside of plan mode there is none to approve.
#[tokio::test]
async fn in_plan_mode_nothing_is_written() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let user = daemon.home.join("me/.claude");
    fs::create_dir_all(user.join("agents")).unwrap();
    let rules = json!({ "permissions": { "allow": ["Write", "Edit"] } });
    fs::write(user.join("settings.json"), rules.to_string()).unwrap();
    let eager = "---\nname: eager\ndescription: d\npermissionMode: acceptEdits\n---\nwrite\n";
    fs::write(user.join("agents/eager.md"), eager).unwrap();
    let env = json!({ "env": { "HOME": daemon.home.join("me") } });
    let child = format!("```offline\n{}- say: done\n```", write("b"));
    let spawn = json!({ "description": "d", "prompt": child, "subagent_type": "eager", "model": "offline" });
    let all = json!([
        { "call": "EnterPlanMode" }, { "call": "Write", "with": { "file_path": "a", "content": "x" } },
        { "call": "ExitPlanMode", "with": { "plan": "p" } }, { "call": "Agent", "with": spawn },
    ]);
    let script = format!("- calls: {all}\n{SAY}");
    let id = play(&daemon, &conn, &script, env).await;
    // What stands behind it waits until somebody has said something to the plan.
    let ask = asked(&conn, &id).await;
    let below = conn.ok("task.list", json!({ "parentId": id, "all": true })).await;
    assert_eq!(below["tasks"], json!([]), "{below}");
    respond(&conn, &ask, json!({ "behavior": "deny" })).await;
    let task = conn.wait(&id).await;
    assert_eq!(task["permissionMode"], "plan", "{task}");
    let below = conn.ok("task.list", json!({ "parentId": id, "all": true })).await;
    let child = &below["tasks"][0];
    assert_eq!((&child["agentType"], &child["permissionMode"]), (&json!("eager"), &json!("plan")), "{child}");
    for task in [&task, child] {
        let told = results(&conn, task["id"].as_str().unwrap()).await;
        assert_eq!(told.matches("in plan mode no file is changed").count(), 1, "{told}");
    }
    assert!(!daemon.home.join("a").exists() && !daemon.home.join("b").exists());

    let lead = World::open(&daemon, &conn, "default").await;
    lead.prompt(&conn, &format!("{}{SAY}", write("c"))).await;
    let ask = asked(&conn, &lead.lead).await;
    conn.ok("session.setMode", json!({ "sessionId": lead.session, "value": "plan" })).await;
    respond(&conn, &ask, json!({ "behavior": "allow" })).await;
    conn.wait(&lead.lead).await;
    assert!(!daemon.home.join("c").exists());

    let id = play(&daemon, &conn, &format!("{EXIT}{SAY}"), json!({})).await;
    assert!(conn.wait(&id).await["result"]["text"].as_str().unwrap().contains("You are not in plan mode"));
    let id = play(&daemon, &conn, &format!("{ENTER}{SAY}"), json!({ "permissionMode": "dontAsk" })).await;
    let task = conn.wait(&id).await;
    assert!(task["result"]["text"].as_str().unwrap().contains("nobody could approve a plan"), "{task}");
    assert_eq!(task["permissionMode"], "dontAsk");
    daemon.end().await;
}

/// I11, C18: who plans takes up no agent again that would change something for it, and hooks hear of the mode of by then.
#[tokio::test]
async fn an_agent_from_before_does_not_go_on_for_one_that_plans() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let hooks = json!({ "PreToolUse": [{ "matcher": "Write|Read", "hooks": [{
        "type": "command", "command": "grep -o '\"permission_mode\":\"[a-zA-Z]*\"' >> modes"
    }] }] });
    fs::create_dir_all(daemon.home.join("me/.claude")).unwrap();
    fs::write(daemon.home.join("me/.claude/settings.json"), json!({ "hooks": hooks }).to_string()).unwrap();
    let say = "```offline\n- say: done\n```";
    let spawn = json!({ "description": "d", "prompt": say, "model": "offline", "name": "kid", "subagent_type": "general-purpose" });
    let again = json!({ "description": "d", "prompt": say, "resume": "kid" });
    let script = format!(
        "- call: Agent\n  with: {spawn}\n{}{ENTER}{}- call: Agent\n  with: {again}\n- call: SendMessage\n  with: {{to: kid, message: go}}\n{SAY}",
        write("a"),
        write("b")
    );
    let more = json!({ "permissionMode": "acceptEdits", "env": { "HOME": daemon.home.join("me") } });
    let id = play(&daemon, &conn, &script, more).await;
    let task = conn.wait(&id).await;
    let told = results(&conn, &id).await;
    assert_eq!(told.matches("does nothing for you while you plan").count(), 3, "{told}");
    assert_eq!(
        (&task["status"], &conn.task("kid").await["attempt"]),
        (&json!("completed"), &json!(1)),
        "{task}"
    );
    let modes = fs::read_to_string(daemon.home.join("modes")).unwrap();
    assert_eq!(modes, "\"permission_mode\":\"acceptEdits\"\n\"permission_mode\":\"plan\"\n");
    daemon.end().await;
}

/// I11, C18: nor does one that is at work: who plans has no message for it that would change something, nor one for the
/// whole team in which it is; before that it had.
#[tokio::test]
async fn an_agent_at_work_does_nothing_for_one_that_plans() {
    for (to, team, kid) in
        [("kid", "", "kid"), ("'*'", "- call: TeamCreate\n  with: {team_name: red}\n", "kid@red")]
    {
        let daemon = Daemon::start();
        let conn = daemon.connect().await;
        let waits = "```offline\n- call: Bash\n  with: {command: \"true\"}\n- say: done\n```";
        let mut spawn = json!({ "description": "d", "prompt": waits, "model": "offline", "name": "kid",
            "subagent_type": "general-purpose", "run_in_background": true });
        if !team.is_empty() {
            spawn["team_name"] = json!("red");
        }
        let tell = |text: &str| format!("- call: SendMessage\n  with: {{to: {to}, message: {text}}}\n");
        let script = format!(
            "{team}- call: Agent\n  with: {spawn}\n{}{ENTER}{}{EXIT}{}- say: done\n",
            tell("first"),
            tell("second"),
            tell("third")
        );
        let id = play(&daemon, &conn, &script, json!({ "permissionMode": "acceptEdits" })).await;
        let plan = asked(&conn, &id).await;
        respond(&conn, &plan, json!({ "behavior": "allow", "mode": "acceptEdits" })).await;
        let kid = asked(&conn, conn.task(kid).await["id"].as_str().unwrap()).await;
        respond(&conn, &kid, json!({ "behavior": "deny" })).await;
        conn.wait(&id).await;
        let told = results(&conn, &id).await;
        assert_eq!(told.matches("does nothing for you while you plan").count(), 1, "{told}");
        let heard = results(&conn, kid["taskId"].as_str().unwrap()).await;
        let heard = ["first", "second", "third"].map(|text| heard.contains(text));
        assert_eq!(heard, [true, false, true], "{to}");
        daemon.end().await;
    }
}

/// cli.md, `ask`, `run`, PL-05: at a terminal a plan is shown, sent back with words, and approved with edits going through;
/// elsewhere it is approved by `ask allow`, with a mode.
#[test]
fn a_plan_is_approved_at_a_terminal() {
    if !ccagent_tests::skip::has("script") {
        return ccagent_tests::skip("script (util-linux) is not installed");
    }
    let daemon = Daemon::start();
    let script = format!("{ENTER}{EXIT}{EXIT}{}{SAY}", write("a"));
    let mut terminal = Terminal::run(&daemon, &script, &[]);
    let first = terminal.until("to be different\r\n> ");
    assert!(first.contains("  | # First\r\n  | then\r\n"), "{first}");
    terminal.types("n not so fast");
    terminal.until("to be different\r\n> ");
    terminal.types("e");
    terminal.until("it says");
    assert_eq!(terminal.code(), Some(0));
    assert!(daemon.home.join("a").exists());
}

/// cli.md, `ask`, PM-09: a plan is shown and approved at the command line; a run in the foreground without a terminal denies
/// it, with exit code 5.
#[tokio::test]
async fn a_plan_is_approved_at_the_command_line() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let ctl = |args: &[&str]| run(&mut daemon.home.ctl(args));
    let id = play(&daemon, &conn, &format!("{ENTER}{EXIT}{}{SAY}", write("a")), json!({})).await;
    let ask = asked(&conn, &id).await["id"].as_str().unwrap().to_owned();
    assert!(ctl(&["ask", "show", &ask]).out.contains("# First\nthen"));
    assert_eq!(ctl(&["ask", "allow", &ask, "--mode", "loud"]).code, Some(2));
    assert_eq!(ctl(&["ask", "allow", &ask, "--input", "null"]).code, Some(2));
    let approved = ctl(&["ask", "allow", &ask, "--mode", "acceptEdits"]);
    assert_eq!(
        (approved.code, approved.out.contains("approved: # First")),
        (Some(0), true),
        "{}",
        approved.err
    );
    assert_eq!(conn.wait(&id).await["permissionMode"], "acceptEdits");
    assert!(daemon.home.join("a").exists());

    let id = play(&daemon, &conn, &format!("{}{SAY}", write("b")), json!({})).await;
    let ask = asked(&conn, &id).await["id"].as_str().unwrap().to_owned();
    let input = r#"{"file_path": "c", "content": "y"}"#;
    assert_eq!(ctl(&["ask", "allow", &ask, "--input", input]).code, Some(0));
    conn.wait(&id).await;
    assert!(!daemon.home.join("b").exists() && daemon.home.join("c").exists());

    let prompt = format!("```offline\n{ENTER}{EXIT}{SAY}\n```");
    let args = ["run", "--model", "offline", &prompt];
    let ended = run(daemon.home.ctl(&args).current_dir(daemon.home.path()).env("HOME", daemon.home.path()));
    assert_eq!(ended.code, Some(5), "{} {}", ended.out, ended.err);
    assert!(ended.err.contains("the plan \"# First\" is not approved"), "{}", ended.err);
    daemon.end().await;
}
