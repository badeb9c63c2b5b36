//! Tasks: routes, states, ends, and how long they stay in view.

use ccagent_core::effect::Effect;
use ccagent_core::input::{Ended, Report};
use ccagent_core::task::Shim;
use ccagent_core::{Input, Limits, RunnerEvent};
use ccagent_proto::Kind;
use ccagent_proto::agent::{AgentSpawnParams, SpawnStatus};
use ccagent_proto::method::{
    AgentExplain, AgentSpawn, TaskGet, TaskPrune, TaskRemove, TaskRetain, TaskStop, TaskWait, TeamCreate,
};
use ccagent_proto::runner::RunnerKind;
use ccagent_proto::task::{
    Exit, TaskGetParams, TaskKind, TaskListParams, TaskPruneParams, TaskRemoveParams, TaskRetainParams,
    TaskStatus, TaskStopParams, TaskWaitParams, WaitKind, WaitMode,
};
use ccagent_proto::team::TeamCreateParams;

use crate::desk::{BEGIN, Desk, agent, background, ended, foreground, named, person, teammate};

fn all() -> TaskListParams {
    TaskListParams { all: Some(true), ..TaskListParams::default() }
}

/// SP-01, SP-02, SP-07: what `agent.explain` says is what `agent.spawn` does, teammate before background before sync.
#[test]
fn explain_and_spawn_agree_on_the_route() {
    let mut desk = Desk::new();
    desk.ok::<TeamCreate>(&person(), TeamCreateParams { name: Some("red".into()), ..Default::default() });
    let only_team = AgentSpawnParams { team_name: Some("red".into()), ..foreground() };
    let only_name = AgentSpawnParams { name: Some("solo".into()), ..foreground() };
    let rows = [
        (teammate("red", "ann"), "teammate", SpawnStatus::TeammateSpawned),
        (
            AgentSpawnParams { run_in_background: None, ..teammate("red", "bob") },
            "teammate",
            SpawnStatus::TeammateSpawned,
        ),
        (background(), "background", SpawnStatus::AsyncLaunched),
        (named("cid"), "background", SpawnStatus::AsyncLaunched),
        (only_team, "sync", SpawnStatus::AsyncLaunched),
        (only_name, "sync", SpawnStatus::AsyncLaunched),
        (foreground(), "sync", SpawnStatus::AsyncLaunched),
    ];
    for (params, route, status) in rows {
        let before = desk.core.clone();
        let explained = desk.ok::<AgentExplain>(&person(), params.clone());
        assert!(desk.core == before && !explained.reasons.is_empty());
        assert_eq!(explained.route, route);
        let result = desk.spawned(params);
        assert_eq!((result.status, result.task.is_backgrounded), (status, route != "sync"));
    }
}

/// SP-16, SP-19, SE-01: an agent in the background is there at once, by id and by name, with nothing counted yet.
#[test]
fn a_background_agent_is_registered_before_the_answer() {
    let mut desk = Desk::new();
    let result = desk.spawned(named("ann"));
    assert_eq!(desk.events(), ["task.spawned", "task_started"]);
    assert_eq!((result.task.status, result.task.usage.tool_uses), (TaskStatus::Running, 0));
    assert_eq!((result.task.usage.total_tokens, result.task.progress.tool_use_count), (0, 0));
    let hint = result.hint.unwrap();
    assert!(hint.contains("task.output") && hint.contains("task.stop"), "{hint}");
    let by_name = desk.ok::<TaskGet>(&person(), TaskGetParams { task_id: "ann".into() });
    assert_eq!(by_name.id, result.task_id);
    assert_eq!(by_name.output_file, format!("/s/sessions/main/{}/output", result.task_id));
    let by_prefix = result.task_id.to_string()[..11].to_owned();
    assert_eq!(desk.ok::<TaskGet>(&person(), TaskGetParams { task_id: by_prefix }).id, result.task_id);
}

/// CX-12: a name is free again when its agent ended; while it lives, nobody else gets it.
#[test]
fn a_name_belongs_to_one_live_agent() {
    let mut desk = Desk::new();
    let first = desk.spawn(named("ann"));
    desk.refused::<AgentSpawn>(&person(), named("ann"), Kind::NameTaken);
    desk.exited(first, 0);
    let second = desk.spawn(named("ann"));
    assert_eq!(desk.ok::<TaskGet>(&person(), TaskGetParams { task_id: "ann".into() }).id, second);
}

