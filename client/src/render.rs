//! Text for a person: tables, times, sizes. What agents wrote is cleaned of control characters first, so that it can't
//! move the cursor or change the title of the terminal that shows it.

pub(crate) mod event;
pub(crate) mod mail;
pub(crate) mod task;
pub(crate) mod team;

use comfy_table::{Cell, ColumnConstraint, ContentArrangement, Table};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A table without lines: the header in capitals, columns as wide as they need, the last one cut at the terminal's edge.
pub(crate) fn table(headers: &[&str], rows: Vec<Vec<Cell>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.enforce_styling();
    table.set_header(headers.to_vec());
    let cols = crate::terminal::size().map(|(cols, _)| cols);
    for row in rows {
        let mut row = comfy_table::Row::from(row);
        if cols.is_some() {
            row.max_height(1);
        }
        table.add_row(row);
    }
    if let Some(cols) = cols {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(cols);
        for column in table.column_iter_mut().take(headers.len().saturating_sub(1)) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// A cell of text that came from an agent or a person.
pub(crate) fn cell(text: &str) -> Cell {
    Cell::new(line(text))
}

/// One line of text without control characters.
pub(crate) fn line(text: &str) -> String {
    text.chars()
        .map(|character| if character.is_control() { ' ' } else { character })
        .filter(|character| !is_bidi(*character))
        .collect()
}

/// Text without control characters but for ends of lines and tabs.
pub(crate) fn clean(text: &str) -> String {
    text.chars()
        .filter(|character| {
            (!character.is_control() || matches!(character, '\n' | '\t')) && !is_bidi(*character)
        })
        .collect()
}

/// Whether a character changes the direction of what follows, and so what a reader believes to read.
fn is_bidi(character: char) -> bool {
    matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text cut at a width of the terminal, where wide characters count two columns.
pub(crate) fn cut(text: &str, width: usize) -> String {
    use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
    if text.width() <= width {
        return text.to_owned();
    }
    let mut used = 1;
    let mut short: String = text
        .chars()
        .take_while(|character| {
            used += character.width().unwrap_or(0);
            used <= width
        })
        .collect();
    short.push('…');
    short
}

/// A time in the local zone.
pub(crate) fn time(at: u64) -> String {
    zoned(at, "%Y-%m-%d %H:%M:%S")
}

/// The time of day in the local zone.
pub(crate) fn clock(at: u64) -> String {
    zoned(at, "%H:%M:%S")
}

fn zoned(at: u64, format: &str) -> String {
    i64::try_from(at)
        .ok()
        .and_then(|at| Timestamp::from_millisecond(at).ok())
        .map(|at| at.to_zoned(TimeZone::system()).strftime(format).to_string())
        .unwrap_or_default()
}

/// Now, in milliseconds since the epoch.
pub(crate) fn now() -> u64 {
    u64::try_from(Timestamp::now().as_millisecond()).unwrap_or_default()
}

/// A length of time in its two largest units.
pub(crate) fn span(millis: u64) -> String {
    let seconds = millis / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match (days, hours, minutes) {
        (0, 0, 0) if seconds < 10 => format!("{}.{}s", seconds, millis % 1000 / 100),
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m{:02}s", seconds % 60),
        (0, hours, minutes) => format!("{hours}h{:02}m", minutes % 60),
        (days, hours, _) => format!("{days}d{:02}h", hours % 24),
    }
}

/// A number of bytes in a unit that can be read.
pub(crate) fn bytes(count: u64) -> String {
    bytesize::ByteSize(count).display().iec_short().to_string()
}

/// Lines of `name  value`, for what has a value.
pub(crate) fn details(pairs: &[(&str, Option<String>)]) -> String {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    lines(
        pairs
            .iter()
            .filter_map(|(name, value)| Some((name, value.as_ref()?)))
            .map(|(name, value)| format!("{name:width$}  {}", clean(value).trim_end())),
    )
}

/// A text of lines, each with its end.
pub(crate) fn lines(lines: impl IntoIterator<Item = String>) -> String {
    lines.into_iter().fold(String::new(), |text, line| text + &line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// cli.md: tables line up with wide characters too.
    #[test]
    fn wide_characters_take_two_columns() {
        let rows = vec![vec![cell("写作者"), cell("x")], vec![cell("ab"), cell("y")]];
        let text = table(&["NAME", "Z"], rows);
        let column = |line: &str, mark: char| {
            let before = line.split(mark).next().unwrap();
            unicode_width::UnicodeWidthStr::width(before)
        };
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(column(lines[1], 'x'), 8, "{text}");
        assert_eq!(column(lines[2], 'y'), 8, "{text}");
        assert_eq!(cut("写作者", 5), "写作…");
        assert_eq!(cut("abc", 3), "abc");
    }

    /// What an agent wrote can't steer the terminal that shows it.
    #[test]
    fn control_characters_of_agents_are_taken_out() {
        assert_eq!(line("a\x1b[2Jb\nc"), "a [2Jb c");
        assert_eq!(clean("a\x1b]0;x\x07\nb\u{202e}"), "a]0;x\nb");
    }

    /// Lengths of time and sizes are short enough for a column.
    #[test]
    fn spans_and_sizes_are_short() {
        assert_eq!(
            [1500, 59_000, 61_000, 3_720_000, 90_000_000].map(span),
            ["1.5s", "59s", "1m01s", "1h02m", "1d01h"]
        );
        assert_eq!(bytes(5 << 30), "5.0G");
    }
}
