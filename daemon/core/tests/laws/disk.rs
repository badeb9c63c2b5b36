//! The store as the core sees it: encoded records by kind and id, changed by whole batches.

use std::collections::{BTreeMap, BTreeSet};

use ccagent_core::record::Write;
use ccagent_core::task::{Prompt, Row};
use ccagent_core::{Core, Limits, Record};

/// What survives a crash.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Disk {
    rows: BTreeMap<(&'static str, String), Vec<u8>>,
}

impl Disk {
    /// Stores a batch.
    pub(crate) fn commit(&mut self, writes: &[Write]) {
        for write in writes {
            match write {
                Write::Put(record) => self.rows.insert(write.key(), record.encode().unwrap()),
                Write::Delete { .. } => self.rows.remove(&write.key()),
            };
        }
    }

    /// A record by kind and id.
    pub(crate) fn get(&self, kind: &'static str, id: &str) -> Option<Record> {
        let text = self.rows.get(&(kind, id.to_owned()))?;
        Some(Record::decode(kind, text).unwrap())
    }

    /// The ids of a kind.
    pub(crate) fn ids(&self, kind: &'static str) -> Vec<&str> {
        self.rows.keys().filter(|(of, _)| *of == kind).map(|(_, id)| id.as_str()).collect()
    }

    /// A core of what is stored.
    pub(crate) fn restore(&self, limits: Limits) -> Core {
        let loaded = self.rows.iter().filter(|((kind, _), _)| Record::LOADED.contains(kind));
        Core::restore(limits, loaded.map(|((kind, _), text)| Record::decode(kind, text).unwrap()))
    }

    /// The prompts that tasks have, also those in the archive: the newest, and each that was not said.
    fn prompts(&self, core: &Core) -> Vec<String> {
        let archived = self.ids("past").into_iter().filter_map(|id| self.get("past", id));
        let rows = core.records().into_iter().chain(archived).filter_map(|record| match record {
            Record::Task(row) => Some(row),
            Record::Past(past) => Some(past.0),
            _ => None,
        });
        let of = |row: Row| {
            let prompts = row.prompts.map(|prompts| *prompts).unwrap_or_default();
            let runs = prompts.untold.iter().map(|untold| untold.run).chain([prompts.newest]);
            runs.filter(|run| *run > 0).map(|run| Prompt::key(row.id, run)).collect::<Vec<_>>()
        };
        let keys: BTreeSet<String> = rows.flat_map(of).collect();
        keys.into_iter().collect()
    }

    /// L3: what is stored is what the core knows, and beside it only what belongs to that.
    pub(crate) fn assert_holds(&self, core: &Core) {
        let mut known: BTreeMap<(&'static str, String), Vec<u8>> = BTreeMap::new();
        let (mut launches, mut pasts, mut bodies) = (Vec::new(), Vec::new(), Vec::new());
        for record in core.records() {
            match &record {
                Record::Task(row) => launches.push(row.id.to_string()),
                Record::Archived(row) => {
                    launches.push(row.id.to_string());
                    pasts.push(row.id.to_string());
                }
                Record::Message(row) if matches!(row.text, ccagent_core::message::Text::Apart { .. }) => {
                    bodies.push(row.id.to_string());
                }
                Record::Counter(_)
                | Record::Session(_)
                | Record::Launch(_)
                | Record::Prompt(_)
                | Record::Texts(_)
                | Record::Past(_)
                | Record::Notification(_)
                | Record::Message(_)
                | Record::Body(_)
                | Record::Read(_)
                | Record::Team(_)
                | Record::Item(_)
                | Record::Ask(_)
                | Record::Grant(_)
                | Record::Key(_)
                | Record::Answer(_) => {}
            }
            known.insert((record.kind(), record.id()), record.encode().unwrap());
        }
        let stored: BTreeMap<_, _> = self
            .rows
            .iter()
            .filter(|((kind, _), _)| Record::LOADED.contains(kind))
            .map(|(key, text)| (key.clone(), text.clone()))
            .collect();
        assert_eq!(known, stored, "L3: the store is not the core");
        launches.sort();
        assert_eq!(self.ids("launch"), launches, "launch records are those of the tasks");
        pasts.sort();
        assert_eq!(self.ids("past"), pasts, "archived rows are those of the archive");
        assert_eq!(self.ids("prompt"), self.prompts(core), "prompts are those that rows know of");
        for id in self.ids("answer") {
            assert!(known.contains_key(&("key", id.to_owned())), "the answer {id} has a key");
        }
        for id in bodies {
            assert!(self.get("body", &id).is_some(), "the text of {id} is stored");
        }
    }
}
