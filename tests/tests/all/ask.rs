//! Asks, from end to end: a tool call that nobody allowed waits until somebody answers, whoever it is.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;

use ccagent_proto::Kind;
use ccagent_tests::conn::{merge, next};
use ccagent_tests::daemon::run;
use ccagent_tests::{Conn, Daemon, PATIENCE};
use serde_json::{Value, json};

/// An agent that plays a script in the daemon's directory; gives its task's id.
pub(super) async fn play(daemon: &Daemon, conn: &Conn, script: &str, more: Value) -> String {
    let mut params = json!({
        "prompt": format!("```offline\n{script}\n```"), "model": "offline", "runInBackground": true,
        "cwd": daemon.home.path(), "env": { "HOME": daemon.home.path() },
    });
    merge(&mut params, more);
    conn.ok("agent.spawn", params).await["taskId"].as_str().unwrap().to_owned()
}

/// A script that writes files, one call an answer, and says what came of the last.
fn writes(names: &[&str]) -> String {
    let calls =
        names.iter().map(|name| format!("- call: Write\n  with: {{file_path: {name}, content: x}}\n"));
    format!("{}- say: 'it says {{{{result}}}}'", calls.collect::<String>())
}

/// The ask for which a task waits, once it does.
pub(super) async fn asked(conn: &Conn, id: &str) -> Value {
    let params = json!({ "taskIds": [id], "for": "waiting", "timeoutMs": 50_000 });
    let waited = conn.ok("task.wait", params).await;
    let task = &waited["tasks"][0];
    assert_eq!((&task["status"], &task["waitingOn"]["kind"]), (&json!("waiting"), &json!("ask")), "{task}");
    assert_eq!(task["pendingAsks"], 1, "{task}");
    conn.ok("ask.get", json!({ "askId": task["waitingOn"]["id"] })).await
}

pub(super) async fn respond(conn: &Conn, ask: &Value, answer: Value) -> Value {
    let mut params = json!({ "askId": ask["id"] });
    merge(&mut params, answer);
    conn.ok("ask.respond", params).await
}

/// PM-05, C47, E66, E74, E77, I12: everybody sees what an agent asks and that it waits; the first answer counts, a second
/// one hears of it; the call goes on.
#[tokio::test]
async fn an_allowed_call_goes_on() {
    let daemon = Daemon::start();
    let (conn, other) = (daemon.connect().await, daemon.connect().await);
    let mut asks = other.client.subscribe_raw("ask.subscribe", json!({}), "ask.unsubscribe").await.unwrap();
    let id = play(&daemon, &conn, &writes(&["new.txt"]), json!({ "name": "ann" })).await;
    let ask = next(&mut asks).await;
    assert_eq!(
        (&ask["kind"], &ask["state"], &ask["toolName"]),
        (&json!("permission"), &json!("pending"), &json!("Write"))
    );
    assert_eq!(
        (&ask["agentName"], &ask["risk"], &ask["taskId"]),
        (&json!("ann"), &json!("writes"), &json!(id))
    );
    assert_eq!((&ask["input"]["content"], &ask["cwd"]), (&json!("x"), &json!(daemon.home.path())));
    assert_eq!(asked(&conn, &id).await, ask);
    let snapshot = next(&mut other.events(json!(["task"])).await).await;
    assert_eq!(snapshot["asks"], json!([ask]));
    assert!(!daemon.home.join("new.txt").exists());
    let answered = respond(&conn, &ask, json!({ "behavior": "allow" })).await;
    assert_eq!((&answered["state"], &answered["answeredBy"]), (&json!("answered"), &json!("operator")));
    assert_eq!(next(&mut asks).await, answered);
    let late = other.err("ask.respond", json!({ "askId": ask["id"], "behavior": "deny" })).await;
    assert_eq!((late.code, late.kind), (1501, Some(Kind::AskAnswered)));
    let task = conn.wait(&id).await;
    assert_eq!((&task["status"], &task["pendingAsks"]), (&json!("completed"), &json!(0)), "{task}");
    assert_eq!(fs::read_to_string(daemon.home.join("new.txt")).unwrap(), "x");
    daemon.end().await;
}

