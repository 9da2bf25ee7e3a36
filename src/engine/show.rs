//! Computing the text of a view of a file, or of a view of another view's text. Also the keys under
//! which the store's cache keeps these texts.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::deadline::deadline;
use crate::sync::thread;
use crate::{
    AnalysisSoFar, Base, BaseText, Computed, Counters, DoorFile, EarlierFile, EarlierOutput,
    Engine, EngineError, FileContent, FileFacts, FileId, Identity, OpenFile, QUICK_INPUT,
    ReadLimit, Recipe, Result, ShownFile, Snapshot, Source, Spool, Timed, Version, ViewText,
    basis_of_sizes, extended_deadline, facts_number, others_at, others_of, sniff,
};
use ctxfs_core::materialize::{Analyzer, Checkpoints, PlainText};
use ctxfs_core::model::{
    Analysis, Content, Errors, Reading, Record, Sections, Subject, ViewSizes, counted_tool,
};
use ctxfs_store::{CacheKey, Stat, provenance_of, stat_file};
use ctxfs_view::{RenderError, Rendered, View};

type RenderResult = std::result::Result<Rendered, RenderError>;

/// A view of a file that is being computed.
///
/// - `key`: the key under which to keep the text, if the file has not changed by the end of the
///   computation
/// - `may_go_on`: true if this view may continue past its deadline
/// - `beginning`: true if the content is the text without escape sequences, and there was only time
///   for the beginning of this text
struct FileView<'a> {
    of: &'a Computed,
    view: &'a View,
    snapshot: Snapshot,
    key: Option<CacheKey>,
    may_go_on: bool,
    beginning: bool,
}

impl<'a> FileView<'a> {
    fn new(of: &'a Computed, view: &'a View, snapshot: Snapshot) -> Self {
        Self { of, view, snapshot, key: None, may_go_on: false, beginning: false }
    }

    fn facts(&self, engine: &Engine) -> Result<FileFacts> {
        let mut facts = facts(engine, &self.snapshot)?;
        if matches!(self.view, View::Summary) {
            facts.same_name = others_at(engine, &self.snapshot.place)?;
        }
        Ok(facts)
    }

    fn spool<'e>(&self, engine: &'e Engine) -> Spool<'e> {
        engine.spool(Some(self.snapshot.at.0.clone()))
    }
}

/// Computes the text of a view of a file. `again` is true if the text was computed before. It must
/// then come from exactly the same version.
pub(crate) fn show_view(
    engine: &Engine,
    of: &Computed,
    source: &Source,
    view: &View,
    again: bool,
) -> Result<ViewText> {
    let snapshot = source.snapshot(engine)?;
    let other = of.recipe.version(engine, &of.base, false)?;
    if again && of.version != snapshot.version(engine)?.with(&other) {
        return Err(EngineError::Stale);
    }
    let may_go_on = !again && view.shows_beginning();
    show_snapshot(engine, FileView { may_go_on, ..FileView::new(of, view, snapshot) })
}

fn show_snapshot(engine: &Engine, mut shown: FileView<'_>) -> Result<ViewText> {
    let (of, view) = (shown.of, shown.view);
    let facts = shown.facts(engine)?;
    of.note_tool(|| facts.record.provenance.tool_name().map(counted_tool));
    if view.may_be_cached() {
        let keys = cache_keys(engine, &shown.snapshot, &facts, view);
        if let Some(cached) = keys.iter().find_map(|key| ViewText::cached(&engine.cache, key)) {
            return Ok(cached);
        }
        shown.key = keys.into_iter().next();
    }
    let source = shown.snapshot.source.clone();
    let conversation = Some(shown.snapshot.at.0.clone());
    let _used = source.state().tracker.in_use(&engine.kept_analyses, conversation);
    match show_content(engine, &mut shown, facts) {
        Err(error) if shown.snapshot.file.is_far() && is_away(&error, view) => {
            // The next look-up tries again.
            source.note_change();
            show_away(engine, &shown, &error)
        }
        made => made,
    }
}

