//! The brackets that are open at a place in a JSON value.

/// Deepest nesting that is followed. At a bit a level that takes 128 KiB. Every JSON reader that
/// was tried gives up far earlier.
const MAX_DEPTH: usize = 1 << 20;

/// The open brackets, a bit each: 1 for an object, 0 for an array.
#[derive(Debug, Clone, Default)]
pub(super) struct Nesting {
    bits: Vec<u64>,
    depth: usize,
    in_object: bool,
}

impl Nesting {
    /// Returns true if no bracket is open.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.depth == 0
    }

    /// Returns true if the innermost open bracket is that of an object.
    #[inline]
    pub(super) fn in_object(&self) -> bool {
        self.in_object
    }

    /// Returns how many brackets are open.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// Returns true if no further bracket can be opened.
    pub(super) fn is_full(&self) -> bool {
        self.depth == MAX_DEPTH
    }

    /// Opens the bracket of an object or an array. None if too many are open.
    #[inline]
    pub(super) fn push(&mut self, object: bool) -> Option<()> {
        if self.depth == MAX_DEPTH {
            return None;
        }
        let (word, bit) = (self.depth / 64, self.depth % 64);
        if word == self.bits.len() {
            self.bits.push(0);
        }
        self.bits[word] = self.bits[word] & !(1 << bit) | u64::from(object) << bit;
        self.depth += 1;
        self.in_object = object;
        Some(())
    }

    /// Closes the innermost bracket.
    #[inline]
    pub(super) fn pop(&mut self) {
        self.depth -= 1;
        self.in_object = self.depth > 0 && {
            let top = self.depth - 1;
            self.bits[top / 64] >> (top % 64) & 1 == 1
        };
    }
}
