
use std::io;
use std::ops::Range;

use crate::bucket::{Blocks, FormatError, Place, PutLine, object_key, unpack_block};
use crate::remote::blocks::Location;
use crate::remote::mark::mark_of;
use crate::remote::{FarArtifacts, RemoteError};
use crate::replica::{Entry, Origin};
use ctxfs_core::model::{Component, RelPath};
use ctxfs_store::{Conversation, FarBytes, FileClock, FileMark, RemovalOutcome};

///+ Blocks that are read back with one request.
const AT_ONCE: usize = 8;

impl FarArtifacts {
    ///+ Removes the local file of the artifact at `path`, if the bucket has its bytes: it reads them
    ///+ back first, all of them. `entry` is the one of the agreement, `clock` that of the store's
    ///+ disk. Name, record and small views stay. The caller holds the push lock.
    ///+
    ///+ The first and the last block stay in the cache, so that `.summary`, `.head` and `.tail` need
    ///+ no request.
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
        let put = self.published(&self.notes(conversation.id())?, origin)?.put;
        let known = &put.record;
        if let Err(why) = conversation.recognise(path, (&mark, known), clock)? {
            return Ok(RemovalOutcome::Kept(why));
        }
        if !self.has_all(conversation.id(), origin, &put)? {
            return Ok(RemovalOutcome::Kept("the bucket has other bytes"));
        }
        let shortcuts = known.analysis.as_ref().and_then(|analysis| analysis.shortcuts.as_deref());
        let bytes = FarBytes { origin: &origin.to_string(), shortcuts };
        Ok(conversation.let_go(path, &mark, bytes)?)
    }

    ///+ Reads the bytes of an artifact back. Returns false if their digest is not the one in its
    ///+ line.
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
        let location = Location { conversation, object };
        Ok(self.digest_of(&location)? == digest)
    }

    ///+ Returns the digest of an object's content, and caches its first and last block.
    fn digest_of(&self, location: &Location) -> Result<String, RemoteError> {
        let source = self.source();
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
        (location, table): (&Location, &Blocks),
        blocks: Range<usize>,
        hasher: &mut blake3::Hasher,
    ) -> Result<(), RemoteError> {
        let (source, first) = (self.source(), blocks.start);
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

///+ Returns the mark of the local file, if it still has the agreed bytes.
fn local_mark(
    conversation: &Conversation,
    entry: &Entry,
    path: &RelPath,
) -> Result<Option<FileMark>, RemoteError> {
    // The file may have been evicted and fetched again.
    for origin in &entry.origins {
        if let Some(mark) = conversation.brought_here(path, &origin.to_string())? {
            return Ok(Some(mark));
        }
    }
    Ok(mark_of(entry.key, entry.version))
}

fn read_back(location: &Location) -> impl Fn(io::Error) -> RemoteError {
    let name = location.object.name;
    move |error| {
        let what = format!("the object `{name}` cannot be read back: {error}");
        RemoteError::Bucket(FormatError::Damaged { what }.into())
    }
}

#[cfg(test)]
mod tests;
