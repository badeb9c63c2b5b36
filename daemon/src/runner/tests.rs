//! The runner with a real core and shims that are scripts: what a shim can do badly, it does here.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

use ccagent_core::{Caller, Core, Limits, Record, task};
use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::method::{AgentSpawn, TaskGet, TaskStop};
use ccagent_proto::task::{Task, TaskGetParams, TaskStatus, TaskStopParams};
use futures_util::future::FutureExt as _;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

use super::*;
use crate::driver::Driver;
use crate::hub::{Bounds, Key};
use crate::store::{Options, Store};

/// A group of our own is never signalled.
const OWN_SESSION: &str = "#!/bin/sh\n[ \"$1\" ] || exec setsid $0 own\n";
/// Reads the start line and the directory of the attempt in it; tells the test that it runs.
const BEGIN: &str = "read -r line\ndir=$(echo \"$line\" | sed 's/.*\"dir\":\"\\([^\"]*\\)\".*/\\1/')\n";
/// Claims the attempt as a shim does.
const CLAIM: &str = "start=$(sed 's/.*) //' /proc/$$/stat | cut -d ' ' -f 20)\n\
     echo \"{\\\"version\\\":1,\\\"shimPid\\\":$$,\\\"shimStart\\\":$start,\\\"bootId\\\":\\\"$(cat /proc/sys/kernel/random/boot_id)\\\"}\" > $dir/claim\n";

struct World {
    runner: Runner,
    handle: Handle,
    hub: Hub,
    told: pipe::Receiver,
    dir: tempfile::TempDir,
}

