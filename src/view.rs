//! The computed files beside an artifact.
//!
//! Each is a pure function of its [`Subject`]: bytes in, text out. [`split`] finds the view that a
//! name means, [`render`] writes its text.

mod binary;
mod clean;
mod cut;
mod envelope;
mod errors;
mod filter;
mod grep;
mod handle;
mod image;
mod jq;
mod kind;
mod lines;
mod members;
mod meta;
mod name;
mod number;
mod origin;
mod preview;
mod probe;
mod query;
mod range;
mod readme;
mod reference;
mod scan;
mod shape;
mod stand_in;
mod summary;
mod terms;
mod wrap;

use std::io;
use std::io::Write;

pub use filter::Filter;
pub use jq::MEMORY as FILTER_MEMORY;
pub use jq::run_filter;
pub use name::LISTED;
pub use name::split;
pub use query::Query;
pub use range::LineRange;
pub use readme::ignore;
pub use readme::readme;
pub use reference::context_ref;
pub use reference::manifest;
pub use stand_in::Audience;
pub use stand_in::Form;
pub use stand_in::StandIn;
pub use stand_in::stand_in;
pub use stand_in::stand_in_always;

use crate::model::Limits;
use crate::model::Subject;
use crate::redact::Shown;
use crate::redact::Tally;

/// One computed file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum View {
    /// `.summary`: what to hand the model in place of the artifact.
    Summary,
    /// `.tail`: the last lines.
    Tail,
    /// `.head`: the first lines.
    Head,
    /// `.lines/<range>`: some lines.
    Lines(LineRange),
    /// `.grep/<query>`: what ripgrep prints.
    Grep(Query),
    /// `.errors`: the lines that look like errors, with what stands around them.
    Errors,
    /// `.terms`: the words that tell something, with their counts.
    Terms,
    /// `.wrap`: all of it, long lines folded.
    Wrap,
    /// `.shape`: the structure of JSON.
    Shape,
    /// `.jq/<filter>`: what jq prints.
    Jq(Filter),
    /// `.meta.json`: all that is known.
    Meta,
    /// `.ref.json`: the `ContextRef`.
    Ref,
    /// `.envelope.json`: the common protocol of tool responses.
    Envelope,
    /// `.handle`: for a host with the `tool_output` tool.
    Handle,
    /// `.preview`: for the message log.
    Preview,
}

/// A directory of views that are named by what they are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ViewDir {
    /// `.grep/`: a search a name.
    Grep,
    /// `.lines/`: a range of lines a name.
    Lines,
    /// `.jq/`: a filter a name.
    Jq,
}

/// What a name beside an artifact means.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Derived {
    /// A view.
    File(View),
    /// A directory of views.
    Dir(ViewDir),
}

/// What there is to say of a view beside what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// Lines to put before all that was written, each beginning with `# `.
    pub notice: Option<String>,
    /// Whether the text would be the same with more time: if not, do not keep it.
    pub whole: bool,
}

impl Rendered {
    /// All of it, and nothing to add.
    fn plain() -> Self {
        Self { notice: None, whole: true }
    }

    /// All of it, with a notice.
    fn noted(notice: String) -> Self {
        Self { notice: Some(notice), whole: true }
    }

    /// The same, and before its notices what `shown` has counted.
    fn redacted(self, shown: &Tally) -> Self {
        match shown.notice() {
            Some(first) => Self { notice: Some(first + &self.notice.unwrap_or_default()), ..self },
            None => self,
        }
    }
}

/// Why a view has no text.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// A range that begins beyond the last line.
    #[error("the artifact has no such lines")]
    NotFound,
    /// Reading the artifact or writing the text failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Writes the text of `view` to `out`, the notice apart: it may be known only at the end.
///
/// `expired` is asked now and then; once it says yes, what was found so far is all. Memory is
/// bounded whatever the artifact; what goes to `out` is bounded but for a search with `-m0`, and an
/// envelope that asks to be left as it is.
///
/// Secrets that are masked in what is shown are counted, and the first line says so.
pub fn render(
    view: &View,
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    if subject.redacts.is_empty() || counts_itself(view) {
        return render_unmarked(view, subject, expired, out);
    }
    let mut shown = Shown::new(out, subject.redacts);
    let rendered = render_unmarked(view, subject, expired, &mut shown)?;
    Ok(rendered.redacted(&shown.tally()))
}

fn render_unmarked(
    view: &View,
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    if prints_content(view) && subject.analysis.is_binary() {
        return Ok(Rendered::noted(binary::notice(subject)));
    }
    match view {
        View::Summary => summary::render(subject, out),
        View::Tail => text_only(subject, out, |out| lines::last(subject, Limits::TAIL_LINES, out)),
        View::Head => text_only(subject, out, |out| lines::first(subject, Limits::TAIL_LINES, out)),
        View::Lines(range) => {
            text_only(subject, out, |out| lines::range(subject, *range, expired, out))
        }
        View::Grep(query) => grep::render(query, subject, expired, out),
        View::Errors => text_only(subject, out, |out| errors::render(subject, expired, out)),
        View::Terms => terms::render(subject, expired, out),
        View::Wrap => wrap::render(subject, expired, out),
        View::Shape => shape::render(subject, expired, out),
        View::Jq(filter) => jq::render(filter, subject, expired, out),
        View::Meta => meta::render(subject, out),
        View::Ref => reference::render(subject, out),
        View::Envelope => envelope::render(subject, expired, out),
        View::Handle => handle::render(subject, out),
        View::Preview => preview::render(subject, out),
    }
}

/// Lets lines out, unless a NUL byte in them shows that they are none.
///
/// The analysis may have seen less than what is shown; this needs nothing but what is shown.
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

/// Whether a view says in its own form what is redacted in it: its first line is not free.
fn counts_itself(view: &View) -> bool {
    matches!(
        view,
        View::Summary | View::Meta | View::Ref | View::Envelope | View::Handle | View::Preview
    )
}

/// Whether bytes of the artifact go out as they are.
fn prints_content(view: &View) -> bool {
    !matches!(
        view,
        View::Summary | View::Meta | View::Ref | View::Envelope | View::Handle | View::Preview
    )
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
