//! Secrets that are known stay out of whatever is shown or written.
//!
//! Known are values: the keys of an environment. Deliberately not here: guessing what looks like a key.

use std::borrow::Cow;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

/// What stands where a secret was.
pub const MASKED: &str = "[masked]";
/// Bytes of a value at least: shorter ones are words that stand everywhere.
const LEAST: usize = 8;

/// A value that is not shown where it is printed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(String);

impl Secret {
    /// A secret.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value, to be sent.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(MASKED)
    }
}

/// Finds secrets.
#[derive(Clone, Default)]
pub struct Mask {
    search: Option<AhoCorasick>,
    /// Bytes of the longest secret.
    longest: usize,
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mask").finish_non_exhaustive()
    }
}

impl Mask {
    /// A mask over values. Those of less than eight bytes are left alone.
    pub fn new<S: AsRef<str>>(secrets: impl IntoIterator<Item = S>) -> Self {
        let mut values: Vec<String> =
            secrets.into_iter().map(|secret| secret.as_ref().trim().to_owned()).collect();
        values.retain(|value| value.len() >= LEAST);
        values.sort();
        values.dedup();
        let longest = values.iter().map(String::len).max().unwrap_or_default();
        // Each agent has one: the kind that is chosen for few values has a tenfold table, and is built as slowly.
        let search = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .match_kind(MatchKind::LeftmostLongest)
            .build(&values)
            .ok();
        Self { search: search.filter(|_| longest > 0), longest }
    }

    /// A text without secrets.
    pub fn text(&self, text: String) -> String {
        match self.find(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(masked) => masked,
        }
    }

    /// A text without secrets; copied only where there was one.
    pub fn find<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.search {
            Some(search) if search.is_match(text) => {
                let mut masked = String::with_capacity(text.len());
                search.replace_all_with(text, &mut masked, |_, _, to| {
                    to.push_str(MASKED);
                    true
                });
                Cow::Owned(masked)
            }
            Some(_) | None => Cow::Borrowed(text),
        }
    }
}

/// A mask over a text that comes in pieces: what may be the beginning of a secret waits for the next one.
#[derive(Clone, Default)]
pub struct Stream {
    mask: Mask,
    held: String,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}

impl Stream {
    /// Begins a text.
    pub fn new(mask: Mask) -> Self {
        Self { mask, held: String::new() }
    }

    /// Takes a piece; gives what can be shown by now.
    pub fn push(&mut self, piece: &str) -> String {
        let Some(search) = &self.mask.search else { return piece.to_owned() };
        self.held.push_str(piece);
        // The end of the text may begin a secret that goes on in the next piece; what is before it is settled.
        let mut settled = self.held.len().saturating_sub(self.mask.longest - 1);
        if let Some(last) = search.find_iter(&self.held).filter(|found| found.start() < settled).last() {
            settled = settled.max(last.end());
        }
        let settled = self.held.floor_char_boundary(settled);
        let rest = self.held.split_off(settled);
        self.mask.text(std::mem::replace(&mut self.held, rest))
    }

    /// Ends the text; gives what was held back.
    pub fn end(&mut self) -> String {
        self.mask.text(std::mem::take(&mut self.held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I14, BE-10: a key is nowhere to be read.
    #[test]
    fn a_secret_is_masked_wherever_it_stands() {
        let mask = Mask::new(["sk-12345678", "sk-12345678-long", "short", "  padded-key \n"]);
        assert_eq!(mask.find("a sk-12345678 b sk-12345678-long"), "a [masked] b [masked]");
        assert_eq!(mask.find("padded-key short"), "[masked] short");
        assert!(matches!(mask.find("nothing"), Cow::Borrowed(_)));
        assert_eq!(Mask::new(["short"]).text("short".into()), "short");
        assert_eq!(Mask::default().text("sk-12345678".into()), "sk-12345678");
        let mut stream = Stream::new(mask);
        stream.push("sk-1234");
        assert_eq!(format!("{stream:?} {:?}", Secret::new("sk-12345678")), "Stream { .. } [masked]");
    }

    /// I14: however a text is cut, the same is masked in it.
    #[test]
    fn a_secret_that_is_cut_in_two_is_masked() {
        let mask = Mask::new(["sk-12345678", "sk-12345678-long", "5678-long-är"]);
        let text = "é sk-12345678 and sk-12345678-long, sk-1234567ä sk-12345678-long-är";
        let whole = mask.find(text).into_owned();
        for first in text.char_indices().map(|(at, _)| at) {
            for second in text.char_indices().map(|(at, _)| at).filter(|at| *at >= first) {
                let mut stream = Stream::new(mask.clone());
                let mut shown = stream.push(&text[..first]);
                shown += &stream.push(&text[first..second]);
                shown += &stream.push(&text[second..]);
                shown += &stream.end();
                assert_eq!(shown, whole, "cut at {first} and {second}");
            }
        }
    }
}
