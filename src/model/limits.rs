//! What fits into a conversation, and how large its stand-ins may be.

/// The limits of `formats.md`, with their defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// An output of at most so many characters is shown whole in its summary.
    pub max_inline_chars: u64,
    /// As `max_inline_chars`, in bytes; the stricter decides.
    pub max_inline_bytes: u64,
    /// Lines of head, and of tail, in a summary.
    pub snippet_lines: usize,
    /// Bytes of head, and of tail, in a summary.
    pub snippet_bytes: usize,
}

impl Limits {
    /// Bytes of a stand-in: other hosts cut at 8 to 50 KB, and it must pass through them whole.
    pub const STAND_IN_BYTES: usize = 6 * 1024;
    /// Lines of a stand-in.
    pub const STAND_IN_LINES: usize = 200;
    /// Characters of a line in a stand-in or a search result; longer lines are cut.
    pub const LINE_CHARS: usize = 500;
    /// Bytes of any other view: read whole by every host that was measured.
    pub const VIEW_BYTES: usize = 48 * 1024;
    /// Lines of `.tail` and `.head`.
    pub const TAIL_LINES: u64 = 200;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_inline_chars: 4000,
            max_inline_bytes: 16384,
            snippet_lines: 40,
            snippet_bytes: 2048,
        }
    }
}
