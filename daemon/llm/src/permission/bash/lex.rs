//! A line, cut into its simple commands by the shell's own rules for quotes, redirections and what may be nested.
//!
//! One pass, with a stack of what is open; so no line costs more than its length. What is nested (substitutions,
//! subshells, functions, loops) comes out as commands of its own, the inner ones first. This is for rules that deny or
//! ask: it never fails, and what no shell would take comes out as something. Not here: what words become (`word`).

use std::rc::Rc;

use super::word::{FREE, HELD, Letter, Value, Word};

mod expand;

/// What may be open at a time.
const DEEPEST: usize = 1000;
/// Words behind which a command begins.
pub(super) const KEYWORDS: &[&str] =
    &["!", "coproc", "do", "elif", "else", "function", "if", "then", "time", "until", "while", "{", "}"];

/// What a redirection does with its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Reads,
    Writes,
    /// `<>`, and `>&` where that is a file.
    Both,
    /// `<<<`: the text itself.
    Text,
    /// `<<`; whether tabs are taken away.
    Document(Tabs),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tabs {
    Kept,
    Stripped,
}

/// Where a command stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Spot {
    /// It runs.
    #[default]
    Runs,
    /// It is a pattern of `case`, arithmetic, or the end of a test: no command, if the shell is one that knows these.
    Pattern,
    /// It is inside of `[[ … ]]`.
    Test,
}

/// A command with its words and redirections.
#[derive(Debug, Default)]
pub(super) struct Simple {
    pub(super) words: Vec<Word>,
    pub(super) redirects: Vec<(Way, Word)>,
    /// The here-documents that it gets, by number.
    pub(super) documents: Vec<usize>,
    /// The command whose output it gets, by number.
    pub(super) piped: Option<usize>,
    /// Whether it gets the output of others under the name of a file.
    pub(super) has_process: bool,
    /// Whether what it says becomes words of another one.
    pub(super) is_value: bool,
    pub(super) spot: Spot,
}

/// What was found in a line.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) commands: Vec<Simple>,
    pub(super) documents: Vec<Document>,
    /// Names that get a value in a way that is not followed.
    pub(super) assigned: Vec<String>,
    /// Whether too much was open at a time.
    pub(super) is_too_deep: bool,
}

/// A here-document.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) text: String,
    pub(super) is_quoted: bool,
}

/// How to begin: a script, or the text of a here-document, in which only what starts with `$` or a backtick counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    Script,
    Document,
}

#[derive(Debug)]
enum Kind {
    Top(Start),
    Group,
    Substitution,
    Tick,
    Array,
    /// `${name` with an operator; whether the word behind that can stand for it, and whether it is in quotes.
    Or {
        name: String,
        stands: bool,
        is_quoted: bool,
    },
}

#[derive(Debug)]
struct Frame {
    kind: Kind,
    simple: Simple,
    word: Option<Word>,
    way: Option<Way>,
    is_double: bool,
}

impl Frame {
    fn new(kind: Kind) -> Self {
        let is_double = matches!(kind, Kind::Top(Start::Document));
        Self { kind, simple: Simple::default(), word: None, way: None, is_double }
    }
}

pub(super) struct Lexer {
    letters: Vec<char>,
    at: usize,
    top: Frame,
    below: Vec<Frame>,
    ticks: usize,
    /// Before this no arithmetic ends.
    no_sum_before: usize,
    /// The documents that begin behind the line: their number, what ends them, what becomes of tabs.
    pending: Vec<(usize, String, Tabs)>,
    found: Found,
}

pub(super) fn lex(line: &str, start: Start) -> Found {
    let mut lexer = Lexer {
        letters: line.chars().collect(),
        at: 0,
        top: Frame::new(Kind::Top(start)),
        below: Vec::new(),
        ticks: 0,
        no_sum_before: 0,
        pending: Vec::new(),
        found: Found::default(),
    };
    while let Some(letter) = lexer.next() {
        if lexer.top.is_double { lexer.double(letter) } else { lexer.plain(letter) }
    }
    while !lexer.below.is_empty() {
        lexer.close();
    }
    lexer.end_command();
    lexer.found
}

impl Lexer {
    fn next(&mut self) -> Option<char> {
        let letter = self.peek(0);
        self.at += usize::from(letter.is_some());
        letter
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.letters.get(self.at + ahead).copied()
    }

    fn next_is(&mut self, letter: char) -> bool {
        let is = self.peek(0) == Some(letter);
        self.at += usize::from(is);
        is
    }

    fn push(&mut self, letter: Letter) {
        self.top.word.get_or_insert_default().push(letter);
    }

