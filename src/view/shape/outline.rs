//! The structure of JSON values with counts and samples, merged during reading.
//!
//! The tree has a node for each path: the root, each key of an object, and one for all items of an
//! array. The constants in this module bound the memory for any values.

use crate::clean::Cleaned;
use crate::{clean, scan};
use ctxfs_core::materialize::json::{Events, Scalar};

// Maximum number of bytes kept of a key in its raw spelling. A path through a longer key cannot be
// named.
pub(super) const KEY_BYTES: usize = 256;
// Maximum number of bytes kept of strings and numbers in their raw spelling.
const SAMPLE_BYTES: usize = 128;
// Maximum number of levels that have nodes. Deeper values are omitted.
pub(super) const MAX_LEVELS: usize = 16;
// When an object gets this many different keys, it becomes a map if it looks like one.
const MANY_KEYS: usize = 64;
// An object with more keys is a map, whatever its values are.
const MAX_KEYS: usize = 512;
// Minimum number of keys of a map.
const MIN_MAP_KEYS: usize = 8;
// Maximum number of nodes. Each takes at most about 600 bytes.
const MAX_NODES: usize = 4096;
// Maximum number of samples at one path.
const MAX_SAMPLES: usize = 3;
// Maximum number of characters shown of a sample.
const SAMPLE_CHARS: usize = 40;

/// The values at one path: the number of each type, their extremes and samples.
///
/// If `map` is true, the objects at this path are maps: their keys are data, and all their values
/// share the node `each`, as the items of arrays do. `hidden` is true if values were omitted
/// because they were too deep, or if paths were omitted because there were too many.
#[derive(Debug, Default)]
pub(super) struct PathNode {
    pub(super) seen: u64,
    pub(super) nulls: u64,
    pub(super) bools: u64,
    pub(super) ints: u64,
    pub(super) floats: u64,
    // The extremes of integers, and the extremes of numbers that are not integers or are too large.
    pub(super) whole: Extremes<i128>,
    pub(super) numbers: Extremes<f64>,
    pub(super) texts: u64,
    // The raw lengths in bytes of strings.
    pub(super) lengths: Extremes<u64>,
    // Samples of numbers and strings, and of the keys of maps.
    pub(super) samples: Samples,
    pub(super) arrays: u64,
    // The number of items in an array.
    pub(super) items: Extremes<u64>,
    pub(super) objects: u64,
    // The number of keys in an object.
    pub(super) keys: Extremes<u64>,
    pub(super) fields: Vec<ObjectField>,
    pub(super) map: bool,
    pub(super) each: Option<usize>,
    pub(super) hidden: bool,
}

// A key in its raw spelling, and the node of its values.
#[derive(Debug)]
pub(super) struct ObjectField {
    pub(super) key: Box<[u8]>,
    pub(super) node: usize,
}

/// The tree of all paths. The first node is the root. Memory is bounded, so a value may have no
/// node. Then the nearest node above it is marked as `hidden`.
#[derive(Debug, Default)]
pub(super) struct ShapeOutline {
    nodes: Vec<PathNode>,
    // Nodes that became unused when nodes were merged.
    unused: Vec<usize>,
    open: Vec<OpenContainer>,
    // Number of open brackets that have no node.
    below: u64,
}

/// An array or object that has not ended. `next` is the index of the field that is expected next,
/// because objects of the same kind usually have their keys in the same order. `value` is the node
/// of the value of the last key.
#[derive(Debug)]
struct OpenContainer {
    node: usize,
    array: bool,
    // Number of items or keys so far.
    count: u64,
    next: usize,
    value: Option<usize>,
}

impl ShapeOutline {
    pub(super) fn root(&self) -> Option<usize> {
        (!self.nodes.is_empty()).then_some(0)
    }

    pub(super) fn node(&self, index: usize) -> &PathNode {
        &self.nodes[index]
    }

    // Turns objects with at least `MIN_MAP_KEYS` keys into maps if their values have the same keys.
    // Must be called after the last value.
    pub(super) fn settle(&mut self) {
        for index in 0..self.nodes.len() {
            let node = &self.nodes[index];
            if !node.map && node.fields.len() >= MIN_MAP_KEYS && self.alike(index) {
                self.make_map(index);
            }
        }
    }

    /// Returns a key that occurs more often than there are objects around it.
    pub(super) fn repeated(&self) -> Option<String> {
        let nodes = self.nodes.iter().filter(|node| !node.map);
        let mut fields = nodes.flat_map(|node| node.fields.iter().map(move |field| (node, field)));
        let (_, field) = fields.find(|(node, field)| self.nodes[field.node].seen > node.objects)?;
        Some(clean::cleaned(&String::from_utf8_lossy(&field.key), SAMPLE_CHARS))
    }

