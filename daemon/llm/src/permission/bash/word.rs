//! Words of a line: which letters are quoted, where a value stands, and what all of that may become.
//!
//! Some letters that no line needs stand for what can't be told: they go through values and scripts like any other, and
//! whoever looks at a command's name or at a path sees them there. Not here: where a word ends; that is `lex`.

use std::collections::HashMap;
use std::rc::Rc;

use super::brace;

/// Something of which even the number of its words is not known.
pub(super) const FREE: char = '\u{E000}';
/// Something that is one word, or a part of one.
pub(super) const HELD: char = '\u{E001}';
/// The home directory.
pub(crate) const HOME: char = '\u{E002}';
/// The directory in which the line stands.
pub(crate) const HERE: char = '\u{E003}';

/// Values of one variable that are kept; one that has more can't be told.
const MOST_VALUES: usize = 8;
/// Bytes of a value that is kept.
const LONGEST_VALUE: usize = 4096;

/// One letter of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Letter {
    /// It may mean something to the shell.
    Plain(char),
    /// It means itself.
    Quoted(char),
    /// Here a word ends that an expansion made.
    Break,
    /// Here stands what a variable holds.
    Value(Rc<Value>),
}

/// A variable in a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) name: String,
    /// What stands for it where it holds nothing.
    pub(super) or: Option<Word>,
    pub(super) is_quoted: bool,
}

pub(super) type Word = Vec<Letter>;

/// A word as a command gets it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) text: String,
    /// As a pattern of names, where it is one.
    pub(super) glob: Option<String>,
}

impl Field {
    /// What the command behind a path is called.
    pub(super) fn name(&self) -> &str {
        self.text.rsplit('/').next().unwrap_or(&self.text)
    }

    /// Whether it can't be told which command this is.
    pub(super) fn is_unclear(&self) -> bool {
        self.text.contains(FREE) || self.name().contains(HELD) || self.text == "{}"
    }
}

/// Which of the values that a variable got is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The one with this number, or the last one.
    Nth(usize),
    /// None: variables hold nothing.
    Nothing,
}

/// What variables may hold.
#[derive(Debug)]
pub(super) struct Values {
    of: HashMap<String, Vec<String>>,
    /// Letters that may yet be made of words.
    pub(super) room: usize,
}

impl Values {
    pub(super) fn within(room: usize) -> Self {
        Self { of: HashMap::new(), room }
    }

    /// Adds what a variable may hold.
    pub(super) fn add(&mut self, name: &str, value: &str) {
        let value = if value.len() > LONGEST_VALUE { FREE.to_string() } else { value.to_owned() };
        let values = self.of.entry(name.to_owned()).or_default();
        if values.len() < MOST_VALUES {
            if !values.contains(&value) {
                values.push(value);
            }
        } else if let Some(last) = values.last_mut() {
            *last = FREE.to_string();
        }
    }

    /// Adds to the end of what it holds.
    pub(super) fn append(&mut self, name: &str, more: &str) {
        let longer: Vec<String> = match self.of.get(name) {
            Some(values) => values.iter().map(|value| value.clone() + more).collect(),
            None => vec![more.to_owned()],
        };
        for value in &longer {
            self.add(name, value);
        }
    }

    /// The most values that a variable of these words has; `None` where there is no variable in them.
    pub(super) fn most(&self, words: &[Word]) -> Option<usize> {
        let names = words.iter().flatten().filter_map(|letter| match letter {
            Letter::Value(value) => Some(self.of.get(&value.name).map_or(1, |values| values.len().max(1))),
            Letter::Plain(_) | Letter::Quoted(_) | Letter::Break => None,
        });
        names.max()
    }

    /// What a word may become.
    pub(super) fn fields(&mut self, word: &Word, choice: Choice) -> Vec<Field> {
        let mut fields = Vec::new();
        for word in brace::expand(word, &mut self.room) {
            let mut made = Made::default();
            self.write(&word, choice, &mut made);
            made.end();
            if made.fields.is_empty() && word.iter().all(|letter| matches!(letter, Letter::Quoted(_))) {
                made.fields.push(Field::default());
            }
            fields.append(&mut made.fields);
        }
        fields
    }

