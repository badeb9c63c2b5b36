//! How much text a call may bring: what is kept of it stays in memory, and stands in one row.
//!
//! The texts of every call are named here, and nowhere else: a new method does not compile before it says its own.
//! What messages say is bounded by the config.

mod tasklist;

use std::collections::BTreeMap;

use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::ask::AskRespondParams;
use ccagent_proto::daemon::DaemonHelloParams;
use ccagent_proto::definition::{DefinitionGetParams, DefinitionListParams, DefinitionValidateParams};
use ccagent_proto::event::EventSubscribeParams;
use ccagent_proto::message::{MessageDeliverParams, MessageSendParams};
use ccagent_proto::method::Request;
use ccagent_proto::permission::{PermissionCheckParams, PermissionRulesParams};
use ccagent_proto::provider::ProviderTestParams;
use ccagent_proto::session::{
    SessionMessagesParams, SessionOpenParams, SessionPromptParams, SessionSetParams,
};
use ccagent_proto::task::{TaskListParams, TaskResumeParams};
use ccagent_proto::team::{TeamCreateParams, TeamJoinParams};
use ccagent_proto::trust::TrustAddParams;
use ccagent_proto::{Empty, Error, Kind, SessionId};

use crate::ask::{Asked, What};

/// Bytes of a name, an id, a cursor, a reason or another short text at most.
pub const TEXT_MOST: usize = 1 << 10;
/// Bytes of a permission rule at most.
pub const RULE_MOST: usize = 16 << 10;
/// Bytes of a path at most, as the kernel has it.
pub const PATH_MOST: usize = 4095;
/// Bytes at most of a prompt, and of what only a line is kept of.
pub const PROMPT_MOST: usize = 1 << 20;
/// Bytes of a definition's file at most.
pub const DEFINITION_MOST: usize = 256 << 10;
/// Bytes of a command line at most; with the environment it is what the kernel takes.
pub const COMMAND_MOST: usize = 1 << 20;
/// Bytes of an environment at most.
pub const ENV_MOST: usize = 1 << 20;
/// Bytes of one variable with its name at most, as the kernel has it.
const VARIABLE_MOST: usize = (128 << 10) - 2;
/// Variables of an environment at most.
const VARIABLES_MOST: usize = 1024;
/// Bytes at most of what of a task stays in memory of one kind: the names of its variables, its labels.
const KEPT_MOST: usize = 32 << 10;
/// Bytes at most of what an ask shows, and of the input that an answer gives a call instead.
pub const SHOWN_MOST: usize = 64 << 10;
/// Labels of a task at most.
const LABELS_MOST: usize = 64;
/// Tasks at most that one waits for.
const AFTER_MOST: usize = 1024;
/// Hashes that one call trusts at most.
const HASHES_MOST: usize = 1000;
/// Bytes that a message may have at most, whatever the config says: its text stands in one row.
pub const MESSAGE_MOST: u64 = 8 << 20;
/// Bytes of a stored row at most; a test makes the largest of every kind.
pub const ROW_MOST: usize = 60 << 20;

/// Bytes of an idempotency key at most.
const KEY_MOST: usize = 256;

/// A text of a call: its place, what was given, and its bound.
type Text<'a> = (&'static str, Option<&'a str>, usize);

