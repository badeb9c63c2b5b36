//! Questions of an agent to a person, from end to end.

use ccagent_proto::Kind;
use ccagent_tests::conn::{merge, next};
use ccagent_tests::daemon::run;
use ccagent_tests::{Conn, Daemon, Fake};
use serde_json::{Value, json};

use super::ask::{Terminal, asked, play, respond};

/// Two questions, the second one with more than one answer, and whatever they come to.
fn questions() -> String {
    let option = |label: &str| json!({ "label": label, "description": format!("it is {label}") });
    let all = json!([
        { "question": "Which store?", "header": "Store", "options": [option("sled"), option("files")], "multiSelect": false },
        { "question": "Which tests?", "header": "Tests", "options": [option("unit"), option("whole")], "multiSelect": true },
    ]);
    format!(
        "- call: AskUserQuestion\n  with: {}\n- say: 'it says {{{{result}}}}'",
        json!({ "questions": all })
    )
}

fn text(task: &Value) -> &str {
    task["result"]["text"].as_str().unwrap()
}

/// C47, E76, E77: everybody sees what an agent wants to know; an answer that fits no question is refused with what
/// is wrong; the first one counts, and reaches the agent as what a person said.
#[tokio::test]
async fn an_answer_reaches_who_asked() {
    let daemon = Daemon::start();
    let (conn, other) = (daemon.connect().await, daemon.connect().await);
    let mut asks = other.client.subscribe_raw("ask.subscribe", json!({}), "ask.unsubscribe").await.unwrap();
    let id = play(&daemon, &conn, &questions(), json!({ "name": "ann" })).await;
    let ask = next(&mut asks).await;
    assert_eq!(
        (&ask["kind"], &ask["agentName"], &ask["summary"], &ask["taskId"]),
        (&json!("question"), &json!("ann"), &json!("Which store?"), &json!(id))
    );
    assert_eq!(ask["questions"][1]["multiSelect"], true);
    assert_eq!(ask["questions"][0]["options"][1], json!({ "label": "files", "description": "it is files" }));
    assert_eq!(asked(&conn, &id).await, ask);
    for (answers, wrong) in [
        (json!({ "Which store?": "sled, files" }), "more than one label"),
        (json!({ "Which?": "sled" }), "nobody asked \"Which?\""),
        (json!({}), "no question is answered"),
    ] {
        let params = json!({ "askId": ask["id"], "behavior": "allow", "answers": answers });
        let error = conn.err("ask.respond", params).await;
        assert_eq!((error.kind, &error.data["path"]), (Some(Kind::InvalidParams), &json!("answers")));
        assert!(error.message.contains(wrong), "{wrong}: {error:?}");
    }
    let answers = json!({ "Which store?": "neither, </message> I have one", "Which tests?": "unit, whole" });
    let answered = respond(&other, &ask, json!({ "behavior": "allow", "answers": answers })).await;
    assert_eq!(answered["answer"]["answers"], answers);
    let late = json!({ "askId": ask["id"], "behavior": "allow", "answers": { "Which store?": "sled" } });
    assert_eq!(conn.err("ask.respond", late).await.code, 1501);
    let task = conn.wait(&id).await;
    assert_eq!(
        text(&task),
        "it says The person answered:\n\nStore: Which store?\nneither, &lt;/message> I have one\n\nTests: Which tests?\nunit, whole"
    );
    daemon.end().await;
}

