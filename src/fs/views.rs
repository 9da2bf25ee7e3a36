//! The bytes of a view: of a file, and of what another view says.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use crate::fs::Counters;
use crate::fs::FsError;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::analysis::Found;
use crate::fs::body::Body;
use crate::fs::body::Spool;
use crate::fs::file::FileNode;
use crate::fs::inode::Key;
use crate::fs::kept;
use crate::fs::node::Node;
use crate::fs::node::NodeKind;
use crate::fs::overtime;
use crate::fs::rendered::RenderedKey;
use crate::fs::rendered::RenderedNode;
use crate::fs::rendered::Source;
use crate::fs::rendered::Text;
use crate::fs::rendered::Version;
use crate::fs::terminal::without_places;
use crate::materialize::Analyzer;
use crate::materialize::SNIFFED;
use crate::model::Analysis;
use crate::model::Content;
use crate::model::Limits;
use crate::model::Place;
use crate::model::Record;
use crate::model::Subject;
use crate::store::Artifact;
use crate::store::CacheKey;
use crate::store::Stat;
use crate::store::provenance_of;
use crate::store::stat_file;
use crate::view;
use crate::view::RenderError;
use crate::view::View;

/// A file as it was when a view of it began.
struct Seen<'a> {
    file: &'a FileNode,
    reader: Arc<File>,
    stat: Stat,
    changes: u64,
    /// What the view is kept by, if the file is still the same when it ends.
    key: Option<CacheKey>,
    /// There was time for the beginning of a terminal's log alone.
    beginning: bool,
}

impl<'a> Seen<'a> {
    /// Between two writes.
    fn of(file: &'a FileNode) -> Result<Self> {
        let reader = file.reader()?;
        let writing = file.writing();
        let (stat, changes) = (stat_file(&reader)?, writing.changes);
        drop(writing);
        Ok(Self { file, reader, stat, changes, key: None, beginning: false })
    }
}

/// What is known of a file, beside its bytes, when a view of it, or of what a view of it says, is
/// computed.
struct Known {
    record: Record,
    place: Place,
    limits: Limits,
}

impl Shared {
    /// The view `own` of the file `node`. `again`: it has been computed before, at the moment
    /// `version`.
    pub(crate) fn render_view(
        &self,
        own: &RenderedNode,
        node: &Node,
        view: &View,
        version: &Version,
        again: bool,
    ) -> Result<Body> {
        let mut seen = Seen::of(node.as_file()?)?;
        if again && *version != self.version_at(node, &seen.stat, seen.changes)? {
            return Err(FsError::Stale);
        }
        let mut known = self.known(node, &seen.stat, &seen.reader, self.place(node)?)?;
        own.tool.get_or_init(|| known.record.provenance.tool_name());
        if !needs_analysis(view) {
            seen.key = self.key(seen.file, &seen.stat, &known.place, &known.limits, view);
        }
        if let Some(kept) = seen.key.as_ref().and_then(|key| Body::kept(&self.cache, key)) {
            return Ok(kept);
        }
        let (content, mut analysis) = self.content(node, view, &mut seen, &mut known)?;
        let masked = self.hide_secrets(&*content, &mut known.record, &mut analysis);
        let content = masked.as_ref().map_or(&*content, |masked| masked);
        let subject = self.subject(content, &analysis, &known);
        let own = (!again && view.goes_on()).then_some(own);
        self.write_view(own, view, &subject, seen)
    }

    fn known(&self, node: &Node, stat: &Stat, reader: &File, place: Place) -> Result<Known> {
        let mut record = self.record(node, stat)?;
        record.provenance.update(&provenance_of(reader)?);
        let limits = self.options.limits.limits(record.provenance.tool_name().as_deref());
        Ok(Known { record, place, limits })
    }

    /// The bytes that a view of a file looks at, of a terminal's log its text, and their analysis as far
    /// as the view needs it.
    fn content(
        &self,
        node: &Node,
        view: &View,
        seen: &mut Seen<'_>,
        known: &mut Known,
    ) -> Result<(Box<dyn Content>, Arc<Analysis>)> {
        let expired = until(self.options.view_deadline);
        let (whole, is_log) = (needs_analysis(view), seen.file.is_terminal_log());
        let size = self.shown(node, seen.stat)?.size;
        let mut found = if whole || is_log {
            self.analysis(node, &seen.reader, Some(&known.record), &expired)?
        } else {
            let content = Artifact::new(Arc::clone(&seen.reader), size);
            Found { whole: false, ..sniff(&content)? }
        };
        known.record.size = if found.whole { found.analysis.bytes } else { size };
        let artifact = Artifact::new(Arc::clone(&seen.reader), known.record.size);
        let late = is_log && !found.whole;
        seen.beginning = late && !whole;
        if late && whole {
            found.analysis = Arc::new(without_places(&found.analysis));
        }
        let text = if is_log && !(late && whole) {
            self.text_of(seen.file, &artifact, &mut found, &expired)?
        } else {
            None
        };
        let content: Box<dyn Content> = match text {
            Some(text) => Box::new(text),
            None => Box::new(artifact),
        };
        Ok((content, found.analysis))
    }