/// Refuses a call that brings more than can be kept.
pub(crate) fn check(request: &Request) -> Result<(), Error> {
    match request {
        Request::SessionOpen(p) => session(p),
        Request::AgentSpawn(p) | Request::AgentExplain(p) => spawn(p),
        Request::TaskResume(p) => resume(p),
        Request::TaskList(p) => list(p),
        Request::TeamCreate(p) => team(p),
        Request::TeamJoin(p) => join(p),
        Request::MessageSend(p) => send(p),
        Request::MessageDeliver(p) => deliver(p),
        Request::SessionList(p) | Request::TeamList(p) => short("cursor", p.cursor.as_ref()),
        Request::SessionGet(p) => short("sessionId", Some(&p.session_id.0)),
        Request::SessionClose(p) => short("sessionId", Some(&p.session_id.0)),
        Request::SessionPrompt(p) => prompt(p),
        Request::SessionInterrupt(p) => in_session(p.session_id.as_ref()),
        Request::SessionSetMode(p) | Request::SessionSetModel(p) => setting(p),
        Request::SessionPause(p) | Request::SessionUnpause(p) => in_session(p.session_id.as_ref()),
        Request::TaskGet(p) | Request::TaskBackground(p) => short("taskId", Some(&p.task_id)),
        Request::TaskWait(p) => p.task_ids.iter().try_for_each(|id| short("taskIds", Some(id))),
        Request::TaskStop(p) => {
            texts(&[("taskId", Some(&p.task_id), TEXT_MOST), ("reason", p.reason.as_deref(), TEXT_MOST)])
        }
        Request::TaskStopAll(p) => in_session(p.session_id.as_ref()),
        Request::TaskForeground(p) => short("taskId", Some(&p.task_id)),
        Request::TaskRetain(p) => short("taskId", Some(&p.task_id)),
        Request::TaskRemove(p) => short("taskId", Some(&p.task_id)),
        Request::NotificationList(p) => texts(&[
            ("sessionId", id_of(p.session_id.as_ref()), TEXT_MOST),
            ("cursor", p.cursor.as_deref(), TEXT_MOST),
        ]),
        Request::NotificationNext(p) => in_session(p.session_id.as_ref()),
        Request::MessageRoute(p) => {
            texts(&[("to", Some(&p.to), TEXT_MOST), ("teamName", p.team_name.as_deref(), TEXT_MOST)])
        }
        Request::MailboxRead(p) => {
            mailbox(p.team_name.as_ref(), p.agent.as_ref())?;
            short("cursor", p.cursor.as_ref())
        }
        Request::MailboxPoll(p) => mailbox(p.team_name.as_ref(), p.agent.as_ref()),
        Request::MailboxAck(p) => mailbox(p.team_name.as_ref(), p.agent.as_ref()),
        Request::AskList(p) => {
            in_session(p.session_id.as_ref())?;
            short("cursor", p.cursor.as_ref())
        }
        Request::AskRespond(p) => answer(p),
        Request::PermissionAddRule(p) => permission_rule(&p.rule, p.session_id.as_ref(), p.cwd.as_deref()),
        Request::PermissionRemoveRule(p) => permission_rule(&p.rule, p.session_id.as_ref(), p.cwd.as_deref()),
        Request::TeamGet(p) => short("name", Some(&p.name)),
        Request::TeamDelete(p) => short("name", Some(&p.name)),
        Request::TasklistCreate(p) => tasklist::item(p),
        Request::TasklistGet(p) | Request::TasklistDelete(p) => tasklist::named(p),
        Request::TasklistList(p) => tasklist::items(p),
        Request::TasklistUpdate(p) => tasklist::patch(p),
        Request::TasklistClaim(p) => tasklist::claim(p),
        Request::TasklistNext(p) => tasklist::next(p),
        Request::NotificationAck(_)
        | Request::AskGet(_)
        | Request::TaskPrune(_)
        | Request::TeamLeave(Empty {})
        | Request::TeamHeartbeat(Empty {}) => Ok(()),
    }
}

/// Refuses a greeting that says too much.
///
/// # Errors
/// `invalidParams` with the place.
pub fn hello(params: &DaemonHelloParams) -> Result<(), Error> {
    texts(&[
        ("client.name", Some(&params.client.name), TEXT_MOST),
        ("client.version", Some(&params.client.version), TEXT_MOST),
        ("client.kind", params.client.kind.as_deref(), TEXT_MOST),
        ("token", params.token.as_deref(), TEXT_MOST),
        ("sessionId", id_of(params.session_id.as_ref()), TEXT_MOST),
    ])
}

/// Refuses a subscription whose filter is more than can be kept.
///
/// # Errors
/// `invalidParams` with the place.
pub fn subscription(params: &EventSubscribeParams) -> Result<(), Error> {
    if params.topics.as_ref().is_some_and(|topics| topics.len() > TEXT_MOST) {
        return Err(too_much("topics", TEXT_MOST, "topics"));
    }
    let Some(filter) = &params.filter else { return Ok(()) };
    texts(&[
        ("filter.sessionId", id_of(filter.session_id.as_ref()), TEXT_MOST),
        ("filter.teamName", filter.team_name.as_deref(), TEXT_MOST),
    ])
}

