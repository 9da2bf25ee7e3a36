
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::bucket::{BucketError, Deadline};

///+ Time after a failure during which reads fail immediately.
const AWAY: Duration = Duration::from_secs(5);

///+ Objects of one request, or its failure.
pub(super) type Got = Result<Vec<Result<Bytes, BucketError>>, BucketError>;

///+ Fail-fast reads for interactive readers: a short time limit, and no requests for some seconds
///+ after a failure.
#[derive(Debug)]
pub(super) struct Haste {
    /// The longest time for one.
    most: Duration,
    failed: Mutex<Option<Instant>>,
}

impl Haste {
    pub(super) fn new(most: Duration) -> Self {
        Self { most, failed: Mutex::default() }
    }

    ///+ Runs `get` with a shortened deadline. Fails immediately shortly after a failure.
    pub(super) fn get(
        &self,
        what: &str,
        deadline: Deadline,
        get: impl FnOnce(Deadline) -> Got,
    ) -> Got {
        let failed = *self.failed.lock();
        if failed.is_some_and(|failed| failed.elapsed() < AWAY) {
            let why = "the bucket did not answer a moment ago; try again in some seconds";
            return Err(BucketError::Away { what: format!("read `{what}`"), why: why.to_owned() });
        }
        let got = get(deadline.min(Deadline::after(self.most)));
        *self.failed.lock() = is_away(&got).then(Instant::now);
        got
    }
}

fn is_away(got: &Got) -> bool {
    match got {
        Ok(all) => all.iter().filter_map(|each| each.as_ref().err()).any(BucketError::may_pass),
        Err(error) => error.may_pass(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away() -> BucketError {
        BucketError::Away { what: "x".to_owned(), why: "y".to_owned() }
    }

    #[test]
    fn a_read_that_failed_is_the_last_for_a_moment() {
        let soon = || Deadline::after(Duration::from_hours(1));
        for failed in [Err(away()), Ok(vec![Ok(Bytes::new()), Err(away())])] {
            let haste = Haste::new(Duration::from_secs(7));
            let got = haste.get("x", soon(), |deadline| {
                assert!(deadline.left() <= Duration::from_secs(7));
                Ok(vec![Err(BucketError::Absent { key: "x".to_owned() })])
            });
            assert!(got.is_ok());
            assert!(is_away(&haste.get("x", soon(), |_| failed)));
            let error = haste.get("x", soon(), |_| panic!("it asks")).unwrap_err();
            assert!(error.may_pass() && error.to_string().contains("a moment ago"), "{error}");
            *haste.failed.lock() = Some(Instant::now().checked_sub(AWAY).unwrap());
            assert!(haste.get("x", soon(), |_| Ok(Vec::new())).is_ok());
        }
    }
}
