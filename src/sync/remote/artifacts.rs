//! Artifacts whose bytes are in the bucket: reads, downloads, and eviction of local copies.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::OsString;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{fmt, io};

use parking_lot::Mutex;

use crate::bucket::{
    Blocks, FormatError, Line, Parts, Place, PutLine, object_key, segment_key, unpack_block,
    unpack_parts,
};
use crate::remote::blocks::{BlockSource, ObjectContent, ObjectLocation};
use crate::remote::files::mark_of;
use crate::remote::{Home, Notes, Objects, RemoteError, StoredSegment};
use crate::replica::{Entry, Origin, SegmentId};
use ctxfs_core::model::{
    Component, Content, FarFile, FarStore, LinesBefore, Record, RelPath, read_pieces, text,
};
use ctxfs_store::{BucketBytes, Conversation, FarArtifact, FileClock, FileMark, RemovalOutcome};

/// Default time limit for reading the bytes of a remote artifact.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Remote artifacts of a bucket. Fetches only the blocks that are read, and caches them for later
/// readers. Clones share the cache.
///
/// Read errors are I/O errors. The error is ESTALE if another host removed the bytes.
#[derive(Clone)]
pub struct RemoteArtifacts(Arc<RemoteArtifactsInner>);

struct RemoteArtifactsInner {
    home: Home,
    source: Arc<BlockSource>,
    segments: SegmentCache,
}

impl RemoteArtifacts {
    /// Opens the remote artifacts of `bucket`. `home` has the local state about the bucket. The
    /// cache has at most `cache_bytes`. A read waits for at most `patience`.
    pub fn new(
        bucket: Arc<dyn Objects + Send>,
        home: Home,
        cache_bytes: u64,
        patience: Duration,
    ) -> Result<Self, RemoteError> {
        let source = BlockSource::new((bucket, home.bucket()), home.blocks(cache_bytes)?, patience);
        Ok(Self(Arc::new(RemoteArtifactsInner { home, source, segments: SegmentCache::default() })))
    }

    /// Opens the artifact `origin` of a conversation. Fails if its digest differs from the one in
    /// `record`.
    pub(super) fn artifact(
        &self,
        conversation: &Component,
        (origin, record): (Origin, &Record),
    ) -> Result<FarFile, RemoteError> {
        let notes = self.0.home.conversation(conversation)?;
        let opened = self.opened(&notes, origin, record);
        match opened {
            // The segment was merged in the meantime, or is gone from the bucket.
            Err(error) if error.is_absent() => {
                self.forget(conversation);
                self.opened(&notes, origin, record)
            }
            opened => opened,
        }
    }

    pub(super) fn forget(&self, conversation: &Component) {
        self.0.segments.0.lock().retain(|known| known.conversation != *conversation);
    }

    /// Downloads an artifact to its local file. Returns false if the artifact is no longer wanted
    /// on this host, for example after a removal.
    pub(crate) fn bring_here(
        &self,
        conversation: &Conversation,
        artifact: &FarArtifact,
    ) -> Result<bool, RemoteError> {
        let Some(origin) = origin_of(&artifact.record) else { return Ok(false) };
        let file = self.artifact(conversation.id(), (origin, &artifact.record))?;
        Ok(artifact.bring_here(conversation, &file)?)
    }

    fn opened(
        &self,
        notes: &Notes,
        origin: Origin,
        record: &Record,
    ) -> Result<FarFile, RemoteError> {
        let PublishedArtifact { segment, put } = self.0.segments.published(notes, origin)?;
        let digest = record.analysis.as_ref().map(|analysis| analysis.digest.as_str());
        if put.digest() != digest || digest.is_none() || put.place.size() != record.size {
            let what = format!("`{origin}` is not what the manifest says of `{}`", record.path);
            return Err(RemoteError::of(segment.id())(FormatError::damaged(what)));
        }
        let content: Arc<dyn Content> = match &put.place {
            Place::Empty => Arc::new(Vec::new()),
            Place::Inside { .. } => Arc::new(self.small(notes, &segment, &put)?),
            Place::Object(object) => {
                let (conversation, object) = (notes.conversation().clone(), object.clone());
                let location = ObjectLocation { conversation, object };
                let object = ObjectContent::new(Arc::clone(&self.0.source), location);
                self.with_parts(notes, segment.id(), &put, object)
            }
        };
        Ok(FarFile { content, attributes: attributes_of(&put.attributes) })
    }

