//! What a call brings is bounded, whichever call it is; so is every row that is made of it, and what is kept of values.

use std::collections::{BTreeMap, BTreeSet};

use ccagent_core::ask::{Asked, What};
use ccagent_core::bounds::{PATH_MOST, PROMPT_MOST, ROW_MOST, SHOWN_MOST, TEXT_MOST};
use ccagent_core::input::Report;
use ccagent_core::record::Write;
use ccagent_core::tasklist::{DEPENDENCIES_MOST, DESCRIPTION_MOST, METADATA_MOST};
use ccagent_core::{Caller, Effect, Input, Limits, Record};
use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::ask::{AskBehavior, AskRespondParams, AskScope};
use ccagent_proto::mailbox::MailboxAckParams;
use ccagent_proto::message::{Content, MessageSendParams};
use ccagent_proto::method::{
    AgentSpawn, AskRespond, MailboxAck, MessageSend, SessionOpen, TaskResume, TaskStop, TasklistCreate,
    TeamCreate, TeamGet, TeamJoin,
};
use ccagent_proto::session::SessionOpenParams;
use ccagent_proto::task::{TaskResumeParams, TaskStopParams};
use ccagent_proto::tasklist::TasklistCreateParams;
use ccagent_proto::team::{TeamCreateParams, TeamGetParams, TeamJoinParams};
use ccagent_proto::{AskId, Kind, TaskId};

use crate::desk::{Desk, background, person, teammate};

/// A text whose every byte takes six in a row.
fn wide(bytes: usize) -> String {
    "\u{1}".repeat(bytes)
}

fn variables(count: usize, name: usize, value: usize) -> BTreeMap<String, String> {
    (0..count).map(|n| (format!("{n:04}{}", wide(name - 4)), wide(value))).collect()
}

fn team(desk: &mut Desk) {
    let params = TeamCreateParams { name: Some("t".into()), ..TeamCreateParams::default() };
    desk.ok::<TeamCreate>(&person(), params);
}

fn join(name: String) -> TeamJoinParams {
    TeamJoinParams { team_name: "t".into(), name, ..TeamJoinParams::default() }
}

fn wide_join(n: u64) -> TeamJoinParams {
    let (cwd, agent_type) = (Some(wide(PATH_MOST)), Some(wide(TEXT_MOST)));
    TeamJoinParams { cwd, agent_type, ..join(format!("m{n}")) }
}

/// Joins members that say as much of themselves as they may, until there is no place for one more.
fn fill(desk: &mut Desk) -> u64 {
    let full = (0..1000).find(|n| desk.call::<TeamJoin>(&Caller::operator(100 + n), wide_join(*n)).is_err());
    full.unwrap()
}

/// The largest task that there can be.
fn large_task(desk: &mut Desk) -> TaskId {
    let env = Some(variables(32, TEXT_MOST, 0));
    let labels = (0..16).map(|n| (format!("{n:02}{}", wide(TEXT_MOST - 2)), wide(TEXT_MOST))).collect();
    let after = (0..1024).map(|_| desk.spawn_unchecked(background()).to_string()).collect();
    let params = AgentSpawnParams {
        command: Some(vec![wide(PATH_MOST), wide((1 << 20) - PATH_MOST - 2)]),
        prompt: Some(wide(PROMPT_MOST)),
        description: Some(wide(PROMPT_MOST)),
        subagent_type: Some(wide(TEXT_MOST)),
        model: Some(wide(TEXT_MOST)),
        cwd: Some(wide(PATH_MOST)),
        labels: Some(labels),
        after: Some(after),
        idempotency_key: Some("of the spawn".into()),
        env,
        ..background()
    };
    let base = BTreeMap::from([("PATH".to_owned(), wide(32 << 10))]).into();
    let caller = Caller { cwd: Some(format!("/{}", wide(PATH_MOST - 1))), base, ..person() };
    desk.ok::<AgentSpawn>(&caller, params).task_id
}

/// The largest ask that there can be, with the largest answer.
fn large_ask(desk: &mut Desk) {
    let task = desk.spawn(background());
    desk.started(task);
    let what = What::Permission {
        tool: wide(TEXT_MOST).into(),
        input: serde_json::json!(wide(SHOWN_MOST / 6 - 1)),
        cut: false,
        reason: wide(PROMPT_MOST).into(),
        risk: wide(TEXT_MOST).into(),
        root: wide(PATH_MOST).into(),
        rules: vec![wide(32 << 10).into()],
    };
    let asked = Asked { what, call: None, summary: wide(PROMPT_MOST), cwd: wide(PATH_MOST) };
    let params = AskRespondParams {
        ask_id: AskId(1),
        behavior: AskBehavior::Allow,
        scope: Some(AskScope::Always),
        answers: None,
        message: Some(wide(32 << 10)),
        updated_input: None,
        mode: None,
    };
    let input = serde_json::json!({ "i": wide(SHOWN_MOST / 6 - 2) });
    let other =
        AskRespondParams { ask_id: AskId(2), scope: None, updated_input: Some(input), ..params.clone() };
    for params in [params, other] {
        desk.input(Input::Ask((task, 1), Box::new(asked.clone())));
        desk.ok::<AskRespond>(&person(), params);
    }
}

