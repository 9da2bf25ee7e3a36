//! The computed files beside an artifact.
//!
//! Each is a pure function of its [`Subject`]: bytes in, text out. [`readings`] finds the view that a
//! name means, [`render`] writes its text.

mod binary;
mod clean;
mod grep;
mod kind;
mod lines;
mod meta;
mod name;
mod number;
mod pages;
mod pretty;
mod probe;
mod query;
mod range;
mod readme;
mod reference;
mod scan;
mod summary;

use std::io;
use std::io::Write;

pub use name::LISTED;
pub use name::readings;
pub use pages::PageNumber;
pub use query::Query;
pub use range::LineRange;
pub use readme::ignore;
pub use readme::readme;
pub use reference::context_ref;
pub use reference::manifest;

use crate::model::Limits;
use crate::model::Place;
use crate::model::Subject;

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
    /// `.pretty`: JSON and JSON Lines, indented.
    Pretty,
    /// `.meta.json`: all that is known.
    Meta,
    /// `.ref.json`: the `ContextRef`.
    Ref,
}

/// A directory of views that are named by what they are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ViewDir {
    /// `.grep/`: a search a name.
    Grep,
    /// `.lines/`: a range of lines a name.
    Lines,
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
    /// Whether what it prints has views in turn.
    pub fn has_views(&self) -> bool {
        matches!(self, Self::Pretty)
    }
}

impl Derived {
    /// Whether there is such a thing of what a view prints.
    fn is_of_views(&self) -> bool {
        match self {
            Self::File(
                View::Tail | View::Head | View::Lines(_) | View::Page(_) | View::Grep(_),
            )
            | Self::Dir(ViewDir::Grep | ViewDir::Lines | ViewDir::Pages) => true,
            Self::File(View::Summary | View::Pretty | View::Meta | View::Ref) => false,
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
        let exists = base.has_views() && derived.is_of_views();
        exists.then_some(Self { base: Some(base), derived })
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
/// bounded whatever the artifact; what goes to `out` is bounded but for `.pretty` and for a search
/// with `-m0`.
pub fn render(
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
        View::Pretty => pretty::render(subject, expired, out),
        View::Meta => meta::render(subject, out),
        View::Ref => reference::render(subject, out),
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

/// Whether bytes of the artifact go out as they are.
fn prints_content(view: &View) -> bool {
    match view {
        View::Tail | View::Head | View::Lines(_) | View::Page(_) | View::Grep(_) | View::Pretty => {
            true
        }
        View::Summary | View::Meta | View::Ref => false,
    }
}

#[cfg(test)]
mod fixture;
