//! The time limit of an attempt, and the pause between attempts.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use hyper::{HeaderMap, header};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use tokio::time::{Instant, timeout_at};

use crate::extract::Stopped;

const LOOK: Duration = Duration::from_millis(25);

/// The end of waiting: a point in time, or the moment when the question is stopped.
#[derive(Clone, Copy)]
pub(super) struct WaitLimit<'a> {
    until: Instant,
    stopped: &'a Stopped<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interrupted {
    Late,
    Stopped,
}

impl<'a> WaitLimit<'a> {
    pub(super) fn new(time: Duration, stopped: &'a Stopped<'a>) -> Self {
        // Use a century if the settings contain a time that the clock cannot represent.
        let century = Duration::from_hours(100 * 365 * 24);
        Self { until: Instant::now() + time.min(century), stopped }
    }

    pub(super) fn at_most(self, time: Duration) -> Self {
        Self { until: self.until.min(Instant::now() + time), ..self }
    }

    pub(super) async fn to_its_end(self) -> Result<(), Interrupted> {
        match self.wait_for(std::future::pending()).await {
            Ok(()) | Err(Interrupted::Late) => Ok(()),
            Err(Interrupted::Stopped) => Err(Interrupted::Stopped),
        }
    }

    pub(super) async fn wait_for<T>(
        &self,
        what: impl Future<Output = T>,
    ) -> Result<T, Interrupted> {
        let mut what = std::pin::pin!(what);
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

pub(super) const PAUSES: &[Duration] =
    &[Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];
/// Maximum pause that an endpoint may request. During a longer pause, another model can answer.
pub(super) const LONGEST: Duration = Duration::from_mins(1);
/// The jitter of a pause in percent. It prevents callers that failed together from retrying
/// together.
const JITTER: u64 = 25;

/// Returns the pause before the next attempt. This is `pause`, or the time that the endpoint
/// `asked` for if that is longer, plus a random time of up to a quarter of `pause`.
pub(super) fn before_next(pause: Duration, asked: Option<Duration>) -> Duration {
    let most = pause.as_millis() as u64 * JITTER / 100;
    let random = RandomState::new().hash_one(0) % (most + 1);
    asked.unwrap_or_default().max(pause) + Duration::from_millis(random)
}

/// Returns the time in a `Retry-After` header, which is a number of seconds or an HTTP date.
/// Returns `None` if it is neither.
pub(super) fn asked_for(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let then = DateTimeParser::new().parse_timestamp(value).ok()?;
    let left = then.duration_since(Timestamp::now());
    Some(Duration::try_from(left).unwrap_or_default())
}

/// Returns the time at the end of `pause`, such as `2026-11-25 14:05:30 UTC`.
pub(super) fn time_after(pause: Duration) -> String {
    let then = jiff::SignedDuration::try_from(pause)
        .ok()
        .and_then(|pause| Timestamp::now().checked_add(pause).ok())
        .unwrap_or(Timestamp::MAX);
    then.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn asked(value: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(header::RETRY_AFTER, HeaderValue::from_str(value).unwrap());
        asked_for(&headers)
    }

    #[test]
    fn the_endpoint_may_ask_for_seconds_or_a_date() {
        assert_eq!(asked("7"), Some(Duration::from_secs(7)));
        assert_eq!(asked(" 1.5 "), Some(Duration::from_millis(1500)));
        assert_eq!(asked("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        for nothing in ["soon", "-1", "NaN", "1e300", ""] {
            assert_eq!(asked(nothing), None, "{nothing}");
        }
        let then = Timestamp::now() + jiff::SignedDuration::from_secs(30);
        let date = jiff::fmt::rfc2822::DateTimePrinter::new();
        let pause = asked(&date.timestamp_to_rfc9110_string(&then).unwrap()).unwrap();
        assert!((28..=30).contains(&pause.as_secs()), "{pause:?}");
    }

    #[test]
    fn a_pause_is_at_least_what_it_says() {
        for _ in 0..50 {
            let pause = before_next(Duration::from_secs(1), None).as_millis();
            assert!((1000..=1250).contains(&pause), "{pause}");
            let pause = before_next(Duration::from_secs(1), Some(Duration::from_secs(9)));
            assert!((9000..=9250).contains(&pause.as_millis()), "{pause:?}");
            assert_eq!(before_next(Duration::ZERO, None), Duration::ZERO);
        }
    }
}
