//! `session`: who owns agents and gets their notifications.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ccagent_client::Client;
use ccagent_proto::SessionId;
use ccagent_proto::method::{
    SessionClose, SessionGet, SessionInterrupt, SessionList, SessionMessages, SessionOpen, SessionPrompt,
    SessionSetMode, SessionSetModel, TaskGet,
};
use ccagent_proto::session::{
    PageParams, Session, SessionCloseParams, SessionGetParams, SessionInterruptParams, SessionListResult,
    SessionMessagesParams, SessionOpenParams, SessionPromptParams, SessionSetParams,
};
use ccagent_proto::task::{TaskGetParams, TaskTranscriptResult};
use serde_json::Value;

use super::{run as run_command, spawn};
use crate::app::{App, Start};
use crate::exit::{Exit, Stop};
use crate::follow::From;
use crate::interactive::{DETACH_KEY, Stake, Wiring};
use crate::{render, value};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// List sessions
    Ls,
    /// Open a session and print its id
    Open(OpenArgs),
    /// Show one session in full
    Show(OneArgs),
    /// Say something to a session's lead; follow its turn, and end with its outcome
    Prompt(PromptArgs),
    /// End the turn of a session's lead
    Interrupt(OneArgs),
    /// Print the conversation with a session's lead
    Messages(OneArgs),
    /// Set what a session's lead may do unasked
    Mode(SetArgs),
    /// Set the model of a session's lead
    Model(SetArgs),
    /// End a session with its agents
    Close(CloseArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct OneArgs {
    /// The session: an id, a unique prefix of one, or its name; main when absent
    session: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct SetArgs {
    /// The permission mode, or the model
    value: String,
    /// The session: an id, a unique prefix of one, or its name; main when absent
    #[arg(long)]
    session: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
What the lead says and does comes out here, and what wakes it until nothing of what it spawned runs any more. Ctrl-C stops \
it with all of that; `session interrupt` ends its turn alone. What of the environment here leads to a provider goes to the \
lead, and is kept in memory only.")]
pub(super) struct PromptArgs {
    /// The session: an id, a unique prefix of one, or its name; main when absent
    #[arg(long)]
    session: Option<String>,
    /// Print the id of the lead's task and leave it to its work
    #[arg(short, long)]
    detach: bool,
    /// Read the text from this file; - is stdin
    #[arg(short, long, value_name = "FILE", conflicts_with = "text")]
    prompt_file: Option<PathBuf>,
    /// A variable of the lead's environment; a name alone takes the value from here
    #[arg(long, value_name = "K=V", value_parser = value::pair)]
    env: Vec<(String, String)>,
    /// What is said; - reads it from stdin
    #[arg(required_unless_present = "prompt_file")]
    text: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct OpenArgs {
    /// The name that its messages come from
    #[arg(long)]
    name: Option<String>,
    /// Its working directory; the current one by default
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// The model of its lead: a name, PROVIDER/NAME, offline or offline:FILE
    #[arg(long)]
    model: Option<String>,
    /// default, acceptEdits, plan, dontAsk or bypassPermissions
    #[arg(long, value_name = "MODE")]
    permission_mode: Option<String>,
    /// Its lead coordinates workers, and does nothing itself
    #[arg(long)]
    coordinator: bool,
    /// Its lead acts by itself: what its definition says is added to the usual prompt
    #[arg(long)]
    proactive: bool,
    /// Whose definitions its agents have: claude, qlogic, minimal or executor
    #[arg(long)]
    profile: Option<String>,
    /// The definition of its lead
    #[arg(long, value_name = "TYPE")]
    agent: Option<String>,
    /// The lead's prompt, where it has no definition
    #[arg(long, value_name = "TEXT")]
    system_prompt: Option<String>,
    /// The lead's prompt, and nothing else
    #[arg(long, value_name = "TEXT")]
    override_prompt: Option<String>,
    /// What is added to the lead's prompt
    #[arg(long, value_name = "TEXT")]
    append_prompt: Option<String>,
    /// A variable of its agents' environment; a name alone takes the value from here
    #[arg(long, value_name = "K=V", value_parser = value::pair)]
    env: Vec<(String, String)>,
}

impl OpenArgs {
    fn params(self) -> anyhow::Result<SessionOpenParams> {
        let cwd = std::path::absolute(self.cwd.unwrap_or_else(|| ".".into()))?;
        let env: BTreeMap<String, String> = self.env.into_iter().collect();
        Ok(SessionOpenParams {
            cwd: cwd.to_str().map(str::to_owned),
            name: self.name,
            model: self.model,
            permission_mode: self.permission_mode,
            coordinator: self.coordinator.then_some(true),
            proactive: self.proactive.then_some(true),
            profile: self.profile,
            system_prompt: self.system_prompt,
            override_prompt: self.override_prompt,
            append_prompt: self.append_prompt,
            agent: self.agent,
            env: Some(env).filter(|env| !env.is_empty()),
            idempotency_key: None,
        })
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct CloseArgs {
    /// The session: an id, a unique prefix of one, or its name
    id: String,
    /// Leave its teams
    #[arg(long)]
    keep_teams: bool,
}

/// The session that a person names: by its id, a unique prefix of one, or its name. The daemon itself takes ids only; who
/// may not list sessions has to write one.
pub(super) async fn find(client: &Client, named: Option<SessionId>) -> anyhow::Result<Option<SessionId>> {
    let Some(named) = named else {
        return Ok(None);
    };
    let Ok(known) = all(client).await else {
        return Ok(Some(named));
    };
    match matching(&named.0, &known.sessions).as_slice() {
        [] => Err(Stop::new(Exit::NOT_FOUND, format!("no session {:?}", render::line(&named.0))).into()),
        [one] => Ok(Some(one.id.clone())),
        many => {
            let ids: Vec<&str> = many.iter().map(|session| &*session.id.0).collect();
            let message = format!("more than one session is meant; these match: {}", ids.join(", "));
            Err(Stop::new(Exit::NOT_FOUND, message).into())
        }
    }
}

fn matching<'a>(named: &str, known: &'a [Session]) -> Vec<&'a Session> {
    let by = |test: &dyn Fn(&Session) -> bool| known.iter().filter(|one| test(one)).collect::<Vec<_>>();
    let exact = by(&|one| *one.id.0 == *named);
    let called = by(&|one| *one.name == *named);
    let shortest = "session_".len() + 4;
    let begun = by(&|one| named.len() >= shortest && one.id.0.starts_with(named));
    [exact, called, begun].into_iter().find(|found| !found.is_empty()).unwrap_or_default()
}

async fn all(client: &Client) -> Result<SessionListResult, ccagent_client::Error> {
    let mut whole = SessionListResult::default();
    let mut params = PageParams::default();
    loop {
        let page = client.call::<SessionList>(params.clone()).await?;
        whole.sessions.extend(page.sessions);
        params.cursor = page.next_cursor;
        if params.cursor.is_none() {
            return Ok(whole);
        }
    }
}

pub(super) async fn run(app: &App, command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Ls => {
            let whole = all(&app.connect().await?).await?;
            app.out.list(&whole, &whole.sessions, render::team::sessions)?;
        }
        Command::Open(args) => {
            let params = args.params()?;
            let opened = app.connect_or_start().await?.call::<SessionOpen>(params).await?;
            app.out.one(&opened, |opened| opened.session_id.to_string())?;
        }
        Command::Show(args) => {
            let client = app.connect().await?;
            let session_id = named(&client, args.session).await?.unwrap_or_default();
            let session = client.call::<SessionGet>(SessionGetParams { session_id }).await?;
            app.out.one(&session, |session| render::team::sessions(std::slice::from_ref(session)))?;
        }
        Command::Prompt(args) => return prompt(app, args).await,
        Command::Interrupt(args) => {
            let client = app.connect().await?;
            let params = SessionInterruptParams { session_id: named(&client, args.session).await? };
            let ended = client.call::<SessionInterrupt>(params).await?;
            app.out.one(&ended, |ended| ended.task_id.map(|id| id.to_string()).unwrap_or_default())?;
        }
        Command::Messages(args) => messages(app, args).await?,
        Command::Mode(args) => {
            let client = app.connect().await?;
            client.call::<SessionSetMode>(args.params(&client).await?).await?;
        }
        Command::Model(args) => {
            let client = app.connect().await?;
            client.call::<SessionSetModel>(args.params(&client).await?).await?;
        }
        Command::Close(args) => {
            let client = app.connect().await?;
            let session_id = find(&client, Some(args.id.as_str().into()))
                .await?
                .unwrap_or_else(|| args.id.as_str().into());
            app.confirm(&format!("end the session {session_id} with its agents"))?;
            let params = SessionCloseParams { session_id, keep_teams: args.keep_teams.then_some(true) };
            client.call::<SessionClose>(params).await?;
        }
    }
    Ok(Exit::OK)
}

impl SetArgs {
    async fn params(self, client: &Client) -> anyhow::Result<SessionSetParams> {
        Ok(SessionSetParams { session_id: named(client, self.session).await?, value: self.value })
    }
}

async fn named(client: &Client, session: Option<String>) -> anyhow::Result<Option<SessionId>> {
    find(client, session.as_deref().map(Into::into)).await
}

/// Says something to a lead, and shows what comes of it.
async fn prompt(app: &App, args: PromptArgs) -> anyhow::Result<Exit> {
    let text = run_command::prompt(args.prompt_file, args.text)?;
    let line = app.connect_lasting(Start::WhereNone).await?;
    let client = &line.life().await.client;
    let session_id = named(client, args.session).await?;
    let of_session = SessionGetParams { session_id: session_id.clone().unwrap_or_default() };
    let lead = line.call::<SessionGet>(of_session).await?.main_agent_id;
    let before = line.call::<TaskGet>(TaskGetParams { task_id: lead.to_string() }).await;
    // What its earlier turns said was shown before.
    let from = From::Byte(before.map_or(0, |task| task.output_bytes));
    let mut env = run_command::here();
    env.extend(args.env);
    let params = SessionPromptParams {
        session_id,
        text,
        env: Some(env).filter(|env| !env.is_empty()),
        idempotency_key: Some(spawn::key()),
    };
    let task_id = line.call::<SessionPrompt>(params).await?.task_id.to_string();
    let task = line.call::<TaskGet>(TaskGetParams { task_id: task_id.clone() }).await?;
    if args.detach {
        spawn::announce(app, &task)?;
        return Ok(Exit::OK);
    }
    let (stdin, pty, stake) = (false, false, Stake::Owner);
    let wiring = Wiring { task: task_id, from, stdin, pty, detach_key: DETACH_KEY, stake };
    spawn::attend(app, &line, &task, wiring, true).await
}

/// Prints all of a conversation.
async fn messages(app: &App, args: OneArgs) -> anyhow::Result<()> {
    let client = app.connect().await?;
    let session_id = named(&client, args.session).await?;
    let mut whole = TaskTranscriptResult::default();
    let mut params = SessionMessagesParams { session_id, ..SessionMessagesParams::default() };
    loop {
        let page = client.call::<SessionMessages>(params.clone()).await?;
        whole.messages.extend(page.messages);
        params.cursor = page.next_cursor;
        if params.cursor.is_none() {
            break;
        }
    }
    app.out.list(&whole, &whole.messages, |messages| render::lines(messages.iter().flat_map(said)))?;
    Ok(())
}

/// A message as lines: who says it, and what.
fn said(message: &Value) -> Vec<String> {
    let who = message["role"].as_str().unwrap_or_default();
    let line = |block: &Value| {
        let text = match block["type"].as_str() {
            Some("text") => block["text"].as_str().unwrap_or_default().to_owned(),
            Some("tool_use") => format!("● {}", block["name"].as_str().unwrap_or_default()),
            Some("tool_result") => block["content"].as_str().unwrap_or_default().to_owned(),
            Some(_) | None => return None,
        };
        Some(format!("{who}: {}", render::clean(&text)))
    };
    message["content"].as_array().into_iter().flatten().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions() -> Vec<Session> {
        let one = |(id, name): (&str, &str)| -> Session {
            serde_json::from_value(serde_json::json!({
                "id": id, "name": name, "permissionMode": "default", "paused": false, "coordinator": false,
                "proactive": false, "mainAgentId": "agent_0190b8a1-0000-7000-8000-000000000000", "liveTasks": 0,
                "pendingNotifications": 0, "envNames": [], "createdAt": 0
            }))
            .unwrap()
        };
        [
            ("main", "operator"),
            ("session_01a2-1", "red"),
            ("session_01a2-2", "red"),
            ("session_02ff-1", "blue"),
        ]
        .map(one)
        .into()
    }

    /// cli.md, ID: a session is named by its id, a unique prefix, or its name.
    #[test]
    fn a_session_is_named_like_an_agent() {
        let sessions = sessions();
        let ids =
            |named: &str| matching(named, &sessions).iter().map(|one| one.id.to_string()).collect::<Vec<_>>();
        assert_eq!(ids("main"), ["main"]);
        assert_eq!(ids("blue"), ["session_02ff-1"]);
        assert_eq!(ids("session_02ff"), ["session_02ff-1"]);
        assert_eq!(ids("session_01a2-1"), ["session_01a2-1"]);
        assert_eq!(ids("red").len(), 2);
        assert_eq!(ids("session_01a2").len(), 2);
        assert!(ids("session_").is_empty() && ids("nobody").is_empty());
    }
}
