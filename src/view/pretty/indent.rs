//! Lines and indentation between the tokens of JSON.

use crate::materialize::json::Events;

/// Levels to which lines are indented: deeper, brackets alone would make a text that grows with the
/// square of its depth.
pub(super) const LEVELS: usize = 64;
/// The indentation of the deepest level, two blanks a level.
const BLANKS: [u8; 2 * LEVELS] = [b' '; 2 * LEVELS];

/// Writes tokens as they stand, each key and each item on a line of its own.
#[derive(Debug, Default)]
pub(super) struct Indenter {
    text: Vec<u8>,
    depth: usize,
    /// A line ends before what comes next: it is the first in its brackets, or follows a comma.
    due: bool,
    /// Newlines written.
    newlines: u64,
    /// Whether the text that was taken ended in the middle of a line.
    inside_line: bool,
    /// Whether some value was nested deeper than [`LEVELS`].
    capped: bool,
}

impl Indenter {
    /// The text so far, which is then forgotten.
    pub(super) fn take(
        &mut self,
        with: impl FnOnce(&[u8]) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        with(&self.text)?;
        self.inside_line = self.is_inside_line();
        self.text.clear();
        Ok(())
    }

    /// The line that comes next, or is being written, from 1.
    pub(super) fn line(&self) -> u64 {
        self.newlines + 1
    }

    /// Whether some value was nested too deep to be indented to its level.
    pub(super) fn is_capped(&self) -> bool {
        self.capped
    }

    /// Ends a value, whole or not, and with it its line.
    pub(super) fn end_value(&mut self) {
        self.depth = 0;
        self.due = false;
        if self.is_inside_line() {
            self.text.push(b'\n');
            self.newlines += 1;
        }
    }

    /// Writes bytes that are not JSON.
    pub(super) fn plain(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
        self.newlines += memchr::memchr_iter(b'\n', bytes).count() as u64;
    }

    fn is_inside_line(&self) -> bool {
        self.text.last().map_or(self.inside_line, |last| *last != b'\n')
    }

    #[inline]
    fn begin_line(&mut self) {
        self.text.push(b'\n');
        self.text.extend_from_slice(&BLANKS[..2 * self.depth.min(LEVELS)]);
        self.newlines += 1;
    }

    #[inline]
    fn open(&mut self, bracket: u8) {
        self.settle();
        self.text.push(bracket);
        self.depth += 1;
        self.capped |= self.depth > LEVELS;
        self.due = true;
    }

    #[inline]
    fn close(&mut self, bracket: u8) {
        self.depth -= 1;
        // What is due here was due behind the opening bracket: there is nothing in between.
        if !std::mem::take(&mut self.due) {
            self.begin_line();
        }
        self.text.push(bracket);
    }

    #[inline]
    fn settle(&mut self) {
        if self.due {
            self.due = false;
            self.begin_line();
        }
    }
}

impl Events for Indenter {
    #[inline]
    fn bracket(&mut self, byte: u8) {
        match byte {
            b'{' | b'[' => self.open(byte),
            _ => self.close(byte),
        }
    }

    #[inline]
    fn comma(&mut self) {
        self.text.push(b',');
        self.due = true;
    }

    #[inline]
    fn colon(&mut self) {
        self.text.extend_from_slice(b": ");
    }

    #[inline]
    fn piece(&mut self, bytes: &[u8]) {
        self.settle();
        self.text.extend_from_slice(bytes);
    }
}
