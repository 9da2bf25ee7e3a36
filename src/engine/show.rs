//! Computing the text of a view, of a file or of another view's text.

use std::sync::Arc;

use crate::analysis::{AnalysisSoFar, begins_for_terminal, sniff};
use crate::computed::BaseText;
use crate::deadline::{ReadLimit, Timed, deadline, extended_deadline};
use crate::open_file::FileContent;
use crate::shown::{FileFacts, ShownFile};
use crate::{
    Base, Computed, Counters, Engine, EngineError, Recipe, Result, Snapshot, SourceFile, Spool,
    Version, ViewText, cache_key, far, same_name, tracker,
};
use ctxfs_core::materialize::{Checkpoints, PlainText};
use ctxfs_core::model::{Analysis, Content, Errors, Sections, Subject, counted_tool};
use ctxfs_store::CacheKey;
use ctxfs_view::{RenderError, Rendered, View};

type RenderResult = std::result::Result<Rendered, RenderError>;

/// A view of a file that is being computed.
struct FileView<'a> {
    of: &'a Computed,
    file: &'a dyn SourceFile,
    view: &'a View,
    snapshot: Snapshot,
    /// The key to keep the text by, if the file has not changed by its end.
    key: Option<CacheKey>,
    /// True if this view may go on past its deadline.
    may_go_on: bool,
    /// True if there was only time for the beginning of a text without escape sequences.
    beginning: bool,
}

/// Computes the text of a view of a file. If it was computed before, `again` is true and it must
/// come from exactly the same version.
pub(super) fn show_view(
    engine: &Engine,
    of: &Computed,
    file: &dyn SourceFile,
    view: &View,
    again: bool,
) -> Result<ViewText> {
    let snapshot = file.snapshot(engine)?;
    if again && of.version != file.version(engine, &snapshot)? {
        return Err(EngineError::Stale);
    }
    let may_go_on = !again && view.shows_beginning();
    let mut shown = FileView { of, file, view, snapshot, key: None, may_go_on, beginning: false };
    let facts = facts_for(engine, &shown)?;
    let tool = || facts.record.provenance.tool_name().map(counted_tool);
    of.note_tool(tool);
    if view.may_be_cached() {
        let keys = cache_key::cache_keys(engine, &shown.snapshot, &facts, view);
        if let Some(cached) = keys.iter().find_map(|key| ViewText::cached(&engine.cache, key)) {
            return Ok(cached);
        }
        shown.key = keys.into_iter().next();
    }
    let _used = shown.file.tracker().in_use(engine, shown.file);
    match show_content(engine, &mut shown, facts) {
        Err(error) if shown.snapshot.file.is_far() && is_away(&error, view) => {
            // The next look-up tries again.
            file.note_change();
            far::show_away(engine, (&shown.snapshot, file.conversation()), &error)
        }
        made => made,
    }
}

/// Returns true if an error of reading bytes that are elsewhere is to be told by the text of
/// `view`.
fn is_away(error: &EngineError, view: &View) -> bool {
    let cannot_be_had = matches!(error.raw_os_error(), libc::EIO | libc::ESTALE);
    // What is stale itself is looked up again.
    matches!(view, View::Summary) && cannot_be_had && !matches!(error, EngineError::Stale)
}

fn show_content(
    engine: &Engine,
    shown: &mut FileView<'_>,
    mut facts: FileFacts,
) -> Result<ViewText> {
    let limit = ReadLimit::new(engine.options.view_deadline);
    let expired = deadline(engine.options.view_deadline);
    let (content, analysis) = match content(engine, shown, &mut facts, (&expired, &limit)) {
        Err(EngineError::Io(error)) if limit.ended(&error) => return out_of_time(engine, shown),
        found => found?,
    };
    let file = ShownFile::new(&engine.secrets, content, analysis, facts);
    file.with_subject(&engine.secrets, &engine.filters, |subject| {
        write_view(engine, shown, subject, &limit)
    })
}

