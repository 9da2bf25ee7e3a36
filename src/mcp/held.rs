//! Calls that ended with `input_required`, held until the client repeats them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::sleep;

use crate::permission::state_token::{BoundCall, StateError, StateKey};
use crate::shelf::LazyShelf;

// Maximum number of held calls. When it is reached, a new call evicts the oldest one, so a client
// that never returns cannot fill the table.
const MAX_HELD: usize = 64;
const CROWDED: &str = "too many other calls wait for answers";
const LATE: &str = "the client did not answer in time";

/// Held calls, each under a number that is never reused.
///
/// The client sends the signed number back as `requestState`. This state is valid only for the same
/// request in the same conversation, and only for a limited time. The state is signed but not
/// encrypted, because the number is worthless without the held call.
pub(crate) struct HeldCalls<T> {
    key: StateKey,
    last: AtomicU64,
    pub(crate) calls: Mutex<BTreeMap<u64, T>>,
}

impl<T: Send + 'static> HeldCalls<T> {
    pub(crate) fn new(random: [u8; 32]) -> Arc<Self> {
        let (key, last, calls) = (StateKey::new(random), AtomicU64::new(0), Mutex::default());
        Arc::new(Self { key, last, calls })
    }

    /// Holds a call for `time`. Returns its number and its state. `request` is the name and the
    /// arguments of the request that the client must repeat. A call that is not repeated in time,
    /// or that newer calls evict, is passed to `give_up` with the reason.
    pub(crate) fn hold(
        self: &Arc<Self>,
        shelf: &LazyShelf,
        request: (&str, &Value),
        time: Duration,
        (call, give_up): (T, fn(T, &'static str)),
    ) -> (u64, String) {
        let (number, oldest) = self.put(call);
        if let Some(oldest) = oldest {
            give_up(oldest, CROWDED);
        }
        let held = Arc::downgrade(self);
        tokio::spawn(async move {
            sleep(time).await;
            if let Some(call) = held.upgrade().and_then(|held| held.take(number)) {
                give_up(call, LATE);
            }
        });
        let expires = now().saturating_add(time.as_millis() as u64);
        let state = self.key.seal(&bound(shelf, request), expires, number.to_string().as_bytes());
        (number, state)
    }

    /// Takes the call that `state` identifies. Returns `None` if the call was already repeated or
    /// given up. The error says why the state is not accepted.
    pub(crate) fn open(
        &self,
        shelf: &LazyShelf,
        request: (&str, &Value),
        state: &str,
    ) -> Result<Option<T>, String> {
        let payload = self.key.open(&bound(shelf, request), state, now());
        let payload = payload.map_err(|error| error.to_string())?;
        let number = String::from_utf8(payload).ok().and_then(|number| number.parse().ok());
        Ok(self.take(number.ok_or_else(|| StateError::Forged.to_string())?))
    }

    fn put(&self, call: T) -> (u64, Option<T>) {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let mut calls = self.calls.lock();
        calls.insert(number, call);
        let oldest = if calls.len() > MAX_HELD { calls.pop_first() } else { None };
        (number, oldest.map(|(_, call)| call))
    }

    fn take(&self, number: u64) -> Option<T> {
        self.calls.lock().remove(&number)
    }
}

fn bound<'a>(shelf: &'a LazyShelf, (tool, arguments): (&'a str, &'a Value)) -> BoundCall<'a> {
    let conversation = shelf.source.conversation().as_os_str().to_str().unwrap_or_default();
    BoundCall { conversation, tool, arguments }
}

fn now() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_taken_once_and_the_oldest_goes_first() {
        let held = HeldCalls::new([7; 32]);
        for n in 0..MAX_HELD as u64 {
            assert!(held.put(n).1.is_none());
        }
        let (number, oldest) = held.put(999);
        assert_eq!(oldest, Some(0));
        assert_eq!(held.take(number), Some(999));
        assert!(held.take(number).is_none());
        assert!(!held.calls.lock().contains_key(&number));
    }
}
