//! `.grep/` and `.find/` of a directory: searches of all artifacts below the directory. Those of a
//! conversation also search its message log.

use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use crate::deadline::deadline;
use crate::{
    Computed, Counters, DirPlace, Engine, EngineError, FileId, OpenFile, ReadLimit, Reader,
    RemoteFile, Result, SourceDir, Timed, Version, ViewText,
};
use ctxfs_core::materialize::{PlainText, decode, reading};
use ctxfs_core::model::{Component, Place, RelPath, Root};
use ctxfs_store::{Artifacts, read_full_at, stat_file};
use ctxfs_view::{Corpus, CorpusQuery, Directory, Loaded, Rendered};

fn shown_place(place: &DirPlace, root: &Root) -> Result<Place> {
    let id = place.conversation().ok_or(EngineError::Stale)?.to_text();
    let of_path = |path: &RelPath| Place::below(root, &id, path);
    Ok(place.path().map_or_else(|| Place::of_conversation(root, &id), of_path))
}

/// Returns the version of a search of the directory `dir`. The version changes with every change of
/// an artifact below the directory, and with every record of the conversation.
pub(crate) fn version(engine: &Engine, dir: &dyn SourceDir) -> Result<Version> {
    let stat = dir.dir()?.stat_self()?;
    let place = dir.place()?;
    let id = place.conversation().ok_or(EngineError::Stale)?;
    let mut hasher = DefaultHasher::new();
    let conversation = engine.conversation(id)?;
    conversation.manifest().version()?.hash(&mut hasher);
    if place.path().is_none()
        && let Some(log) = conversation.log_file()?
    {
        let stat = stat_file(&log)?;
        (stat.size, stat.mtime.as_nanos()).hash(&mut hasher);
    }
    (id, place.path()).hash(&mut hasher);
    Ok(Version {
        changes: engine.watches.number(FileId::of(&stat)),
        modified: stat.mtime.as_nanos(),
        facts: hasher.finish(),
        ..Version::default()
    })
}

pub(crate) fn search(
    engine: &Engine,
    of: &Computed,
    (query, reader): (&CorpusQuery, &Reader),
    again: bool,
) -> Result<ViewText> {
    let dir = of.base.dir()?;
    if again && of.version != version(engine, dir)? {
        return Err(EngineError::Stale);
    }
    let expired = deadline(engine.options.view_deadline);
    let (place, id) = (dir.place()?, FileId::of(&dir.dir()?.stat_self()?));
    let artifacts = SearchedArtifacts::of(engine, &place, (id, reader))?;
    let directory = Directory {
        place: &shown_place(&place, &engine.options.root)?,
        corpus: &artifacts,
        redacts: engine.secrets.rules(),
    };
    let mut spool = engine.spool(place.conversation().cloned());
    let rendered = query.render(&directory, &expired, &mut spool)?;
    if !rendered.whole {
        // The next look-up tries again.
        Counters::add(&engine.counters.views_out_of_time, 1);
        engine.watches.renew(id);
    }
    Ok(spool.finish(rendered, None)?)
}

/// Searches all artifacts of the conversation `id` until `expired` returns true. Neither keeps nor
/// counts the result. Returns the text, its outcome, and the path of the conversation's searches,
/// which the notice names.
pub(crate) fn search_here(
    engine: &Engine,
    id: &Component,
    query: &CorpusQuery,
    expired: &(dyn Fn() -> bool + Sync),
) -> Result<(Vec<u8>, Rendered, String)> {
    let place = DirPlace::Conversation(id.clone());
    let shown = shown_place(&place, &engine.options.root)?;
    let dir = FileId::of(&engine.conversation(id)?.dir().stat_self()?);
    let artifacts = SearchedArtifacts::of(engine, &place, (dir, &Reader::Server))?;
    let directory =
        Directory { place: &shown, corpus: &artifacts, redacts: engine.secrets.rules() };
    let mut text = Vec::new();
    let rendered = query.render(&directory, expired, &mut text)?;
    Ok((text, rendered, shown.of_view("/.grep/").file()))
}

/// The artifacts that a search reads.
///
/// - `closed`: the number of directories that the reader may not read
/// - `base`: the directory to which the paths are relative. `None` for the conversation's own
///   directory.
struct SearchedArtifacts<'a> {
    artifacts: Artifacts,
    reader: &'a Reader,
    closed: u64,
    engine: &'a Engine,
    conversation: Component,
    base: Option<RelPath>,
    limit: Arc<ReadLimit>,
}