/// PM-02, I11: what is allowed for the session is not asked again there, also of another agent; what was allowed once is.
#[tokio::test]
async fn a_session_remembers() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let script = "- call: Bash\n  with: {command: echo one > out}\n- call: Bash\n  with: {command: touch two}\n- call: Bash\n  with: {command: touch two}\n- say: done";
    let id = play(&daemon, &conn, script, json!({})).await;
    let opaque = asked(&conn, &id).await;
    respond(&conn, &opaque, json!({ "behavior": "allow", "scope": "once" })).await;
    let ask = asked(&conn, &id).await;
    assert_eq!((&ask["rules"], &ask["summary"]), (&json!(["Bash(touch two)"]), &json!("touch two")));
    respond(&conn, &ask, json!({ "behavior": "allow", "scope": "session" })).await;
    assert_eq!(conn.wait(&id).await["status"], "completed");
    assert!(daemon.home.join("two").exists());
    let again = "- call: Bash\n  with: {command: touch two}\n- say: done";
    let id = play(&daemon, &conn, again, json!({})).await;
    assert_eq!(conn.wait(&id).await["status"], "completed");
    let asks = conn.ok("ask.list", json!({})).await;
    assert_eq!(asks["asks"].as_array().unwrap().len(), 2, "{asks}");
    daemon.end().await;
}

/// PM-02, PM-03, I11, I18: what is allowed for always is a rule in the repository's own file and holds over a restart, and
/// what else stands there stays; the same rule in a file that merely came with a repository allows nothing.
#[tokio::test]
async fn always_is_a_rule_of_the_repository() {
    let mut daemon = Daemon::start();
    let rule = |dir: &str| {
        let dir = daemon.home.join(dir);
        fs::create_dir_all(dir.join(".git")).unwrap();
        fs::create_dir_all(dir.join(".claude")).unwrap();
        dir
    };
    let (own, foreign) = (rule("own"), rule("foreign"));
    let settings =
        |dir: &std::path::Path| fs::read_to_string(dir.join(".claude/settings.local.json")).unwrap();
    fs::write(own.join(".claude/settings.local.json"), "{\"env\": {\"A\": \"1\"}}").unwrap();
    let theirs = "{\"permissions\": {\"allow\": [\"Bash(touch two)\"]}}";
    fs::write(foreign.join(".claude/settings.local.json"), theirs).unwrap();
    let script = "- call: Bash\n  with: {command: touch two}\n- say: done";
    let conn = daemon.connect().await;
    let id = play(&daemon, &conn, script, json!({ "cwd": own })).await;
    let ask = asked(&conn, &id).await;
    respond(&conn, &ask, json!({ "behavior": "allow", "scope": "always" })).await;
    assert_eq!(conn.wait(&id).await["status"], "completed");
    let written: Value = serde_json::from_str(&settings(&own)).unwrap();
    assert_eq!(written, json!({ "env": { "A": "1" }, "permissions": { "allow": ["Bash(touch two)"] } }));
    daemon.crash();
    daemon.restart();
    let conn = daemon.connect().await;
    let id = play(&daemon, &conn, script, json!({ "cwd": own })).await;
    assert_eq!(conn.wait(&id).await["status"], "completed");
    let id = play(&daemon, &conn, script, json!({ "cwd": foreign })).await;
    respond(&conn, &asked(&conn, &id).await, json!({ "behavior": "deny" })).await;
    conn.wait(&id).await;
    assert!(!foreign.join("two").exists());
    // Taken out of the file by hand, it holds no longer.
    fs::write(own.join(".claude/settings.local.json"), "{}").unwrap();
    let id = play(&daemon, &conn, script, json!({ "cwd": own })).await;
    respond(&conn, &asked(&conn, &id).await, json!({ "behavior": "deny" })).await;
    conn.wait(&id).await;
    daemon.end().await;
}

/// PM-09, E70, D53, E72, E73: a no and its words reach the model; a stop ends the wait, and a killed daemon leaves no ask
/// that nobody waits for.
#[tokio::test]
async fn no_answer_is_no_permission() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = play(&daemon, &conn, &writes(&["new.txt"]), json!({})).await;
    let ask = asked(&conn, &id).await;
    respond(&conn, &ask, json!({ "behavior": "deny", "message": "use old.txt" })).await;
    let task = conn.wait(&id).await;
    let said = task["result"]["text"].as_str().unwrap();
    assert!(said.contains("denied: use old.txt"), "{said}");

    let id = play(&daemon, &conn, &writes(&["new.txt"]), json!({})).await;
    let ask = asked(&conn, &id).await;
    let stopped = conn.ok("task.stop", json!({ "taskId": id })).await;
    assert_eq!(stopped["task"]["status"], "killed");
    assert_eq!(conn.ok("ask.get", json!({ "askId": ask["id"] })).await["state"], "withdrawn");

    let id = play(&daemon, &conn, &writes(&["new.txt"]), json!({})).await;
    let ask = asked(&conn, &id).await;
    daemon.crash();
    daemon.restart();
    let conn = daemon.connect().await;
    assert_eq!(conn.ok("ask.get", json!({ "askId": ask["id"] })).await["state"], "withdrawn");
    assert_eq!(
        conn.kind("ask.respond", json!({ "askId": ask["id"], "behavior": "allow" })).await,
        Kind::AskAnswered
    );
    assert_eq!(conn.task(&id).await["status"], "interrupted");
    assert!(!daemon.home.join("new.txt").exists());
    daemon.end().await;
}