/// Returns the text of a view that had no time to begin.
fn out_of_time(engine: &Engine, shown: &FileView<'_>) -> Result<ViewText> {
    Counters::add(&engine.counters.views_out_of_time, 1);
    shown.file.note_change();
    let spool = Spool::begin(engine, shown.file.conversation());
    Ok(spool.finish(Rendered::out_of_time(), None)?)
}

/// Passes a file as its views see it to `show`, with the analysis of all of it.
pub(super) fn with_subject<T>(
    engine: &Engine,
    file: &dyn SourceFile,
    show: impl FnOnce(&Subject<'_>) -> T,
) -> Result<T> {
    // The view that needs the analysis of all of it.
    with_subject_of(engine, file, &View::Summary, &deadline(engine.options.view_deadline), show)
}

/// Writes a view of a file to memory, until `expired`. Neither keeps nor counts it.
pub(super) fn render_here(
    engine: &Engine,
    file: &dyn SourceFile,
    view: &View,
    expired: &dyn Fn() -> bool,
) -> Result<(Vec<u8>, Rendered)> {
    let mut text = Vec::new();
    let rendered = with_subject_of(engine, file, view, expired, |subject| {
        ctxfs_view::render(view, subject, expired, &mut text)
    })??;
    Ok((text, rendered))
}

/// Passes a file as `view` sees it to `show`, with what is found of it until `expired`.
fn with_subject_of<T>(
    engine: &Engine,
    file: &dyn SourceFile,
    view: &View,
    expired: &dyn Fn() -> bool,
    show: impl FnOnce(&Subject<'_>) -> T,
) -> Result<T> {
    let of = &Computed::new(Recipe::View(view.clone().shared()), Base::Nothing, Version::default());
    let snapshot = file.snapshot(engine)?;
    let may_go_on = false;
    let mut shown = FileView { of, file, view, snapshot, key: None, may_go_on, beginning: false };
    let mut facts = facts_for(engine, &shown)?;
    let _used = file.tracker().in_use(engine, file);
    let limit = ReadLimit::new(engine.options.view_deadline);
    let (content, analysis) = content(engine, &mut shown, &mut facts, (expired, &limit))?;
    let shown = ShownFile::new(&engine.secrets, content, analysis, facts);
    Ok(shown.with_subject(&engine.secrets, &engine.filters, show))
}

/// Returns the facts that the view tells.
fn facts_for(engine: &Engine, FileView { view, snapshot, .. }: &FileView<'_>) -> Result<FileFacts> {
    let mut facts = facts(engine, snapshot)?;
    if matches!(view, View::Summary) {
        facts.same_name = same_name::others_at(engine, &snapshot.place)?;
    }
    Ok(facts)
}

fn facts(engine: &Engine, snapshot: &Snapshot) -> Result<FileFacts> {
    let Snapshot { file, record, place, .. } = snapshot;
    Ok(FileFacts::new(&engine.options, &file.provenance()?, record.clone(), place.clone()))
}

/// Returns the content of a view's subject, with as much of its analysis as the view needs. The
/// content of what was made for a terminal is its text.
fn content(
    engine: &Engine,
    shown: &mut FileView<'_>,
    facts: &mut FileFacts,
    (expired, limit): (&dyn Fn() -> bool, &Arc<ReadLimit>),
) -> Result<(Box<dyn Content>, Arc<Analysis>)> {
    let needs_all = shown.view.needs_analysis();
    let mut known = needed_analysis(engine, shown, facts, expired)?;
    let is_text = known.analysis.plain.is_some();
    facts.record.size = if known.whole { known.analysis.bytes } else { shown.snapshot.length };
    let artifact = shown.snapshot.file.content(facts.record.size);
    let late = is_text && !known.whole;
    shown.beginning = late && !needs_all;
    if late && needs_all {
        known.analysis = Arc::new(without_places(&known.analysis));
    }
    let text = if is_text && !(late && needs_all) {
        plain_text(engine, shown, &artifact, &mut known, (expired, limit))?
    } else {
        None
    };
    let content: Box<dyn Content> = match text {
        Some(text) => Box::new(text),
        None => Box::new(Timed::new(artifact, limit)),
    };
    Ok((content, known.analysis))
}

/// Returns as much of the analysis as the view needs: all of it, or that of the first bytes.
fn needed_analysis(
    engine: &Engine,
    shown: &FileView<'_>,
    facts: &FileFacts,
    expired: &dyn Fn() -> bool,
) -> Result<AnalysisSoFar> {
    let Snapshot { file, length, .. } = &shown.snapshot;
    if !shown.view.needs_analysis() && !shown.file.is_log() {
        let start = sniff(&file.content(*length))?;
        if start.analysis.plain.is_none() {
            return Ok(AnalysisSoFar { whole: false, ..start });
        }
    }
    engine.analysis(shown.file, file.as_ref(), Some(&facts.record), expired)
}

/// Returns the text of `raw`, up to the end of its analysis `known`, and makes `known` the analysis
/// of that text. Returns `None` if all of it is its own text.
fn plain_text(
    engine: &Engine,
    shown: &FileView<'_>,
    raw: &FileContent,
    known: &mut AnalysisSoFar,
    (expired, limit): (&dyn Fn() -> bool, &Arc<ReadLimit>),
) -> Result<Option<PlainText<Timed<FileContent>>>> {
    let (of, bytes) = (shown.file, known.analysis.bytes);
    if bytes == raw.len() && !known.analysis.has_escapes() {
        return Ok(None);
    }
    let raw = raw.file().content(bytes);
    if let Some(text) = text_at_places(shown, (&raw, limit), &known.analysis) {
        known.analysis = Arc::new(known.analysis.of_text());
        return Ok(Some(text));
    }
    if of.tracker().seen() < bytes {
        // A recorded analysis has no checkpoints. If time runs out before there are any, the text
        // is found without them.
        tracker::analyse(engine, of, raw.file().as_ref(), bytes, expired)?;
    }
    let text = PlainText::new(Timed::new(raw, limit), of.tracker().checkpoints())?;
    known.analysis = Arc::new(known.analysis.of_text());
    Ok(Some(text))
}

/// Returns the text of a log whose bytes are elsewhere, of which a stand-in reads a part, if it is
/// known from which places on it can be read. Other views read all of it in any order.
fn text_at_places(
    shown: &FileView<'_>,
    (raw, limit): (&FileContent, &Arc<ReadLimit>),
    analysis: &Analysis,
) -> Option<PlainText<Timed<FileContent>>> {
    let is_part = matches!(shown.view, View::Summary | View::Tail | View::Head);
    let is_whole = analysis.bytes == raw.len() && raw.file().is_far();
    let shortcuts = analysis.shortcuts.as_ref().filter(|_| is_part && is_whole)?;
    let places = Some(&shortcuts.places).filter(|places| !places.is_empty())?;
    let raw = Timed::new(raw.clone(), limit);
    Some(PlainText::of_length(raw, Checkpoints::at(places), analysis.plain?))
}

/// Returns the length that the pages of `of` divide: that of a file, or of its text without escape
/// sequences.
pub(super) fn text_length(engine: &Engine, of: &dyn SourceFile) -> Result<u64> {
    let snapshot = of.snapshot(engine)?;
    if !of.is_log() && !begins_for_terminal(snapshot.file.as_ref())? {
        return Ok(snapshot.stat.size);
    }
    let expired = deadline(engine.options.view_deadline);
    let known = engine.analysis(of, snapshot.file.as_ref(), Some(&snapshot.record), &expired)?;
    Ok(known.analysis.of_text().bytes)
}

/// Writes a view of a file. If its text can be kept, it goes on when its time is up.
fn write_view(
    engine: &Engine,
    shown: &FileView<'_>,
    subject: &Subject<'_>,
    limit: &ReadLimit,
) -> Result<ViewText> {
    let FileView { of, file, view, snapshot, key, .. } = shown;
    let spool = Spool::begin(engine, file.conversation());
    let begin = || {
        if !shown.may_go_on || key.is_none() {
            return None;
        }
        let permit = engine.late.take()?;
        limit.extend(true);
        Counters::add(&engine.counters.views_out_of_time, 1);
        of.give_beginning(spool.beginning(ctxfs_view::beginning_notice().to_owned()));
        Some(permit)
    };
    let goes_on = || {
        let unchanged = file.changes() == snapshot.changes;
        let has_room = spool.length() <= engine.options.disk_cache_bytes;
        let goes_on = unchanged && has_room && !engine.late.is_closed();
        limit.extend(goes_on);
        goes_on
    };
    let expired = extended_deadline(engine.options.view_deadline, begin, goes_on);
    let rendered = ctxfs_view::render(view, subject, &expired, &mut &spool);
    let mut rendered = in_time(rendered, limit)?;
    if shown.beginning {
        rendered = rendered.of_beginning(subject.place);
    }
    if !rendered.whole {
        // The next look-up tries again.
        Counters::add(&engine.counters.views_out_of_time, 1);
        file.note_change();
    }
    let now = snapshot.file.stat()?;
    drop(expired);
    let key = key.clone().filter(|_| now.is_unchanged(&snapshot.stat));
    Ok(spool.finish(rendered, key)?)
}

/// Returns what was rendered, or that time ran out if that ended it.
fn in_time(rendered: RenderResult, limit: &ReadLimit) -> RenderResult {
    match rendered {
        Err(RenderError::Io(error)) if limit.ended(&error) => Ok(Rendered::out_of_time()),
        rendered => rendered,
    }
}

/// Computes a view of `base_text`, the text of the computed file `base`.
pub(super) fn show_view_of_view(
    engine: &Engine,
    base: &Computed,
    base_text: &BaseText,
    view: &View,
) -> Result<ViewText> {
    let text = &base_text.text;
    // Searching a text that only says why there is none would find nothing.
    if text.is_notice() && matches!(view, View::Grep(_)) {
        return Ok(ViewText::clone(text));
    }
    let key = text.key().and_then(|base| cache_key::of_view(base, view));
    if let Some(cached) = key.as_ref().and_then(|key| ViewText::cached(&engine.cache, key)) {
        return Ok(cached);
    }
    let facts = facts_of_text(engine, base)?;
    let analysis = sniff(&**text)?.analysis;
    let all = engine.options.view_deadline;
    let left = all.saturating_sub(base_text.asked.elapsed()).max(all / 2);
    let (expired, limit) = (deadline(left), ReadLimit::new(left));
    let content = Box::new(Timed::new(&**text, &limit));
    let shown = ShownFile::of_masked(&engine.secrets, content, analysis, facts);
    let spool = Spool::begin(engine, base.base.conversation());
    let rendered = shown.with_subject(&engine.secrets, &engine.filters, |subject| {
        ctxfs_view::render(view, subject, &expired, &mut &spool)
    });
    let mut rendered = in_time(rendered, &limit)?;
    if !rendered.whole {
        Counters::add(&engine.counters.views_out_of_time, 1);
        base.note_late();
    }
    if !text.is_whole() {
        rendered = rendered.of_beginning(&shown.facts.place);
    }
    Ok(spool.finish(rendered, key)?)
}

/// Returns what is known of the file that the view `base` is of, at the place of that view.
fn facts_of_text(engine: &Engine, base: &Computed) -> Result<FileFacts> {
    let Recipe::View(view) = &base.recipe else { return Err(EngineError::Stale) };
    let facts = facts(engine, &base.base.file()?.snapshot(engine)?)?;
    let place = facts.place.of_view(&view.to_string());
    Ok(FileFacts { place, ..facts })
}

/// Returns the analysis of the beginning of a file, for a view that shows its bytes. Leaves out
/// places, as they are those in its text.
fn without_places(analysis: &Analysis) -> Analysis {
    Analysis {
        plain: None,
        shortcuts: None,
        errors: Errors::default(),
        trouble: Vec::new(),
        unlike: Vec::new(),
        statuses: Vec::new(),
        repeated: Vec::new(),
        sections: Sections::default(),
        ..analysis.clone()
    }
}
