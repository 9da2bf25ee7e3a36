//! Content of one segment to publish: files, messages, moves and removals. Also defines its limits.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use crate::bucket::{
    FormatError, LINE_BYTES, Line, MessageLine, MoveLine, ObjectPlace, Place, PutBytes, PutLine,
    PutParts, RemoveLine, SEGMENT_BYTES, SMALL_BYTES, SegmentWriter,
};
use crate::remote::push::packed::PartBytes;
use crate::remote::{LogPosition, Moment, RemoteError};
use crate::replica::{
    Changes, Clock, Covers, FileKey, FileVersion, LocalPut, Origin, Publication, Segment,
    SegmentId, Stamp, WriterId,
};
use ctxfs_core::model::Record;

/// Age from which a segment must not be sent, because its objects may be deleted some days later.
pub(super) const DAY: Duration = Duration::from_hours(24);
/// Longest possible stamp and origin. A line that fits with them also fits with the real ones, even
/// after a merge.
const LONGEST_STAMP: Stamp = Stamp(u64::MAX);
const LONGEST_ORIGIN: Origin = Origin {
    segment: SegmentId { writer: WriterId(u64::MAX), number: 999_999_999_999 },
    place: u32::MAX,
};

#[derive(Debug)]
pub(super) struct ReadyFile {
    pub(super) line: PutLine,
    /// Maximum bytes of the file's line, in this segment and in merges.
    pub(super) weight: usize,
    pub(super) bytes: ReadyBytes,
}

#[derive(Debug)]
pub(super) enum ReadyBytes {
    Small(Vec<u8>),
    Object(Upload),
}

impl ReadyFile {
    pub(super) fn bytes(&self) -> PutBytes<'_> {
        match &self.bytes {
            ReadyBytes::Small(bytes) => PutBytes::Bytes(bytes),
            ReadyBytes::Object(upload) => PutBytes::Object(upload.object.clone()),
        }
    }

    pub(super) fn parts(&self) -> Option<PutParts<'_>> {
        self.upload()?.parts.as_ref()?.put()
    }

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