    /// Something that can't be told.
    fn push_hole(&mut self) {
        let hole = if self.top.is_double { Letter::Quoted(HELD) } else { Letter::Plain(FREE) };
        self.push(hole);
    }

    fn double(&mut self, letter: char) {
        match letter {
            '"' if !matches!(self.top.kind, Kind::Top(Start::Document)) => self.top.is_double = false,
            '\\' => match self.next() {
                Some('\n') | None => {}
                Some(next) => {
                    if !"$`\"\\".contains(next) {
                        self.push(Letter::Quoted('\\'));
                    }
                    self.push(Letter::Quoted(next));
                }
            },
            '$' => self.dollar(),
            '`' => self.tick(),
            _ => self.push(Letter::Quoted(letter)),
        }
    }

    fn plain(&mut self, letter: char) {
        match letter {
            '\\' => match self.next() {
                Some('\n') | None => {}
                Some(next) => self.push(Letter::Quoted(next)),
            },
            '"' => {
                self.top.word.get_or_insert_default();
                self.top.is_double = true;
            }
            '\'' if !matches!(self.top.kind, Kind::Or { is_quoted: true, .. }) => self.single(),
            '$' if self.peek(0) == Some('\'') => {
                self.at += 1;
                self.escapes();
            }
            // A text that is translated.
            '$' if self.peek(0) == Some('"') => {}
            '$' => self.dollar(),
            '`' => self.tick(),
            _ if matches!(self.top.kind, Kind::Or { .. }) => match letter {
                '}' => self.close(),
                ' ' | '\t' | '\n' => self.push(Letter::Break),
                _ => self.push(Letter::Plain(letter)),
            },
            _ => self.operator(letter),
        }
    }

    fn operator(&mut self, letter: char) {
        let in_test = self.top.simple.spot == Spot::Test;
        match letter {
            '#' if self.top.word.is_none() => {
                while self.peek(0).is_some_and(|letter| letter != '\n') {
                    self.at += 1;
                }
            }
            ' ' | '\t' | '\r' => self.end_word(),
            '<' | '>' | '(' | ')' if in_test => self.push(Letter::Plain(letter)),
            '\n' => {
                if matches!(self.top.kind, Kind::Array) {
                    self.end_word();
                } else {
                    self.end_command();
                }
                self.read_documents();
            }
            ';' | '|' | '&' if matches!(self.top.kind, Kind::Array) => self.end_word(),
            '&' if self.peek(0) == Some('>') => {
                self.end_word();
                self.at += 1;
                self.next_is('>');
                self.top.way = Some(Way::Writes);
            }
            '|' if self.peek(0) != Some('|') => self.pipe(),
            ';' | '&' | '|' => {
                self.end_command();
                if letter == ';' {
                    self.top.simple.spot = Spot::Runs;
                }
            }
            '(' => self.open_group(),
            ')' => self.close_group(),
            '<' | '>' => self.redirect(letter),
            _ => self.push(Letter::Plain(letter)),
        }
    }

    fn pipe(&mut self) {
        self.next_is('&');
        let before = self.found.commands.len();
        self.end_command();
        if self.found.commands.len() > before {
            self.top.simple.piped = Some(before);
        }
    }

