//! Random calls: mostly sensible ones, some that have to be refused.

use std::collections::BTreeMap;

use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::ask::{
    AskBehavior, AskGetParams, AskListParams, AskRespondParams, AskScope, Choice, Question,
};
use ccagent_proto::mailbox::{MailboxAckParams, MailboxPollParams, MailboxReadParams};
use ccagent_proto::message::{
    Content, ForeignMessage, MessageDeliverParams, MessageRouteParams, MessageSendParams,
};
use ccagent_proto::method::Request;
use ccagent_proto::notification::{NotificationAckParams, NotificationListParams, NotificationNextParams};
use ccagent_proto::session::{
    PageParams, SessionCloseParams, SessionGetParams, SessionInterruptParams, SessionOpenParams,
    SessionPauseParams, SessionPromptParams, SessionSetParams,
};
use ccagent_proto::task::{
    TaskForegroundParams, TaskGetParams, TaskListParams, TaskPruneParams, TaskRemoveParams, TaskResumeParams,
    TaskRetainParams, TaskStopAllParams, TaskStopParams, TaskWaitParams,
};
use ccagent_proto::tasklist::{
    ItemFilter, ItemPatch, ItemStatus, TasklistClaimParams, TasklistCreateParams, TasklistGetParams,
    TasklistListParams, TasklistNextParams, TasklistUpdateParams,
};
use ccagent_proto::team::{TeamCreateParams, TeamDeleteParams, TeamGetParams, TeamJoinParams};
use ccagent_proto::{AskId, Empty, MessageId, NotificationId, SessionId, TaskId};

use crate::random::Random;

/// Names that agents, members and readers are called by.
const NAMES: &[&str] = &["ann", "bob", "cid", "dee"];
/// Names of teams.
const TEAMS: &[&str] = &["red", "blue"];

/// What callers know: ids that they were given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub(crate) tasks: Vec<TaskId>,
    pub(crate) sessions: Vec<SessionId>,
    pub(crate) messages: Vec<MessageId>,
    pub(crate) notices: Vec<NotificationId>,
    pub(crate) asks: Vec<AskId>,
    pub(crate) tokens: BTreeMap<(String, String), String>,
}

/// A random call of any kind.
pub(crate) fn call(known: &Known, random: &Random) -> Request {
    match random.below(100) {
        0..=21 => Request::AgentSpawn(spawn(known, random)),
        22..=47 => task_call(known, random),
        48..=74 => mail_call(known, random),
        75..=80 => notice_call(known, random),
        81..=84 => ask_call(known, random),
        85..=90 => session_call(known, random),
        91..=95 => item_call(known, random),
        _ => team_call(known, random),
    }
}

fn spawn(known: &Known, random: &Random) -> AgentSpawnParams {
    if let Some(id) = random.pick(&known.tasks).copied().filter(|_| random.percent(5)) {
        return AgentSpawnParams {
            resume_agent_id: Some(id),
            env: env(random),
            run_in_background: random.sometimes(70, true),
            idempotency_key: key(random),
            ..AgentSpawnParams::default()
        };
    }
    AgentSpawnParams {
        command: random.sometimes(80, vec!["true".to_owned()]),
        prompt: random.sometimes(60, "do it".to_owned()),
        session_id: random.sometimes(40, session(known, random)),
        name: random.sometimes(30, name(random)),
        team_name: random.sometimes(20, team(random)),
        run_in_background: random.sometimes(70, true),
        persist: random.sometimes(10, false),
        env: env(random),
        run_timeout_ms: random.sometimes(30, limit(random)),
        after: random.sometimes(25, (0..random.below(3)).map(|_| task(known, random)).collect()),
        idempotency_key: key(random),
        ..AgentSpawnParams::default()
    }
}

