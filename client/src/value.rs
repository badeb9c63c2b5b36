//! Values of options: durations, sizes, points in time and `K=V` pairs, with errors that say what would be right.

use std::cell::OnceCell;
use std::time::{Duration, Instant};

use jiff::Timestamp;

/// A duration in milliseconds: `500ms`, `3s`, `1h 30m`, `2d`; a bare number counts seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).map_err(|why| format!("{text}: {why}"));
    }
    humantime::parse_duration(text).map_err(|why| format!("{why}; write for example 500ms, 3s, 10m or 24h"))
}

/// A size in bytes: `512MiB`, `5GiB`, or a number of bytes.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    text.parse::<bytesize::ByteSize>()
        .map(|size| size.as_u64())
        .map_err(|why| format!("{why}; write for example 512MiB or 5GiB"))
}

/// A point in time, in milliseconds since the epoch: an RFC 3339 time, a local date and time, or how long ago.
pub(crate) fn since(text: &str) -> Result<u64, String> {
    let local = || {
        let civil: jiff::civil::DateTime = text.parse().ok()?;
        Some(civil.to_zoned(jiff::tz::TimeZone::system()).ok()?.timestamp())
    };
    let ago = || {
        let back = i64::try_from(duration(text).ok()?.as_millis()).ok()?;
        Timestamp::from_millisecond(Timestamp::now().as_millisecond().checked_sub(back)?).ok()
    };
    text.parse::<Timestamp>()
        .ok()
        .or_else(ago)
        .or_else(local)
        .and_then(|at| u64::try_from(at.as_millisecond()).ok())
        .ok_or_else(|| format!("{text:?} is no time; write for example 10m or 2026-01-31T12:00:00Z"))
}

/// `K=V`; `K` alone takes the value from this process's environment.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some(("", _)) => Err(format!("{text:?} has no name before the =")),
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => std::env::var(text)
            .map(|value| (text.to_owned(), value))
            .map_err(|_| format!("{text} is not set here; write {text}=VALUE")),
    }
}

/// A label: `K=V`.
pub(crate) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => Err(format!("{text:?} is no label; write NAME=VALUE")),
    }
}

/// The pairs of an environment file: a `K=V` a line; empty lines and lines that begin with `#` don't count.
pub(crate) fn pairs_of_file(text: &str) -> Result<Vec<(String, String)>, String> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
        .map(|(number, line)| pair(line).map_err(|why| format!("line {}: {why}", number + 1)))
        .collect()
}

/// Milliseconds of a duration, for the wire.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Tells how many milliseconds are left of a time that begins when it is asked for first.
pub(crate) fn left(limit: Duration) -> impl Fn() -> u64 {
    let begun = OnceCell::new();
    move || {
        let now = Instant::now();
        millis(limit.saturating_sub(now - *begun.get_or_init(|| now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// cli.md: durations and sizes are written with their units.
    #[test]
    fn durations_and_sizes_have_units() {
        assert_eq!(duration("3s"), Ok(Duration::from_secs(3)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("1h 30m"), Ok(Duration::from_mins(90)));
        assert!(duration("soon").is_err());
        assert!(duration("-1").is_err());
        assert_eq!(size("5GiB"), Ok(5 << 30));
        assert_eq!(size("17"), Ok(17));
        assert!(size("many").is_err());
    }

    /// cli.md: `logs --since T` takes a time or how long ago.
    #[test]
    fn a_point_in_time_is_a_date_or_an_age() {
        assert_eq!(since("1970-01-01T00:00:01Z"), Ok(1000));
        assert!(since("10m").unwrap() > 1_600_000_000_000);
        assert!(since("2026-01-31T12:00:00").is_ok());
        assert!(since("yesterday").is_err());
    }

    /// cli.md: `--env K=V` and `--env-file F`.
    #[test]
    fn an_environment_file_holds_a_pair_a_line() {
        let pairs = pairs_of_file("# note\nA=1\n\nB=x=y\n").unwrap();
        assert_eq!(pairs, [("A".into(), "1".into()), ("B".into(), "x=y".into())]);
        assert!(pairs_of_file("A=1\n=2\n").unwrap_err().contains("line 2"));
    }
}