/// TM-15, A17: names are safe path parts that nothing else is called by.
#[test]
fn reserved_and_unsafe_names_are_refused() {
    let mut desk = Desk::new();
    let long = "x".repeat(65);
    let names =
        ["", "../x", "a/b", ".hidden", "a b", "main", "operator", "user", "human", "system", "daemon"];
    for name in names.into_iter().chain(["agent_1", "session_1", "a@b", "uds:x", "*", "ä", &long]) {
        let error = desk.refused::<AgentSpawn>(&person(), named(name), Kind::InvalidParams);
        assert_eq!(error.data["path"], "name", "{name}");
    }
}

/// SP-23, SP-27, SP-33, CX-10: the task echoes what it was spawned with; its parent session is `main` by default.
#[test]
fn a_task_echoes_its_spawn() {
    let mut desk = Desk::new();
    let task = desk.spawn(AgentSpawnParams {
        description: Some("build it".into()),
        cwd: Some("/w".into()),
        model: Some("m".into()),
        permission_mode: Some("plan".into()),
        subagent_type: Some("builder".into()),
        ..named("ann")
    });
    let view = desk.get(task);
    assert!(task.to_string().starts_with("agent_") && task.to_string().len() == 42);
    assert_eq!((view.session_id.to_string().as_str(), view.cwd.as_str()), ("main", "/w"));
    assert_eq!((view.description.as_str(), view.kind), ("build it", TaskKind::LocalCommand));
    assert_eq!((view.model.as_deref(), view.permission_mode.as_str()), (Some("m"), "plan"));
    assert_eq!((view.agent_type.as_deref(), view.attempt, view.created_at), (Some("builder"), 1, BEGIN));
    let launch = desk.writes.iter().find_map(|write| match write {
        ccagent_core::record::Write::Put(ccagent_core::Record::Launch(launch)) => Some(launch.argv.clone()),
        _ => None,
    });
    assert_eq!(launch.unwrap(), ["make", "all"]);
}

/// SP-28: a param of a wrong shape is named; what this version has nothing behind is refused, not ignored.
#[test]
fn bad_params_of_a_spawn_are_named() {
    let mut desk = Desk::new();
    let with = |change: fn(&mut AgentSpawnParams)| {
        let mut params = background();
        change(&mut params);
        params
    };
    let invalid = Kind::InvalidParams;
    let rows: [(AgentSpawnParams, Kind, &str); 11] = [
        (with(|p| p.command = Some(Vec::new())), invalid, "command"),
        (with(|p| p.command = Some(vec!["a\0".into()])), invalid, "command"),
        (with(|p| p.permission_mode = Some("all".into())), invalid, "permissionMode"),
        (with(|p| p.cwd = Some("w".into())), invalid, "cwd"),
        (with(|p| p.env = Some([("A=B".to_owned(), "1".to_owned())].into())), invalid, "env"),
        (with(|p| p.env = Some([("CCAGENT_X".to_owned(), "1".to_owned())].into())), invalid, "env"),
        (with(|p| p.after = Some(vec!["nobody".into()])), Kind::TaskNotFound, "after"),
        (with(|p| p.isolation = Some("moon".into())), invalid, "isolation"),
        (with(|p| p.command = None), invalid, "command"),
        (with(|p| (p.command, p.prompt) = (None, Some(" ".into()))), invalid, "prompt"),
        (with(|p| p.max_turns = Some(1)), invalid, "maxTurns"),
    ];
    for (params, kind, path) in rows {
        let error = desk.refused::<AgentSpawn>(&person(), params, kind);
        assert_eq!(error.data["path"], path);
    }
    desk.refused::<AgentSpawn>(&person(), with(|p| p.isolation = Some("worktree".into())), Kind::FeatureOff);
    desk.refused::<AgentSpawn>(
        &person(),
        with(|p| p.runner = Some(RunnerKind::Tmux)),
        Kind::RunnerUnavailable,
    );
}

