//! The table of figures, each beside its floor and its target.

use std::fmt;

/// How far a figure got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// What was hoped for.
    Aim,
    /// What has to be.
    Must,
    /// Neither.
    Missed,
    /// It was not measured.
    Skipped(String),
}

/// One figure.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// What was measured.
    pub(crate) figure: String,
    /// How it came out.
    pub(crate) measured: String,
    /// What the machine can do.
    pub(crate) floor: String,
    /// The one by the other.
    pub(crate) ratio: String,
    /// What has to be, and what is hoped for.
    pub(crate) target: String,
    /// Whether it was reached.
    pub(crate) verdict: Verdict,
}

/// All figures of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table(Vec<Row>);

impl Table {
    /// Adds a figure, and says it at once.
    pub(crate) fn add(&mut self, row: Row) {
        eprintln!("{row}");
        self.0.push(row);
    }
}

/// The verdict on a value that should be small.
pub(crate) fn at_most(value: f64, must: f64, aim: f64) -> Verdict {
    if value <= aim {
        Verdict::Aim
    } else if value <= must {
        Verdict::Must
    } else {
        Verdict::Missed
    }
}

/// The verdict on a value that should be large.
pub(crate) fn at_least(value: f64, must: f64, aim: f64) -> Verdict {
    at_most(-value, -must, -aim)
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { figure, measured, floor, ratio, target, verdict } = self;
        write!(f, "| {figure} | {measured} | {floor} | {ratio} | {target} | {verdict} |")
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Aim => f.write_str("yes"),
            Self::Must => f.write_str("yes, short of the aim"),
            Self::Missed => f.write_str("**no**"),
            Self::Skipped(why) => write!(f, "skipped: {why}"),
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| figure | measured | floor | ratio | target | reached |")?;
        writeln!(f, "|---|---|---|---|---|---|")?;
        self.0.iter().try_for_each(|row| writeln!(f, "{row}"))
    }
}
