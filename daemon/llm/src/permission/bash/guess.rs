//! Everything that a line may do, as far as looking at it can tell: for rules that deny or ask.
//!
//! Scripts inside of a line (`sh -c`, `eval`, what is piped into a shell) are lines of their own. The work is bounded by
//! the length of the line; what goes beyond that counts as unclear, and is asked for.

use super::file::{self, Named};
use super::known::{self, SHELLS, Wrapper};
use super::lex::{self, Found, KEYWORDS, Simple, Spot, Start, Way};
use super::word::{Choice, FREE, Field, HELD, HERE, HOME, Letter, Values};

mod script;
mod wrapped;

/// Bytes of what only leads to a command, in all forms of it; the command itself is always a form.
pub(super) const MOST_LEADING: usize = 64 * 1024;
/// Scripts within scripts.
const DEEPEST: usize = 8;
/// Directories in which a line may stand.
const MOST_DIRS: usize = 32;
/// Files of a line that are looked at.
pub(super) const MOST_FILES: usize = 4096;

const NAME: &str = "the name of a command is the value of something";
const SCRIPT: &str = "it gives a shell a script that is made elsewhere";
pub(super) const TOO_MUCH: &str = "it is too much to look through";

/// What a line may do.
#[derive(Debug, Default)]
pub struct Guessed {
    /// The commands that it may run.
    pub commands: Vec<String>,
    /// Commands whose name is a pattern, and what follows the name.
    pub patterns: Vec<(String, String)>,
    /// Directories in which it may stand, in the order in which it gets there; the first is where it begins.
    pub(crate) dirs: Vec<String>,
    /// The files that it may read or change.
    pub(crate) files: Vec<Named>,
    /// Why that may not be all.
    pub unclear: Option<&'static str>,
}

/// What is yet to be looked at.
enum Job {
    Script(String, Start),
    Command(Vec<Field>),
}

pub(super) struct Guesser {
    pub(super) guessed: Guessed,
    values: Values,
    jobs: Vec<(Job, usize)>,
    depth: usize,
    /// Letters of scripts that may yet be looked at.
    room: usize,
    leading: usize,
}

/// The command that is looked at, and what it gets.
struct Given<'a> {
    simple: Option<&'a Simple>,
    found: Option<&'a Found>,
}

pub(super) fn guess(line: &str) -> Guessed {
    let room = 4 * line.len() + MOST_LEADING;
    let mut guesser = Guesser {
        guessed: Guessed { dirs: vec![String::new()], ..Guessed::default() },
        values: Values::within(room),
        jobs: vec![(Job::Script(line.to_owned(), Start::Script), 0)],
        depth: 0,
        room,
        leading: MOST_LEADING,
    };
    while let Some((job, depth)) = guesser.jobs.pop() {
        guesser.depth = depth;
        match job {
            Job::Script(script, start) => guesser.script(&script, start),
            Job::Command(fields) => guesser.command(&fields, &Given { simple: None, found: None }),
        }
    }
    guesser.guessed
}

impl Guesser {
    pub(super) fn unclear(&mut self, why: &'static str) {
        self.guessed.unclear.get_or_insert(why);
    }

    fn add(&mut self, job: Job, length: usize) {
        if self.depth >= DEEPEST || length > self.room {
            return self.unclear(TOO_MUCH);
        }
        self.room -= length;
        self.jobs.push((job, self.depth + 1));
    }

    fn add_script(&mut self, script: &str, start: Start) {
        self.add(Job::Script(script.to_owned(), start), script.len());
    }

    fn script(&mut self, script: &str, start: Start) {
        let found = lex::lex(script, start);
        if found.is_too_deep {
            self.unclear(TOO_MUCH);
        }
        for name in &found.assigned {
            self.values.add(name, &FREE.to_string());
        }
        for simple in &found.commands {
            self.simple(simple, &found);
        }
    }

    fn simple(&mut self, simple: &Simple, found: &Found) {
        for number in &simple.documents {
            if let Some(document) = found.documents.get(*number).filter(|document| !document.is_quoted)
                && document.text.contains(['$', '`'])
            {
                self.add_script(&document.text, Start::Document);
            }
        }
        let choices: Vec<Choice> = match self.values.most(&simple.words) {
            None => vec![Choice::Nth(0)],
            Some(most) => (0..most).map(Choice::Nth).chain([Choice::Nothing]).collect(),
        };
        for choice in choices {
            let fields = self.fields(simple, choice);
            self.command(&fields, &Given { simple: Some(simple), found: Some(found) });
        }
        if simple.spot != Spot::Test {
            self.redirects(simple);
        }
        if self.values.room == 0 {
            self.unclear(TOO_MUCH);
        }
    }

