//! The signed token that a client carries while the user answers (`requestState` of
//! `input_required`).
//!
//! The client can read the token and can send a different one. The token is therefore signed, and
//! valid for one call until it expires.

use std::fmt;

use serde_json::Value;

const VERSION: &str = "1";
const MAX_BYTES: usize = 1 << 20;
const DIGITS: &[u8; 16] = b"0123456789abcdef";

pub(crate) struct StateKey([u8; 32]);

/// The call that a token belongs to. A repeated call must match all members, including the
/// arguments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BoundCall<'a> {
    pub(crate) conversation: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) arguments: &'a Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StateError {
    #[error("the requestState is not the one that was sent for this call: make the call anew")]
    Forged,
    #[error("the answer came too late: make the call anew")]
    Expired,
}

impl StateKey {
    pub(crate) fn new(random: [u8; 32]) -> Self {
        Self(random)
    }

    /// Returns a token that carries `payload` for `call`. It is valid until `expires`, in
    /// milliseconds since the epoch. The payload is signed, not encrypted.
    pub(crate) fn seal(&self, call: &BoundCall<'_>, expires: u64, payload: &[u8]) -> String {
        let mac = self.mac(call, expires, payload).to_hex();
        format!("{VERSION}.{expires}.{mac}.{}", hex(payload))
    }

    /// Returns the payload of a token. Fails unless this process issued the token for `call` and
    /// the token has not expired at `now`.
    pub(crate) fn open(
        &self,
        call: &BoundCall<'_>,
        token: &str,
        now: u64,
    ) -> Result<Vec<u8>, StateError> {
        let (expires, mac, payload) = parts(token).ok_or(StateError::Forged)?;
        // Comparing hashes takes constant time.
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

impl fmt::Debug for StateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateKey")
    }
}

fn parts(token: &str) -> Option<(u64, blake3::Hash, Vec<u8>)> {
    if token.len() > MAX_BYTES {
        return None;
    }
    let mut parts = token.split('.');
    if parts.next() != Some(VERSION) {
        return None;
    }
    let expires = parts.next()?.parse().ok()?;
    let written = parts.next()?;
    // `from_hex` also accepts capital digits, but a token must be exactly as it was issued.
    let mac = blake3::Hash::from_hex(written).ok().filter(|mac| *mac.to_hex() == *written)?;
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

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| DIGITS.iter().position(|digit| *digit == byte).map(|at| at as u8);
    let byte = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
    rest.is_empty().then(|| pairs.iter().map(byte).collect()).flatten()
}

/// A BLAKE3 digest of a JSON value. It does not depend on the order of object keys. Numbers are
/// hashed as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ArgumentsDigest(blake3::Hash);

impl ArgumentsDigest {
    pub(crate) fn of(arguments: &Value) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("ctxfs 2026 arguments of a call");
        add(&mut hasher, arguments);
        Self(hasher.finalize())
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

impl fmt::Display for ArgumentsDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_hex())
    }
}

fn add(hasher: &mut blake3::Hasher, value: &Value) {
    match value {
        Value::Null => add_part(hasher, b'n', ""),
        Value::Bool(truth) => add_part(hasher, b'b', if *truth { "1" } else { "0" }),
        Value::Number(number) => add_part(hasher, b'#', &number.to_string()),
        Value::String(text) => add_part(hasher, b's', text),
        Value::Array(items) => {
            add_part(hasher, b'[', &items.len().to_string());
            for item in items {
                add(hasher, item);
            }
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(key, _)| *key);
            add_part(hasher, b'{', &members.len().to_string());
            for (key, value) in members {
                add_part(hasher, b'k', key);
                add(hasher, value);
            }
        }
    }
}

fn add_part(hasher: &mut blake3::Hasher, kind: u8, text: &str) {
    hasher.update(&[kind]).update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
}

#[cfg(test)]
mod tests;
