//! The state that a client carries while a person answers (`requestState` of `input_required`).
//!
//! The client, and whoever reads its traffic, sees the token and may send any other. So it is
//! signed, and it is good for one call alone, until a moment.

use std::fmt;

use serde_json::Value;

use crate::permission::arguments_digest::ArgumentsDigest;

/// The version of the form, which is also the first part of a token.
const VERSION: &str = "1";
/// The most bytes of a token that are looked at.
const MOST_BYTES: usize = 1 << 20;

/// The key of this process. Tokens of another process are not valid.
pub struct StateKey([u8; 32]);

/// The call that a token belongs to. The repeated call must be the same in all of it.
#[derive(Debug, Clone, Copy)]
pub struct BoundCall<'a> {
    /// The conversation.
    pub conversation: &'a str,
    /// The tool as the client called it, such as `run_tool_batch`.
    pub tool: &'a str,
    /// Its arguments, all of them.
    pub arguments: &'a Value,
}

/// Why a token is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// It is not one of this process, for this call, unchanged.
    #[error("the requestState is not the one that was sent for this call: make the call anew")]
    Forged,
    /// It is too old.
    #[error("the answer came too late: make the call anew")]
    Expired,
}

impl StateKey {
    /// Makes a key of 32 random bytes.
    pub fn new(random: [u8; 32]) -> Self {
        Self(random)
    }

    /// Returns the token that carries `payload`, for `call`, until `expires` in milliseconds since
    /// the epoch. The payload is signed, not encrypted.
    pub fn seal(&self, call: &BoundCall<'_>, expires: u64, payload: &[u8]) -> String {
        let mac = self.mac(call, expires, payload).to_hex();
        format!("{VERSION}.{expires}.{mac}.{}", hex(payload))
    }

    /// Returns the payload of `token` if this process made it for `call`, and it is not yet `now`
    /// that it expires.
    pub fn open(&self, call: &BoundCall<'_>, token: &str, now: u64) -> Result<Vec<u8>, StateError> {
        let (expires, mac, payload) = parts(token).ok_or(StateError::Forged)?;
        // Hashes are compared in constant time.
        if self.mac(call, expires, &payload) != mac {
            return Err(StateError::Forged);
        }
        if expires <= now { Err(StateError::Expired) } else { Ok(payload) }
    }

    fn mac(&self, call: &BoundCall<'_>, expires: u64, payload: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        let digest = ArgumentsDigest::of(call.arguments);
        let expires = expires.to_le_bytes();
        for part in [
            VERSION.as_bytes(),
            call.conversation.as_bytes(),
            call.tool.as_bytes(),
            digest.as_bytes(),
            &expires,
            payload,
        ] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        hasher.finalize()
    }
}

/// Shows nothing of the key.
impl fmt::Debug for StateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateKey")
    }
}

fn parts(token: &str) -> Option<(u64, blake3::Hash, Vec<u8>)> {
    if token.len() > MOST_BYTES {
        return None;
    }
    let mut parts = token.split('.');
    if parts.next() != Some(VERSION) {
        return None;
    }
    let expires = parts.next()?.parse().ok()?;
    let mac = blake3::Hash::from_hex(parts.next()?).ok()?;
    let payload = from_hex(parts.next()?)?;
    parts.next().is_none().then_some((expires, mac, payload))
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|n| char::from(DIGITS[n as usize]))
        .collect()
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| DIGITS.iter().position(|digit| *digit == byte).map(|at| at as u8);
    let byte = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
    rest.is_empty().then(|| pairs.iter().map(byte).collect()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn key() -> StateKey {
        StateKey::new([7; 32])
    }

    fn call(arguments: &Value) -> BoundCall<'_> {
        BoundCall { conversation: "c7", tool: "run_tool_batch", arguments }
    }

    #[test]
    fn it_opens_for_the_same_call_until_it_expires() {
        let arguments = json!({"calls": [{"name": "x", "arguments": {"a": 1}}]});
        let token = key().seal(&call(&arguments), 1000, b"done: 0, 1");
        assert_eq!(key().open(&call(&arguments), &token, 999), Ok(b"done: 0, 1".to_vec()));
        assert_eq!(key().open(&call(&arguments), &token, 1000), Err(StateError::Expired));
    }

    #[test]
    fn it_opens_for_nothing_else() {
        let arguments = json!({"a": 1});
        let token = key().seal(&call(&arguments), 1000, b"p");
        let other = json!({"a": 2});
        let others = [
            BoundCall { arguments: &other, ..call(&arguments) },
            BoundCall { tool: "x", ..call(&arguments) },
            BoundCall { conversation: "c8", ..call(&arguments) },
            BoundCall { conversation: "c7r", tool: "un_tool_batch", arguments: &arguments },
        ];
        for other in others {
            assert_eq!(key().open(&other, &token, 0), Err(StateError::Forged), "{other:?}");
        }
        let foreign = StateKey::new([8; 32]);
        assert_eq!(foreign.open(&call(&arguments), &token, 0), Err(StateError::Forged));
        let later = token.replace(".1000.", ".9000.");
        assert_eq!(key().open(&call(&arguments), &later, 0), Err(StateError::Forged));
        assert_eq!(format!("{:?}", key()), "StateKey");
    }

    proptest! {
        #[test]
        fn payloads_come_back(payload in prop::collection::vec(any::<u8>(), 0..60)) {
            let token = key().seal(&call(&Value::Null), u64::MAX, &payload);
            prop_assert_eq!(key().open(&call(&Value::Null), &token, 0), Ok(payload));
        }

        #[test]
        fn no_changed_token_opens(at in 0..200_usize, with in any::<char>(), drop in any::<bool>()) {
            let token = key().seal(&call(&Value::Null), 1000, b"payload");
            let mut chars: Vec<char> = token.chars().collect();
            let at = at % chars.len();
            if drop { chars.remove(at); } else { chars[at] = with; }
            let changed: String = chars.into_iter().collect();
            prop_assume!(changed != token);
            prop_assert_eq!(key().open(&call(&Value::Null), &changed, 0), Err(StateError::Forged));
        }

        #[test]
        fn any_text_is_refused(text in any::<String>()) {
            prop_assert_eq!(key().open(&call(&Value::Null), &text, 0), Err(StateError::Forged));
        }
    }
}
