//! The daemon's clock: the wall time at its start, plus the time since then as the machine counts it, suspension
//! included. A wall clock that is set meanwhile moves no deadline (I7).

use std::time::{SystemTime, UNIX_EPOCH};

use ccagent_proto::Millis;
use rustix::time::{ClockId, clock_gettime};

/// Milliseconds since the epoch that never go back.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    wall_at_start: Millis,
    boot_at_start: Millis,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall_at_start = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
        Self { wall_at_start, boot_at_start: since_boot() }
    }

    /// The time.
    pub fn now(&self) -> Millis {
        self.wall_at_start + since_boot().saturating_sub(self.boot_at_start)
    }
}

fn since_boot() -> Millis {
    let time = clock_gettime(ClockId::Boottime);
    let millis = time.tv_sec.saturating_mul(1000).saturating_add(time.tv_nsec / 1_000_000);
    u64::try_from(millis).unwrap_or(0)
}