/// SP-24: an unmanaged run is in no list, leaves no record, and can't be resumed; who waits for it is still woken.
#[test]
fn an_unmanaged_run_leaves_nothing() {
    let mut desk = Desk::new();
    let task = desk.spawn(AgentSpawnParams { persist: Some(false), ..foreground() });
    assert_eq!(desk.list(all()), []);
    desk.refused::<TaskGet>(&person(), TaskGetParams { task_id: task.to_string() }, Kind::TaskNotFound);
    desk.exited(task, 0);
    assert!(desk.events().contains(&"task.ended"));
    assert_eq!(desk.logs(), Vec::<serde_json::Value>::new());
    desk.heard(task);
    desk.after(30_000);
    assert!(desk.effects.iter().any(|effect| matches!(effect, Effect::RemoveFiles { .. })));
    assert!(desk.past(task).is_none() && desk.core.records().iter().all(|record| record.kind() != "task"));
}

/// TS-01, TS-02, TS-03, TS-09, AB-12, RS-14: each way to end has its own status, error and exit.
#[test]
fn each_way_to_end_is_told_apart() {
    let code = |code| Exit { code: Some(code), signal: None };
    let signal = Exit { code: None, signal: Some(9) };
    let oom = Report::Ended(Ended { exit: signal, oom: true, ..Ended::default() });
    let failed = |cause: &str| Report::StartFailed { cause: cause.into(), message: "no such file".into() };
    let rows = [
        (ended(code(0)), TaskStatus::Completed, None, Some(code(0))),
        (ended(code(3)), TaskStatus::Failed, Some(("exit", "it exited with code 3")), Some(code(3))),
        (ended(signal), TaskStatus::Failed, Some(("signal", "signal 9 ended it")), Some(signal)),
        (oom, TaskStatus::Failed, Some(("memory", "it needed more than 0 bytes")), Some(signal)),
        (failed("notFound"), TaskStatus::Failed, Some(("startFailed", "no such file")), Some(code(127))),
        (failed("notExecutable"), TaskStatus::Failed, Some(("startFailed", "no such file")), Some(code(126))),
        (Report::ShimLost { message: "gone".into() }, TaskStatus::Failed, Some(("shimLost", "gone")), None),
        (
            Report::MachineRestarted,
            TaskStatus::Interrupted,
            Some(("interrupted", "the machine restarted under it")),
            None,
        ),
    ];
    for (report, status, error, exit) in rows {
        let mut desk = Desk::new();
        let task = desk.spawn(background());
        desk.started(task);
        desk.after(5);
        desk.report(task, report);
        let view = desk.get(task);
        assert_eq!((view.status, view.exit, view.ended_at), (status, exit, Some(BEGIN + 5)));
        let said = view.error.as_ref().map(|error| error.kind.as_str());
        assert_eq!(said, error.map(|(kind, _)| kind));
        assert!(error.is_none_or(|(_, end)| view.error.as_ref().unwrap().message.ends_with(end)));
        assert!(view.resumable && view.result.is_some() && view.notified);
    }
}

/// TS-12, C22, RS-16: text that was there when a run failed is kept and marked; the metadata says what ran.
#[test]
fn a_failed_run_keeps_its_text() {
    let mut desk = Desk::new();
    let task = desk.spawn(named("ann"));
    desk.started(task);
    desk.after(40);
    let tail = Some("half of it".into());
    desk.report(
        task,
        Report::Ended(Ended { exit: Exit { code: Some(1), signal: None }, tail, ..Ended::default() }),
    );
    let result = desk.get(task).result.unwrap();
    assert_eq!((result.text.as_str(), result.partial), ("half of it", Some(true)));
    for key in ["kind", "agentId", "status", "agentType", "description", "isolation", "turns", "toolCalls"] {
        assert!(result.metadata.contains_key(key), "{key}");
    }
    assert_eq!(
        (&result.metadata["durationMs"], &result.metadata["failedToolCalls"]),
        (&40.into(), &0.into())
    );
}

/// TS-04, D54, H109: an end is final; stopping an ended task is refused, and late reports are dropped.
#[test]
fn a_terminal_state_is_final() {
    let mut desk = Desk::new();
    let task = desk.completed(background());
    let before = desk.core.clone();
    desk.refused::<TaskStop>(
        &person(),
        TaskStopParams { task_id: task.to_string(), ..TaskStopParams::default() },
        Kind::AlreadyTerminal,
    );
    for what in [
        Report::Started { pid: 9, shim: Shim::default() },
        ended(Exit::default()),
        Report::NeverStarted,
        Report::MachineRestarted,
    ] {
        desk.input(Input::Runner(RunnerEvent { task, attempt: 1, what }));
        assert!(desk.core == before && desk.effects.is_empty());
    }
}

