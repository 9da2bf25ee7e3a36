//! Until when an answer is of use.

use std::time::{Duration, Instant};

/// The moment after which a request gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    /// Returns the deadline that is `time` from now.
    pub fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    /// Returns the deadline at a moment.
    pub fn at(moment: Instant) -> Self {
        Self(moment)
    }

    /// Returns the time that is left; zero if none is.
    pub fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Returns true if no time is left.
    pub fn is_past(self) -> bool {
        self.left().is_zero()
    }
}
