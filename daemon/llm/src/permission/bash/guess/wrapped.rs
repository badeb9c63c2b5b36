//! What stands between a command that only leads to another one, and that one.

use super::super::known::Wrapper;
use super::super::lex::Start;
use super::super::word::Field;
use super::{DEEPEST, Guesser, Job, assignment};

impl Guesser {
    /// Where the command begins behind a wrapper with its options.
    pub(super) fn behind(&mut self, wrapper: &Wrapper, fields: &[Field], at: usize) -> usize {
        let takes_script = ["env", "flock", "parallel", "runuser", "script", "sg", "su", "watch"];
        let takes_script = takes_script.contains(&wrapper.name);
        let mut next = at + 1;
        while let Some(field) = fields.get(next) {
            let option = field.text.as_str();
            let script = ["-c", "-S", "--command", "--split-string"].contains(&option);
            if option == "--" {
                next += 1;
                break;
            } else if let Some((_, value)) = option.split_once('=').filter(|_| option.starts_with("--")) {
                if takes_script {
                    self.add_script(value, Start::Script);
                } else if option.starts_with("--chdir") || option.starts_with("--arg-file") {
                    self.option_file(option, value);
                }
                next += 1;
            } else if option.starts_with("--") {
                // Whether its value is the next word can't be told.
                if let Some(value) = fields.get(next + 1) {
                    if takes_script && script {
                        self.add_script(&value.text, Start::Script);
                    }
                    self.option_file(option, &value.text);
                    self.maybe(&fields[at], &fields[next + 2..]);
                }
                next += 1;
            } else if option.len() > 1 && option.starts_with(['-', '+']) {
                if wrapper.takes_next(option) {
                    if let Some(value) = fields.get(next + 1) {
                        let is_script = takes_script && option.ends_with(['c', 'S']);
                        if is_script {
                            self.add_script(&value.text, Start::Script);
                        }
                        self.option_file(option, &value.text);
                    }
                    next += 1;
                } else if let Some(script) = option.strip_prefix("-S").filter(|_| takes_script) {
                    self.add_script(script, Start::Script);
                }
                next += 1;
            } else if let Some((variable, value)) = assignment(option) {
                self.assign(variable, value);
                next += 1;
            } else {
                break;
            }
        }
        if takes_script && wrapper.name != "env" {
            let rest: Vec<&str> =
                fields[next.min(fields.len())..].iter().map(|field| field.text.as_str()).collect();
            if let Some(script) = rest.iter().position(|word| *word == "-c").and_then(|at| rest.get(at + 1)) {
                self.add_script(script, Start::Script);
            } else if ["watch", "parallel"].contains(&wrapper.name) {
                self.add_script(&rest.join(" "), Start::Script);
            }
        }
        next + wrapper.own
    }

    /// Looks at a wrapper as if what is left of its words were all.
    fn maybe(&mut self, wrapper: &Field, rest: &[Field]) {
        let fields: Vec<Field> = std::iter::once(wrapper).chain(rest.iter().take(64)).cloned().collect();
        let length = fields.iter().map(|field| field.text.len() + 1).sum();
        if length <= self.leading && self.depth < DEEPEST {
            self.leading -= length;
            self.add(Job::Command(fields), length);
        }
    }

    /// What an option of a wrapper says: where the command is to stand, or what it reads.
    fn option_file(&mut self, option: &str, value: &str) {
        match option.split('=').next() {
            Some("-C" | "-D" | "--chdir") => self.stand(value),
            Some("-a" | "--arg-file") => self.name("Read", value, None, None),
            Some(_) | None => {}
        }
    }
}
