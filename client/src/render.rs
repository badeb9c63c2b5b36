//! Text for a person: tables, times, sizes. What agents wrote is cleaned of control characters first, so that it can't
//! move the cursor or change the title of the terminal that shows it; and of characters that don't show, so that a name
//! can't look like another one.

pub(crate) mod ask;
pub(crate) mod definition;
pub(crate) mod event;
pub(crate) mod explain;
pub(crate) mod form;
pub(crate) mod mail;
pub(crate) mod task;
pub(crate) mod tasklist;
pub(crate) mod team;
pub(crate) mod trust;

pub(crate) use ccagent_proto::shown::{clean, line, steers};
use comfy_table::{Cell, ColumnConstraint, ContentArrangement, Table, Width};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use unicode_width::UnicodeWidthStr;

/// A column that has to give way on a narrow terminal keeps so much.
const NARROW: usize = 5;

/// A table without lines: the header in capitals, columns as wide as they need. On a terminal a row is one line: the
/// last column gives way first, then the widest ones. What stands in the first is what a person types again; it is
/// never cut.
pub(crate) fn table(headers: &[&str], rows: Vec<Vec<Cell>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.enforce_styling();
    let cols = crate::terminal::size().map(|(cols, _)| usize::from(cols));
    let mut header = comfy_table::Row::from(headers.to_vec());
    header.max_height(1);
    table.set_header(header);
    let mut widths: Vec<usize> = headers.iter().map(|header| header.width()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.content().width());
        }
    }
    for row in rows {
        let mut row = comfy_table::Row::from(row);
        if cols.is_some() {
            row.max_height(1);
        }
        table.add_row(row);
    }
    if let Some(cols) = cols {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        fit(&mut widths, cols);
        table.set_width(columns(widths.iter().map(|width| width + GAP).sum()));
        for (column, width) in table.column_iter_mut().zip(&widths) {
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(columns(width + GAP))));
        }
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// Blanks after a column.
const GAP: usize = 2;

fn columns(width: usize) -> u16 {
    u16::try_from(width).unwrap_or(u16::MAX)
}

/// Makes columns narrower until they fit into a line, as far as that goes.
fn fit(widths: &mut [usize], cols: usize) {
    let line = |widths: &[usize]| (widths.iter().sum::<usize>() + GAP * widths.len()).saturating_sub(GAP);
    if let Some(last) = widths.last().copied() {
        let over = line(widths).saturating_sub(cols);
        let least = last.min(2 * NARROW);
        if let Some(width) = widths.last_mut() {
            *width = last.saturating_sub(over).max(least);
        }
    }
    while line(widths) > cols {
        let Some(widest) = widths.iter_mut().skip(1).max().filter(|width| **width > NARROW) else {
            return;
        };
        *widest -= 1;
    }
}

/// A cell of text that came from an agent or a person.
pub(crate) fn cell(text: &str) -> Cell {
    Cell::new(line(text))
}

/// A text cut at a width of the terminal, where wide characters count two columns.
pub(crate) fn cut(text: &str, width: usize) -> String {
    use unicode_width::UnicodeWidthChar;
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
            before.width()
        };
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(column(lines[1], 'x'), 8, "{text}");
        assert_eq!(column(lines[2], 'y'), 8, "{text}");
        assert_eq!(cut("写作者", 5), "写作…");
        assert_eq!(cut("abc", 3), "abc");
    }

    /// cli.md: a row stays one line on a narrow terminal, and what is typed again is whole.
    #[test]
    fn columns_give_way_but_for_the_first() {
        let fitted = |mut widths: Vec<usize>, cols| {
            fit(&mut widths, cols);
            widths
        };
        assert_eq!(fitted(vec![10, 5, 60], 200), [10, 5, 60]);
        assert_eq!(fitted(vec![10, 5, 60], 60), [10, 5, 41]);
        assert_eq!(fitted(vec![44, 8, 6, 5, 7, 30], 80), [44, 6, 5, 5, 5, 5]);
        assert_eq!(fitted(vec![6, 19, 44, 9, 12, 60], 60), [6, 9, 9, 9, 9, 8]);
        assert_eq!(fitted(vec![6, 3, 1], 3), [6, 3, 1]);
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