/// Returns the sizes of views that listings show, so that a listing does not have to compute views.
/// The file is sealed and open as `open`. The descriptor should not update the access time, because
/// sealing is no access by a user.
///
/// Returns `None` if the sizes must not be recorded: for a large file, for a file that may change
/// without a change of its times, for one of several outputs that were written under the same name,
/// and if secrets are masked.
pub(crate) fn view_sizes(
    engine: &Engine,
    file: &Arc<dyn DoorFile>,
    open: &Arc<File>,
) -> Option<ViewSizes> {
    let (place, stat) = (file.place()?, stat_file(open).ok()?);
    let (id, path) = &place;
    let is_pinned = engine.secrets.0.is_none() && !engine.store.clock().is_recent(&stat);
    let has_its_name_alone = || others_of(engine, id, path).is_ok_and(|others| others.is_empty());
    if stat.size > QUICK_INPUT || !is_pinned || !has_its_name_alone() {
        return None;
    }
    let conversation = engine.conversation(id).ok()?;
    let record = file.state().life.lock().present_record(&conversation, path, &stat, None);
    let mut record = record.ok()?;
    record.provenance.update(&provenance_of(open).ok()?);
    let facts = facts_number(&place, &record, &[]);
    let size = |view: &View| {
        let recipe = Recipe::View(view.clone().shared());
        let computed = Computed::new(recipe, Base::Nothing, Version::default());
        let snapshot = Snapshot::of(engine, file, OpenFile::Here(Arc::clone(open))).ok()?;
        let shown = FileView::new(&computed, view, snapshot);
        let may_go_on = view.shows_beginning();
        let text = show_snapshot(engine, FileView { may_go_on, ..shown }).ok()?;
        text.is_whole().then(|| text.len())
    };
    let (summary, tail) = (size(&View::Summary)?, size(&View::Tail)?);
    let basis = basis_of_sizes(engine, &place, (&record, facts), &stat);
    // Another output of the same name may have arrived while the views were measured.
    has_its_name_alone().then_some(ViewSizes { basis, summary, tail })
}

/// Returns true if `error` means that remote bytes cannot be read and the text of `view` can report
/// it.
fn is_away(error: &EngineError, view: &View) -> bool {
    let cannot_be_had = matches!(error.raw_os_error(), libc::EIO | libc::ESTALE);
    // A stale file is looked up again instead.
    matches!(view, View::Summary) && cannot_be_had && !matches!(error, EngineError::Stale)
}

/// The message for remote bytes that are missing from the bucket.
const GONE: &str = "the bucket has them no more, as another host has removed the output or they \
                    were lost; `ctxfs remote check` tells what is missing";

/// Returns the summary of an artifact whose bytes cannot be read because of `error`.
fn show_away(engine: &Engine, shown: &FileView<'_>, error: &EngineError) -> Result<ViewText> {
    let snapshot = &shown.snapshot;
    let mut record = snapshot.record.clone();
    engine.secrets.mask_provenance(&mut record.provenance);
    let is_gone = error.raw_os_error() == libc::ESTALE;
    let why = if is_gone { GONE.to_owned() } else { error.to_string() };
    let same_name = others_at(engine, &snapshot.place)?;
    let text = ctxfs_view::away(&record, &why, &snapshot.place, &same_name);
    Ok(engine.held_text(&text, Some(snapshot.at.0.clone()))?.with_whole(false))
}

fn show_content(engine: &Engine, shown: &mut FileView<'_>, facts: FileFacts) -> Result<ViewText> {
    let limit = ReadLimit::new(engine.options.view_deadline);
    let expired = deadline(engine.options.view_deadline);
    let file = match shown_file(engine, shown, facts, (&expired, &limit)) {
        Err(EngineError::Io(error)) if limit.ended(&error) => {
            Counters::add(&engine.counters.views_out_of_time, 1);
            shown.snapshot.source.note_change();
            return Ok(shown.spool(engine).finish(Rendered::out_of_time(), None)?);
        }
        found => found?,
    };
    file.with_subject(&engine.secrets, &engine.filters, |subject| {
        write_view(engine, shown, subject, &limit)
    })
}