impl World {
    /// A daemon's inner parts, with this script for a shim; `$tell` is where it says a byte.
    fn with(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (shim, tell, state) =
            (dir.path().join("shim"), dir.path().join("tell"), dir.path().join("state"));
        nix::unistd::mkfifo(&tell, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let told = pipe::OpenOptions::new().read_write(true).open_receiver(&tell).unwrap();
        std::fs::write(&shim, format!("{OWN_SESSION}tell={}\n{BEGIN}{script}", tell.display())).unwrap();
        std::fs::set_permissions(&shim, std::fs::Permissions::from_mode(0o700)).unwrap();
        let store = Arc::new(Store::open(&state, Options::new(Record::KINDS)).unwrap());
        let hub = Hub::new("epoch".into(), Bounds { ring: 1000, subscriber: 1000 });
        let groups = dir.path().join("groups");
        std::fs::create_dir(&groups).unwrap();
        let settings = Settings {
            shim,
            socket: PathBuf::new(),
            state_dir: state.clone(),
            output_rate: 0,
            output_most: 1 << 30,
            open_files: None,
            cgroup: Some(Delegated::at(groups)),
        };
        let runner = Runner::new(settings, store.clone(), hub.clone(), Arc::default()).unwrap();
        let rules = Limits { state_dir: state.to_str().unwrap().into(), ..Limits::default() };
        let core = Core::restore(rules, []);
        let (mut driver, handle) = Driver::new(core, store, hub.clone(), runner.clone(), 1000);
        runner.report_to(handle.clone());
        tokio::spawn(async move {
            driver.recover().await.unwrap();
            driver.run().await.unwrap();
        });
        Self { runner, handle, hub, told, dir }
    }

    async fn spawn(&self) -> TaskId {
        let params = AgentSpawnParams {
            command: Some(vec!["prog".to_owned()]),
            cwd: Some("/".to_owned()),
            run_in_background: Some(true),
            ..AgentSpawnParams::default()
        };
        self.handle.call::<AgentSpawn>(Caller::operator(1), params).await.unwrap().task_id
    }

    /// Waits until the shim says that it is there.
    async fn told(&mut self) {
        self.told.read_u8().await.unwrap();
    }

    async fn stop(&self, task: TaskId) {
        let params =
            TaskStopParams { task_id: task.to_string(), force: Some(true), ..TaskStopParams::default() };
        self.handle.call::<TaskStop>(Caller::operator(1), params).await.unwrap();
    }

    async fn ended(&self, id: TaskId) -> Task {
        let mut watch = self.hub.watch([Key::Task(id)]);
        loop {
            let params = TaskGetParams { task_id: id.to_string() };
            let task = self.handle.call::<TaskGet>(Caller::operator(1), params).await.unwrap();
            if task.status.is_done() {
                return task;
            }
            watch.changed().await;
        }
    }

    /// The cgroups that agents have.
    fn groups(&self) -> usize {
        list(&self.dir.path().join("groups"))
    }
}

fn list(path: &Path) -> usize {
    std::fs::read_dir(path).unwrap().count()
}

/// I4, D53: a stop ends a shim whose program does not start, as on a disk that does not answer, whether it claimed its
/// attempt or not.
#[tokio::test]
async fn a_start_that_hangs_can_be_stopped() {
    for claim in ["", CLAIM] {
        let mut world = World::with(&format!("{claim}echo > $tell\nexec sleep 1000\n"));
        let task = world.spawn().await;
        world.told().await;
        world.stop(task).await;
        let task = world.ended(task).await;
        assert_eq!(task.status, TaskStatus::Killed, "{claim}: {:?}", task.error);
        assert_eq!(world.groups(), 0);
    }
}

/// I4, I6: a stop does not wait until files say for sure whether an attempt runs.
#[tokio::test]
async fn an_attempt_of_which_nothing_is_sure_can_be_stopped() {
    // It claims and closes its answer: whether its program runs, only its record could tell.
    let script = format!("{CLAIM}exec > /dev/null\necho > $tell\nexec sleep 1000\n");
    let mut world = World::with(&script);
    let task = world.spawn().await;
    world.told().await;
    world.stop(task).await;
    assert_eq!(world.ended(task).await.status, TaskStatus::Killed);
}

/// I7, J134: whatever the system says at whichever step before there is a shim, the start has failed, and nothing is
/// waited for.
#[tokio::test]
async fn what_keeps_a_shim_from_being_started_fails_the_start() {
    type Spoil = fn(&Path);
    let no_directory: Spoil = |path| std::fs::write(path, "").unwrap();
    let dangling: Spoil = |path| std::os::unix::fs::symlink("nowhere", path).unwrap();
    let circle: Spoil = |path| std::os::unix::fs::symlink(path, path).unwrap();
    let too_long: Spoil = |path| std::os::unix::fs::symlink("x".repeat(300), path).unwrap();
    let directory: Spoil = |path| std::fs::create_dir(path).unwrap();
    let refused: Spoil = |path| {
        std::fs::write(path, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    let made = [no_directory, dangling, circle, too_long];
    let places = ["state/sessions", "state/sessions/main"];
    let makes = places.into_iter().flat_map(|place| made.map(|spoil| (place, spoil)));
    let starts = made.into_iter().chain([directory, refused]).map(|spoil| ("shim", spoil));
    for (number, (place, spoil)) in makes.chain(starts).enumerate() {
        let world = World::with("");
        let path = world.dir.path().join(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        drop(std::fs::remove_file(&path));
        spoil(&path);
        let task = world.spawn().await;
        let task = world.ended(task).await;
        assert_eq!(task.error.unwrap().kind, "startFailed", "{number} {place}");
        assert_eq!(world.groups(), 0, "{number} {place}");
    }
}

/// I7, J134: files that can't be whole again keep no attempt waiting whose shim is gone.
#[tokio::test]
async fn files_that_do_not_heal_are_not_waited_for() {
    let gone = "parent=$(dirname $(dirname $dir))\nrm -r $parent\necho > $parent\n";
    for (spoil, kind) in [
        (gone, "startFailed"),
        ("echo rubbish > $dir/claim\n", "shimLost"),
        ("mkdir $dir/claim\n", "shimLost"),
        ("mkfifo $dir/claim\n", "shimLost"),
        ("ln -s . $dir/claim\n", "shimLost"),
    ] {
        let world = World::with(spoil);
        let task = world.spawn().await;
        assert_eq!(world.ended(task).await.error.unwrap().kind, kind, "{spoil}");
    }
}

/// I8: no cgroup is left of a start that failed, whichever way it did.
#[tokio::test]
async fn a_failed_start_leaves_no_cgroup() {
    let failed = "echo '{\"type\":\"failed\",\"kind\":\"cwdMissing\",\"message\":\"gone\"}'\n";
    for script in [failed, "exit 1\n", "echo nonsense\n"] {
        let world = World::with(script);
        let task = world.spawn().await;
        let task = world.ended(task).await;
        assert_eq!(task.error.unwrap().kind, "startFailed", "{script}");
        assert_eq!(world.groups(), 0, "{script}");
    }
}

/// I9: the end of an attempt's future does not forget a newer one of the same attempt.
#[tokio::test]
async fn a_newer_future_of_an_attempt_is_not_forgotten() {
    let world = World::with("");
    let task: TaskId = "agent_01890000-0000-7000-8000-0000000000ff".parse().unwrap();
    let survivor =
        Survivor { task, attempt: 1, directory: "/nowhere".to_owned(), control: "token".into(), shim: None };
    let (end, ends) = oneshot::channel::<()>();
    world.runner.run(survivor.clone(), Origin::Now, |_, _| async { drop(ends.await) }.boxed());
    world.runner.run(survivor, Origin::Now, |_, orders| {
        async move {
            std::future::pending::<()>().await;
            drop(orders);
        }
        .boxed()
    });
    end.send(()).unwrap();
    // The one that goes on is the only one that is left once the other has ended.
    while world.runner.inner.tracker.len() > 1 {
        tokio::task::yield_now().await;
    }
    assert!(world.runner.agent(task).is_some());
}

/// I5, I9, D57: files that an agent wrote make no bystander its shim, who is signalled or whose clients are taken for the
/// agent: neither one that the store knows another shim of, nor one of an older daemon.
#[tokio::test]
async fn forged_files_make_nobody_a_shim() {
    // A group of our own is never signalled. It is older than the runner, which takes it for no orphan.
    let mut child = std::process::Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
    let world = World::with("");
    let own = silence::process(std::process::id()).unwrap();
    let boot = world.runner.inner.boot.clone();
    let shim = silence::process(child.id()).unwrap();
    let known =
        task::Shim { pid: shim.pid, start: shim.start_time, boot: boot.clone(), leader: Some(shim.pid) };
    for (last, shim) in [(1, None), (2, Some(known))] {
        let task: TaskId = format!("agent_01890000-0000-7000-8000-00000000000{last}").parse().unwrap();
        let directory = world.dir.path().join(last.to_string());
        let attempt = directory.join("attempt-1");
        std::fs::create_dir_all(&attempt).unwrap();
        for name in [ccagent_shim::files::CLAIM, ccagent_shim::files::SHIM] {
            let (pid, start) = (own.pid, own.start_time);
            let forged = format!(
                "{{\"version\":1,\"taskId\":\"{task}\",\"attempt\":1,\"shimPid\":{pid},\"shimStart\":{start},\
                 \"bootId\":\"{boot}\",\"pid\":{pid},\"startTime\":{start},\"tokenHash\":\"\"}}"
            );
            std::fs::write(attempt.join(name), forged).unwrap();
        }
        let directory = directory.to_str().unwrap().to_owned();
        let expected = shim.as_ref().map(|_| task);
        world.runner.adopt(vec![Survivor { task, attempt: 1, directory, control: "token".into(), shim }]);
        assert_eq!(world.runner.task_of_shim(child.id()), expected);
        assert_eq!(world.runner.task_of_shim(std::process::id()), None);
        Hands::stop(&world.runner, task, 1, task::Stop { cause: task::Cause::Stop, grace_ms: 0 });
        while world.runner.agent(task).is_some() {
            tokio::task::yield_now().await;
        }
    }
    assert!(!child.wait().unwrap().success());
}

/// I9, I11: of a run that is asked for now for the first time no file says anything, whatever it says: neither a directory
/// that was there before, nor a claim that came between. It did not start, and is not said to have ended well.
#[tokio::test]
async fn nobody_starts_a_run_before_it_was_asked_for() {
    let forged = "echo '{\"version\":1,\"code\":0,\"endedAt\":1,\"outputBytes\":0,\"outputTruncated\":false,\
         \"stopped\":false,\"forced\":false,\"oom\":false}' > $dir/exit.json\n\
         echo \"{\\\"version\\\":1,\\\"shimPid\\\":4000000,\\\"shimStart\\\":1,\\\"bootId\\\":\\\"$(cat \
         /proc/sys/kernel/random/boot_id)\\\"}\" > $dir/claim\n";
    let claimed =
        "echo '{\"type\":\"failed\",\"kind\":\"alreadyClaimed\",\"message\":\"attempt: File exists\"}'\n";
    for answer in [claimed, ""] {
        let world = World::with(&format!("{forged}{answer}"));
        let task = world.spawn().await;
        let error = world.ended(task).await.error.unwrap();
        assert_eq!(
            (&*error.kind, error.cause.as_deref()),
            ("startFailed", Some("alreadyClaimed")),
            "{answer}"
        );
        assert!(error.message.contains("another program"), "{error:?}");
    }
}
