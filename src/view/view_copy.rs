//! Recognition of files that are copies of views.

use std::ffi::OsStr;

use memchr::memmem;

use crate::View;
use crate::stand_in::of_summary;
use ctxfs_core::model::{Component, Limits};

/// A file beside an artifact, with the name of one of its views and, like a view, without write
/// permission.
///
/// - `text`: the bytes of the file
/// - `of`: the name of the artifact
/// - `end`: the end of the artifact, or all of it
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "described above")]
pub struct ViewCopy<'a> {
    pub text: &'a [u8],
    pub of: &'a OsStr,
    pub end: &'a [u8],
}

impl ViewCopy<'_> {
    /// Returns true if the file is a copy of `view`, which may be older than the artifact. Nothing
    /// is lost without it: a summary refers to the artifact, and all lines of a tail are in it.
    pub fn is_of(&self, view: &View) -> bool {
        match view {
            View::Summary => self.is_summary(),
            View::Tail => self.is_tail(),
            _ => false,
        }
    }

    fn is_summary(&self) -> bool {
        let (Ok(summary), Ok(of)) = (std::str::from_utf8(self.text), Component::new(self.of))
        else {
            return false;
        };
        let end = format!("/{of}");
        self.text.len() <= Limits::STAND_IN_BYTES
            && of_summary(summary).any(|reference| reference.ends_with(&end))
    }

    fn is_tail(&self) -> bool {
        let Self { text, end, .. } = *self;
        // A first line may say what is left out. The artifact may have grown since.
        let rest = match memchr::memchr(b'\n', text) {
            Some(at) if text.starts_with(b"# ") => &text[at + 1..],
            _ => text,
        };
        // Only the notice about binary content has no lines behind it.
        let has_lines = !rest.is_empty() || text.is_empty() || text.starts_with(b"# not text (");
        has_lines && memmem::find(end, rest).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_of(view: &View, text: &str, end: &str) -> bool {
        let (text, end) = (text.as_bytes(), end.as_bytes());
        ViewCopy { text, of: OsStr::new("x.txt"), end }.is_of(view)
    }

    #[test]
    fn a_summary_is_known_by_its_reference() {
        let summary = |name| {
            format!(
                "[ctxfs] The complete output is stored.\ncall: x    ref: ctx://c7/artifacts/tool/{name}\n"
            )
        };
        assert!(is_of(&View::Summary, &summary("x.txt"), "other bytes"));
        assert!(!is_of(&View::Summary, &summary("y.txt"), ""));
        assert!(!is_of(&View::Summary, "total: 90 %\n", "total: 90 %\n"));
    }

    #[test]
    fn a_tail_is_known_by_the_lines_of_its_artifact() {
        let line = |n: u32| format!("line {n}\n");
        let long: String = (0..300).map(line).collect();
        let tail = &long[long.find("line 100\n").unwrap()..];
        assert!(is_of(&View::Tail, tail, &long));
        assert!(is_of(&View::Tail, tail, &format!("{long}line 300\n")));
        assert!(is_of(&View::Tail, "# the last 2 lines\nline 1\n", &long));
        assert!(!is_of(&View::Tail, "what a user wrote\n", &long));
        assert!(!is_of(&View::Tail, "# what a user wrote\n", &long));
    }
}
