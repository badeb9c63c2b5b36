//! Texts of agents and of others as a person may see them, on a terminal that obeys some characters and hides others.
//!
//! Deliberately not here: output of programs, which is shown as it is.

/// One line of text: blanks instead of control characters, and a mark instead of each character that doesn't show.
pub fn line(text: &str) -> String {
    let shown = |character: char| {
        if character.is_control() {
            ' '
        } else if is_unseen(character) || is_joiner(character) {
            char::REPLACEMENT_CHARACTER
        } else {
            character
        }
    };
    text.chars().map(shown).collect()
}

/// Text without control characters but for ends of lines and tabs, and without what doesn't show.
pub fn clean(text: &str) -> String {
    text.chars().filter(|character| !steers(*character) || matches!(character, '\n' | '\t')).collect()
}

/// Whether a terminal does something at a character instead of showing it, or nothing at all.
pub fn steers(character: char) -> bool {
    character.is_control() || is_unseen(character)
}

/// Whether a character is not seen: one that changes the direction of what follows, and so what a reader believes to
/// read, that ends a line for some readers alone, or that has no width.
fn is_unseen(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'
            | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// Whether a character joins its neighbours, or keeps them apart. Running text of some scripts needs them; in a name
/// they only hide.
fn is_joiner(character: char) -> bool {
    matches!(character, '\u{200c}' | '\u{200d}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an agent wrote can't steer the terminal that shows it.
    #[test]
    fn control_characters_of_agents_are_taken_out() {
        assert_eq!(line("a\x1b[2Jb\nc"), "a [2Jb c");
        assert_eq!(clean("a\x1b]0;x\x07\nb\u{202e}"), "a]0;x\nb");
    }

    /// A name can't look like another one by characters that don't show; running text keeps what its script needs.
    #[test]
    fn characters_that_do_not_show_are_shown_or_taken_out() {
        for unseen in
            "\u{ad}\u{61c}\u{200b}\u{200e}\u{2028}\u{2029}\u{202e}\u{2060}\u{2066}\u{feff}\u{e0041}".chars()
        {
            assert_eq!(line(&format!("a{unseen}b")), "a\u{fffd}b", "{}", unseen.escape_unicode());
            assert_eq!(clean(&format!("a{unseen}b")), "ab", "{}", unseen.escape_unicode());
        }
        assert_eq!(line("a\u{200d}b"), "a\u{fffd}b");
        assert_eq!(clean("می\u{200c}خواهم"), "می\u{200c}خواهم");
    }
}