    /// A word that the shell does not split: a value that is assigned.
    pub(super) fn whole(&mut self, word: &[Letter], choice: Choice) -> String {
        let mut made = Made::default();
        self.write(word, choice, &mut made);
        made.end();
        made.fields.iter().map(|field| field.text.as_str()).collect::<Vec<_>>().join(" ")
    }

    fn write(&mut self, word: &[Letter], choice: Choice, made: &mut Made) {
        let starts_home = matches!(word.first(), Some(Letter::Plain('~')))
            && word.get(1).is_none_or(|letter| *letter == Letter::Plain('/'));
        for (at, letter) in word.iter().enumerate() {
            match letter {
                Letter::Plain('~') if at == 0 && starts_home => made.push(HOME),
                Letter::Plain(letter) => made.plain(*letter),
                Letter::Quoted(letter) => made.push(*letter),
                Letter::Break => made.end(),
                Letter::Value(value) => self.write_value(value, choice, made),
            }
        }
    }

    fn write_value(&mut self, value: &Value, choice: Choice, made: &mut Made) {
        let known = match (value.name.as_str(), self.of.get(&value.name)) {
            ("IFS", _) if !value.is_quoted => return made.end(),
            (_, Some(values)) if choice != Choice::Nothing => {
                let Choice::Nth(nth) = choice else { return };
                values.get(nth).or(values.last()).cloned()
            }
            ("HOME", None) => Some(HOME.to_string()),
            ("PWD", None) => Some(HERE.to_string()),
            (_, Some(_) | None) => None,
        };
        let or = value.or.as_deref().filter(|_| known.as_deref().is_none_or(str::is_empty));
        match (known, or) {
            // In it are no variables: `lex` makes them holes.
            (_, Some(or)) => {
                for letter in or {
                    match letter {
                        Letter::Plain(letter) => made.plain(*letter),
                        Letter::Quoted(letter) => made.push(*letter),
                        Letter::Break => made.end(),
                        Letter::Value(_) => made.push(HELD),
                    }
                }
            }
            (Some(text), None) => self.write_text(&text, value.is_quoted, made),
            (None, None) if choice == Choice::Nothing => {}
            // `$@` is any number of words; what the environment holds is taken as one.
            (None, None) if ["@", "*"].contains(&value.name.as_str()) => made.push(FREE),
            (None, None) => made.push(HELD),
        }
    }

    fn write_text(&mut self, text: &str, is_quoted: bool, made: &mut Made) {
        if text.len() > self.room {
            return made.push(FREE);
        }
        self.room -= text.len();
        for letter in text.chars() {
            match letter {
                _ if is_quoted => made.push(letter),
                ' ' | '\t' | '\n' => made.end(),
                _ => made.plain(letter),
            }
        }
    }
}

/// Fields in the making.
#[derive(Default)]
struct Made {
    fields: Vec<Field>,
    text: String,
    glob: String,
    is_glob: bool,
}

impl Made {
    fn plain(&mut self, letter: char) {
        self.is_glob |= "*?[".contains(letter);
        self.text.push(letter);
        if "{}\\".contains(letter) {
            self.glob.push('\\');
        }
        self.glob.push(letter);
    }

    fn push(&mut self, letter: char) {
        self.text.push(letter);
        if "*?[]{}!\\".contains(letter) {
            self.glob.push('\\');
        }
        self.glob.push(letter);
    }

    fn end(&mut self) {
        let (text, glob) = (std::mem::take(&mut self.text), std::mem::take(&mut self.glob));
        let glob = std::mem::take(&mut self.is_glob).then_some(glob);
        if !text.is_empty() {
            self.fields.push(Field { text, glob });
        }
    }
}
