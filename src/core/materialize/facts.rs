//! The analysers of what the text is.

use crate::materialize::block::Block;
use crate::materialize::json::JsonDetector;
use crate::materialize::lines::LineCounter;
use crate::materialize::magic::Magic;
use crate::materialize::text::EncodingDetector;
use crate::materialize::tokens::TokenCounter;
use crate::model::Encoding;

/// The analysers of what the text is.
#[derive(Clone, Default)]
pub(super) struct TextFacts {
    /// Bytes that they have seen: those of the extractor's text, if there is one.
    pub(super) read: u64,
    pub(super) text: EncodingDetector,
    pub(super) lines: LineCounter,
    pub(super) magic: Magic,
    pub(super) tokens: TokenCounter,
    pub(super) json: JsonDetector,
}

impl TextFacts {
    pub(super) fn push(&mut self, block: Block<'_>) {
        let bytes = block.bytes;
        let newlines = self.lines.newlines();
        self.text.push(bytes);
        self.magic.push(bytes);
        self.tokens.push(bytes);
        let invalid = self.text.first_invalid();
        self.json.push(bytes, self.read, newlines, invalid);
        self.lines.push(block, invalid.is_none());
        self.read += bytes.len() as u64;
    }

    pub(super) fn encoding(&self) -> Encoding {
        if self.text.has_nul() || self.magic.is_binary() {
            Encoding::Binary
        } else if self.text.is_broken() {
            Encoding::Broken
        } else if self.text.is_ascii() {
            Encoding::Ascii
        } else {
            Encoding::Utf8
        }
    }
}
