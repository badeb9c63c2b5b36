//! The laws of the core over random histories with crashes in them.
//!
//! A history follows from its seed. On failure the seed and the last steps are printed: put the seed into
//! [`histories`] to see it again.

#[cfg(test)]
mod calls;
#[cfg(test)]
mod disk;
#[cfg(test)]
mod ledger;
#[cfg(test)]
mod process;
#[cfg(test)]
mod random;
#[cfg(test)]
mod world;

use world::World;

/// Steps of one history.
const STEPS: usize = 3_000;

fn histories(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        World::new(seed).run(STEPS);
    }
}

/// L1, L3, L4, L5, L6, I1, I3, I4, I9, NT-01, SE-04, B24, D54, H109.
#[test]
fn the_laws_hold_over_histories_with_crashes() {
    histories(0..20);
}

/// As before, over other histories: the two run beside each other.
#[test]
fn the_laws_hold_over_more_histories_with_crashes() {
    histories(100..120);
}

/// L2: the same history gives the same writes and effects.
#[test]
fn the_same_inputs_give_the_same_output() {
    for seed in 200..203 {
        assert_eq!(World::new(seed).digest(STEPS), World::new(seed).digest(STEPS), "seed {seed}");
    }
}
