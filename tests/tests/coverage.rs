//! Every requirement that this stage promises is named by the doc comment of a test.

#![cfg(test)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The promised requirements: a group, and the numbers in it.
const PROMISED: &[(&str, &[u32])] = &[
    ("SV", &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ("CD", &[1, 2, 3, 4, 5, 6, 7, 8]),
    (
        "AD",
        &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27],
    ),
    ("PR", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]),
    ("CO", &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ("MD", &[1, 2, 3, 4, 5]),
    ("TP", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 22, 23, 24]),
    ("TR", &[2]),
    (
        "SP",
        &[
            1, 2, 3, 4, 5, 6, 7, 9, 14, 16, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33,
            34, 35, 37, 38,
        ],
    ),
    ("TS", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]),
    ("PG", &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ("OF", &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ("NT", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
    ("RS", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16]),
    ("AB", &[1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12]),
    ("FB", &[1, 2, 3, 4, 5, 6, 7]),
    ("SE", &[1, 2, 3, 4]),
    ("MB", &[1, 2, 3, 6, 12, 13, 15, 16, 18, 19]),
    ("RT", &[1, 2, 3, 5, 6, 7, 8, 9, 11, 12, 13]),
    ("CX", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18]),
    ("FF", &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ("FK", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23]),
    ("PL", &[3, 4, 5]),
    ("PM", &[3, 7, 9, 10]),
    ("TM", &[8, 17]),
    ("TL", &[1, 2, 3, 4, 5, 6, 8, 9, 10, 12]),
];

/// Faults that the tests of this stage stand against.
const FAULTS: &[&str] = &[
    "A1", "A2", "A6", "A9", "A12", "A17", "A21", "B24", "B25", "B36", "B38", "C40", "C42", "C44", "C45",
    "D49", "D50", "D52", "D53", "D54", "E72", "E73", "E76", "I112", "I113", "I114", "J117", "J121", "J124",
    "J128", "J129", "J132", "J133", "J134", "M150",
];

/// The ids that doc comments of tests name.
fn named() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut queue: Vec<PathBuf> =
        ["tests/tests", "daemon", "client", "proto"].map(|name| root.join(name)).to_vec();
    let mut ids = BTreeSet::new();
    while let Some(path) = queue.pop() {
        if path.is_dir() {
            queue.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            collect(&fs::read_to_string(&path).unwrap(), &mut ids);
        }
    }
    ids
}

/// Adds what stands in the doc comments above test attributes.
fn collect(text: &str, ids: &mut BTreeSet<String>) {
    let mut doc = String::new();
    for line in text.lines().map(str::trim_start) {
        if let Some(words) = line.strip_prefix("///") {
            doc.push_str(words);
        } else if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            let words = doc.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
            ids.extend(words.map(str::to_owned));
        } else if !line.starts_with("#[") {
            doc.clear();
        }
    }
}

/// CD-02: what is promised is tested, by name.
#[test]
fn every_promised_requirement_is_named_by_a_test() {
    let named = named();
    let promised =
        PROMISED.iter().flat_map(|(group, numbers)| numbers.iter().map(move |n| format!("{group}-{n:02}")));
    let faults = FAULTS.iter().map(|fault| (*fault).to_owned());
    let missing: Vec<String> = promised.chain(faults).filter(|id| !named.contains(id)).collect();
    assert_eq!(missing, Vec::<String>::new());
}
