use ctxfs_core::materialize::json::Events;

// Beyond this depth lines are not indented further. Deeply nested brackets alone would make a text
// that grows with the square of their depth.
pub(super) const LEVELS: usize = 64;
// Two blanks for each level.
const BLANKS: [u8; 2 * LEVELS] = [b' '; 2 * LEVELS];

/// Writes tokens as they are spelled, each key and each item on a line of its own.
///
/// If a line is `due`, it ends before the next token, which is the first in its brackets or follows
/// a comma.
#[derive(Debug, Default)]
pub(super) struct Indenter {
    text: Vec<u8>,
    depth: usize,
    due: bool,
    newlines: u64,
    // True if the text that was taken ended in the middle of a line.
    inside_line: bool,
    // True if a value was nested deeper than `MAX_INDENT_LEVELS`.
    capped: bool,
}

impl Indenter {
    /// Passes the text so far to `with`, and forgets it.
    pub(super) fn take(
        &mut self,
        with: impl FnOnce(&[u8]) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        with(&self.text)?;
        self.inside_line = self.is_inside_line();
        self.text.clear();
        Ok(())
    }

    /// Returns the number, from 1, of the line that is being written or comes next.
    pub(super) fn line(&self) -> u64 {
        self.newlines + 1
    }

    pub(super) fn is_capped(&self) -> bool {
        self.capped
    }

    /// Ends a value, complete or not, and its line.
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
        // A line that is due was due behind the opening bracket: the brackets are empty.
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
