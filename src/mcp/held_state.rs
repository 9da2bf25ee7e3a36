//! The state that a client carries while something is held for it: the number under which it is held,
//! signed, and good for the very same request in the conversation alone.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::permission::{BoundCall, StateError, StateKey};
use crate::shelf::LazyShelf;

/// The key that signs such states.
pub(super) struct HeldKey(StateKey);

impl HeldKey {
    pub(super) fn new(random: [u8; 32]) -> Self {
        Self(StateKey::new(random))
    }

    /// Returns the state for a request that calls `tool` with `arguments`, good for some time.
    pub(super) fn seal(
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

    /// Returns the number in a state that came with the same request. The error says why it is not
    /// good.
    pub(super) fn open(
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
    shelf.conversation().as_os_str().to_str().unwrap_or_default()
}

fn now() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
