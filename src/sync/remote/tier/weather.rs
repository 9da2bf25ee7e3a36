
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use uuid::Uuid;

use crate::remote::RemoteError;

///+ Time after a failure during which readers cause no request.
const AWAY: Duration = Duration::from_secs(5);
///+ First and longest pause of the pusher.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(1);

///+ Circuit breaker for the bucket: after failures, readers do not wait for requests, and pushes
///+ pause with exponential backoff.
#[derive(Debug, Default)]
pub(super) struct Weather(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    failures: u32,
    failed: Option<Instant>,
    send_from: Option<Instant>,
    error: Option<String>,
}

impl Weather {
    ///+ Records a failure of the bucket, and logs the first one.
    pub(super) fn failed(&self, error: &RemoteError, now: Instant) {
        let mut state = self.0.lock();
        if state.failures == 0 {
            tracing::warn!(%error, "the bucket does not answer; what is to be sent waits");
        }
        let pause = FIRST * 2_u32.saturating_pow(state.failures.min(10));
        state.failures = state.failures.saturating_add(1);
        state.failed = Some(now);
        state.send_from = Some(now + jittered(pause.min(LONGEST)));
        state.error = Some(error.to_string());
    }

    ///+ Records an error of one conversation, which does not affect others. Logs each error once.
    pub(super) fn refused(&self, error: &RemoteError) {
        let text = error.to_string();
        let mut state = self.0.lock();
        if state.error.as_ref() != Some(&text) {
            tracing::warn!(%error, "a conversation is not shared as it should be");
            state.error = Some(text);
        }
    }

    ///+ Records a success, and closes the breaker.
    pub(super) fn worked(&self) {
        let mut state = self.0.lock();
        if state.failures > 0 {
            tracing::info!("the bucket answers again");
        }
        *state = State::default();
    }

    ///+ Returns true shortly after a failure: readers must not cause a request.
    pub(super) fn is_away(&self, now: Instant) -> bool {
        self.0.lock().failed.is_some_and(|failed| now < failed + AWAY)
    }

    ///+ Returns true if the last request failed.
    pub(super) fn is_bad(&self) -> bool {
        self.0.lock().failures > 0
    }

    ///+ Returns when the next push is allowed; `None` if it is allowed now.
    pub(super) fn send_from(&self, now: Instant) -> Option<Instant> {
        self.0.lock().send_from.filter(|from| now < *from)
    }

    ///+ Returns the last error since the last success.
    pub(super) fn error(&self) -> Option<String> {
        self.0.lock().error.clone()
    }
}

///+ Returns between half and all of a pause, so that hosts that failed together do not retry
///+ together.
fn jittered(pause: Duration) -> Duration {
    let random = Uuid::new_v4().as_u128() as u32;
    pause.mul_f64(0.5 + f64::from(random) / f64::from(u32::MAX) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::BucketError;

    #[test]
    fn pauses_grow_up_to_a_minute_and_end_with_the_first_success() {
        let (weather, now) = (Weather::default(), Instant::now());
        let away = || BucketError::Away { what: "x".to_owned(), why: "y".to_owned() };
        let mut longest = Duration::ZERO;
        for failures in 0..20_u32 {
            weather.failed(&away().into(), now);
            let pause = weather.send_from(now).unwrap() - now;
            let most = FIRST.saturating_mul(2_u32.pow(failures.min(6))).min(LONGEST);
            assert!(pause <= most && pause >= most / 2, "{failures}: {pause:?}");
            longest = longest.max(pause);
        }
        assert!(longest > Duration::from_secs(20));
        assert!(weather.is_away(now) && !weather.is_away(now + AWAY) && weather.is_bad());
        weather.worked();
        assert!(!weather.is_bad() && weather.send_from(now).is_none() && weather.error().is_none());
    }
}
