//! `ask`: what agents wait for an answer to, listed, shown and answered.

use ccagent_client::Client;
use ccagent_proto::AskId;
use ccagent_proto::ask::{
    Ask, AskBehavior, AskGetParams, AskListParams, AskListResult, AskRespondParams, AskScope, AskState,
    Question,
};
use ccagent_proto::method::{AskGet, AskList, AskRespond};

use serde_json::Value;

use super::session;
use crate::app::App;
use crate::exit::{Exit, Stop};
use crate::render;
use crate::typed::{self, OPEN};

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
    /// Answer an agent's questions
    Answer(AnswerArgs),
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
    /// Make the call with this input instead
    #[arg(long, value_name = "JSON", value_parser = json)]
    input: Option<Value>,
    /// Have the plan carried out in this permission mode
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct AnswerArgs {
    /// The ask
    id: AskId,
    /// An answer to each question, in order: the number of what it offers, several with commas where it takes several, or
    /// words of your own; - leaves it open
    #[arg(required = true, value_name = "ANSWER")]
    answers: Vec<String>,
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
                    scope: args.scope.chosen(),
                    message,
                    updated_input: args.input.clone(),
                    mode: args.mode.clone(),
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
        Command::Answer(args) => {
            let ask = client.call::<AskGet>(AskGetParams { ask_id: args.id }).await?;
            let params = AskRespondParams { message: args.message, ..given(&ask, &args.answers)? };
            said(app, &client.call::<AskRespond>(params).await?)?;
        }
    }
    Ok(Exit::OK)
}

impl Scope {
    /// None says nothing, as that for once does.
    const fn chosen(&self) -> Option<AskScope> {
        match (self.session, self.always) {
            (true, _) => Some(AskScope::Session),
            (false, true) => Some(AskScope::Always),
            (false, false) => None,
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

/// Answers to questions, in their order; what is not given is left open.
pub(crate) fn answers(id: AskId, questions: &[Question], given: Vec<Option<String>>) -> AskRespondParams {
    let asked = questions.iter().map(|question| question.question.clone());
    let answers = asked.zip(given).filter_map(|(question, answer)| Some((question, answer?))).collect();
    AskRespondParams { answers: Some(answers), ..answer(id, AskBehavior::Allow) }
}

/// What words at the command line answer.
fn given(ask: &Ask, words: &[String]) -> Result<AskRespondParams, Stop> {
    let questions = ask.questions.as_deref().unwrap_or_default();
    if words.len() > questions.len() {
        let why =
            format!("{} asks {} questions, and there are {} answers", ask.id, questions.len(), words.len());
        return Err(Stop::new(Exit::USAGE, why));
    }
    let each = questions.iter().zip(words).map(|(question, words)| answer_to(question, words));
    Ok(answers(ask.id, questions, each.collect::<Result<_, _>>()?))
}

fn answer_to(question: &Question, words: &str) -> Result<Option<String>, Stop> {
    if words == OPEN {
        return Ok(None);
    }
    let several = Question { multi_select: true, ..question.clone() };
    match (typed::chosen(question, words), typed::chosen(&several, words)) {
        (Some(labels), _) => Ok(Some(labels)),
        (None, Some(_)) => {
            let why = format!("{:?} takes one answer, and {words} are several", question.question);
            Err(Stop::new(Exit::USAGE, why))
        }
        (None, None) => Ok(Some(words.to_owned())),
    }
}

fn json(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        Ok(input @ Value::Object(_)) => Ok(input),
        Ok(_) => Err("the input of a tool is an object".to_owned()),
        Err(why) => Err(format!("this is no JSON: {why}")),
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
