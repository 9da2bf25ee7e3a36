//! The error of what was read from a bucket and is not as ctxfs writes it.

use std::fmt;

/// Bytes of the bucket are not what they should be, or what was to be written there would not be.
///
/// Its texts quote nothing that was read. They say `it` of the object, whose key the reader knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The bytes are cut off, changed, or were never those of ctxfs.
    #[error("it is damaged or not of ctxfs: {what}; `ctxfs remote check` tells what is affected")]
    Damaged {
        /// What is wrong.
        what: String,
    },
    /// A later version of ctxfs wrote it.
    #[error("a newer ctxfs wrote it, with format {format} at least: use a later ctxfs")]
    Newer {
        /// The least format that it can have.
        format: u32,
    },
    /// Something is larger than ctxfs takes.
    #[error("it is refused: {what} has more than {most} bytes, the most that ctxfs takes")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// The most bytes that are allowed.
        most: u64,
    },
}

impl FormatError {
    pub(super) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged { what: what.into() }
    }

    /// Returns it with the place where the damage is.
    #[must_use]
    pub(super) fn within(self, place: impl fmt::Display) -> Self {
        match self {
            Self::Damaged { what } => Self::Damaged { what: format!("{place}: {what}") },
            other @ (Self::Newer { .. } | Self::TooLarge { .. }) => other,
        }
    }
}