/// Refuses variables that no program can be given, or that are more than can be kept.
///
/// # Errors
/// `invalidParams`. No value stands in it.
pub fn env(env: &BTreeMap<String, String>) -> Result<(), Error> {
    let bad = |why| Err(Error::new(Kind::InvalidParams, why).with("path", "env"));
    if env.len() > VARIABLES_MOST {
        return Err(too_much("env", VARIABLES_MOST, "variables"));
    }
    let (mut names, mut bytes) = (0, 0);
    for (name, value) in env {
        if name.len() > TEXT_MOST {
            return Err(too_much("env", TEXT_MOST, "bytes in a name of env"));
        }
        if name.is_empty() || name.contains(['=', '\0']) {
            return bad(format!("{name:?} is no variable name"));
        }
        if value.contains('\0') {
            return bad(format!("the value of {name} has a NUL byte"));
        }
        if name.starts_with("CCAGENT_") {
            return bad(format!("{name} is set by the daemon"));
        }
        if name.len() + value.len() > VARIABLE_MOST {
            return Err(too_much("env", VARIABLE_MOST, &format!("bytes in {name} and its value")));
        }
        (names, bytes) = (names + name.len(), bytes + name.len() + value.len());
    }
    if names > KEPT_MOST {
        return Err(too_much("env", KEPT_MOST, "bytes in the names of env together"));
    }
    if bytes > ENV_MOST {
        return Err(too_much("env", ENV_MOST, "bytes in env together: write large values to a file"));
    }
    Ok(())
}

/// Refuses a look at definitions that says too much.
///
/// # Errors
/// `invalidParams` with the place.
pub fn definitions(params: &DefinitionListParams) -> Result<(), Error> {
    texts(&[
        ("profile", params.profile.as_deref(), TEXT_MOST),
        ("cwd", params.cwd.as_deref(), PATH_MOST),
        ("sessionId", id_of(params.session_id.as_ref()), TEXT_MOST),
        ("cursor", params.cursor.as_deref(), TEXT_MOST),
    ])
}

/// Refuses a look at a definition that says too much.
///
/// # Errors
/// `invalidParams` with the place.
pub fn definition(params: &DefinitionGetParams) -> Result<(), Error> {
    texts(&[
        ("name", Some(&params.name), TEXT_MOST),
        ("profile", params.profile.as_deref(), TEXT_MOST),
        ("cwd", params.cwd.as_deref(), PATH_MOST),
        ("sessionId", id_of(params.session_id.as_ref()), TEXT_MOST),
    ])
}

/// Refuses a file of a definition that is longer than any may be.
///
/// # Errors
/// `invalidParams` with the place.
pub fn definition_file(params: &DefinitionValidateParams) -> Result<(), Error> {
    texts(&[("path", params.path.as_deref(), PATH_MOST), ("text", params.text.as_deref(), DEFINITION_MOST)])
}

/// Refuses a question about a tool call that says too much; what the call would be made with is not kept.
///
/// # Errors
/// `invalidParams` with the place.
pub fn permission_check(params: &PermissionCheckParams) -> Result<(), Error> {
    texts(&[
        ("taskId", params.task_id.as_deref(), TEXT_MOST),
        ("sessionId", id_of(params.session_id.as_ref()), TEXT_MOST),
        ("cwd", params.cwd.as_deref(), PATH_MOST),
        ("mode", params.mode.as_deref(), TEXT_MOST),
        ("toolName", Some(&params.tool_name), TEXT_MOST),
    ])
}

/// Refuses a question about rules that says too much.
///
/// # Errors
/// `invalidParams` with the place.
pub fn permission_rules(params: &PermissionRulesParams) -> Result<(), Error> {
    texts(&[
        ("sessionId", id_of(params.session_id.as_ref()), TEXT_MOST),
        ("cwd", params.cwd.as_deref(), PATH_MOST),
    ])
}

/// Refuses a test of a provider that names what can be none.
///
/// # Errors
/// `invalidParams` with the place.
pub fn provider_test(params: &ProviderTestParams) -> Result<(), Error> {
    texts(&[
        ("provider", params.provider.as_deref(), TEXT_MOST),
        ("model", params.model.as_deref(), TEXT_MOST),
    ])
}

