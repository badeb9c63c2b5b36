//! From what a caller writes to a task: a full id, a unique prefix of one, or a live agent's name.

use ccagent_proto::{Error, Kind, TaskId};
use uuid::Uuid;

use super::Row;
use crate::caller::{Caller, Who};
use crate::core::Core;

/// Matches that an ambiguous reference lists at most.
const SHOWN: usize = 20;

/// What a reference means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A live or held task.
    Live(TaskId),
    /// An archived one.
    Archived(TaskId),
}

impl Core {
    /// Finds a task.
    ///
    /// # Errors
    /// `taskNotFound`, with `data.matches` when more than one fits.
    pub fn find(&self, text: &str) -> Result<Found, Error> {
        if let Some(id) = self.live_name(text) {
            return Ok(Found::Live(id));
        }
        let Some((low, high)) = prefix_range(text) else {
            // An agent that ended a moment ago is still called by its name, until it is archived.
            return self.held_name(text).map(Found::Live).ok_or_else(|| not_found(text));
        };
        let live =
            self.tasks.range(low..=high).filter(|row| row.spec.persist || low == high).map(|row| row.id);
        let past = self.archive.range(low..=high).map(|entry| entry.id);
        let matches: Vec<Found> =
            live.map(Found::Live).chain(past.map(Found::Archived)).take(SHOWN + 1).collect();
        match matches.as_slice() {
            [] => Err(not_found(text)),
            [found] => Ok(*found),
            _ => {
                let ids: Vec<String> =
                    matches.iter().take(SHOWN).map(|found| found.id().to_string()).collect();
                Err(Error::new(
                    Kind::TaskNotFound,
                    format!("{text:?} fits more than one task: write more of it"),
                )
                .with("matches", ids))
            }
        }
    }

    /// Finds a live or held task.
    pub(crate) fn task(&self, text: &str) -> Result<&Row, Error> {
        match self.find(text)? {
            Found::Live(id) => self.tasks.get(&id).ok_or_else(|| not_found(text)),
            Found::Archived(id) => {
                Err(Error::new(Kind::TaskNotFound, format!("task {id} is in the archive"))
                    .with("archived", id.to_string()))
            }
        }
    }

    /// Finds a task for a caller: to an agent or a member, one that it may not see is none. Whose an archived one was is
    /// not in memory: the error names it, so that the edge finds out.
    pub(crate) fn find_for(&self, caller: &Caller, text: &str) -> Result<Found, Error> {
        let found = self.find(text)?;
        let seen = match found {
            _ if caller.who == Who::Operator => true,
            Found::Live(id) => self.tasks.get(&id).is_some_and(|row| self.may_see(caller, row)),
            Found::Archived(id) if caller.past.contains(&id) => true,
            Found::Archived(id) => return Err(not_found(text).with("archived", id.to_string())),
        };
        if seen { Ok(found) } else { Err(not_found(text)) }
    }

    /// The newest held task of an agent with a name.
    fn held_name(&self, text: &str) -> Option<TaskId> {
        let (name, team) = text.split_once('@').map_or((text, None), |(name, team)| (name, Some(team)));
        let called = |row: &&Row| row.name.as_deref() == Some(name) && row.team() == team;
        self.tasks.iter().rev().find(called).map(|row| row.id)
    }

    fn live_name(&self, text: &str) -> Option<TaskId> {
        match text.split_once('@') {
            None => self.tasks.named(text),
            Some((name, team)) => {
                let member = self.teams.get(&team.to_owned())?.member(name)?;
                member.task.filter(|id| self.tasks.get(id).is_some_and(|row| !row.is_done()))
            }
        }
    }
}

impl Found {
    /// The task's id.
    pub const fn id(self) -> TaskId {
        match self {
            Self::Live(id) | Self::Archived(id) => id,
        }
    }
}

fn not_found(text: &str) -> Error {
    Error::new(Kind::TaskNotFound, format!("no task {text:?}")).with("taskId", text)
}

/// The ids that begin with a text: `agent_` and hexadecimal digits, hyphens in their places or left out.
fn prefix_range(text: &str) -> Option<(TaskId, TaskId)> {
    let digits: String = text.strip_prefix("agent_").unwrap_or(text).chars().filter(|c| *c != '-').collect();
    let good = digits.len() <= 32
        && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b.to_ascii_lowercase()));
    // A prefix that a person types has at least four digits; fewer would hit by chance.
    if !good || digits.len() < 4 {
        return None;
    }
    let bound = |fill: &str| {
        let full = format!("{digits}{}", fill.repeat(32 - digits.len()));
        u128::from_str_radix(&full, 16).ok().map(|bits| TaskId(Uuid::from_u128(bits)))
    };
    Some((bound("0")?, bound("f")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full id is a range of one; a prefix spans what begins with it; other texts are no prefix.
    #[test]
    fn a_prefix_is_a_range_of_ids() {
        let id: TaskId = "agent_01890000-0000-7000-8000-0000000000ff".parse().unwrap();
        assert_eq!(prefix_range(&id.to_string()), Some((id, id)));
        let (low, high) = prefix_range("agent_0189").unwrap();
        assert!(low <= id && id <= high);
        assert_eq!(prefix_range("0189"), prefix_range("agent_0189"));
        for bad in
            ["", "agent_", "012", "worker", "agent_zzzz", "agent_01890000-0000-7000-8000-0000000000ff0"]
        {
            assert_eq!(prefix_range(bad), None, "{bad}");
        }
    }
}
