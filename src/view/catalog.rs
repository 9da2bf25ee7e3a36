//! The catalog of views. Each view has one row.
//!
//! A row holds everything about a view except its text. The rows generate `View`, `ViewDir`, names
//! and their parsing, listings, `.ignore`, the table of `README.md` and [`render`].

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, LazyLock};

use crate::number::counted;
use crate::query::SearchScope;
use crate::{
    Directory, EarlierName, Filter, LineRange, PageNumber, Query, RecordNumber, RenderError,
    Rendered, Words, envelope, errors, find, grep, jq, lines, meta, pages, pretty, record,
    reference, shape, short_stand_ins, since, summary, terms, wrap,
};
use ctxfs_core::model::{Limits, Redactor as _, Root, Subject};
use ctxfs_core::redact::MaskCounter;

/// A view of an artifact, or a directory of its views. The name of either begins with the name of
/// the artifact: `X.tail`, `X.grep`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Derived {
    /// A view.
    File(View),
    /// A directory of views.
    Dir(ViewDir),
}

/// Generates [`View`] and [`ViewDir`] from a table of views.
///
/// A row is `Variant = facts, render;` for a view that is a file. For a view that is a directory, a
/// row is `Variant(argument: Type) in Directory = facts, render;`. `Type::parse` parses the names
/// of the files in the directory, and the `Display` of `Type` prints them. `facts` is a
/// [`ViewType`]. `render` is a function of the argument (if the view has one), the subject,
/// `expired` and the writer.
macro_rules! views {
    ($(
        $variant:ident $(($argument:ident: $type:ty) in $dir:ident)? =
            $facts:expr, $render:expr;
    )*) => {
        /// A computed file. `Display` prints the end of its path: `.summary`, `.grep/-i timeout`.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "the row of a view tells its suffix and what it shows")]
        pub enum View {
            $($variant $(($type))?,)*
        }

        /// A directory of views. Each view in it is named by its argument.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "the row of a view tells its suffix and what it shows")]
        pub enum ViewDir {
            $($($dir,)?)*
        }

        pub(super) const CATALOG: &[Derived] =
            &[$(views!(@derived $variant $($dir)?),)*];

        impl View {
            pub(super) fn view_type(&self) -> &'static ViewType {
                match self {
                    $(Self::$variant { .. } => { const { &$facts } })*
                }
            }

            pub(super) fn write(
                &self,
                subject: &Subject<'_>,
                expired: &dyn Fn() -> bool,
                out: &mut dyn std::io::Write,
            ) -> Result<Rendered, RenderError> {
                match self {
                    $(Self::$variant $(($argument))? => {
                        let render: fn(
                            $(&$type,)?
                            &Subject<'_>,
                            &dyn Fn() -> bool,
                            &mut dyn std::io::Write,
                        ) -> Result<Rendered, RenderError> = $render;
                        render($($argument,)? subject, expired, out)
                    })*
                }
            }
        }

        impl ViewDir {
            /// All directories of views, in catalog order.
            pub const ALL: &[Self] = &[$($(Self::$dir,)?)*];

            pub(super) fn view_type(self) -> &'static ViewType {
                match self {
                    $($(Self::$dir => { const { &$facts } })?)*
                }
            }

            /// Returns the view called `name` in this directory, or `None` if `name` does not
            /// parse.
            pub fn view(self, name: &std::ffi::OsStr) -> Option<View> {
                match self {
                    $($(Self::$dir => <$type>::parse(name).map(View::$variant),)?)*
                }
            }
        }

        impl std::fmt::Display for View {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.view_type().suffix)?;
                match self {
                    $(Self::$variant $(($argument))? => { $(write!(f, "/{}", $argument)?;)? })*
                }
                Ok(())
            }
        }
    };
    (@derived $variant:ident) => { Derived::File(View::$variant) };
    (@derived $variant:ident $dir:ident) => { Derived::Dir(ViewDir::$dir) };
}