    fn begin(&mut self, node: Option<usize>, array: bool) {
        match node {
            Some(node) if self.open.len() < MAX_LEVELS => {
                self.open.push(OpenContainer { node, array, count: 0, next: 0, value: None });
            }
            Some(node) => {
                self.nodes[node].hidden = true;
                self.below += 1;
            }
            None => self.below += 1,
        }
    }

    fn begin_value(&mut self) -> Option<usize> {
        if self.below > 0 {
            return None;
        }
        let node = match self.open.last_mut() {
            None if self.nodes.is_empty() => self.new_node(),
            None => Some(0),
            Some(OpenContainer { array: false, value, .. }) => *value,
            Some(OpenContainer { node, count, .. }) => {
                *count += 1;
                let node = *node;
                self.each_of(node)
            }
        }?;
        self.nodes[node].seen += 1;
        Some(node)
    }

    fn each_of(&mut self, node: usize) -> Option<usize> {
        if self.nodes[node].each.is_none() {
            let each = self.new_node();
            self.nodes[node].hidden |= each.is_none();
            self.nodes[node].each = each;
        }
        self.nodes[node].each
    }

    /// Returns the node of the values of `key`, and the index of the field that is expected after
    /// it. `next` is the index at which `key` is expected.
    fn value_of(&mut self, node: usize, key: &[u8], next: usize) -> (Option<usize>, usize) {
        if self.nodes[node].map {
            self.nodes[node].samples.push(key, key.len() as u64, true);
            return (self.each_of(node), next);
        }
        let fields = &self.nodes[node].fields;
        let is_it = |field: &ObjectField| *field.key == *key;
        let found = if fields.get(next).is_some_and(is_it) {
            Some(next)
        } else {
            fields.iter().position(is_it)
        };
        match found {
            Some(index) => (Some(fields[index].node), index + 1),
            None => (self.new_field(node, key), next + 1),
        }
    }

    fn new_field(&mut self, node: usize, key: &[u8]) -> Option<usize> {
        let count = self.nodes[node].fields.len();
        let as_map = count >= MAX_KEYS || (count == MANY_KEYS && self.is_map(node));
        if as_map {
            self.make_map(node);
            return self.value_of(node, key, 0).0;
        }
        let Some(value) = self.new_node() else {
            self.nodes[node].hidden = true;
            return None;
        };
        self.nodes[node].fields.push(ObjectField { key: key.into(), node: value });
        Some(value)
    }

    // If there is a single object at this path, it is a map if the values of all its keys have the
    // same type. If there are several objects, they are maps if they have few keys in common.
    fn is_map(&self, node: usize) -> bool {
        let PathNode { fields, objects, .. } = &self.nodes[node];
        let seen: u64 = fields.iter().map(|field| self.nodes[field.node].seen).sum();
        let sparse = *objects > 1 && seen * 2 < fields.len() as u64 * objects;
        let kind = |field: &ObjectField| self.nodes[field.node].kind();
        sparse || (*objects == 1 && fields.iter().all(|field| kind(field) == kind(&fields[0])))
    }

    fn alike(&self, node: usize) -> bool {
        let fields = &self.nodes[node].fields;
        let keys = |field: &ObjectField| {
            let value = &self.nodes[field.node];
            let mut keys: Vec<&[u8]> = value.fields.iter().map(|field| &*field.key).collect();
            keys.sort_unstable();
            (value.kind(), keys)
        };
        let first = keys(&fields[0]);
        !first.1.is_empty() && fields.iter().all(|field| keys(field) == first)
    }

    fn make_map(&mut self, node: usize) {
        let fields = std::mem::take(&mut self.nodes[node].fields);
        self.nodes[node].map = true;
        for ObjectField { key, node: value } in fields {
            self.nodes[node].samples.push(&key, key.len() as u64, true);
            match self.nodes[node].each {
                Some(each) => self.merge(each, value),
                None => self.nodes[node].each = Some(value),
            }
        }
    }

    // Adds the values of the node `from` to the node `into`, and frees `from`.
    fn merge(&mut self, into: usize, from: usize) {
        let other = std::mem::take(&mut self.nodes[from]);
        self.unused.push(from);
        self.nodes[into].add(&other);
        if other.map && !self.nodes[into].map {
            self.make_map(into);
        }
        for ObjectField { key, node: value } in other.fields {
            let (target, _) = self.value_of(into, &key, 0);
            match target {
                Some(target) => self.merge(target, value),
                None => self.nodes[into].hidden = true,
            }
        }
        match (other.each, self.nodes[into].each) {
            (Some(value), Some(each)) => self.merge(each, value),
            (each, None) => self.nodes[into].each = each,
            (None, Some(_)) => {}
        }
    }

