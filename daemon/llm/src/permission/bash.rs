//! Shell commands, taken apart: which commands one line runs, and whether that is all it does.
//!
//! This is no shell. What it does not understand it calls opaque, and no rule for single commands allows that: quoting
//! that does not end, substitutions, subshells, redirections into files, comments, here-documents, control characters.
//!
//! To deny or ask, a guess is enough; so every form in which a command or a file may hide is looked at, in two ways. By
//! the shell's own rules (`bash::lex`, `bash::word`, `bash::guess`): quotes, expansions, wrappers, redirections, scripts
//! within a line. And without any rules (`bash::form`): the pieces between all letters that may end a command, because
//! another shell, or a mistake here, may read the line differently. Where the rules see that something runs and can't
//! tell what, the line is unclear, and is asked for where a rule keeps commands or files.
//!
//! The ready-made parsers do not fit. They take a line whole or not at all, while a guess is needed also of what no
//! shell would take; and they go down as deep as a line is nested, so a line of brackets overflows the stack and ends
//! the daemon (`brush-parser`), or are under the GPL (`yash-syntax`), long without a release (`conch-parser`), split
//! words and know no commands (`shell-words`), or are a generated parser in C that leaves quotes and expansions to us
//! (`tree-sitter-bash`).
//!
//! What can't be seen by looking at a line: what a file of a script does, a program of an interpreter (`python -c`,
//! `awk`, a makefile), what a list from elsewhere makes of `xargs cat`, arguments that a program made, a copy of a program
//! under another name, a program that opens files of its own accord, what is behind the bound in a large tree, a function
//! or an alias of another file, the home of another user. There only confinement holds: what may not be read
//! or written has to be out of reach for the process, not for its command line.

use form::Forms;

mod brace;
mod file;
mod form;
mod guess;
mod known;
mod lex;
mod word;

pub(super) use file::{Hidden, Named, Tree};
pub use guess::Guessed;
pub(super) use word::{HERE, HOME};

/// A line, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    /// The commands that run one after the other or beside each other, as they were written.
    pub parts: Vec<String>,
    /// Why they may not be all.
    pub opaque: Option<&'static str>,
}

impl Commands {
    /// Takes a line apart.
    pub fn of(line: &str) -> Self {
        let mut scan = Scan { rest: line.chars().peekable(), found: Self::default(), part: String::new() };
        if line.chars().any(|letter| letter.is_control() && letter != '\n' && letter != '\t') {
            scan.opaque("it has control characters");
        }
        // Also in single quotes: some commands expand their arguments.
        if line.contains("$(") || line.contains('`') {
            scan.opaque("it has a substitution");
        }
        scan.run();
        scan.end_part();
        scan.found
    }

    /// Every form of a command that may be in it; for rules that deny or ask.
    pub fn guesses(&self, line: &str) -> Vec<String> {
        self.guess(line).commands
    }

    /// Everything that the line may do; for rules that deny or ask.
    pub fn guess(&self, line: &str) -> Guessed {
        let mut guessed = guess::guess(line);
        let mut forms = Forms::of(line);
        for part in &self.parts {
            forms.add(part);
        }
        if self.opaque.is_some() {
            let ends = |letter| ";|&\n()`<>{}".contains(letter);
            // `${a:-rm}` is `rm` where there is no `a`.
            let parts = line
                .split(ends)
                .flat_map(|part| [part, part.rsplit([':', '-', '=', '+']).next().unwrap_or("")]);
            parts.for_each(|part| forms.add(part));
        }
        forms.name_files(&mut guessed);
        guessed.commands.append(&mut forms.made);
        guessed
    }
}

/// The way through a line.
struct Scan<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    found: Commands,
    part: String,
}

