//! Where a task may write: as far as the one that spawned it, and never farther.
//!
//! A confined program must not get out by asking the daemon for another one. Deliberately not here: what holds it there,
//! which is the kernel's and the tools' business.

use std::path::Path;

use ccagent_proto::Error;

use super::Row;
use crate::caller::Caller;
use crate::core::Core;
use crate::mailbox::Address;

impl Core {
    /// The only directories below which what a caller spawns may write: its own, else those that the edge worked out.
    pub(crate) fn writable_of(&self, caller: &Caller) -> Vec<Box<str>> {
        let own = self.confinement(caller);
        if !own.is_empty() {
            return own.to_vec();
        }
        let brief = caller.brief.as_deref();
        brief.map(|brief| brief.writable.iter().map(|dir| dir.as_str().into()).collect()).unwrap_or_default()
    }

    /// Refuses a confined caller that gives work to a task which may write where it may not.
    ///
    /// # Errors
    /// `notAuthorised`.
    pub(crate) fn refuse_wider(&self, caller: &Caller, row: &Row) -> Result<(), Error> {
        let own = self.confinement(caller);
        let within = |dir: &str| own.iter().any(|own| Path::new(dir).starts_with(&**own));
        let theirs = &row.spec.writable;
        if own.is_empty() || (!theirs.is_empty() && theirs.iter().all(|dir| within(dir))) {
            return Ok(());
        }
        let rule =
            format!("who may write only below {} gives no work to one that may elsewhere", own.join(", "));
        Err(self.refusal(caller, &rule, "operator"))
    }

    /// The same for a task that reads what a caller writes, which gives work as a prompt does. Those above it read it
    /// all the same: to them it reports.
    ///
    /// # Errors
    /// `notAuthorised`.
    pub(crate) fn refuse_wider_reader(&self, caller: &Caller, address: &Address) -> Result<(), Error> {
        let (Some(own), Some(reader)) = (self.held(caller), address.task.and_then(|id| self.tasks.get(&id)))
        else {
            return Ok(());
        };
        let reports = self.tasks.above(own).any(|id| id == reader.id);
        if reports { Ok(()) } else { self.refuse_wider(caller, reader) }
    }

    /// Refuses a confined caller that writes to another daemon, where nobody knows what it may.
    ///
    /// # Errors
    /// `notAuthorised`.
    pub(crate) fn refuse_held_abroad(&self, caller: &Caller) -> Result<(), Error> {
        if self.held(caller).is_none() {
            return Ok(());
        }
        let rule = "who may write only below some directories gives no work to another daemon's agents";
        Err(self.refusal(caller, rule, "operator"))
    }

    /// The only directories below which a caller writes; none is anywhere.
    fn confinement(&self, caller: &Caller) -> &[Box<str>] {
        self.held(caller).map(|row| &*row.spec.writable).unwrap_or_default()
    }

    /// The confined task that a caller is. Another's token does not take it out of the tree that its process is in.
    fn held(&self, caller: &Caller) -> Option<&Row> {
        let tasks = [caller.born, self.task_of(caller)].into_iter().flatten();
        tasks.filter_map(|id| self.tasks.get(&id)).find(|row| !row.spec.writable.is_empty())
    }
}
