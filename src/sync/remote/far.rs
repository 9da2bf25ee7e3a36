//! Artifacts whose bytes are in the bucket: reads, downloads, and eviction of local copies.

mod parts;
mod segments;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{fmt, io};

use crate::bucket::{FormatError, Parts, Place, PutLine, segment_key, unpack_parts};
use crate::remote::blocks::{Location, ObjectContent, Source};
use crate::remote::far::parts::PartsContent;
use crate::remote::far::segments::KnownSegments;
use crate::remote::{Home, Notes, Objects, RemoteError, StoredSegment};
use crate::replica::{Origin, SegmentId};
use ctxfs_core::model::{Component, Content, FarFile, FarStore, Record, text};
use ctxfs_store::{Conversation, FarArtifact};

pub(super) use segments::Published;

///+ Default time limit for reading remote bytes.
pub const PATIENCE: Duration = Duration::from_secs(30);

///+ Remote artifacts of a bucket. Fetches only what is read, and caches it for the next reader.
///+ Clones share the cache.
///+
///+ Errors of a read are I/O errors: ESTALE if another host removed the bytes.
#[derive(Clone)]
pub struct FarArtifacts(Arc<Inner>);

struct Inner {
    home: Home,
    source: Arc<Source>,
    segments: KnownSegments,
}

impl FarArtifacts {
    ///+ Opens the remote artifacts of `bucket`, whose local state is in `home`, with a cache of at
    ///+ most `cache_bytes`. A read waits for at most `patience`.
    pub fn new(
        bucket: Arc<dyn Objects + Send>,
        home: Home,
        cache_bytes: u64,
        patience: Duration,
    ) -> Result<Self, RemoteError> {
        let source = Source::new((bucket, home.bucket()), home.blocks(cache_bytes)?, patience);
        Ok(Self(Arc::new(Inner { home, source, segments: KnownSegments::default() })))
    }

    ///+ Opens the artifact `origin` of a conversation. Its digest must be the one in `record`.
    pub(super) fn artifact(
        &self,
        conversation: &Component,
        (origin, record): (Origin, &Record),
    ) -> Result<FarFile, RemoteError> {
        let notes = self.0.home.conversation(conversation)?;
        let opened = self.opened(&notes, origin, record);
        match opened {
            // The segment was merged with others meanwhile, or has left the bucket.
            Err(error) if error.is_absent() => {
                self.0.segments.forget(conversation);
                self.opened(&notes, origin, record)
            }
            opened => opened,
        }
    }

    ///+ Drops the cached segments of a conversation after some have left the bucket.
    pub(super) fn forget(&self, conversation: &Component) {
        self.0.segments.forget(conversation);
    }

    pub(super) fn source(&self) -> &Source {
        &self.0.source
    }

    pub(super) fn notes(&self, conversation: &Component) -> Result<Notes, RemoteError> {
        self.0.home.conversation(conversation)
    }

    pub(super) fn published(
        &self,
        notes: &Notes,
        origin: Origin,
    ) -> Result<Published, RemoteError> {
        self.0.segments.published(notes, origin)
    }

    ///+ Downloads an artifact to its local file. Returns false if the artifact is not wanted here
    ///+ any longer, for example after a removal.
    pub fn bring_here(
        &self,
        conversation: &Conversation,
        artifact: &FarArtifact,
    ) -> Result<bool, RemoteError> {
        let Some(origin) = origin_of(&artifact.record) else { return Ok(false) };
        let file = self.artifact(conversation.id(), (origin, &artifact.record))?;
        Ok(conversation.bring_here(artifact, &file)?)
    }

    fn opened(
        &self,
        notes: &Notes,
        origin: Origin,
        record: &Record,
    ) -> Result<FarFile, RemoteError> {
        let Published { segment, put } = self.published(notes, origin)?;
        let digest = record.analysis.as_ref().map(|analysis| analysis.digest.as_str());
        if put.digest() != digest || digest.is_none() || put.place.size() != record.size {
            let what = format!("`{origin}` is not what the manifest says of `{}`", record.path);
            return Err(RemoteError::of(segment.id())(FormatError::Damaged { what }));
        }
        let content: Arc<dyn Content> = match &put.place {
            Place::Empty => Arc::new(Vec::new()),
            Place::Inside { .. } => Arc::new(self.small(notes, &segment, &put)?),
            Place::Object(object) => {
                let (conversation, object) = (notes.conversation().clone(), object.clone());
                let location = Location { conversation, object };
                let object = ObjectContent::new(Arc::clone(&self.0.source), location);
                self.with_parts(notes, segment.id(), &put, object)
            }
        };
        Ok(FarFile { content, attributes: attributes_of(&put.attributes) })
    }

    ///+ Returns the content of an object, some of whose bytes may have come with its record.
    fn with_parts(
        &self,
        notes: &Notes,
        segment: SegmentId,
        put: &PutLine,
        object: ObjectContent,
    ) -> Arc<dyn Content> {
        let Some(parts) = put.parts.clone() else { return Arc::new(object) };
        let analysis = put.record.analysis.as_ref();
        let known = analysis.filter(|found| found.bytes == object.len() && !found.has_escapes());
        Arc::new(PartsContent {
            far: self.clone(),
            conversation: notes.conversation().clone(),
            segment,
            parts,
            lines: known.map(|analysis| analysis.lines),
            last_line: known.and_then(|analysis| analysis.shortcuts.as_ref()?.last_line),
            kept: OnceLock::new(),
            object,
        })
    }

    ///+ Returns the bytes of the parts, from the local segment or else from the bucket.
    fn parts(
        &self,
        conversation: &Component,
        segment: SegmentId,
        parts: &Parts,
    ) -> Result<Vec<u8>, RemoteError> {
        let tried = self.notes(conversation).and_then(|notes| {
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
        let range = stored.head.range_of_parts(parts).map_err(RemoteError::of(id))?;
        let key = segment_key(notes.conversation(), id);
        Ok(source.bucket().get(&key, Some(range), source.deadline())?.to_vec())
    }

    ///+ Returns the bytes of a small artifact. They came with its record, unless its segment is
    ///+ large.
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
            let what = "the bytes of a small artifact have another digest".to_owned();
            return Err(RemoteError::of(id)(FormatError::Damaged { what }));
        }
        Ok(bytes)
    }
}

impl FarStore for FarArtifacts {
    fn open(&self, conversation: &Component, record: &Record) -> io::Result<FarFile> {
        let origin = origin_of(record).ok_or_else(|| {
            let why = format!("the record of `{}` does not say where its bytes are", record.path);
            io::Error::new(io::ErrorKind::InvalidData, why)
        })?;
        let opened = self.artifact(conversation, (origin, record));
        opened.map_err(|error| match error {
            RemoteError::Bucket(error) if error.is_absent() => self.0.source.gone(),
            // The local records changed meanwhile.
            error if error.is_absent() => io::Error::from_raw_os_error(libc::ESTALE),
            error => io::Error::other(error),
        })
    }
}

impl fmt::Debug for FarArtifacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FarArtifacts").field(&self.0.home).finish()
    }
}

pub(super) fn origin_of(record: &Record) -> Option<Origin> {
    record.far.as_ref()?.origin.parse().ok()
}

pub(super) fn attributes_of(said: &BTreeMap<String, String>) -> Vec<(OsString, Vec<u8>)> {
    said.iter().map(|(name, value)| (OsString::from(name), text::decode(value))).collect()
}

#[cfg(test)]
pub(super) mod tests;
