//! The structure of JSON values. Values are merged while they are scanned.
//!
//! The tree has one node for the root, one for each key of an object, and one for all items of an
//! array. A node merges all values at its position. Fields that may indicate errors also have a
//! [`FieldTally`].

use crate::materialize::json::roles::{FieldRole, TroubleField, role};
use crate::materialize::json::scan::{Events, Scalar};
use crate::materialize::json::tally::{FieldTally, FirstRecord, WORD_BYTES};
use crate::model::TroubleRecord;

// Number of levels with nodes. Deeper values are shown as `...`.
const LEVELS: usize = 10;
/// Maximum number of keys of an object that have separate nodes. An object with more keys is a map.
/// The values of its other keys share one node.
const KEYS: usize = 64;
// With their keys, nodes take at most about 300 KB.
const NODES: usize = 1024;

/// The merged values at one position of the tree.
///
/// `seen` counts all values. `scalars` has a flag for each kind of [`Scalar`] that occurred.
/// `longest` is the length in bytes of the longest string as written. `items` and `keys` are sums
/// over all arrays and objects; `most` is the maximum of a single array or object. `rest` is the
/// node of keys beyond [`KEYS`]. `hidden` is true if a value was too deep to be examined.
#[derive(Debug, Clone, Default)]
pub(super) struct ShapeNode {
    pub(super) seen: u64,
    pub(super) scalars: [bool; 4],
    pub(super) texts: u64,
    pub(super) longest: u64,
    pub(super) arrays: u64,
    pub(super) items: u64,
    pub(super) item: Option<usize>,
    pub(super) objects: u64,
    pub(super) keys: u64,
    pub(super) fields: Vec<ShapeField>,
    pub(super) rest: Option<usize>,
    pub(super) hidden: bool,
    pub(super) most: u64,
    use_of: FieldUse,
}

/// How the values of a field are used. `Tally`: the values are counted, in the tally with this
/// index. `Kind`: the values determine the kind of the record. `Message`: the values determine the
/// kind only if the record has no `Kind` field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum FieldUse {
    #[default]
    None,
    Kind,
    Message,
    Tally(usize),
}

// A key, and the index of the node for its values.
#[derive(Debug, Clone)]
pub(super) struct ShapeField {
    hash: u64,
    pub(super) key: Box<[u8]>,
    pub(super) node: usize,
    is_used: bool,
}

/// The tree of nodes, and the records with errors that were found during the scan.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shape {
    pub(super) nodes: Vec<ShapeNode>,
    open: Vec<OpenNode>,
    // Number of open brackets that have no node because they are too deep or there was no room.
    below: u64,
    tallies: Vec<FieldTally>,
    // Errors in objects that have not ended. Each has the index of its tally, its rank, and the
    // number of open brackets.
    pending: Vec<(usize, u8, usize)>,
    is_used: bool,
    // `base` is the offset of the current block. `at` is the offset in the block at which the
    // current value begins, and `line` is the line of that offset.
    base: u64,
    at: u64,
    line: u64,
    // True if some values were not recorded for lack of room.
    pub(super) partial: bool,
}

#[derive(Debug, Clone, Copy)]
struct OpenNode {
    node: usize,
    array: bool,
    // The expected position of the next key. Objects of the same kind usually have their keys in
    // the same order.
    next: usize,
    value: Option<usize>,
    // Number of items or keys that the node had when this container began.
    before: u64,
    offset: u64,
    line: u64,
    // A hash of the fields that determine the kind of the record. The flag is true if the hash
    // comes from a field other than a message.
    kind: (u32, bool),
}

impl Shape {
    fn begin(&mut self, node: Option<usize>, array: bool) {
        match node {
            Some(node) if self.open.len() < LEVELS => {
                self.open.push(OpenNode {
                    node,
                    array,
                    next: 0,
                    value: None,
                    before: self.count(node, array),
                    offset: self.base + self.at,
                    line: self.line,
                    kind: (0, false),
                });
            }
            Some(node) => {
                self.nodes[node].hidden = true;
                self.below += 1;
            }
            None => self.below += 1,
        }
    }

    fn count(&self, node: usize, array: bool) -> u64 {
        let node = &self.nodes[node];
        if array { node.items } else { node.keys }
    }

    #[inline]
    fn place(&mut self) -> Option<usize> {
        if self.below > 0 {
            return None;
        }
        let node = match self.open.last() {
            None if self.nodes.is_empty() => self.new_node(),
            None => Some(0),
            Some(open) if open.array => self.item_of(open.node),
            Some(open) => open.value,
        }?;
        self.nodes[node].seen += 1;
        Some(node)
    }

