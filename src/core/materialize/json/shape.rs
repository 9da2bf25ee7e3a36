//! The structure of JSON values, merged while they are scanned.
//!
//! The tree has a node for the root, for each key of an object, and for all items of an array. The
//! values of one node are merged. Fields that tell of trouble have a [`FieldTally`] as well.

use crate::materialize::json::roles::{FieldRole, TroubleField, role};
use crate::materialize::json::scan::{Events, Scalar};
use crate::materialize::json::tally::{FieldTally, FirstRecord, WORD_BYTES};
use crate::model::TroubleRecord;

/// Levels that have nodes. Deeper values are shown as `...`.
const LEVELS: usize = 10;
/// Keys of an object that have nodes of their own. An object with more is a map, whose further
/// values are merged into one node.
const KEYS: usize = 64;
/// Nodes of a tree. With their keys they take at most some 300 KB.
const NODES: usize = 1024;

/// The values at one node.
#[derive(Debug, Clone, Default)]
pub(super) struct ShapeNode {
    /// Values.
    pub(super) seen: u64,
    /// True for each kind of [`Scalar`] that occurred.
    pub(super) scalars: [bool; 4],
    pub(super) texts: u64,
    /// Bytes of the longest string, as written.
    pub(super) longest: u64,
    pub(super) arrays: u64,
    /// Items of all arrays.
    pub(super) items: u64,
    pub(super) item: Option<usize>,
    pub(super) objects: u64,
    /// Keys of all objects.
    pub(super) keys: u64,
    pub(super) fields: Vec<ShapeField>,
    /// Values of keys beyond [`KEYS`].
    pub(super) rest: Option<usize>,
    /// True if an array or object here was too deep to be examined.
    pub(super) hidden: bool,
    /// Most items of one array, or keys of one object.
    pub(super) most: u64,
    use_of: FieldUse,
}

/// The use that is made of the values of a field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum FieldUse {
    #[default]
    None,
    /// They tell the kind of the record.
    Kind,
    /// They tell the kind if nothing else does.
    Message,
    /// They are counted.
    Tally(usize),
}

/// A key, and the node of its values.
#[derive(Debug, Clone)]
pub(super) struct ShapeField {
    hash: u64,
    pub(super) key: Box<[u8]>,
    pub(super) node: usize,
    /// True if use is made of its values.
    is_used: bool,
}

/// The tree of nodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shape {
    nodes: Vec<ShapeNode>,
    open: Vec<OpenNode>,
    /// Open brackets without a node.
    below: u64,
    tallies: Vec<FieldTally>,
    /// Errors in objects that have not ended: the tally, the rank, and the number of open brackets.
    pending: Vec<(usize, u8, usize)>,
    /// True if use is made of the values of the last key.
    is_used: bool,
    /// Offset of the block, that of the value that begins in the block, and its line.
    base: u64,
    at: u64,
    line: u64,
    /// True if there was no room for all values.
    pub(super) partial: bool,
}

/// An array or object that has not ended.
#[derive(Debug, Clone, Copy)]
struct OpenNode {
    node: usize,
    array: bool,
    /// The field expected next: objects of one kind have their keys in one order.
    next: usize,
    /// The node of the value of the last key.
    value: Option<usize>,
    /// Items, or keys, that the node had before.
    before: u64,
    /// Its first byte, and the line of that.
    offset: u64,
    line: u64,
    /// A hash of what tells the kind of a record, and true if that is more than its message.
    kind: (u32, bool),
}

impl Shape {
    pub(super) fn root(&self) -> Option<&ShapeNode> {
        self.nodes.first()
    }

    pub(super) fn node(&self, index: usize) -> &ShapeNode {
        &self.nodes[index]
    }

    fn begin(&mut self, node: Option<usize>, array: bool) {
        match node {
            Some(node) if self.open.len() < LEVELS => {
                let (offset, line) = (self.base + self.at, self.line);
                let (next, value, kind) = (0, None, (0, false));
                let before = self.count(node, array);
                self.open.push(OpenNode { node, array, next, value, before, offset, line, kind });
            }
            Some(node) => {
                self.nodes[node].hidden = true;
                self.below += 1;
            }
            None => self.below += 1,
        }
    }

    /// Returns the items of the arrays at a node, or the keys of its objects.
    fn count(&self, node: usize, array: bool) -> u64 {
        let node = &self.nodes[node];
        if array { node.items } else { node.keys }
    }

    /// Returns the node of the value that begins here.
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
    /// Longer keys are distinguished by their beginning.
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

    /// Frees the memory: the shape is not shown.
    fn broken(&mut self) {
        *self = Self::default();
    }
}

/// Returns a hash of a key, so that most comparisons are of numbers.
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

/// Fields with a tally. Each takes some 1 KB.
const TALLIES: usize = 128;
/// Errors of the records that have not ended.
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

    /// Notes an error in the innermost object. It is kept when the object ends.
    fn note(&mut self, tally: usize, rank: Option<u8>) {
        let Some(rank) = rank.filter(|_| self.pending.len() < PENDING) else { return };
        self.pending.push((tally, rank, self.open.len()));
    }

    /// Keeps the errors in the innermost object, which ends.
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

    /// Returns the place of the record that has the innermost object: the item of an array, or the
    /// object itself.
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

/// Returns eight bytes of text with zeros in place of digits, and of some other characters.
#[inline]
fn without_digits(text: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // Digits have the bits 0x30, letters 0x40.
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
