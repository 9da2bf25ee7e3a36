//! The catalog of views, with one row for each.
//!
//! A row holds all that the program knows about a view besides its text. `View`, `ViewDir`, names
//! and their parsing, listings, `.ignore`, the table of `README.md` and [`render`](crate::render)
//! are made from it.

use std::sync::{Arc, LazyLock};

use crate::view_type::{RenderCost, Shows, ViewType, views};
use crate::{
    Filter, LineRange, PageNumber, Query, RenderError, Rendered, Words, envelope, errors, find,
    grep, handle, jq, lines, meta, pages, pretty, preview, reference, shape, summary, terms, wrap,
};
use ctxfs_core::model::{Limits, Subject};

/// A view of an artifact, or a directory of views of it. Both are named after the artifact:
/// `X.tail`, `X.grep`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Derived {
    /// A view.
    File(View),
    /// A directory of views.
    Dir(ViewDir),
}

views! {
    /// `.summary`: the text that a model gets in place of the artifact.
    Summary = ViewType {
        suffix: ".summary",
        is_listed: true,
        is_stand_in: true,
        readme: "| `X.summary` | what `X` is, its size, head, tail and errors, and where to read on; start here |",
        ..ViewType::FACTS
    }, |subject, _, out| summary::render(subject, out);

    /// `.tail`: the last lines.
    Tail = ViewType {
        suffix: ".tail",
        is_listed: true,
        readme: "| `X.tail` | the last 200 lines |",
        ..ViewType::LINES
    }, |subject, _, out| lines::last(subject, Limits::TAIL_LINES, out);

    /// `.head`: the first lines.
    Head = ViewType {
        suffix: ".head",
        readme: "| `X.head` | the first 200 lines |",
        ..ViewType::LINES
    }, |subject, _, out| lines::first(subject, Limits::TAIL_LINES, out);

    /// `.grep/<query>`: the output of ripgrep.
    Grep(query: Query) in
    /// `.grep/`: a name in it is a search.
    Grep = ViewType {
        suffix: ".grep",
        is_listed: true,
        is_of_views: true,
        readme: "\
| `X.grep/PATTERN` | what `rg -n PATTERN X` prints |
| `X.grep/-i -C3 PATTERN` | the same with options: `-i -S -F -w -x -v -c -o -A -B -C -m` |
| `{prefix}/<conversation>/.grep/PATTERN` | the same for every output of the conversation, newest first; `-l` first: their names only |",
        ..ViewType::TEXT
    }, grep::render;

    /// `.find/<words>`: the passages that match some words best.
    Find(words: Words) in
    /// `.find/`: a name in it is the words to look for.
    Find = ViewType {
        suffix: ".find",
        readme: "| `X.find/WORDS`, `{prefix}/<conversation>/.find/WORDS` | the passages that fit some words best, if you do not know how it is spelt |",
        ..ViewType::LINES
    }, find::render;

    /// `.lines/<range>`: a range of lines.
    Lines(range: LineRange) in
    /// `.lines/`: a name in it is a range of lines.
    Lines = ViewType {
        suffix: ".lines",
        readme: "| `X.lines/400-450`, `X.lines/400+50`, `X.lines/-50` | lines 400 to 450; 50 lines from 400 on; the last 50 |",
        ..ViewType::LINES
    }, |range, subject, expired, out| lines::range(subject, *range, expired, out);

    /// `.errors`: the lines that look like errors, with the lines around them.
    Errors = ViewType {
        suffix: ".errors",
        needs_analysis: true,
        shows: Shows::Lines,
        readme: "| `X.errors` | the first error of each kind, in its context, with its count |",
        ..ViewType::TEXT
    }, |subject, _, out| errors::render(subject, out);

    /// `.terms`: the most distinctive words, with their counts.
    Terms = ViewType {
        suffix: ".terms",
        readme: "| `X.terms` | the most telling words, with counts, if you do not know what to search for |",
        ..ViewType::TEXT
    }, terms::render;

    /// `.wrap`: the whole artifact, with long lines folded.
    Wrap = ViewType {
        suffix: ".wrap",
        has_views: true,
        is_of_views: true,
        shows_beginning: true,
        readme: "| `X.wrap` | all of it, lines of more than 400 characters folded |",
        ..ViewType::TEXT
    }, wrap::render;

    /// `.shape`: the structure of JSON.
    Shape = ViewType {
        suffix: ".shape",
        readme: "| `X.shape` | of JSON: paths, types, counts, samples |",
        ..ViewType::TEXT
    }, shape::render;

    /// `.jq/<filter>`: the output of jq.
    // Its beginning is never shown early: a filter may never end.
    Jq(filter: Filter) in
    /// `.jq/`: a name in it is a filter.
    Jq = ViewType {
        suffix: ".jq",
        cost: RenderCost::Program,
        has_views: true,
        readme: "| `X.jq/FILTER` | of JSON: what `jq FILTER X` prints; `-r -c -s -n -S -m5` may come first |",
        ..ViewType::TEXT
    }, jq::render;

    /// `.extract/<question>`: the answer of a language model.
    // No row in the root's `README.md`: it has to be asked for by a setting.
    Extract(question: Words) in
    /// `.extract/`: a name in it is a question.
    Extract = ViewType {
        suffix: ".extract",
        cost: RenderCost::Model,
        ..ViewType::TEXT
    }, |_, _, _, _| Err(RenderError::NotFound);

    /// `.pages/<number>`: a part that a reader with a size limit can fetch.
    Page(page: PageNumber) in
    /// `.pages/`: lists the numbers of all pages.
    Pages = ViewType {
        suffix: ".pages",
        cost: RenderCost::Constant,
        readme: "| `X.pages/0001` ... | all of it in parts of at most 6 KB, for tools that cannot read more at once |",
        ..ViewType::LINES
    }, |page, subject, _, out| pages::render(subject, *page, out);

    /// `.pretty`: JSON and JSON Lines, indented.
    Pretty = ViewType {
        suffix: ".pretty",
        counts_masks: true,
        has_views: true,
        shows_beginning: true,
        readme: "| `X.pretty`, `X.pretty.grep/PATTERN`, `X.pretty.lines/1-50` | JSON and JSON Lines, indented; the same views of that |",
        ..ViewType::TEXT
    }, pretty::render;

    /// `.meta.json`: the record of the artifact.
    Meta = ViewType {
        suffix: ".meta.json",
        readme: "| `X.meta.json` | all that is known: tool, arguments, exit code, type, digest |",
        ..ViewType::FACTS
    }, |subject, _, out| meta::render(subject, out);

    /// `.ref.json`: the `ContextRef` of the artifact.
    Ref = ViewType {
        suffix: ".ref.json",
        readme: "| `X.ref.json` | the reference to `X` that a model can keep: id, kind, size, hint |",
        ..ViewType::FACTS
    }, |subject, _, out| reference::render(subject, out);

    /// `.envelope.json`: a response in the common protocol of tools.
    Envelope = ViewType {
        suffix: ".envelope.json",
        is_stand_in: true,
        readme: "| `X.envelope.json` | for hosts: a tool response in JSON that stands in for `X` |",
        ..ViewType::FACTS
    }, envelope::render;

    /// `.handle`: the stand-in for a host that has the `tool_output` tool.
    Handle = ViewType {
        suffix: ".handle",
        is_stand_in: true,
        readme: "| `X.handle` | for hosts with a `tool_output` tool: how to ask it about `X` |",
        ..ViewType::FACTS
    }, |subject, _, out| handle::render(subject, out);

    /// `.preview`: the stand-in for the message log.
    Preview = ViewType {
        suffix: ".preview",
        needs_analysis: false,
        is_stand_in: true,
        readme: "| `X.preview` | for hosts: the start of `X`, and its path |",
        ..ViewType::FACTS
    }, |subject, _, out| preview::render(subject, out);
}