    fn with_parts(
        &self,
        notes: &Notes,
        segment: SegmentId,
        put: &PutLine,
        object: ObjectContent,
    ) -> Arc<dyn Content> {
        let Some(parts) = put.parts.clone() else { return Arc::new(object) };
        let analysis = put.record.analysis.as_ref();
        let known = analysis.filter(|found| found.bytes == object.len() && !found.is_decoded());
        Arc::new(PartsContent {
            artifacts: self.clone(),
            conversation: notes.conversation().clone(),
            segment,
            parts,
            lines: known.map(|analysis| analysis.lines),
            last_line: known.and_then(|analysis| analysis.shortcuts.as_ref()?.last_line),
            kept: OnceLock::new(),
            object,
        })
    }

    fn parts(
        &self,
        conversation: &Component,
        segment: SegmentId,
        parts: &Parts,
    ) -> Result<Vec<u8>, RemoteError> {
        let tried = self.0.home.conversation(conversation).and_then(|notes| {
            let stored = self.0.segments.segment(&notes, segment)?;
            let frame = match stored.parts_frame(parts)? {
                Some(frame) => frame,
                None => self.frame_of_parts(&notes, &stored, parts)?,
            };
            unpack_parts(&frame, parts).map_err(RemoteError::of(segment))
        });
        tried.inspect_err(|error| tracing::debug!(%error, "all of it is read instead"))
    }

    fn frame_of_parts(
        &self,
        notes: &Notes,
        stored: &StoredSegment,
        parts: &Parts,
    ) -> Result<Vec<u8>, RemoteError> {
        let (id, source) = (stored.id(), &self.0.source);
        let range = stored.head.range(parts.at, parts.packed).map_err(RemoteError::of(id))?;
        let key = segment_key(notes.conversation(), id);
        Ok(source.bucket().get(&key, Some(range), source.deadline())?.to_vec())
    }

    /// Returns the bytes of a small artifact. The bucket is read only if the local copy of the
    /// segment is truncated and lacks them.
    fn small(
        &self,
        notes: &Notes,
        segment: &StoredSegment,
        put: &PutLine,
    ) -> Result<Vec<u8>, RemoteError> {
        let (id, source) = (segment.id(), &self.0.source);
        let key = segment_key(notes.conversation(), id);
        let fetch = |range| source.bucket().get(&key, range, source.deadline());
        let bytes = segment.bytes_or(&put.place, fetch)?;
        if put.digest() != Some(blake3::hash(&bytes).to_hex().as_str()) {
            let what = "the bytes of a small artifact have another digest";
            return Err(RemoteError::of(id)(FormatError::damaged(what)));
        }
        Ok(bytes)
    }
}

impl FarStore for RemoteArtifacts {
    fn open(&self, conversation: &Component, record: &Record) -> io::Result<FarFile> {
        let origin = origin_of(record).ok_or_else(|| {
            let why = format!("the record of `{}` does not say where its bytes are", record.path);
            io::Error::new(io::ErrorKind::InvalidData, why)
        })?;
        let opened = self.artifact(conversation, (origin, record));
        opened.map_err(|error| match error {
            RemoteError::Bucket(error) if error.is_absent() => self.0.source.gone(),
            // The local records changed in the meantime.
            error if error.is_absent() => io::Error::from_raw_os_error(libc::ESTALE),
            error => io::Error::other(error),
        })
    }
}

impl fmt::Debug for RemoteArtifacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteArtifacts").field(&self.0.home).finish()
    }
}