    #[inline]
    fn item_of(&mut self, array: usize) -> Option<usize> {
        self.nodes[array].items += 1;
        if self.nodes[array].item.is_none() {
            self.nodes[array].item = self.new_node();
        }
        self.nodes[array].item
    }

    #[cold]
    fn new_field(&mut self, object: usize, hash: u64, key: &[u8]) -> Option<usize> {
        if self.nodes[object].fields.len() < KEYS {
            let node = self.new_node()?;
            let use_of = self.use_of(key);
            self.nodes[node].use_of = use_of;
            let is_used = use_of != FieldUse::None;
            self.nodes[object].fields.push(ShapeField { hash, key: key.into(), node, is_used });
            return Some(node);
        }
        if self.nodes[object].rest.is_none() {
            self.nodes[object].rest = self.new_node();
        }
        self.nodes[object].rest
    }

    fn new_node(&mut self) -> Option<usize> {
        if self.nodes.len() == NODES {
            self.partial = true;
            return None;
        }
        self.nodes.push(ShapeNode::default());
        Some(self.nodes.len() - 1)
    }
}

impl Events for Shape {
    // Keys with the same first 64 bytes share a node.
    const KEY_BYTES: usize = 64;
    const TEXT_BYTES: usize = WORD_BYTES;

    #[inline]
    fn block(&mut self, offset: u64) {
        self.base = offset;
    }

    #[inline]
    fn newline(&mut self) {
        self.line += 1;
    }

    #[inline]
    fn reads_numbers(&self) -> bool {
        self.is_used
    }

    #[inline]
    fn begins(&mut self, at: usize) {
        self.at = at as u64;
    }

    #[inline]
    fn scalar(&mut self, scalar: Scalar, written: &[u8]) {
        if let Some(node) = self.place() {
            self.nodes[node].scalars[scalar as usize] = true;
            if self.is_used {
                self.use_scalar(self.nodes[node].use_of, scalar, written);
            }
        }
    }

    #[inline]
    fn text(&mut self, start: &[u8], length: u64) {
        if let Some(at) = self.place() {
            let node = &mut self.nodes[at];
            node.texts += 1;
            node.longest = node.longest.max(length);
            if self.is_used {
                self.use_text(self.nodes[at].use_of, start, length);
            }
        }
    }

    fn begin_object(&mut self) {
        let node = self.place();
        if let Some(node) = node {
            self.nodes[node].objects += 1;
        }
        self.begin(node, false);
    }

    fn begin_array(&mut self) {
        let node = self.place();
        if let Some(node) = node {
            self.nodes[node].arrays += 1;
        }
        self.begin(node, true);
    }

    fn end(&mut self) {
        if self.below > 0 {
            self.below -= 1;
            return;
        }
        if !self.pending.is_empty() {
            self.keep_pending();
        }
        if let Some(OpenNode { node, array, before, .. }) = self.open.pop() {
            let count = self.count(node, array) - before;
            let most = &mut self.nodes[node].most;
            *most = count.max(*most);
        }
    }

    #[inline]
    fn key(&mut self, key: &[u8]) {
        if self.below > 0 {
            return;
        }
        let Some(&OpenNode { node, next, .. }) = self.open.last() else {
            return;
        };
        self.nodes[node].keys += 1;
        let hash = hash(key);
        let fields = &self.nodes[node].fields;
        let is_it = |field: &ShapeField| field.hash == hash && *field.key == *key;
        let found = if fields.get(next).is_some_and(is_it) {
            Some(next)
        } else {
            fields.iter().position(is_it)
        };
        let (value, is_used) = if let Some(index) = found {
            let field = &self.nodes[node].fields[index];
            (Some(field.node), field.is_used)
        } else {
            let value = self.new_field(node, hash, key);
            (value, value.is_some_and(|node| self.nodes[node].use_of != FieldUse::None))
        };
        self.is_used = is_used;
        if let Some(open) = self.open.last_mut() {
            open.value = value;
            open.next = found.unwrap_or(next) + 1;
        }
    }

    // A shape of broken JSON is not shown, so it is discarded.
    fn broken(&mut self) {
        *self = Self::default();
    }
}

// A cheap hash. It makes most comparisons of keys comparisons of numbers.
#[inline]
fn hash(key: &[u8]) -> u64 {
    let (head, tail) = if let (Some(head), Some(tail)) = (key.first_chunk(), key.last_chunk()) {
        (u64::from_be_bytes(*head), u64::from_be_bytes(*tail))
    } else {
        let all = key.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        (all, all)
    };
    head.rotate_left(20) ^ tail ^ key.len() as u64
}

