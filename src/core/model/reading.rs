//! The reading of the bytes of an output as text.

use serde::{Deserialize, Serialize};

/// A way to read stored bytes as text. The default is to take them as they are.
///
/// All views, searches and stand-ins show the text of one reading. It is decided by the first
/// bytes, so that it is known without reading all of an output.
///
/// - `charset`: the bytes are decoded from it
/// - `line_end`: the byte that ends lines; in the text, a newline stands for it
/// - `strips`: the output was made for a terminal, so escape sequences and overwritten progress are
///   left out
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct Reading {
    #[serde(skip_serializing_if = "is_default")]
    pub charset: Charset,
    #[serde(skip_serializing_if = "is_default")]
    pub line_end: LineEnd,
    #[serde(skip_serializing_if = "is_default")]
    pub strips: bool,
}

/// The character set of stored bytes. All but `Bytes` are decoded to UTF-8. `Bytes` is UTF-8 or any
/// other set whose newline is one byte; such bytes are not decoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Charset {
    #[default]
    Bytes,
    Utf16Le,
    Utf16Be,
    Utf32Le,
    Utf32Be,
}

/// The end of the lines of an output: a newline, a carriage return alone, or a NUL byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the contract of the type describes its variants")]
pub enum LineEnd {
    #[default]
    Newline,
    Return,
    Nul,
}

impl Reading {
    /// The reading of output that was made for a terminal.
    pub const TERMINAL: Self =
        Self { charset: Charset::Bytes, line_end: LineEnd::Newline, strips: true };

    /// Returns true if the bytes are taken as they are.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

impl Charset {
    /// Returns the number of bytes of a code unit.
    pub fn unit(self) -> usize {
        match self {
            Self::Bytes => 1,
            Self::Utf16Le | Self::Utf16Be => 2,
            Self::Utf32Le | Self::Utf32Be => 4,
        }
    }

    /// Returns the name, or `None` for bytes that are not decoded.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Bytes => return None,
            Self::Utf16Le => "UTF-16LE",
            Self::Utf16Be => "UTF-16BE",
            Self::Utf32Le => "UTF-32LE",
            Self::Utf32Be => "UTF-32BE",
        })
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
