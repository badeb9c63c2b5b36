//! For which tools, or types of agents, a hook runs.

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;

use crate::alias;

/// Bytes of an expression at most.
const MOST: usize = 1000;

/// What a hook is for.
#[derive(Clone, Debug)]
pub(super) enum Matcher {
    All,
    Names(Vec<String>),
    Pattern(RegexMatcher),
}

impl Matcher {
    /// Reads what a file says: nothing or `*` is all, words with `|` or `,` between them are names, else it is an
    /// expression that has to match somewhere.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() || text == "*" {
            return Ok(Self::All);
        }
        let is_plain =
            |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '|' | ',' | ' ');
        if text.chars().all(is_plain) {
            let names = text.split(['|', ',']).map(str::trim).filter(|name| !name.is_empty());
            return Ok(Self::Names(names.map(str::to_owned).collect()));
        }
        if text.len() > MOST {
            return Err(format!("its matcher has more than {MOST} bytes"));
        }
        let pattern = RegexMatcher::new(text);
        pattern.map(Self::Pattern).map_err(|error| format!("its matcher {text:?} is no expression: {error}"))
    }

    pub(super) fn matches(&self, subject: &str) -> bool {
        match self {
            Self::All => true,
            Self::Names(names) => names.iter().any(|name| name == subject || alias::same(name, subject)),
            Self::Pattern(pattern) => pattern.is_match(subject.as_bytes()).unwrap_or(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PM-10, C18: a matcher is everything, names, or an expression.
    #[test]
    fn a_matcher_is_all_or_names_or_an_expression() {
        let matches = |text: &str, subject: &str| Matcher::parse(text).unwrap().matches(subject);
        for all in ["", "*", " "] {
            assert!(matches(all, "Bash"));
        }
        assert!(matches("Edit|Write", "Write") && matches("Task, Bash", "Agent"));
        assert!(!matches("Edit|Write", "NotebookEdit") && matches("Edit.*", "NotebookEdit"));
        assert!(matches("mcp__git__.*", "mcp__git__push") && !matches("^mcp__git", "xmcp__git"));
        assert!(Matcher::parse("(").unwrap_err().contains("no expression"));
    }
}
