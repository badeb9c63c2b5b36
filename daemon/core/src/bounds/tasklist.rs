//! How much text a call about a task list may bring.

use ccagent_proto::tasklist::{
    ItemFilter, TasklistClaimParams, TasklistCreateParams, TasklistGetParams, TasklistListParams,
    TasklistNextParams, TasklistUpdateParams,
};
use ccagent_proto::{Error, Kind};
use serde_json::{Map, Value};

use super::{TEXT_MOST, key, short, texts, too_much};
use crate::tasklist::{DEPENDENCIES_MOST, DESCRIPTION_MOST, METADATA_MOST, size};

/// Bytes of an owner's name at most.
const OWNER_MOST: usize = 64;

pub(super) fn item(p: &TasklistCreateParams) -> Result<(), Error> {
    key(p.idempotency_key.as_deref())?;
    texts(&[
        ("list", p.list.as_deref(), TEXT_MOST),
        ("subject", Some(&p.subject), TEXT_MOST),
        ("description", p.description.as_deref(), DESCRIPTION_MOST),
        ("activeForm", p.active_form.as_deref(), TEXT_MOST),
    ])?;
    line("subject", Some(&p.subject))?;
    line("activeForm", p.active_form.as_deref().filter(|text| !text.is_empty()))?;
    dependencies("blockedBy", p.blocked_by.as_deref())?;
    metadata("metadata", p.metadata.as_ref())
}

pub(super) fn items(p: &TasklistListParams) -> Result<(), Error> {
    let ItemFilter { owner, .. } = p.filter.clone().unwrap_or_default();
    texts(&[
        ("list", p.list.as_deref(), TEXT_MOST),
        ("filter.owner", owner.as_deref(), TEXT_MOST),
        ("cursor", p.cursor.as_deref(), TEXT_MOST),
    ])
}

pub(super) fn patch(p: &TasklistUpdateParams) -> Result<(), Error> {
    let patch = &p.patch;
    texts(&[
        ("list", p.list.as_deref(), TEXT_MOST),
        ("itemId", Some(&p.item_id), TEXT_MOST),
        ("patch.subject", patch.subject.as_deref(), TEXT_MOST),
        ("patch.description", patch.description.as_deref(), DESCRIPTION_MOST),
        ("patch.activeForm", patch.active_form.as_deref(), TEXT_MOST),
    ])?;
    line("patch.subject", patch.subject.as_deref())?;
    line("patch.activeForm", patch.active_form.as_deref().filter(|text| !text.is_empty()))?;
    owner("patch.owner", patch.owner.as_deref().filter(|owner| !owner.is_empty()))?;
    dependencies("patch.addBlocks", patch.add_blocks.as_deref())?;
    dependencies("patch.addBlockedBy", patch.add_blocked_by.as_deref())?;
    metadata("patch.metadata", patch.metadata.as_ref())
}

/// A text that stands in one line says something, and has nothing in it that is not seen.
fn line(path: &'static str, text: Option<&str>) -> Result<(), Error> {
    let Some(text) = text else { return Ok(()) };
    let why = match text.trim() {
        "" => "says nothing: say in a line what is to be done".to_owned(),
        text => match text.chars().find(|c| c.is_control()) {
            None => return Ok(()),
            Some(control) => format!("has the control character {control:?}: it is one line of text"),
        },
    };
    Err(Error::new(Kind::InvalidParams, format!("{path} {why}")).with("path", path))
}

fn owner(path: &'static str, name: Option<&str>) -> Result<(), Error> {
    let Some(name) = name else { return Ok(()) };
    texts(&[(path, Some(name), OWNER_MOST)])?;
    if name.is_empty() || name.contains(|c: char| c.is_control() || c.is_whitespace()) {
        let why = format!("{path} is the name of a member or an agent, and no name is {name:?}");
        return Err(Error::new(Kind::InvalidParams, why).with("path", path));
    }
    Ok(())
}

fn dependencies(path: &'static str, ids: Option<&[String]>) -> Result<(), Error> {
    let ids = ids.unwrap_or_default();
    if ids.len() > DEPENDENCIES_MOST {
        return Err(too_much(path, DEPENDENCIES_MOST, &format!("items in {path}")));
    }
    ids.iter().try_for_each(|id| short(path, Some(id)))
}

fn metadata(path: &'static str, given: Option<&Map<String, Value>>) -> Result<(), Error> {
    if given.is_some_and(|given| size(given) > METADATA_MOST) {
        return Err(too_much(path, METADATA_MOST, &format!("bytes in {path} together")));
    }
    Ok(())
}

pub(super) fn named(p: &TasklistGetParams) -> Result<(), Error> {
    texts(&[("list", p.list.as_deref(), TEXT_MOST), ("itemId", Some(&p.item_id), TEXT_MOST)])
}

pub(super) fn claim(p: &TasklistClaimParams) -> Result<(), Error> {
    texts(&[("list", p.list.as_deref(), TEXT_MOST), ("itemId", Some(&p.item_id), TEXT_MOST)])?;
    owner("owner", p.owner.as_deref())
}

pub(super) fn next(p: &TasklistNextParams) -> Result<(), Error> {
    short("list", p.list.as_ref())?;
    owner("owner", p.owner.as_deref())
}