views! {
    Summary = ViewType {
        suffix: ".summary",
        is_listed: true,
        is_stand_in: true,
        readme: "| `X.summary` | what `X` is, its size, head, tail and errors, and where to read on; start here |",
        ..ViewType::FACTS
    }, |subject, _, out| summary::render(subject, b"", out);

    Tail = ViewType {
        suffix: ".tail",
        is_listed: true,
        readme: "| `X.tail` | the last 200 lines |",
        ..ViewType::LINES
    }, |subject, _, out| lines::last(subject, Limits::TAIL_LINES, out);

    Head = ViewType {
        suffix: ".head",
        readme: "| `X.head` | the first 200 lines |",
        ..ViewType::LINES
    }, |subject, _, out| lines::first(subject, Limits::TAIL_LINES, out);

    Grep(query: Query) in
    Grep = ViewType {
        suffix: ".grep",
        is_listed: true,
        is_of_views: true,
        readme: "\
| `X.grep/PATTERN` | what `rg -n PATTERN X` prints |
| `X.grep/-i -C3 PATTERN` | the same with options: `-i -S -F -w -x -v -c -l -o -P -A -B -C -m -e` |
| `{prefix}/<conversation>/.grep/PATTERN` | the same for every output of the conversation, newest first; `-l` first: their names only |",
        ..ViewType::TEXT
    }, grep::render;

    Find(words: Words) in
    Find = ViewType {
        suffix: ".find",
        readme: "| `X.find/WORDS`, `{prefix}/<conversation>/.find/WORDS` | the passages that fit some words best, if you do not know how it is spelt |",
        ..ViewType::LINES
    }, find::render;

    Lines(range: LineRange) in
    Lines = ViewType {
        suffix: ".lines",
        readme: "| `X.lines/400-450`, `X.lines/400+50`, `X.lines/-50` | lines 400 to 450; 50 lines from 400 on; the last 50 |",
        ..ViewType::LINES
    }, |range, subject, expired, out| lines::range(subject, *range, expired, out);

    Record(number: RecordNumber) in
    Record = ViewType {
        suffix: ".record",
        readme: "| `X.record/12` | one record as its fields: a row of a table, an element of a page, an item of an array |",
        ..ViewType::TEXT
    }, |number, subject, expired, out| record::render(subject, *number, expired, out);

    Records = ViewType {
        suffix: ".records",
        readme: "| `X.records` | how many records there are, of which form, with their fields and some values |",
        ..ViewType::TEXT
    }, record::render_all;

    Errors = ViewType {
        suffix: ".errors",
        needs_analysis: true,
        readme: "| `X.errors` | the first error of each kind, in its context, with its count |",
        ..ViewType::TEXT
    }, |subject, _, out| errors::render(subject, out);

    Since = ViewType {
        suffix: ".since",
        needs_analysis: true,
        shows: Shows::Facts,
        readme: "\
| `X.since` | what changed since the last run of the same command: errors that went, came and stayed, then the lines as `diff -u` shows them |",
        ..ViewType::TEXT
    }, since::render;

    SinceRun(earlier: EarlierName) in
    SinceRun = ViewType {
        suffix: ".since-run",
        needs_analysis: true,
        shows: Shows::Facts,
        readme: "| `X.since-run/2`, `X.since-run/CALL` | the same, since run 2, or since the output of another call |",
        ..ViewType::TEXT
    }, |_, subject, expired, out| since::render(subject, expired, out);

    Terms = ViewType {
        suffix: ".terms",
        readme: "| `X.terms` | the most telling words, with counts, if you do not know what to search for |",
        ..ViewType::TEXT
    }, terms::render;

    Wrap = ViewType {
        suffix: ".wrap",
        has_views: true,
        is_of_views: true,
        shows_beginning: true,
        readme: "| `X.wrap` | all of it, lines of more than 400 characters folded |",
        ..ViewType::TEXT
    }, wrap::render;

    Shape = ViewType {
        suffix: ".shape",
        readme: "| `X.shape` | of JSON: paths, types, counts, samples |",
        ..ViewType::TEXT
    }, shape::render;

    // The beginning is not shown early, because a filter may never end.
    Jq(filter: Filter) in
    Jq = ViewType {
        suffix: ".jq",
        cost: RenderCost::Program,
        has_views: true,
        readme: "| `X.jq/FILTER` | of JSON: what `jq FILTER X` prints; `-r -c -s -n -S -m5` may come first |",
        ..ViewType::TEXT
    }, jq::render;

    // The answer of a language model. It has no row in the root's `README.md` because a setting has
    // to enable it.
    Extract(question: Words) in
    Extract = ViewType {
        suffix: ".extract",
        cost: RenderCost::Model,
        ..ViewType::TEXT
    }, |_, _, _, _| Err(RenderError::NotFound);

    Page(page: PageNumber) in
    Pages = ViewType {
        suffix: ".pages",
        cost: RenderCost::Constant,
        readme: "| `X.pages/0001` ... | all of it in parts of at most 6 KB, for tools that cannot read more at once |",
        ..ViewType::LINES
    }, |page, subject, _, out| pages::render(subject, *page, out);

    Pretty = ViewType {
        suffix: ".pretty",
        counts_masks: true,
        has_views: true,
        shows_beginning: true,
        readme: "| `X.pretty`, `X.pretty.grep/PATTERN`, `X.pretty.lines/1-50` | JSON and JSON Lines, indented; the same views of that |",
        ..ViewType::TEXT
    }, pretty::render;

    Meta = ViewType {
        suffix: ".meta.json",
        readme: "| `X.meta.json` | all that is known: tool, arguments, exit code, type, digest |",
        ..ViewType::FACTS
    }, |subject, _, out| meta::render(subject, out);

    Ref = ViewType {
        suffix: ".ref.json",
        readme: "| `X.ref.json` | the reference to `X` that a model can keep: id, kind, size, hint |",
        ..ViewType::FACTS
    }, |subject, _, out| reference::render(subject, out);

    Envelope = ViewType {
        suffix: ".envelope.json",
        is_stand_in: true,
        readme: "| `X.envelope.json` | for hosts: a tool response in JSON that stands in for `X` |",
        ..ViewType::FACTS
    }, envelope::render;

    Handle = ViewType {
        suffix: ".handle",
        is_stand_in: true,
        readme: "| `X.handle` | for hosts with a `tool_output` tool: how to ask it about `X` |",
        ..ViewType::FACTS
    }, |subject, _, out| short_stand_ins::handle(subject, out);

    Preview = ViewType {
        suffix: ".preview",
        needs_analysis: false,
        is_stand_in: true,
        readme: "| `X.preview` | for hosts: the start of `X`, and its path |",
        ..ViewType::FACTS
    }, |subject, _, out| short_stand_ins::preview(subject, out);
}

