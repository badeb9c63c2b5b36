//! The store against a plain map: whatever is written, read, overwritten and reopened, both say the same.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::engine::Order;
use super::super::{Row, Store, Write, codec};
use super::{KINDS, bytes, commit, delete, open, put};

type Map = BTreeMap<(Box<str>, Box<str>), Vec<u8>>;

#[derive(Debug, Clone)]
enum Step {
    Commit(Vec<(usize, u8, Option<usize>, u64)>),
    Reopen,
}

fn length() -> impl Strategy<Value = usize> {
    let edges = prop::sample::select(vec![0, 1, 3071, 3072, 3073, 6143, 6144, 6145, 9216, 9217]);
    prop_oneof![3 => edges, 2 => 0..40_000_usize, 2 => 0..200_usize]
}

fn step() -> impl Strategy<Value = Step> {
    let write = (0..KINDS.len(), 0..12_u8, prop::option::weighted(0.8, length()), any::<u64>());
    prop_oneof![9 => prop::collection::vec(write, 1..6).prop_map(Step::Commit), 1 => Just(Step::Reopen)]
}

/// Ids that are prefixes of each other and hold the separator.
fn id(number: u8) -> String {
    match number % 3 {
        0 => "a".repeat(usize::from(number / 3) + 1),
        1 => format!("a/{}", number / 3),
        _ => format!("é{}", number / 3),
    }
}

fn writes(step: &[(usize, u8, Option<usize>, u64)]) -> Vec<Write> {
    let write = |(kind, number, length, seed): &(usize, u8, Option<usize>, u64)| Write {
        kind: KINDS[*kind],
        id: id(*number).into(),
        value: length.map(|length| bytes(*seed, length)),
    };
    step.iter().map(write).collect()
}

fn check(store: &Store, map: &Map) {
    let rows: Vec<_> =
        store.rows(KINDS, Row::of).map(Result::unwrap).map(|row| ((row.kind, row.id), row.value)).collect();
    assert_eq!(rows.len(), map.len());
    assert!(rows.into_iter().collect::<Map>() == *map, "the rows are not those of the map");
    for kind in KINDS {
        let wanted: Vec<_> = map.keys().filter(|key| &*key.0 == *kind).map(|key| key.1.clone()).collect();
        assert_eq!(paged(store, kind, Order::Ascending), wanted);
        let mut backwards = paged(store, kind, Order::Descending);
        backwards.reverse();
        assert_eq!(backwards, wanted);
    }
    for ((kind, id), value) in map {
        assert!(store.get(kind, id).unwrap().as_ref() == Some(value), "{kind}/{id} is not what was written");
    }
    for record in store.engine.raw().iter().values() {
        assert!(record.unwrap().len() <= codec::PART + 6, "a record is so long that it may leave the log");
    }
}

fn paged(store: &Store, kind: &str, order: Order) -> Vec<Box<str>> {
    let mut ids: Vec<Box<str>> = Vec::new();
    loop {
        let page = store.scan(kind, ids.last().map(|id| &**id), 3, order).unwrap();
        if page.is_empty() {
            return ids;
        }
        ids.extend(page.into_iter().map(|row| row.id));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// I1, L3
    #[test]
    fn store_says_what_a_map_says(steps in prop::collection::vec(step(), 1..24)) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path());
        let mut map = Map::new();
        for step in steps {
            match step {
                Step::Commit(step) => {
                    let writes = writes(&step);
                    commit(&store, writes.clone()).unwrap();
                    for Write { kind, id, value } in writes {
                        match value {
                            Some(value) => map.insert((kind.into(), id), value),
                            None => map.remove(&(kind.into(), id)),
                        };
                    }
                }
                Step::Reopen => {
                    drop(store);
                    store = open(dir.path());
                }
            }
        }
        check(&store, &map);
        drop(store);
        check(&open(dir.path()), &map);
    }
}

/// I1
#[test]
fn value_of_a_mebibyte_is_whole_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let value = bytes(1, 1 << 20);
    commit(&store, vec![put("body", "b", value.clone()), put("body", "c", "small")]).unwrap();
    assert!(store.get("body", "b").unwrap().as_ref() == Some(&value));
    drop(store);
    let store = open(dir.path());
    assert!(store.get("body", "b").unwrap() == Some(value));
    // Everywhere one row more: the number of the last commit.
    assert_eq!(store.engine.raw().len(), 2 + (1_usize << 20).div_ceil(3072) + 1);
    commit(&store, vec![put("body", "b", "now small")]).unwrap();
    assert_eq!(store.engine.raw().len(), 3);
    commit(&store, vec![delete("body", "b"), delete("body", "absent")]).unwrap();
    assert_eq!(store.engine.raw().len(), 2);
    assert_eq!(std::fs::read_dir(dir.path().join("db/blobs")).unwrap().count(), 0);
}

/// I2
#[test]
fn last_write_of_a_key_in_a_commit_counts() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    commit(&store, vec![put("task", "t", bytes(1, 9000)), delete("task", "t"), put("task", "t", "last")])
        .unwrap();
    commit(&store, vec![put("task", "u", "first"), delete("task", "u")]).unwrap();
    assert_eq!(store.get("task", "t").unwrap().as_deref(), Some(&b"last"[..]));
    assert_eq!(store.get("task", "u").unwrap(), None);
    // The row, and the number of the last commit.
    assert_eq!(store.engine.raw().len(), 2);
}

/// I8
#[test]
fn impossible_writes_are_refused_and_harm_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let unknown = commit(&store, vec![put("task", "fine", "x"), put("other", "o", "x")]).unwrap_err();
    assert!(unknown.to_string().contains("other/o"), "{unknown}");
    for id in ["", "a\0b", &"x".repeat(1025)] {
        commit(&store, vec![put("task", id, "x")]).unwrap_err();
    }
    assert_eq!(store.get("task", "fine").unwrap(), None);
    commit(&store, vec![put("task", "fine", "x")]).unwrap();
}

/// I1, I2
#[test]
fn reader_never_sees_half_a_replacement() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let versions = [bytes(1, 50_000), bytes(2, 4_000)];
    commit(&store, vec![put("body", "b", versions[0].clone())]).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..200 {
                commit(&store, vec![put("body", "b", versions[round % 2].clone())]).unwrap();
            }
        });
        while !writer.is_finished() {
            let value = store.get("body", "b").unwrap().unwrap();
            assert!(versions.contains(&value));
            let page = store.scan("body", None, 10, Order::Ascending).unwrap();
            assert!(page.len() == 1 && versions.contains(&page[0].value));
        }
    });
}
