//! Times as a sorted list, and how figures are written.

use std::time::Duration;

/// Measured times, sorted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    /// Sorts what was measured.
    pub(crate) fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// The time that half of them don't exceed.
    pub(crate) fn p50(&self) -> Duration {
        self.at(50)
    }

    /// The time that 99 of 100 don't exceed.
    pub(crate) fn p99(&self) -> Duration {
        self.at(99)
    }

    fn at(&self, percent: usize) -> Duration {
        let place = (self.0.len() * percent / 100).min(self.0.len().saturating_sub(1));
        self.0.get(place).copied().unwrap_or_default()
    }
}

/// A time with a unit that suits it.
pub(crate) fn time(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        ..1000.0 => format!("{micros:.0} µs"),
        1000.0..1e6 => format!("{:.2} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
}

/// So many a second.
pub(crate) fn rate(count: usize, time: Duration) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / time.as_secs_f64().max(1e-9)
}

/// How often one time goes into the other.
pub(crate) fn ratio(time: Duration, floor: Duration) -> f64 {
    time.as_secs_f64() / floor.as_secs_f64().max(1e-9)
}

/// Kibibytes as mebibytes.
pub(crate) fn mib(kib: u64) -> f64 {
    f64::from(u32::try_from(kib).unwrap_or(u32::MAX)) / 1024.0
}