impl View {
    /// Returns a shared pointer to the view. Every output has a `.summary` and a `.tail`, so these
    /// two views have one static instance each.
    pub fn shared(self) -> Arc<Self> {
        static SUMMARY: LazyLock<Arc<View>> = LazyLock::new(|| Arc::new(View::Summary));
        static TAIL: LazyLock<Arc<View>> = LazyLock::new(|| Arc::new(View::Tail));
        match self {
            Self::Summary => Arc::clone(&SUMMARY),
            Self::Tail => Arc::clone(&TAIL),
            other => Arc::new(other),
        }
    }

    /// Returns the word for this type of view in statistics: `grep`, `meta`.
    pub fn kind(&self) -> &'static str {
        self.view_type().kind()
    }

    /// Returns true if the text describes the whole content. The content then has to be analysed
    /// first.
    pub fn needs_analysis(&self) -> bool {
        self.view_type().needs_analysis
    }

    /// Returns true if the text depends only on the bytes of the artifact. Such a text may be
    /// cached on disk.
    pub fn may_be_cached(&self) -> bool {
        !self.view_type().needs_analysis
    }

    /// Returns the kind of work that rendering takes. [`render`] does not do the work of
    /// [`RenderCost::Model`]: the caller has to query a model.
    pub fn cost(&self) -> RenderCost {
        self.view_type().cost
    }

    /// Returns true if the view is designed to be given to a model in place of the artifact.
    pub fn is_stand_in(&self) -> bool {
        self.view_type().is_stand_in
    }

    /// Returns true if the text of this view has views of its own.
    pub fn has_views(&self) -> bool {
        self.view_type().has_views
    }

    /// Returns true if the beginning of the text may be shown while the rest is still being
    /// computed.
    pub fn shows_beginning(&self) -> bool {
        self.view_type().shows_beginning
    }
}

impl Derived {
    /// Returns the kind of work that this view, or any view in this directory, takes.
    pub fn cost(&self) -> RenderCost {
        self.view_type().cost
    }

    pub(super) fn view_type(&self) -> &'static ViewType {
        match self {
            Self::File(view) => view.view_type(),
            Self::Dir(dir) => dir.view_type(),
        }
    }
}

/// Returns the suffixes that directory listings show beside an artifact, in catalog order.
pub fn listed() -> impl Iterator<Item = (&'static str, &'static Derived)> {
    let rows = CATALOG.iter().map(|derived| (derived.view_type(), derived));
    rows.filter(|(row, _)| row.is_listed).map(|(row, derived)| (row.suffix, derived))
}

