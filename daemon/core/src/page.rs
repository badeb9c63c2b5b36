//! Pages of a list: a bound and a cursor.

use std::str::FromStr;

use ccagent_proto::{Error, Kind};

/// Entries of a page when the caller doesn't say.
pub const DEFAULT: u32 = 100;
/// Entries of a page at most.
pub const MOST: u32 = 1000;

/// The bound of a page.
///
/// # Errors
/// `invalidParams` for 0.
pub fn limit(asked: Option<u32>) -> Result<usize, Error> {
    match asked.unwrap_or(DEFAULT).min(MOST) {
        0 => Err(Error::new(Kind::InvalidParams, "limit is at least 1").with("path", "limit")),
        limit => Ok(limit as usize),
    }
}

/// The number behind which a page of a list by rising numbers begins.
///
/// # Errors
/// `invalidParams` for a cursor that no page gave.
pub fn after(cursor: Option<&str>) -> Result<u64, Error> {
    let bad =
        || Error::new(Kind::InvalidParams, "cursor is what the page before gave").with("path", "cursor");
    cursor.map_or(Ok(0), |text| text.parse().map_err(|_| bad()))
}

/// Cuts a page from entries by rising key; the cursor is the key of the last entry of the page before, which
/// may be gone by now.
///
/// # Errors
/// `invalidParams` for a limit of 0 or a cursor that no page gave.
pub fn cut<T, K: Ord + ToString + FromStr>(
    entries: impl Iterator<Item = T>,
    asked: Option<u32>,
    cursor: Option<&str>,
    key: impl Fn(&T) -> K,
) -> Result<(Vec<T>, Option<String>), Error> {
    let limit = limit(asked)?;
    let bad =
        || Error::new(Kind::InvalidParams, "cursor is what the page before gave").with("path", "cursor");
    let after = cursor.map(|text| text.parse::<K>().map_err(|_| bad())).transpose()?;
    let mut entries = entries.filter(|entry| after.as_ref().is_none_or(|after| key(entry) > *after));
    let page: Vec<T> = entries.by_ref().take(limit).collect();
    let next = if entries.next().is_some() { page.last().map(|last| key(last).to_string()) } else { None };
    Ok((page, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// K144: pages together are the whole list, even when the entry of a cursor went away between them.
    #[test]
    fn a_cursor_outlives_its_entry() {
        let (first, next) = cut([1_u32, 2, 3].into_iter(), Some(2), None, |n| *n).unwrap();
        assert_eq!((first, next.as_deref()), (vec![1, 2], Some("2")));
        let (rest, next) = cut([1_u32, 3].into_iter(), Some(2), next.as_deref(), |n| *n).unwrap();
        assert_eq!((rest, next), (vec![3], None));
    }

    /// A bound of 0 and a made-up cursor are refused by name.
    #[test]
    fn a_bad_limit_or_cursor_is_named() {
        let none = cut([1_u32].into_iter(), Some(0), None, |n| *n).unwrap_err();
        assert_eq!(none.data["path"], "limit");
        let odd = cut([1_u32].into_iter(), None, Some("x"), |n| *n).unwrap_err();
        assert_eq!(odd.data["path"], "cursor");
    }
}