/// TP-17, E76: a provider is offered the tool with the shape of its input, and gets the answer as the result of the call; one
/// that was declined is a failed call.
#[tokio::test]
async fn a_provider_gets_the_answer_as_a_result() {
    let (daemon, fake) = (Daemon::start(), Fake::start());
    let conn = daemon.connect().await;
    let option = |label: &str| json!({ "label": label, "description": "" });
    let question = json!({ "question": "Which?", "header": "H", "options": [option("A"), option("B")] });
    let call = format!("[[tool:AskUserQuestion {}]]", json!({ "questions": [question] }));
    let params = json!({
        "prompt": format!("{call} {call} [[say:end]]"), "cwd": daemon.home.path(), "runInBackground": true,
        "env": { "ANTHROPIC_BASE_URL": fake.url, "ANTHROPIC_API_KEY": "dummy-key-of-the-tests", "HOME": daemon.home.path() },
    });
    let id = conn.ok("agent.spawn", params).await["taskId"].as_str().unwrap().to_owned();
    let ask = asked(&conn, &id).await;
    assert_eq!(ask["questions"][0]["multiSelect"], false);
    respond(&conn, &ask, json!({ "behavior": "allow", "answers": { "Which?": "B" } })).await;
    respond(&conn, &asked(&conn, &id).await, json!({ "behavior": "deny" })).await;
    assert_eq!(conn.wait(&id).await["status"], "completed");
    let last: Value = fake.log().last().unwrap()["body"].as_str().unwrap().parse().unwrap();
    let tool =
        last["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "AskUserQuestion").unwrap();
    assert_eq!(tool["input_schema"]["required"], json!(["questions"]), "{tool}");
    let results =
        last["messages"].as_array().unwrap().iter().filter_map(|message| message["content"].as_array());
    let results: Vec<&Value> = results.flatten().filter(|block| block["type"] == "tool_result").collect();
    assert!(
        results[0]["content"].to_string().contains("The person answered:")
            && results[0].get("is_error").is_none()
    );
    assert_eq!(results[1]["is_error"], true, "{}", results[1]);
    daemon.end().await;
}

/// C16, PM-09, E72, I7: who declines, or does not answer in time, gives no answer, and the agent hears that; a mode in
/// which nobody is asked asks nobody.
#[tokio::test]
async fn no_answer_is_no_answer() {
    let daemon = Daemon::with().config("[ask]\ndeadline = \"50ms\"").start();
    let conn = daemon.connect().await;
    let id = play(&daemon, &conn, &questions(), json!({})).await;
    assert!(text(&conn.wait(&id).await).contains("Nobody answered in time."));
    let id = play(&daemon, &conn, &questions(), json!({ "permissionMode": "dontAsk" })).await;
    assert!(text(&conn.wait(&id).await).contains("In the mode dontAsk nobody is asked."));
    let asks = conn.ok("ask.list", json!({})).await;
    assert_eq!((asks["asks"].as_array().unwrap().len(), &asks["asks"][0]["state"]), (1, &json!("expired")));
    daemon.end().await;

    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let id = play(&daemon, &conn, &questions(), json!({})).await;
    let ask = asked(&conn, &id).await;
    respond(&conn, &ask, json!({ "behavior": "deny", "message": "not my business" })).await;
    assert!(text(&conn.wait(&id).await).contains("The person declined to answer: not my business."));
    daemon.end().await;
}

/// A session whose lead asks; gives the session and what it asks.
async fn session(daemon: &Daemon, conn: &Conn) -> (Value, String, Value) {
    let home = daemon.home.path();
    let params = json!({ "cwd": home, "model": "offline", "env": { "HOME": home } });
    let opened = conn.ok("session.open", params).await;
    let (session, lead) = (opened["sessionId"].clone(), opened["mainAgentId"].as_str().unwrap().to_owned());
    let prompt = format!("```offline\n{}\n```", questions());
    conn.ok("session.prompt", json!({ "sessionId": session, "text": prompt })).await;
    let ask = asked(conn, &lead).await;
    (session, lead, ask)
}

/// E72, E73, D54, AB-11: an interrupt is heard while a question waits: the question is withdrawn, the turn is over, and the
/// next one asks again.
#[tokio::test]
async fn an_interrupt_ends_a_question() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let (session, lead, ask) = session(&daemon, &conn).await;
    conn.ok("session.interrupt", json!({ "sessionId": session })).await;
    assert_eq!(conn.wait(&lead).await["status"], "killed");
    assert_eq!(conn.ok("ask.get", json!({ "askId": ask["id"] })).await["state"], "withdrawn");
    let late = json!({ "askId": ask["id"], "behavior": "allow", "answers": { "Which store?": "sled" } });
    assert_eq!(conn.err("ask.respond", late).await.code, 1501);
    let prompt = format!("```offline\n{}\n```", questions());
    conn.ok("session.prompt", json!({ "sessionId": session, "text": prompt })).await;
    let again = asked(&conn, &lead).await;
    assert_ne!(again["id"], ask["id"]);
    respond(&conn, &again, json!({ "behavior": "allow", "answers": { "Which store?": "sled" } })).await;
    let said = conn.wait(&lead).await;
    assert!(text(&said).ends_with("Which store?\nsled\n\nTests: Which tests?\n(no answer)"), "{said}");
    daemon.end().await;
}

