//! `ccagentctl exec` and what goes with a run in the foreground.

use std::process::Output;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::fake::{self, Fake, TASK};

/// Plays a run: its output, then its end.
fn run(output: Vec<Value>, end: Value) -> impl FnMut(&str, &Value, &Value) -> Vec<Value> + Send {
    move |method, _, id| match method {
        "agent.spawn" => {
            let spawned =
                json!({ "status": "async_launched", "taskId": TASK, "task": fake::task(json!({})) });
            vec![fake::result(id, spawned)]
        }
        "task.follow" => std::iter::once(fake::result(id, json!("f")))
            .chain(output.iter().map(|item| fake::item("output", "f", item.clone())))
            .collect(),
        "task.foreground" => {
            let ended = json!({ "status": "completed", "taskId": TASK, "task": fake::task(end.clone()) });
            vec![fake::result(id, ended)]
        }
        "task.write" => vec![fake::result(id, json!({}))],
        _ => vec![fake::result(id, json!({ "task": fake::task(json!({})), "descendants": [] }))],
    }
}

fn piece(stream: &str, text: &str, offset: u64) -> Value {
    json!({ "text": text, "stream": stream, "nextOffset": offset, "status": "running" })
}

fn done(offset: u64) -> Value {
    json!({ "text": "", "nextOffset": offset, "status": "completed", "done": true })
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

/// cli.md: `exec` in the foreground gives the child's own code, its stdout to stdout and its stderr to stderr.
#[tokio::test]
async fn the_foreground_gives_the_childs_streams_and_code() {
    let output = vec![piece("out", "data\n", 5), piece("err", "note\n", 10), done(10)];
    let mut fake = Fake::new(run(output, json!({ "status": "failed", "exit": { "code": 42 } })));
    let ended =
        fake.ctl(&["exec", "--name", "a", "--env", "K=v", "--", "prog", "--flag"]).output().await.unwrap();
    assert_eq!(code(&ended), Some(42));
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "data\n");
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "note\n");
    let asked = fake.next("agent.spawn").await;
    assert_eq!(asked["command"], json!(["prog", "--flag"]));
    assert_eq!((&asked["name"], &asked["env"]["K"]), (&json!("a"), &json!("v")));
    assert_eq!(asked["runInBackground"], json!(true));
    assert_eq!(asked["cwd"].as_str(), std::env::current_dir().unwrap().to_str());
    assert!(asked.get("stdin").is_none(), "{asked}");
    assert_eq!(fake.next("task.follow").await["offset"], json!(0));
}

/// SP-23, CD-02: a spawn that a daemon left unanswered is made again under its key, and is the same one; no other spawn
/// has that key.
#[tokio::test]
async fn a_spawn_that_is_repeated_is_the_same_one() {
    let mut script = run(vec![done(0)], json!({ "status": "completed", "exit": { "code": 0 } }));
    let keys = Arc::new(Mutex::new(Vec::new()));
    let seen = keys.clone();
    let fake = Fake::new(move |method, params, id| {
        if method == "agent.spawn" {
            seen.lock().unwrap().push(params["idempotencyKey"].as_str().unwrap().to_owned());
            if seen.lock().unwrap().len() == 1 {
                return vec![Value::Null];
            }
        }
        script(method, params, id)
    });
    for _ in 0..2 {
        assert_eq!(code(&fake.ctl(&["exec", "--", "x"]).output().await.unwrap()), Some(0));
    }
    let keys = keys.lock().unwrap();
    assert_eq!(keys.len(), 3);
    assert!(keys[0] == keys[1] && keys[1] != keys[2], "{keys:?}");
}

/// cli.md: `-d` prints the id to stdout; what goes to stderr beside it is for a terminal.
#[tokio::test]
async fn detached_prints_the_id_and_nothing_else_to_stdout() {
    let fake = Fake::new(run(Vec::new(), json!({})));
    let loud = fake.ctl(&["exec", "-d", "--", "x"]).output().await.unwrap();
    assert_eq!(String::from_utf8_lossy(&loud.stdout), format!("{TASK}\n"));
    assert!(loud.stderr.is_empty(), "hints are for a terminal: {loud:?}");
    let quiet = fake.ctl(&["exec", "-dq", "--", "x"]).output().await.unwrap();
    assert_eq!(String::from_utf8_lossy(&quiet.stdout), format!("{TASK}\n"));
    assert!(quiet.stderr.is_empty());
    let json = fake.ctl(&["--json", "exec", "-d", "--", "x"]).output().await.unwrap();
    let task: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(task["id"], json!(TASK));
}

/// cli.md: a program that can't be found or executed gives 127 or 126.
#[tokio::test]
async fn a_program_that_is_not_there_gives_127() {
    for (cause, expected) in [("notFound", 127), ("notExecutable", 126)] {
        let fake = Fake::new(move |_, _, id| {
            let data =
                json!({ "kind": "processStartFailed", "retryable": false, "taskId": TASK, "cause": cause });
            vec![fake::error(id, 1702, "no such program", data)]
        });
        let ended = fake.ctl(&["exec", "--", "x"]).output().await.unwrap();
        assert_eq!(code(&ended), Some(expected));
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "error: no such program\n");
    }
}

