//! The analysis of an output in one pass over its bytes.
//!
//! [`Analyzer`] passes a stream to small state machines, one per file of this module. Each takes
//! bytes with `push` and can report its findings at any time. The result never depends on where the
//! stream was split into pieces. Each machine keeps at most as much as its named constants allow,
//! so an analyzer uses less than [`MEMORY_BYTES`] for any input.
//!
//! | module | finds |
//! |---|---|
//! | `text` | characters, invalid UTF-8, lines and the longest line |
//! | `magic` | known binary formats, MIME type |
//! | [`tokens`] | an estimate of language-model tokens |
//! | [`json`] | JSON, JSON Lines, and their shape |
//! | `failure` | the lines that look like errors, most informative first |
//! | `repeated` | lines that are repeated often, and lines unlike any other |
//! | `prose` | passages of prose in an output that has little prose |
//! | `sections` | the sections of the output |
//! | `reading` | how the bytes are read as text, and that text, as input of the other modules |
//! | `terminal` | output for a terminal, and progress that overwrites itself |
//! | `plain` | the text of a terminal log |
//! | `plain_text` | the text as a `Content` |
//!
//! `ByteBlock` finds the positions of newlines once for all machines.

mod block;
mod failure;
pub mod frequent;
pub mod json;
mod likeness;
mod magic;
mod pattern;
mod plain;
mod plain_text;
mod prose;
mod reading;
mod repeated;
mod sections;
mod terminal;
mod text;
pub mod tokens;

use std::io;

use parking_lot::Mutex;

use crate::materialize::block::ByteBlock;
use crate::materialize::failure::{ErrorScanner, FailureDetector, FoundError};
use crate::materialize::json::JsonDetector;
use crate::materialize::magic::Magic;
use crate::materialize::plain_text::{BLOCK_BYTES, TextExtractor};
use crate::materialize::prose::ProseFinder;
use crate::materialize::repeated::RepeatedLines;
use crate::materialize::sections::SectionDetector;
use crate::materialize::text::{EncodingDetector, LineCounter};
use crate::materialize::tokens::TokenCounter;
use crate::model::{Analysis, Content, Encoding, Errors, Json, LooseJson, Sections, Unlike};
use crate::parallel::{self, Task};

pub use crate::materialize::failure::{COMPARISON, ErrorMatch, SIDE, bare, error_lines};
pub use crate::materialize::likeness::{LikenessHasher, exact};
pub use crate::materialize::pattern::Pattern;
pub use crate::materialize::plain::{TextPart, strip_escapes, text_parts};
pub use crate::materialize::plain_text::{Checkpoints, PlainText};
pub use crate::materialize::reading::{SNIFFED, decode, reading};
pub use crate::materialize::terminal::escape_length;
pub use crate::materialize::tokens::TOKEN_ERROR_PERCENT;

/// Maximum memory of an analyzer in bytes. The largest parts are the shape of JSON with its
/// tallies, about 450 KB, and the stack of open brackets, at most 128 KB.
pub const MEMORY_BYTES: usize = 2 << 20;
// Number of bytes that one thread searches for error lines at a time. It is small so that all
// threads finish at about the same time.
const SCANNED_BYTES: usize = 128 << 10;
// Size in bytes of the blocks in which a stream is analysed. The positions of the newlines in a
// block take at most four times as many bytes.
const PUSHED_BYTES: usize = 64 << 10;

/// Analyses one stream.
///
/// Creating an analyzer is cheap. A clone continues independently of the original.
#[derive(Clone)]
pub struct Analyzer {
    seen: u64,
    digest: blake3::Hasher,
    is_of_log: bool,
    // The first bytes, which are not analysed until they decide how the stream is read.
    start: Option<Vec<u8>>,
    is_binary: bool,
    // Present if the text is not the bytes as they are.
    extractor: Option<Box<TextExtractor>>,
    facts: TextFacts,
    failures: FailureDetector,
    forms: LineForms,
    newlines: Vec<u32>,
}

impl Analyzer {
    /// Returns an analyzer for output that is not known to be a terminal log. The first [`SNIFFED`]
    /// bytes decide how it is read as text, and whether it was made for a terminal.
    pub fn new() -> Self {
        Self {
            seen: 0,
            digest: blake3::Hasher::new(),
            is_of_log: false,
            start: Some(Vec::new()),
            is_binary: false,
            extractor: None,
            facts: TextFacts::default(),
            failures: FailureDetector::default(),
            forms: LineForms::default(),
            newlines: Vec::new(),
        }
    }

    /// Returns an analyzer for the log of a terminal. The size and the digest describe the bytes of
    /// the log. All other facts describe the text without escape sequences.
    pub fn of_log() -> Self {
        Self { is_of_log: true, ..Self::new() }
    }

    /// Returns true if this analyzer was created by [`of_log`](Self::of_log).
    pub fn is_of_log(&self) -> bool {
        self.is_of_log
    }