    fn end_word(&mut self) {
        let Some(word) = self.top.word.take() else { return };
        let simple = &mut self.top.simple;
        match self.top.way.take() {
            None => {
                if is(&word, "[[") && simple.words.iter().all(|word| KEYWORDS.iter().any(|key| is(word, key)))
                {
                    simple.spot = Spot::Test;
                } else if simple.spot == Spot::Test && is(&word, "]]") {
                    simple.spot = Spot::Pattern;
                }
                simple.words.push(word);
            }
            Some(Way::Document(tabs)) => {
                let is_quoted = word.is_empty() || word.iter().any(|part| matches!(part, Letter::Quoted(_)));
                let number = self.found.documents.len();
                self.found.documents.push(Document { text: String::new(), is_quoted });
                simple.documents.push(number);
                self.pending.push((number, plain_text(&word), tabs));
            }
            Some(way) => simple.redirects.push((way, word)),
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.top.way = None;
        let mut simple = std::mem::take(&mut self.top.simple);
        simple.is_value = matches!(self.top.kind, Kind::Substitution | Kind::Tick);
        if simple.spot == Spot::Test {
            self.top.simple.spot = Spot::Test;
        }
        if !simple.words.is_empty() || !simple.redirects.is_empty() || !simple.documents.is_empty() {
            self.found.commands.push(simple);
        }
    }

    fn open(&mut self, kind: Kind) {
        if self.below.len() >= DEEPEST {
            self.found.is_too_deep = true;
            return self.end_command();
        }
        self.ticks += usize::from(matches!(kind, Kind::Tick));
        let below = std::mem::replace(&mut self.top, Frame::new(kind));
        self.below.push(below);
    }

    fn close(&mut self) {
        let keeps_words = matches!(self.top.kind, Kind::Array | Kind::Or { .. });
        if keeps_words {
            self.end_word();
        } else {
            self.end_command();
        }
        let Some(below) = self.below.pop() else { return };
        let closed = std::mem::replace(&mut self.top, below);
        match closed.kind {
            Kind::Array => {
                for word in closed.simple.words {
                    self.top.word.get_or_insert_default().extend(word);
                    self.push(Letter::Plain(' '));
                }
            }
            Kind::Or { name, stands, .. } => {
                let or = closed.simple.words.into_iter().next().unwrap_or_default();
                if stands {
                    let is_quoted = self.top.is_double;
                    self.push(Letter::Value(Rc::new(Value { name, or: Some(or), is_quoted })));
                } else {
                    self.push_hole();
                }
            }
            Kind::Tick => self.ticks = self.ticks.saturating_sub(1),
            Kind::Top(_) | Kind::Group | Kind::Substitution => {}
        }
    }

    fn open_group(&mut self) {
        if self.top.word.as_ref().is_some_and(|word| word.last() == Some(&Letter::Plain('='))) {
            return self.open(Kind::Array);
        }
        let is_sum = self.top.word.is_none() && self.peek(0) == Some('(');
        if let Some(end) = is_sum.then(|| self.sum_end(self.at + 1)).flatten() {
            // Another shell may take it for a subshell in a subshell.
            let inside: String = self.letters[self.at + 1..end - 2].iter().collect();
            let words = inside.split_whitespace().map(|word| word.chars().map(Letter::Plain).collect());
            self.top.simple.words.extend(words);
            self.top.simple.spot = Spot::Pattern;
            self.at = end;
            return;
        }
        self.end_command();
        self.open(Kind::Group);
    }

    fn close_group(&mut self) {
        match self.top.kind {
            Kind::Group | Kind::Substitution | Kind::Array => self.close(),
            Kind::Top(_) | Kind::Tick | Kind::Or { .. } => {
                self.end_word();
                self.top.simple.spot = Spot::Pattern;
                self.end_command();
            }
        }
    }

    fn redirect(&mut self, letter: char) {
        let is_number = |word: &Word| {
            let text = plain_text(word);
            let name = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
            text.chars().all(|letter| letter.is_ascii_digit())
                || name.is_some_and(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
        };
        if self.top.word.as_ref().is_some_and(|word| word.len() < 32 && is_number(word)) {
            self.top.word = None;
        }
        self.end_word();
        if self.next_is('(') {
            self.top.simple.has_process = true;
            self.push(Letter::Quoted(HELD));
            return self.open(Kind::Substitution);
        }
        let way = if letter == '>' {
            if self.next_is('&') {
                Way::Both
            } else {
                let _ = self.next_is('>') || self.next_is('|');
                Way::Writes
            }
        } else if self.next_is('<') {
            if self.next_is('<') {
                Way::Text
            } else {
                Way::Document(if self.next_is('-') { Tabs::Stripped } else { Tabs::Kept })
            }
        } else if self.next_is('>') {
            Way::Both
        } else {
            self.next_is('&');
            Way::Reads
        };
        self.top.way = Some(way);
    }

    fn read_documents(&mut self) {
        for (number, ends, tabs) in std::mem::take(&mut self.pending) {
            let mut text = String::new();
            while self.at < self.letters.len() {
                let rest = &self.letters[self.at..];
                let length = rest.iter().position(|letter| *letter == '\n').unwrap_or(rest.len());
                let line: String = rest[..length].iter().collect();
                self.at = self.letters.len().min(self.at + length + 1);
                let line = if tabs == Tabs::Stripped { line.trim_start_matches('\t') } else { &line };
                if line == ends {
                    break;
                }
                text.push_str(line);
                text.push('\n');
            }
            if let Some(document) = self.found.documents.get_mut(number) {
                document.text = text;
            }
        }
    }
}

/// Whether a word is this, without quotes.
fn is(word: &Word, text: &str) -> bool {
    word.len() == text.len()
        && word.iter().zip(text.chars()).all(|(letter, want)| *letter == Letter::Plain(want))
}

fn plain_text(word: &Word) -> String {
    let text = word.iter().filter_map(|letter| match letter {
        Letter::Plain(letter) | Letter::Quoted(letter) => Some(*letter),
        Letter::Break | Letter::Value(_) => None,
    });
    text.collect()
}