// Maximum number of tallies. Each takes about 1 KB.
const TALLIES: usize = 128;
const PENDING: usize = 64;

impl Shape {
    pub(super) fn tally(&self, node: &ShapeNode) -> Option<&FieldTally> {
        match node.use_of {
            FieldUse::Tally(index) => self.tallies.get(index),
            FieldUse::None | FieldUse::Kind | FieldUse::Message => None,
        }
    }

    fn use_of(&mut self, key: &[u8]) -> FieldUse {
        match (TroubleField::of(key), role(key)) {
            (None, Some((FieldRole::Kind, _))) => FieldUse::Kind,
            (Some(_), _) if self.tallies.len() == TALLIES => {
                self.partial = true;
                FieldUse::None
            }
            (Some(field), _) => {
                self.tallies.push(FieldTally::new(field));
                FieldUse::Tally(self.tallies.len() - 1)
            }
            (None, Some((FieldRole::Message, _))) => FieldUse::Message,
            (None, _) => FieldUse::None,
        }
    }

    fn use_text(&mut self, use_of: FieldUse, start: &[u8], length: u64) {
        match use_of {
            FieldUse::None => {}
            FieldUse::Kind => self.set_kind(start, true),
            FieldUse::Message => self.set_kind(start, false),
            FieldUse::Tally(tally) => {
                let rank = self.tallies[tally].text(start, length);
                self.note(tally, rank);
            }
        }
    }

    fn use_scalar(&mut self, use_of: FieldUse, scalar: Scalar, written: &[u8]) {
        match use_of {
            FieldUse::None | FieldUse::Message => {}
            FieldUse::Kind => self.set_kind(written, true),
            FieldUse::Tally(tally) => {
                let rank = self.tallies[tally].scalar(scalar, written);
                self.note(tally, rank);
            }
        }
    }

    fn set_kind(&mut self, text: &[u8], is_kind: bool) {
        let Some(open) = self.open.last_mut() else { return };
        if is_kind || !open.kind.1 {
            let hash = text.chunks(8).fold(text.len() as u64, |sum, word| {
                let word = word.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
                let word = if is_kind { word } else { without_digits(word) };
                (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
            });
            let hash = (hash >> 32) as u32;
            open.kind = (hash | 1, is_kind);
        }
    }

    // Records an error until the innermost object ends. The error is then added to its tally.
    fn note(&mut self, tally: usize, rank: Option<u8>) {
        let Some(rank) = rank.filter(|_| self.pending.len() < PENDING) else { return };
        self.pending.push((tally, rank, self.open.len()));
    }

    fn keep_pending(&mut self) {
        while let Some((tally, rank, depth)) = self.pending.pop() {
            if depth < self.open.len() {
                self.pending.push((tally, rank, depth));
                return;
            }
            let kind = self.open.last().map_or(0, |open| open.kind.0);
            if let Some(at) = self.record() {
                self.tallies[tally].add_record(FirstRecord { rank, kind, at });
            }
        }
    }

    /// Returns the position of the record that contains the innermost object. The record is the
    /// innermost array item around that object, or the object itself if there is none.
    fn record(&self) -> Option<TroubleRecord> {
        let is_item = |at: usize| at == 0 || self.open[at - 1].array;
        let last = self.open.len().checked_sub(1)?;
        let item = (1..=last).rev().find(|at| is_item(*at));
        let own = &self.open[item.unwrap_or(last)];
        let outer = (0..item.unwrap_or(last)).rev().find(|at| is_item(*at));
        let outer = outer.map(|at| self.open[at]).filter(|outer| !outer.array);
        let outer = outer.map(|outer| outer.offset);
        Some(TroubleRecord { line: own.line + 1, offset: own.offset, outer, times: 1 })
    }
}

// Replaces digits and some other characters by zeros.
#[inline]
fn without_digits(text: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // The two highest bits are 00 in digits and 01 in letters.
    let letters = text >> 6 & ONES;
    text & letters.wrapping_mul(0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_keys_takes_bounded_memory() {
        let mut shape = Shape::default();
        shape.begin_array();
        for index in 0..20_000 {
            for key in ["a", "b", "c"] {
                shape.begin_object();
                shape.key(format!("{key}{index}").as_bytes());
            }
            shape.scalar(Scalar::Int, b"1");
            (0..3).for_each(|_| shape.end());
        }
        assert!(shape.nodes.len() <= NODES);
        let fields: usize = shape.nodes.iter().map(|node| node.fields.len()).sum();
        assert!(fields <= NODES);
    }
}
