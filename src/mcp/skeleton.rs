//! The skeleton of a long message: its structure and its short values, without the white space.
//!
//! The long values stay out of it, as holes. So whatever the message, its id, its method and the
//! place of each text in it are known when it ends, and memory is bounded.

use crate::message::{HOLE_BYTES, Hole};
use ctxfs_core::materialize::json::Events;

/// The longest value that stays in the text, as written.
const LONG: usize = 64 * 1024;
/// The most bytes of the text.
const MOST: usize = 1 << 20;

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "what was seen of a message, each by itself")]
pub(super) struct Skeleton {
    pub(super) text: Vec<u8>,
    pub(super) holes: Vec<Hole>,
    /// The first id as written, once it was seen.
    pub(super) id: Option<Vec<u8>>,
    /// True once the member `jsonrpc` was seen, which every message has.
    pub(super) has_version: bool,
    /// True once a `result` or an `error` was seen.
    pub(super) is_response: bool,
    /// True if the text is longer than memory should hold, and no value can be left out.
    pub(super) is_too_long: bool,
    /// The offset in the stream of the bytes that are being scanned.
    base: u64,
    depth: usize,
    keys: [Vec<u8>; 2],
    /// The beginning of a string, number or word that has not ended.
    scalar: Option<Start>,
    /// True if the scalar is so long that it becomes a hole.
    is_long: bool,
    /// The values that may become holes as a whole, the outermost first.
    open: Vec<Start>,
    /// The depth of the value that is left out.
    skipped: Option<usize>,
}

/// The beginning of a value.
#[derive(Debug, Clone, Copy)]
struct Start {
    depth: usize,
    at: usize,
    from: u64,
}

impl Skeleton {
    /// Says that the next bytes begin at `offset` of the stream.
    pub(super) fn at(&mut self, offset: u64) {
        self.base = offset;
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.skipped.is_some() || self.is_too_long {
            return;
        }
        self.text.extend_from_slice(bytes);
        if self.text.len() > MOST {
            self.leave_out();
        }
    }

    /// Leaves out the innermost value that may be left out.
    fn leave_out(&mut self) {
        match self.open.last() {
            Some(start) => {
                let start = *start;
                self.cut(start.at);
                self.scalar = None;
                self.is_long = false;
                self.skipped = Some(start.depth);
            }
            None => self.is_too_long = true,
        }
    }

    fn cut(&mut self, at: usize) {
        self.text.truncate(at);
        self.holes.retain(|hole| hole.at < at);
    }

    /// Puts a hole where the value began that ends at `to`.
    fn hole(&mut self, start: Start, to: u64, stands: [u8; HOLE_BYTES]) {
        self.cut(start.at);
        self.holes.push(Hole { at: start.at, span: start.from..to });
        self.text.extend_from_slice(&stands);
    }

    fn is_under(&self, path: &[&[u8]]) -> bool {
        path.iter().zip(&self.keys).all(|(name, key)| *name == key.as_slice())
    }
}

impl Events for Skeleton {
    const KEY_BYTES: usize = 32;

    fn begins(&mut self, at: usize) {
        if self.skipped.is_some() {
            return;
        }
        let start = Start { depth: self.depth, at: self.text.len(), from: self.base + at as u64 };
        self.scalar = Some(start);
        let may_go = match self.depth {
            1 => true,
            2 => self.is_under(&[b"result", b"structuredContent"]) || self.is_under(&[b"params"]),
            _ => false,
        };
        if may_go {
            self.open.push(start);
        }
    }

    fn piece(&mut self, bytes: &[u8]) {
        if self.is_long || self.skipped.is_some() {
            return;
        }
        match self.scalar {
            Some(start) if self.text.len() - start.at + bytes.len() > LONG => {
                self.cut(start.at);
                self.is_long = true;
            }
            _ => self.add(bytes),
        }
    }

    fn bracket(&mut self, byte: u8) {
        self.scalar = None;
        self.add(&[byte]);
        match byte {
            b'{' | b'[' => self.depth += 1,
            _ => self.depth -= 1,
        }
    }

    fn comma(&mut self) {
        self.add(b",");
    }

    fn colon(&mut self) {
        self.add(b":");
    }

    fn key(&mut self, key: &[u8]) {
        self.has_version |= self.depth == 1 && key == b"jsonrpc";
        if let Some(kept) = self.depth.checked_sub(1).and_then(|depth| self.keys.get_mut(depth)) {
            key.clone_into(kept);
        }
    }

    fn ends(&mut self, at: usize) {
        let to = self.base + at as u64;
        let scalar = self.scalar.take();
        if self.skipped == Some(self.depth) {
            self.skipped = None;
            if let Some(start) = self.open.pop() {
                self.hole(start, to, *b"{}");
            }
        } else if self.skipped.is_none() {
            if std::mem::take(&mut self.is_long)
                && let Some(start) = scalar
            {
                self.hole(start, to, *b"\"\"");
            }
            if let Some(start) = self.open.pop_if(|start| start.depth == self.depth)
                && start.depth == 2
                && self.text.len() - start.at > LONG
            {
                self.hole(start, to, *b"{}");
            }
        }
        if self.depth == 1 {
            self.is_response |= matches!(&*self.keys[0], b"result" | b"error");
            if self.is_under(&[b"id"])
                && let Some(start) = scalar
                && self.id.is_none()
            {
                self.id = self.text.get(start.at..).map(<[u8]>::to_vec);
            }
        }
    }
}

#[cfg(test)]
mod tests;