/// PM-09, I7: an ask that nobody answers before its deadline counts as denied.
#[tokio::test]
async fn a_deadline_denies() {
    let daemon = Daemon::with().config("[ask]\ndeadline = \"50ms\"").start();
    let conn = daemon.connect().await;
    let id = play(&daemon, &conn, &writes(&["new.txt"]), json!({})).await;
    let task = conn.wait(&id).await;
    assert!(task["result"]["text"].as_str().unwrap().contains("Nobody answered in time"), "{task}");
    let asks = conn.ok("ask.list", json!({ "state": "expired" })).await;
    let late = json!({ "askId": asks["asks"][0]["id"], "behavior": "allow" });
    assert_eq!(conn.err("ask.respond", late).await.code, 1502);
    assert!(!daemon.home.join("new.txt").exists());
    daemon.end().await;
}

/// C47, I11, TP-17: who allows a call may give it another input, which is taken as if the model had given it: what a rule
/// denies is denied, and what the tool does not take is said to the model. An input that is none is refused.
#[tokio::test]
async fn another_input_is_judged_again() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    fs::create_dir_all(daemon.home.join(".claude")).unwrap();
    let rules = json!({ "permissions": { "deny": ["Write(secret*)"] } });
    fs::write(daemon.home.join(".claude/settings.json"), rules.to_string()).unwrap();
    let id = play(&daemon, &conn, &writes(&["one", "two", "three", "four"]), json!({})).await;
    let text = json!({ "askId": asked(&conn, &id).await["id"], "behavior": "allow", "updatedInput": "one" });
    assert_eq!(conn.err("ask.respond", text).await.data["path"], "updatedInput");
    for input in [
        json!({ "file_path": "other", "content": "y" }),
        json!({ "file_path": "secret.txt", "content": "y" }),
        json!({ "file_path": "other", "text": "y" }),
    ] {
        let ask = asked(&conn, &id).await;
        respond(&conn, &ask, json!({ "behavior": "allow", "updatedInput": input })).await;
    }
    // A rule that denies it was written while somebody was asked.
    let ask = asked(&conn, &id).await;
    let rules = json!({ "permissions": { "deny": ["Write"] } });
    fs::write(daemon.home.join(".claude/settings.json"), rules.to_string()).unwrap();
    respond(&conn, &ask, json!({ "behavior": "allow" })).await;
    conn.wait(&id).await;
    assert_eq!(fs::read_to_string(daemon.home.join("other")).unwrap(), "y");
    for name in ["one", "two", "three", "four", "secret.txt"] {
        assert!(!daemon.home.join(name).exists(), "{name}");
    }
    let told = conn.ok("task.transcript", json!({ "taskId": id })).await.to_string();
    for said in ["Write(secret*)", "bad input at text", "says deny: Write\""] {
        assert!(told.contains(said), "{said}: {told}");
    }
    daemon.end().await;
}

/// A17, I11: an agent on the socket can't answer, least of all itself.
#[tokio::test]
async fn an_agent_answers_nothing() {
    if !ccagent_tests::skip::has("socat") {
        return ccagent_tests::skip("socat is not installed");
    }
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = play(&daemon, &conn, &writes(&["new.txt"]), json!({})).await;
    let ask = asked(&conn, &id).await;
    let call =
        ccagent_tests::raw::request("ask.respond", &json!({ "askId": ask["id"], "behavior": "allow" }));
    let script = format!("echo '{call}' | socat -t 60 - \"UNIX-CONNECT:$CCAGENT_SOCKET\"; echo over");
    let other = conn.sh(&script).await;
    let seen = conn.see(&other, "over\n").await;
    assert!(seen.contains("-32000") && seen.contains("operator"), "{seen}");
    assert_eq!(conn.task(&id).await["pendingAsks"], 1);
    conn.ok("task.stop", json!({ "taskId": id })).await;
    daemon.end().await;
}

