//! The computed files beside an artifact.
//!
//! Each is a pure function of its [`Subject`](ctxfs_core::model::Subject): bytes in, text out.
//! [`readings`] finds the view that a name means, [`render`] writes its text.

mod argument;
mod binary;
mod catalog;
mod clean;
mod closed;
mod corpus_query;
mod cut;
mod envelope;
mod errors;
mod filter;
mod find;
mod grep;
mod handle;
mod image;
mod jq;
mod json_tree;
mod kind;
mod lines;
mod members;
mod meta;
mod name;
mod number;
mod origin;
mod pages;
mod position;
mod pretty;
mod preview;
mod probe;
mod query;
mod range;
mod readme;
mod reads;
mod reference;
mod removed;
mod scan;
mod shape;
mod shortcuts;
mod stand_in;
mod summary;
mod terms;
mod title;
mod view_type;
mod wrap;

use std::io;
use std::io::Write;

pub use catalog::{Derived, View, ViewDir, listed};
pub use clean::line as cleaned;
pub use closed::ClosedToReader;
pub use corpus_query::CorpusQuery;
pub use filter::Filter;
pub use find::Words;
pub use grep::{Corpus, Directory, Loaded};
pub use jq::{MEMORY as FILTER_MEMORY, run_filter};
pub use json_tree::{
    JSON_WINDOW, JsonMember, JsonMembers, JsonNode, JsonStep, JsonType, json_members,
};
pub use name::{Reading, readings};
pub use pages::PageNumber;
pub use query::Query;
pub use range::LineRange;
pub use readme::{ignore, readme};
pub use reads::StandInReads;
pub use reference::{context_ref, manifest, ref_to_closed, ref_to_unread};
pub use removed::{away, removed};
pub use shortcuts::shortcuts;
pub use stand_in::{Audience, Form, StandIn, is_stand_in, stand_in, stand_in_always};
pub use title::Title;
pub use view_type::RenderCost;

use ctxfs_core::model::{Place, Subject};
use ctxfs_core::redact::{MaskCounter, MaskCounts};
use view_type::Shows;

/// Returns the first line of the beginning of a view whose rest is still being computed.
pub fn beginning_notice() -> &'static str {
    "# out of time: the beginning follows, and the rest is being computed. Look again in a while\n"
}

/// The result of rendering a view, besides the text that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// Lines to put before the text, each of which begins with `# `.
    pub notice: Option<String>,
    /// True if more time would not change the text. Only a whole text may be cached.
    pub whole: bool,
}

impl Rendered {
    /// Returns the result of a complete text without a notice.
    fn plain() -> Self {
        Self { notice: None, whole: true }
    }

    /// Returns the result of a view whose time was up while it read. More than the end of its text
    /// may be missing.
    pub fn out_of_time() -> Self {
        let notice = "# out of time: only what was found so far follows. Look again in a while\n";
        Self { notice: Some(notice.to_owned()), whole: false }
    }

    /// Returns the result of a view of a text at `place` if time sufficed only for the beginning of
    /// that text.
    #[must_use]
    pub fn of_beginning(self, place: &Place) -> Self {
        let notice = format!(
            "# out of time: what follows is of the beginning of {}. Look again, or, without a limit \
             of time: ctxfs view {}\n",
            place.file(),
            place.file(),
        );
        Self { notice: Some(notice + &self.notice.unwrap_or_default()), whole: false }
    }

    /// Returns the result of a complete text with a notice.
    fn noted(notice: String) -> Self {
        Self { notice: Some(notice), whole: true }
    }

    /// Puts the counts of masked secrets in `shown` before the notices.
    fn redacted(self, shown: &MaskCounts) -> Self {
        match shown.notice() {
            Some(first) => Self { notice: Some(first + &self.notice.unwrap_or_default()), ..self },
            None => self,
        }
    }
}

/// The reason why a view has no text.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The range begins beyond the last line, or the page is beyond the last one.
    #[error("the artifact has no such lines or page")]
    NotFound,
    /// Reading the artifact or writing the text failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Writes the text of `view` to `out`. Returns its notice, which may be known only at the end.
///
/// Calls `expired` from time to time; once it returns true, the text so far is the result. Memory
/// is bounded for any artifact. The length of the text is bounded, except for `.pretty`, `.wrap`, a
/// search or filter with `-m0`, and an envelope that asks to be left as it is.
///
/// Counts the masked secrets in the text; the first line of the notice tells the numbers.
pub fn render(
    view: &View,
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    if subject.redacts.is_none() || view.view_type().counts_masks {
        return render_unmarked(view, subject, expired, out);
    }
    let mut shown = MaskCounter::new(out, subject.mask_names());
    let rendered = render_unmarked(view, subject, expired, &mut shown)?;
    Ok(rendered.redacted(&shown.counts()))
}

fn render_unmarked(
    view: &View,
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    match view.view_type().shows {
        Shows::Lines | Shows::Text if subject.analysis.is_binary() => {
            Ok(Rendered::noted(binary::notice(subject)))
        }
        Shows::Lines => text_only(subject, out, |out| view.write(subject, expired, out)),
        Shows::Facts | Shows::Text => view.write(subject, expired, out),
    }
}

/// Writes lines unless they have a NUL byte, which text does not. The analysis may have seen less
/// than these lines, so they are searched again.
fn text_only(
    subject: &Subject<'_>,
    out: &mut dyn Write,
    lines: impl FnOnce(&mut dyn Write) -> Result<Rendered, RenderError>,
) -> Result<Rendered, RenderError> {
    let mut text = Vec::new();
    let rendered = lines(&mut text)?;
    if memchr::memchr(0, &text).is_some() {
        return Ok(Rendered::noted(binary::notice(subject)));
    }
    out.write_all(&text)?;
    Ok(rendered)
}

#[cfg(any(test, feature = "testing"))]
pub mod fixture;
#[cfg(test)]
mod tests;