/// Calls `show` with a file as views see it and with its complete analysis.
pub(crate) fn with_subject<T>(
    engine: &Engine,
    source: &Source,
    show: impl FnOnce(&Subject<'_>) -> T,
) -> Result<T> {
    // The summary is a view that needs the complete analysis.
    with_subject_of(engine, source, &View::Summary, &deadline(engine.options.view_deadline), show)
}

/// Renders a view of a file into memory until `expired` returns true. Neither keeps nor counts the
/// text.
pub(crate) fn render_here(
    engine: &Engine,
    source: &Source,
    view: &View,
    expired: &dyn Fn() -> bool,
) -> Result<(Vec<u8>, Rendered)> {
    let mut text = Vec::new();
    let rendered = with_subject_of(engine, source, view, expired, |subject| {
        ctxfs_view::render(view, subject, expired, &mut text)
    })??;
    Ok((text, rendered))
}

/// Calls `show` with a file as `view` sees it. The file has the analysis that `view` needs, as far
/// as it is complete when `expired` returns true.
fn with_subject_of<T>(
    engine: &Engine,
    source: &Source,
    view: &View,
    expired: &dyn Fn() -> bool,
    show: impl FnOnce(&Subject<'_>) -> T,
) -> Result<T> {
    let of = &Computed::new(Recipe::View(view.clone().shared()), Base::Nothing, Version::default());
    let mut shown = FileView::new(of, view, source.snapshot(engine)?);
    let facts = shown.facts(engine)?;
    let conversation = Some(shown.snapshot.at.0.clone());
    let _used = source.state().tracker.in_use(&engine.kept_analyses, conversation);
    let limit = ReadLimit::new(engine.options.view_deadline);
    let shown = shown_file(engine, &mut shown, facts, (expired, &limit))?;
    Ok(shown.with_subject(&engine.secrets, &engine.filters, show))
}

const NOT_READABLE: &str = "the earlier output is not shown: its permissions let fewer users read it \
                            than those of this output";

/// Returns a file as a view sees it, with the earlier output if the view compares with one.
fn shown_file(
    engine: &Engine,
    shown: &mut FileView<'_>,
    mut facts: FileFacts,
    limits: (&dyn Fn() -> bool, &Arc<ReadLimit>),
) -> Result<ShownFile<'static>> {
    let earlier = EarlierOutput::find(engine, shown.view, &shown.snapshot.at, &facts.record)?;
    let (content, analysis) = content(engine, shown, &mut facts, limits)?;
    let mut file = ShownFile::new(&engine.secrets, content, analysis, facts);
    if let Some(EarlierOutput { run, source }) = earlier {
        let read = || {
            let (own, earlier) = (shown.snapshot.stat, source.snapshot(engine)?);
            if !earlier.stat.is_readable_by_readers_of(&own) {
                return Ok(EarlierFile::Missing(NOT_READABLE.to_owned()));
            }
            let mut shown = FileView::new(shown.of, &View::Errors, earlier);
            let facts = shown.facts(engine)?;
            let file = Box::new(shown_file(engine, &mut shown, facts, limits)?);
            Ok(EarlierFile::Output { run, file })
        };
        file.earlier = Some(match read() {
            Ok(earlier) => earlier,
            Err(EngineError::Io(error)) if limits.1.ended(&error) => return Err(error.into()),
            Err(error) => {
                EarlierFile::Missing(format!("the earlier output cannot be read: {error}"))
            }
        });
    }
    Ok(file)
}

fn facts(engine: &Engine, snapshot: &Snapshot) -> Result<FileFacts> {
    let Snapshot { file, record, place, .. } = snapshot;
    let limits = &*engine.options.limits;
    Ok(FileFacts::new(limits, &file.provenance()?, record.clone(), place.clone()))
}

/// Returns the content of a view's subject, with as much of its analysis as the view needs. The
/// content is the text of the file, or its raw bytes if time runs out before the analysis that the
/// view needs is complete.
fn content(
    engine: &Engine,
    shown: &mut FileView<'_>,
    facts: &mut FileFacts,
    (expired, limit): (&dyn Fn() -> bool, &Arc<ReadLimit>),
) -> Result<(Box<dyn Content>, Arc<Analysis>)> {
    let needs_all = shown.view.needs_analysis();
    let mut known = needed_analysis(engine, shown, expired)?;
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

fn needed_analysis(
    engine: &Engine,
    FileView { view, snapshot, .. }: &FileView<'_>,
    expired: &dyn Fn() -> bool,
) -> Result<AnalysisSoFar> {
    if !view.needs_analysis() && !snapshot.at.1.is_terminal() {
        if let Some(analysis) = snapshot.known_analysis(engine)? {
            return Ok(AnalysisSoFar { analysis, whole: true });
        }
        let start = sniff(&snapshot.file.content(snapshot.length))?;
        if start.analysis.plain.is_none() {
            return Ok(AnalysisSoFar { whole: false, ..start });
        }
    }
    snapshot.analysis(engine, expired)
}

/// Returns the text of `raw`, as far as `raw` is analysed. Replaces `known` by the analysis of that
/// text. Returns `None` if the text is the bytes as they are.
fn plain_text(
    engine: &Engine,
    shown: &FileView<'_>,
    raw: &FileContent,
    known: &mut AnalysisSoFar,
    (expired, limit): (&dyn Fn() -> bool, &Arc<ReadLimit>),
) -> Result<Option<PlainText<Timed<FileContent>>>> {
    let (snapshot, bytes) = (&shown.snapshot, known.analysis.bytes);
    let tracker = &snapshot.source.state().tracker;
    let reading = known.analysis.text_reading();
    if bytes == raw.len() && !known.analysis.is_decoded() {
        return Ok(None);
    }
    let raw = raw.file().content(bytes);
    if let Some(text) = text_at_places(shown, (&raw, limit), &known.analysis) {
        known.analysis = Arc::new(known.analysis.of_text());
        return Ok(Some(text));
    }
    if tracker.read(Analyzer::seen) < bytes {
        // A recorded analysis has no checkpoints. If time runs out before checkpoints are made, the
        // text is computed without them.
        snapshot.analyse(engine, bytes, expired)?;
    }
    let checkpoints = tracker.read(Analyzer::checkpoints).of_reading(reading);
    let text = PlainText::new(Timed::new(raw, limit), checkpoints)?;
    known.analysis = Arc::new(known.analysis.of_text());
    Ok(Some(text))
}

/// Returns the text of a remote log if its analysis has positions at which reading can start, and
/// if the view reads only parts of the text. Other views need the complete text.
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
    let checkpoints = Checkpoints::at(places, analysis.text_reading());
    Some(PlainText::of_length(raw, checkpoints, analysis.plain?))
}

/// Writes a view of a file. If its text can be kept, continues past the deadline.
fn write_view(
    engine: &Engine,
    shown: &FileView<'_>,
    subject: &Subject<'_>,
    limit: &ReadLimit,
) -> Result<ViewText> {
    let FileView { of, view, snapshot, key, .. } = shown;
    let spool = shown.spool(engine);
    let begin = || {
        if !shown.may_go_on || key.is_none() {
            return None;
        }
        let permit = engine.late.take()?;
        limit.extended.store(true, Relaxed);
        Counters::add(&engine.counters.views_out_of_time, 1);
        of.give_beginning(spool.beginning(ctxfs_view::beginning_notice().to_owned()));
        Some(permit)
    };
    let goes_on = || {
        let unchanged = snapshot.source.changes() == snapshot.changes;
        let has_room = spool.length() <= engine.options.disk_cache_bytes;
        let goes_on = unchanged && has_room && !engine.late.closed.load(Relaxed);
        limit.extended.store(goes_on, Relaxed);
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
        snapshot.source.note_change();
    }
    let now = snapshot.file.as_ref().stat()?;
    drop(expired);
    let key = key.clone().filter(|_| now.is_unchanged(&snapshot.stat));
    Ok(spool.finish(rendered, key)?)
}

fn in_time(rendered: RenderResult, limit: &ReadLimit) -> RenderResult {
    match rendered {
        Err(RenderError::Io(error)) if limit.ended(&error) => Ok(Rendered::out_of_time()),
        rendered => rendered,
    }
}

pub(crate) fn show_view_of_view(
    engine: &Engine,
    base: &Computed,
    base_text: &BaseText,
    view: &View,
) -> Result<ViewText> {
    let text = &base_text.text;
    // If the text is only a notice, a search of it would find nothing and hide the reason.
    if text.is_notice() && matches!(view, View::Grep(_)) {
        return Ok(ViewText::clone(text));
    }
    let key = text
        .key
        .as_ref()
        .and_then(|base| CacheKey::of(&[b"of a view", base.as_bytes(), exact(view).as_bytes()]));
    if let Some(cached) = key.as_ref().and_then(|key| ViewText::cached(&engine.cache, key)) {
        return Ok(cached);
    }
    let Recipe::View(base_view) = &base.recipe else { return Err(EngineError::Stale) };
    let facts = facts(engine, &base.base.source()?.snapshot(engine)?)?;
    let facts = FileFacts { place: facts.place.of_view(&base_view.to_string()), ..facts };
    let analysis = sniff(&**text)?.analysis;
    let all = engine.options.view_deadline;
    let left = all.saturating_sub(base_text.asked.elapsed()).max(all / 2);
    let (expired, limit) = (deadline(left), ReadLimit::new(left));
    let content = Box::new(Timed::new(&**text, &limit));
    let shown = ShownFile::of_masked(&engine.secrets, content, analysis, facts);
    let spool = engine.spool(base.base.conversation());
    let rendered = shown.with_subject(&engine.secrets, &engine.filters, |subject| {
        ctxfs_view::render(view, subject, &expired, &mut &spool)
    });
    let mut rendered = in_time(rendered, &limit)?;
    if !rendered.whole {
        Counters::add(&engine.counters.views_out_of_time, 1);
        base.work_mut(|work| work.late += 1);
    }
    if !text.is_whole() {
        rendered = rendered.of_beginning(&shown.facts.place);
    }
    Ok(spool.finish(rendered, key)?)
}

/// Returns the analysis of the beginning of a file, for a view that shows the raw bytes. Omits
/// positions, because they refer to the text.
fn without_places(analysis: &Analysis) -> Analysis {
    Analysis {
        plain: None,
        reading: Reading::default(),
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

/// Maximum wait until the times of a file have settled. After that, each change of the file is
/// certain to change its times.
const WAIT: Duration = Duration::from_millis(20);

/// Returns the keys of the text of `view` in the store's cache, which outlives this process. The
/// text is kept under the first key. The second key finds a text that was made before the file was
/// sealed.
///
/// Returns no keys if a later state of the file could not be told from the current one. Also
/// returns none if secrets are masked, so that no further copy of a secret is written to the disk.
/// For a large view that can have views of its own, waits until the file's times have settled.
/// Otherwise the large view would be computed again for each of its views.
fn cache_keys(
    engine: &Engine,
    snapshot: &Snapshot,
    facts: &FileFacts,
    view: &View,
) -> Vec<CacheKey> {
    if !may_be_kept(engine, snapshot, view) {
        return Vec::new();
    }
    let sealed = match Identity::of(&snapshot.record, &snapshot.stat) {
        Identity::Sealed(digest) => {
            let Record { generation, state, created, provenance, .. } = &facts.record;
            Some(format!("{digest} {generation} {state:?} {created} {provenance:?}"))
        }
        Identity::Local(_) => None,
    };
    let local = local_state(&snapshot.stat.original(&facts.record));
    let (place, settings) = (snapshot.place.file(), format!("{:?}", facts.limits));
    let key = |bytes: String| {
        let parts = ["of a file", &bytes, &place, &settings, &exact(view)];
        CacheKey::of(&parts.map(str::as_bytes))
    };
    sealed.into_iter().chain([local]).filter_map(key).collect()
}

fn may_be_kept(engine: &Engine, Snapshot { stat, is_written, .. }: &Snapshot, view: &View) -> bool {
    // With a writer, each further write would leave a useless text behind. If a clock was set back,
    // a later change may get the same time again.
    let is_ahead = || stat.ctime.max(stat.mtime).age().is_none();
    if engine.secrets.0.is_some() || *is_written || is_ahead() {
        return false;
    }
    let Some(pause) = engine.store.clock().settles_in(stat) else { return true };
    let waits = view.has_views() && stat.size > QUICK_INPUT && pause <= WAIT;
    if waits {
        thread::sleep(pause);
    }
    waits
}

fn local_state(stat: &Stat) -> String {
    let times = (stat.mtime.as_nanos(), stat.ctime.as_nanos());
    format!("{:?} {} {times:?}", FileId::of(stat), stat.size)
}

/// Returns `view` as text. Uses `Debug` because a query may contain bytes that are not UTF-8, which
/// `Display` does not preserve.
fn exact(view: &View) -> String {
    format!("{view:?}")
}