/// The largest item that there can be: it waits for as many others as it may.
fn large_item(desk: &mut Desk) {
    let list = Some("t".to_owned());
    let small = |_| {
        let params = TasklistCreateParams { list: list.clone(), subject: "a".into(), ..Default::default() };
        desk.ok::<TasklistCreate>(&person(), params).id
    };
    let blocked_by = (0..DEPENDENCIES_MOST).map(small).collect();
    let metadata = [("k".to_owned(), wide(METADATA_MOST / 6 - 10).into())].into_iter().collect();
    let params = TasklistCreateParams {
        list: list.clone(),
        subject: "s".repeat(TEXT_MOST),
        description: Some(wide(DESCRIPTION_MOST)),
        active_form: Some("s".repeat(TEXT_MOST)),
        blocked_by: Some(blocked_by),
        metadata: Some(metadata),
        ..Default::default()
    };
    desk.ok::<TasklistCreate>(&person(), params);
}

/// I8, I1: whatever calls bring, no row is larger than the store takes it: that would end the daemon.
#[test]
fn the_largest_rows_fit_in_the_store() {
    let mut desk = Desk::with(Limits { message: u64::MAX, agents: 2000, ..Limits::default() });
    large_ask(&mut desk);
    let env = Some(variables(32, TEXT_MOST, 0));
    let (cwd, model) = (Some(wide(PATH_MOST)), Some(wide(TEXT_MOST)));
    let text = Some(wide(PROMPT_MOST));
    let texts = SessionOpenParams {
        system_prompt: text.clone(),
        override_prompt: text.clone(),
        append_prompt: text,
        profile: Some(wide(TEXT_MOST)),
        agent: Some(wide(TEXT_MOST)),
        ..Default::default()
    };
    desk.ok::<SessionOpen>(&person(), SessionOpenParams { cwd, model, env, ..texts });
    team(&mut desk);
    fill(&mut desk);
    large_item(&mut desk);
    let send = |to: &str, bytes, key: Option<&str>| MessageSendParams {
        to: to.into(),
        team_name: Some("t".into()),
        message: Content::Text(wide(bytes)),
        idempotency_key: key.map(Into::into),
        ..MessageSendParams::default()
    };
    desk.ok::<MessageSend>(&person(), send("*", 1, Some("k")));
    let sent = desk.ok::<MessageSend>(&person(), send("m0", 8 << 20, None)).delivered[0].message_id;
    let ids = vec![sent];
    let (team_name, agent) = (Some("t".into()), Some("m0".into()));
    desk.ok::<MailboxAck>(&person(), MailboxAckParams { ids, team_name, agent });

    let task = large_task(&mut desk);
    let stop =
        TaskStopParams { task_id: task.to_string(), reason: Some(wide(TEXT_MOST)), ..Default::default() };
    desk.ok::<TaskStop>(&person(), stop);
    let prompt = Some(wide(PROMPT_MOST));
    let resume = TaskResumeParams {
        task_id: task.to_string(),
        prompt,
        env: Some(variables(32, TEXT_MOST, 0)),
        ..Default::default()
    };
    desk.ok::<TaskResume>(&person(), resume);
    desk.ok::<TaskStop>(&person(), TaskStopParams { task_id: task.to_string(), ..Default::default() });
    desk.ack_all();
    desk.after(60_000);

    let mut kinds = BTreeSet::new();
    for write in &desk.writes {
        let Write::Put(record) = write else { continue };
        // A large text stands alone, and so do a session's; rows that change with every step are far below.
        let most = if matches!(record.kind(), "body" | "texts") { ROW_MOST } else { ROW_MOST / 4 };
        let bytes = record.encode().unwrap().len();
        assert!(bytes <= most, "{} {} has {bytes} bytes", record.kind(), record.id());
        kinds.insert(record.kind());
    }
    assert_eq!(kinds, Record::KINDS.iter().copied().collect(), "each kind has been there");
}

/// I8: what the members of a team say of themselves is bounded in all, and so is the row that holds it: no agent can
/// make it larger, and one that is a member already can say less.
#[test]
fn a_team_has_a_bounded_row() {
    let mut desk = Desk::new();
    team(&mut desk);
    let full = fill(&mut desk);
    assert!(full < 1000, "{full} members");
    let error = desk.refused::<TeamJoin>(&Caller::operator(1000), wide_join(full), Kind::Overloaded);
    assert_eq!(error.data["limit"], 1 << 20);
    desk.refused::<AgentSpawn>(&person(), teammate("t", "spawned"), Kind::Overloaded);
    let less = TeamJoinParams { cwd: Some("/".into()), ..join("m0".into()) };
    desk.ok::<TeamJoin>(&Caller::operator(100), less);
    desk.ok::<TeamJoin>(&Caller::operator(1000), join("small".into()));
    let view = desk.ok::<TeamGet>(&person(), TeamGetParams { name: "t".into() });
    assert_eq!(view.members.len() as u64, full + 2, "with the lead");
}

