//! The state that a client carries while a call is held: it names the call, signed.

use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use serde_json::Value;

use crate::mcp::bridge::crossing::About;
use crate::mcp::permission::BoundCall;
use crate::mcp::permission::StateError;
use crate::mcp::permission::StateKey;
use crate::mcp::relay::Relay;

/// The key that signs the states of held calls.
pub(super) struct Key(StateKey);

impl Key {
    pub(super) fn new(random: [u8; 32]) -> Self {
        Self(StateKey::new(random))
    }

    pub(super) fn seal(&self, relay: &Relay, about: &About, held: u64, time: Duration) -> String {
        let digest = Value::from(&*about.digest);
        let expires = now().saturating_add(time.as_millis() as u64);
        self.0.seal(&bound(relay, about, &digest), expires, held.to_string().as_bytes())
    }

    pub(super) fn open(&self, relay: &Relay, about: &About, state: &str) -> Result<u64, String> {
        let digest = Value::from(&*about.digest);
        let opened = self.0.open(&bound(relay, about, &digest), state, now());
        let payload = opened.map_err(|error| error.to_string())?;
        let number = String::from_utf8(payload).ok().and_then(|number| number.parse().ok());
        number.ok_or_else(|| StateError::Forged.to_string())
    }
}

fn bound<'a>(relay: &'a Relay, about: &'a About, digest: &'a Value) -> BoundCall<'a> {
    let conversation = relay.shelf.conversation().as_os_str().to_str().unwrap_or_default();
    BoundCall { conversation, tool: &about.name, arguments: digest }
}

fn now() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
