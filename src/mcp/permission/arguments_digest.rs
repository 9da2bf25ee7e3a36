//! The digest of a call's arguments.

use std::fmt;

use serde_json::Value;

/// A BLAKE3 digest of a JSON value. The order of an object's keys does not matter, everything else
/// does: numbers count as they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ArgumentsDigest(blake3::Hash);

impl ArgumentsDigest {
    /// Digests `arguments`.
    pub fn of(arguments: &Value) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("ctxfs 2026 arguments of a call");
        add(&mut hasher, arguments);
        Self(hasher.finalize())
    }

    pub(super) fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

/// 64 hexadecimal digits.
impl fmt::Display for ArgumentsDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_hex())
    }
}

/// Adds a value in a form that no other value has: a letter for its type, and lengths.
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
mod tests {
    use super::*;

    fn digest(json: &str) -> ArgumentsDigest {
        ArgumentsDigest::of(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn only_the_order_of_keys_does_not_matter() {
        assert_eq!(
            digest(r#"{"a": 1, "b": [2, {"c": 3, "d": 4}]}"#),
            digest(r#"{"b":[2,{"d":4,"c":3}],"a":1}"#)
        );
        let different = [
            "null",
            "0",
            "false",
            r#""""#,
            "[]",
            "{}",
            "1",
            "1.0",
            r#""1""#,
            "[1]",
            "[[1]]",
            "[1,[]]",
            "[[],1]",
            r#"{"a":1}"#,
            r#"{"a":"1"}"#,
            r#"["a",1]"#,
            r#"{"a":{"b":1}}"#,
            r#"{"a":{},"b":1}"#,
            "[1,2]",
            "[2,1]",
            "[12]",
            r#"["ab"]"#,
            r#"["a","b"]"#,
        ];
        for (at, one) in different.iter().enumerate() {
            for other in &different[at + 1..] {
                assert_ne!(digest(one), digest(other), "{one} {other}");
            }
        }
    }
}
