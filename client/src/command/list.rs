//! `ps`: agents as a table or a tree, once or as they change.

use std::io::IsTerminal;

use ccagent_client::{Client, Error, Lasting};
use ccagent_proto::event::{EventFilter, EventItem, EventSubscribe, EventSubscribeParams, Marker, Topic};
use ccagent_proto::method::TaskList;
use ccagent_proto::task::{Task, TaskListParams, TaskListResult, TaskStatus};
use clap::ValueEnum;
use futures_util::FutureExt;

use crate::app::{App, Start};
use crate::exit::Exit;
use crate::{output, render};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Those that ended long ago too
    #[arg(short, long)]
    all: bool,
    /// Only this team's
    #[arg(long)]
    team: Option<String>,
    /// Only those in this state
    #[arg(long)]
    state: Option<State>,
    /// Only this session's
    #[arg(long)]
    session: Option<String>,
    /// Only those with this label; more than one may be given
    #[arg(long, value_name = "K=V", value_parser = crate::value::label)]
    label: Vec<(String, String)>,
    /// Below the ones that spawned them
    #[arg(long)]
    tree: bool,
    /// Again at every change
    #[arg(long)]
    watch: bool,
}

/// The states by name.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum State {
    Queued,
    Running,
    Waiting,
    Idle,
    Completed,
    Failed,
    #[value(alias = "stopped")]
    Killed,
    Interrupted,
}

impl From<State> for TaskStatus {
    fn from(state: State) -> Self {
        match state {
            State::Queued => Self::Queued,
            State::Running => Self::Running,
            State::Waiting => Self::Waiting,
            State::Idle => Self::Idle,
            State::Completed => Self::Completed,
            State::Failed => Self::Failed,
            State::Killed => Self::Killed,
            State::Interrupted => Self::Interrupted,
        }
    }
}

pub(super) async fn run(app: &App, mut args: Args) -> anyhow::Result<Exit> {
    let line = app.connect_lasting(Start::Never).await?;
    let client = &line.life().await.client;
    let named = args.session.as_deref().map(Into::into);
    args.session = super::session::find(client, named).await?.map(|id| id.to_string());
    if args.watch {
        return watch(app, &line, &args).await;
    }
    show(app, &all_pages(client, params(&args)).await?, &args)?;
    Ok(Exit::OK)
}

fn params(args: &Args) -> TaskListParams {
    TaskListParams {
        session_id: args.session.as_deref().map(Into::into),
        status: args.state.map(Into::into),
        team_name: args.team.clone(),
        labels: Some(args.label.iter().cloned().collect()).filter(|_| !args.label.is_empty()),
        tree: args.tree.then_some(true),
        all: args.all.then_some(true),
        ..TaskListParams::default()
    }
}

/// Every page of a list.
pub(super) async fn all_pages(client: &Client, mut params: TaskListParams) -> Result<TaskListResult, Error> {
    let mut whole = TaskListResult::default();
    loop {
        let page = client.call::<TaskList>(params.clone()).await?;
        whole.tasks.extend(page.tasks);
        if page.next_cursor.is_none() {
            if params.tree != Some(true) {
                // The archive's come after the live ones; ids are in the order of creation.
                whole.tasks.sort_by_key(|task| task.id);
            }
            return Ok(whole);
        }
        params.cursor = page.next_cursor;
    }
}

fn show(app: &App, found: &TaskListResult, args: &Args) -> anyhow::Result<()> {
    if app.global.quiet {
        let ids: Vec<String> = found.tasks.iter().map(|task| task.id.to_string()).collect();
        return output::write(&ids.join("\n"));
    }
    let text = if args.tree { render::task::tree } else { render::task::list };
    app.out.list(found, &found.tasks, |tasks: &[Task]| text(tasks))?;
    if found.tasks.is_empty() && app.out.is_text() {
        app.note("no agents");
    }
    Ok(())
}

/// Shows the list again at every change that an event tells of.
async fn watch(app: &App, line: &Lasting, args: &Args) -> anyhow::Result<Exit> {
    let params = EventSubscribeParams {
        topics: Some(vec![Topic::Task]),
        filter: args.team.clone().map(|team| EventFilter { team_name: Some(team), ..EventFilter::default() }),
        since_seq: None,
    };
    let live = app.out.is_text() && std::io::stdout().is_terminal();
    loop {
        let (life, mut events) = line.subscribe::<EventSubscribe>(|_| params.clone()).await?;
        while let Some(item) = events.next().await {
            if let EventItem::Marker(Marker::Lagged { .. }) = item? {
                break;
            }
            // What came meanwhile is in the same list.
            while let Some(Some(more)) = events.next().now_or_never() {
                more?;
            }
            let found = match all_pages(&life.client, self::params(args)).await {
                Err(Error::Closed) => break,
                found => found?,
            };
            if live {
                output::write("\x1b[H\x1b[2J\x1b[3J")?;
            }
            show(app, &found, args)?;
        }
    }
}
