//! Local segments of a conversation.

use std::collections::BTreeSet;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use bytes::Bytes;
use rustix::fs::OFlags;

use super::{LOG, Notes};
use crate::bucket::{
    BucketError, FormatError, Line, Lines, Parts, Place, SEGMENT_BYTES, SegmentHead, lines,
    segment_of, unpack_member,
};
use crate::remote::{RemoteError, disk};
use crate::replica::{Covered, Covers, SegmentDigest, SegmentId};
use ctxfs_store::Dir;

const REFUSED: &str = ".refused";
const REASON: u64 = 4 << 10;
/// Number of bytes to read for the head of a segment in the first attempt, and the factor for each
/// further attempt.
const FIRST: u64 = 4 << 10;
const MORE: u64 = 16;
const TOGETHER: usize = 64;

/// A local segment. It has the records, and the bytes of small artifacts unless the file was
/// truncated after the records, as the files of large segments are. Missing bytes are read from the
/// bucket.
#[derive(Debug)]
pub(crate) struct StoredSegment {
    /// Head of the segment.
    pub head: SegmentHead,
    /// Unpacked records.
    pub records: Vec<u8>,
    file: SegmentFile,
}

#[derive(Debug)]
struct SegmentFile {
    id: SegmentId,
    held: SegmentBytes,
    length: u64,
}

#[derive(Debug)]
enum SegmentBytes {
    File(File, PathBuf),
    Memory(Bytes),
}

impl Notes {
    /// Returns the names of the local segments, sorted.
    pub fn segments(&self) -> Result<Vec<SegmentId>, RemoteError> {
        let ids = ids_in(&self.log, segment_of);
        ids.map_err(RemoteError::at("list", &self.path.join(LOG)))
    }

    /// Returns the names of the refused segments, sorted.
    pub fn refused(&self) -> Result<Vec<SegmentId>, RemoteError> {
        let ids = ids_in(&self.log, |name| name.strip_suffix(REFUSED)?.parse().ok());
        ids.map_err(RemoteError::at("list", &self.path.join(LOG)))
    }

    pub(crate) fn open_segment(&self, id: SegmentId) -> Result<StoredSegment, RemoteError> {
        StoredSegment::read(self.opened(id)?)
    }

    pub(crate) fn head(&self, id: SegmentId) -> Result<SegmentHead, RemoteError> {
        self.opened(id)?.head()
    }

    pub(crate) fn digest(&self, id: SegmentId) -> Result<SegmentDigest, RemoteError> {
        let file = self.opened(id)?;
        let head = file.head()?;
        let digest = head.digest(&file.read(0..head.records_end)?);
        digest.ok_or_else(|| file.damaged("it is cut off"))
    }

    /// Returns all segments that local segments cover. An unreadable segment covers nothing.
    ///
    /// The heads are cached, because each push of a segment calls this.
    pub(crate) fn covered(&self) -> Result<Covered, RemoteError> {
        let here = self.segments()?;
        let mut known = self.covers.lock();
        known.retain(|id, _| here.binary_search(id).is_ok());
        for id in here {
            if let Entry::Vacant(place) = known.entry(id) {
                place.insert(self.covers_of(id)?);
            }
        }
        Ok(known.values().collect())
    }