    /// Returns the checkpoints of the bytes that were pushed so far, if they are decoded.
    pub fn checkpoints(&self) -> Checkpoints {
        match (&self.extractor, &self.start) {
            (Some(extractor), _) => extractor.checkpoints(),
            (None, Some(start)) => {
                Checkpoints::none(reading(start, self.is_of_log).unwrap_or_default())
            }
            (None, None) => Checkpoints::default(),
        }
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        bytes.chunks(PUSHED_BYTES).for_each(|block| self.push_block(block));
    }

    /// Returns the number of bytes pushed so far.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Returns the facts about the bytes that were pushed so far. More bytes may be pushed
    /// afterwards.
    pub fn finish(&self) -> Analysis {
        if self.start.is_some() {
            let mut decided = self.clone();
            decided.decide();
            return decided.finish();
        }
        let mut rest = Vec::new();
        if let Some(extractor) = &self.extractor {
            extractor.decoder.finish(&mut rest);
        }
        if rest.is_empty() {
            return self.report();
        }
        let mut ended = self.clone();
        ended.push_text(&rest);
        ended.report()
    }

    fn report(&self) -> Analysis {
        let Self { facts, failures, forms, .. } = self;
        let encoding = if self.is_binary { Encoding::Binary } else { facts.encoding() };
        let lines = facts.lines.count();
        let (json, trouble) = facts.json.finish(facts.read, lines);
        let is_text = encoding != Encoding::Binary;
        Analysis {
            bytes: self.seen,
            chars: facts.text.chars.count(),
            lines,
            longest_line: facts.lines.longest(),
            encoding,
            tokens: facts.tokens.count(),
            mime: facts.magic.mime(encoding, &json).to_owned(),
            loose: if json == Json::No { LooseJson::default() } else { facts.json.loose() },
            json,
            trouble,
            errors: if is_text { failures.finish() } else { Errors::default() },
            digest: self.digest.finalize().to_hex().to_string(),
            repeated: if is_text { forms.repeated.finish(lines) } else { Vec::new() },
            unlike: if is_text { forms.unlike() } else { Vec::new() },
            statuses: if is_text { forms.sections.statuses(lines) } else { Vec::new() },
            sections: if is_text { forms.sections.finish(lines) } else { Sections::default() },
            plain: self.extractor.as_ref().map(|extractor| extractor.length()),
            reading: self.extractor.as_ref().map(|it| it.reading()).unwrap_or_default(),
            charset: self.charset(),
            overdrawn: self.extractor.as_ref().map_or(0, |it| it.overdrawn()),
            shortcuts: None,
            version: Analysis::VERSION,
        }
    }

    // Returns the name of the character set of the bytes, unless that is plain UTF-8.
    fn charset(&self) -> Option<String> {
        let reading = self.extractor.as_ref().map(|it| it.reading()).unwrap_or_default();
        let decoded = reading.charset.name();
        let named = decoded.or_else(|| self.facts.charset()).filter(|_| !self.is_binary);
        named.map(str::to_owned)
    }

    fn push_block(&mut self, block: &[u8]) {
        self.digest.update(block);
        self.seen += block.len() as u64;
        let Some(start) = &mut self.start else { return self.push_raw(block) };
        let (head, rest) = block.split_at(block.len().min(SNIFFED - start.len()));
        start.extend_from_slice(head);
        if start.len() == SNIFFED {
            self.decide();
            self.push_raw(rest);
        }
    }

    // Decides by the first bytes how the stream is read, and analyses them.
    fn decide(&mut self) {
        let Some(start) = self.start.take() else { return };
        match reading(&start, self.is_of_log) {
            None => self.is_binary = true,
            Some(reading) if reading.is_plain() => {}
            Some(reading) => self.extractor = Some(Box::new(TextExtractor::new(reading))),
        }
        self.push_raw(&start);
    }

    fn push_raw(&mut self, block: &[u8]) {
        let Some(extractor) = &mut self.extractor else { return self.push_text(block) };
        let mut text = Vec::with_capacity(block.len());
        extractor.push(block, &mut text);
        self.push_text(&text);
    }

    // Each analyser reads the block while the block is in the processor cache.
    fn push_text(&mut self, bytes: &[u8]) {
        let block = ByteBlock::new(bytes, &mut self.newlines);
        self.facts.push(block);
        self.failures.push(block);
        self.forms.push(block);
        self.newlines.clear();
    }