/// A report about another attempt than the running one says nothing.
#[test]
fn a_stale_attempt_cannot_finish_a_task() {
    let mut desk = Desk::new();
    let task = desk.spawn(background());
    desk.started(task);
    for attempt in [0, 2] {
        desk.input(Input::Runner(RunnerEvent { task, attempt, what: ended(Exit::default()) }));
        assert_eq!(desk.get(task).status, TaskStatus::Running);
    }
}

/// H110, G4: the leader's end is not the task's end while descendants run.
#[test]
fn a_task_is_done_when_its_tree_is_empty() {
    let mut desk = Desk::new();
    let task = desk.spawn(background());
    desk.started(task);
    desk.report(task, Report::LeaderEnded { exit: Exit { code: Some(0), signal: None }, remaining: 2 });
    let view = desk.get(task);
    assert_eq!((view.status, view.waiting_on.unwrap().kind), (TaskStatus::Running, WaitKind::Children));
    desk.started(task);
    assert_eq!(desk.get(task).waiting_on.unwrap().kind, WaitKind::Children, "said again by a new daemon");
    desk.exited(task, 0);
    assert_eq!(desk.get(task).status, TaskStatus::Completed);
}

/// G4, B28, H110: a task whose own tree is gone runs on while agents that it spawned do, says which one it waits for,
/// takes no slot, and has its end with the last of them, over a restart too.
#[test]
fn a_parent_ends_with_the_last_of_its_children() {
    let mut desk = Desk::with(Limits { agents: 2, ..Limits::default() });
    let parent = desk.spawn(background());
    let child = desk.ok::<AgentSpawn>(&agent(parent), background()).task_id;
    let grandchild = desk.ok::<AgentSpawn>(&agent(child), background()).task_id;
    let exit = Exit { code: Some(3), signal: None };
    desk.report(parent, ended(exit));
    assert_eq!(desk.starts(), [grandchild], "its slot is free");
    let waiting = desk.get(parent);
    assert_eq!(waiting.status, TaskStatus::Running);
    let on = waiting.waiting_on.unwrap();
    assert_eq!((on.kind, on.id), (WaitKind::Children, Some(child.to_string())));
    assert!(desk.notices().is_empty());
    desk.restart();
    desk.exited(child, 0);
    assert_eq!((desk.get(parent).status, desk.get(child).status), (TaskStatus::Running, TaskStatus::Running));
    desk.exited(grandchild, 0);
    let told: Vec<_> = desk.notices().into_iter().map(|notice| notice.task_id).collect();
    assert_eq!(told, [grandchild, child, parent]);
    let done = desk.get(parent);
    assert_eq!((done.status, done.exit, done.waiting_on), (TaskStatus::Failed, Some(exit), None));
}

/// G4, AB-01, D50: a parked task is stopped with its children; it has no process that could confirm it.
#[test]
fn a_parked_parent_is_stopped_with_its_children() {
    let mut desk = Desk::new();
    let parent = desk.spawn(background());
    let child = desk.ok::<AgentSpawn>(&agent(parent), background()).task_id;
    desk.exited(parent, 0);
    let stop = ccagent_proto::task::TaskStopParams { task_id: parent.to_string(), ..Default::default() };
    desk.ok::<ccagent_proto::method::TaskStop>(&person(), stop);
    assert_eq!((desk.stops(), desk.get(parent).status), (vec![(child, 10_000)], TaskStatus::Killed));
}

/// TS-05: time alone moves nothing away that nobody took note of.
#[test]
fn a_task_that_nobody_took_note_of_stays() {
    let mut desk = Desk::new();
    let task = desk.completed(background());
    let retain = TaskRetainParams { task_id: task.to_string(), retain: false, evict_after_ms: Some(1) };
    desk.ok::<TaskRetain>(&person(), retain);
    desk.after(1_000_000_000);
    assert_eq!(desk.list(TaskListParams::default()), [task]);
    desk.ack_all();
    desk.after(0);
    assert!(desk.past(task).is_some());
}

