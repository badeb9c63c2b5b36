//! Output of a command, its beginning and its end: what is between is counted.

use std::collections::VecDeque;

/// What is kept of an output.
#[derive(Debug)]
pub(super) struct Kept {
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    all: u64,
}

impl Kept {
    /// Keeps so many bytes.
    pub(super) fn new(most: usize) -> Self {
        Self { half: most / 2, head: Vec::new(), tail: VecDeque::new(), all: 0 }
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.all += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.half - self.head.len()));
        self.head.extend_from_slice(head);
        let fresh = &rest[rest.len().saturating_sub(self.half)..];
        let beyond = (self.tail.len() + fresh.len()).saturating_sub(self.half);
        self.tail.drain(..beyond);
        self.tail.extend(fresh);
    }

    /// The text of it, without the line end behind it.
    pub(super) fn into_text(self) -> String {
        let Self { half, mut head, tail, all } = self;
        let missing = all - (head.len() + tail.len()) as u64;
        if missing == 0 {
            head.extend(&tail);
        }
        let mut text = String::from_utf8_lossy(&head).into_owned();
        if missing > 0 {
            // What is no UTF-8 has become longer.
            text.truncate(text.floor_char_boundary(half));
            let tail = String::from_utf8_lossy(&Vec::from(tail)).into_owned();
            let from = tail.ceil_char_boundary(tail.len().saturating_sub(half));
            text.extend([
                "\n[",
                &missing.to_string(),
                " of ",
                &all.to_string(),
                " bytes are left out here]\n",
            ]);
            text.push_str(&tail[from..]);
        }
        text.truncate(text.trim_end().len());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SP-35: a bound is kept, however the bytes come, and said.
    #[test]
    fn the_beginning_and_the_end_are_kept() {
        for step in [1, 3, 7, 100] {
            let mut kept = Kept::new(8);
            for bytes in b"0123456789abcdefghij\n".chunks(step) {
                kept.add(bytes);
            }
            assert_eq!(kept.into_text(), "0123\n[13 of 21 bytes are left out here]\nhij", "{step}");
        }
        let mut whole = Kept::new(10);
        whole.add(b"0123");
        whole.add("é67\n".as_bytes());
        assert_eq!(whole.into_text(), "0123é67");
    }
}