pub(super) fn origin_of(record: &Record) -> Option<Origin> {
    record.far.as_ref()?.origin.parse().ok()
}

pub(super) fn attributes_of(said: &BTreeMap<String, String>) -> Vec<(OsString, Vec<u8>)> {
    said.iter().map(|(name, value)| (OsString::from(name), text::decode(value))).collect()
}

/// Content of an object. The segment contains some [`Parts`] of it; reads of these parts need no
/// request for the object. The parts are loaded on the first read. If that fails, the object is
/// read instead.
///
/// If the parts cannot be loaded because the bucket is unreachable, only cached blocks of the
/// object are read, so that a reader does not wait for two time limits in a row.
struct PartsContent {
    artifacts: RemoteArtifacts,
    conversation: Component,
    segment: SegmentId,
    parts: Parts,
    lines: Option<u64>,
    last_line: Option<u64>,
    kept: OnceLock<Option<Vec<u8>>>,
    object: ObjectContent,
}

impl PartsContent {
    fn part(&self, offset: u64) -> io::Result<Option<&[u8]>> {
        let Some((range, before)) = self.parts.around(offset) else { return Ok(None) };
        let mut away = None;
        let get = || {
            let got = self.artifacts.parts(&self.conversation, self.segment, &self.parts);
            got.map_err(|error| away = error.may_pass().then_some(error)).ok()
        };
        let kept = self.kept.get_or_init(get).as_ref();
        if let Some(error) = away
            && !self.object.is_here(offset)
        {
            return Err(io::Error::other(error));
        }
        let start = before + offset - range.start;
        let end = before + range.end - range.start;
        Ok(kept.and_then(|kept| kept.get(start as usize..end as usize)))
    }
}

impl Content for PartsContent {
    fn len(&self) -> u64 {
        self.object.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        read_pieces(self.len(), offset, buffer, |at, buffer| match self.part(at)? {
            Some(part) => part.read_at(0, buffer),
            None => self.object.read_at(at, buffer),
        })
    }

    fn lines_before(&self, offset: u64) -> io::Result<LinesBefore> {
        let length = self.len();
        match self.lines {
            Some(lines) if offset >= length && length > 0 => {
                let is_open = self.bytes(length - 1, 1)? != b"\n";
                let newlines = lines.saturating_sub(u64::from(is_open));
                Ok(LinesBefore { offset: length, newlines })
            }
            _ => self.object.lines_before(offset),
        }
    }

    fn last_line(&self) -> io::Result<Option<u64>> {
        Ok(self.last_line)
    }
}

const MOST: usize = 16;
const MOST_BYTES: usize = 16 << 20;
const PLACE_BYTES: usize = 64;

#[derive(Debug)]
pub(crate) struct PublishedArtifact {
    pub(crate) segment: Arc<StoredSegment>,
    pub(crate) put: PutLine,
}

/// Cache of the most recently read segments: at most 16 segments, with 16 MiB in total. Without it,
/// finding a line requires reading the whole segment.
#[derive(Debug, Default)]
struct SegmentCache(Mutex<VecDeque<Arc<IndexedSegment>>>);

#[derive(Debug)]
struct IndexedSegment {
    conversation: Component,
    segment: Arc<StoredSegment>,
    artifacts: HashMap<Origin, Range<u32>>,
}

impl SegmentCache {
    fn published(&self, notes: &Notes, origin: Origin) -> Result<PublishedArtifact, RemoteError> {
        if let Some(known) = self.known(notes.conversation(), origin) {
            return known.published(origin);
        }
        let found = find(notes, origin)?.ok_or_else(|| RemoteError::Unknown {
            conversation: notes.conversation().to_text(),
            origin,
        })?;
        let found = Arc::new(found);
        self.keep(Arc::clone(&found));
        found.published(origin)
    }

