//! A small source of randomness, so that a history follows from its seed alone.

use std::cell::Cell;

/// A generator of numbers (xorshift64*).
#[derive(Clone, Debug)]
pub(crate) struct Random(Cell<u64>);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1))
    }

    pub(crate) fn next(&self) -> u64 {
        let mut state = self.0.get();
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.0.set(state);
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below a bound.
    pub(crate) fn below(&self, bound: usize) -> usize {
        usize::try_from((self.next() >> 33) % bound.max(1) as u64).unwrap()
    }

    /// True so many times in a hundred.
    pub(crate) fn percent(&self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of some values.
    pub(crate) fn pick<'a, T>(&self, values: &'a [T]) -> Option<&'a T> {
        values.get(self.below(values.len()))
    }

    /// One of some values that are there.
    pub(crate) fn one<T: Copy>(&self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// A value, so many times in a hundred.
    pub(crate) fn sometimes<T>(&self, percent: usize, value: T) -> Option<T> {
        self.percent(percent).then_some(value)
    }
}
