//! A list beside a plain model of it: whatever members do, in whatever order, and however often the daemon begins anew,
//! both say the same.

use std::collections::{BTreeMap, BTreeSet};

use ccagent_proto::method::{TasklistList, TasklistUpdate};
use ccagent_proto::team::TeamJoinParams;

use super::*;

/// An item of the model: where it stands, whose it is, and all that it was ever said to wait for.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    status: ItemStatus,
    owner: Option<&'static str>,
    waits: BTreeSet<usize>,
}

/// The items by their numbers.
#[derive(Clone, Debug, Default)]
struct Model(BTreeMap<usize, Entry>);

impl Model {
    fn open(&self, number: usize) -> bool {
        self.0.get(&number).is_some_and(|entry| entry.status.is_open())
    }

    fn blockers(&self, number: usize) -> BTreeSet<usize> {
        self.0[&number].waits.iter().copied().filter(|other| self.open(*other)).collect()
    }

    /// Whether one waits for another, over however many between them.
    fn reaches(&self, from: usize, to: usize) -> bool {
        from == to || self.blockers(from).into_iter().any(|next| self.reaches(next, to))
    }

    fn claim(&mut self, number: usize, who: &'static str) -> Result<(), Kind> {
        let Some(entry) = self.0.get(&number).cloned() else { return Err(Kind::NotFound) };
        match (entry.status, entry.owner) {
            (ItemStatus::Deleted, _) => return Err(Kind::BadTransition),
            (_, Some(other)) if other != who => return Err(Kind::ItemOwned),
            (ItemStatus::Completed, _) => return Err(Kind::BadTransition),
            (ItemStatus::InProgress, _) => return Ok(()),
            (ItemStatus::Pending, _) => {}
        }
        if !self.blockers(number).is_empty() {
            return Err(Kind::ItemBlocked);
        }
        let entry = self.0.get_mut(&number).unwrap();
        (entry.status, entry.owner) = (ItemStatus::InProgress, Some(who));
        Ok(())
    }

    fn next(&mut self, who: &'static str) -> Option<usize> {
        let numbers: Vec<usize> = self.0.keys().copied().collect();
        let pending = |number: &usize| self.0[number].status == ItemStatus::Pending;
        let first = numbers.into_iter().filter(pending).find(|n| self.clone().claim(*n, who).is_ok())?;
        self.claim(first, who).unwrap();
        Some(first)
    }

    fn complete(&mut self, number: usize, who: &'static str) -> Result<(), Kind> {
        let Some(entry) = self.0.get(&number) else { return Err(Kind::NotFound) };
        match (entry.status, entry.owner) {
            (ItemStatus::Deleted, _) => return Err(Kind::BadTransition),
            (ItemStatus::Completed, _) => return Ok(()),
            (_, Some(other)) if other != who && who != "lead" => return Err(Kind::ItemOwned),
            (ItemStatus::Pending, _) if !self.blockers(number).is_empty() => return Err(Kind::ItemBlocked),
            (ItemStatus::InProgress, _) if !self.blockers(number).is_empty() => {
                return Err(Kind::ItemBlocked);
            }
            (ItemStatus::Pending | ItemStatus::InProgress, _) => {}
        }
        self.0.get_mut(&number).unwrap().status = ItemStatus::Completed;
        Ok(())
    }

    /// Refuses who makes another's item wait.
    fn hold(&self, number: usize, who: &'static str) -> Result<(), Kind> {
        let owned = self.0.get(&number).filter(|entry| entry.status.is_open()).and_then(|entry| entry.owner);
        if owned.is_some_and(|owner| owner != who) && who != "lead" { Err(Kind::ItemOwned) } else { Ok(()) }
    }

    fn wait(&mut self, number: usize, other: usize, who: &'static str) -> Result<(), Kind> {
        self.hold(number, who)?;
        let Some(entry) = self.0.get(&number) else { return Err(Kind::NotFound) };
        let Some(blocker) = self.0.get(&other) else {
            return Err(if entry.status == ItemStatus::Deleted {
                Kind::BadTransition
            } else {
                Kind::NotFound
            });
        };
        if !entry.status.is_open() || blocker.status == ItemStatus::Deleted {
            return Err(Kind::BadTransition);
        }
        if blocker.status.is_open() && self.reaches(other, number) {
            return Err(Kind::DependencyCycle);
        }
        self.0.get_mut(&number).unwrap().waits.insert(other);
        Ok(())
    }

    fn block(&mut self, number: usize, other: usize, who: &'static str) -> Result<(), Kind> {
        let status = self.0.get(&number).map(|entry| entry.status).ok_or(Kind::NotFound)?;
        if status != ItemStatus::Deleted {
            self.hold(other, who)?;
        }
        let there = self.0.get(&other).is_some_and(|entry| entry.status != ItemStatus::Deleted);
        match status {
            ItemStatus::Deleted => Err(Kind::BadTransition),
            ItemStatus::Completed if there => Err(Kind::BadTransition),
            ItemStatus::Pending | ItemStatus::InProgress | ItemStatus::Completed => {
                self.wait(other, number, who)
            }
        }
    }