/// Refuses a rule that is longer than any that an answer makes.
///
/// # Errors
/// `invalidParams` with the place.
pub fn permission_rule(rule: &str, session: Option<&SessionId>, cwd: Option<&str>) -> Result<(), Error> {
    texts(&[
        ("rule", Some(rule), RULE_MOST),
        ("sessionId", id_of(session), TEXT_MOST),
        ("cwd", cwd, PATH_MOST),
    ])
}

/// Refuses a place that is longer than any path.
///
/// # Errors
/// `invalidParams` with the place.
pub fn place(cwd: Option<&str>, path: Option<&str>) -> Result<(), Error> {
    texts(&[("cwd", cwd, PATH_MOST), ("path", path, PATH_MOST)])
}

/// Refuses trust in what can't be a hash, or in more than a call may name.
///
/// # Errors
/// `invalidParams` with the place.
pub fn trust(params: &TrustAddParams) -> Result<(), Error> {
    place(params.cwd.as_deref(), None)?;
    if params.hashes.len() > HASHES_MOST {
        return Err(too_much("hashes", HASHES_MOST, "hashes"));
    }
    params.hashes.iter().try_for_each(|hash| texts(&[("hashes", Some(hash.as_str()), TEXT_MOST)]))
}

/// Refuses a session that brings more than can be kept.
///
/// # Errors
/// `invalidParams` with the place and the bound.
pub fn session(p: &SessionOpenParams) -> Result<(), Error> {
    texts(&[
        ("cwd", p.cwd.as_deref(), PATH_MOST),
        ("name", p.name.as_deref(), TEXT_MOST),
        ("model", p.model.as_deref(), TEXT_MOST),
        ("permissionMode", p.permission_mode.as_deref(), TEXT_MOST),
        ("profile", p.profile.as_deref(), TEXT_MOST),
        ("systemPrompt", p.system_prompt.as_deref(), PROMPT_MOST),
        ("overridePrompt", p.override_prompt.as_deref(), PROMPT_MOST),
        ("appendPrompt", p.append_prompt.as_deref(), PROMPT_MOST),
        ("agent", p.agent.as_deref(), TEXT_MOST),
    ])?;
    key(p.idempotency_key.as_deref())?;
    p.env.as_ref().map_or(Ok(()), env)
}

/// Refuses a look at a conversation that says too much.
///
/// # Errors
/// `invalidParams` with the place and the bound.
pub fn messages(p: &SessionMessagesParams) -> Result<(), Error> {
    texts(&[
        ("sessionId", id_of(p.session_id.as_ref()), TEXT_MOST),
        ("cursor", p.cursor.as_deref(), TEXT_MOST),
    ])
}

/// Refuses a setting of a session that can be none.
///
/// # Errors
/// `invalidParams` with the place and the bound.
pub fn setting(p: &SessionSetParams) -> Result<(), Error> {
    texts(&[("sessionId", id_of(p.session_id.as_ref()), TEXT_MOST), ("value", Some(&p.value), TEXT_MOST)])
}

/// Refuses a prompt that brings more than can be kept.
///
/// # Errors
/// `invalidParams` with the place and the bound.
pub fn prompt(p: &SessionPromptParams) -> Result<(), Error> {
    texts(&[("sessionId", id_of(p.session_id.as_ref()), TEXT_MOST), ("text", Some(&p.text), PROMPT_MOST)])?;
    if p.text.trim().is_empty() {
        return Err(Error::new(Kind::InvalidParams, "the prompt says nothing").with("path", "text"));
    }
    key(p.idempotency_key.as_deref())?;
    p.env.as_ref().map_or(Ok(()), env)
}