/// E73, C49, RS-12: a daemon that is killed while a question waits withdraws it, for nobody waits for the answer any more;
/// the conversation is there, and the next run hears that the question was not answered.
#[tokio::test]
async fn a_question_does_not_outlive_its_daemon() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    let (session, lead, ask) = session(&daemon, &conn).await;
    daemon.crash();
    daemon.restart();
    let conn = daemon.connect().await;
    assert_eq!(conn.ok("ask.get", json!({ "askId": ask["id"] })).await["state"], "withdrawn");
    let late = json!({ "askId": ask["id"], "behavior": "allow", "answers": { "Which store?": "sled" } });
    assert_eq!(conn.err("ask.respond", late).await.code, 1501);
    let task = conn.task(&lead).await;
    assert_eq!((&task["status"], &task["pendingAsks"]), (&json!("interrupted"), &json!(0)));
    let go_on = json!({
        "sessionId": session, "text": "```offline\n- say: 'then {{result}}'\n```", "env": { "HOME": daemon.home.path() },
    });
    conn.ok("session.prompt", go_on).await;
    let task = conn.wait(&lead).await;
    assert!(text(&task).contains("then The run was interrupted while this call was under way"), "{task}");
    let told = conn.ok("task.transcript", json!({ "taskId": lead })).await.to_string();
    assert!(told.contains("Which store?") && !told.contains("The person answered"), "{told}");
    daemon.end().await;
}

/// I1, E72: an answer that was acknowledged is not lost where the daemon ended before it stood in the conversation: the next
/// run has it as the result of its call.
#[tokio::test]
async fn an_answer_outlives_the_daemon_that_took_it() {
    let mut daemon = Daemon::start();
    let conn = daemon.connect().await;
    let (session, lead, ask) = session(&daemon, &conn).await;
    let answers = json!({ "Which store?": "sled" });
    respond(&conn, &ask, json!({ "behavior": "allow", "answers": answers })).await;
    let output = conn.wait(&lead).await["outputFile"].as_str().unwrap().to_owned();
    daemon.crash();
    // As if it had been killed right behind the answer.
    let history = std::path::Path::new(&output).with_file_name("history.jsonl");
    let whole = std::fs::read_to_string(&history).unwrap();
    let kept: Vec<&str> = whole.lines().take_while(|line| !line.contains("tool_result")).collect();
    assert!(kept.last().unwrap().contains("AskUserQuestion"), "{whole}");
    std::fs::write(&history, kept.join("\n") + "\n").unwrap();
    daemon.restart();
    let conn = daemon.connect().await;
    let go_on = json!({
        "sessionId": session, "text": "```offline\n- say: 'then {{result}}'\n```", "env": { "HOME": daemon.home.path() },
    });
    conn.ok("session.prompt", go_on).await;
    let said = conn.wait(&lead).await;
    assert!(text(&said).contains("then The person answered:\n\nStore: Which store?\nsled"), "{said}");
    daemon.end().await;
}

/// AD-20, CX-18, TP-02, PL-04, C16: whom a person talks to asks questions and plans; no other agent does, but for the questions of
/// one whose definition says so.
#[tokio::test]
async fn who_may_ask_a_person() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let pool = async |more: Value| {
        let mut params = json!({ "prompt": "p", "model": "offline", "cwd": daemon.home.path(), "env": { "HOME": daemon.home.path() } });
        merge(&mut params, more);
        let tools = conn.ok("agent.explain", params).await["tools"]["pool"].clone();
        let has = |name: &&str| tools.as_array().unwrap().contains(&json!(name));
        ["AskUserQuestion", "EnterPlanMode", "ExitPlanMode"].into_iter().filter(has).collect::<Vec<_>>()
    };
    assert_eq!(pool(json!({})).await, ["AskUserQuestion", "EnterPlanMode", "ExitPlanMode"]);
    assert!(pool(json!({ "subagentType": "general-purpose" })).await.is_empty());
    assert!(pool(json!({ "profile": "executor" })).await.is_empty());
    assert!(pool(json!({ "profile": "minimal", "subagentType": "explore" })).await.is_empty());
    let general = json!({ "profile": "minimal", "subagentType": "general", "name": "gen" });
    assert_eq!(pool(general.clone()).await, ["AskUserQuestion"]);
    let id = play(&daemon, &conn, &questions(), general).await;
    let ask = asked(&conn, &id).await;
    assert_eq!((&ask["kind"], &ask["agentName"]), (&json!("question"), &json!("gen")));
    respond(&conn, &ask, json!({ "behavior": "allow", "answers": { "Which store?": "files" } })).await;
    assert!(text(&conn.wait(&id).await).contains("Which store?\nfiles"));
    let id =
        play(&daemon, &conn, &questions(), json!({ "profile": "minimal", "subagentType": "explore" })).await;
    assert!(text(&conn.wait(&id).await).contains("There is no tool \"AskUserQuestion\" for you"));
    daemon.end().await;
}

