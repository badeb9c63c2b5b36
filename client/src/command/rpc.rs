//! `rpc` and `schema`: any method of the contract by its name, and the contract itself.

use std::io::Read;

use ccagent_client::Client;
use ccagent_proto::event::EventSubscribe;
use ccagent_proto::mailbox::MailboxSubscribe;
use ccagent_proto::task::TaskFollow;
use ccagent_proto::{Subscription, openrpc};
use serde_json::Value;

use crate::app::App;
use crate::exit::{Exit, Stop};
use crate::output;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The method, for example task.get
    method: String,
    /// Its params as a JSON object; - reads them from stdin
    params: Option<String>,
}

/// The subscriptions with the methods that end them.
const SUBSCRIPTIONS: [(&str, &str); 3] = [
    (EventSubscribe::NAME, EventSubscribe::UNSUBSCRIBE),
    (MailboxSubscribe::NAME, MailboxSubscribe::UNSUBSCRIBE),
    (TaskFollow::NAME, TaskFollow::UNSUBSCRIBE),
];

pub(super) async fn run(app: &App, args: Args) -> anyhow::Result<Exit> {
    let params = params(args.params.as_deref())?;
    let client = app.connect_or_start().await?;
    let subscription = SUBSCRIPTIONS.iter().find(|(name, _)| *name == args.method);
    if let Some((subscribe, unsubscribe)) = subscription {
        stream(app, &client, subscribe, params, unsubscribe).await?;
    } else {
        let result = client.call_raw(&args.method, params).await?;
        app.out.one(&result, pretty)?;
    }
    Ok(Exit::OK)
}

fn params(text: Option<&str>) -> anyhow::Result<Value> {
    let text = match text {
        None => return Ok(Value::Null),
        Some("-") => {
            let mut read = String::new();
            std::io::stdin().read_to_string(&mut read)?;
            read
        }
        Some(text) => text.to_owned(),
    };
    serde_json::from_str(&text)
        .map_err(|why| Stop::new(Exit::USAGE, format!("the params are no JSON: {why}")).into())
}

async fn stream(
    app: &App,
    client: &Client,
    subscribe: &str,
    params: Value,
    unsubscribe: &str,
) -> anyhow::Result<()> {
    let mut items = client.subscribe_raw(subscribe, params, unsubscribe).await?;
    while let Some(item) = items.next().await {
        let item = item?;
        app.out.item(&item, |item| output::json(&item.to_string()))?;
        if item.get("done") == Some(&Value::Bool(true)) {
            break;
        }
    }
    Ok(())
}

pub(super) fn schema(app: &App) -> anyhow::Result<Exit> {
    app.out.one(&openrpc::document(), pretty)?;
    Ok(Exit::OK)
}

fn pretty(value: &Value) -> String {
    output::json(&serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string()))
}