fn task_call(known: &Known, random: &Random) -> Request {
    let task_id = task(known, random);
    match random.below(26) {
        0..=5 => Request::TaskStop(TaskStopParams {
            task_id,
            force: random.sometimes(20, true),
            grace_ms: random.sometimes(20, limit(random)),
            reason: None,
        }),
        6 => Request::TaskStopAll(TaskStopAllParams {
            session_id: random.sometimes(80, session(known, random)),
            timeout_ms: None,
        }),
        7..=11 => Request::TaskResume(TaskResumeParams {
            task_id,
            run_in_background: random.sometimes(70, true),
            env: random.sometimes(50, BTreeMap::from([("A".to_owned(), "1".to_owned())])),
            prompt: random.sometimes(40, "and this".to_owned()),
            idempotency_key: key(random),
            ..TaskResumeParams::default()
        }),
        12 => Request::TaskBackground(TaskGetParams { task_id }),
        13 => Request::TaskForeground(TaskForegroundParams { task_id, timeout_ms: None }),
        14..=15 => Request::TaskRetain(TaskRetainParams {
            task_id,
            retain: random.percent(50),
            evict_after_ms: random.sometimes(40, limit(random)),
        }),
        16..=17 => Request::TaskRemove(TaskRemoveParams { task_id, force: None }),
        18 => Request::TaskPrune(TaskPruneParams {
            older_ms: random.sometimes(90, limit(random)),
            dry_run: random.sometimes(50, true),
        }),
        19..=20 => Request::TaskGet(TaskGetParams { task_id }),
        21 => Request::TaskWait(TaskWaitParams { task_ids: vec![task_id], ..TaskWaitParams::default() }),
        22 => Request::AgentExplain(spawn(known, random)),
        _ => Request::TaskList(TaskListParams {
            all: random.sometimes(30, true),
            tree: random.sometimes(30, true),
            panel: random.sometimes(30, true),
            limit: random.sometimes(30, 2),
            ..TaskListParams::default()
        }),
    }
}

fn mail_call(known: &Known, random: &Random) -> Request {
    let agent = random.sometimes(60, receiver(known, random));
    let team_name = random.sometimes(30, team(random));
    match random.below(20) {
        0..=9 => Request::MessageSend(MessageSendParams {
            to: receiver(known, random),
            message: text(random),
            team_name,
            idempotency_key: key(random),
            ..MessageSendParams::default()
        }),
        10 => Request::MessageDeliver(MessageDeliverParams {
            message: ForeignMessage {
                from: "far".to_owned(),
                to: random.sometimes(50, receiver(known, random)),
                text: "hello".to_owned(),
                ..ForeignMessage::default()
            },
        }),
        11 => Request::MessageRoute(MessageRouteParams { to: receiver(known, random), team_name }),
        12 => Request::MailboxRead(MailboxReadParams { agent, team_name, ..MailboxReadParams::default() }),
        13..=16 => Request::MailboxPoll(MailboxPollParams {
            agent,
            team_name,
            max: random.sometimes(50, 2),
            wait_ms: None,
        }),
        _ => Request::MailboxAck(MailboxAckParams {
            ids: (0..random.below(4)).map(|_| message(known, random)).collect(),
            agent,
            team_name,
        }),
    }
}

fn notice_call(known: &Known, random: &Random) -> Request {
    match random.below(10) {
        0..=1 => Request::NotificationList(NotificationListParams::default()),
        2..=4 => Request::NotificationNext(NotificationNextParams {
            session_id: random.sometimes(50, session(known, random)),
            max: random.sometimes(50, 3),
            wait_ms: None,
        }),
        _ => Request::NotificationAck(NotificationAckParams {
            ids: (0..random.below(12)).map(|_| notice(known, random)).collect(),
        }),
    }
}