pub(crate) fn message_text(line: Vec<u8>) -> Result<String, String> {
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

pub(super) fn recorded(
    record: Record,
    path: &str,
    put: &LocalPut,
    digest: &str,
) -> Result<Record, LeftOut> {
    let is_it = record.analysis.as_ref().is_some_and(|analysis| analysis.digest == digest);
    if !is_it {
        return Err(LeftOut::Changed);
    }
    let (path, size, modified) = (path.to_owned(), put.version.size, put.version.modified);
    Ok(Record { path, size, modified, ..record })
}

pub(super) fn small(file: File, put: &LocalPut, digest: &str) -> Result<Vec<u8>, LeftOut> {
    let mut bytes = Vec::with_capacity(put.version.size as usize);
    let read = file.take(SMALL_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| unread(&error))?;
    let is_it =
        bytes.len() as u64 == put.version.size && blake3::hash(&bytes).to_hex().as_str() == digest;
    if is_it { Ok(bytes) } else { Err(LeftOut::Changed) }
}

pub(super) fn unread(error: &io::Error) -> LeftOut {
    LeftOut::Unread(error.to_string())
}

pub(super) fn checked(mut line: PutLine, bytes: ReadyBytes) -> Result<ReadyFile, LeftOut> {
    line.place = match &bytes {
        ReadyBytes::Small(bytes) if bytes.is_empty() => Place::Empty,
        // The offset is not known yet, so use the longest one.
        ReadyBytes::Small(bytes) => {
            Place::Inside { at: SEGMENT_BYTES, packed: SMALL_BYTES, size: bytes.len() as u64 }
        }
        ReadyBytes::Object(upload) => Place::Object(upload.object.clone()),
    };
    (line.stamp, line.origin) = (LONGEST_STAMP, Some(LONGEST_ORIGIN));
    match check(Line::Put(Box::new(line)))? {
        (Line::Put(mut line), weight) => {
            (line.stamp, line.origin) = (Stamp::default(), None);
            Ok(ReadyFile { line: *line, weight, bytes })
        }
        _ => unreachable!("a line stays what it is"),
    }
}

fn check(line: Line) -> Result<(Line, usize), LeftOut> {
    written(line).map_err(|error| LeftOut::Refused(error.to_string()))
}

fn written(line: Line) -> Result<(Line, usize), FormatError> {
    let mut written = Vec::new();
    line.write(&mut written)?;
    Ok((line, written.len()))
}

/// Number of bytes of small artifacts from which a segment is full. `MOST_RECORDS` is the same for
/// records. Even with one more line of maximum length, the segment stays a quarter below the limits
/// of readers.
const MOST_BYTES: u64 = 4 << 20;
const MOST_RECORDS: usize = 8 << 20;
const MOST_LINES: usize = 20_000;

#[derive(Debug)]
pub(super) struct NewMessages {
    pub(super) texts: Vec<String>,
    pub(super) at: LogPosition,
}

#[derive(Debug)]
pub(super) struct Batch {
    changes: Changes,
    pub(super) ready: BTreeMap<String, ReadyFile>,
    pub(super) messages: Option<NewMessages>,
    ends: bool,
    bytes: u64,
    weight: usize,
}

#[derive(Debug)]
pub(super) struct FinishedSegment {
    pub(super) publication: Publication<(), String>,
    pub(super) bytes: Vec<u8>,
}

impl Batch {
    /// Starts a segment with moves and removals, whose lines have `weight` bytes. If `ends` is
    /// true, they remove the conversation.
    pub(super) fn new(changes: Changes, weight: usize, ends: bool) -> Self {
        Self { changes, ready: BTreeMap::new(), messages: None, ends, bytes: 0, weight }
    }

    pub(super) fn add(&mut self, path: &str, put: &LocalPut, ready: ReadyFile) {
        self.bytes += ready.small_bytes();
        self.weight += ready.weight;
        self.changes.puts.insert(path.to_owned(), put.clone());
        self.ready.insert(path.to_owned(), ready);
    }

    pub(super) fn is_full(&self) -> bool {
        let lines = self.ready.len();
        self.bytes >= MOST_BYTES || self.weight >= MOST_RECORDS || lines >= MOST_LINES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.messages.is_none()
    }

    /// Returns the time from which the age of the segment counts: the creation time of its oldest
    /// object, or `now`.
    pub(super) fn since(&self, now: &Moment) -> Moment {
        let objects = self.ready.values().filter_map(ReadyFile::upload);
        let oldest = objects.max_by_key(|upload: &&Upload| now.since(&upload.since));
        oldest.map_or_else(|| now.clone(), |upload| upload.since.clone())
    }

    /// Builds the segment `id`. `now` is the current time in microseconds since the epoch.
    pub(super) fn make(
        &self,
        id: SegmentId,
        clock: &mut Clock,
        now: u64,
    ) -> Result<FinishedSegment, FormatError> {
        let texts = self.messages.iter().flat_map(|messages| messages.texts.iter().cloned());
        let publication = Publication::new(id, &self.changes, texts, clock, now, |_| ());
        let bytes = self.write(&publication.segment)?;
        Ok(FinishedSegment { publication, bytes })
    }

    fn write(&self, segment: &Segment<(), String>) -> Result<Vec<u8>, FormatError> {
        let mut writer = SegmentWriter::new(segment.id, Covers::new());
        for (origin, claim) in &segment.artifacts {
            let ready = &self.ready[&claim.path];
            let line = PutLine { stamp: claim.stamp, ..ready.line.clone() };
            let place = writer.put_with_parts(line, ready.bytes(), ready.parts())?;
            assert_eq!(place, *origin, "the lines of artifacts come in the order of their places");
        }
        for (origin, (stamp, text)) in &segment.messages {
            let line = MessageLine { text: text.clone(), stamp: *stamp, origin: None };
            let place = writer.message(line)?;
            assert_eq!(place, *origin, "messages follow the artifacts");
        }
        for (artifact, to) in &segment.moves {
            let (artifact, to, stamp) = (*artifact, to.to.clone(), to.stamp);
            writer.movement(MoveLine { artifact, to, stamp })?;
        }
        if !segment.removed.is_empty() {
            let (origins, segments) =
                (segment.removed.origins.clone(), segment.removed.segments.clone());
            writer.remove(RemoveLine { origins, segments, ends: self.ends })?;
        }
        writer.finish()
    }
}

/// State about one conversation that a process keeps in memory between pushes. It is empty when the
/// process starts.
#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(super) looked: Option<Moment>,
    /// Uploaded objects that no segment names yet, by path. If the process forgets them, garbage
    /// collection deletes them later.
    pub(super) uploads: BTreeMap<String, Upload>,
}