    fn fields(&mut self, simple: &Simple, choice: Choice) -> Vec<Field> {
        let mut fields = Vec::new();
        for word in &simple.words {
            let is_name = |letter: &Letter| matches!(letter, Letter::Plain(letter) if letter.is_ascii_alphanumeric() || "_+[]".contains(*letter));
            let name = word.iter().position(|letter| !is_name(letter)).unwrap_or(word.len());
            // The shell does not split what is assigned.
            if name > 0 && word.get(name) == Some(&Letter::Plain('=')) {
                fields.push(Field { text: self.values.whole(word, choice), glob: None });
            } else {
                fields.append(&mut self.values.fields(word, choice));
            }
        }
        fields
    }

    fn redirects(&mut self, simple: &Simple) {
        for (way, word) in &simple.redirects {
            let most = self.values.most(std::slice::from_ref(word)).unwrap_or(1);
            for nth in 0..most {
                for field in self.values.fields(word, Choice::Nth(nth)) {
                    let is_number =
                        field.text.trim_end_matches('-').chars().all(|digit| digit.is_ascii_digit());
                    let tools: &[&'static str] = match way {
                        Way::Text | Way::Document(_) => &[],
                        Way::Both | Way::Reads if is_number => &[],
                        Way::Reads => &["Read"],
                        Way::Writes => &["Edit"],
                        Way::Both => &["Read", "Edit"],
                    };
                    for tool in tools {
                        self.name(tool, &field.text, field.glob.as_deref(), None);
                    }
                }
            }
        }
    }

    /// Adds a file that may be read or changed.
    pub(super) fn name(
        &mut self,
        tool: &'static str,
        path: &str,
        glob: Option<&str>,
        tree: Option<file::Tree>,
    ) {
        if path.is_empty() || path.len() > 4096 {
            return;
        }
        if self.guessed.files.len() >= MOST_FILES {
            return self.unclear(TOO_MUCH);
        }
        let dirs = self.guessed.dirs.len();
        let without = |text: &str| text.replace([FREE, HELD], "");
        let named = Named { tool, path: without(path), glob: glob.map(without), dirs, tree };
        if self.guessed.files.last() != Some(&named) {
            self.guessed.files.push(named);
        }
    }

    /// Adds a directory in which the line may stand from here on.
    fn stand(&mut self, dir: &str) {
        let dir = dir.replace([FREE, HELD], "");
        let last = self.guessed.dirs.last().cloned().unwrap_or_default();
        for dir in [file::join(&last, &dir), dir] {
            if self.guessed.dirs.contains(&dir) {
                continue;
            }
            if self.guessed.dirs.len() >= MOST_DIRS || dir.len() > 4096 {
                return self.unclear(TOO_MUCH);
            }
            self.guessed.dirs.push(dir);
        }
    }

    /// Adds the forms of the command that begins here: as it is, and without its directory.
    fn form(&mut self, fields: &[Field]) {
        let Some((first, rest)) = fields.split_first() else { return };
        let rest: String = rest.iter().flat_map(|field| [" ", field.text.as_str()]).collect();
        let show = |text: &str| text.replace([FREE, HELD], "").replace(HOME, "~").replace(HERE, ".");
        let (text, name, rest) = (show(&first.text), show(first.name()), show(&rest));
        if name != text {
            self.guessed.commands.push(format!("{name}{rest}"));
        }
        self.guessed.commands.push(text + &rest);
    }

    /// Goes through what only leads to a command, to the command.
    fn command(&mut self, fields: &[Field], given: &Given<'_>) {
        let spot = given.simple.map_or(Spot::Runs, |simple| simple.spot);
        let mut left: Vec<usize> = fields
            .iter()
            .rev()
            .scan(0, |sum, field| {
                *sum += field.text.len() + 1;
                Some(*sum)
            })
            .collect();
        left.reverse();
        let (mut at, mut is_fed) = (0, false);
        while let Some(field) = fields.get(at) {
            let name = field.name();
            if let Some((variable, value)) = assignment(&field.text) {
                self.assign(variable, value);
                at += 1;
                continue;
            }
            let next = if KEYWORDS.contains(&name) {
                at + 1 + usize::from(name == "function")
            } else if let Some(wrapper) = Wrapper::of(name) {
                is_fed |= ["xargs", "parallel"].contains(&name);
                self.behind(wrapper, fields, at)
            } else {
                let is_pattern = field.glob.is_some() && !["[", "[["].contains(&name);
                if (field.is_unclear() || is_pattern) && spot == Spot::Runs {
                    self.unclear(NAME);
                }
                if let Some(glob) = field.glob.as_deref().filter(|_| spot == Spot::Runs) {
                    let rest: String =
                        fields[at + 1..].iter().flat_map(|field| [" ", field.text.as_str()]).collect();
                    let name = glob.rsplit('/').next().unwrap_or(glob).to_owned();
                    self.guessed.patterns.push((name, rest));
                }
                self.form(&fields[at..]);
                if is_fed {
                    self.fed(name, given);
                }
                return self.meant(&fields[at..], given);
            };
            if left.get(at).is_some_and(|left| *left <= self.leading) {
                self.leading -= left[at];
                self.form(&fields[at..]);
            }
            at = next;
        }
        // `xargs env` runs what it reads.
        if is_fed
            && fields.last().is_some_and(|last| Wrapper::of(last.name()).is_some_and(|it| it.name != "xargs"))
        {
            self.unclear(SCRIPT);
        }
    }

