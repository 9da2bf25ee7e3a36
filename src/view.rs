//! The computed files beside an artifact.
//!
//! Each is a pure function of its [`Subject`]: bytes in, text out. [`readings`] finds the view that a
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
mod pages;
mod pretty;
mod preview;
mod probe;
mod query;
mod range;
mod readme;
mod reference;
mod removed;
mod scan;
mod shape;
mod stand_in;
mod summary;
mod terms;
mod wrap;

use std::io;
use std::io::Write;

pub use clean::line as cleaned;
pub use filter::Filter;
pub use grep::Corpus;
pub use grep::Directory;
pub use grep::Loaded;
pub use grep::render_many;
pub use jq::MEMORY as FILTER_MEMORY;
pub use jq::run_filter;
pub use name::LISTED;
pub use name::readings;
pub use pages::PageNumber;
pub use query::Query;
pub use range::LineRange;
pub use readme::ignore;
pub use readme::readme;
pub use reference::context_ref;
pub use reference::manifest;
pub use removed::removed;
pub use stand_in::Audience;
pub use stand_in::Form;
pub use stand_in::StandIn;
pub use stand_in::stand_in;
pub use stand_in::stand_in_always;

use crate::model::Limits;
use crate::model::Place;
use crate::model::Subject;
use crate::redact::MaskCounter;
use crate::redact::MaskCounts;

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
    /// `.pages/<number>`: a part that a reader with a size gate can fetch.
    Page(PageNumber),
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
    /// `.pretty`: JSON and JSON Lines, indented.
    Pretty,
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
    /// `.pages/`: a part a name; it lists them.
    Pages,
}

/// What a name beside an artifact means.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Derived {
    /// A view.
    File(View),
    /// A directory of views.
    Dir(ViewDir),
}

/// What a name beside an artifact means: something derived from the artifact, or from what one of
/// its views prints.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reading {
    /// The view whose text is looked at; none, where that is the artifact itself.
    pub base: Option<View>,
    /// What is derived from it.
    pub derived: Derived,
}

impl View {
    /// What sort of view it is, in a word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Summary => "summary",
            Self::Tail => "tail",
            Self::Head => "head",
            Self::Lines(_) => "lines",
            Self::Page(_) => "pages",
            Self::Grep(_) => "grep",
            Self::Errors => "errors",
            Self::Terms => "terms",
            Self::Wrap => "wrap",
            Self::Shape => "shape",
            Self::Jq(_) => "jq",
            Self::Pretty => "pretty",
            Self::Meta => "meta",
            Self::Ref => "ref",
            Self::Envelope => "envelope",
            Self::Handle => "handle",
            Self::Preview => "preview",
        }
    }

    /// Whether what it prints has views in turn.
    pub fn has_views(&self) -> bool {
        matches!(self, Self::Pretty | Self::Wrap | Self::Jq(_))
    }

    /// Whether its beginning may be shown while the rest is computed: no filter that never ends may
    /// go on for ever.
    pub fn goes_on(&self) -> bool {
        matches!(self, Self::Pretty | Self::Wrap)
    }

    /// The same as others look into it: nothing is left out for its length.
    fn uncut(self) -> Self {
        match self {
            Self::Jq(filter) if filter.is_cut() => Self::Jq(filter.at_most(0)),
            other => other,
        }
    }
}

impl Derived {
    /// Whether there is such a thing of what a view prints.
    fn is_of_views(&self) -> bool {
        match self {
            Self::File(
                View::Tail
                | View::Head
                | View::Lines(_)
                | View::Page(_)
                | View::Grep(_)
                | View::Wrap,
            )
            | Self::Dir(ViewDir::Grep | ViewDir::Lines | ViewDir::Pages) => true,
            Self::File(
                View::Summary
                | View::Errors
                | View::Terms
                | View::Pretty
                | View::Shape
                | View::Jq(_)
                | View::Meta
                | View::Ref
                | View::Envelope
                | View::Handle
                | View::Preview,
            )
            | Self::Dir(ViewDir::Jq) => false,
        }
    }
}

impl Reading {
    /// The same of what `base` prints, where that is given; none, where there is no such thing.
    pub fn below(self, base: Option<&View>) -> Option<Self> {
        match (&self.base, base) {
            (_, None) => Some(self),
            (None, Some(base)) => Self::of_view(base.clone(), self.derived),
            (Some(_), Some(_)) => None,
        }
    }

    /// Derived from the artifact itself.
    fn of_artifact(derived: Derived) -> Self {
        Self { base: None, derived }
    }

    /// Derived from what `base` prints; none, where there is no such thing.
    fn of_view(base: View, derived: Derived) -> Option<Self> {
        let exists =
            base.has_views() && derived.is_of_views() && derived != Derived::File(base.clone());
        exists.then(|| Self { base: Some(base.uncut()), derived })
    }
}

/// The first line of the beginning of a view whose rest is still being computed.
pub fn goes_on() -> &'static str {
    "# out of time: the beginning follows, and the rest is being computed. Look again in a while\n"
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

    /// The same of a text, at `place`, of which there was time to write the beginning only.
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

    /// All of it, with a notice.
    fn noted(notice: String) -> Self {
        Self { notice: Some(notice), whole: true }
    }

    /// The same, and before its notices what `shown` has counted.
    fn redacted(self, shown: &MaskCounts) -> Self {
        match shown.notice() {
            Some(first) => Self { notice: Some(first + &self.notice.unwrap_or_default()), ..self },
            None => self,
        }
    }
}

/// Why a view has no text.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// A range that begins beyond the last line, or a page beyond the last one.
    #[error("the artifact has no such lines or page")]
    NotFound,
    /// Reading the artifact or writing the text failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Writes the text of `view` to `out`, the notice apart: it may be known only at the end.
///
/// `expired` is asked now and then; once it says yes, what was found so far is all. Memory is
/// bounded whatever the artifact; what goes to `out` is bounded but for `.pretty`, `.wrap`, a search
/// or filter with `-m0`, and an envelope that asks to be left as it is.
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
    let mut shown = MaskCounter::new(out, subject.redacts);
    let rendered = render_unmarked(view, subject, expired, &mut shown)?;
    Ok(rendered.redacted(&shown.counts()))
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
        View::Page(page) => text_only(subject, out, |out| pages::render(subject, *page, out)),
        View::Grep(query) => grep::render(query, subject, expired, out),
        View::Errors => text_only(subject, out, |out| errors::render(subject, expired, out)),
        View::Terms => terms::render(subject, expired, out),
        View::Wrap => wrap::render(subject, expired, out),
        View::Shape => shape::render(subject, expired, out),
        View::Jq(filter) => jq::render(filter, subject, expired, out),
        View::Pretty => pretty::render(subject, expired, out),
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
        View::Summary
            | View::Pretty
            | View::Meta
            | View::Ref
            | View::Envelope
            | View::Handle
            | View::Preview
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
