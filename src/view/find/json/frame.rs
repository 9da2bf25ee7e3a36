use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

use crate::find::candidate::LineStart;
use crate::find::found::Found;

// JSON that is nested deeper is treated as text.
const MOST: usize = 128;
// Bytes of a key that are kept.
const KEY: usize = 64;

/// An open object or array. `start` is the offset of its first byte, or of its key; `has_key` is
/// true between a key and the end of its value. `own` are the words in its own members, `all` also
/// those in members below.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) is_object: bool,
    pub(super) start: u64,
    pub(super) line: LineStart,
    pub(super) has_key: bool,
    pub(super) index: u64,
    key: Vec<u8>,
    pub(super) own: Found,
    pub(super) all: Found,
    pub(super) has_words: bool,
    pub(super) best: u64,
}

impl Frame {
    pub(super) fn new(is_object: bool, start: u64, line: LineStart, found: Found) -> Self {
        Self {
            is_object,
            start,
            line,
            has_key: false,
            index: 0,
            key: Vec::new(),
            own: found,
            all: found,
            has_words: false,
            best: 0,
        }
    }

    // The step of a path to the member that is being read.
    fn step(&self) -> String {
        if !self.is_object {
            return format!("[{}]", self.index);
        }
        let key = String::from_utf8_lossy(&self.key);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let begins = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if begins && key.chars().all(is_plain) { format!(".{key}") } else { format!("[\"{key}\"]") }
    }

    // Equal for values with the same words under the same last key.
    pub(super) fn likeness(&self, found: &Found) -> u64 {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        hasher.hash_one((self.is_object, &self.key, found.terms()))
    }
}

/// The objects and arrays that are open, outermost first.
#[derive(Debug, Default)]
pub(super) struct Frames {
    open: Vec<Frame>,
}

impl Frames {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn top(&self) -> Option<&Frame> {
        self.open.last()
    }

    pub(super) fn top_mut(&mut self) -> Option<&mut Frame> {
        self.open.last_mut()
    }

    pub(super) fn push(&mut self, frame: Frame) {
        self.open.push(frame);
    }

    pub(super) fn pop(&mut self) -> Option<Frame> {
        self.open.pop()
    }

    pub(super) fn is_full(&self) -> bool {
        self.open.len() >= MOST
    }

    pub(super) fn set_key(&mut self, key: &[u8]) {
        if let Some(frame) = self.top_mut() {
            frame.key.clear();
            frame.key.extend_from_slice(&key[..key.len().min(KEY)]);
        }
    }

    /// Returns the path of the value that is being read, as a filter of jq: `.items[12].name`.
    pub(super) fn path(&self) -> String {
        let path: String = self.open.iter().map(Frame::step).collect();
        if path.starts_with('[') { format!(".{path}") } else { path }
    }
}