/// A row of the catalog: the facts about one view that hold for every artifact. A row names only
/// the fields that differ from [`ViewType::TEXT`], `LINES` or `FACTS`.
#[expect(clippy::struct_excessive_bools, reason = "each is a question that some caller asks")]
pub(super) struct ViewType {
    // The suffix of its file or directory name: `.summary`, `.grep`.
    pub(super) suffix: &'static str,
    // True if directory listings show the view beside every artifact. The other views are found by
    // name only.
    is_listed: bool,
    // True if the view describes the whole content, which then has to be analysed first. The text
    // is cached for one generation of the artifact only, like the analysis and the record.
    //
    // All other views read only the bytes that they show. The text of such a view may be cached on
    // disk, under a key that identifies these bytes.
    needs_analysis: bool,
    pub(super) shows: Shows,
    pub(super) cost: RenderCost,
    // True if the view itself reports the number of masked secrets, so that [`render`] adds no
    // notice about them.
    counts_masks: bool,
    // True if the view is designed to be given to a model in place of the artifact.
    pub(super) is_stand_in: bool,
    // True if the text of this view has views of its own: all views whose `is_of_views` is true.
    pub(super) has_views: bool,
    // True if the view can also be applied to the text of another view.
    pub(super) is_of_views: bool,
    // True if the beginning may be shown while the rest is still being computed.
    shows_beginning: bool,
    // The rows of this view in the table of the root's `README.md`. `{prefix}` is the root of the
    // tree.
    pub(super) readme: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shows {
    // No bytes of the artifact. The view describes the artifact in text that is valid for any
    // content.
    Facts,
    // Text of the artifact, unless it is binary.
    Text,
}

/// The kind of work that rendering a view takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenderCost {
    /// A few small reads, independent of the length of the content.
    Constant,
    /// A pass over the content or a part of it.
    Content,
    /// A run of a program that the reader wrote. It may take long even for short content.
    Program,
    /// A query to a language model, which takes minutes and costs money.
    Model,
}

impl ViewType {
    // Defaults for a view that shows text of the artifact and cannot be applied to other views.
    const TEXT: Self = Self {
        suffix: "",
        is_listed: false,
        needs_analysis: false,
        shows: Shows::Text,
        cost: RenderCost::Content,
        counts_masks: false,
        is_stand_in: false,
        has_views: false,
        is_of_views: false,
        shows_beginning: false,
        readme: "",
    };
    // Defaults for a view that shows some lines of the artifact or of the text of another view.
    pub(super) const LINES: Self = Self { is_of_views: true, ..Self::TEXT };
    // Defaults for a view that describes the artifact.
    pub(super) const FACTS: Self =
        Self { needs_analysis: true, shows: Shows::Facts, counts_masks: true, ..Self::TEXT };

    // Returns the suffix without its dot and without `.json`: `summary`, `meta`.
    pub(super) fn kind(&self) -> &'static str {
        let name = self.suffix.trim_start_matches('.');
        name.strip_suffix(".json").unwrap_or(name)
    }
}

/// Writes the text of `view` to `out`. Returns the notice of the view, which may be known only at
/// the end.
///
/// Calls `expired` from time to time. Once `expired` returns true, the text so far is the result.
/// Memory is bounded for any artifact. The length of the text is bounded, except for `.pretty`,
/// `.wrap`, a search or filter with `-m0`, and the envelope of a response that sets
/// `truncation_skip`.
///
/// Counts the masked secrets in the text. The first line of the notice reports the counts.
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
        Shows::Text if subject.analysis.is_binary() => Ok(Rendered::noted(binary_notice(subject))),
        Shows::Facts | Shows::Text => view.write(subject, expired, out),
    }
}

fn binary_notice(subject: &Subject<'_>) -> String {
    format!(
        "# not text ({}, {}), so nothing follows. The bytes: {}\n",
        subject.analysis.mime,
        counted(subject.size(), "byte"),
        subject.place.file(),
    )
}

/// A search of all artifacts below a directory: `<conversation>/.grep/<query>` or
/// `<conversation>/.find/<words>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CorpusQuery {
    /// `.grep/<query>`: the matching lines.
    Grep(Query),
    /// `.find/<words>`: the passages that match the words best.
    Find(Words),
}

impl CorpusQuery {
    /// Parses a name in the search directory `dir`. Returns `None` if the name is not a search.
    pub fn named(dir: ViewDir, name: &OsStr) -> Option<Self> {
        match dir {
            ViewDir::Grep => Query::parse_in(SearchScope::Many, name).map(Self::Grep),
            ViewDir::Find => Words::parse(name).map(Self::Find),
            ViewDir::Lines
            | ViewDir::Jq
            | ViewDir::Pages
            | ViewDir::Record
            | ViewDir::Extract
            | ViewDir::SinceRun => None,
        }
    }

