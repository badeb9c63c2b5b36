//! The forms of a piece of a line, without the rules of any shell: as it is, without quotes, with variables that hold
//! nothing, without what only leads to a command, without its directory.
//!
//! It knows few commands, because a piece may be a sentence of a text. Not here: what the shell makes of it (`guess`).

use std::collections::HashSet;

use super::file::Named;
use super::guess::{Guessed, MOST_FILES, MOST_LEADING, TOO_MUCH};

/// Words that only lead to the command that is meant.
const WRAPPERS: &[&str] = &[
    "!", "--", "-c", ".", "bash", "builtin", "command", "coproc", "do", "doas", "elif", "else", "env",
    "eval", "exec", "if", "nice", "nohup", "setsid", "sh", "source", "stdbuf", "sudo", "then", "time",
    "timeout", "trap", "until", "while", "xargs", "zsh", "{", "}",
];
/// Commands that print the files that they name.
const READERS: &[&str] = &[
    "awk", "base64", "bat", "cat", "cut", "diff", "egrep", "fgrep", "grep", "head", "hexdump", "less",
    "more", "nl", "od", "rg", "sort", "strings", "tac", "tail", "uniq", "wc", "xxd",
];
/// Commands that change the files that they name.
const WRITERS: &[&str] = &["chmod", "chown", "rm", "shred", "tee", "touch", "truncate", "unlink"];
/// Commands that do both.
const BOTH: &[&str] = &["cp", "dd", "ed", "install", "ln", "mv", "perl", "rsync", "sed", "vi", "vim"];

/// Forms in the making.
pub(super) struct Forms {
    pub(super) made: Vec<String>,
    /// Bytes of forms of what only leads to a command that may yet be made.
    room: usize,
}

impl Forms {
    pub(super) fn of(line: &str) -> Self {
        Self { made: vec![line.trim().to_owned()], room: MOST_LEADING }
    }

    /// Adds the forms of a piece.
    pub(super) fn add(&mut self, piece: &str) {
        let piece = piece.trim();
        if piece.is_empty() {
            return;
        }
        self.made.push(piece.to_owned());
        let plain = piece.replace("\\\n", "").replace("$'", "'").replace(['\'', '"', '\\'], "");
        self.unwrap(&plain);
        if plain.contains(['<', '>']) {
            self.unwrap(&plain.replace('<', " <").replace('>', " >"));
        }
        if plain.contains('$') {
            let mut pieces = plain.split('$');
            let first = pieces.next().unwrap_or_default().to_owned();
            let rest = pieces.map(behind_name);
            self.unwrap(&rest.fold(first, |all, piece| all + piece));
        }
    }

    /// Takes away, word by word, what only leads to a command.
    fn unwrap(&mut self, plain: &str) {
        let words: Vec<&str> = plain.split_whitespace().collect();
        let is_assignment = |word: &str| {
            word.split_once('=')
                .is_some_and(|(name, _)| name.chars().all(|c| c.is_alphanumeric() || c == '_'))
        };
        let redirects = |word: &str| {
            let rest = word.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '&');
            rest.starts_with(['<', '>']).then(|| rest.trim_start_matches(['<', '>', '|', '&']).is_empty())
        };
        let (mut wrapped, mut target) = (false, false);
        for at in 0..words.len() {
            let word = words[at];
            let name = word.rsplit('/').next().unwrap_or(word);
            let redirect = redirects(word);
            let leads = target
                || WRAPPERS.contains(&name)
                || is_assignment(word)
                || wrapped
                    && (word.starts_with('-') || word.starts_with(|first: char| first.is_ascii_digit()));
            let is_last = !leads && redirect.is_none();
            if is_last || self.room > 0 {
                let form = words[at..].join(" ");
                self.room = if is_last { self.room } else { self.room.saturating_sub(form.len()) };
                self.made.push([name, &form[word.len()..]].concat());
                self.made.push(form);
            }
            if is_last {
                break;
            }
            wrapped |= leads && !target;
            target = redirect == Some(true);
        }
    }

    /// Notes the files that known commands among them name.
    pub(super) fn name_files(&self, guessed: &mut Guessed) {
        let mut seen = HashSet::new();
        for form in &self.made {
            let mut words = form.split_whitespace();
            let name = words.next().unwrap_or_default();
            let tools: &[&'static str] = match name {
                _ if READERS.contains(&name) => &["Read"],
                _ if WRITERS.contains(&name) => &["Edit"],
                _ if BOTH.contains(&name) => &["Read", "Edit"],
                _ => continue,
            };
            let paths =
                words.map(|word| word.trim_start_matches(['<', '>'])).filter(|word| !word.starts_with('-'));
            for path in paths.filter(|path| !path.is_empty()) {
                if guessed.files.len() >= MOST_FILES {
                    guessed.unclear.get_or_insert(TOO_MUCH);
                    return;
                }
                if seen.insert((tools, path)) {
                    guessed.files.extend(tools.iter().map(|tool| Named {
                        tool,
                        path: path.to_owned(),
                        glob: None,
                        dirs: 1,
                        tree: None,
                    }));
                }
            }
        }
    }
}

/// What stands behind the name of a variable.
fn behind_name(piece: &str) -> &str {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    match piece.chars().next() {
        Some('{') => piece.split_once('}').map_or(piece, |(_, behind)| behind),
        Some(first) if first.is_ascii_digit() || "@*#?!$-".contains(first) => &piece[1..],
        Some(_) | None => piece.trim_start_matches(is_name),
    }
}
