//! What waits for what: items of one list, and never in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ccagent_proto::{Error, Kind};

use super::{DEPENDENCIES_MOST, Items};

/// What an item is to wait for, and what is to wait for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Added {
    pub(super) blocked_by: BTreeSet<u64>,
    pub(super) blocks: BTreeSet<u64>,
}

impl Added {
    pub(super) fn is_empty(&self) -> bool {
        self.blocked_by.is_empty() && self.blocks.is_empty()
    }

    /// Drops what is so already.
    pub(super) fn only_new(&mut self, items: &Items, list: &Arc<str>, number: u64) {
        let (before, behind): (BTreeSet<u64>, BTreeSet<u64>) =
            (items.blockers(list, number).collect(), items.blocks(list, number).collect());
        self.blocked_by.retain(|blocker| items.is_open(list, *blocker) && !before.contains(blocker));
        self.blocks.retain(|waits| !behind.contains(waits));
    }

    /// Refuses more than there is room for.
    pub(super) fn fits(&self, items: &Items, list: &Arc<str>, number: u64) -> Result<(), Error> {
        items.has_edges(list, self.blocked_by.len() + self.blocks.len())?;
        let many = |number: u64, more: usize| items.blockers(list, number).count() + more > DEPENDENCIES_MOST;
        let waits = self.blocks.iter().copied().find(|waits| many(*waits, 1));
        match waits.or_else(|| many(number, self.blocked_by.len()).then_some(number)) {
            None => Ok(()),
            Some(number) => {
                let why = format!("item {number} would wait for more than {DEPENDENCIES_MOST} others");
                Err(Error::new(Kind::InvalidParams, why)
                    .with("path", if waits.is_some() { "patch.addBlocks" } else { "patch.addBlockedBy" })
                    .with("limit", DEPENDENCIES_MOST))
            }
        }
    }

    /// Refuses what would close a circle, and shows it.
    pub(super) fn closes_no_circle(&self, items: &Items, list: &Arc<str>, number: u64) -> Result<(), Error> {
        let before: BTreeSet<u64> =
            items.blockers(list, number).chain(self.blocked_by.iter().copied()).collect();
        // From the item over what waits for it: none of that may be what it waits for, or itself.
        let mut from: BTreeMap<u64, u64> = BTreeMap::new();
        let mut todo: Vec<(u64, u64)> = items
            .blocks(list, number)
            .chain(self.blocks.iter().copied())
            .map(|next| (next, number))
            .collect();
        if before.contains(&number) {
            return Err(circle(&[number, number]));
        }
        while let Some((at, came)) = todo.pop() {
            if at == number || before.contains(&at) {
                let mut way = vec![at, came];
                while let Some(previous) = way.last().and_then(|last| from.get(last)) {
                    way.push(*previous);
                }
                if at != number {
                    way.insert(0, number);
                }
                way.reverse();
                return Err(circle(&way));
            }
            if from.insert(at, came).is_none() {
                todo.extend(items.blocks(list, at).map(|next| (next, at)));
            }
        }
        Ok(())
    }
}

/// The error about items that would wait for each other, each for the one before it.
fn circle(way: &[u64]) -> Error {
    let ids: Vec<String> = way.iter().map(ToString::to_string).collect();
    let why = match way {
        [one, other] if one == other => format!("item {one} can't wait for itself"),
        _ => format!("these items would wait for each other in a circle: {}", ids.join(" → ")),
    };
    Error::new(Kind::DependencyCycle, why).with("cycle", ids)
}
