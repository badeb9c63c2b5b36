//! Agents inside the daemon that write only below their directory, and what they start, from end to end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ccagent_tests::conn::merge;
use ccagent_tests::daemon::run;
use ccagent_tests::skip::skip_anywhere;
use ccagent_tests::{Conn, Daemon, Fake, programs};
use serde_json::{Value, json};

/// A daemon that confines its agents, a fake provider, and a directory to work in beside one to keep out of.
struct World {
    daemon: Daemon,
    fake: Fake,
    conn: Conn,
    inside: PathBuf,
    outside: PathBuf,
}

impl World {
    /// `None` where the kernel can't confine.
    async fn start() -> Option<Self> {
        let check = Command::new(programs::shim()).args(["confine", "--check"]).output().unwrap();
        if !check.status.success() {
            skip_anywhere(&String::from_utf8_lossy(&check.stdout));
            return None;
        }
        let daemon = Daemon::with().config("[sandbox]\nwrites = true\n").start();
        let home = daemon.home.path().canonicalize().unwrap();
        let (inside, outside) = (home.join("inside"), home.join("outside"));
        fs::create_dir(&inside).unwrap();
        fs::create_dir(&outside).unwrap();
        let conn = daemon.connect().await;
        Some(Self { daemon, fake: Fake::start(), conn, inside, outside })
    }

    fn env(&self) -> Value {
        let home = self.daemon.home.path();
        json!({ "ANTHROPIC_BASE_URL": self.fake.url, "ANTHROPIC_API_KEY": "dummy-key-of-the-tests", "HOME": home })
    }

    async fn spawn(&self, prompt: &str) -> String {
        self.spawn_in(&self.inside, prompt).await
    }

    async fn spawn_in(&self, cwd: &Path, prompt: &str) -> String {
        let params = json!({
            "prompt": prompt, "runInBackground": true, "permissionMode": "bypassPermissions", "cwd": cwd,
            "env": self.env(),
        });
        self.conn.ok("agent.spawn", params).await["taskId"].as_str().unwrap().to_owned()
    }

    async fn finish(&self, prompt: &str) -> String {
        let id = self.spawn(prompt).await;
        assert_eq!(self.conn.wait(&id).await["status"], "completed");
        id
    }

    /// A command that tries a file outside, and notes inside that it was there.
    fn tries(&self, name: &str) -> String {
        format!("echo x > {}/{name}; echo x > {}/{name}", self.outside.display(), self.inside.display())
    }

    /// Nothing is outside, and these are inside.
    fn kept_in(&self, names: &[&str]) {
        let list = |dir: &PathBuf| -> Vec<String> {
            let names = fs::read_dir(dir).unwrap();
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        };
        assert_eq!(list(&self.outside), [""; 0]);
        let inside = list(&self.inside);
        assert!(names.iter().all(|name| inside.iter().any(|found| found == name)), "{inside:?}");
    }

    /// What the model of this agent was told, all of it.
    fn told(&self) -> String {
        self.fake.log().last().unwrap()["body"].as_str().unwrap().to_owned()
    }
}

fn call(tool: &str, input: &Value) -> String {
    format!("[[tool:{tool} {input}]]")
}

fn bash(command: &str, more: Value) -> String {
    let mut input = json!({ "command": command });
    merge(&mut input, more);
    call("Bash", &input)
}

/// rpc.md, who is calling: with the switch on, neither a shell nor a file tool writes outside, and both work inside.
#[tokio::test]
async fn an_agent_writes_only_below_its_directory() {
    let Some(world) = World::start().await else { return };
    let (inside, outside) = (world.inside.display(), world.outside.display());
    let write = |path: String| call("Write", &json!({ "file_path": path, "content": "x" }));
    let prompt = [
        bash(&world.tries("bash"), json!({})),
        write(format!("{outside}/write")),
        write(format!("{inside}/../outside/write")),
        write(format!("{inside}/new/write")),
        bash("f=$(mktemp) && echo \"temporary in ${f%/*}\" && echo x > $f && rm $f", json!({})),
        "[[say:end]]".to_owned(),
    ];
    world.finish(&prompt.join(" ")).await;
    world.kept_in(&["bash", "new"]);
    let told = world.told();
    for said in ["Permission denied", "keep below", "/tmp", "temporary in"] {
        assert!(told.contains(said), "{said}: {told}");
    }
    world.daemon.end().await;
}

