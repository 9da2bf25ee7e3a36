//! The analysis of an output in one pass over its bytes.
//!
//! [`Analyzer`] passes a stream to small state machines, one per file of this module. Each takes
//! bytes with `push` and can report its findings at any time. The result never depends on where the
//! stream was split into pieces. Each machine keeps at most as much as its named constants allow,
//! so an analyzer uses less than [`MEMORY_BYTES`] for any input.
//!
//! | module | finds |
//! |---|---|
//! | `text` | characters, invalid UTF-8, NUL bytes, lines and the longest line |
//! | `magic` | known binary formats, MIME type |
//! | [`tokens`] | an estimate of language-model tokens |
//! | [`json`] | JSON, JSON Lines, and their shape |
//! | `failure` | the lines that look like errors, most informative first |
//! | `repeated` | lines that are repeated often, and lines unlike any other |
//! | `prose` | passages of prose in an output that has little prose |
//! | `sections` | the sections of the output |
//! | `terminal` | output for a terminal, and progress that overwrites itself |
//! | `plain`, `plain_text` | the text of a terminal log, as input of the other modules |
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
pub use crate::materialize::plain::{strip_escapes, text_ranges};
pub use crate::materialize::plain_text::{Checkpoints, PlainText};
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

/// [`is_binary`] and [`is_for_terminal`] examine only this many bytes at the start of content.
pub const SNIFFED: usize = 64 << 10;

/// Analyses one stream.
///
/// Creating an analyzer is cheap. A clone continues independently of the original.
#[derive(Clone)]
pub struct Analyzer {
    seen: u64,
    digest: blake3::Hasher,
    is_of_log: bool,
    // The first bytes, until it is decided whether the stream was made for a terminal.
    start: Option<Vec<u8>>,
    // Present if the stream was made for a terminal.
    extractor: Option<Box<TextExtractor>>,
    facts: TextFacts,
    failures: FailureDetector,
    forms: LineForms,
    newlines: Vec<u32>,
}

impl Analyzer {
    /// Returns an analyzer for output that is not known to be a terminal log. If the first
    /// [`SNIFFED`] bytes show that the output was made for a terminal, it is analysed as a terminal
    /// log.
    pub fn new() -> Self {
        Self {
            seen: 0,
            digest: blake3::Hasher::new(),
            is_of_log: false,
            start: Some(Vec::new()),
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
        Self { is_of_log: true, start: None, extractor: Some(Box::default()), ..Self::new() }
    }

    /// Returns true if this analyzer was created by [`of_log`](Self::of_log).
    pub fn is_of_log(&self) -> bool {
        self.is_of_log
    }

    /// Returns the checkpoints of the log that was pushed so far. There are none for output that
    /// was not made for a terminal.
    pub fn checkpoints(&self) -> Checkpoints {
        self.extractor.as_ref().map(|extractor| extractor.checkpoints()).unwrap_or_default()
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
        match self.extractor.as_ref().map(|extractor| extractor.stripper.tail()) {
            Some(tail) if !tail.is_empty() => {
                let mut ended = self.clone();
                ended.push_text(&tail);
                ended.report()
            }
            _ => self.report(),
        }
    }

    fn report(&self) -> Analysis {
        let Self { facts, failures, forms, .. } = self;
        let encoding = facts.encoding();
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
            shortcuts: None,
            version: Analysis::VERSION,
        }
    }

    fn push_block(&mut self, block: &[u8]) {
        self.digest.update(block);
        self.seen += block.len() as u64;
        if self.start.is_some() {
            self.look_for_terminal(block);
        }
        self.push_raw(block);
    }

    /// Appends `block`, which is not analysed yet, to the recorded first bytes of the stream. If
    /// these first bytes show that the stream was made for a terminal, analyses the bytes before
    /// `block` again, as a terminal log.
    fn look_for_terminal(&mut self, block: &[u8]) {
        let Some(mut start) = self.start.take() else { return };
        let before = start.len();
        start.extend_from_slice(&block[..block.len().min(SNIFFED - before)]);
        if is_for_terminal(&start) {
            let (seen, digest) = (self.seen, self.digest.clone());
            let extractor = Some(Box::default());
            *self = Self { seen, digest, start: None, extractor, ..Self::new() };
            self.push_raw(&start[..before]);
        } else if start.len() < SNIFFED {
            self.start = Some(start);
        }
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

/// Returns true if content that begins with `bytes` was made for a terminal. This is the case if
/// the first [`SNIFFED`] bytes contain escape sequences, or progress that overwrites itself.
/// [`Analyzer`] uses the same rule.
pub fn is_for_terminal(bytes: &[u8]) -> bool {
    terminal::is_for_terminal(&bytes[..bytes.len().min(SNIFFED)])
}

/// Returns true if content that begins with `bytes` is binary. Examines only the first [`SNIFFED`]
/// bytes. For these bytes, the result agrees with [`analyze`], at a fraction of the cost.
pub fn is_binary(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(SNIFFED)];
    memchr::memchr(0, start).is_some() || magic::begins_binary(start)
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

    fn encoding(&self) -> Encoding {
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