/// TS-06, C21: 3 s in the list, 30 s in the panel, then in the archive, which `all` still pages.
#[test]
fn an_ended_task_leaves_the_list_and_then_the_panel() {
    let mut desk = Desk::new();
    let task = desk.completed(background());
    desk.ack_all();
    let panel = || TaskListParams { panel: Some(true), ..TaskListParams::default() };
    desk.after(2_900);
    assert_eq!(desk.list(TaskListParams::default()), [task]);
    desk.after(200);
    assert_eq!(desk.list(TaskListParams::default()), []);
    desk.after(29_000 - 3_100);
    assert_eq!((desk.list(panel()), desk.list(all())), (vec![task], vec![task]));
    desk.after(2_000);
    assert_eq!(desk.list(panel()), []);
    assert!(desk.past(task).is_some());
    let error =
        desk.refused::<TaskGet>(&person(), TaskGetParams { task_id: task.to_string() }, Kind::TaskNotFound);
    assert_eq!(error.data["archived"], task.to_string());
}

/// TS-07, SP-34: a retained task stays registered; `evictAfterMs` says when it goes.
#[test]
fn a_retained_task_stays_until_it_is_evicted() {
    let mut desk = Desk::new();
    let task = desk.completed(background());
    desk.ack_all();
    let retain =
        |evict_after_ms| TaskRetainParams { task_id: task.to_string(), retain: true, evict_after_ms };
    desk.ok::<TaskRetain>(&person(), retain(None));
    desk.after(1_000_000_000);
    assert_eq!(desk.list(TaskListParams::default()), [task]);
    let view = desk.ok::<TaskRetain>(&person(), retain(Some(60_000)));
    assert_eq!(view.evict_after_at, Some(desk.now + 60_000));
    desk.after(59_999);
    assert_eq!(desk.list(TaskListParams::default()), [task]);
    desk.after(1);
    assert_eq!(desk.list(TaskListParams::default()), []);
    let far = desk.completed(background());
    let far = TaskRetainParams { task_id: far.to_string(), retain: true, evict_after_ms: Some(u64::MAX) };
    assert_eq!(desk.ok::<TaskRetain>(&person(), far).evict_after_at, Some(u64::MAX));
}

/// TS-10: the run limit ends a task with an error that names the seconds; a stop says that it was the limit.
#[test]
fn a_run_limit_names_its_seconds() {
    let mut desk = Desk::with(Limits { run_ms: 300_000, ..Limits::default() });
    let task = desk.spawn(background());
    desk.after(1_000);
    desk.started(task);
    desk.after(299_999);
    assert!(desk.get(task).stopped_by.is_none());
    desk.after(1);
    assert_eq!(desk.stops(), [(task, 10_000)]);
    desk.report(task, ended(Exit { code: None, signal: Some(15) }));
    let view = desk.get(task);
    let error = view.error.unwrap();
    assert_eq!((view.status, error.kind.as_str()), (TaskStatus::Failed, "timeout"));
    assert!(error.message.contains("300 s"), "{}", error.message);
    let far = desk.spawn(AgentSpawnParams { run_timeout_ms: Some(u64::MAX), ..background() });
    desk.started(far);
    assert_eq!(desk.core.next_deadline(), Some(u64::MAX), "a limit that no clock reaches");
}

