//! Shell commands, taken apart: which commands one line runs, and whether that is all it does.
//!
//! This is no shell. What it does not understand it calls opaque, and no rule for single commands allows that: quoting
//! that does not end, substitutions, subshells, redirections into files, comments, here-documents, control characters.
//! To deny, a guess is enough; so every form in which a command may hide is looked at.

use std::collections::BTreeSet;

/// A line, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    /// The commands that run one after the other or beside each other, as they were written.
    pub parts: Vec<String>,
    /// Why they may not be all.
    pub opaque: Option<&'static str>,
}

/// Words that only lead to the command that is meant.
const WRAPPERS: &[&str] = &[
    "!", "--", "-c", ".", "bash", "builtin", "command", "coproc", "do", "doas", "elif", "else", "env",
    "eval", "exec", "if", "nice", "nohup", "setsid", "sh", "source", "stdbuf", "sudo", "then", "time",
    "timeout", "trap", "until", "while", "xargs", "zsh", "{", "}",
];

/// Bytes of what only leads to a command, in all forms of it; the command itself is always a form.
const MOST_LEADING: usize = 64 * 1024;

/// Commands that print the files that they name.
const READERS: &[&str] = &[
    "awk", "base64", "bat", "cat", "cut", "diff", "egrep", "fgrep", "grep", "head", "hexdump", "less",
    "more", "nl", "od", "rg", "sort", "strings", "tac", "tail", "uniq", "wc", "xxd",
];
/// Commands that change the files that they name.
const WRITERS: &[&str] = &["chmod", "chown", "rm", "shred", "tee", "touch", "truncate", "unlink"];
/// Commands that do both.
const BOTH: &[&str] = &["cp", "dd", "ed", "install", "ln", "mv", "perl", "rsync", "sed", "vi", "vim"];
/// Files of a line that are looked at, at most.
const MOST_FILES: usize = 512;

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
        let mut guesses = vec![line.trim().to_owned()];
        for part in &self.parts {
            forms(part, &mut guesses);
        }
        if self.opaque.is_some() {
            let ends = |letter| ";|&\n()`<>{}".contains(letter);
            // `${a:-rm}` is `rm` where there is no `a`.
            let parts = line
                .split(ends)
                .flat_map(|part| [part, part.rsplit([':', '-', '=', '+']).next().unwrap_or("")]);
            parts.for_each(|part| forms(part, &mut guesses));
        }
        guesses
    }
}

/// The files that commands name, and the tool whose rules speak of what becomes of them.
pub(super) fn files(guesses: &[String]) -> BTreeSet<(&'static str, String)> {
    let mut files = BTreeSet::new();
    for guess in guesses {
        let mut words = guess.split_whitespace();
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
            if files.len() >= MOST_FILES {
                return files;
            }
            files.extend(tools.iter().map(|tool| (*tool, path.to_owned())));
        }
    }
    files
}

