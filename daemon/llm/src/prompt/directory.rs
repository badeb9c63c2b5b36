//! A view of a directory: the names that an agent would look for first (CX-02).

use std::path::Path;

use ignore::WalkBuilder;

/// Entries that are looked at, at most.
const LOOKED_AT: usize = 5_000;
/// Entries that are shown, at most.
const SHOWN: usize = 200;
/// Levels that are shown.
const LEVELS: usize = 2;

/// The text of the layer: two levels of names, without what git ignores and what is hidden.
pub fn text(cwd: &Path) -> Option<String> {
    let walk = WalkBuilder::new(cwd).max_depth(Some(LEVELS)).require_git(false).follow_links(false).build();
    let mut names = Vec::new();
    for entry in walk.take(LOOKED_AT).filter_map(Result::ok) {
        let Ok(below) = entry.path().strip_prefix(cwd) else { continue };
        if entry.depth() > 0 {
            let slash = if entry.file_type().is_some_and(|kind| kind.is_dir()) { "/" } else { "" };
            let name = below.display().to_string().replace(char::is_control, "?");
            names.push((entry.depth(), name + slash));
        }
    }
    // The first level is whole before the second is shown, and what is shown is in the order of names.
    names.sort();
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    let mut lines: Vec<String> = names.into_iter().map(|(_, name)| name).collect();
    lines.sort();
    if more > 0 {
        lines.push(format!("… and {more} more"));
    }
    (!lines.is_empty()).then(|| format!("What is in {}:\n\n{}", cwd.display(), lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// CX-02: two levels in order, without what is ignored, and bounded.
    #[test]
    fn a_view_has_two_levels_and_a_bound() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        assert_eq!(text(dir.path()), None);
        fs::create_dir_all(at("src/deep/er")).unwrap();
        fs::create_dir_all(at("target")).unwrap();
        for path in ["Cargo.toml", "src/lib.rs", "src/deep/x.rs", "target/out", ".hidden"] {
            fs::write(at(path), "").unwrap();
        }
        fs::write(at(".gitignore"), "target\n").unwrap();
        let shown = text(dir.path()).unwrap();
        assert!(shown.ends_with(":\n\nCargo.toml\nsrc/\nsrc/deep/\nsrc/lib.rs"), "{shown}");
        for file in 0..300 {
            fs::write(at(&format!("src/{file}")), "").unwrap();
        }
        let shown = text(dir.path()).unwrap();
        assert!(shown.contains("\nCargo.toml\n") && shown.ends_with("… and 104 more"), "{shown}");
        assert_eq!(shown.lines().count(), SHOWN + 3);
    }
}
