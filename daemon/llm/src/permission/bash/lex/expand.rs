//! What begins with a quote, a `$` or a backtick.
//!
//! Not here: what it becomes (`bash::word`).

use std::rc::Rc;

use super::super::word::{Letter, Value};
use super::{Kind, Lexer};

/// Letters in which the end of arithmetic is looked for.
const LONGEST_SUM: usize = 4096;

impl Lexer {
    /// Where arithmetic ends, if it is that and runs nothing.
    pub(super) fn sum_end(&mut self, from: usize) -> Option<usize> {
        if from < self.no_sum_before {
            return None;
        }
        let mut depth = 0_usize;
        let last = self.letters.len().min(from + LONGEST_SUM);
        for at in from..last {
            match self.letters[at] {
                '(' if self.letters[at - 1] == '$' && self.letters.get(at + 1) != Some(&'(') => break,
                '(' => depth += 1,
                ')' if depth == 0 && self.letters.get(at + 1) == Some(&')') => return Some(at + 2),
                ')' if depth == 0 => break,
                ')' => depth -= 1,
                '`' | '\'' | '"' | '\\' => break,
                _ => {}
            }
        }
        self.no_sum_before = last;
        None
    }

    pub(super) fn tick(&mut self) {
        if self.ticks > 0 {
            while !matches!(self.top.kind, Kind::Tick) && !self.below.is_empty() {
                self.close();
            }
            return self.close();
        }
        self.push_hole();
        self.open(Kind::Tick);
    }

    pub(super) fn dollar(&mut self) {
        match self.peek(0) {
            Some('(') => {
                let is_sum = self.peek(1) == Some('(');
                if let Some(end) = is_sum.then(|| self.sum_end(self.at + 2)).flatten() {
                    self.at = end;
                    return self.push(Letter::Quoted('0'));
                }
                self.at += 1;
                self.push_hole();
                self.open(Kind::Substitution);
            }
            Some('{') => {
                self.at += 1;
                self.braces();
            }
            Some(first) if is_name(first) && !first.is_ascii_digit() => {
                let name = self.name();
                self.push_value(name);
            }
            Some(special) if special.is_ascii_digit() || "@*#?!$-".contains(special) => {
                self.at += 1;
                self.push_value(special.to_string());
            }
            Some(_) | None => self.push(Letter::Quoted('$')),
        }
    }

    fn name(&mut self) -> String {
        let from = self.at;
        while self.peek(0).is_some_and(is_name) {
            self.at += 1;
        }
        self.letters[from..self.at].iter().collect()
    }

    fn push_value(&mut self, name: String) {
        let is_quoted = self.top.is_double && name != "@";
        self.push(Letter::Value(Rc::new(Value { name, or: None, is_quoted })));
    }

    /// What stands behind `${`.
    fn braces(&mut self) {
        let is_quoted = self.top.is_double;
        let is_turned = matches!(self.peek(0), Some('!' | '#')) && self.peek(1) != Some('}');
        self.at += usize::from(is_turned);
        let mut name = self.name();
        if let Some(special) = self.peek(0).filter(|special| name.is_empty() && "@*?$-!#".contains(*special))
        {
            self.at += 1;
            name = special.to_string();
        }
        let mut whole = false;
        if self.peek(0) == Some('[') {
            let end = self.letters[self.at..].iter().take(256).position(|letter| *letter == ']');
            let inside: String =
                end.map(|end| self.letters[self.at + 1..self.at + end].iter().collect()).unwrap_or_default();
            whole = ["@", "*"].contains(&inside.as_str());
            if whole {
                self.at += 3;
            }
        }
        if !is_turned && self.next_is('}') {
            // All values of an array are words of their own.
            let is_quoted = is_quoted && !whole && name != "@";
            return self.push(Letter::Value(Rc::new(Value { name, or: None, is_quoted })));
        }
        let colon = usize::from(self.peek(0) == Some(':'));
        let operator = self.peek(colon).filter(|_| !is_turned);
        let stands = operator.is_some_and(|operator| "-=+".contains(operator));
        if stands {
            self.at += colon + 1;
        }
        if operator == Some('=') {
            self.found.assigned.push(name.clone());
        }
        self.open(Kind::Or { name, stands, is_quoted });
    }

    pub(super) fn single(&mut self) {
        self.top.word.get_or_insert_default();
        while let Some(letter) = self.next().filter(|letter| *letter != '\'') {
            self.push(Letter::Quoted(letter));
        }
    }

    /// `$'…'`.
    pub(super) fn escapes(&mut self) {
        self.top.word.get_or_insert_default();
        while let Some(letter) = self.next().filter(|letter| *letter != '\'') {
            let letter = if letter == '\\' { self.escape() } else { Some(letter) };
            if let Some(letter) = letter {
                self.push(Letter::Quoted(letter));
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        let letter = self.next()?;
        Some(match letter {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'a' | 'b' | 'e' | 'E' | 'f' | 'v' => ' ',
            '0'..='7' => {
                self.at -= 1;
                return self.number(8, 3);
            }
            'x' => return self.number(16, 2),
            'u' => return self.number(16, 4),
            'U' => return self.number(16, 8),
            'c' => {
                self.next();
                return None;
            }
            _ => letter,
        })
    }

    fn number(&mut self, base: u32, most: usize) -> Option<char> {
        let mut number = 0_u32;
        for _ in 0..most {
            let Some(digit) = self.peek(0).and_then(|letter| letter.to_digit(base)) else { break };
            number = number.wrapping_mul(base).wrapping_add(digit);
            self.at += 1;
        }
        char::from_u32(number).filter(|letter| *letter != '\0')
    }
}

fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}