/// cli.md: Ctrl-C stops the agent and gives 130.
#[tokio::test]
async fn an_interrupt_stops_the_agent() {
    let mut script =
        run(vec![piece("out", "up\n", 3)], json!({ "status": "killed", "exit": { "signal": 15 } }));
    let mut fake = Fake::new(move |method, params, id| {
        let mut replies = script(method, params, id);
        if method == "task.stop" {
            replies.push(fake::item("output", "f", done(3)));
        }
        replies
    });
    let mut child = fake.ctl(&["exec", "--", "x"]).spawn().unwrap();
    // Once its first output is here, it waits for the rest.
    let mut first = [0; 3];
    tokio::io::AsyncReadExt::read_exact(child.stdout.as_mut().unwrap(), &mut first).await.unwrap();
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let asked = fake.next("task.stop").await;
    assert_eq!((&asked["taskId"], asked.get("force")), (&json!(TASK), None));
    assert_eq!(child.wait().await.unwrap().code(), Some(130));
}

/// A reader that goes away ends the agent, as it would end a program in a pipe.
#[tokio::test]
async fn output_without_a_reader_stops_the_agent() {
    let output = (0..2000).map(|at| piece("out", &"y\n".repeat(100), at)).collect();
    let mut fake = Fake::new(run(output, json!({ "status": "killed" })));
    let mut child = fake.ctl(&["exec", "--", "yes"]).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut some = [0; 10];
    tokio::io::AsyncReadExt::read_exact(&mut stdout, &mut some).await.unwrap();
    drop(stdout);
    fake.next("task.stop").await;
    assert_eq!(child.wait().await.unwrap().code(), Some(141));
}

/// A reader that is slower than the program loses nothing: what was not kept for it is asked for again.
#[tokio::test]
async fn a_slow_reader_gets_all_of_the_output() {
    const LINES: u64 = 6000;
    let text = |line: u64| format!("{line:>99}\n");
    let mut script = run(Vec::new(), json!({ "status": "completed", "exit": { "code": 0 } }));
    let mut fake = Fake::new(move |method, params, id| {
        if method != "task.follow" {
            return script(method, params, id);
        }
        let first = params["offset"].as_u64().unwrap() / 100;
        let lines = (first..LINES).map(|line| piece("out", &text(line), (line + 1) * 100));
        std::iter::once(fake::result(id, json!(format!("f{first}"))))
            .chain(
                lines.chain([done(LINES * 100)]).map(|item| fake::item("output", &format!("f{first}"), item)),
            )
            .collect()
    });
    let child = fake.ctl(&["exec", "--", "x"]).spawn().unwrap();
    // By now it was sent more than it and the pipe can hold, and nobody has read a byte.
    assert_eq!(fake.next("task.follow").await["offset"], json!(0));
    let ended = child.wait_with_output().await.unwrap();
    assert_eq!(String::from_utf8(ended.stdout).unwrap(), (0..LINES).map(text).collect::<String>());
    assert!(fake.next("task.follow").await["offset"].as_u64().unwrap() > 0);
}

/// cli.md, `exec -i`: stdin goes to the program, then its end.
#[tokio::test]
async fn stdin_is_forwarded_with_its_end() {
    let mut script = run(Vec::new(), json!({ "status": "completed", "exit": { "code": 0 } }));
    let mut fake = Fake::new(move |method, params, id| {
        let mut replies = script(method, params, id);
        if params["eof"] == json!(true) {
            replies.push(fake::item("output", "f", done(0)));
        }
        replies
    });
    let mut command = fake.ctl(&["exec", "-i", "--", "cat"]);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stdin, "grüße\n".as_bytes()).await.unwrap();
    drop(stdin);
    assert_eq!(fake.next("agent.spawn").await["stdin"], json!("pipe"));
    assert_eq!(fake.next("task.write").await["text"], json!("grüße\n"));
    assert_eq!(fake.next("task.write").await["eof"], json!(true));
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
}

/// cli.md: `wait --timeout` gives 124 when the time elapsed, 1 when an agent failed.
#[tokio::test]
async fn wait_tells_time_from_failure() {
    for (timed_out, status, expected) in
        [(true, "running", 124), (false, "failed", 1), (false, "completed", 0)]
    {
        let mut fake = Fake::new(move |_, _, id| {
            let tasks = json!([fake::task(json!({ "status": status }))]);
            vec![fake::result(id, json!({ "tasks": tasks, "timedOut": timed_out }))]
        });
        let ended = fake.ctl(&["wait", "a", "--timeout", "3s"]).output().await.unwrap();
        assert_eq!(code(&ended), Some(expected), "{ended:?}");
        assert_eq!(
            fake.next("task.wait").await,
            json!({ "taskIds": ["a"], "mode": "all", "for": "done", "timeoutMs": 3000 })
        );
    }
}

/// cli.md: an ambiguous id lists its matches, and is exit code 3.
#[tokio::test]
async fn an_ambiguous_id_lists_its_matches() {
    let fake = Fake::new(|_, _, id| {
        let data = json!({ "kind": "taskNotFound", "retryable": false, "matches": ["agent_1", "agent_2"] });
        vec![fake::error(id, 1101, "more than one agent matches", data)]
    });
    let ended = fake.ctl(&["show", "a"]).output().await.unwrap();
    assert_eq!(code(&ended), Some(3));
    assert!(ended.stdout.is_empty());
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("these match: agent_1, agent_2"), "{said}");
}
