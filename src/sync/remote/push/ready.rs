//! Contents of one segment: files, messages, moves and removals, with their limits.

use std::fs::File;
use std::io;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use super::packed_file::PackedFile;
use super::parts::PartsPlan;
use super::source::Opened;
use super::stand_in::planned;
use super::uploads::{Session, Upload};
use super::{LeftOut, Push, SLOWEST};
use crate::bucket::{
    BucketError, Deadline, FormatError, LINE_BYTES, Line, MessageLine, MoveLine, ObjectName,
    ObjectPlace, PackedObject, Place, PutBytes, PutLine, PutParts, SEGMENT_BYTES, SMALL_BYTES,
    blocks_key, object_key,
};
use crate::remote::RemoteError;
use crate::replica::{LocalPut, Origin, SegmentId, Stamp, WriterId};
use ctxfs_core::model::Record;
use ctxfs_store::Artifact;

///+ Longest stamp and origin. A line that fits with them fits with the real ones, also after a
///+ merge.
const LONGEST_STAMP: Stamp = Stamp(u64::MAX);
const LONGEST_ORIGIN: Origin = Origin {
    segment: SegmentId { writer: WriterId(u64::MAX), number: 999_999_999_999 },
    place: u32::MAX,
};

///+ A file that is ready to be published.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) line: PutLine,
    ///+ Maximum bytes of its line, in this segment and in merges.
    pub(super) weight: usize,
    bytes: ReadyBytes,
}

#[derive(Debug)]
enum ReadyBytes {
    Small(Vec<u8>),
    Object(Upload),
}

impl Ready {
    pub(super) fn bytes(&self) -> PutBytes<'_> {
        match &self.bytes {
            ReadyBytes::Small(bytes) => PutBytes::Bytes(bytes),
            ReadyBytes::Object(upload) => PutBytes::Object(upload.object.clone()),
        }
    }

    pub(super) fn parts(&self) -> Option<PutParts<'_>> {
        self.upload()?.parts.as_ref()?.put()
    }

    ///+ Returns the bytes in the segment, with parts at their reduced weight.
    pub(super) fn small_bytes(&self) -> u64 {
        match &self.bytes {
            ReadyBytes::Small(bytes) => bytes.len() as u64,
            ReadyBytes::Object(upload) => upload.parts.as_ref().map_or(0, |parts| parts.weight()),
        }
    }

    pub(super) fn upload(&self) -> Option<&Upload> {
        match &self.bytes {
            ReadyBytes::Small(_) => None,
            ReadyBytes::Object(upload) => Some(upload),
        }
    }
}

impl Push<'_> {
    ///+ Reads a complete file, and uploads its bytes if it is large.
    pub(super) fn ready(
        &self,
        path: &str,
        put: &LocalPut,
        session: &mut Session,
    ) -> Result<Result<Ready, LeftOut>, RemoteError> {
        let Opened { file, record, mode, attributes } = match self.open(path, put) {
            Ok(opened) => opened,
            Err(why) => return Ok(Err(why)),
        };
        let digest = put.digest.as_deref().unwrap_or_default();
        let mut record = match recorded(record, path, put, digest) {
            Ok(record) => record,
            Err(why) => return Ok(Err(why)),
        };
        let bytes = if put.version.size <= SMALL_BYTES {
            small(file, put, digest).map(ReadyBytes::Small)
        } else {
            let file = Arc::new(file);
            let content = Artifact::new(Arc::clone(&file), put.version.size);
            let plan = planned(&mut record, &content)
                .inspect_err(|error| tracing::debug!(%error, "only all of it is sent"))
                .unwrap_or_default();
            self.upload(path, put, (file, plan), session)?.map(ReadyBytes::Object)
        };
        let (stamp, place) = (Stamp::default(), Place::Empty);
        let (parts, origin) = (None, None);
        let line = PutLine { record, mode, attributes, stamp, place, parts, origin };
        Ok(bytes.and_then(|bytes| checked(line, bytes)))
    }

    fn open(&self, path: &str, put: &LocalPut) -> Result<Opened, LeftOut> {
        match self.source.open(path, put.key, put.version) {
            Ok(opened) => opened.ok_or(LeftOut::Changed),
            Err(error) => Err(LeftOut::Unread(error.to_string())),
        }
    }

    ///+ Uploads the bytes of a file, unless an earlier push did.
    fn upload(
        &self,
        path: &str,
        put: &LocalPut,
        (file, plan): (Arc<File>, Option<PartsPlan>),
        session: &mut Session,
    ) -> Result<Result<Upload, LeftOut>, RemoteError> {
        let since = (self.now)();
        if let Some(known) = session.uploads.fitting(path, put, &since) {
            return Ok(Ok(known));
        }
        let (conversation, name) = (self.notes.conversation(), ObjectName::random());
        let (stored, parts) = match plan {
            Some(plan) => {
                let (file, kept) = plan.watch(file);
                let stored = self.stored(name, put, file)?;
                (stored, Some(Arc::new(plan.picked(&kept.lock()))))
            }
            None => (self.stored(name, put, file)?, None),
        };
        let done = match stored {
            Ok(done) => done,
            Err(why) => return Ok(Err(why)),
        };
        let deadline = self.deadline_for(put.version.size);
        self.bucket.create(&blocks_key(conversation, name), &done.blocks.into(), deadline)?;
        let (packed, size, blocks) = (done.packed, done.size, done.blocks_digest);
        let object = ObjectPlace { name, packed, size, blocks };
        let (key, version, digest) = (put.key, put.version, done.digest);
        let upload = Upload { key, version, digest, since, object, parts };
        session.uploads.insert(path, upload.clone());
        Ok(Ok(upload))
    }

    fn stored(
        &self,
        name: ObjectName,
        put: &LocalPut,
        file: impl Read + Send,
    ) -> Result<Result<PackedObject, LeftOut>, RemoteError> {
        let mut content = PackedFile::new(file);
        let deadline = self.deadline_for(put.version.size);
        let key = object_key(self.notes.conversation(), name);
        match self.bucket.upload(&key, &mut content, put.version.size, deadline) {
            Ok(_) => {}
            Err(BucketError::Source { source, .. }) => return Ok(Err(unread(&source))),
            Err(error) => return Err(error.into()),
        }
        // The object of a file that changed meanwhile stays unnamed.
        let done = content.done().filter(|done| put.digest.as_deref() == Some(&*done.digest));
        Ok(done.ok_or(LeftOut::Changed))
    }

    fn deadline_for(&self, bytes: u64) -> Deadline {
        Deadline::after((self.deadline)().left() + Duration::from_secs(bytes / SLOWEST))
    }
}