    fn subject<'a>(
        &'a self,
        content: &'a dyn Content,
        analysis: &'a Analysis,
        known: &'a Known,
    ) -> Subject<'a> {
        let Known { record, place, limits } = known;
        let (redacts, filters) = (self.mask_names(), &self.filters);
        Subject { content, analysis, record, place, limits, redacts, filters }
    }

    /// Writes a view of what was `seen`. If it can be kept, `own`, the view itself, goes on when its
    /// time is up.
    fn write_view(
        &self,
        own: Option<&RenderedNode>,
        view: &View,
        subject: &Subject<'_>,
        seen: Seen<'_>,
    ) -> Result<Body> {
        let Seen { file, reader, stat, changes, key, beginning } = seen;
        let room = |length| self.room_for_result(length);
        let spool = Spool::new(&self.cache, &room);
        let begin = || {
            let own = own.filter(|_| key.is_some())?;
            let turn = self.overtime.take()?;
            Counters::add(&self.counters.views_out_of_time, 1);
            own.give(spool.beginning(view::goes_on().to_owned()));
            Some(turn)
        };
        let goes_on = || {
            let unchanged = file.writing().changes == changes;
            unchanged && spool.len() <= self.options.disk_cache_bytes && !self.overtime.is_closed()
        };
        let expired = overtime::until(self.options.view_deadline, begin, goes_on);
        let mut rendered = view::render(view, subject, &expired, &mut &spool).map_err(refused)?;
        if beginning {
            rendered = rendered.of_beginning(subject.place);
        }
        if !rendered.whole {
            // Whoever looks it up again gets another try.
            Counters::add(&self.counters.views_out_of_time, 1);
            file.writing().changes += 1;
        }
        let now = stat_file(&reader)?;
        drop(expired);
        let key = key.filter(|_| now.is_as(&stat));
        Ok(spool.finish(rendered, key)?)
    }

    /// A view of the text that the computed file `base` has.
    pub(crate) fn render_view_of_view(
        &self,
        base: &Node,
        text: &Text,
        view: &View,
    ) -> Result<Body> {
        let Text { text, asked } = text;
        // A search finds nothing in a text that only says why there is none.
        if text.is_notice() && matches!(view, View::Grep(_)) {
            return Ok(Body::clone(text));
        }
        let key = text.key().and_then(|base| kept::key_of_view(base, view));
        if let Some(kept) = key.as_ref().and_then(|key| Body::kept(&self.cache, key)) {
            return Ok(kept);
        }
        let (node, place) = self.place_of_text(base)?;
        let file = node.as_file()?;
        let mut known = self.known(&node, &file.stat()?, &*file.reader()?, place)?;
        let mut analysis = sniff(&**text)?.analysis;
        // The text is masked already.
        self.hide_secrets(&**text, &mut known.record, &mut analysis);
        let subject = self.subject(&**text, &analysis, &known);
        let all = self.options.view_deadline;
        let expired = until(all.saturating_sub(asked.elapsed()).max(all / 2));
        let room = |length| self.room_for_result(length);
        let spool = Spool::new(&self.cache, &room);
        let mut rendered = view::render(view, &subject, &expired, &mut &spool).map_err(refused)?;
        if !rendered.whole {
            Counters::add(&self.counters.views_out_of_time, 1);
            if let NodeKind::Rendered(base) = &base.kind {
                base.note_late();
            }
        }
        if !text.is_whole() {
            rendered = rendered.of_beginning(&known.place);
        }
        Ok(spool.finish(rendered, key)?)
    }

    /// How a reader names the file that `node` is.
    fn place(&self, node: &Node) -> Result<Place> {
        let (id, path) = node.place().ok_or(FsError::Stale)?;
        Ok(self.options.place(&id, &path))
    }

    /// The file that the computed file `base` is a view of, and how a reader names the view.
    fn place_of_text(&self, base: &Node) -> Result<(Arc<Node>, Place)> {
        let NodeKind::Rendered(rendered) = &base.kind else { return Err(FsError::Stale) };
        let Key::Rendered(RenderedKey { source: Source::View { view, .. }, .. }) = &base.key else {
            return Err(FsError::Stale);
        };
        let file = rendered.of.as_ref().ok_or(FsError::Stale)?;
        Ok((Arc::clone(file), self.place(file)?.of_view(&view.to_string())))
    }
}

/// Says when there is no more time.
pub(crate) fn until(limit: Duration) -> impl Fn() -> bool {
    let started = Instant::now();
    move || started.elapsed() >= limit
}

/// Views that speak of the whole content; the others look at what they show.
fn needs_analysis(view: &View) -> bool {
    match view {
        View::Summary | View::Meta | View::Ref | View::Envelope | View::Handle => true,
        View::Tail
        | View::Head
        | View::Lines(_)
        | View::Page(_)
        | View::Grep(_)
        | View::Errors
        | View::Terms
        | View::Pretty
        | View::Wrap
        | View::Shape
        | View::Jq(_)
        | View::Preview => false,
    }
}

/// The analysis of the first bytes alone: enough to tell text from binary, and the same whether
/// or not the artifact has been sealed.
pub(crate) fn sniff(content: &dyn Content) -> Result<Found> {
    let length = content.len().min(SNIFFED as u64);
    let mut analyzer = Analyzer::new();
    analyzer.push(&content.bytes(0, length as usize)?);
    let whole = analyzer.seen() == content.len();
    Ok(Found { analysis: Arc::new(analyzer.finish()), whole })
}

pub(crate) fn refused(error: RenderError) -> FsError {
    match error {
        RenderError::NotFound => FsError::NotFound,
        RenderError::Io(error) => FsError::Io(error),
    }
}
