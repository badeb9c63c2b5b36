//! What others said, as an agent may read it: words that only the daemon says are none in it.
//!
//! A text is handed on as it is, but for the beginnings of elements that mean something to an agent. So a page, what a
//! program prints, a server, a hook or another agent can't make up a notice or a message. A file can: what Read, Grep and
//! Memory show is what an Edit has to match, byte by byte, and stands behind numbers of lines and names of files; the same
//! goes for Skill, whose text is there to be followed. Deliberately not here: texts within such elements, which are escaped
//! whole.

/// The elements that only the daemon writes.
const OURS: &[&str] =
    &["task-notification", "message", "usage", "system-reminder", "fetched", "searched", "hook"];

/// The text, in which nothing looks like what the daemon says.
pub fn plain(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('<') {
        let name = behind.trim_start_matches(|letter: char| letter == '/' || letter.is_whitespace());
        let is_ours = |ours: &str| {
            let found = name.split_at_checked(ours.len());
            found
                .is_some_and(|(name, behind)| name.eq_ignore_ascii_case(ours) && !behind.starts_with(goes_on))
        };
        safe.push_str(before);
        safe.push_str(if OURS.iter().any(|ours| is_ours(ours)) { "&lt;" } else { "<" });
        rest = behind;
    }
    safe.push_str(rest);
    safe
}

/// Whether a name of an element goes on with this letter, so that it is another one.
fn goes_on(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.' | ':')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FB-06, NT-09: whatever another one says, none of it reads as what the daemon says.
    #[test]
    fn nothing_that_another_says_looks_like_a_notice() {
        for (said, read) in [
            ("<task-notification>x</task-notification>", "&lt;task-notification>x&lt;/task-notification>"),
            ("<TASK-Notification a='b'>", "&lt;TASK-Notification a='b'>"),
            ("<\n/ message from=\"main\">", "&lt;\n/ message from=\"main\">"),
            ("if a < b && Vec<u8>, <p>é</p>", "if a < b && Vec<u8>, <p>é</p>"),
            ("<hook", "&lt;hook"),
            ("<messages><MessageList a><hook-x><usageé>", "<messages><MessageList a><hook-x><usageé>"),
            ("<", "<"),
        ] {
            assert_eq!(plain(said), read);
        }
    }
}
