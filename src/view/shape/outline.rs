//! The structure of JSON values with counts and samples, merged as they are read.
//!
//! The tree has a node for each path: the root, each key of an object, the items of an array.
//! Memory is bounded by the constants here, for any values.

use crate::shape::extremes::Extremes;
use crate::shape::samples::Samples;
use ctxfs_core::materialize::json::{Events, Scalar};

// Levels that have nodes. Deeper values are left out.
pub(super) const LEVELS: usize = 16;
// With this many different keys an object is first considered as a map.
const MANY_KEYS: usize = 64;
// An object with more keys is a map, whatever its values are.
const MOST_KEYS: usize = 512;
// The fewest keys of a map.
const FEWEST_KEYS: usize = 8;
// Of at most about 600 bytes each.
const MOST_NODES: usize = 4096;

/// The values at one path: their number by type, their extremes and samples.
///
/// If `map` is true, the objects are maps: their keys are data, and all their values share the node
/// `each`, as the items of arrays do. `hidden` is true if values were left out here because they
/// were too deep, or paths because there were too many.
#[derive(Debug, Default)]
pub(super) struct PathNode {
    pub(super) seen: u64,
    pub(super) nulls: u64,
    pub(super) bools: u64,
    pub(super) ints: u64,
    pub(super) floats: u64,
    // Of numbers that are integers, and of those that are not or are too large.
    pub(super) whole: Extremes<i128>,
    pub(super) numbers: Extremes<f64>,
    pub(super) texts: u64,
    // Bytes of strings, as spelled.
    pub(super) lengths: Extremes<u64>,
    // Of numbers and strings, and of the keys of maps.
    pub(super) samples: Samples,
    pub(super) arrays: u64,
    // Items of an array.
    pub(super) items: Extremes<u64>,
    pub(super) objects: u64,
    // Keys of an object.
    pub(super) keys: Extremes<u64>,
    pub(super) fields: Vec<ObjectField>,
    pub(super) map: bool,
    pub(super) each: Option<usize>,
    pub(super) hidden: bool,
}

/// A key, as spelled, and the node of its values.
#[derive(Debug)]
pub(super) struct ObjectField {
    pub(super) key: Box<[u8]>,
    pub(super) node: usize,
}

/// The tree. Memory is bounded, so some values may have no node.
#[derive(Debug, Default)]
pub(super) struct Outline {
    nodes: Vec<PathNode>,
    // Nodes that became unused by merging.
    unused: Vec<usize>,
    open: Vec<OpenContainer>,
    // Open brackets that have no node.
    below: u64,
}

/// An array or object that has not ended. `next` is the index of the field that is expected next,
/// since objects of one kind have their keys in one order; `value` is the node of the value of the
/// last key.
#[derive(Debug)]
struct OpenContainer {
    node: usize,
    array: bool,
    // Items or keys so far.
    count: u64,
    next: usize,
    value: Option<usize>,
}

impl Outline {
    pub(super) fn root(&self) -> Option<usize> {
        (!self.nodes.is_empty()).then_some(0)
    }

    pub(super) fn node(&self, index: usize) -> &PathNode {
        &self.nodes[index]
    }

    /// Tells maps from records. Has to be called at the end.
    pub(super) fn settle(&mut self) {
        for index in 0..self.nodes.len() {
            let node = &self.nodes[index];
            if !node.map && node.fields.len() >= FEWEST_KEYS && self.alike(index) {
                self.make_map(index);
            }
        }
    }

    fn begin(&mut self, node: Option<usize>, array: bool) {
        match node {
            Some(node) if self.open.len() < LEVELS => {
                self.open.push(OpenContainer { node, array, count: 0, next: 0, value: None });
            }
            Some(node) => {
                self.nodes[node].hidden = true;
                self.below += 1;
            }
            None => self.below += 1,
        }
    }

    // The node of the value that begins here.
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

    /// Returns the node of the values of `key`, and the index of the field expected after it.
    /// `next` is the index at which the key is expected.
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
        let as_map = count >= MOST_KEYS || (count == MANY_KEYS && self.is_map(node));
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

    // An object with many keys is a map if the values of its keys are alike, or its objects have
    // few keys in common.
    fn is_map(&self, node: usize) -> bool {
        let PathNode { fields, objects, .. } = &self.nodes[node];
        let seen: u64 = fields.iter().map(|field| self.nodes[field.node].seen).sum();
        let sparse = *objects > 1 && seen * 2 < fields.len() as u64 * objects;
        let kind = |field: &ObjectField| self.nodes[field.node].kind();
        sparse || (*objects == 1 && fields.iter().all(|field| kind(field) == kind(&fields[0])))
    }

    // The values of all keys are objects with the same keys.
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

    // Adds the values at `from` to those at `into`, and frees `from`.
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
        if self.nodes.len() == MOST_NODES {
            return None;
        }
        self.nodes.push(PathNode::default());
        Some(self.nodes.len() - 1)
    }
}

impl PathNode {
    // Which types occur.
    fn kind(&self) -> [bool; 6] {
        let Self { nulls, bools, ints, floats, texts, arrays, objects, .. } = *self;
        [nulls, bools, ints + floats, texts, arrays, objects].map(|count| count > 0)
    }

    fn add_number(&mut self, written: &[u8]) {
        // A number that may have been cut has lost its magnitude.
        let whole = Some(written).filter(|written| written.len() < super::SAMPLE_BYTES);
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

impl Events for Outline {
    const KEY_BYTES: usize = super::KEY_BYTES;
    const TEXT_BYTES: usize = super::SAMPLE_BYTES;

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

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use ctxfs_core::materialize::json::JsonReader;

    fn outline(text: &str) -> Outline {
        let mut reader = JsonReader::<Outline>::default();
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
        assert!(found.nodes.len() <= MOST_NODES);
        let fields: usize = found.nodes.iter().map(|node| node.fields.len()).sum();
        assert!(fields <= MOST_NODES);
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
        assert_eq!((a.ints, a.whole.ends()), (5_000, Some((0, 4_999))));
        assert_eq!((b.arrays, found.node(b.each.unwrap()).ints), (5_000, 5_000));
        assert_eq!(c.objects, 5_000);
    }
}
