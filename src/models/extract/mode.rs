//! The ways to answer a question.

use std::fmt;
use std::str::FromStr;

/// A way to answer a question about a document.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// One of the others, by the size of the document and its lines.
    #[default]
    Auto,
    /// The model reads every chunk, and puts its findings together.
    FullChunked,
    /// The model searches, and reads what it found.
    ReadGrep,
    /// No model: the head, the tail and the errors.
    Truncate,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 4] = [Self::Auto, Self::FullChunked, Self::ReadGrep, Self::Truncate];

    /// Returns its name, as settings, arguments and answers have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::FullChunked => "full-chunked",
            Self::ReadGrep => "read-grep",
            Self::Truncate => "truncate",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(name: &str) -> Result<Self, UnknownMode> {
        let known = Self::ALL.into_iter().find(|mode| mode.name() == name);
        known.ok_or_else(|| UnknownMode(name.to_owned()))
    }
}

/// A name that no mode has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no mode `{0}`: use auto, full-chunked, read-grep or truncate")]
pub struct UnknownMode(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_has_a_name_of_its_own() {
        for mode in Mode::ALL {
            assert_eq!(mode.name().parse(), Ok(mode));
        }
        assert!("full".parse::<Mode>().is_err());
    }
}