/// SP-23, I8: an environment that no program can be given, or that is too much to keep, is refused before anything is
/// made of it, by all calls that take one.
#[test]
fn an_environment_that_cannot_be_given_is_refused() {
    let one = |name: &str, value: &str| Some(BTreeMap::from([(name.to_owned(), value.to_owned())]));
    let bad = [
        one("A", "x\0y"),
        one("A\0", "x"),
        one("A=B", "x"),
        one("", "x"),
        one("CCAGENT_TOKEN", "x"),
        one(&"n".repeat(TEXT_MOST + 1), "x"),
        one("A", &"x".repeat(128 << 10)),
        Some(variables(1025, 4, 0)),
        Some(variables(33, TEXT_MOST, 0)),
        Some(variables(9, 4, 127 << 10)),
    ];
    let mut desk = Desk::new();
    let task = desk.completed(background());
    for env in bad {
        let errors = [
            desk.refused::<AgentSpawn>(
                &person(),
                AgentSpawnParams { env: env.clone(), ..background() },
                Kind::InvalidParams,
            ),
            desk.refused::<AgentSpawn>(
                &person(),
                AgentSpawnParams {
                    env: env.clone(),
                    command: None,
                    resume_agent_id: Some(task),
                    ..background()
                },
                Kind::InvalidParams,
            ),
            desk.refused::<SessionOpen>(
                &person(),
                SessionOpenParams { env: env.clone(), ..Default::default() },
                Kind::InvalidParams,
            ),
            desk.refused::<TaskResume>(
                &person(),
                TaskResumeParams { task_id: task.to_string(), env, ..Default::default() },
                Kind::InvalidParams,
            ),
        ];
        assert!(errors.iter().all(|error| error.data["path"] == "env"), "{errors:?}");
    }
    desk.ok::<AgentSpawn>(
        &person(),
        AgentSpawnParams { env: Some(variables(8, 4, 127 << 10)), ..background() },
    );
}

/// I8, I14: values that no run will use as they are are forgotten with the run's end: of a start that failed, and of a
/// task that can't be resumed. Those of another end serve its resume.
#[test]
fn values_that_nobody_uses_again_are_forgotten() {
    let failed = Report::StartFailed { cause: "notFound".into(), message: "no such file".into() };
    let ended = || crate::desk::ended(ccagent_proto::task::Exit { code: Some(1), signal: None });
    let rows = [(None, failed, true), (Some(false), ended(), true), (None, ended(), false)];
    for (persist, end, forgets) in rows {
        let mut desk = Desk::new();
        let params = AgentSpawnParams { persist, env: Some(variables(1, 4, 1)), ..background() };
        let task = desk.ok::<AgentSpawn>(&Caller { vault: Some(7), ..person() }, params).task_id;
        desk.report(task, end);
        assert_eq!(desk.effects.contains(&Effect::Forget { vault: 7 }), forgets);
        let resume = TaskResumeParams { task_id: task.to_string(), ..TaskResumeParams::default() };
        match (forgets, persist) {
            (false, _) => assert_eq!(desk.ok::<TaskResume>(&person(), resume).task.attempt, 2),
            (true, None) => {
                let error = desk.refused::<TaskResume>(&person(), resume, Kind::InvalidParams);
                assert_eq!(error.data["path"], "env");
            }
            (true, Some(_)) => {
                desk.refused::<TaskResume>(&person(), resume, Kind::NoResumableRecord);
            }
        }
    }
}

/// SP-23, SP-28: of a NUL byte it is said where it is, and nothing of lengths; of a text that is too long, how long it
/// may be. No value is repeated.
#[test]
fn what_is_wrong_with_a_text_is_said() {
    let mut desk = Desk::new();
    let mut said = |change: fn(&mut AgentSpawnParams)| {
        let mut params = background();
        change(&mut params);
        desk.refused::<AgentSpawn>(&person(), params, Kind::InvalidParams).message
    };
    let nul = "has a NUL byte";
    let word = said(|p| p.command = Some(vec!["sh".into(), "-c".into(), "a\0b".into()]));
    assert_eq!(word, format!("command[2] {nul}, which no program can be given"));
    assert!(said(|p| p.command = Some(vec!["a\0".into()])).starts_with(&format!("command[0] {nul}")));
    assert_eq!(said(|p| p.cwd = Some("/a\0".into())), format!("a text of cwd {nul}"));
    assert_eq!(said(|p| p.cwd = Some("/".repeat(5000))), "more than 4095 bytes in a text of cwd");
    assert_eq!(
        said(|p| p.env = Some([("A".to_owned(), "x\0".to_owned())].into())),
        format!("the value of A {nul}")
    );
}