    fn new_node(&mut self) -> Option<usize> {
        if let Some(unused) = self.unused.pop() {
            return Some(unused);
        }
        if self.nodes.len() == MAX_NODES {
            return None;
        }
        self.nodes.push(PathNode::default());
        Some(self.nodes.len() - 1)
    }
}

impl PathNode {
    // Returns which types occur.
    fn kind(&self) -> [bool; 6] {
        let Self { nulls, bools, ints, floats, texts, arrays, objects, .. } = *self;
        [nulls, bools, ints + floats, texts, arrays, objects].map(|count| count > 0)
    }

    fn add_number(&mut self, written: &[u8]) {
        // The magnitude of a number that may have been truncated is unknown.
        let whole = Some(written).filter(|written| written.len() < SAMPLE_BYTES);
        let Some(text) = whole.and_then(|written| str::from_utf8(written).ok()) else { return };
        if let Ok(number) = text.parse::<i128>() {
            self.whole.push(number);
        } else if let Some(number) = text.parse::<f64>().ok().filter(|number| number.is_finite()) {
            self.numbers.push(number);
        }
    }

    fn add(&mut self, other: &Self) {
        self.seen += other.seen;
        self.nulls += other.nulls;
        self.bools += other.bools;
        self.ints += other.ints;
        self.floats += other.floats;
        self.whole.add(&other.whole);
        self.numbers.add(&other.numbers);
        self.texts += other.texts;
        self.lengths.add(&other.lengths);
        self.samples.add(&other.samples);
        self.arrays += other.arrays;
        self.items.add(&other.items);
        self.objects += other.objects;
        self.keys.add(&other.keys);
        self.hidden |= other.hidden;
    }
}

impl Events for ShapeOutline {
    const KEY_BYTES: usize = KEY_BYTES;
    const TEXT_BYTES: usize = SAMPLE_BYTES;

    fn scalar(&mut self, scalar: Scalar, written: &[u8]) {
        let Some(node) = self.begin_value() else { return };
        let node = &mut self.nodes[node];
        match scalar {
            Scalar::Null => node.nulls += 1,
            Scalar::Bool => node.bools += 1,
            Scalar::Int => node.ints += 1,
            Scalar::Float => node.floats += 1,
        }
        if matches!(scalar, Scalar::Int | Scalar::Float) {
            node.samples.push(written, written.len() as u64, false);
            node.add_number(written);
        }
    }

    fn text(&mut self, start: &[u8], length: u64) {
        let Some(node) = self.begin_value() else { return };
        let node = &mut self.nodes[node];
        node.texts += 1;
        node.lengths.push(length);
        node.samples.push(start, length, true);
    }

    fn begin_object(&mut self) {
        let node = self.begin_value();
        if let Some(node) = node {
            self.nodes[node].objects += 1;
        }
        self.begin(node, false);
    }

    fn begin_array(&mut self) {
        let node = self.begin_value();
        if let Some(node) = node {
            self.nodes[node].arrays += 1;
        }
        self.begin(node, true);
    }

    fn key(&mut self, key: &[u8]) {
        if self.below > 0 {
            return;
        }
        let Some(&OpenContainer { node, next, .. }) = self.open.last() else { return };
        let (value, next) = self.value_of(node, key, next);
        if let Some(open) = self.open.last_mut() {
            open.count += 1;
            open.value = value;
            open.next = next;
        }
    }

    fn end(&mut self) {
        if self.below > 0 {
            self.below -= 1;
            return;
        }
        let Some(OpenContainer { node, array, count, .. }) = self.open.pop() else { return };
        let node = &mut self.nodes[node];
        if array { node.items.push(count) } else { node.keys.push(count) }
    }
}