///+ Returns the message in a line of the log, or why it cannot be shared.
pub(crate) fn message(line: Vec<u8>) -> Result<String, String> {
    let text = String::from_utf8(line).map_err(|error| error.to_string())?;
    let line = MessageLine { text, stamp: LONGEST_STAMP, origin: Some(LONGEST_ORIGIN) };
    match written(Line::Message(line)).map_err(|error| error.to_string())? {
        (Line::Message(line), _) => Ok(line.text),
        _ => unreachable!("a line stays what it is"),
    }
}

pub(super) fn too_long() -> String {
    FormatError::TooLarge { what: "a line of the records", most: LINE_BYTES as u64 }.to_string()
}

pub(super) fn check_move(artifact: Origin, to: &str) -> Result<(), LeftOut> {
    let line = MoveLine { artifact, to: to.to_owned(), stamp: Stamp::default() };
    check(Line::Move(line)).map(drop)
}

///+ Returns the shared form of a record, if it has the digest of the file.
fn recorded(record: Record, path: &str, put: &LocalPut, digest: &str) -> Result<Record, LeftOut> {
    let is_it = record.analysis.as_ref().is_some_and(|analysis| analysis.digest == digest);
    if !is_it {
        return Err(LeftOut::Changed);
    }
    let (path, size, modified) = (path.to_owned(), put.version.size, put.version.modified);
    Ok(Record { path, size, modified, ..record })
}

fn small(file: File, put: &LocalPut, digest: &str) -> Result<Vec<u8>, LeftOut> {
    let mut bytes = Vec::with_capacity(put.version.size as usize);
    let read = file.take(SMALL_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| unread(&error))?;
    let is_it =
        bytes.len() as u64 == put.version.size && blake3::hash(&bytes).to_hex().as_str() == digest;
    if is_it { Ok(bytes) } else { Err(LeftOut::Changed) }
}

fn unread(error: &io::Error) -> LeftOut {
    LeftOut::Unread(error.to_string())
}

fn checked(mut line: PutLine, bytes: ReadyBytes) -> Result<Ready, LeftOut> {
    line.place = match &bytes {
        ReadyBytes::Small(bytes) if bytes.is_empty() => Place::Empty,
        // The offset is unknown yet; use the longest.
        ReadyBytes::Small(bytes) => {
            Place::Inside { at: SEGMENT_BYTES, packed: SMALL_BYTES, size: bytes.len() as u64 }
        }
        ReadyBytes::Object(upload) => Place::Object(upload.object.clone()),
    };
    (line.stamp, line.origin) = (LONGEST_STAMP, Some(LONGEST_ORIGIN));
    match check(Line::Put(Box::new(line)))? {
        (Line::Put(mut line), weight) => {
            (line.stamp, line.origin) = (Stamp::default(), None);
            Ok(Ready { line: *line, weight, bytes })
        }
        _ => unreachable!("a line stays what it is"),
    }
}

///+ Returns the line and its length.
fn check(line: Line) -> Result<(Line, usize), LeftOut> {
    written(line).map_err(|error| LeftOut::Refused(error.to_string()))
}

fn written(line: Line) -> Result<(Line, usize), FormatError> {
    let mut written = Vec::new();
    line.write(&mut written)?;
    Ok((line, written.len()))
}
