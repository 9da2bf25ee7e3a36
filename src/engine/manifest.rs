//! `manifest.json` of a conversation: the references of its artifacts.

use std::sync::Arc;

use crate::{Engine, EngineError, Reader, Result, SourceDir, Version, ViewText};
use ctxfs_core::model::{ContextRef, Folder, RelPath};
use ctxfs_store::{Artifacts, Conversation, UnreadPlaces};
use ctxfs_view::{ClosedCounts, Rendered};

/// Returns the version of the manifest of the directory's conversation. The version changes with
/// every record, and with every file that is added or removed. For a reader that is restricted by
/// file modes, every call returns a new version, because any mode may have changed.
pub(crate) fn version(engine: &Engine, dir: &dyn SourceDir, reader: &Reader) -> Result<Version> {
    let conversation = conversation_of(engine, dir)?;
    if *reader != Reader::Server {
        return Ok(Version { changes: engine.watches.next_number(), ..Version::default() });
    }
    let mut version = Version { facts: conversation.manifest().version()?, ..Version::default() };
    for folder in [Folder::Tool, Folder::Terminal] {
        let path = RelPath::new(folder.path())?;
        if let Ok(stat) = conversation.dir().stat_at(&path) {
            version.changes = version.changes.rotate_left(7) ^ stat.ctime.as_nanos() as u64;
        }
    }
    Ok(version)
}

/// Computes the references of all artifacts on disk that the reader may read, oldest first. Then
/// adds references that report the artifacts left out. Holds all paths in memory, but only one
/// record at a time.
pub(crate) fn show_manifest(
    engine: &Engine,
    dir: &dyn SourceDir,
    reader: &Reader,
) -> Result<ViewText> {
    let conversation = conversation_of(engine, dir)?;
    let mut source = References::of(engine, &conversation, reader)?;
    let spool = engine.spool(Some(conversation.id().clone()));
    ctxfs_view::manifest(&mut source, &mut &spool)?;
    let is_whole = source.unread.is_empty();
    Ok(spool.finish(Rendered { notice: None, whole: is_whole }, None)?)
}

fn conversation_of(engine: &Engine, dir: &dyn SourceDir) -> Result<Arc<Conversation>> {
    let place = dir.place()?;
    engine.conversation(place.conversation().ok_or(EngineError::Stale)?)
}

/// An iterator over the references of a conversation, oldest artifact first.
///
/// - `left`: the number of artifacts not yet returned. The newest artifact has number 0 and comes
///   last.
/// - `last`: the references that report the artifacts left out. `None` until all artifacts have
///   been returned.
struct References<'a> {
    engine: &'a Engine,
    conversation: &'a Conversation,
    reader: &'a Reader,
    artifacts: Artifacts,
    left: usize,
    closed: ClosedCounts,
    unread: UnreadPlaces,
    last: Option<std::vec::IntoIter<ContextRef>>,
}

impl<'a> References<'a> {
    fn of(engine: &'a Engine, conversation: &'a Conversation, reader: &'a Reader) -> Result<Self> {
        let mut closed = ClosedCounts::default();
        let artifacts = Artifacts::below(conversation, None, |dir| {
            let open = reader.may_read(|| dir.stat_self())?;
            closed.directories += u64::from(!open);
            Ok(open)
        })?;
        let (left, unread) = (artifacts.count(), artifacts.unread().clone());
        Ok(Self { engine, conversation, reader, artifacts, left, closed, unread, last: None })
    }

    fn following(&mut self) -> Result<Option<ContextRef>> {
        while let Some(number) = self.left.checked_sub(1) {
            self.left = number;
            if let Some(reference) = self.artifact(number)? {
                return Ok(Some(reference));
            }
        }
        let last = self.last.take().unwrap_or_else(|| self.not_listed());
        Ok(self.last.insert(last).next())
    }

    fn artifact(&mut self, number: usize) -> Result<Option<ContextRef>> {
        let (conversation, path) = (self.conversation, self.artifacts.path(number));
        let Some(stat) = self.artifacts.stat(number, &mut self.unread)? else { return Ok(None) };
        if !self.reader.may_read(|| Ok::<_, EngineError>(stat))? {
            self.closed.artifacts += 1;
            return Ok(None);
        }
        let record = match conversation.record(path) {
            Ok(record) => record,
            Err(error) => self.unread.pass_over(conversation.path(), error).map(|()| None)?,
        };
        let mut record = record.unwrap_or_else(|| Conversation::fresh_record(path, &stat));
        self.engine.secrets.mask_provenance(&mut record.provenance);
        let place = self.engine.options.place(conversation.id(), path);
        Ok(Some(ctxfs_view::context_ref(&record, &place, stat.size, record.analysis.as_ref())))
    }

    fn not_listed(&self) -> std::vec::IntoIter<ContextRef> {
        let id = self.conversation.id().to_text();
        let closed = ctxfs_view::ref_to_closed(&id, self.closed);
        let named = self.unread.named().iter();
        let named = named.map(|at| ctxfs_view::ref_to_unread(&id, &at.path, &at.why));
        let more =
            self.unread.more().map(|more| ctxfs_view::ref_to_unread(&id, "artifacts", &more));
        closed.into_iter().chain(named).chain(more).collect::<Vec<_>>().into_iter()
    }
}

impl Iterator for References<'_> {
    type Item = Result<ContextRef>;

    fn next(&mut self) -> Option<Self::Item> {
        self.following().transpose()
    }
}
