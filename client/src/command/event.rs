//! `events`: past events, and those to come.

use ccagent_client::Client;
use ccagent_proto::event::{
    EventItem, EventReplayParams, EventSubscribe, EventSubscribeParams, Marker, Topic,
};
use ccagent_proto::method::EventReplay;

use crate::app::{App, Start};
use crate::exit::Exit;
use crate::render;

/// Events of one page.
const PAGE: u32 = 1000;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only events after this number
    #[arg(long, value_name = "SEQ")]
    since: Option<u64>,
    /// Go on as more come; alone, begin with what lives now
    #[arg(short, long)]
    follow: bool,
    /// Only this topic; more than one may be given
    #[arg(long, value_parser = topic)]
    topic: Vec<Topic>,
}

fn topic(text: &str) -> Result<Topic, String> {
    serde_json::from_value(text.into()).map_err(|why| why.to_string())
}

pub(super) async fn run(app: &App, args: Args) -> anyhow::Result<Exit> {
    if args.follow {
        follow(app, args).await?;
    } else {
        replay(app, &app.connect().await?, args).await?;
    }
    Ok(Exit::OK)
}

async fn replay(app: &App, client: &Client, args: Args) -> anyhow::Result<()> {
    let mut params = EventReplayParams { since_seq: args.since.unwrap_or(0), limit: Some(PAGE) };
    loop {
        let page = client.call::<EventReplay>(params.clone()).await?;
        for event in &page.events {
            if args.topic.is_empty() || args.topic.contains(&event.topic) {
                app.out.item(event, render::event::event_line)?;
            }
        }
        if page.events.is_empty() || page.next_seq == params.since_seq {
            return Ok(());
        }
        params.since_seq = page.next_seq;
    }
}

async fn follow(app: &App, args: Args) -> anyhow::Result<()> {
    let line = app.connect_lasting(Start::Never).await?;
    let mut params = EventSubscribeParams {
        topics: Some(args.topic).filter(|topics| !topics.is_empty()),
        filter: None,
        since_seq: args.since,
    };
    let mut epoch = line.life().await.epoch.clone();
    loop {
        // Another life of the daemon has numbers of its own: all of them are new.
        let followed = line.subscribe::<EventSubscribe>(|life| EventSubscribeParams {
            since_seq: if life.epoch == epoch { params.since_seq } else { Some(0) },
            ..params.clone()
        });
        let (life, mut items) = followed.await?;
        if life.epoch != epoch {
            params.since_seq = Some(0);
            epoch.clone_from(&life.epoch);
        }
        while let Some(item) = items.next().await {
            let item = item?;
            app.out.item(&item, render::event::item)?;
            match &item {
                EventItem::Event(event) => params.since_seq = Some(event.seq),
                EventItem::Marker(Marker::Snapshot { seq, .. }) => drop(params.since_seq.get_or_insert(*seq)),
                EventItem::Marker(Marker::Lagged { .. }) => break,
            }
        }
    }
}