    /// Searches all artifacts in `directory` and writes the result to `out`, without the notice.
    ///
    /// Calls `expired` from time to time. Once `expired` returns true, the text so far is the
    /// result. Memory is bounded for any number of artifacts of any size. The length of the output
    /// is bounded, except for a `Grep` with `-m0`.
    ///
    /// Counts the masked secrets in the output. The first line of the notice reports the counts.
    pub fn render(
        &self,
        directory: &Directory<'_>,
        expired: &(dyn Fn() -> bool + Sync),
        out: &mut (dyn Write + Send),
    ) -> Result<Rendered, RenderError> {
        let Some(rules) = directory.redacts else {
            return self.render_unmarked(directory, expired, out);
        };
        let mut shown = MaskCounter::new(out, rules.names());
        let rendered = self.render_unmarked(directory, expired, &mut shown)?;
        Ok(rendered.redacted(&shown.counts()))
    }

    fn render_unmarked(
        &self,
        directory: &Directory<'_>,
        expired: &(dyn Fn() -> bool + Sync),
        out: &mut (dyn Write + Send),
    ) -> Result<Rendered, RenderError> {
        match self {
            Self::Grep(query) => grep::many::render(query, directory, expired, out),
            Self::Find(words) => find::many::render(words, directory, expired, out),
        }
    }
}

/// Returns the root's `README.md`, which introduces the tree to an agent that has not used it
/// before.
pub fn readme(root: &Root) -> String {
    let rows = CATALOG.iter().map(|derived| derived.view_type().readme);
    let views: Vec<&str> = rows.filter(|row| !row.is_empty()).collect();
    let text = include_str!("readme.md").replace("{views}", &views.join("\n"));
    let text = match root {
        Root::Command(command) => text.replace("cat '{prefix}/", &format!("{command} '")),
        Root::All(_) | Root::One(_) => text,
    };
    let text = text.replace("{prefix}/<conversation>", &root.of("<conversation>"));
    text.replace("{prefix}/c7", &root.of("c7"))
}

/// A directory with a computed `.ignore` file.
///
/// - `Top`: the top of a mount
/// - `Artifacts`: a directory of artifacts, with its real names that look like listed views
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "described above")]
pub enum IgnoredIn<'a> {
    Top(&'a Root),
    Artifacts(&'a [OsString]),
}

/// Maximum number of real names in an `.ignore` file. In a directory with more of them, nothing is
/// excluded.
const MOST_REAL: usize = 4096;

/// Returns the text of a computed `.ignore` file. It excludes the views that directories list, so
/// that recursive searches by ripgrep, fd and ag find each line once. Real files with such names
/// are included again by the file of their own directory, which comes before those above it.
pub fn ignore(dir: &IgnoredIn<'_>) -> String {
    let (above, messages, real) = match dir {
        IgnoredIn::Top(Root::One(_)) => ("/artifacts/**/", "/history/messages.json\n", &[][..]),
        IgnoredIn::Top(_) => ("/*/artifacts/**/", "/*/history/messages.json\n", &[][..]),
        IgnoredIn::Artifacts(real) => ("", "", *real),
    };
    let mut text = "# Computed views. They repeat what stands beside them.\n".to_owned();
    if real.len() > MOST_REAL {
        return text;
    }
    for (suffix, derived) in listed() {
        let end = if matches!(derived, Derived::Dir(_)) { "/\n" } else { "\n" };
        text.extend([above, "*", suffix, end]);
    }
    text += messages;
    for name in real {
        text.extend(["!/", &as_pattern(name), "\n"]);
    }
    text
}

/// Returns true if `name` has the form of a view that directories list. A hidden name does not
/// count, because searches skip it in any case.
pub fn is_like_listed(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    !bytes.starts_with(b".") && listed().any(|(suffix, _)| bytes.ends_with(suffix.as_bytes()))
}

/// Returns a pattern of an ignore file that matches `name`. A byte that such a file cannot hold
/// matches any other byte, too.
fn as_pattern(name: &OsStr) -> String {
    let mut pattern = String::new();
    for chunk in name.as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            if matches!(c, '\\' | '*' | '?' | '[' | ']' | '{' | '}') {
                pattern.push('\\');
            }
            pattern.push(if c.is_control() { '?' } else { c });
        }
        pattern.extend(chunk.invalid().iter().map(|_| '?'));
    }
    pattern
}

#[cfg(test)]
mod tests;