#[derive(Debug, Clone)]
pub(super) struct Upload {
    pub(super) key: FileKey,
    pub(super) version: FileVersion,
    pub(super) digest: String,
    pub(super) since: Moment,
    pub(super) object: ObjectPlace,
    pub(super) parts: Option<Arc<PartBytes>>,
}

impl Upload {
    /// Returns true if the object has the content of the file and is recent enough to be named in a
    /// segment.
    pub(super) fn fits(&self, put: &LocalPut, now: &Moment) -> bool {
        self.key == put.key
            && self.version == put.version
            && put.digest.as_deref() == Some(&*self.digest)
            && now.since(&self.since) <= DAY
    }
}

/// A file to publish.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    /// The file, open for reading at its start.
    pub file: File,
    /// Record with an analysis. The caller sets its path, size and time.
    pub record: Record,
    pub mode: u32,
    pub attributes: BTreeMap<String, String>,
}

/// A line of the local message log, without its newline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnLine {
    pub offset: u64,
    pub length: u64,
    /// Text of the line. `None` if the line is too long for any segment.
    pub text: Option<Vec<u8>>,
}

/// Files and messages of a conversation on this host. A source returns a file only if the file is
/// in the state that the caller compared.
pub(crate) trait PushSource {
    fn open(
        &self,
        path: &str,
        key: FileKey,
        version: FileVersion,
    ) -> Result<Option<OpenedFile>, RemoteError>;

    /// Returns messages after a position of the log, about 4 MiB at most, and the position after
    /// the last of them. Starts at the beginning if the log file has been replaced.
    fn message_lines(&self, from: &LogPosition)
    -> Result<(Vec<OwnLine>, LogPosition), RemoteError>;
}

/// A source without files. It is used to push merges and removals.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoSource;

impl PushSource for NoSource {
    fn open(
        &self,
        _path: &str,
        _key: FileKey,
        _version: FileVersion,
    ) -> Result<Option<OpenedFile>, RemoteError> {
        Ok(None)
    }

    fn message_lines(
        &self,
        from: &LogPosition,
    ) -> Result<(Vec<OwnLine>, LogPosition), RemoteError> {
        Ok((Vec::new(), *from))
    }
}

/// Reason why a file or a message was not published. The rest of the push continues. The next push
/// retries files, and reports them again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeftOut {
    /// The file changed or is open for writing. The next push publishes its new state.
    #[error("it has changed since")]
    Changed,
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    Unread(String),
    /// A record cannot describe the file.
    #[error("it cannot be shared: {0}")]
    Refused(String),
    /// The message cannot be shared. The other messages are published without it. This is reported
    /// only once.
    #[error("a message of {bytes} bytes cannot be shared, and stays on this host: {why}")]
    Message {
        /// Size of the message in bytes.
        bytes: u64,
        /// Reason why it cannot be shared.
        why: String,
    },
    /// The bucket is write-once, and the change would replace or remove something.
    #[error(
        "the bucket is write-once: what it has under this name stays. Use another name for what is \
         new"
    )]
    WriteOnce,
}

impl LeftOut {
    /// Returns true if this is reported by one push only.
    #[must_use]
    pub fn is_told_once(&self) -> bool {
        matches!(self, Self::Message { .. })
    }
}
