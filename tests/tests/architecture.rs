//! What ARCHITECTURE.md says of the sources, as far as a program can read it: who imports whom, what the pure parts may
//! need, and how long a file may be.

#![cfg(test)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Which modules of the daemon each of them may use; `lib` and `main` join them all.
const ARROWS: &[(&str, &[&str])] = &[
    ("config", &["store"]),
    ("confined", &[]),
    ("driver", &["hub", "store"]),
    ("facts", &["config", "driver", "hub", "llm", "rpc", "runner", "store", "trust", "vault"]),
    ("heap", &[]),
    ("hub", &[]),
    ("llm", &["confined", "driver", "hub", "panic", "store", "trust", "vault"]),
    ("log", &[]),
    ("panic", &[]),
    ("ready", &[]),
    ("removal", &[]),
    ("rpc", &["driver", "hub", "llm", "panic", "runner", "store", "vault"]),
    ("runner", &["confined", "driver", "hub", "llm", "panic", "removal", "store", "vault"]),
    ("runtime", &[]),
    ("shutdown", &[]),
    ("socket", &[]),
    ("store", &["panic", "removal"]),
    ("trust", &[]),
    ("vault", &[]),
];

/// What must not be among the dependencies of a pure crate.
const IMPURE: &[&str] =
    &["tokio", "sled", "nix", "rustix", "reqwest", "jsonrpsee", "rand", "fastrand", "tracing"];

/// Lines of a file at most.
const LONGEST: usize = 600;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every Rust file of the project below some directories.
fn sources(directories: &[&str]) -> Vec<(PathBuf, String)> {
    let mut queue: Vec<PathBuf> = directories.iter().map(|name| root().join(name)).collect();
    let mut files = Vec::new();
    while let Some(path) = queue.pop() {
        let skipped = path.file_name().is_some_and(|name| name == "target" || name == "node_modules");
        if path.is_dir() && !skipped {
            queue.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            files.push((path, text));
        }
    }
    files
}

fn everything() -> Vec<(PathBuf, String)> {
    sources(&["proto", "daemon", "client", "tests"])
}

/// A file without its tests.
fn own(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or(text)
}

/// The modules that a text names behind `crate::`.
fn named(text: &str) -> impl Iterator<Item = &str> {
    text.split("crate::").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    })
}

/// CD-07: the daemon's modules import one way; the edges know each other only where the wiring needs it.
#[test]
fn the_daemons_modules_import_one_way() {
    let source = root().join("daemon/src");
    let mut wrong = Vec::new();
    for (path, text) in sources(&["daemon/src"]) {
        let below = path.strip_prefix(&source).unwrap();
        let tests =
            below.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs");
        let module = below.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs").to_owned();
        if tests || module == "lib" || module == "main" {
            continue;
        }
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == module) else {
            wrong.push(format!("{module} is a module that ARROWS does not know"));
            continue;
        };
        for other in named(own(&text)).filter(|other| *other != module) {
            if ARROWS.iter().any(|(name, _)| *name == other) && !allowed.contains(&other) {
                wrong.push(format!("{} uses crate::{other}", below.display()));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// CD-07: of the runner the RPC edge knows the handle, and nothing that is inside.
#[test]
fn the_rpc_edge_knows_only_the_runners_handle() {
    for (path, text) in sources(&["daemon/src/rpc"]) {
        if path.iter().any(|part| part == "tests") {
            continue;
        }
        for rest in own(&text).split("crate::runner").skip(1) {
            assert!(
                rest.starts_with("::Runner;") || rest.starts_with(';'),
                "{}: crate::runner{rest:.40}",
                path.display()
            );
        }
    }
}

/// CD-07: the rules need no runtime, no store, no clock and no randomness, and neither does the wire.
#[test]
fn the_pure_crates_have_no_impure_dependency() {
    for manifest in ["daemon/core/Cargo.toml", "proto/Cargo.toml"] {
        let text = fs::read_to_string(root().join(manifest)).unwrap();
        let needed = text.split("[dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
        let names: BTreeSet<&str> =
            needed.lines().filter_map(|line| line.split(['.', ' ', '=']).next()).collect();
        let impure: Vec<&&str> = IMPURE.iter().filter(|name| names.contains(**name)).collect();
        assert!(impure.is_empty(), "{manifest}: {impure:?}");
    }
    for (path, text) in sources(&["daemon/core/src"]) {
        for word in ["SystemTime::now", "Instant::now", "async fn", "std::fs", "std::net", "Uuid::new_v"] {
            assert!(!own(&text).contains(word), "{} has {word}", path.display());
        }
    }
}

/// CD-08: the top level holds what its readers look for there, and no more source directories than that.
#[test]
fn the_top_level_is_as_promised() {
    for name in ["Cargo.toml", "README.md", "daemon", "client", "proto", "tests", "systemd"] {
        assert!(root().join(name).exists(), "{name} is missing");
    }
    assert!(!root().join("src").exists());
}

/// CD-07: a module is a file of its own name, and files stay short.
#[test]
fn files_are_named_after_their_modules_and_stay_short() {
    for (path, text) in everything() {
        assert!(path.file_name().is_none_or(|name| name != "mod.rs"), "{}", path.display());
        let lines = text.lines().count();
        assert!(lines <= LONGEST, "{} has {lines} lines", path.display());
        let stem = path.file_stem().unwrap().to_str().unwrap();
        assert!(!["utils", "helpers", "common", "manager", "imp"].contains(&stem), "{}", path.display());
    }
}

/// CD-07: a lint is expected with a reason, and never just allowed.
#[test]
fn no_lint_is_just_allowed() {
    let (outer, inner) = (concat!("#[", "allow("), concat!("#![", "allow("));
    for (path, text) in everything() {
        assert!(!text.contains(outer) && !text.contains(inner), "{}", path.display());
    }
}

/// CD-07: unsafe code stands in two named files only.
#[test]
fn unsafe_code_stands_in_two_files_only() {
    let word = concat!("unsafe", " {");
    let named = ["daemon/shim/src/raw.rs", "daemon/src/heap.rs"].map(|path| root().join(path));
    for (path, text) in everything() {
        assert_eq!(named.contains(&path), text.contains(word), "{}", path.display());
    }
}

/// CD-03: what is written to stdout or stderr by a macro panics where it can't be written, and what was to be done next
/// is not done: a terminal may go away at any time.
#[test]
fn nothing_is_printed_by_a_macro_that_panics() {
    let sources = sources(&["proto/src", "daemon/src", "daemon/core/src", "daemon/shim/src", "client/src"]);
    for (path, text) in sources {
        if path.iter().any(|part| part == "tests") {
            continue;
        }
        // Both ends of the names of all four.
        let words: Vec<_> =
            ["print!", "println!"].into_iter().filter(|word| own(&text).contains(word)).collect();
        assert!(words.is_empty(), "{}: {words:?}", path.display());
    }
}

/// CD-03: no test is switched off.
#[test]
fn no_test_is_ignored() {
    let word = concat!("#[", "ignore");
    for (path, text) in everything() {
        assert!(!text.contains(word), "{}", path.display());
    }
}