/// rpc.md, who is calling: what it has the daemon start is no way out: a command in the background, a program that its
/// shell asks for, an agent, and what that one asks for.
#[tokio::test]
async fn what_it_starts_is_held_to_the_same_directory() {
    let Some(world) = World::start().await else { return };
    let ctl = programs::client().display().to_string();
    let exec = |name: &str| format!("{ctl} exec -- sh -c '{}'", world.tries(name));
    let child =
        [bash(&world.tries("child"), json!({})), bash(&exec("below"), json!({})), "[[say:did]]".into()];
    let agent = json!({ "description": "a part", "prompt": format!("CHILD {}", child.join(" ")) });
    let prompt = [
        bash(&world.tries("background"), json!({ "run_in_background": true })),
        bash(&exec("exec"), json!({})),
        bash(&format!("env -u CCAGENT_TOKEN {}", exec("nobody")), json!({})),
        call("Agent", &agent),
        "[[say:waiting]] [[say:end]]".to_owned(),
    ];
    let id = world.finish(&format!("PARENT {}", prompt.join(" "))).await;
    world.kept_in(&["background", "exec", "nobody", "child", "below"]);
    let prompt = format!("AGAIN {} [[say:end]]", bash(&world.tries("again"), json!({})));
    let params = json!({ "taskId": id, "prompt": prompt, "env": world.env(), "runInBackground": true });
    world.conn.ok("task.resume", params).await;
    assert_eq!(world.conn.wait(&id).await["status"], "completed");
    world.kept_in(&["again"]);
    world.daemon.end().await;
}

/// rpc.md, who is calling: an agent above puts a link in the place of another one's directory: neither its shell, its file
/// tools nor what it starts write behind it, in the run that goes on and in the next one.
#[tokio::test]
async fn a_directory_that_another_agent_swaps_leads_nowhere() {
    let Some(world) = World::start().await else { return };
    let own = world.inside.join("own");
    fs::create_dir(&own).unwrap();
    let gate = world.inside.join("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let ctl = programs::client().display().to_string();
    let tries = |name: &str| {
        let path = own.join(name).display().to_string();
        let shell = format!("echo x > {name}-relative; echo x > {path}-bash");
        [
            bash(&shell, json!({})),
            bash(&shell, json!({ "run_in_background": true })),
            bash(&format!("{ctl} exec -- sh -c '{shell}'"), json!({})),
            call("Write", &json!({ "file_path": format!("{path}-write"), "content": "x" })),
            "[[say:end]]".to_owned(),
        ]
        .join(" ")
    };
    let wait = bash(&format!("cat {}", gate.display()), json!({}));
    let held = world.spawn_in(&own, &format!("HELD {wait} {}", tries("same"))).await;
    // Opened once its first command reads it, which ends when this is closed.
    let open = move || fs::File::options().write(true).open(gate);
    let gate = tokio::task::spawn_blocking(open).await.unwrap().unwrap();
    let swap = format!("mv own was && ln -s {} own", world.outside.display());
    world.finish(&format!("SWAPS {} [[say:end]]", bash(&swap, json!({})))).await;
    drop(gate);
    world.conn.wait(&held).await;
    world.kept_in(&["was", "own"]);
    let again =
        json!({ "taskId": held, "prompt": tries("next"), "env": world.env(), "runInBackground": true });
    world.conn.ok("task.resume", again).await;
    world.conn.wait(&held).await;
    world.kept_in(&["was", "own"]);
    assert!(world.told().contains("leads through a link now"), "{}", world.told());
    world.daemon.end().await;
}

/// cli.md, `doctor`: it says whether the switch is on, and whether the kernel can do it.
#[tokio::test]
async fn doctor_says_what_is_active() {
    let Some(world) = World::start().await else { return };
    let said = run(&mut world.daemon.home.ctl(&["doctor"])).out;
    assert!(said.contains("sandbox.writes is on") && said.contains("Landlock"), "{said}");
    let free = Daemon::start();
    let said = run(&mut free.home.ctl(&["doctor"])).out;
    assert!(said.contains("sandbox.writes is off"), "{said}");
    world.daemon.end().await;
    free.end().await;
}
