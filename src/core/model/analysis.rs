//! The facts that one pass over an output finds, such as its size, shape and error lines.

use serde::{Deserialize, Serialize};

use crate::model::Reading;

/// The facts about the bytes of an output, as `materialize::Analyzer` finds them.
///
/// All of them can be computed again from the bytes. The manifest stores them to save that work.
/// Lines and columns count from 1, offsets from 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Analysis {
    /// Number of bytes that were analysed. All other fields describe exactly these bytes.
    pub bytes: u64,
    /// Number of Unicode scalar values. An invalid UTF-8 sequence counts as one, as in
    /// `String::from_utf8_lossy`.
    pub chars: u64,
    /// Number of newlines, plus one if the last line has none.
    pub lines: u64,
    /// Number of characters in the longest line, without its newline.
    pub longest_line: u64,
    /// The encoding of the bytes.
    pub encoding: Encoding,
    /// Estimated number of language-model tokens. `materialize::tokens` describes the method and
    /// its error.
    pub tokens: u64,
    /// The JSON structure of the bytes, if they are JSON.
    pub json: Json,
    /// Deviations of the JSON from RFC 8259.
    #[serde(default, skip_serializing_if = "LooseJson::is_empty")]
    pub loose: LooseJson,
    /// JSON fields that indicate errors, worst first; at most 3.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trouble: Vec<Trouble>,
    /// The lines that look like errors.
    pub errors: Errors,
    /// BLAKE3 digest of the bytes, in lower-case hexadecimal.
    pub digest: String,
    /// MIME type, detected from the content: `text/plain`, `application/json`, `image/png` and
    /// others.
    pub mime: String,
    /// Groups of repeated lines, most frequent first; at most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeated: Vec<Repeated>,
    /// The passages that differ from the rest of the output, in order; at most 12.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlike: Vec<Unlike>,
    /// The sections of the output.
    #[serde(default, skip_serializing_if = "Sections::is_empty")]
    pub sections: Sections,
    /// The HTTP statuses in an access log with their counts, in ascending order; at most 24.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statuses: Vec<(u16, u64)>,
    /// Number of bytes of the text, unless it is the bytes as they are. In that case, `bytes` and
    /// `digest` describe the stored bytes, and all other fields describe the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plain: Option<u64>,
    /// The reading of the bytes as text. [`Analysis::text_reading`] is right for older records, too.
    #[serde(default, skip_serializing_if = "Reading::is_plain")]
    pub reading: Reading,
    /// The name of the character set of the bytes, unless that is UTF-8 without a byte order mark.
    /// For bytes that are not decoded, it is the most likely one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charset: Option<String>,
    /// Number of frames of progress that were drawn over and are not in the text.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub overdrawn: u64,
    /// Facts that allow views to be made without reading all bytes. Only records of larger outputs
    /// in a bucket have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortcuts: Option<Box<Shortcuts>>,
    /// The [`Analysis::VERSION`] that produced this analysis; 0 in records without a version.
    #[serde(default)]
    pub version: u32,
}

impl Analysis {
    /// The version of the analysis, raised whenever its result changes. An analysis with a
    /// different version is valid, but may differ from what this version would find.
    pub const VERSION: u32 = 7;

    /// Returns the analysis with `bytes` set to the length of the text, because views show this
    /// text.
    #[must_use]
    pub fn of_text(&self) -> Self {
        Self { bytes: self.plain.unwrap_or(self.bytes), ..self.clone() }
    }

    /// Returns how the bytes are read as text.
    pub fn text_reading(&self) -> Reading {
        if self.plain.is_some() && self.reading.is_plain() {
            Reading::TERMINAL
        } else {
            self.reading
        }
    }

    /// Returns true if the text differs from the stored bytes.
    pub fn is_decoded(&self) -> bool {
        // Removing escape sequences makes a text shorter.
        let is_stripped = self.text_reading() == Reading::TERMINAL;
        self.plain.is_some_and(|plain| plain != self.bytes || !is_stripped)
    }

    /// Returns true if the bytes are not text. Views describe such an artifact but never print it.
    pub fn is_binary(&self) -> bool {
        self.encoding == Encoding::Binary
    }
}

/// The encoding of bytes as text. An empty output is ASCII.
///
/// - `Ascii`: every byte is below 0x80.
/// - `Utf8`: valid UTF-8.
/// - `Broken`: text with some bytes that are not UTF-8. Views show these bytes as U+FFFD.
/// - `Binary`: not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "described above")]
pub enum Encoding {
    Ascii,
    Utf8,
    Broken,
    Binary,
}

/// The JSON structure of bytes. `shape` is its text form, which is one line.
///
/// A single value is a document. Several values are JSON Lines, even if they are not on separate
/// lines. Bytes that begin like JSON but do not continue as JSON are broken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Json {
    /// Not JSON.
    No,
    /// A single JSON value, with optional white space around it.
    Document {
        /// The structure in one line, as `formats.md` shows it: `{total: int, items: [3 of
        /// {...}]}`.
        shape: String,
        /// An example of a jq filter with a non-empty result: `.items[0]`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        example: Option<String>,
        /// Number of lines of the indented value; 0 in records that did not count them.
        #[serde(default)]
        pretty_lines: u64,
    },
    /// Two or more JSON values. [`LooseJson::joined`] tells if they are not one per line.
    Lines {
        /// The number of values.
        documents: u64,
        /// The merged structure of the values.
        shape: String,
        /// An example of a jq filter with a non-empty result: `select(.level=="error")|{msg}`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        example: Option<String>,
        /// Number of lines of the indented values; 0 in records that did not count them.
        #[serde(default)]
        pretty_lines: u64,
    },
    /// Begins like JSON, with `{` or `[`, but does not continue as JSON.
    Broken {
        /// Byte offset of the first byte that cannot be JSON. If only the end is missing, this is
        /// the length.
        offset: u64,
        /// The line that contains this byte, counted from 1.
        line: u64,
    },
}