    pub(crate) fn covers_of(&self, id: SegmentId) -> Result<Covers, RemoteError> {
        match self.head(id) {
            Ok(head) => Ok(head.covers),
            Err(RemoteError::Segment { .. }) => Ok(Covers::new()),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn segment_bytes(&self, id: SegmentId) -> Result<Vec<u8>, RemoteError> {
        let file = self.opened(id)?;
        file.read(0..SEGMENT_BYTES)
    }

    /// Stores a segment locally. `bytes` contains at least its head and its records.
    pub(crate) fn keep_segment(&self, id: SegmentId, bytes: &[u8]) -> Result<(), RemoteError> {
        self.covers.lock().remove(&id);
        let name = file_name(id);
        let written = disk::write(&self.log, &name, bytes);
        written.map_err(RemoteError::at("write", &self.path.join(LOG).join(name)))
    }

    /// Fails with [`RemoteError::NoRoom`] if the segments exceed the limits of downloads.
    pub(crate) fn check_room(&self, segments: &[(SegmentId, Bytes)]) -> Result<(), RemoteError> {
        let Some((first, _)) = segments.first() else { return Ok(()) };
        let needed = segments.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        let disk = self.log.space().map_err(RemoteError::at("measure", &self.path.join(LOG)))?;
        self.limits.check_disk(&disk, needed).map_err(|shortage| RemoteError::NoRoom {
            why: format!("segment `{first}` and those with it have no room: {shortage}"),
        })
    }

    pub(crate) fn keep_segments(&self, segments: &[(SegmentId, Bytes)]) -> Result<(), RemoteError> {
        for some in segments.chunks(TOGETHER) {
            let mut covers = self.covers.lock();
            for (id, _) in some {
                covers.remove(id);
            }
            drop(covers);
            let files = some.iter().map(|(id, bytes)| (file_name(*id), &bytes[..]));
            let written = disk::write_all(&self.log, &files.collect::<Vec<_>>());
            written.map_err(RemoteError::at("write to", &self.path.join(LOG)))?;
        }
        Ok(())
    }

    pub(crate) fn refuse_segment(&self, id: SegmentId, why: &str) -> Result<(), RemoteError> {
        let name = format!("{id}{REFUSED}");
        let written = disk::write(&self.log, &name, why.as_bytes());
        written.map_err(RemoteError::at("write", &self.path.join(LOG).join(name)))
    }

    pub(crate) fn refusal(&self, id: SegmentId) -> Result<String, RemoteError> {
        let name = format!("{id}{REFUSED}");
        let text = disk::read(&self.log, &name, REASON);
        let text = text.map_err(RemoteError::at("read", &self.path.join(LOG).join(&name)))?;
        Ok(String::from_utf8_lossy(&text.unwrap_or_default()).into_owned())
    }

    pub(crate) fn forget_segment(&self, id: SegmentId) -> Result<(), RemoteError> {
        for name in [file_name(id), format!("{id}{REFUSED}")] {
            let removed = disk::remove(&self.log, &name);
            removed.map_err(RemoteError::at("remove", &self.path.join(LOG).join(&name)))?;
        }
        Ok(())
    }

    /// Deletes the records of refusals, so that the next look fetches the refused segments again.
    pub(crate) fn forget_refusals(&self) -> Result<(), RemoteError> {
        self.refused()?.into_iter().try_for_each(|id| self.forget_segment(id))
    }

    fn opened(&self, id: SegmentId) -> Result<SegmentFile, RemoteError> {
        let path = self.path.join(LOG).join(file_name(id));
        let file = self.log.open_file(file_name(id).as_ref(), OFlags::RDONLY);
        let opened = file.and_then(|file| Ok((file.metadata()?.len().min(SEGMENT_BYTES), file)));
        let (length, file) = opened.map_err(RemoteError::at("open", &path))?;
        Ok(SegmentFile { id, held: SegmentBytes::File(file, path), length })
    }
}

impl StoredSegment {
    pub(crate) fn of(id: SegmentId, bytes: Bytes) -> Result<Self, RemoteError> {
        let length = bytes.len() as u64;
        Self::read(SegmentFile { id, held: SegmentBytes::Memory(bytes), length })
    }

    fn read(file: SegmentFile) -> Result<Self, RemoteError> {
        let head = file.head()?;
        let frame = file.read(head.records_start..head.records_end)?;
        let records = head.records(&frame).map_err(RemoteError::of(file.id))?;
        Ok(Self { head, records, file })
    }

    pub(crate) fn id(&self) -> SegmentId {
        self.file.id
    }

    pub(crate) fn lines(&self) -> Lines<'_> {
        lines(&self.head, &self.records)
    }

    pub(crate) fn line(&self, range: &Range<u32>) -> Result<Line, RemoteError> {
        let line = self.records.get(range.start as usize..range.end as usize);
        let what = || FormatError::Damaged { what: "there is no such line".to_owned() };
        line.ok_or_else(what).and_then(Line::parse).map_err(RemoteError::of(self.id()))
    }

    /// Returns the frame of a small artifact. Returns `None` if it is not stored locally.
    pub(crate) fn frame(&self, place: &Place) -> Result<Option<Vec<u8>>, RemoteError> {
        let range = self.head.range_of(place).map_err(RemoteError::of(self.id()))?;
        let here = range.filter(|range| range.end <= self.file.length);
        here.map(|range| self.file.read(range)).transpose()
    }

    /// Returns the frame of the parts of a larger artifact. Returns `None` if it is not stored
    /// locally.
    pub(crate) fn parts_frame(&self, parts: &Parts) -> Result<Option<Vec<u8>>, RemoteError> {
        let range = self.head.range_of_parts(parts).map_err(RemoteError::of(self.id()))?;
        (range.end <= self.file.length).then(|| self.file.read(range)).transpose()
    }

    /// Returns the bytes of a small artifact. Returns `None` if they are not stored locally.
    pub(crate) fn bytes(&self, place: &Place) -> Result<Option<Vec<u8>>, RemoteError> {
        let Some(frame) = self.frame(place)? else { return Ok(None) };
        unpack_member(&frame, place.size()).map(Some).map_err(RemoteError::of(self.id()))
    }

    /// Returns the bytes of a small artifact. If they are not stored locally, calls `fetch` with
    /// their range in the segment.
    pub(crate) fn bytes_or(
        &self,
        place: &Place,
        fetch: impl FnOnce(Option<Range<u64>>) -> Result<Bytes, BucketError>,
    ) -> Result<Vec<u8>, RemoteError> {
        if let Some(bytes) = self.bytes(place)? {
            return Ok(bytes);
        }
        let range = self.head.range_of(place).map_err(RemoteError::of(self.id()))?;
        unpack_member(&fetch(range)?, place.size()).map_err(RemoteError::of(self.id()))
    }
}

impl SegmentFile {
    fn head(&self) -> Result<SegmentHead, RemoteError> {
        let mut wanted = FIRST;
        loop {
            let bytes = self.read(0..wanted)?;
            if let Some(head) = SegmentHead::read(&bytes).map_err(RemoteError::of(self.id))? {
                return self.checked(head);
            }
            if wanted >= self.length {
                return Err(self.damaged("it is cut off"));
            }
            wanted = wanted.saturating_mul(MORE);
        }
    }