/// The forms of one command: as it is, without quotes, with variables that hold nothing, without what only leads to
/// it, without its directory.
fn forms(part: &str, forms: &mut Vec<String>) {
    let part = part.trim();
    if part.is_empty() {
        return;
    }
    forms.push(part.to_owned());
    let plain = part.replace("\\\n", "").replace("$'", "'").replace(['\'', '"', '\\'], "");
    unwrap(&plain, forms);
    if plain.contains(['<', '>']) {
        unwrap(&plain.replace('<', " <").replace('>', " >"), forms);
    }
    if plain.contains('$') {
        let mut pieces = plain.split('$');
        let first = pieces.next().unwrap_or_default().to_owned();
        let rest = pieces.map(behind_name);
        unwrap(&rest.fold(first, |all, piece| all + piece), forms);
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

/// Takes away, word by word, what only leads to a command.
fn unwrap(plain: &str, forms: &mut Vec<String>) {
    let words: Vec<&str> = plain.split_whitespace().collect();
    let is_assignment = |word: &str| {
        word.split_once('=').is_some_and(|(name, _)| name.chars().all(|c| c.is_alphanumeric() || c == '_'))
    };
    let redirects = |word: &str| {
        let rest = word.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '&');
        rest.starts_with(['<', '>']).then(|| rest.trim_start_matches(['<', '>', '|', '&']).is_empty())
    };
    let (mut wrapped, mut target, mut room) = (false, false, MOST_LEADING);
    for at in 0..words.len() {
        let word = words[at];
        let name = word.rsplit('/').next().unwrap_or(word);
        let redirect = redirects(word);
        let leads = target
            || WRAPPERS.contains(&name)
            || is_assignment(word)
            || wrapped && (word.starts_with('-') || word.starts_with(|first: char| first.is_ascii_digit()));
        let is_last = !leads && redirect.is_none();
        if is_last || room > 0 {
            let form = words[at..].join(" ");
            room = room.saturating_sub(form.len());
            forms.push([name, &form[word.len()..]].concat());
            forms.push(form);
        }
        if is_last {
            break;
        }
        wrapped |= leads && !target;
        target = redirect == Some(true);
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(line: &str) -> Vec<String> {
        let commands = Commands::of(line);
        assert_eq!(commands.opaque, None, "{line:?}");
        commands.parts
    }

    /// PM-03: a line falls into its commands, and quotes hold together what is in them.
    #[test]
    fn a_line_falls_into_its_commands() {
        for (line, want) in [
            ("git status", &["git status"][..]),
            ("a && b || c; d | e |& f & g", &["a", "b", "c", "d", "e", "f", "g"]),
            ("a\nb\n\nc", &["a", "b", "c"]),
            ("git commit -m 'a; b' && x", &["git commit -m 'a; b'", "x"]),
            (r#"echo "a && b" "\"; c""#, &[r#"echo "a && b" "\"; c""#]),
            (r"a\;b", &[r"a\;b"]),
            ("git \\\nstatus", &["git status"]),
            ("make 2>&1 >/dev/null | head", &["make 2>&1 >/dev/null", "head"]),
            ("make &> /dev/null; x", &["make &> /dev/null", "x"]),
            ("echo $HOME ${HOME} \"$A\"", &["echo $HOME ${HOME} \"$A\""]),
            ("sort < in | uniq", &["sort < in", "uniq"]),
        ] {
            assert_eq!(parts(line), want, "{line:?}");
        }
    }

    /// PM-03: what may run or write more than is seen is opaque.
    #[test]
    fn what_may_do_more_is_opaque() {
        for line in [
            "echo $(rm x)",
            "echo `rm x`",
            "echo \"$(rm x)\"",
            "echo \"`rm x`\"",
            "diff <(a) <(b)",
            "tee >(rm x)",
            "(rm x)",
            "f() { rm x; }",
            "echo 'a",
            "echo \"a",
            "echo a\\",
            "echo $'a\\'; rm x'",
            "echo ${a:-`x`}",
            "echo ${a@P}",
            "echo $[1]",
            "echo a > file",
            "echo a >> ~/.bashrc",
            "echo a >| file",
            "cat << EOF\nx\nEOF",
            "git status # '\nrm -rf /\n#'",
            "echo a\rb",
            "echo a\0b",
            "echo x >&file",
            "a > /dev/nullx",
            "a >/dev/null/../x",
            "a >      /dev/nullx",
            "cat <#'\nrm x\n#'",
            "cat <<< $x",
            "printf -v 'a[$(rm x)]' x",
            "cat <> file",
        ] {
            assert!(Commands::of(line).opaque.is_some(), "{line:?}");
        }
    }

    /// PM-03: a command that hides is found.
    #[test]
    fn a_hidden_command_is_guessed() {
        for line in [
            "git status; rm -rf /",
            "echo $(rm -rf /)",
            "echo \"$(rm -rf /)\"",
            "r\\m -rf /",
            "'rm' -rf /",
            "\"r\"m -rf /",
            "/bin/rm -rf /",
            "A=1 B=2 rm -rf /",
            "sudo -n rm -rf /",
            "timeout 5 rm -rf /",
            "if true; then rm -rf /; fi",
            "{ rm -rf /; }",
            "bash -c 'rm -rf /'",
            "env -i A=1 rm -rf /",
            "! rm -rf /",
            "(cd /; rm -rf /)",
            "cat <(rm -rf /)",
            "git status # '\nrm -rf /\n#'",
            "nohup rm -rf / &",
            ">/dev/null rm -rf /",
            "2> x rm -rf /",
            "rm$NOTHING -rf /",
            "$NOTHING rm -rf /",
            "source rm -rf /",
            "rm \t -rf   /",
        ] {
            let guesses = Commands::of(line).guesses(line);
            assert!(guesses.iter().any(|guess| guess == "rm -rf /"), "{line:?}: {guesses:?}");
        }
    }

    /// PM-03: however much leads to a command, it is found, and not all of that is kept.
    #[test]
    fn much_that_leads_to_a_command_does_not_hide_it() {
        let line = "sudo ".repeat(50_000) + "rm -rf /";
        let guesses = Commands::of(&line).guesses(&line);
        assert!(guesses.iter().any(|guess| guess == "rm -rf /"));
        assert!(guesses.iter().map(String::len).sum::<usize>() < 5 * line.len());
    }

    proptest! {
        /// PM-03: whatever stands between two commands and ends the first one, the second is a part of its own, or the
        /// line is opaque.
        #[test]
        fn a_second_command_never_hides_in_the_first(
            before in "[ -~\n]{0,12}",
            middle in proptest::sample::select(vec![";", "&&", "||", "|", "&", "\n", "|&", ";;", "\n#'\n"]),
            after in "[ -~\n]{0,12}",
        ) {
            let line = format!("git status{middle}rm -rf / {before}{middle}{after}");
            let commands = Commands::of(&line);
            let seen = commands.parts.iter().any(|part| part.starts_with("rm -rf /"));
            prop_assert!(seen || commands.opaque.is_some(), "{:?} {:?}", line, commands);
        }

        /// PM-03: nothing of a line gets lost, and nothing makes it panic.
        #[test]
        fn what_is_not_opaque_is_kept_whole(line in "[ -~\n]{0,40}") {
            let commands = Commands::of(&line);
            let _ = commands.guesses(&line);
            if commands.opaque.is_none() {
                let is_kept = |letter: &char| !letter.is_whitespace() && !";|&\\".contains(*letter);
                let kept: String = commands.parts.concat().chars().filter(is_kept).collect();
                let all: String = line.chars().filter(is_kept).collect();
                prop_assert_eq!(kept, all);
            }
        }
    }
}
