//! What an agent asks about its task list, and about the team that it leads, done in its own name.
//!
//! The answers are the objects that agents know from elsewhere, as JSON. Hooks that may refuse a new task or a completion
//! belong before the calls here, where the agent and its environment are known.

use ccagent_llm::host::tasklist::{Change, New, Status, Wish};
use ccagent_llm::tool::Outcome;
use ccagent_proto::method::{
    TasklistCreate, TasklistGet, TasklistList, TasklistUpdate, TeamCreate, TeamDelete,
};
use ccagent_proto::tasklist::{
    Item, ItemPatch, ItemStatus, TasklistCreateParams, TasklistGetParams, TasklistListParams,
    TasklistUpdateParams,
};
use ccagent_proto::team::{TeamCreateParams, TeamDeleteParams};
use ccagent_proto::{Error, Kind};
use serde_json::{Value, json};

use super::desk::Desk;

/// Tasks that one look shows at most.
const SHOWN: u32 = 1000;

impl Desk {
    pub(super) async fn tasklist(&self, wish: Wish) -> Result<Outcome, Error> {
        let said = match wish {
            Wish::Create(new) => self.create_item(new).await?,
            Wish::Get(id) => json!({ "task": full(&self.item(id).await?) }),
            Wish::List => self.list_items().await?,
            Wish::Update(change) => self.update_item(*change).await?,
        };
        Ok(Outcome::ok(said.to_string()))
    }

    async fn create_item(&self, new: New) -> Result<Value, Error> {
        let params = TasklistCreateParams {
            subject: new.subject,
            description: Some(new.description),
            active_form: new.active_form,
            metadata: new.metadata,
            ..TasklistCreateParams::default()
        };
        let item = self.handle.call::<TasklistCreate>(self.caller.clone(), params).await?;
        Ok(json!({ "task": { "id": item.id, "subject": item.subject } }))
    }

    async fn item(&self, item_id: String) -> Result<Item, Error> {
        let params = TasklistGetParams { list: None, item_id };
        self.handle.call::<TasklistGet>(self.caller.clone(), params).await
    }

    async fn list_items(&self) -> Result<Value, Error> {
        let params = TasklistListParams { limit: Some(SHOWN), ..TasklistListParams::default() };
        let listed = self.handle.call::<TasklistList>(self.caller.clone(), params).await?;
        let mut said = json!({ "tasks": listed.items.iter().map(short).collect::<Vec<_>>() });
        if listed.next_cursor.is_some() {
            said["more"] = json!("the list is longer than is shown here");
        }
        Ok(said)
    }

    async fn update_item(&self, change: Change) -> Result<Value, Error> {
        let before = self.item(change.id.clone()).await?;
        let params = TasklistUpdateParams {
            item_id: change.id,
            patch: ItemPatch {
                status: change.status.map(status),
                subject: change.subject,
                description: change.description,
                active_form: change.active_form,
                owner: change.owner,
                metadata: change.metadata,
                add_blocks: change.add_blocks,
                add_blocked_by: change.add_blocked_by,
            },
            ..TasklistUpdateParams::default()
        };
        let after = self.handle.call::<TasklistUpdate>(self.caller.clone(), params).await?;
        let mut said =
            json!({ "success": true, "taskId": after.id, "updatedFields": updated(&before, &after) });
        if before.status != after.status {
            said["statusChange"] = json!({ "from": before.status, "to": after.status });
        }
        Ok(said)
    }

    pub(super) async fn make_team(
        &self,
        name: String,
        description: Option<String>,
    ) -> Result<Outcome, Error> {
        let params = TeamCreateParams { name: Some(name), description, ..TeamCreateParams::default() };
        let team = self.handle.call::<TeamCreate>(self.caller.clone(), params).await?;
        let said = json!({ "team_name": team.name, "lead_agent_id": team.lead_agent_id });
        Ok(Outcome::ok(said.to_string()))
    }

    pub(super) async fn drop_team(&self) -> Result<Outcome, Error> {
        let caller = self.caller.clone();
        let own = self.handle.ask(move |core, _| core.own_team(&caller)).await?;
        let Some(name) = own else {
            return Err(Error::new(Kind::NoTeam, "you lead no team: there is nothing to delete"));
        };
        let params = TeamDeleteParams { name: name.clone(), force: None };
        self.handle.call::<TeamDelete>(self.caller.clone(), params).await?;
        let message = format!("the team {name} is deleted, with its task list");
        Ok(Outcome::ok(json!({ "success": true, "message": message, "team_name": name }).to_string()))
    }
}

const fn status(status: Status) -> ItemStatus {
    match status {
        Status::Pending => ItemStatus::Pending,
        Status::InProgress => ItemStatus::InProgress,
        Status::Completed => ItemStatus::Completed,
        Status::Deleted => ItemStatus::Deleted,
    }
}

/// A task as the list shows it.
fn short(item: &Item) -> Value {
    let mut said = json!({
        "id": item.id, "subject": item.subject, "status": item.status, "blockedBy": item.blocked_by,
    });
    if let Some(owner) = &item.owner {
        said["owner"] = json!(owner);
    }
    said
}

/// A task in full.
fn full(item: &Item) -> Value {
    let mut said = short(item);
    said["description"] = json!(item.description.as_deref().unwrap_or_default());
    said["blocks"] = json!(item.blocks);
    if let Some(active_form) = &item.active_form {
        said["activeForm"] = json!(active_form);
    }
    if let Some(metadata) = &item.metadata {
        said["metadata"] = json!(metadata);
    }
    said
}

/// What of a task is another than before.
fn updated(before: &Item, after: &Item) -> Vec<&'static str> {
    let fields = [
        ("status", before.status != after.status),
        ("subject", before.subject != after.subject),
        ("description", before.description != after.description),
        ("activeForm", before.active_form != after.active_form),
        ("owner", before.owner != after.owner),
        ("metadata", before.metadata != after.metadata),
        ("blocks", after.blocks.iter().any(|id| !before.blocks.contains(id))),
        ("blockedBy", after.blocked_by.iter().any(|id| !before.blocked_by.contains(id))),
    ];
    fields.into_iter().filter(|(_, changed)| *changed).map(|(name, _)| name).collect()
}