/// Refuses a spawn that brings more than can be kept.
///
/// # Errors
/// `invalidParams` with the place and the bound.
pub fn spawn(p: &AgentSpawnParams) -> Result<(), Error> {
    texts(&[
        ("prompt", p.prompt.as_deref(), PROMPT_MOST),
        ("sessionId", id_of(p.session_id.as_ref()), TEXT_MOST),
        ("description", p.description.as_deref(), PROMPT_MOST),
        ("subagentType", p.subagent_type.as_deref(), TEXT_MOST),
        ("name", p.name.as_deref(), TEXT_MOST),
        ("teamName", p.team_name.as_deref(), TEXT_MOST),
        ("isolation", p.isolation.as_deref(), TEXT_MOST),
        ("profile", p.profile.as_deref(), TEXT_MOST),
        ("criticalReminder", p.critical_reminder.as_deref(), PROMPT_MOST),
        ("model", p.model.as_deref(), TEXT_MOST),
        ("systemPrompt", p.system_prompt.as_deref(), PROMPT_MOST),
        ("permissionMode", p.permission_mode.as_deref(), TEXT_MOST),
        ("color", p.color.as_deref(), TEXT_MOST),
        ("cwd", p.cwd.as_deref(), PATH_MOST),
    ])?;
    command(p.command.as_deref().unwrap_or_default())?;
    labels(p.labels.as_ref())?;
    let after = p.after.as_deref().unwrap_or_default();
    if after.len() > AFTER_MOST {
        return Err(too_much("after", AFTER_MOST, "tasks to wait for"));
    }
    after.iter().try_for_each(|id| short("after", Some(id)))?;
    for (path, words) in [("writeScopes", &p.write_scopes), ("share", &p.share)] {
        words.iter().flatten().try_for_each(|word| texts(&[(path, Some(word), PATH_MOST)]))?;
    }
    key(p.idempotency_key.as_deref())?;
    p.env.as_ref().map_or(Ok(()), env)
}

fn resume(p: &TaskResumeParams) -> Result<(), Error> {
    texts(&[
        ("taskId", Some(&p.task_id), TEXT_MOST),
        ("prompt", p.prompt.as_deref(), PROMPT_MOST),
        ("description", p.description.as_deref(), PROMPT_MOST),
    ])?;
    key(p.idempotency_key.as_deref())?;
    p.env.as_ref().map_or(Ok(()), env)
}

/// The first word stays in memory, and the kernel takes it as a path.
fn command(argv: &[String]) -> Result<(), Error> {
    if let Some(at) = argv.iter().position(|word| word.contains('\0')) {
        let why = format!("command[{at}] has a NUL byte, which no program can be given");
        return Err(Error::new(Kind::InvalidParams, why).with("path", "command"));
    }
    texts(&[("command", argv.first().map(String::as_str), PATH_MOST)])?;
    if argv.iter().map(|word| word.len() + 1).sum::<usize>() > COMMAND_MOST {
        let why = "bytes in command: write the text to a file or to its input";
        return Err(too_much("command", COMMAND_MOST, why));
    }
    Ok(())
}

fn labels(given: Option<&BTreeMap<String, String>>) -> Result<(), Error> {
    if given.is_some_and(|labels| labels.len() > LABELS_MOST) {
        return Err(too_much("labels", LABELS_MOST, "labels"));
    }
    let words = || given.into_iter().flatten().flat_map(|(key, value)| [key, value]);
    words().try_for_each(|word| short("labels", Some(word)))?;
    if words().map(String::len).sum::<usize>() > KEPT_MOST {
        return Err(too_much("labels", KEPT_MOST, "bytes in labels together"));
    }
    Ok(())
}

fn list(p: &TaskListParams) -> Result<(), Error> {
    texts(&[
        ("sessionId", id_of(p.session_id.as_ref()), TEXT_MOST),
        ("teamName", p.team_name.as_deref(), TEXT_MOST),
        ("parentId", p.parent_id.as_deref(), TEXT_MOST),
        ("cursor", p.cursor.as_deref(), TEXT_MOST),
    ])?;
    labels(p.labels.as_ref())
}

fn team(p: &TeamCreateParams) -> Result<(), Error> {
    key(p.idempotency_key.as_deref())?;
    texts(&[
        ("name", p.name.as_deref(), TEXT_MOST),
        ("description", p.description.as_deref(), PROMPT_MOST),
        ("leadName", p.lead_name.as_deref(), TEXT_MOST),
    ])
}

fn join(p: &TeamJoinParams) -> Result<(), Error> {
    texts(&[
        ("teamName", Some(&p.team_name), TEXT_MOST),
        ("name", Some(&p.name), TEXT_MOST),
        ("token", p.token.as_deref(), TEXT_MOST),
        ("agentType", p.agent_type.as_deref(), TEXT_MOST),
        ("cwd", p.cwd.as_deref(), PATH_MOST),
    ])
}

fn send(p: &MessageSendParams) -> Result<(), Error> {
    key(p.idempotency_key.as_deref())?;
    texts(&[
        ("to", Some(&p.to), TEXT_MOST),
        ("summary", p.summary.as_deref(), PROMPT_MOST),
        ("teamName", p.team_name.as_deref(), TEXT_MOST),
    ])
}