    /// Takes the next bytes as [`push`](Self::push) does, but on several threads. This is faster if
    /// `bytes` has at least a megabyte.
    pub fn push_side_by_side(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while self.start.is_some() && !rest.is_empty() {
            let (block, after) = rest.split_at(rest.len().min(PUSHED_BYTES));
            self.push_block(block);
            rest = after;
        }
        self.seen += rest.len() as u64;
        let mut shown = Vec::new();
        let text = match &mut self.extractor {
            None => rest,
            Some(extractor) => {
                rest.chunks(PUSHED_BYTES).for_each(|block| extractor.push(block, &mut shown));
                &shown
            }
        };
        let Self { digest, facts, failures, forms, .. } = self;
        let mut pieces: Vec<ScannedPiece<'_>> =
            text.chunks(SCANNED_BYTES).map(ScannedPiece::new).collect();
        let scanners = Mutex::new(Vec::new());
        let scans = pieces.iter_mut().map(|piece| Box::new(|| piece.scan(&scanners)) as Task<'_>);
        let others: [Task<'_>; 3] = [
            Box::new(|| each_block(text, |block| facts.push(block))),
            Box::new(|| each_block(text, |block| forms.push(block))),
            Box::new(|| rest.chunks(PUSHED_BYTES).for_each(|block| _ = digest.update(block))),
        ];
        parallel::run(others.into_iter().chain(scans).collect());
        for piece in &pieces {
            failures.push_scanned(piece.block(), &piece.errors);
        }
    }
}

fn each_block(bytes: &[u8], mut push: impl FnMut(ByteBlock<'_>)) {
    let mut newlines = Vec::new();
    bytes.chunks(PUSHED_BYTES).for_each(|bytes| push(ByteBlock::new(bytes, &mut newlines)));
}

impl Default for Analyzer {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Analyzer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Analyzer").field("seen", &self.seen).finish_non_exhaustive()
    }
}

/// Analyses the whole of `content`.
pub fn analyze(content: &dyn Content) -> io::Result<Analysis> {
    analyze_by(Analyzer::new(), content)
}

/// Analyses the whole of `content` as the log of a terminal, whatever its first bytes are.
pub fn analyze_log(content: &dyn Content) -> io::Result<Analysis> {
    analyze_by(Analyzer::of_log(), content)
}

fn analyze_by(mut analyzer: Analyzer, content: &dyn Content) -> io::Result<Analysis> {
    let length = usize::try_from(content.len()).unwrap_or(usize::MAX);
    let mut block = vec![0; length.min(BLOCK_BYTES)];
    loop {
        let got = content.read_at(analyzer.seen(), &mut block)?;
        if got == 0 {
            return Ok(analyzer.finish());
        }
        analyzer.push(&block[..got]);
    }
}

/// Returns an estimate of the number of tokens in a text.
pub fn token_count(text: &[u8]) -> u64 {
    let mut tokens = tokens::TokenCounter::default();
    tokens.push(text);
    tokens.count()
}

/// Returns true if content that begins with `bytes` is binary; see [`reading`].
pub fn is_binary(bytes: &[u8]) -> bool {
    reading(bytes, false).is_none()
}

// The analysers that examine the text as a whole.
#[derive(Clone, Default)]
struct TextFacts {
    // Number of bytes analysed so far. For terminal output, these are the bytes of the text without
    // escape sequences.
    read: u64,
    text: EncodingDetector,
    lines: LineCounter,
    magic: Magic,
    tokens: TokenCounter,
    json: JsonDetector,
}

impl TextFacts {
    fn push(&mut self, block: ByteBlock<'_>) {
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

    // Returns the name of the character set of text that is not decoded.
    fn charset(&self) -> Option<&'static str> {
        match self.encoding() {
            Encoding::Broken => self.text.code_page(),
            _ => self.magic.charset(),
        }
    }

    fn encoding(&self) -> Encoding {
        if self.text.is_broken() {
            Encoding::Broken
        } else if self.text.is_ascii() {
            Encoding::Ascii
        } else {
            Encoding::Utf8
        }
    }
}

// The analysers that compare the forms of lines.
#[derive(Clone)]
struct LineForms {
    repeated: RepeatedLines,
    prose: ProseFinder,
    sections: SectionDetector,
}

impl LineForms {
    fn push(&mut self, block: ByteBlock<'_>) {
        self.repeated.push(block.bytes);
        self.prose.push(block.bytes);
        self.sections.push(block);
    }

    fn unlike(&self) -> Vec<Unlike> {
        let prose = self.prose.finish();
        if prose.is_empty() { self.repeated.unlike() } else { prose }
    }
}

impl Default for LineForms {
    fn default() -> Self {
        let (repeated, sections) = (RepeatedLines::new(), SectionDetector::new());
        Self { repeated, prose: ProseFinder::default(), sections }
    }
}

struct ScannedPiece<'t> {
    text: &'t [u8],
    newlines: Vec<u32>,
    errors: Vec<FoundError>,
}

impl<'t> ScannedPiece<'t> {
    fn new(text: &'t [u8]) -> Self {
        Self { text, newlines: Vec::new(), errors: Vec::new() }
    }

    fn scan(&mut self, scanners: &Mutex<Vec<ErrorScanner>>) {
        let mut scanner = scanners.lock().pop().unwrap_or_default();
        scanner.scan(ByteBlock::new(self.text, &mut self.newlines), &mut self.errors);
        scanners.lock().push(scanner);
    }

    fn block(&self) -> ByteBlock<'_> {
        ByteBlock { bytes: self.text, newlines: &self.newlines }
    }
}

#[cfg(test)]
mod tests;