fn ask_call(known: &Known, random: &Random) -> Request {
    let ask_id = random.pick(&known.asks).copied().unwrap_or(AskId(random.next() % 50));
    match random.below(10) {
        0 => Request::AskList(AskListParams { limit: random.sometimes(50, 2), ..AskListParams::default() }),
        1 => Request::AskGet(AskGetParams { ask_id }),
        _ => Request::AskRespond(AskRespondParams {
            ask_id,
            behavior: random.one(&[AskBehavior::Allow, AskBehavior::Allow, AskBehavior::Deny]),
            scope: random.sometimes(50, random.one(&[AskScope::Once, AskScope::Session, AskScope::Always])),
            answers: random.sometimes(35, answers(random)),
            message: random.sometimes(30, "for a reason".to_owned()),
            updated_input: random.sometimes(10, serde_json::json!({ "command": "make" })),
            mode: random.sometimes(10, random.one(&["acceptEdits", "plan"]).to_owned()),
        }),
    }
}

/// The questions that runs ask.
pub(crate) fn questions() -> Vec<Question> {
    let choice = |label: &str| Choice { label: label.to_owned(), description: String::new() };
    let question = |text: &str, multi_select| Question {
        question: text.to_owned(),
        header: "Which".to_owned(),
        options: vec![choice("A"), choice("B")],
        multi_select,
    };
    vec![question("Which one?", false), question("Which of them?", true)]
}

/// Answers of which some fit no question.
fn answers(random: &Random) -> BTreeMap<String, String> {
    let question = random.one(&["Which one?", "Which of them?", "Which of them?", "Why?"]);
    let answer = random.one(&["A", "B", "A, B", "neither", " "]);
    random.sometimes(95, (question.to_owned(), answer.to_owned())).into_iter().collect()
}

fn session_call(known: &Known, random: &Random) -> Request {
    let session_id = session(known, random);
    let maybe = random.sometimes(70, session_id.clone());
    match random.below(20) {
        12..=16 => Request::SessionPrompt(SessionPromptParams {
            session_id: maybe,
            text: "some words".to_owned(),
            env: env(random),
            idempotency_key: key(random),
        }),
        17..=18 => Request::SessionInterrupt(SessionInterruptParams { session_id: maybe }),
        19 => Request::SessionSetMode(SessionSetParams {
            session_id: maybe,
            value: random.one(&["plan", "default"]).to_owned(),
        }),
        0..=2 => Request::SessionOpen(SessionOpenParams {
            name: random.sometimes(50, name(random)),
            cwd: random.sometimes(50, "/w".to_owned()),
            env: env(random),
            idempotency_key: key(random),
            ..SessionOpenParams::default()
        }),
        3..=4 => {
            Request::SessionClose(SessionCloseParams { session_id, keep_teams: random.sometimes(50, true) })
        }
        5..=6 => Request::SessionPause(SessionPauseParams { session_id: maybe }),
        7..=9 => Request::SessionUnpause(SessionPauseParams { session_id: maybe }),
        10 => Request::SessionGet(SessionGetParams { session_id }),
        _ => Request::SessionList(PageParams { limit: random.sometimes(50, 1), cursor: None }),
    }
}

/// A random call about teams.
pub(crate) fn team_call(known: &Known, random: &Random) -> Request {
    let name_of = team(random);
    match random.below(14) {
        0..=3 => Request::TeamCreate(TeamCreateParams {
            name: Some(name_of),
            lead_name: random.sometimes(50, name(random)),
            idempotency_key: key(random),
            ..TeamCreateParams::default()
        }),
        4..=8 => {
            let name = name(random);
            let token = known.tokens.get(&(name_of.clone(), name.clone())).cloned();
            Request::TeamJoin(TeamJoinParams {
                team_name: name_of,
                name,
                token: token.filter(|_| random.percent(50)),
                ..TeamJoinParams::default()
            })
        }
        9 => Request::TeamLeave(Empty {}),
        10 => Request::TeamHeartbeat(Empty {}),
        11 => Request::TeamGet(TeamGetParams { name: name_of }),
        12 => Request::TeamList(PageParams::default()),
        _ => Request::TeamDelete(TeamDeleteParams { name: name_of, force: random.sometimes(50, true) }),
    }
}