    fn segment(&self, notes: &Notes, id: SegmentId) -> Result<Arc<StoredSegment>, RemoteError> {
        let is_it = |known: &&Arc<IndexedSegment>| {
            known.conversation == *notes.conversation() && known.segment.id() == id
        };
        let kept = self.0.lock().iter().find(is_it).map(|known| Arc::clone(&known.segment));
        kept.map_or_else(|| notes.open_segment(id).map(Arc::new), Ok)
    }

    fn known(&self, conversation: &Component, origin: Origin) -> Option<Arc<IndexedSegment>> {
        let mut all = self.0.lock();
        let has = |known: &Arc<IndexedSegment>| {
            known.conversation == *conversation && known.artifacts.contains_key(&origin)
        };
        let at = all.iter().position(has)?;
        let known = all.remove(at)?;
        all.push_back(Arc::clone(&known));
        Some(known)
    }

    fn keep(&self, found: Arc<IndexedSegment>) {
        let mut all = self.0.lock();
        let id = found.segment.id();
        all.retain(|known| known.conversation != found.conversation || known.segment.id() != id);
        all.push_back(found);
        let mut bytes: usize = all.iter().map(|known| known.bytes()).sum();
        while (all.len() > MOST || bytes > MOST_BYTES)
            && let Some(oldest) = all.pop_front()
        {
            bytes -= oldest.bytes();
        }
    }
}

impl IndexedSegment {
    fn new(conversation: &Component, segment: StoredSegment) -> Result<Self, RemoteError> {
        let mut artifacts = HashMap::new();
        for line in segment.head.lines(&segment.records) {
            let (origin, line, range) = line.map_err(RemoteError::of(segment.id()))?;
            if matches!(line, Line::Put(_)) {
                // The records are smaller than 4 GiB.
                artifacts.insert(origin, range.start as u32..range.end as u32);
            }
        }
        Ok(Self { conversation: conversation.clone(), segment: Arc::new(segment), artifacts })
    }

    fn published(&self, origin: Origin) -> Result<PublishedArtifact, RemoteError> {
        let segment = Arc::clone(&self.segment);
        match self.artifacts.get(&origin).map(|range| segment.line(range)).transpose()? {
            Some(Line::Put(put)) => Ok(PublishedArtifact { segment, put: *put }),
            _ => Err(RemoteError::Unknown { conversation: self.conversation.to_text(), origin }),
        }
    }

    fn bytes(&self) -> usize {
        self.segment.records.len() + PLACE_BYTES * self.artifacts.len()
    }
}

