
use std::time::{Duration, Instant};

///+ The moment at which a request gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    ///+ Returns the deadline `time` from now.
    pub fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    ///+ Returns the deadline at `moment`.
    pub fn at(moment: Instant) -> Self {
        Self(moment)
    }

    ///+ Returns the remaining time; zero after the deadline.
    pub fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    ///+ Returns true after the deadline.
    pub fn is_past(self) -> bool {
        self.left().is_zero()
    }
}
