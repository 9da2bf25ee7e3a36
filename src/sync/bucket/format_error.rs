
use std::fmt;

///+ Bytes in the bucket are not in the format of ctxfs, or bytes to be written would not be.
///+
///+ The texts quote nothing of these bytes, and call the object `it`: the caller adds its key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    ///+ The bytes are truncated, changed, or were never written by ctxfs.
    #[error("it is damaged or not of ctxfs: {what}; `ctxfs remote check` tells what is affected")]
    Damaged {
        what: String,
    },
    ///+ A later version of ctxfs wrote the bytes.
    #[error("a newer ctxfs wrote it, with format {format} at least: use a later ctxfs")]
    Newer {
        /// The least format that it can have.
        format: u32,
    },
    ///+ A size is over the limit of ctxfs.
    #[error("it is refused: {what} has more than {most} bytes, the most that ctxfs takes")]
    TooLarge {
        what: &'static str,
        most: u64,
    },
}

impl FormatError {
    pub(super) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged { what: what.into() }
    }

    #[must_use]
    pub(super) fn within(self, place: impl fmt::Display) -> Self {
        match self {
            Self::Damaged { what } => Self::Damaged { what: format!("{place}: {what}") },
            other @ (Self::Newer { .. } | Self::TooLarge { .. }) => other,
        }
    }
}
