//! Tables of held calls, and the signed numbers that identify a held call to the client.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::permission::state_token::{BoundCall, StateError, StateKey};
use crate::shelf::LazyShelf;

/// A table of values under increasing numbers that are never reused. If the table is full, a new
/// value evicts the oldest one, so a client that never returns cannot fill it.
#[derive(Debug)]
pub(crate) struct BoundedTable<T> {
    next: u64,
    most: usize,
    pub(crate) entries: BTreeMap<u64, T>,
}

impl<T> BoundedTable<T> {
    pub(crate) fn new(most: usize) -> Self {
        Self { next: 0, most, entries: BTreeMap::new() }
    }

    pub(crate) fn put(&mut self, entry: T) -> (u64, Option<T>) {
        self.next += 1;
        self.entries.insert(self.next, entry);
        let is_full = self.entries.len() > self.most;
        let oldest = if is_full { self.entries.pop_first() } else { None };
        (self.next, oldest.map(|(_, entry)| entry))
    }
}

/// Signs the number of a held call, for use as the `requestState` of a result.
///
/// A state is valid only for the same request in the same conversation, and only for a limited
/// time. It is signed but not encrypted, because the number is worthless without the held call.
pub(crate) struct HeldKey(StateKey);

impl HeldKey {
    pub(crate) fn new(random: [u8; 32]) -> Self {
        Self(StateKey::new(random))
    }

    pub(crate) fn seal(
        &self,
        shelf: &LazyShelf,
        (tool, arguments): (&str, &Value),
        number: u64,
        time: Duration,
    ) -> String {
        let expires = now().saturating_add(time.as_millis() as u64);
        let call = BoundCall { conversation: conversation(shelf), tool, arguments };
        self.0.seal(&call, expires, number.to_string().as_bytes())
    }

    /// Returns the number in `state`. The request must be the one that the state was signed for.
    /// The error says why the state is not accepted.
    pub(crate) fn open(
        &self,
        shelf: &LazyShelf,
        (tool, arguments): (&str, &Value),
        state: &str,
    ) -> Result<u64, String> {
        let call = BoundCall { conversation: conversation(shelf), tool, arguments };
        let payload = self.0.open(&call, state, now()).map_err(|error| error.to_string())?;
        let number = String::from_utf8(payload).ok().and_then(|number| number.parse().ok());
        number.ok_or_else(|| StateError::Forged.to_string())
    }
}

fn conversation(shelf: &LazyShelf) -> &str {
    shelf.source.conversation().as_os_str().to_str().unwrap_or_default()
}

fn now() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
