//! Scripts within a line: what a shell is given as a text, as its input, or by `find`.

use super::super::lex::{Found, Simple, Start, Way};
use super::super::word::{Choice, Field, HELD};
use super::{Given, Guesser, Job, SCRIPT};

impl Guesser {
    pub(super) fn shell(&mut self, args: &[Field], given: &Given<'_>) {
        let mut words = args.iter();
        let (mut takes_script, mut takes_input) = (false, false);
        let operand = loop {
            match words.next() {
                Some(word) if word.text == "--" => break words.next(),
                Some(word) if word.text.starts_with("--") => {}
                Some(word) if word.text.len() > 1 && word.text.starts_with(['-', '+']) => {
                    takes_script |= word.text.contains('c');
                    takes_input |= word.text.contains('s');
                    if word.text.ends_with(['o', 'O']) {
                        words.next();
                    }
                }
                word => break word,
            }
        };
        // The name of a script is looked for as that of a command is.
        if let Some(at) = operand.and_then(|operand| args.iter().position(|arg| std::ptr::eq(arg, operand))) {
            self.form(&args[at..]);
        }
        match operand {
            Some(script) if takes_script => self.add_script(&script.text, Start::Script),
            Some(script)
                if !takes_input
                    && !is_input(script)
                    && !given.simple.is_some_and(|simple| simple.has_process) => {}
            Some(_) | None if args.iter().any(|arg| ["--version", "--help"].contains(&arg.text.as_str())) => {
            }
            Some(_) | None => self.input(given),
        }
    }

    /// A shell runs what it reads.
    pub(super) fn input(&mut self, given: &Given<'_>) {
        let (Some(simple), Some(found)) = (given.simple, given.found) else { return self.unclear(SCRIPT) };
        let mut is_known = false;
        for number in &simple.documents {
            if let Some(document) = found.documents.get(*number) {
                self.add_script(&document.text, Start::Script);
                is_known = true;
            }
        }
        for (way, word) in &simple.redirects {
            match way {
                Way::Text => {
                    let text = self.values.whole(word, Choice::Nth(0));
                    self.add_script(&text, Start::Script);
                    is_known = true;
                }
                // It is a script's file.
                Way::Reads | Way::Both => is_known = true,
                Way::Writes | Way::Document(_) => {}
            }
        }
        if let Some(said) = simple.piped.and_then(|number| found.commands.get(number)) {
            is_known |= self.said(said, found);
        }
        if !is_known || simple.has_process {
            self.unclear(SCRIPT);
        }
    }

    /// Takes what a command says as a script, where it only says what it is given.
    fn said(&mut self, simple: &Simple, found: &Found) -> bool {
        let fields = self.fields(simple, Choice::Nth(0));
        let Some((first, args)) = fields.split_first() else { return false };
        match first.name() {
            "echo" | "printf" => {
                let args = args
                    .iter()
                    .map(|field| field.text.as_str())
                    .filter(|text| !["-e", "-n", "-ne", "--"].contains(text));
                let text = args.collect::<Vec<_>>().join(" ");
                self.add_script(&text.replace("\\n", "\n").replace("%s", ""), Start::Script);
                // What is written by its number can't be read here.
                !text.contains('\\')
            }
            "cat" if args.is_empty() && !simple.documents.is_empty() => {
                for document in simple.documents.iter().filter_map(|number| found.documents.get(*number)) {
                    self.add_script(&document.text, Start::Script);
                }
                true
            }
            _ => false,
        }
    }

    /// What find runs for what it finds.
    pub(super) fn find(&mut self, args: &[Field]) {
        let runs = |field: &Field| ["-exec", "-execdir", "-ok", "-okdir"].contains(&field.text.as_str());
        for command in args.split(runs).skip(1) {
            let end = command.iter().position(|field| [";", "+"].contains(&field.text.as_str()));
            let command = &command[..end.unwrap_or(command.len())];
            let length = command.iter().map(|field| field.text.len() + 1).sum();
            self.add(Job::Command(command.to_vec()), length);
        }
    }
}

/// Whether a file is what the command reads anyway.
pub(super) fn is_input(field: &Field) -> bool {
    ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"].contains(&field.text.as_str())
        || field.text.starts_with(HELD)
}