    fn checked(&self, head: SegmentHead) -> Result<SegmentHead, RemoteError> {
        if head.id == self.id { Ok(head) } else { Err(self.damaged("it says another name")) }
    }

    fn read(&self, range: Range<u64>) -> Result<Vec<u8>, RemoteError> {
        let end = range.end.min(self.length);
        let length = end.saturating_sub(range.start) as usize;
        match &self.held {
            SegmentBytes::Memory(bytes) => Ok(bytes[end as usize - length..end as usize].to_vec()),
            SegmentBytes::File(file, path) => {
                let mut bytes = vec![0; length];
                let read = file.read_exact_at(&mut bytes, range.start);
                read.map_err(RemoteError::at("read", path))?;
                Ok(bytes)
            }
        }
    }

    fn damaged(&self, what: &str) -> RemoteError {
        RemoteError::of(self.id)(FormatError::Damaged { what: what.to_owned() })
    }
}

fn ids_in(log: &Dir, id: impl Fn(&str) -> Option<SegmentId>) -> io::Result<Vec<SegmentId>> {
    let entries = log.entries()?;
    let ids: BTreeSet<_> = entries.iter().filter_map(|entry| id(entry.name.to_str()?)).collect();
    Ok(ids.into_iter().collect())
}

fn file_name(id: SegmentId) -> String {
    format!("{id}.tar.zst")
}