    fn assign(&mut self, name: &str, value: &str) {
        let bare = name.trim_end_matches('+').split('[').next().unwrap_or(name);
        if name.ends_with('+') { self.values.append(bare, value) } else { self.values.add(bare, value) }
    }

    fn name_all(&mut self, tools: &[&'static str], words: &[Field]) {
        for word in words.iter().filter(|word| !word.text.starts_with('-')) {
            for tool in tools {
                self.name(tool, &word.text, word.glob.as_deref(), None);
            }
        }
    }

    /// What a command gets from `xargs` may be any word of the command before.
    fn fed(&mut self, name: &str, given: &Given<'_>) {
        let before = given.simple.and_then(|simple| simple.piped);
        if let Some(before) = before.zip(given.found).and_then(|(number, found)| found.commands.get(number)) {
            let words = self.fields(before, Choice::Nth(0));
            self.name_all(known::tools(name, ""), words.get(1..).unwrap_or_default());
        }
    }

    /// The command that is meant, and what is special about it.
    fn meant(&mut self, fields: &[Field], given: &Given<'_>) {
        let Some((first, args)) = fields.split_first() else { return };
        let name = first.name();
        let joined = || args.iter().map(|field| field.text.as_str()).collect::<Vec<_>>().join(" ");
        match name {
            _ if SHELLS.contains(&name) => self.shell(args, given),
            "." | "source" => {
                if given.simple.is_some_and(|simple| simple.has_process)
                    || args.first().is_some_and(script::is_input)
                {
                    self.input(given);
                }
                // Something that is a command to us may be a script to it.
                self.form(args);
            }
            "eval" => self.add_script(&joined(), Start::Script),
            "trap" => {
                if let Some(script) = args.iter().find(|field| !field.text.starts_with('-')) {
                    self.add_script(&script.text, Start::Script);
                }
            }
            "find" => self.find(args),
            "hash" => self.form(&args[args.len().min(1)..]),
            "alias" => {
                for (_, script) in args.iter().filter_map(|field| field.text.split_once('=')) {
                    self.add_script(script, Start::Script);
                }
            }
            "cd" | "pushd" => match args.iter().find(|field| !field.text.starts_with('-')) {
                Some(dir) => self.stand(&dir.text),
                None => self.stand(&HOME.to_string()),
            },
            "read" | "mapfile" | "readarray" | "getopts" | "printf" => {
                let names = args
                    .iter()
                    .filter(|field| field.text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
                names.for_each(|field| self.values.add(&field.text, &FREE.to_string()));
            }
            "export" | "declare" | "typeset" | "local" | "readonly" => {
                let assigned = args.iter().filter_map(|field| assignment(&field.text));
                assigned.for_each(|(name, value)| self.assign(name, value));
            }
            "for" | "select" => {
                if let Some((variable, values)) = args.split_first() {
                    values.iter().skip(1).for_each(|value| self.values.add(&variable.text, &value.text));
                }
            }
            _ => {}
        }
        if let Some(dir) = args.iter().position(|field| field.text == "-C").and_then(|at| args.get(at + 1)) {
            self.stand(&dir.text);
        }
        if given.simple.is_some_and(|simple| simple.is_value) && ["echo", "printf"].contains(&name) {
            // `cat $(echo a)`.
            self.name_all(&["Read", "Edit"], args);
        }
        // In a test, words are compared.
        if given.simple.is_none_or(|simple| simple.spot == Spot::Runs) {
            file::of(self, name, args);
        }
    }
}

/// `NAME=value`, `NAME+=value`, `NAME[0]=value`: the name with what is behind it, and the value.
fn assignment(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once('=')?;
    let bare = name.strip_suffix('+').unwrap_or(name);
    let bare = bare.split_once('[').filter(|(_, rest)| rest.ends_with(']')).map_or(bare, |(bare, _)| bare);
    let is_name = bare.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    (is_name && !bare.is_empty() && !bare.starts_with(|first: char| first.is_ascii_digit()))
        .then_some((name, value))
}