fn deliver(p: &MessageDeliverParams) -> Result<(), Error> {
    let message = &p.message;
    texts(&[
        ("message.from", Some(&message.from), PATH_MOST),
        ("message.to", message.to.as_deref(), TEXT_MOST),
        ("message.summary", message.summary.as_deref(), PROMPT_MOST),
        ("message.timestamp", message.timestamp.as_deref(), TEXT_MOST),
    ])
}

fn answer(p: &AskRespondParams) -> Result<(), Error> {
    texts(&[("message", p.message.as_deref(), KEPT_MOST), ("mode", p.mode.as_deref(), TEXT_MOST)])?;
    let words = || p.answers.iter().flatten().flat_map(|(question, answer)| [question, answer]);
    if words().map(String::len).sum::<usize>() > KEPT_MOST {
        return Err(too_much("answers", KEPT_MOST, "bytes in answers together"));
    }
    let input =
        p.updated_input.as_ref().map(|input| serde_json::to_string(input).map_or(0, |text| text.len()));
    if input.is_some_and(|bytes| bytes > SHOWN_MOST) {
        return Err(too_much("updatedInput", SHOWN_MOST, "bytes in updatedInput"));
    }
    Ok(())
}

/// Refuses an ask that brings more than can be kept.
pub(crate) fn asked(asked: &Asked) -> Result<(), Error> {
    let shown = match &asked.what {
        What::Permission { tool, input, reason, risk, root, rules, .. } => {
            texts(&[("tool", Some(tool), TEXT_MOST), ("risk", Some(risk), TEXT_MOST)])?;
            texts(&[("reason", Some(reason), PATH_MOST), ("root", Some(root), PATH_MOST)])?;
            if rules.iter().map(|rule| rule.len()).sum::<usize>() > KEPT_MOST {
                return Err(too_much("rules", KEPT_MOST, "bytes in rules together"));
            }
            input.to_string().len()
        }
        What::Question { questions } => serde_json::to_string(questions).map_or(0, |text| text.len()),
        What::Plan { plan } => plan.len(),
    };
    if shown > SHOWN_MOST {
        return Err(too_much("input", SHOWN_MOST, "bytes in what is asked"));
    }
    texts(&[("cwd", Some(&asked.cwd), PATH_MOST), ("call", asked.call.as_deref(), TEXT_MOST)])
}

/// Refuses a mailbox whose name can't be one.
///
/// # Errors
/// `invalidParams` with the place.
pub fn mailbox(team: Option<&String>, agent: Option<&String>) -> Result<(), Error> {
    short("teamName", team)?;
    short("agent", agent)
}

/// Refuses a session whose id can't be one.
///
/// # Errors
/// `invalidParams` with the place.
pub fn in_session(id: Option<&SessionId>) -> Result<(), Error> {
    texts(&[("sessionId", id_of(id), TEXT_MOST)])
}

fn id_of(id: Option<&SessionId>) -> Option<&str> {
    id.map(|id| &*id.0)
}

fn short<T: AsRef<str> + ?Sized>(path: &'static str, text: Option<&T>) -> Result<(), Error> {
    texts(&[(path, text.map(AsRef::as_ref), TEXT_MOST)])
}

/// Any bytes will do: a key is hashed.
fn key(key: Option<&str>) -> Result<(), Error> {
    if key.is_some_and(|key| key.is_empty() || key.len() > KEY_MOST) {
        return Err(too_much("idempotencyKey", KEY_MOST, "bytes in idempotencyKey, or none"));
    }
    Ok(())
}

fn texts(texts: &[Text<'_>]) -> Result<(), Error> {
    for (path, text, most) in texts {
        if text.is_some_and(|text| text.contains('\0')) {
            let why = format!("a text of {path} has a NUL byte");
            return Err(Error::new(Kind::InvalidParams, why).with("path", *path));
        }
        if text.is_some_and(|text| text.len() > *most) {
            return Err(too_much(path, *most, &format!("bytes in a text of {path}")));
        }
    }
    Ok(())
}

fn too_much(path: &str, most: usize, what: &str) -> Error {
    Error::new(Kind::InvalidParams, format!("more than {most} {what}")).with("path", path).with("limit", most)
}