impl<'a> SearchedArtifacts<'a> {
    fn of(
        engine: &'a Engine,
        place: &DirPlace,
        (dir, reader): (FileId, &'a Reader),
    ) -> Result<Self> {
        let limit = ReadLimit::new(engine.options.view_deadline);
        let id = place.conversation().ok_or(EngineError::Stale)?;
        let conversation = engine.conversation(id)?;
        let mut arming = engine.watches.arm(dir);
        let mut closed = 0;
        let mut artifacts = Artifacts::below(&conversation, place.path(), |dir| {
            arming.enter(dir);
            let open = reader.may_read(|| dir.stat_self())?;
            closed += u64::from(!open);
            Ok(open)
        })?;
        arming.done();
        if place.path().is_none() {
            artifacts.add_messages();
        }
        let (base, conversation) = (place.path().cloned(), id.clone());
        Ok(Self { artifacts, reader, closed, engine, conversation, base, limit })
    }

    /// Opens an artifact. Returns `None` if it no longer exists.
    fn open(&self, number: usize) -> io::Result<Option<OpenFile>> {
        if let Some(far) = self.artifacts.far(number) {
            return Ok(Some(OpenFile::Far(RemoteFile::open(
                &self.engine.options,
                &self.conversation,
                far,
            ))));
        }
        match self.artifacts.open(number) {
            Ok(file) => Ok(Some(OpenFile::Here(Arc::new(file)))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads the beginning of a file. Returns the number of bytes read. For a file that a door has
    /// open for writing, also returns its length at a moment when no write is in progress.
    fn load_start(&self, file: &OpenFile, buffer: &mut [u8]) -> io::Result<(Option<u64>, usize)> {
        let OpenFile::Here(here) = file else {
            return Ok((None, file.as_ref().read_at(0, buffer)?));
        };
        let settled = self.engine.live.length(here, self.engine.store.clock())?;
        let most = settled.map_or(buffer.len(), |length| buffer.len().min(length as usize));
        Ok((settled, read_start(here, &mut buffer[..most])?))
    }

    fn is_log(&self, number: usize) -> bool {
        let path = self.artifacts.path(number);
        let Some(base) = &self.base else { return path.is_terminal() };
        let whole = Path::new(base.as_os_str()).join(path.as_os_str());
        RelPath::new(whole).is_ok_and(|path| path.is_terminal())
    }
}

/// Reads the beginning of a file. A small file takes only one call: a read can fail or be
/// interrupted only between memory pages, so a read that stops inside a page has reached the end of
/// the file.
fn read_start(file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    const PAGE: usize = 4096;
    match file.read_at(buffer, 0) {
        Ok(count) if !count.is_multiple_of(PAGE) => Ok(count),
        _ => read_full_at(file, 0, buffer),
    }
}

impl Corpus for SearchedArtifacts<'_> {
    fn len(&self) -> usize {
        self.artifacts.count()
    }

    fn closed_directories(&self) -> u64 {
        self.closed
    }

    fn path(&self, number: usize) -> &RelPath {
        self.artifacts.path(number)
    }

    fn unlisted(&self) -> (u64, Vec<String>) {
        let unread = self.artifacts.unread();
        let named = unread.named().iter();
        (unread.count(), named.map(|place| format!("{} ({})", place.path, place.why)).collect())
    }

    fn load(&self, number: usize, buffer: &mut [u8]) -> io::Result<Loaded> {
        let Some(file) = self.open(number)? else { return Ok(Loaded::Gone) };
        if !self.reader.may_read(|| file.as_ref().stat())? {
            return Ok(Loaded::Closed);
        }
        let (settled, count) = self.load_start(&file, buffer)?;
        let Some(reading) = reading(&buffer[..count], self.is_log(number)) else {
            return Ok(Loaded::Binary);
        };
        if count < buffer.len() {
            if reading.is_plain() {
                return Ok(Loaded::Whole(count));
            }
            let text = decode(&buffer[..count], reading);
            let Some(whole) = buffer.get_mut(..text.len()) else {
                return Ok(Loaded::Opened(Box::new(text)));
            };
            whole.copy_from_slice(&text);
            return Ok(Loaded::Whole(text.len()));
        }
        let length = settled.map_or_else(|| file.as_ref().stat().map(|stat| stat.size), Ok)?;
        let artifact = Timed::new(file.content(length), &self.limit);
        if reading.is_plain() {
            return Ok(Loaded::Opened(Box::new(artifact)));
        }
        Ok(Loaded::Opened(Box::new(PlainText::whole(artifact, reading)?)))
    }
}