/// Finds the segment that contains the line of `origin`. This is the segment that first published
/// the origin, or a merge that covers that segment.
fn find(notes: &Notes, origin: Origin) -> Result<Option<IndexedSegment>, RemoteError> {
    let here = notes.segments()?;
    let first = here.iter().filter(|id| **id == origin.segment);
    let others = here.iter().filter(|id| **id != origin.segment);
    for id in first.chain(others) {
        let covers = || match notes.head(*id) {
            Ok(head) => Ok(head.covers.contains_key(&origin.segment)),
            Err(RemoteError::Segment { .. }) => Ok(false),
            Err(error) => Err(error),
        };
        if *id == origin.segment || covers()? {
            let found = IndexedSegment::new(notes.conversation(), notes.open_segment(*id)?)?;
            if found.artifacts.contains_key(&origin) {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

const AT_ONCE: usize = 8;

impl RemoteArtifacts {
    /// Removes the local file of the artifact at `path` if the bucket has all of its bytes. To
    /// check this, reads all of them from the bucket. `entry` is the artifact's entry in the
    /// agreement, and `clock` is the clock of the store's disk. Name, record and small views stay.
    /// The caller must hold the push lock.
    ///
    /// The first and the last block stay in the cache, so that `.summary`, `.head` and `.tail` need
    /// no request.
    pub fn evict(
        &self,
        conversation: &Conversation,
        path: &RelPath,
        entry: Option<&Entry>,
        clock: FileClock,
    ) -> Result<RemovalOutcome, RemoteError> {
        if !path.is_artifact() {
            return Ok(RemovalOutcome::Kept("only artifacts go"));
        }
        let published = entry.and_then(|entry| Some((entry, *entry.origins.first()?)));
        let Some((entry, origin)) = published else {
            return Ok(RemovalOutcome::Kept("it was not published yet"));
        };
        let Some(mark) = local_mark(conversation, entry, path)? else {
            return Ok(RemovalOutcome::Kept("it is not as it was published"));
        };
        let put =
            self.0.segments.published(&self.0.home.conversation(conversation.id())?, origin)?.put;
        let known = &put.record;
        if let Err(why) =
            ctxfs_store::shared::ensure_recorded(conversation, path, (&mark, known), clock)?
        {
            return Ok(RemovalOutcome::Kept(why));
        }
        if !self.has_all(conversation.id(), origin, &put)? {
            return Ok(RemovalOutcome::Kept("the bucket has other bytes"));
        }
        let shortcuts = known.analysis.as_ref().and_then(|analysis| analysis.shortcuts.as_deref());
        let bytes = BucketBytes { origin: &origin.to_string(), shortcuts };
        Ok(ctxfs_store::shared::evict(conversation, path, &mark, bytes)?)
    }

    /// Reads the bytes of an artifact from the bucket. Returns false if their digest differs from
    /// the one in the artifact's line.
    fn has_all(
        &self,
        conversation: &Component,
        origin: Origin,
        line: &PutLine,
    ) -> Result<bool, RemoteError> {
        let Some(digest) = line.digest() else { return Ok(false) };
        let Place::Object(object) = &line.place else {
            // Opening a small artifact checks its bytes.
            return Ok(self.artifact(conversation, (origin, &line.record)).is_ok());
        };
        let (conversation, object) = (conversation.clone(), object.clone());
        let location = ObjectLocation { conversation, object };
        Ok(self.digest_of(&location)? == digest)
    }

    fn digest_of(&self, location: &ObjectLocation) -> Result<String, RemoteError> {
        let source = &self.0.source;
        let table = source.table(location).map_err(read_back(location))?;
        let (mut hasher, mut next) = (blake3::Hasher::new(), 0);
        while next < table.len() {
            let end = table.len().min(next + AT_ONCE);
            self.read_back((location, &table), next..end, &mut hasher)?;
            next = end;
        }
        Ok(hasher.finalize().to_hex().to_string())
    }

    fn read_back(
        &self,
        (location, table): (&ObjectLocation, &Blocks),
        blocks: Range<usize>,
        hasher: &mut blake3::Hasher,
    ) -> Result<(), RemoteError> {
        let (source, first) = (&self.0.source, blocks.start);
        let range = table.frames_range(blocks.clone());
        let key = object_key(&location.conversation, location.object.name);
        let frames = source.bucket().get(&key, Some(range), source.deadline())?;
        let wrong = |error: FormatError| read_back(location)(io::Error::other(error));
        for block in blocks {
            let frame = table.frame_in(&frames, first, block).map_err(wrong)?;
            hasher.update(&unpack_block(frame, block, table).map_err(wrong)?);
            if block == 0 || block + 1 == table.len() {
                source.keep((location, block), frame);
            }
        }
        Ok(())
    }
}

fn local_mark(
    conversation: &Conversation,
    entry: &Entry,
    path: &RelPath,
) -> Result<Option<FileMark>, RemoteError> {
    // The file may have been evicted and downloaded again.
    for origin in &entry.origins {
        if let Some(mark) =
            ctxfs_store::shared::mark_of_copy(conversation, path, &origin.to_string())?
        {
            return Ok(Some(mark));
        }
    }
    Ok(mark_of(entry.key, entry.version))
}

fn read_back(location: &ObjectLocation) -> impl Fn(io::Error) -> RemoteError {
    let name = location.object.name;
    move |error| {
        let what = format!("the object `{name}` cannot be read back: {error}");
        RemoteError::Bucket(FormatError::damaged(what).into())
    }
}

#[cfg(test)]
pub(super) mod tests;