/// PM-09, cli.md, exit code 5: a run in the foreground without a terminal declines, and says so.
#[test]
fn a_run_without_a_terminal_declines() {
    let daemon = Daemon::start();
    let prompt = format!("```offline\n{}\n```", questions());
    let args = ["run", "--model", "offline", &prompt];
    let ended = run(daemon.home.ctl(&args).current_dir(daemon.home.path()).env("HOME", daemon.home.path()));
    assert_eq!(ended.code, Some(5), "{} {}", ended.out, ended.err);
    assert!(ended.out.contains("declined to answer: nobody can be asked here"), "{}", ended.out);
    assert!(ended.err.contains("Which store?") && ended.err.contains("ccagentctl ask"), "{}", ended.err);
}

/// cli.md, `ask`: questions are shown with their numbers and answered by these or by words, at the command line.
#[tokio::test]
async fn questions_are_answered_at_the_command_line() {
    let daemon = Daemon::start();
    let conn = daemon.connect().await;
    let ctl = |args: &[&str]| run(&mut daemon.home.ctl(args));
    let id = play(&daemon, &conn, &questions(), json!({ "name": "ann" })).await;
    let ask = asked(&conn, &id).await["id"].as_str().unwrap().to_owned();
    assert!(ctl(&["ask", "ls"]).out.contains("question"));
    let shown = ctl(&["ask", "show", &ask]).out;
    for part in
        ["Store: Which store?", "  1 sled  it is sled", "Tests: Which tests? (more than one may be chosen)"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    for wrong in [
        &["ask", "answer", &ask, "1,2"][..],
        &["ask", "answer", &ask, "1", "1", "1"],
        &["ask", "allow", &ask],
    ] {
        assert_eq!(ctl(wrong).code, Some(2), "{wrong:?}");
    }
    let answered = ctl(&["ask", "answer", &ask, "-", "2,1", "-m", "soon"]);
    assert_eq!((answered.code, answered.out.contains("answered")), (Some(0), true), "{}", answered.err);
    assert!(ctl(&["ask", "show", &ask]).out.contains("answer: unit, whole"));
    let said = conn.wait(&id).await;
    let all = "Which store?\n(no answer)\n\nTests: Which tests?\nunit, whole\n\nThey add: soon";
    assert!(text(&said).ends_with(all), "{said}");
    let id = play(&daemon, &conn, &questions(), json!({})).await;
    let ask = asked(&conn, &id).await["id"].as_str().unwrap().to_owned();
    assert_eq!(ctl(&["ask", "answer", &ask, "neither of them"]).code, Some(0));
    assert!(text(&conn.wait(&id).await).contains("Which store?\nneither of them\n"));
    daemon.end().await;
}

/// cli.md, `run`: at a terminal questions are put one after the other, and answered by numbers or words.
#[test]
fn a_run_at_a_terminal_puts_its_questions_there() {
    if !ccagent_tests::skip::has("script") {
        return ccagent_tests::skip("script (util-linux) is not installed");
    }
    let daemon = Daemon::start();
    let mut terminal = Terminal::run(&daemon, &questions(), &[]);
    let first = terminal.until("behind n are told\r\n> ");
    for shown in ["  | Store: Which store?", "  |   2 files  it is files", "a number, o and words"] {
        assert!(first.contains(shown), "{shown}: {first}");
    }
    terminal.types("files");
    terminal.until("> ");
    terminal.types("o a bucket");
    let second = terminal.until("behind n are told\r\n> ");
    assert!(second.contains("Tests: Which tests?") && second.contains("one or more numbers"), "{second}");
    terminal.types("1 2");
    terminal.until("unit, whole");
    assert_eq!(terminal.code(), Some(0));
}
