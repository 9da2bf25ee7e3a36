//! Settings that are not what an edit expects.

/// A place in a file that is not what it must be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct WrongShape(String);

impl WrongShape {
    /// Says of the entry at `path`, or of the whole file if that is empty, what is wrong with it.
    pub(super) fn new(path: &[&str], what: &str) -> Self {
        if path.is_empty() { Self(what.to_owned()) } else { Self(format!("{} {what}", at(path))) }
    }

    /// Says why the file cannot be parsed.
    pub(super) fn invalid(format: &str, error: &impl std::fmt::Display) -> Self {
        Self(format!("it is not valid {format}: {}", error.to_string().trim_end()))
    }
}

fn at(path: &[&str]) -> String {
    format!("`{}`", path.join("."))
}