/// TS-08, TS-15: one list shows every task, filtered by what is asked; a tree has parents before their children.
#[test]
fn one_list_filters_and_orders() {
    let mut desk = Desk::new();
    desk.ok::<TeamCreate>(&person(), TeamCreateParams { name: Some("red".into()), ..Default::default() });
    let parent = desk.spawn(background());
    let mate = desk.spawn(teammate("red", "ann"));
    let child = desk.ok::<AgentSpawn>(&agent(parent), background()).task_id;
    let done =
        desk.completed(AgentSpawnParams { labels: Some([("k".into(), "v".into())].into()), ..background() });
    let status = |status| TaskListParams { status: Some(status), ..TaskListParams::default() };
    assert_eq!(desk.list(status(TaskStatus::Completed)), [done]);
    assert_eq!(desk.list(status(TaskStatus::Running)), [parent, mate, child]);
    let stopped: TaskListParams = serde_json::from_str(r#"{"status": "stopped"}"#).unwrap();
    assert_eq!(stopped.status, Some(TaskStatus::Killed));
    let by_parent = TaskListParams { parent_id: Some(parent.to_string()), ..TaskListParams::default() };
    assert_eq!(desk.list(by_parent), [child]);
    let team_name = Some("red".to_owned());
    assert_eq!(desk.list(TaskListParams { team_name, ..TaskListParams::default() }), [mate]);
    let labels = Some([("k".to_owned(), "v".to_owned())].into());
    assert_eq!(desk.list(TaskListParams { labels, ..TaskListParams::default() }), [done]);
    let tree = TaskListParams { tree: Some(true), ..TaskListParams::default() };
    assert_eq!(desk.list(tree), [parent, child, mate, done]);
    let kind = Some(TaskKind::Dream);
    assert_eq!(desk.list(TaskListParams { kind, ..TaskListParams::default() }), []);
}

/// PG-07, PG-08: each report of output is an event; a row is stored and logged at most once a second.
#[test]
fn progress_is_stored_at_most_once_a_second() {
    let mut desk = Desk::new();
    let task = desk.spawn(background());
    desk.started(task);
    let (mut rows, mut events) = (0, 0);
    let written = desk.writes.len();
    for n in 1..=10 {
        desk.after(100);
        desk.report(task, Report::Output { bytes: n * 10, truncated: false });
        rows += desk.logs().len();
        events += desk.events().iter().filter(|r#type| **r#type == "task.progress").count();
    }
    assert_eq!((rows, events, desk.writes.len() - written), (1, 10, 1));
    assert_eq!(desk.get(task).progress.line.unwrap(), "100 bytes of output");
}

/// RS-05: the rows of `events.jsonl` have the time and the phase.
#[test]
fn each_phase_is_logged_with_its_time() {
    let mut desk = Desk::new();
    let task = desk.spawn(background());
    desk.started(task);
    assert_eq!(desk.logs(), [serde_json::json!({ "at": BEGIN, "phase": "started", "resumed": false })]);
    desk.after(9);
    desk.exited(task, 2);
    let error = "it exited with code 2";
    assert_eq!(desk.logs(), [serde_json::json!({ "at": BEGIN + 9, "phase": "failed", "error": error })]);
}

/// SP-18, SE-02, SE-03, SE-04: the state, then the notice, then the end event; one start and one end a run.
#[test]
fn the_end_is_told_in_order() {
    let mut desk = Desk::new();
    let task = desk.spawn(background());
    desk.started(task);
    assert_eq!(desk.events(), ["task.started"]);
    desk.report(task, Report::Output { bytes: 1, truncated: false });
    assert!(desk.events().contains(&"task_progress"));
    desk.exited(task, 0);
    assert_eq!(
        desk.events(),
        ["task.ended", "notification.queued", "task_notification", "task_updated", "task_completed"]
    );
    for effect in &desk.effects {
        if let Effect::Event(happened) = effect {
            assert_eq!(happened.data["taskId"], task.to_string());
        }
    }
}

/// K140: a wait is answered with how things stand, all asked tasks in the order asked.
#[test]
fn a_wait_answers_in_the_order_asked() {
    let mut desk = Desk::new();
    let (first, second) = (desk.spawn(background()), desk.spawn(background()));
    desk.exited(second, 0);
    let mut wait = |mode| {
        let task_ids = vec![second.to_string(), first.to_string()];
        let params = TaskWaitParams { task_ids, mode, ..TaskWaitParams::default() };
        let result = desk.ok::<TaskWait>(&person(), params);
        assert_eq!(result.tasks.iter().map(|task| task.id).collect::<Vec<_>>(), [second, first]);
        result.timed_out
    };
    assert_eq!((wait(WaitMode::All), wait(WaitMode::Any)), (true, false));
    desk.refused::<TaskWait>(&person(), TaskWaitParams::default(), Kind::InvalidParams);
}

/// A task that runs can't be removed; one that ended goes with its record, its notice and its files.
#[test]
fn a_removed_task_is_gone_with_all_that_was_its_own() {
    let mut desk = Desk::new();
    let task = desk.spawn(background());
    let remove = || TaskRemoveParams { task_id: task.to_string(), force: None };
    desk.refused::<TaskRemove>(&person(), remove(), Kind::StillRunning);
    desk.exited(task, 0);
    desk.ok::<TaskRemove>(&person(), remove());
    assert!(
        desk.effects
            .iter()
            .any(|effect| matches!(effect, Effect::RemoveFiles { task: id, .. } if *id == task))
    );
    assert!(desk.notices().is_empty());
    desk.refused::<TaskRemove>(&person(), remove(), Kind::TaskNotFound);
}

/// RS-03, K142: what is not there yet is absent, and not empty.
#[test]
fn what_is_not_there_yet_is_absent() {
    let mut desk = Desk::new();
    let task = desk.spawn(background());
    let view = serde_json::to_value(desk.get(task)).unwrap();
    for key in
        ["result", "error", "exit", "worktree", "startedAt", "endedAt", "stoppedBy", "parentId", "name"]
    {
        assert!(view.get(key).is_none(), "{key} in {view}");
    }
    assert!(view["progress"].get("line").is_none() && view["createdAt"] == BEGIN);
    desk.exited(task, 0);
    assert!(desk.get(task).result.is_some());
}

/// I8, C41: when the output of all tasks fills its bound, nothing new runs until room is made.
#[test]
fn no_run_begins_when_there_is_no_room_for_output() {
    let mut desk = Desk::with(Limits { output_total: 10, ..Limits::default() });
    let task = desk.spawn(background());
    desk.report(task, Report::Ended(Ended { output_bytes: 10, ..Ended::default() }));
    desk.refused::<AgentSpawn>(&person(), background(), Kind::OutputCap);
    desk.ok::<TaskRemove>(&person(), TaskRemoveParams { task_id: task.to_string(), force: None });
    desk.spawn(background());
}

/// I8: the archive is bounded by count and by age; what leaves it takes its files along.
#[test]
fn the_archive_is_bounded() {
    let limits = Limits { archive_count: 2, archive_ms: 100_000, ..Limits::default() };
    let mut desk = Desk::with(limits);
    let tasks: Vec<_> = (0..3)
        .map(|_| {
            let task = desk.completed(background());
            desk.ack_all();
            desk.after(30_000);
            task
        })
        .collect();
    let archived =
        |desk: &Desk| desk.core.records().iter().filter(|record| record.kind() == "archived").count();
    assert_eq!(archived(&desk), 2);
    desk.refused::<TaskGet>(&person(), TaskGetParams { task_id: tasks[0].to_string() }, Kind::TaskNotFound);
    let dry = TaskPruneParams { older_ms: Some(40_000), dry_run: Some(true) };
    assert_eq!(desk.ok::<TaskPrune>(&person(), dry).removed, [tasks[1]]);
    let prune = TaskPruneParams { older_ms: Some(40_000), dry_run: None };
    assert_eq!(desk.ok::<TaskPrune>(&person(), prune).removed, [tasks[1]]);
    assert_eq!(archived(&desk), 1);
    desk.after(70_000);
    assert_eq!(archived(&desk), 0);
}

/// FB-01, FB-04, FB-06, SP-20: the foreground has the answer itself; moved to the background it gets a notice.
#[test]
fn foreground_ends_with_an_answer_and_background_with_a_notice() {
    let mut desk = Desk::new();
    let near = desk.spawn(foreground());
    assert!(!desk.get(near).is_backgrounded);
    desk.exited(near, 0);
    desk.heard(near);
    assert!(desk.notices().is_empty());

    let far = desk.spawn(foreground());
    let moved = desk
        .ok::<ccagent_proto::method::TaskBackground>(&person(), TaskGetParams { task_id: far.to_string() });
    assert!(moved.is_backgrounded && moved.id == far);
    desk.exited(far, 0);
    assert_eq!(desk.notices().len(), 1);
}

/// FB-03, I16, K137, SV-04: who waited and went away is told by a notice; the task keeps its id and goes on.
#[test]
fn a_disconnect_moves_the_task_to_the_background() {
    let mut desk = Desk::new();
    let task = desk.spawn(foreground());
    desk.started(task);
    desk.input(Input::Disconnected(crate::desk::PERSON));
    let view = desk.get(task);
    assert_eq!((view.is_backgrounded, view.status, view.attempt), (true, TaskStatus::Running, 1));
    assert!(desk.stops().is_empty());
    desk.exited(task, 0);
    assert_eq!(desk.notices().len(), 1);
}
