//! `ask`: what agents wait for an answer to, listed, shown and answered.

use ccagent_client::Client;
use ccagent_proto::AskId;
use ccagent_proto::ask::{
    Ask, AskBehavior, AskGetParams, AskListParams, AskListResult, AskRespondParams, AskScope, AskState,
};
use ccagent_proto::method::{AskGet, AskList, AskRespond};

use super::session;
use crate::app::App;
use crate::exit::Exit;
use crate::render;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// List what agents wait for an answer to
    Ls(ListArgs),
    /// Show one ask in full
    Show(ShowArgs),
    /// Allow what is asked
    Allow(AllowArgs),
    /// Deny what is asked
    Deny(DenyArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// The session of the agents: an id, a unique prefix of one, or its name
    #[arg(long)]
    session: Option<String>,
    /// Those too that were answered, expired or withdrawn
    #[arg(short, long)]
    all: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// The ask
    id: AskId,
}

#[derive(Debug, clap::Args)]
pub(super) struct AllowArgs {
    /// The asks
    #[arg(required = true)]
    ids: Vec<AskId>,
    #[command(flatten)]
    scope: Scope,
    /// Words for the agent
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
}

#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct Scope {
    /// This call alone; so it is by default
    #[arg(long)]
    once: bool,
    /// Such calls of all agents of the session, while it lasts
    #[arg(long)]
    session: bool,
    /// Such calls in this repository, by a rule in its .claude/settings.local.json
    #[arg(long)]
    always: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct DenyArgs {
    /// The asks
    #[arg(required = true)]
    ids: Vec<AskId>,
    /// What the agent is told
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
}

pub(super) async fn run(app: &App, command: Command) -> anyhow::Result<Exit> {
    let client = app.connect().await?;
    match command {
        Command::Ls(args) => {
            let found = all_pages(&client, args).await?;
            app.out.list(&found, &found.asks, render::ask::list)?;
            if found.asks.is_empty() && app.out.is_text() {
                app.note("no agent waits for an answer");
            }
        }
        Command::Show(args) => {
            let ask = client.call::<AskGet>(AskGetParams { ask_id: args.id }).await?;
            app.out.one(&ask, render::ask::full)?;
        }
        Command::Allow(args) => {
            for id in args.ids {
                let message = args.message.clone();
                let params = AskRespondParams {
                    scope: Some(args.scope.chosen()),
                    message,
                    ..answer(id, AskBehavior::Allow)
                };
                said(app, &client.call::<AskRespond>(params).await?)?;
            }
        }
        Command::Deny(args) => {
            for id in args.ids {
                let params =
                    AskRespondParams { message: args.message.clone(), ..answer(id, AskBehavior::Deny) };
                said(app, &client.call::<AskRespond>(params).await?)?;
            }
        }
    }
    Ok(Exit::OK)
}

impl Scope {
    const fn chosen(&self) -> AskScope {
        match (self.session, self.always) {
            (true, _) => AskScope::Session,
            (false, true) => AskScope::Always,
            (false, false) => AskScope::Once,
        }
    }
}

/// An answer that says no more than what it is.
pub(crate) const fn answer(id: AskId, behavior: AskBehavior) -> AskRespondParams {
    AskRespondParams {
        ask_id: id,
        behavior,
        scope: None,
        answers: None,
        message: None,
        updated_input: None,
        mode: None,
    }
}

fn said(app: &App, ask: &Ask) -> anyhow::Result<()> {
    app.out.item(ask, render::ask::answered)
}

async fn all_pages(client: &Client, args: ListArgs) -> anyhow::Result<AskListResult> {
    let mut whole = AskListResult::default();
    let session_id = session::find(client, args.session.as_deref().map(Into::into)).await?;
    let state = (!args.all).then_some(AskState::Pending);
    let mut params = AskListParams { state, session_id, ..AskListParams::default() };
    loop {
        let page = client.call::<AskList>(params.clone()).await?;
        whole.asks.extend(page.asks);
        params.cursor = page.next_cursor;
        if params.cursor.is_none() {
            return Ok(whole);
        }
    }
}
