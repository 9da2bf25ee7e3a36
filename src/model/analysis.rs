//! What one pass over an output finds.

use serde::Deserialize;
use serde::Serialize;

/// The facts about a stretch of bytes, as `materialize::Analyzer` finds them.
///
/// Everything here can be derived again from the bytes; it is kept in the manifest so that it need
/// not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Analysis {
    /// Bytes seen. All other fields speak of exactly these.
    pub bytes: u64,
    /// Unicode scalar values; each byte sequence that is not UTF-8 counts once, as
    /// `String::from_utf8_lossy` replaces it.
    pub chars: u64,
    /// Lines as a reader counts them: newlines, plus one where the last line has none.
    pub lines: u64,
    /// Characters of the longest line, its newline not counted.
    pub longest_line: u64,
    /// How the bytes can be read as text.
    pub encoding: Encoding,
    /// Estimated language-model tokens; see `materialize::tokens` for the method and its error.
    pub tokens: u64,
    /// Whether the bytes are JSON, and its shape.
    pub json: Json,
    /// The lines that look like errors.
    pub errors: Errors,
    /// BLAKE3 of the bytes, in lower-case hexadecimal.
    pub digest: String,
    /// MIME type by content, such as `text/plain`, `application/json` or `image/png`.
    pub mime: String,
    /// The lines that occur again and again, most frequent first: at most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeated: Vec<Repeated>,
    /// The parts that the output shows itself to have.
    #[serde(default, skip_serializing_if = "Sections::is_empty")]
    pub sections: Sections,
    /// Bytes of the text, of the log of a terminal: `bytes` and `digest` speak of what is stored,
    /// and everything else of the text, which has no escape sequences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plain: Option<u64>,
    /// [`Analysis::VERSION`] when this was found; 0 before there were versions.
    #[serde(default)]
    pub version: u32,
}

impl Analysis {
    /// Raised when an analysis finds something new or otherwise: what another version found is
    /// valid, but not what this one would find.
    pub const VERSION: u32 = 1;

    /// The same of the text alone, as views see it.
    #[must_use]
    pub fn of_text(&self) -> Self {
        Self { bytes: self.plain.unwrap_or(self.bytes), ..self.clone() }
    }

    /// Whether the text is less than what is stored.
    pub fn has_escapes(&self) -> bool {
        self.plain.is_some_and(|plain| plain != self.bytes)
    }

    /// Whether the bytes are not text: views name such an artifact and never print it.
    pub fn is_binary(&self) -> bool {
        self.encoding == Encoding::Binary
    }
}

/// How bytes can be read as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    /// Every byte is below 0x80. Also what an empty output is.
    Ascii,
    /// Valid UTF-8.
    Utf8,
    /// Text with some bytes that are not UTF-8; views show those as U+FFFD.
    Broken,
    /// Not text: it holds NUL bytes, or begins like a known binary format.
    Binary,
}

/// Whether bytes are JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Json {
    /// Nothing that looks like JSON.
    No,
    /// One JSON value, with white space around it at most.
    Document {
        /// The structure in one line, as `formats.md` shows it: `{total: int, items: [3 of {...}]}`.
        shape: String,
        /// A path to something in it, in jq's syntax: `.items[0]`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        example: Option<String>,
        /// Lines that it has when it is indented; 0 in records that did not count them.
        #[serde(default)]
        pretty_lines: u64,
    },
    /// Two or more JSON values, one a line.
    Lines {
        /// How many values.
        documents: u64,
        /// The structure of the values, merged.
        shape: String,
        /// Lines that they have when they are indented; 0 in records that did not count them.
        #[serde(default)]
        pretty_lines: u64,
    },
    /// Begins with `{` or `[`, and stops being JSON further on.
    Broken {
        /// Byte offset of the first byte that cannot be JSON; the length, where the end is missing.
        offset: u64,
        /// The line of that byte, from 1.
        line: u64,
    },
}

/// The lines of an output that look like errors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// How many lines look like errors, in the whole output.
    pub count: u64,
    /// The best of them, most telling first: at most 16.
    pub shown: Vec<ErrorLine>,
    /// The words to search for that occur in this output, as regular expressions, best first:
    /// `Error`, `Exception`, `panicked`. At most 6.
    pub words: Vec<String>,
}

/// Where one error line stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorLine {
    /// Line number, from 1.
    pub line: u64,
    /// Byte offset of the line's first byte.
    pub offset: u64,
    /// Bytes of the line without its newline, at most 4,096.
    pub length: u32,
}

/// Lines that are equal, or differ in numbers alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeated {
    /// How many.
    pub count: u64,
    /// Whether that is an estimate: of a large output not every line is looked at.
    pub about: bool,
    /// Whether all are equal, white space at their ends apart; else they differ in numbers.
    pub equal: bool,
    /// Line number of the first one seen, from 1.
    pub first: u64,
    /// Line number of the last one seen.
    pub last: u64,
    /// Byte offset of the text of the first.
    pub offset: u64,
    /// Bytes of that text, without white space at its ends; at most 1,024.
    pub length: u32,
}

/// Parts of an output that begin with a line that names them: the files of a diff, the modules of
/// a test run, the headings of a document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sections {
    /// How many there are.
    pub count: u64,
    /// The first 16, then the 16 largest of the others; each in the order of the output.
    pub shown: Vec<Section>,
}

impl Sections {
    /// Whether the output shows no parts.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// One part: it goes on to where the next one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// Its first line, from 1.
    pub line: u64,
    /// Its last line.
    pub last: u64,
    /// Byte offset of its name.
    pub offset: u64,
    /// Bytes of its name; at most 256.
    pub length: u32,
}