fn item_call(known: &Known, random: &Random) -> Request {
    let list = match random.below(10) {
        0..=4 => None,
        5..=7 => Some(team(random)),
        _ => Some(session(known, random).to_string()),
    };
    let item_id = item(random);
    let owner = random.sometimes(30, name(random));
    match random.below(20) {
        0..=6 => Request::TasklistCreate(TasklistCreateParams {
            list,
            subject: "a part".to_owned(),
            description: random.sometimes(30, "all of it".to_owned()),
            blocked_by: random.sometimes(40, (0..random.below(3)).map(|_| item(random)).collect()),
            idempotency_key: key(random),
            ..TasklistCreateParams::default()
        }),
        7..=9 => Request::TasklistClaim(TasklistClaimParams { list, item_id, owner }),
        10..=11 => Request::TasklistNext(TasklistNextParams { list, owner }),
        12 => Request::TasklistGet(TasklistGetParams { list, item_id }),
        13 => Request::TasklistDelete(TasklistGetParams { list, item_id }),
        14 => Request::TasklistList(TasklistListParams {
            list,
            filter: random.sometimes(50, ItemFilter { claimable: Some(true), ..ItemFilter::default() }),
            limit: random.sometimes(50, 2),
            cursor: None,
        }),
        _ => Request::TasklistUpdate(TasklistUpdateParams {
            list,
            item_id,
            patch: patch(random, owner),
            if_revision: random.sometimes(20, random.next() % 4),
        }),
    }
}

fn patch(random: &Random, owner: Option<String>) -> ItemPatch {
    let ids = |random: &Random| (0..=random.below(2)).map(|_| item(random)).collect();
    let status = random.one(&[
        ItemStatus::Pending,
        ItemStatus::InProgress,
        ItemStatus::Completed,
        ItemStatus::Completed,
        ItemStatus::Deleted,
    ]);
    ItemPatch {
        status: random.sometimes(50, status),
        subject: random.sometimes(20, "another part".to_owned()),
        owner: if random.percent(5) { Some(String::new()) } else { owner },
        add_blocks: random.sometimes(25, ids(random)),
        add_blocked_by: random.sometimes(25, ids(random)),
        ..ItemPatch::default()
    }
}

fn item(random: &Random) -> String {
    (1 + random.below(8)).to_string()
}

fn key(random: &Random) -> Option<String> {
    let key = format!("key{}", random.below(12));
    random.sometimes(10, key)
}

fn env(random: &Random) -> Option<BTreeMap<String, String>> {
    random.sometimes(15, BTreeMap::from([("A".to_owned(), "1".to_owned())]))
}

fn limit(random: &Random) -> u64 {
    random.one(&[0, 1, 500, 2_000, 40_000, u64::MAX])
}

fn name(random: &Random) -> String {
    random.one(NAMES).to_owned()
}

fn team(random: &Random) -> String {
    random.one(TEAMS).to_owned()
}

fn task(known: &Known, random: &Random) -> String {
    match random.below(10) {
        0 => name(random),
        1 => format!("{}@{}", name(random), team(random)),
        _ => random.pick(&known.tasks).map_or_else(|| "nobody".to_owned(), ToString::to_string),
    }
}

fn receiver(known: &Known, random: &Random) -> String {
    match random.below(10) {
        0..=2 => name(random),
        3..=5 => format!("{}@{}", name(random), team(random)),
        6 => "main".to_owned(),
        7 => "*".to_owned(),
        8 => session(known, random).to_string(),
        _ => task(known, random),
    }
}

fn text(random: &Random) -> Content {
    Content::Text(match random.below(10) {
        0 => "x".repeat(5_000),
        1 => String::new(),
        2 => "x".repeat(9_000),
        _ => "some words of a message".to_owned(),
    })
}

fn session(known: &Known, random: &Random) -> SessionId {
    random.pick(&known.sessions).cloned().unwrap_or_default()
}

fn message(known: &Known, random: &Random) -> MessageId {
    random.pick(&known.messages).copied().unwrap_or(MessageId(random.next() % 50))
}

fn notice(known: &Known, random: &Random) -> NotificationId {
    random.pick(&known.notices).copied().unwrap_or(NotificationId(random.next() % 50))
}