// The first distinct values at a path in their raw spelling. `more` is true if there are others.
#[derive(Debug, Default)]
pub(super) struct Samples {
    kept: Vec<ValueSample>,
    pub(super) more: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ValueSample {
    // The first bytes of the value.
    start: Box<[u8]>,
    // Total length of the value in bytes.
    length: u64,
    quoted: bool,
}

impl Samples {
    // Adds a value of `length` bytes that begins with `start`. `quoted` is true for a string.
    pub(super) fn push(&mut self, start: &[u8], length: u64, quoted: bool) {
        if self.more {
            return;
        }
        let same = |kept: &ValueSample| kept.length == length && *kept.start == *start;
        if self.kept.iter().any(same) {
            return;
        }
        if self.kept.len() == MAX_SAMPLES {
            self.more = true;
        } else {
            self.kept.push(ValueSample { start: start.into(), length, quoted });
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        for sample in &other.kept {
            self.push(&sample.start, sample.length, sample.quoted);
        }
        self.more |= other.more;
    }

    // Formats the samples: `"a", "b", ...`.
    pub(super) fn shown(&self) -> String {
        let shown = self.kept.iter().map(ValueSample::shown).collect::<Vec<String>>().join(", ");
        if self.more { format!("{shown}, ...") } else { shown }
    }
}

impl ValueSample {
    fn shown(&self) -> String {
        let valid = self.start.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        let Cleaned { text, used } = clean::clean(valid.as_bytes(), SAMPLE_CHARS, usize::MAX);
        let whole = used as u64 == self.length;
        let text = if whole { &text } else { without_cut_escape(&text) };
        let cut = if whole { "" } else { "..." };
        let quote = if self.quoted { "\"" } else { "" };
        format!("{quote}{text}{cut}{quote}")
    }
}

// Removes an escape at the end that may be incomplete.
fn without_cut_escape(text: &str) -> &str {
    let near = scan::char_floor(text.as_bytes(), text.len().saturating_sub(6));
    text[near..].rfind('\\').map_or(text, |at| &text[..near + at])
}

// The minimum and the maximum of a set of values, or `None` if the set is empty.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Extremes<T>(pub(super) Option<(T, T)>);

impl<T: Copy + PartialOrd> Extremes<T> {
    pub(super) fn push(&mut self, value: T) {
        self.0 = Some(match self.0 {
            None => (value, value),
            Some((least, most)) => {
                (if value < least { value } else { least }, if value > most { value } else { most })
            }
        });
    }

    pub(super) fn add(&mut self, other: &Self) {
        if let Some((least, most)) = other.0 {
            self.push(least);
            self.push(most);
        }
    }

    // Formats the range: `2..18`, or `2` if all values are equal.
    pub(super) fn shown(&self, show: impl Fn(T) -> String) -> Option<String> {
        let (least, most) = self.0?;
        Some(if least == most { show(least) } else { format!("{}..{}", show(least), show(most)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    use ctxfs_core::materialize::json::JsonReader;

    fn outline(text: &str) -> ShapeOutline {
        let mut reader = JsonReader::<ShapeOutline>::default();
        reader.push(text.as_bytes());
        reader.finish().1
    }

    #[test]
    fn paths_without_number_take_bounded_memory() {
        let mut text = String::from("[");
        for index in 0..20_000 {
            write!(text, "{{\"a{index}\":{{\"b{index}\":{{\"c{index}\":1}}}}}},").unwrap();
        }
        let found = outline(&text);
        assert!(found.nodes.len() <= MAX_NODES);
        let fields: usize = found.nodes.iter().map(|node| node.fields.len()).sum();
        assert!(fields <= MAX_NODES);
    }

    #[test]
    fn merged_places_are_used_again() {
        let values = (0..5_000).map(|n| format!("\"k{n}\":{{\"a\":{n},\"b\":[{n}],\"c\":{{}}}}"));
        let found = outline(&format!("{{{}}}", values.collect::<Vec<String>>().join(",")));
        assert!(found.nodes.len() < 5 * MANY_KEYS + 10, "{}", found.nodes.len());
        let root = found.node(0);
        assert!(root.map && root.fields.is_empty() && !root.hidden);
        let each = found.node(root.each.unwrap());
        assert_eq!((each.seen, each.objects, each.fields.len()), (5_000, 5_000, 3));
        let [a, b, c] = [0, 1, 2].map(|field: usize| found.node(each.fields[field].node));
        assert_eq!((a.ints, a.whole.0), (5_000, Some((0, 4_999))));
        assert_eq!((b.arrays, found.node(b.each.unwrap()).ints), (5_000, 5_000));
        assert_eq!(c.objects, 5_000);
    }

    #[test]
    fn the_first_different_ones_are_kept() {
        let mut samples = Samples::default();
        for value in ["b", "a", "b", "a"] {
            samples.push(value.as_bytes(), 1, true);
        }
        assert_eq!(samples.shown(), "\"b\", \"a\"");
        for value in ["12", "13", "14"] {
            samples.push(value.as_bytes(), 2, false);
        }
        assert_eq!(samples.shown(), "\"b\", \"a\", 12, ...");
    }

    #[test]
    fn long_ones_are_cut() {
        let shown = |start: &str, length| {
            let mut samples = Samples::default();
            samples.push(start.as_bytes(), length, true);
            samples.shown()
        };
        assert_eq!(shown(&"x".repeat(50), 900), format!("\"{}...\"", "x".repeat(40)));
        assert_eq!(
            shown(&format!("{}\\u00e9", "x".repeat(36)), 42),
            format!("\"{}...\"", "x".repeat(36))
        );
        assert_eq!(shown("a\\n", 3), "\"a\\n\"");
    }
}