impl Scan<'_> {
    fn opaque(&mut self, why: &'static str) {
        self.found.opaque.get_or_insert(why);
    }

    fn end_part(&mut self) {
        let part = std::mem::take(&mut self.part);
        if !part.trim().is_empty() {
            self.found.parts.push(part.trim().to_owned());
        }
    }

    fn next_is(&mut self, letter: char) -> bool {
        self.rest.next_if_eq(&letter).is_some()
    }

    fn run(&mut self) {
        while let Some(letter) = self.rest.next() {
            match letter {
                '\\' => self.escaped(),
                '\'' => self.single(),
                '"' => self.double(),
                '$' => self.dollar(),
                '#' if self.at_word_start() => self.comment(),
                '(' | ')' => {
                    self.opaque("it has a subshell");
                    self.end_part();
                }
                '&' if self.rest.peek() == Some(&'>') => self.part.push('&'),
                ';' | '|' | '&' | '\n' => self.end_part(),
                '<' => self.input(),
                '>' => self.output(),
                _ => self.part.push(letter),
            }
        }
    }

    fn at_word_start(&self) -> bool {
        self.part.chars().next_back().is_none_or(|last| last.is_whitespace() || "<>".contains(last))
    }

    fn escaped(&mut self) {
        match self.rest.next() {
            // The line goes on.
            Some('\n') => {}
            Some(letter) => self.part.extend(['\\', letter]),
            None => self.opaque("it ends in a backslash"),
        }
    }

    fn single(&mut self) {
        self.part.push('\'');
        loop {
            match self.rest.next() {
                Some('\'') => return self.part.push('\''),
                Some(letter) => self.part.push(letter),
                None => return self.opaque("a quote does not end"),
            }
        }
    }

    fn double(&mut self) {
        self.part.push('"');
        loop {
            match self.rest.next() {
                Some('"') => return self.part.push('"'),
                Some('\\') => self.escaped(),
                Some('$') => self.dollar_in_quotes(),
                Some(letter) => self.part.push(letter),
                None => return self.opaque("a quote does not end"),
            }
        }
    }

    fn dollar(&mut self) {
        // `$'…'` has rules of its own.
        if self.rest.peek() == Some(&'\'') {
            self.opaque("it has a quote with escapes");
        }
        self.dollar_in_quotes();
    }

    /// A variable; what is more than its name may run something.
    fn dollar_in_quotes(&mut self) {
        self.part.push('$');
        if self.rest.peek() == Some(&'[') {
            self.opaque("it has an expansion that may run something");
        }
        if !self.next_is('{') {
            return;
        }
        self.part.push('{');
        while let Some(letter) = self.rest.next_if(|letter| letter.is_ascii_alphanumeric() || *letter == '_')
        {
            self.part.push(letter);
        }
        if self.rest.peek() != Some(&'}') {
            self.opaque("it has an expansion that may run something");
        }
    }

    /// What is in a comment is no command, and quotes in it are none.
    fn comment(&mut self) {
        self.opaque("it has a comment");
        while self.rest.next_if(|letter| *letter != '\n').is_some() {}
    }

    fn input(&mut self) {
        self.part.push('<');
        if matches!(self.rest.peek(), Some('<' | '(' | '>' | '&')) {
            self.opaque("it has a here-document or a redirection that is not plain");
        }
    }

    /// Only what goes nowhere, or to another output, writes no file.
    fn output(&mut self) {
        self.part.push('>');
        if self.next_is('>') {
            self.part.push('>');
        }
        let ahead: String = self.rest.clone().skip_while(|letter| " \t".contains(*letter)).take(10).collect();
        let ends = |rest: &str| rest.is_empty() || rest.starts_with([' ', '\t', ';', '|', '\n', '&']);
        let harmless = ["&1", "&2", "/dev/null"].iter().any(|to| ahead.strip_prefix(to).is_some_and(ends));
        if !harmless {
            self.opaque("it writes into a file");
        }
        // The `&` of `>&1` separates nothing.
        if self.next_is('&') {
            self.part.push('&');
        }
    }
}

#[cfg(test)]
mod tests;
