//! The result of rendering a view, besides its text.

use std::io;

use crate::number::portion;
use ctxfs_core::model::Place;
use ctxfs_core::redact::MaskCounts;

/// Returns the notice for a view that shows only its beginning while the rest is being computed.
pub fn beginning_notice() -> &'static str {
    "# out of time: the beginning follows, and the rest is being computed. Look again in a while\n"
}

/// Returns the lines of a notice, each after `# `. Returns `None` if there are no lines.
pub(super) fn notice(lines: impl IntoIterator<Item = String>) -> Option<String> {
    lines.into_iter().map(|line| format!("# {line}\n")).reduce(|all, line| all + &line)
}

/// The result of rendering a view, besides the text that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// Lines to put before the text. Each begins with `# `.
    pub notice: Option<String>,
    /// True if more time would not change the text. Only such a text may be cached.
    pub whole: bool,
}

impl Rendered {
    pub(super) fn plain() -> Self {
        Self { notice: None, whole: true }
    }

    /// Returns the result of a view that ran out of time while it was reading. Any part of its text
    /// may be missing, not only the end.
    pub fn out_of_time() -> Self {
        let notice = "# out of time: only what was found so far follows. Look again in a while\n";
        Self { notice: Some(notice.to_owned()), whole: false }
    }

    /// Returns the result of a view that ran out of time at `offset` of `length` bytes.
    pub(super) fn out_of_time_after(offset: u64, length: u64) -> Self {
        let notice = format!("# out of time after {}\n", portion(offset, length));
        Self { notice: Some(notice), whole: false }
    }

    /// Returns this result with a notice in front: the view shows only the beginning of the text at
    /// `place`, because the rest of the text was not available in time.
    #[must_use]
    pub fn of_beginning(self, place: &Place) -> Self {
        let notice = format!(
            "# out of time: what follows is of the beginning of {}. Look again, or, without a limit \
             of time: {}\n",
            place.file(),
            place.command(),
        );
        Self { notice: Some(notice + &self.notice.unwrap_or_default()), whole: false }
    }

    pub(super) fn noted(notice: String) -> Self {
        Self { notice: Some(notice), whole: true }
    }

    pub(super) fn redacted(self, shown: &MaskCounts) -> Self {
        match shown.notice() {
            Some(first) => Self { notice: Some(first + &self.notice.unwrap_or_default()), ..self },
            None => self,
        }
    }
}

/// The reason why a view has no text.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The range begins after the last line, or there is no page of this number.
    #[error("the artifact has no such lines or page")]
    NotFound,
    /// Reading the artifact or writing the text failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}
