//! Paths in jq's syntax through the nodes of a shape.

use crate::materialize::json::events::Events as _;
use crate::materialize::json::shape::{Shape, ShapeNode};

/// Keys of an object from which on it may be a map although its keys are names.
const MANY: usize = 4;

/// A path to values: keys, and steps to each item of an array or each value of a map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ShapePath {
    /// Keys as `.a.b`, before, between and after the steps to each item.
    segments: Vec<String>,
    /// True if it leads through the values of a map, of which not all are known to be alike.
    through_map: bool,
}

impl ShapePath {
    pub(super) fn root() -> Self {
        Self { segments: vec![String::new()], through_map: false }
    }

    /// Returns the path to a key of the object.
    pub(super) fn key(&self, step: &str) -> Self {
        let mut path = self.clone();
        if let Some(last) = path.segments.last_mut() {
            last.push_str(step);
        }
        path
    }

    /// Returns the path to each item.
    pub(super) fn each(&self) -> Self {
        let mut path = self.clone();
        path.segments.push(String::new());
        path
    }

    /// Returns the path to each value of a map.
    pub(super) fn each_value(&self) -> Self {
        Self { through_map: true, ..self.each() }
    }

    /// Returns true if some of the items may be of other kinds.
    pub(super) fn is_vague(&self) -> bool {
        self.through_map && self.depth() > 1
    }

    /// Returns the number of steps to each item.
    pub(super) fn depth(&self) -> usize {
        self.segments.len() - 1
    }

    /// Returns the path to the item that the last keys begin at.
    pub(super) fn record(&self) -> Self {
        let mut path = self.clone();
        path.segments.pop();
        path.segments.push(String::new());
        path
    }

    /// Returns the path to the item outside of the innermost one, and from there to that one.
    pub(super) fn split(&self) -> Option<(Self, Self)> {
        let at = self.depth().checked_sub(1)?;
        let mut outer = self.segments[..at].to_vec();
        outer.push(String::new());
        let inner = vec![self.segments[at].clone(), String::new()];
        let part = |segments| Self { segments, through_map: self.through_map };
        Some((part(outer), part(inner)))
    }

    /// Returns the keys after the last step to each item.
    pub(super) fn field(&self) -> &str {
        self.segments.last().map_or("", String::as_str)
    }

    /// Returns the path as it is shown.
    pub(super) fn text(&self) -> String {
        rooted(self.segments.join("[]"))
    }

    /// Returns the path as a filter. Only its first step is certain to have items.
    pub(super) fn filter(&self, certain: usize) -> String {
        let mut text = String::new();
        for (at, segment) in self.segments.iter().enumerate() {
            text.push_str(if at == 0 { "" } else { "[]" });
            text.push_str(if at > certain { "?" } else { "" });
            text.push_str(segment);
        }
        rooted(text)
    }
}

impl ShapePath {
    /// Returns the path as a filter that passes over what it does not lead through.
    pub(super) fn vague_filter(&self) -> String {
        let step = |segment: &String| match segment.as_str() {
            "" => "[]?".to_owned(),
            keys => format!("{keys}?[]?"),
        };
        let (_, before) = self.segments.split_last().expect("a path has a segment");
        rooted(before.iter().map(step).collect())
    }
}

fn rooted(path: String) -> String {
    if path.starts_with('.') { path } else { format!(".{path}") }
}

/// Returns the step to a key, or none if the key is not known whole or is hard to write.
pub(super) fn key(written: &[u8]) -> Option<String> {
    let text = str::from_utf8(written).ok()?;
    if text.len() == Shape::KEY_BYTES || text.contains('\\') {
        return None;
    }
    Some(if is_bare(written) { format!(".{text}") } else { format!(".\"{text}\"") })
}

/// Returns true if a key is written without quotes.
pub(super) fn is_bare(key: &[u8]) -> bool {
    let bare = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    key.iter().all(bare) && key.first().is_some_and(|first| !first.is_ascii_digit())
}

/// Returns true if the keys of an object are data: its values are of one kind.
pub(super) fn is_map(shape: &Shape, node: &ShapeNode) -> bool {
    if node.rest.is_some() {
        return true;
    }
    let values = || node.fields.iter().map(|field| shape.node(field.node));
    let objects = values().all(|value| value.objects == value.seen);
    let arrays = values().all(|value| value.arrays == value.seen);
    if node.fields.is_empty() || !(objects || arrays) {
        return false;
    }
    let named = node.fields.iter().all(|field| is_bare(&field.key));
    !named || (objects && node.fields.len() >= MANY && have_a_key(values()))
}

/// Returns true if all objects have the first key of the first of them.
fn have_a_key<'s>(mut objects: impl Iterator<Item = &'s ShapeNode>) -> bool {
    let Some(first) = objects.next().and_then(|first| first.fields.first()) else { return false };
    objects.all(|object| object.fields.iter().any(|field| field.key == first.key))
}