impl View {
    /// Returns the view behind a pointer. `.summary` and `.tail` stand beside every output, so each
    /// of them has one static instance.
    pub fn shared(self) -> Arc<Self> {
        static SUMMARY: LazyLock<Arc<View>> = LazyLock::new(|| Arc::new(View::Summary));
        static TAIL: LazyLock<Arc<View>> = LazyLock::new(|| Arc::new(View::Tail));
        match self {
            Self::Summary => Arc::clone(&SUMMARY),
            Self::Tail => Arc::clone(&TAIL),
            other => Arc::new(other),
        }
    }

    /// Returns the word for this type of view in counts: `grep`, `meta`.
    pub fn kind(&self) -> &'static str {
        self.view_type().kind()
    }

    /// Returns true if the text tells facts about the whole content, which has to be analysed
    /// first.
    pub fn needs_analysis(&self) -> bool {
        self.view_type().needs_analysis
    }

    /// Returns true if the text depends only on the bytes, so that it may be kept on disk.
    pub fn may_be_cached(&self) -> bool {
        !self.view_type().needs_analysis
    }

    /// Returns the kind of work that rendering takes. [`render`](crate::render) does not do the
    /// work of [`RenderCost::Model`]: the caller has to ask a model.
    pub fn cost(&self) -> RenderCost {
        self.view_type().cost
    }

    /// Returns true if the view is made to be given to a model in place of the artifact.
    pub fn is_stand_in(&self) -> bool {
        self.view_type().is_stand_in
    }

    /// Returns true if the text of the view has views in turn.
    pub fn has_views(&self) -> bool {
        self.view_type().has_views
    }

    /// Returns true if the beginning of the text may be shown while the rest is being computed.
    pub fn shows_beginning(&self) -> bool {
        self.view_type().shows_beginning
    }
}

impl Derived {
    /// Returns the kind of work that the view takes, or that any view of the directory takes.
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

/// Returns the suffixes that directories list beside an artifact, in the order of the catalog.
pub fn listed() -> impl Iterator<Item = (&'static str, &'static Derived)> {
    let rows = CATALOG.iter().map(|derived| (derived.view_type(), derived));
    rows.filter(|(row, _)| row.is_listed).map(|(row, derived)| (row.suffix, derived))
}

#[cfg(test)]
mod tests;
