//! What an agent remembers over its runs: a directory of its own, whose `MEMORY.md` it reads at the start (AD-26).

use std::path::{Path, PathBuf};

use crate::definition::MemoryScope;
use crate::document::{self, DocumentError};

/// Lines of `MEMORY.md` that are read.
const LINES: usize = 200;
/// Bytes of it that are read.
const BYTES: usize = 25 * 1024;

/// Where memories are.
#[derive(Clone, Copy, Debug)]
pub struct Roots<'a> {
    /// The user's `.claude`.
    pub user: &'a Path,
    /// The root of the project.
    pub project: &'a Path,
}

/// The directory of an agent's memory. Whatever its name is, the directory is below the root.
pub fn dir(scope: MemoryScope, agent: &str, roots: Roots<'_>) -> PathBuf {
    let safe = |letter: char| if letter.is_alphanumeric() || "-_.".contains(letter) { letter } else { '-' };
    let mut name: String = agent.chars().map(safe).collect();
    if name.chars().all(|letter| letter == '.') {
        name = "-".repeat(name.len().max(1));
    }
    match scope {
        MemoryScope::User => roots.user.join("agent-memory").join(name),
        MemoryScope::Project => roots.project.join(".claude/agent-memory").join(name),
        MemoryScope::Local => roots.project.join(".claude/agent-memory-local").join(name),
    }
}

/// The text of the layer: where the memory is, and how it begins.
///
/// # Errors
/// `MEMORY.md` is there and can't be read.
pub fn text(dir: &Path) -> Result<String, DocumentError> {
    let index = dir.join("MEMORY.md");
    let head = format!(
        "You have a memory in {}. Keep in it what will help you in later runs: how things are done here, decisions with \
         their reasons, what misled you. `MEMORY.md` is what you are shown at the start, its first {LINES} lines; keep it \
         short, and put details into files beside it that it names. Take out what turned out wrong.",
        dir.display()
    );
    let Some(text) = document::read_start(&index, BYTES)? else {
        return Ok(format!("{head}\n\nIt is still empty."));
    };
    let lines: Vec<&str> = text.lines().take(LINES).collect();
    Ok(format!("{head}\n\nMEMORY.md:\n\n{}", lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AD-26: three scopes, and no name leads out of them.
    #[test]
    fn an_agents_memory_is_below_its_root() {
        let roots = Roots { user: Path::new("/h/.claude"), project: Path::new("/p") };
        assert_eq!(dir(MemoryScope::User, "a", roots), Path::new("/h/.claude/agent-memory/a"));
        assert_eq!(dir(MemoryScope::Project, "a", roots), Path::new("/p/.claude/agent-memory/a"));
        assert_eq!(
            dir(MemoryScope::Local, "plug:dir:a", roots),
            Path::new("/p/.claude/agent-memory-local/plug-dir-a")
        );
        for hostile in ["..", ".", "", "../../etc", "/etc", "a/../../b"] {
            let path = dir(MemoryScope::User, hostile, roots);
            assert_eq!(path.parent().unwrap(), Path::new("/h/.claude/agent-memory"), "{hostile}");
            assert!(!path.file_name().is_none_or(|name| name == ".." || name == "."), "{hostile}");
        }
    }

    /// AD-26: the first 200 lines, or 25 KB, are shown.
    #[test]
    fn a_memory_is_shown_up_to_its_bounds() {
        let dir = tempfile::tempdir().unwrap();
        assert!(text(dir.path()).unwrap().ends_with("still empty."));
        let lines: Vec<_> = (0..300).map(|at| format!("line {at}")).collect();
        std::fs::write(dir.path().join("MEMORY.md"), lines.join("\n")).unwrap();
        assert!(text(dir.path()).unwrap().ends_with("line 199"));
        std::fs::write(dir.path().join("MEMORY.md"), "x".repeat(100_000)).unwrap();
        assert!(text(dir.path()).unwrap().len() < BYTES + 1000);
    }
}