    fn delete(&mut self, number: usize, who: &'static str) -> Result<(), Kind> {
        let Some(entry) = self.0.get_mut(&number) else { return Err(Kind::NotFound) };
        if entry.status.is_open() && entry.owner.is_some_and(|owner| owner != who) && who != "lead" {
            return Err(Kind::ItemOwned);
        }
        *entry = Entry { status: ItemStatus::Deleted, owner: None, waits: BTreeSet::new() };
        Ok(())
    }
}

/// What the daemon says of the list.
fn shown(
    desk: &mut Desk,
    status: Option<ItemStatus>,
) -> Vec<(usize, ItemStatus, Option<String>, BTreeSet<usize>)> {
    let filter = Some(ItemFilter { status, ..ItemFilter::default() });
    let params = TasklistListParams { list: Some("red".into()), filter, limit: Some(1000), cursor: None };
    let items = desk.ok::<TasklistList>(&person(), params).items;
    let of = |item: Item| {
        let blockers = item.blocked_by.iter().map(|id| id.parse().unwrap()).collect();
        (item.id.parse().unwrap(), item.status, item.owner, blockers)
    };
    items.into_iter().map(of).collect()
}

/// The list and its model, with a row of numbers that decides what happens.
struct Pair {
    desk: Desk,
    model: Model,
    draw: u64,
}

impl Pair {
    fn below(&mut self, bound: u64) -> usize {
        self.draw = self.draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.draw >> 33) % bound).unwrap()
    }

    fn step(&mut self) {
        let (caller, who) = [(lead(), "lead"), (ann(), "ann"), (bob(), "bob")][self.below(3)].clone();
        let (number, other) = (1 + self.below(12), 1 + self.below(12));
        let (item, kind) = (number.to_string(), |error: Error| error.kind);
        let what = self.below(20);
        let (said, expected) = match what {
            0..=3 => return self.create(&caller, other),
            4..=6 => {
                let said = self.desk.call::<TasklistClaim>(&caller, claim(&item)).map(drop).map_err(kind);
                (said, self.model.claim(number, who))
            }
            7..=9 => {
                let said = next(&mut self.desk, &caller).map(|id| id.parse().unwrap());
                return assert_eq!(said, self.model.next(who));
            }
            10..=13 => {
                let params = patch(&item, to(ItemStatus::Completed));
                let said = self.desk.call::<TasklistUpdate>(&caller, params).map(drop).map_err(kind);
                (said, self.model.complete(number, who))
            }
            14..=15 => {
                let params = patch(&item, waits_for(&[&other.to_string()]));
                let said = self.desk.call::<TasklistUpdate>(&caller, params).map(drop).map_err(kind);
                (said, self.model.wait(number, other, who))
            }
            16..=17 => {
                let params = patch(&other.to_string(), blocks(&[&item]));
                let said = self.desk.call::<TasklistUpdate>(&caller, params).map(drop).map_err(kind);
                (said, self.model.block(other, number, who))
            }
            18 => {
                let said = self.desk.call::<TasklistDelete>(&caller, id(&item)).map(drop).map_err(kind);
                (said, self.model.delete(number, who))
            }
            _ => return self.restart(),
        };
        assert_eq!(said, expected, "{what} {number} {other} by {who}: {:?}", self.model);
    }

    fn create(&mut self, caller: &Caller, other: usize) {
        let there = self.model.0.get(&other).is_some_and(|entry| entry.status != ItemStatus::Deleted);
        let waits: BTreeSet<usize> = there.then_some(other).into_iter().collect();
        let ids: Vec<String> = waits.iter().map(ToString::to_string).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let made = self.desk.ok::<TasklistCreate>(caller, entry("a part", &ids));
        let number = self.model.0.len() + 1;
        assert_eq!(made.id, number.to_string());
        self.model.0.insert(number, Entry { status: ItemStatus::Pending, owner: None, waits });
    }

    /// Who sits down again without its token is somebody else, so what it had is open.
    fn restart(&mut self) {
        self.desk.restart();
        for (conn, name) in [(10, "lead"), (11, "ann"), (12, "bob")] {
            let join = TeamJoinParams { team_name: "red".into(), name: name.into(), ..Default::default() };
            self.desk.ok::<TeamJoin>(&Caller::operator(conn), join);
        }
        for entry in self.model.0.values_mut().filter(|entry| entry.status.is_open()) {
            (entry.status, entry.owner) = (ItemStatus::Pending, None);
        }
    }

    fn compare(&mut self) {
        let mut all = shown(&mut self.desk, None);
        all.extend(shown(&mut self.desk, Some(ItemStatus::Deleted)));
        all.sort_by_key(|entry| entry.0);
        let of = |(number, entry): (&usize, &Entry)| {
            let open = entry.status.is_open();
            let blockers = if open { self.model.blockers(*number) } else { BTreeSet::new() };
            (*number, entry.status, entry.owner.map(str::to_owned), blockers)
        };
        assert_eq!(all, self.model.0.iter().map(of).collect::<Vec<_>>());
    }
}

/// TL-04, TL-05, TL-06, TL-08, TL-09, I112, I113: random calls of three members against the model, each refusal by its
/// kind; a restart in between forgets nothing.
#[test]
fn a_list_does_what_its_model_does() {
    for seed in 1..=30 {
        let mut pair = Pair { desk: red(), model: Model::default(), draw: seed };
        for _ in 0..200 {
            pair.step();
            pair.compare();
        }
    }
}
