//! The facts that one pass over an output finds.

use serde::{Deserialize, Serialize};

/// The facts about some bytes, as `materialize::Analyzer` finds them.
///
/// All of it can be derived from the bytes again. The manifest keeps it to save that work. Lines
/// and columns count from 1, offsets from 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Analysis {
    /// Bytes seen. All other fields describe exactly these.
    pub bytes: u64,
    /// Unicode scalar values. Each sequence that is not UTF-8 counts as one, as in
    /// `String::from_utf8_lossy`.
    pub chars: u64,
    /// Number of newlines, plus one if the last line has none.
    pub lines: u64,
    /// Characters of the longest line, without its newline.
    pub longest_line: u64,
    /// The encoding of the bytes.
    pub encoding: Encoding,
    /// Estimated language-model tokens; see `materialize::tokens` for the method and its error.
    pub tokens: u64,
    /// The kind of JSON that the bytes are, and its shape.
    pub json: Json,
    /// The fields of JSON that tell of trouble, worst first; at most 3.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trouble: Vec<Trouble>,
    /// The lines that look like errors.
    pub errors: Errors,
    /// BLAKE3 of the bytes, in lower-case hexadecimal.
    pub digest: String,
    /// MIME type by content: `text/plain`, `application/json`, `image/png` and others.
    pub mime: String,
    /// The lines that are repeated often, most frequent first; at most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeated: Vec<Repeated>,
    /// The passages that are unlike the rest, in order; at most 12.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlike: Vec<Unlike>,
    /// The sections of the output.
    #[serde(default, skip_serializing_if = "Sections::is_empty")]
    pub sections: Sections,
    /// The statuses of the responses in an access log with their counts, in order; at most 24.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statuses: Vec<(u16, u64)>,
    /// Bytes of the text without escape sequences, if the output was made for a terminal. Then
    /// `bytes` and `digest` describe the stored bytes, and all other fields describe the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plain: Option<u64>,
    /// Facts that save reading all bytes. Records of larger outputs in a bucket have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortcuts: Option<Box<Shortcuts>>,
    /// The [`Analysis::VERSION`] that found this; 0 in records without a version.
    #[serde(default)]
    pub version: u32,
}

impl Analysis {
    /// The version of the analysis, raised whenever its result changes. The result of another
    /// version is valid, but may differ from the result of this one.
    pub const VERSION: u32 = 5;

    /// Returns the analysis of the text, which is the part that views show.
    #[must_use]
    pub fn of_text(&self) -> Self {
        Self { bytes: self.plain.unwrap_or(self.bytes), ..self.clone() }
    }

    /// Returns true if the text is shorter than the stored bytes.
    pub fn has_escapes(&self) -> bool {
        self.plain.is_some_and(|plain| plain != self.bytes)
    }

    /// Returns true if the bytes are not text. Views describe such an artifact but never print it.
    pub fn is_binary(&self) -> bool {
        self.encoding == Encoding::Binary
    }
}

/// The encoding of bytes as text. An empty output is ASCII.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    /// Every byte is below 0x80.
    Ascii,
    /// Valid UTF-8.
    Utf8,
    /// Text with some bytes that are not UTF-8. Views show these bytes as U+FFFD.
    Broken,
    /// Not text: it holds NUL bytes, or begins like a known binary format.
    Binary,
}

/// The kind of JSON of some bytes, with its structure in one line.
///
/// One value is a document, several values on lines of their own are JSON Lines. Bytes that begin
/// as JSON and do not continue as JSON are broken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Json {
    /// No JSON.
    No,
    /// A single JSON value, with optional white space around it.
    Document {
        /// The structure in one line, as `formats.md` shows it: `{total: int, items: [3 of
        /// {...}]}`.
        shape: String,
        /// A jq filter whose result shows something of the value: `.items[0]`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        example: Option<String>,
        /// Lines of the indented value; 0 in records that did not count them.
        #[serde(default)]
        pretty_lines: u64,
    },
    /// Two or more JSON values, one per line.
    Lines {
        /// The number of values.
        documents: u64,
        /// The merged structure of the values.
        shape: String,
        /// A jq filter whose results show something of the values: `select(.level=="error")|{msg}`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        example: Option<String>,
        /// Lines of the indented values; 0 in records that did not count them.
        #[serde(default)]
        pretty_lines: u64,
    },
    /// Begins as JSON, with `{` or `[`, but does not continue as JSON.
    Broken {
        /// Byte offset of the first byte that cannot be JSON; the length, if the end is missing.
        offset: u64,
        /// The line of that byte, from 1.
        line: u64,
    },
}