/// cli.md, `ask`: what waits is listed, shown and answered at the command line.
#[tokio::test]
async fn asks_are_answered_at_the_command_line() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = play(&daemon, &conn, &writes(&["one.txt", "two.txt"]), json!({ "name": "ann" })).await;
    let first = asked(&conn, &id).await["id"].as_str().unwrap().to_owned();
    let ctl = |args: &[&str]| run(&mut daemon.home.ctl(args));
    let listed = ctl(&["ask", "ls"]);
    assert!(
        listed.out.contains(&first) && listed.out.contains("Write(") && listed.out.contains("ann"),
        "{}",
        listed.out
    );
    assert!(ctl(&["ps"]).out.contains("waiting (ask)"));
    let shown = ctl(&["ask", "show", &first]).out;
    assert!(shown.contains("content: x") && shown.contains("pending"), "{shown}");
    assert_eq!(ctl(&["ask", "allow", "--once", "--always", &first]).code, Some(2));
    let allowed = ctl(&["ask", "allow", &first]);
    assert_eq!((allowed.code, allowed.err.as_str()), (Some(0), ""));
    assert_eq!(ctl(&["ask", "deny", &first]).code, Some(6));
    let second = asked(&conn, &id).await["id"].as_str().unwrap().to_owned();
    let denied = ctl(&["--json", "ask", "deny", &second, "-m", "no more"]);
    assert!(denied.out.contains("\"message\":\"no more\""), "{}", denied.out);
    conn.wait(&id).await;
    assert!(daemon.home.join("one.txt").exists() && !daemon.home.join("two.txt").exists());
    assert_eq!(ctl(&["ask", "show", "ask_99"]).code, Some(3));
    daemon.end().await;
}

/// PM-09, cli.md, exit code 5: a run in the foreground without a terminal is not kept waiting for an answer; it says so.
#[test]
fn a_run_without_a_terminal_denies() {
    let daemon = Daemon::start();
    let prompt = format!("```offline\n{}\n```", writes(&["new.txt"]));
    let args = ["run", "--model", "offline", &prompt];
    let ended = run(daemon.home.ctl(&args).current_dir(daemon.home.path()).env("HOME", daemon.home.path()));
    assert_eq!(ended.code, Some(5), "{} {}", ended.out, ended.err);
    assert!(ended.out.contains("nobody can be asked here"), "{}", ended.out);
    assert!(ended.err.contains("Write(") && ended.err.contains("ccagentctl ask"), "{}", ended.err);
    assert!(!daemon.home.join("new.txt").exists());
}

/// PM-05, I11, cli.md, `run`: at a terminal the person is asked, reads what is asked, and answers by a key.
#[test]
fn a_run_at_a_terminal_asks_there() {
    if !ccagent_tests::skip::has("script") {
        return ccagent_tests::skip("script (util-linux) is not installed");
    }
    let daemon = Daemon::start();
    let mut terminal = Terminal::run(&daemon, &writes(&["one.txt", "two.txt"]), &[]);
    let first = terminal.until("the agent\r\n> ");
    for shown in ["asks for Write(", "| content: x", "y once", "s for this session"] {
        assert!(first.contains(shown), "{shown}: {first}");
    }
    terminal.types("what");
    terminal.until("> ");
    terminal.types("y");
    terminal.until("the agent\r\n> ");
    terminal.types("n not that one");
    terminal.until("denied: not that one");
    assert_eq!(terminal.code(), Some(0));
    assert!(daemon.home.join("one.txt").exists() && !daemon.home.join("two.txt").exists());
}

/// A `run` at a terminal.
pub(super) struct Terminal {
    child: Child,
    keys: ChildStdin,
    shown: mpsc::Receiver<u8>,
}

impl Terminal {
    /// Runs a script in the daemon's directory.
    pub(super) fn run(daemon: &Daemon, script: &str, more: &[&str]) -> Self {
        fs::write(daemon.home.join("prompt"), format!("```offline\n{script}\n```")).unwrap();
        let args = ["run", "--model", "offline", "--prompt-file", "prompt"];
        let ctl = daemon.home.ctl(&[&args, more].concat());
        let words: Vec<&str> = std::iter::once(ctl.get_program())
            .chain(ctl.get_args())
            .map(|word| word.to_str().unwrap())
            .collect();
        let mut command = Command::new("script");
        command.args(["-qec", &words.join(" "), "/dev/null"]).current_dir(daemon.home.path());
        command.envs(ctl.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("HOME", daemon.home.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (shows, shown) = mpsc::channel();
        std::thread::spawn(move || {
            let mut byte = [0];
            while screen.read_exact(&mut byte).is_ok() && shows.send(byte[0]).is_ok() {}
        });
        Self { child, keys, shown }
    }

    /// What is shown up to a text.
    pub(super) fn until(&self, text: &str) -> String {
        let mut seen = Vec::new();
        while !seen.ends_with(text.as_bytes()) {
            let byte = self.shown.recv_timeout(PATIENCE);
            seen.push(byte.unwrap_or_else(|_| panic!("{text}: {}", String::from_utf8_lossy(&seen))));
        }
        String::from_utf8(seen).unwrap()
    }

    pub(super) fn types(&mut self, line: &str) {
        writeln!(self.keys, "{line}").unwrap();
    }

    pub(super) fn code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}
