//! `tasklist`: what a team, or a session, has to do, item by item.

use ccagent_client::Client;
use ccagent_proto::method::{
    TasklistClaim, TasklistCreate, TasklistDelete, TasklistGet, TasklistList, TasklistNext, TasklistUpdate,
};
use ccagent_proto::tasklist::{
    Item, ItemFilter, ItemPatch, ItemStatus, TasklistClaimParams, TasklistCreateParams, TasklistGetParams,
    TasklistListParams, TasklistListResult, TasklistNextParams, TasklistUpdateParams,
};

use crate::app::App;
use crate::exit::Exit;
use crate::render;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The list: a team's name, or a session's id; your session's own by default, in a team the team's
    #[arg(long, value_name = "LIST", global = true)]
    list: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List items
    Ls(ListArgs),
    /// Put an item on the list, and print its id
    Add(AddArgs),
    /// Show one item in full
    Show(ShowArgs),
    /// Take an item, or the first one that can be taken
    Claim(ClaimArgs),
    /// Say that items are done
    Done(DoneArgs),
    /// Change an item
    Update(UpdateArgs),
    /// Take items off the list
    Rm(DoneArgs),
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Only those that stand there
    #[arg(long, value_enum)]
    status: Option<Status>,
    /// Only this owner's
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// Only those that can be claimed
    #[arg(long)]
    free: bool,
}

#[derive(Debug, clap::Args)]
struct AddArgs {
    /// What is to be done, in a line
    subject: String,
    /// All that one has to know
    #[arg(short, long, value_name = "TEXT")]
    description: Option<String>,
    /// The line while it is done
    #[arg(long, value_name = "TEXT")]
    active_form: Option<String>,
    /// Items that it waits for
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    blocked_by: Option<Vec<String>>,
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// The item
    id: String,
}

#[derive(Debug, clap::Args)]
struct ClaimArgs {
    /// The item; the lowest that can be claimed when absent
    id: Option<String>,
    /// Who does it; you by default
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
}

#[derive(Debug, clap::Args)]
struct DoneArgs {
    /// The items
    #[arg(required = true)]
    ids: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct UpdateArgs {
    /// The item
    id: String,
    /// Where it stands now
    #[arg(long, value_enum)]
    status: Option<Status>,
    /// What is to be done, in a line
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    /// All that one has to know; empty for none
    #[arg(short, long, value_name = "TEXT")]
    description: Option<String>,
    /// The line while it is done; empty for none
    #[arg(long, value_name = "TEXT")]
    active_form: Option<String>,
    /// Who does it; empty for nobody
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// Items that wait for it from now on
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    blocks: Option<Vec<String>>,
    /// Items that it waits for from now on
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    blocked_by: Option<Vec<String>>,
    /// Only if it still has this revision
    #[arg(long, value_name = "N")]
    if_revision: Option<u64>,
}

/// Where an item stands, as it is typed.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Status {
    Pending,
    #[value(name = "in_progress", alias = "in-progress")]
    InProgress,
    Completed,
    Deleted,
}

impl From<Status> for ItemStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Pending => Self::Pending,
            Status::InProgress => Self::InProgress,
            Status::Completed => Self::Completed,
            Status::Deleted => Self::Deleted,
        }
    }
}

pub(super) async fn run(app: &App, Args { list, command }: Args) -> anyhow::Result<Exit> {
    match command {
        Command::Ls(args) => ls(app, list, args).await?,
        Command::Add(args) => {
            let params = TasklistCreateParams {
                list,
                subject: args.subject,
                description: args.description,
                active_form: args.active_form,
                blocked_by: args.blocked_by,
                ..TasklistCreateParams::default()
            };
            let item = app.connect_or_start().await?.call::<TasklistCreate>(params).await?;
            app.out.one(&item, |item| render::line(&item.id))?;
        }
        Command::Show(args) => {
            let params = TasklistGetParams { list, item_id: args.id };
            let item = app.connect().await?.call::<TasklistGet>(params).await?;
            app.out.one(&item, render::tasklist::full)?;
        }
        Command::Claim(args) => return claim(app, list, args).await,
        Command::Done(args) => {
            let client = app.connect().await?;
            for id in args.ids {
                let patch = ItemPatch { status: Some(ItemStatus::Completed), ..ItemPatch::default() };
                let params =
                    TasklistUpdateParams { list: list.clone(), item_id: id, patch, if_revision: None };
                said(app, &client.call::<TasklistUpdate>(params).await?)?;
            }
        }
        Command::Update(args) => update(app, list, args).await?,
        Command::Rm(args) => remove(app, list, args.ids).await?,
    }
    Ok(Exit::OK)
}

fn said(app: &App, item: &Item) -> anyhow::Result<()> {
    app.out.item(item, render::tasklist::said)
}

async fn ls(app: &App, list: Option<String>, args: ListArgs) -> anyhow::Result<()> {
    let client = app.connect().await?;
    let filter = ItemFilter {
        status: args.status.map(Into::into),
        owner: args.owner,
        claimable: args.free.then_some(true),
    };
    let mut params = TasklistListParams { list, filter: Some(filter), ..TasklistListParams::default() };
    let mut whole = TasklistListResult::default();
    loop {
        let page = client.call::<TasklistList>(params.clone()).await?;
        whole.items.extend(page.items);
        params.cursor = page.next_cursor;
        if params.cursor.is_none() {
            break;
        }
    }
    app.out.list(&whole, &whole.items, render::tasklist::list)?;
    if whole.items.is_empty() && app.out.is_text() {
        app.note("no such items");
    }
    Ok(())
}

async fn claim(app: &App, list: Option<String>, args: ClaimArgs) -> anyhow::Result<Exit> {
    let client = app.connect().await?;
    let owner = args.owner;
    let item = match args.id {
        Some(item_id) => {
            let params = TasklistClaimParams { list, item_id, owner };
            Some(client.call::<TasklistClaim>(params).await?)
        }
        None => client.call::<TasklistNext>(TasklistNextParams { list, owner }).await?.item,
    };
    if let Some(item) = item {
        said(app, &item)?;
        return Ok(Exit::OK);
    }
    app.note("nothing can be claimed");
    Ok(Exit::NOT_FOUND)
}

async fn update(app: &App, list: Option<String>, args: UpdateArgs) -> anyhow::Result<()> {
    let patch = ItemPatch {
        status: args.status.map(Into::into),
        subject: args.subject,
        description: args.description,
        active_form: args.active_form,
        owner: args.owner,
        metadata: None,
        add_blocks: args.blocks,
        add_blocked_by: args.blocked_by,
    };
    let params = TasklistUpdateParams { list, item_id: args.id, patch, if_revision: args.if_revision };
    said(app, &app.connect().await?.call::<TasklistUpdate>(params).await?)
}

async fn remove(app: &App, list: Option<String>, ids: Vec<String>) -> anyhow::Result<()> {
    let client: Client = app.connect().await?;
    let of = |item_id: String| TasklistGetParams { list: list.clone(), item_id };
    for id in &ids {
        client.call::<TasklistGet>(of(id.clone())).await?;
    }
    app.confirm(&format!("take {} off the list", ids.join(", ")))?;
    for id in ids {
        client.call::<TasklistDelete>(of(id)).await?;
    }
    Ok(())
}
