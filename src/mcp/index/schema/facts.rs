//! Facts about a schema that are found before it is used.

use serde_json::Value;

/// The most values in a schema, and the deepest that they may lie in each other.
const MOST_VALUES: usize = 20_000;
const DEEPEST: usize = 64;

/// The known facts of a schema of bounded size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SchemaFacts {
    /// A part of it has an address of its own, so references may not mean what they seem to.
    pub(super) has_parts_with_ids: bool,
}

impl SchemaFacts {
    /// Looks through a schema. Returns `None` if it is too large.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        let mut left = vec![(schema, 0)];
        let (mut seen, mut has_parts_with_ids) = (0, false);
        while let Some((value, depth)) = left.pop() {
            seen += 1;
            if seen > MOST_VALUES || depth > DEEPEST {
                return None;
            }
            has_parts_with_ids |= depth > 0 && value.get("$id").is_some_and(Value::is_string);
            match value {
                Value::Array(items) => left.extend(items.iter().map(|item| (item, depth + 1))),
                Value::Object(members) => {
                    left.extend(members.values().map(|member| (member, depth + 1)));
                }
                _ => {}
            }
        }
        Some(Self { has_parts_with_ids })
    }
}