/// A field by which records in JSON tell of trouble, such as a severity, a status or a number of
/// errors.
///
/// `path` is the field in jq's syntax, `.items[].severity`, and `of` the number of its values; with
/// `least`, numbers are lower bounds. `counts` has at most 8 known words with their counts, worst
/// first. `records` are at most 16 records with an error, the first of each kind, most telling
/// first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct Trouble {
    pub path: String,
    pub of: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub least: bool,
    pub counts: Vec<(String, u64)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<TroubleRecord>,
}

/// A record in JSON, an item of an array or an object, that stands for `times` records of its kind.
/// `line` and `offset` locate its first byte, and `outer` the object that has it among its items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct TroubleRecord {
    pub line: u64,
    pub offset: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outer: Option<u64>,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub times: u64,
}

/// The lines of an output that look like errors: their number, and at most 48 of them, best first.
/// Lines that differ only in numbers have one entry.
///
/// `words` are at most 6 search terms that occur in this output, such as `Error`, `Exception` and
/// `panicked`, as regular expressions, best first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct Errors {
    pub count: u64,
    pub shown: Vec<ErrorLine>,
    pub words: Vec<String>,
}

/// A line that looks like an error. It stands for `times` lines that differ only in numbers, itself
/// included; `last` is the last of the others.
///
/// The line begins at `offset`; `length` is its length without the newline, at most 4,096 bytes. It
/// is judged by itself alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct ErrorLine {
    pub line: u64,
    pub offset: u64,
    pub length: u32,
    #[serde(default)]
    pub rank: ErrorRank,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub times: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LinePosition>,
}

/// The beginning of a line, by number and by offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct LinePosition {
    pub line: u64,
    pub offset: u64,
}

/// The rank of an error line, judged by the line alone; most telling first.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorRank {
    /// The reason for a failure: an innermost cause, a failed assertion, a panic.
    Cause,
    /// An error that a tool marks as one, at a place where only errors are marked: a compiler's
    /// error, a fatal message.
    Error,
    /// The exit of a program.
    Exit,
    /// An entry of a log whose level or status says error.
    Logged,
    /// A message about something that went wrong on the way.
    #[default]
    Report,
    /// Names and counts of failures, headings, progress.
    Tally,
    /// An exception that is explained by another one.
    Outer,
}

impl ErrorRank {
    /// The number of ranks.
    pub const COUNT: usize = 7;
}

fn one() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_one(times: &u64) -> bool {
    *times == 1
}

/// A group of `count` lines that are equal or differ only in numbers.
///
/// With `about`, the count is an estimate, as only samples of a large output are examined. With
/// `equal`, all lines are equal apart from white space at their ends. `first` and `last` are line
/// numbers. The text of the first line, without white space at its ends, is at `offset` and has
/// `length` bytes, at most 1,024.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct Repeated {
    pub count: u64,
    pub about: bool,
    pub equal: bool,
    pub first: u64,
    pub last: u64,
    pub offset: u64,
    pub length: u32,
}

/// A passage that is unlike the rest of an output: lines that fit no repeated shape, or prose among
/// data.
///
/// It spans the lines `line` to `last`; `column` is its byte column, from 1, if no view shows its
/// line whole. Its text, at most 400 bytes, is at `offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct Unlike {
    pub line: u64,
    pub last: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
    pub offset: u64,
    pub length: u32,
}

/// The parts of an output that each begin with a line that names them: the files of a diff, the
/// modules of a test run, the sections of a document.
///
/// `shown` are the first 16, then the 16 largest others, each in the order of the output.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct Sections {
    pub count: u64,
    pub shown: Vec<Section>,
}

impl Sections {
    /// Returns true if the output has no sections.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// A section of an output, from `line` to `last`. It ends where the next one begins. Its name, at
/// most 256 bytes, is at `offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct Section {
    pub line: u64,
    pub last: u64,
    pub offset: u64,
    pub length: u32,
}

/// Facts about some bytes that views would otherwise find by reading more than they show. A reader
/// that has only a part of the bytes makes the same stand-ins with them.
///
/// All of it can be derived from the bytes again, and so can every fact that is missing here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Shortcuts {
    /// The views that a summary tried before it named one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<TriedView>,
    /// The offset of the last line of the text, if that line is long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_line: Option<u64>,
    /// Beginnings of lines in a log with escape sequences, in order: the number of bytes before
    /// them in the log and in its text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<(u64, u64)>,
}

/// A view that a summary tried, such as `.grep/timeout`, and whether it leads to `line` in few
/// bytes: `lines` is its length in lines if it is short, and `shows` is true if it shows the line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct TriedView {
    pub view: String,
    pub line: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    #[serde(default)]
    pub shows: bool,
}

impl Shortcuts {
    /// Returns the result for a view that should show `line`, if it was tried.
    pub fn tried(&self, view: &str, line: u64) -> Option<&TriedView> {
        self.tried.iter().find(|tried| tried.line == line && tried.view == view)
    }
}
