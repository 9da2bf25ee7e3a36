//! How long an attempt waits.

use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::extract::Stopped;

/// The time between looks whether anybody waits for the reply.
const LOOK: Duration = Duration::from_millis(25);

/// An end of waiting, and whether anybody still waits.
#[derive(Clone, Copy)]
pub(super) struct Patience<'a> {
    until: Instant,
    stopped: &'a Stopped<'a>,
}

/// What was waited for did not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interrupted {
    /// It took too long.
    Late,
    /// Nobody waits for it any more.
    Stopped,
}

impl<'a> Patience<'a> {
    pub(super) fn new(time: Duration, stopped: &'a Stopped<'a>) -> Self {
        // A century, if the settings name a time that the clock cannot hold.
        let century = Duration::from_hours(100 * 365 * 24);
        Self { until: Instant::now() + time.min(century), stopped }
    }

    /// Returns the same patience, for at most `time` from now.
    pub(super) fn at_most(self, time: Duration) -> Self {
        Self { until: self.until.min(Instant::now() + time), ..self }
    }

    /// Waits for the whole time.
    pub(super) async fn to_its_end(self) -> Result<(), Interrupted> {
        match self.wait_for(pending()).await {
            Ok(()) | Err(Interrupted::Late) => Ok(()),
            Err(Interrupted::Stopped) => Err(Interrupted::Stopped),
        }
    }

    /// Waits for `what`, which is dropped if it is interrupted.
    pub(super) async fn wait_for<T>(
        &self,
        what: impl Future<Output = T>,
    ) -> Result<T, Interrupted> {
        let mut what = pin!(what);
        loop {
            let now = Instant::now();
            if (self.stopped)() {
                return Err(Interrupted::Stopped);
            }
            if now >= self.until {
                return Err(Interrupted::Late);
            }
            let look = self.until.min(now + LOOK);
            if let Ok(value) = timeout_at(look, what.as_mut()).await {
                return Ok(value);
            }
        }
    }
}
