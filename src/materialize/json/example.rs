//! A path that exists in a document, as an example of a jq filter.

use std::collections::VecDeque;

use crate::materialize::json::events::Events as _;
use crate::materialize::json::shape::Shape;
use crate::materialize::json::shape::ShapeNode;

/// Levels that are searched for an array.
const LEVELS: usize = 4;

/// Returns a path in jq's syntax: the first item of the first array of objects, if that certainly
/// exists; else the first item or key. None if there is neither.
pub(super) fn of(shape: &Shape) -> Option<String> {
    let root = shape.root()?;
    first_objects(shape, root).or_else(|| {
        if root.arrays > 0 {
            return (root.items > 0).then(|| ".[0]".to_owned());
        }
        root.fields.iter().find_map(|field| key(&field.key))
    })
}

/// Returns the path of the first array of objects among those nearest to the root.
fn first_objects(shape: &Shape, root: &ShapeNode) -> Option<String> {
    let mut near = VecDeque::from([(root, String::new(), 0)]);
    while let Some((node, path, level)) = near.pop_front() {
        let item = node.item.map(|item| shape.node(item));
        if node.arrays == 1 && item.is_some_and(|item| item.objects == node.items) {
            let dot = if path.is_empty() { "." } else { "" };
            return Some(format!("{dot}{path}[0]"));
        }
        if node.objects == 1 && level < LEVELS {
            let fields = node.fields.iter().filter_map(|field| {
                let path = format!("{path}{}", key(&field.key)?);
                Some((shape.node(field.node), path, level + 1))
            });
            near.extend(fields);
        }
    }
    None
}

/// Returns the step to a key, or none if the key is not known whole or is hard to write.
fn key(written: &[u8]) -> Option<String> {
    let text = str::from_utf8(written).ok()?;
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if text.len() == Shape::KEY_BYTES || text.contains('\\') {
        return None;
    }
    let is_bare = text.bytes().all(bare) && text.starts_with(|c: char| !c.is_ascii_digit());
    Some(if is_bare { format!(".{text}") } else { format!(".\"{text}\"") })
}
