//! Points in time, measured with two clocks.

use std::fs;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

static BOOT: LazyLock<String> =
    LazyLock::new(|| fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default());

/// A point in time, in milliseconds since the epoch by the adjustable wall clock, and in
/// milliseconds since the boot, including suspend. Uptimes are comparable only if `boot` is equal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub struct Moment {
    pub wall: u64,
    pub boot: String,
    pub uptime: u64,
}

impl Moment {
    /// Returns the current time.
    pub fn now() -> Self {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let uptime = uptime().unwrap_or_default();
        let (wall, boot) = (wall.as_millis() as u64, BOOT.trim().to_owned());
        Self { wall, boot, uptime: uptime.as_millis() as u64 }
    }

    pub(crate) fn micros(&self) -> u64 {
        self.wall.saturating_mul(1000)
    }

    /// Returns the time since `earlier`, which is the larger of the differences by the two clocks.
    /// After a reboot, the difference of the uptimes is unknown. The current uptime is used
    /// instead, as its lower bound.
    pub(crate) fn since(&self, earlier: &Self) -> Duration {
        let wall = self.wall.saturating_sub(earlier.wall);
        let is_same = self.boot == earlier.boot;
        let up = if is_same { self.uptime.saturating_sub(earlier.uptime) } else { self.uptime };
        Duration::from_millis(wall.max(up))
    }
}

fn uptime() -> Option<Duration> {
    let text = fs::read_to_string("/proc/uptime").ok()?;
    let seconds = text.split_ascii_whitespace().next()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(wall: u64, boot: &str, uptime: u64) -> Moment {
        Moment { wall, boot: boot.to_owned(), uptime }
    }

    #[test]
    fn the_clock_that_says_more_counts() {
        let start = at(1000, "a", 500);
        let since = |moment: Moment| moment.since(&start).as_millis();
        assert_eq!(since(at(1010, "a", 502)), 10);
        assert_eq!(since(at(900, "a", 520)), 20, "the clock was set back");
        assert_eq!(since(at(900, "b", 7)), 7, "it is another boot");
        assert_eq!(since(at(1900, "b", 7)), 900);
    }

    #[test]
    fn the_present_goes_on() {
        let first = Moment::now();
        assert!(first.wall > 0 && first.uptime > 0 && !first.boot.is_empty());
        assert!(Moment::now().since(&first) < Duration::from_mins(10));
    }
}