/// Deviations of JSON from RFC 8259: a byte order mark before it, the numbers `NaN` and
/// `Infinity`, comments, commas before a closing bracket, and values that follow each other in a line
/// or have several lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is found by itself")]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct LooseJson {
    pub mark: bool,
    pub numbers: bool,
    pub comments: bool,
    pub commas: bool,
    pub joined: bool,
}

impl LooseJson {
    /// Returns true if there is none of it.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Lists all deviations but `joined`: `with comments and trailing commas`. Returns `None` if there
    /// are none.
    pub fn words(self) -> Option<String> {
        let words = [
            (self.mark, "a byte order mark"),
            (self.numbers, "NaN or Infinity"),
            (self.comments, "comments"),
            (self.commas, "trailing commas"),
        ];
        let words: Vec<&str> =
            words.iter().filter(|(has, _)| *has).map(|(_, word)| *word).collect();
        let (last, before) = words.split_last()?;
        Some(if before.is_empty() {
            format!("with {last}")
        } else {
            format!("with {} and {last}", before.join(", "))
        })
    }

    /// Returns what either has.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            mark: self.mark || other.mark,
            numbers: self.numbers || other.numbers,
            comments: self.comments || other.comments,
            commas: self.commas || other.commas,
            joined: self.joined || other.joined,
        }
    }
}

/// A field of JSON records whose values indicate errors, such as a severity, a status or a number
/// of errors.
///
/// `path` is the field in jq's syntax, such as `.items[].severity`. `of` is the number of values of
/// the field. `least` is true if all numbers are lower bounds. `counts` has the number of
/// occurrences of at most 8 known words, worst word first. `records` has at most 16 records with an
/// error, most significant first. Each of them is the first record of its kind.
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

/// A JSON record (an array item or an object) that represents `times` similar records. `line` and
/// `offset` are the position of the first byte of the record. `outer` is the offset of the record
/// around this one, if that is an object.
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

/// The lines of an output that look like errors. `count` is the number of these lines. `shown` has
/// at most 48 of them, best first. Lines that differ only in numbers share one entry.
///
/// `words` are at most 6 search terms that occur in this output, such as `Error`, `Exception` and
/// `panicked`. Each term is a regular expression. The best term comes first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct Errors {
    pub count: u64,
    pub shown: Vec<ErrorLine>,
    pub words: Vec<String>,
}

/// A line that looks like an error. It represents all lines that differ from it only in numbers.
/// `times` is the number of all these lines, including this one. `last` is the position of the last
/// of them, or `None` if this line is the last.
///
/// The line begins at `offset`. `length` is its length without the newline, at most 4,096 bytes.
/// `rank` is judged from this line alone.
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

/// The beginning of a line: its line number and its byte offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct LinePosition {
    pub line: u64,
    pub offset: u64,
}

/// The rank of an error line, judged from the line alone. The most informative rank comes first.
///
/// - `Cause`: the reason for a failure, such as an innermost cause, a failed assertion or a panic.
/// - `Error`: an error that a tool marks as one, for example a compiler error or a fatal message.
/// - `Exit`: the exit of a program.
/// - `Logged`: a log entry whose level or status means an error.
/// - `Report`: a message about something that went wrong while a program ran.
/// - `Tally`: names and counts of failures, headings and progress messages.
/// - `Outer`: an exception that was caused by another exception.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "described above")]
pub enum ErrorRank {
    Cause,
    Error,
    Exit,
    Logged,
    #[default]
    Report,
    Tally,
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
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_one(times: &u64) -> bool {
    *times == 1
}

/// A group of `count` lines that are equal or differ only in numbers.
///
/// If `about` is true, the count is an estimate, because only samples of a large output are
/// examined. If `equal` is true, all lines are equal apart from leading and trailing white space.
/// `first` and `last` are line numbers. The text of the first line, without leading and trailing
/// white space, begins at `offset` and has `length` bytes, at most 1,024.
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

/// A passage that differs from the rest of an output: lines that fit no repeated shape, or prose
/// among data.
///
/// It spans the lines `line` to `last`. For prose, `column` is the byte column of its beginning,
/// from 1. The text of the passage begins at `offset` and has `length` bytes, at most 1,024.
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

/// The sections of an output, such as the files of a diff, the modules of a test run or the
/// sections of a document. A section begins with a line that names it.
///
/// `shown` has the first 16 sections, followed by the 16 largest of the rest. Both groups are in
/// the order of the output.
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

/// A section of an output, from `line` to `last`. The section ends where the next one begins.
/// `offset` and `length` are the position and length in bytes of its name. A name has at most 256
/// bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct Section {
    pub line: u64,
    pub last: u64,
    pub offset: u64,
    pub length: u32,
}

/// Facts about an output that save views from reading more than they show. With these facts, a
/// reader that has only a part of the bytes makes the same stand-ins as one that has all of them.
///
/// All of these facts can be computed again from the bytes, even if they are missing here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Shortcuts {
    /// The views that a summary tried before it recommended one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<TriedView>,
    /// The offset of the last line of the text, if the last line is long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_line: Option<u64>,
    /// Positions of line beginnings in a log with escape sequences, in order. Each is a pair: the
    /// offset in the log, and the offset in its text without escape sequences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<(u64, u64)>,
}

/// The result of trying a view, such as `.grep/timeout`. A summary tries views to find a short one
/// that leads a reader to `line`. `lines` is the number of lines that the view finds, or `None` if
/// they were not counted. `shows` is true if the view is short and shows the line.
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
