//! Instructions: what the user and the project tell every agent, in `CLAUDE.md` and `AGENTS.md`.
//!
//! The user's come first and the nearest last, since a model heeds most what it reads last. Files that these name are
//! not read along.

use std::path::{Path, PathBuf};

use crate::definition::up_to_root;
use crate::document;

/// Bytes of one file at most.
const MOST: usize = 40 * 1024;
/// Bytes of all files at most.
const MOST_ALL: usize = 160 * 1024;
/// The files, in the order in which they are read.
const FILES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// What the files say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instructions {
    /// The files and what they say, the nearest last.
    pub files: Vec<(PathBuf, String)>,
    /// Files that could not be read, and why.
    pub problems: Vec<(PathBuf, String)>,
}

impl Instructions {
    /// Reads the files of the user (in their `.claude`), of the project's root, and of each directory from there to
    /// where the agent works.
    pub fn load(user: Option<&Path>, cwd: &Path) -> Self {
        let mut found = Self::default();
        let project = up_to_root(cwd).into_iter().rev();
        for dir in user.map(Path::to_owned).into_iter().chain(project) {
            for name in FILES {
                found.read(dir.join(name));
            }
        }
        found.bound();
        found
    }

    /// The text of the layer; `None` when there are none.
    pub fn text(&self) -> Option<String> {
        let parts: Vec<String> =
            self.files.iter().map(|(path, text)| format!("From {}:\n\n{text}", path.display())).collect();
        let head = "These are instructions of the user and of the project. Where two disagree, the later one counts.";
        (!parts.is_empty()).then(|| format!("{head}\n\n{}", parts.join("\n\n")))
    }

    fn read(&mut self, path: PathBuf) {
        match document::read_start(&path, MOST) {
            // One of the two is often a link to the other.
            Ok(Some(text)) if self.files.iter().any(|(_, other)| *other == text.trim()) => {}
            Ok(Some(text)) if text.trim().is_empty() => {}
            Ok(Some(text)) => self.files.push((path, text.trim().to_owned())),
            Ok(None) => {}
            Err(error) => self.problems.push((path, error.to_string())),
        }
    }

    /// Leaves out the farthest where it is too much.
    fn bound(&mut self) {
        let mut left = MOST_ALL;
        let fits = |(_, text): &&(PathBuf, String)| {
            let fits = text.len() <= left;
            left = left.saturating_sub(text.len());
            fits
        };
        let kept = self.files.iter().rev().take_while(fits).count();
        for (path, _) in self.files.drain(..self.files.len() - kept) {
            self.problems.push((path, format!("all instructions together are longer than {MOST_ALL} bytes")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// PR-05, CX-02: the nearest file is last, each text is there once, and nothing of outside the repository.
    #[test]
    fn the_nearest_instructions_are_last() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        fs::create_dir_all(at("home")).unwrap();
        fs::create_dir_all(at("repo/.git")).unwrap();
        fs::create_dir_all(at("repo/a/b")).unwrap();
        for (path, text) in [
            ("home/CLAUDE.md", "user"),
            ("repo/AGENTS.md", "root"),
            ("repo/a/b/CLAUDE.md", "near"),
            ("CLAUDE.md", "out"),
        ] {
            fs::write(at(path), text).unwrap();
        }
        std::os::unix::fs::symlink(at("repo/AGENTS.md"), at("repo/CLAUDE.md")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("repo/a/CLAUDE.md"), rustix::fs::Mode::from_raw_mode(0o600))
            .unwrap();
        let found = Instructions::load(Some(&at("home")), &at("repo/a/b"));
        let texts: Vec<_> = found.files.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, ["user", "root", "near"]);
        assert_eq!(found.problems.len(), 1);
        assert!(found.text().unwrap().ends_with("near"));
        assert_eq!(Instructions::load(None, &at("home/none")).text(), None);
    }

    /// CX-02: too much text is cut, and the nearest is kept.
    #[test]
    fn instructions_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(".git")).unwrap();
        let mut cwd = dir.path().to_owned();
        for at in 0..5 {
            fs::write(cwd.join("CLAUDE.md"), format!("{at}").repeat(MOST + 10)).unwrap();
            cwd.push("d");
            fs::create_dir(&cwd).unwrap();
        }
        let found = Instructions::load(None, &cwd);
        assert!(found.files.iter().map(|(_, text)| text.len()).sum::<usize>() <= MOST_ALL);
        assert!(found.files.last().unwrap().1.starts_with('4'));
        assert!(!found.problems.is_empty());
    }
}
