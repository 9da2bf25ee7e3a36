//! Sources of the files and messages of a conversation for a push.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::io::{Read as _, Seek as _};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::OFlags;

use crate::bucket::Line;
use crate::remote::files::{mark_of, shared_path};
use crate::remote::notes::ShownMessages;
use crate::remote::push::message_text;
use crate::remote::{
    Agreement, LogPosition, Notes, RemoteError, StoredMessage, StoredSegment, pieces,
};
use crate::replica::{FileKey, FileVersion, Origin, SegmentId, State, WriterId};
use ctxfs_core::materialize::Analyzer;
use ctxfs_core::model::{Analysis, ArtifactState, Content as _, Record, RelPath, text};
use ctxfs_store::message::{LogLine, LogLines};
use ctxfs_store::{
    Artifact, Conversation, FileMark, Lease, Stat, StoreError, lease_of, message, stat_file,
    user_attributes,
};

/// Mask of the permission bits that are sent. The set-user-ID and set-group-ID bits are not sent.
const MODE: u32 = 0o777;
const BLOCK: usize = 128 << 10;
/// Maximum bytes of messages that one call returns, unless a single message has more.
const MESSAGES_BYTES: usize = 4 << 20;
const AROUND: usize = 128;

#[derive(Debug)]
pub(crate) struct OpenedFile {
    pub file: File,
    /// Record with an analysis. The caller sets its path, size and time.
    pub record: Record,
    pub mode: u32,
    pub attributes: BTreeMap<String, String>,
}

/// A line of the local message log, without its newline. `after` is the position after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnLine {
    pub offset: u64,
    pub length: u64,
    pub text: Option<Vec<u8>>,
    pub after: LogPosition,
}

/// Files and messages of a conversation on this host. A source returns a file only if it still has
/// the key and version that the caller states.
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

/// Local files and messages of a conversation. Each push needs a new instance.
#[derive(Debug)]
pub(crate) struct LocalSource<'a> {
    conversation: &'a Conversation,
    is_synced: AtomicBool,
}

impl<'a> LocalSource<'a> {
    pub(crate) fn new(conversation: &'a Conversation) -> Self {
        Self { conversation, is_synced: AtomicBool::new(false) }
    }

    fn sync_once(&self) -> io::Result<()> {
        if !self.is_synced.load(Relaxed) {
            rustix::fs::syncfs(self.conversation.dir())?;
            self.is_synced.store(true, Relaxed);
        }
        Ok(())
    }

    fn complete(
        &self,
        path: &RelPath,
        file: File,
        stat: &Stat,
    ) -> Result<Option<OpenedFile>, RemoteError> {
        let record = match self.conversation.record_for(path, stat)? {
            record if record.state == ArtifactState::Live => {
                self.conversation.recover(path, None)?
            }
            record => Some(record),
        };
        let Some(record) = record.filter(|_| lease_of(&file) != Lease::Held) else {
            return Ok(None);
        };
        let opened = opened(path, record, (file, stat));
        Ok(opened.map_err(self.error_at(path))?)
    }

    fn error_at<'p>(&self, path: &'p RelPath) -> impl Fn(io::Error) -> StoreError + use<'a, 'p> {
        let conversation = self.conversation;
        move |error| conversation.error_at("read", path, error)
    }
}

impl PushSource for LocalSource<'_> {
    /// Opens a file. The first call syncs the disk. Without the sync, a crash of the machine could
    /// leave fewer bytes than were sent, and the shorter file would count as a change.
    fn open(
        &self,
        path: &str,
        key: FileKey,
        version: FileVersion,
    ) -> Result<Option<OpenedFile>, RemoteError> {
        let (Some(path), Some(mark)) = (shared_path(path), mark_of(key, version)) else {
            return Ok(None);
        };
        let flags = OFlags::RDONLY | OFlags::NOATIME;
        let file = match self.conversation.dir().open_file_at(&path, flags) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(self.error_at(&path))?,
        };
        self.sync_once().map_err(self.error_at(&path))?;
        let stat = stat_file(&file).map_err(self.error_at(&path))?;
        if FileMark::of(&stat) != mark {
            return Ok(None);
        }
        self.complete(&path, file, &stat)
    }

    fn message_lines(
        &self,
        from: &LogPosition,
    ) -> Result<(Vec<OwnLine>, LogPosition), RemoteError> {
        let Some(file) = self.conversation.log_file()? else { return Ok((Vec::new(), *from)) };
        let read = || {
            let mark = FileMark::of(&stat_file(&file)?);
            let log = Artifact::new(Arc::clone(&file), message::whole(&file, mark.size)?);
            let start = LogPosition { inode: mark.ino, born: mark.born, ..LogPosition::default() };
            let start = if from.is_in(&mark) { *from } else { start };
            let (lines, at) = messages_of(log, start)?;
            if !lines.is_empty() {
                // Without this sync, a crash could lose messages that other hosts already have.
                file.sync_data()?;
            }
            Ok((lines, at))
        };
        let read: io::Result<_> = read();
        Ok(read.map_err(|error| self.conversation.log_error("read", error))?)
    }
}

fn opened(
    path: &RelPath,
    record: Record,
    (mut file, stat): (File, &Stat),
) -> io::Result<Option<OpenedFile>> {
    let known = record.analysis.clone().filter(|_| stat.is_recorded(&record));
    let analysis = match known {
        Some(analysis) => analysis,
        None => analyse(path, &mut file)?,
    };
    if analysis.bytes != stat.size || !stat_file(&file)?.is_unchanged(stat) {
        return Ok(None);
    }
    let record = sent(path, record, stat, analysis);
    let (mode, attributes) = (stat.mode & MODE, attributes_of(&file)?);
    Ok(Some(OpenedFile { file, record, mode, attributes }))
}

fn sent(path: &RelPath, record: Record, stat: &Stat, analysis: Analysis) -> Record {
    Record {
        path: path.to_text(),
        size: stat.size,
        modified: stat.mtime.as_nanos(),
        analysis: Some(analysis),
        file: None,
        owner: None,
        view_sizes: None,
        removed: None,
        far: None,
        ..record
    }
}

fn analyse(path: &RelPath, file: &mut File) -> io::Result<Analysis> {
    let mut analyzer = if path.is_terminal() { Analyzer::of_log() } else { Analyzer::new() };
    let mut block = vec![0; BLOCK];
    loop {
        match file.read(&mut block) {
            Ok(0) => break,
            Ok(count) => analyzer.push(&block[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    file.rewind()?;
    Ok(analyzer.finish())
}

fn attributes_of(file: &File) -> io::Result<BTreeMap<String, String>> {
    let all = user_attributes(file)?.into_iter();
    let named = all.filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    Ok(named.map(|(name, value)| (name, text::encode(&value))).collect())
}

fn messages_of(log: Artifact, mut at: LogPosition) -> io::Result<(Vec<OwnLine>, LogPosition)> {
    let (mut taken, mut bytes) = (Vec::new(), 0);
    let mut lines = LogLines::from(log, at.offset);
    while let Some(line) = lines.next() {
        let line = line?;
        let chain = extend_chain(at.chain, &line)?;
        let after = LogPosition { offset: lines.reached(), chain, ..at };
        let line = own_line(line, after)?;
        let length = line.text.as_ref().map_or(0, |text| text.len() + AROUND);
        if bytes > 0 && bytes + length > MESSAGES_BYTES {
            return Ok((taken, at));
        }
        taken.push(line);
        bytes += length;
        at = after;
    }
    Ok((taken, LogPosition { offset: lines.reached(), ..at }))
}

/// Returns the line whose newline ends at `after`. Leaves the text of a line unread if it is too long
/// for a segment.
fn own_line(line: LogLine, after: LogPosition) -> io::Result<OwnLine> {
    let length = line.len();
    let offset = after.offset.saturating_sub(length + 1);
    let text = match line {
        LogLine::Bytes(bytes) => Some(bytes),
        LogLine::Part(..) if length >= crate::bucket::LINE_BYTES as u64 => None,
        LogLine::Part(log, start, length) => Some(log.bytes(start, length as usize)?),
    };
    Ok(OwnLine { offset, length, text, after })
}

fn extend_chain(before: u64, line: &LogLine) -> io::Result<u64> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&before.to_le_bytes());
    line.read(|block| {
        hasher.update(block);
        Ok::<_, io::Error>(())
    })?;
    let hash = hasher.finalize();
    let first = hash.as_bytes().first_chunk().copied().unwrap_or_default();
    Ok(u64::from_le_bytes(first))
}

/// Returns the position in the current log file that corresponds to `at`. In a copy of the store,
/// finds the position by its hash chain. Returns `None` if the log was replaced or removed.
pub(super) fn locate_log(
    conversation: &Conversation,
    at: LogPosition,
) -> Result<Option<LogPosition>, RemoteError> {
    if at.inode == 0 {
        return Ok(Some(at));
    }
    let Some(file) = conversation.log_file()? else { return Ok(None) };
    let found = place_in(&file, at);
    Ok(found.map_err(|error| conversation.log_error("read", error))?)
}

fn place_in(file: &Arc<File>, at: LogPosition) -> io::Result<Option<LogPosition>> {
    let mark = FileMark::of(&stat_file(file)?);
    let start = LogPosition { inode: mark.ino, born: mark.born, ..LogPosition::default() };
    // A truncated file keeps the position, and is published again from its beginning.
    if (at.inode, at.born) == (mark.ino, mark.born) {
        return Ok(Some(at));
    }
    if at.offset == 0 {
        return Ok(Some(start));
    }
    let log = Artifact::new(Arc::clone(file), message::whole(file, mark.size)?);
    let (mut chain, mut lines) = (0, LogLines::from(log, 0));
    while let Some(line) = lines.next() {
        chain = extend_chain(chain, &line?)?;
        if chain == at.chain {
            return Ok(Some(LogPosition { offset: lines.reached(), chain, ..start }));
        }
    }
    Ok(None)
}

pub(super) fn log_start(conversation: &Conversation) -> Result<LogPosition, RemoteError> {
    let Some(file) = conversation.log_file()? else { return Ok(LogPosition::default()) };
    let stat = stat_file(&file).map_err(|error| conversation.log_error("look at", error))?;
    let mark = FileMark::of(&stat);
    Ok(LogPosition { inode: mark.ino, born: mark.born, ..LogPosition::default() })
}

/// Returns true if the directory of the conversation is at least as old as the log file that `at`
/// refers to. Returns false if one of the two birth times is unknown.
pub(super) fn is_original_directory(
    conversation: &Conversation,
    at: LogPosition,
) -> Result<bool, RemoteError> {
    let stat = conversation.dir().stat_self();
    let dir = FileMark::of(&stat.map_err(|error| conversation.log_error("look beside", error))?);
    Ok((1..=at.born).contains(&dir.born))
}

/// Returns the messages that a replacement of the log at `at` removes: the messages of `writer`,
/// and the messages that readers were last shown together with that log.
pub(super) fn replaced_messages(
    notes: &Notes,
    at: &LogPosition,
    writer: Option<WriterId>,
) -> Result<BTreeSet<Origin>, RemoteError> {
    let shown = notes.shown()?.filter(|shown| (shown.inode, shown.born) == (at.inode, at.born));
    seen_messages(notes, shown, writer)
}

pub(super) fn removed_messages(
    notes: &Notes,
    writer: Option<WriterId>,
) -> Result<BTreeSet<Origin>, RemoteError> {
    seen_messages(notes, notes.shown()?, writer)
}

pub(super) fn is_log_rewritten(
    conversation: &Conversation,
    at: LogPosition,
) -> Result<bool, RemoteError> {
    let Some(file) = conversation.log_file()? else { return Ok(false) };
    let read = || -> io::Result<bool> {
        let mark = FileMark::of(&stat_file(&file)?);
        if (at.inode, at.born) != (mark.ino, mark.born) || at.offset == 0 || at.chain == 0 {
            return Ok(false);
        }
        let log = Artifact::new(Arc::clone(&file), message::whole(&file, mark.size)?);
        let (mut chain, mut lines) = (0, LogLines::from(log, 0));
        while lines.reached() < at.offset
            && let Some(line) = lines.next()
        {
            chain = extend_chain(chain, &line?)?;
        }
        Ok((lines.reached(), chain) != (at.offset, at.chain))
    };
    Ok(read().map_err(|error| conversation.log_error("read", error))?)
}

pub(super) fn seen_messages(
    notes: &Notes,
    shown: Option<ShownMessages>,
    writer: Option<WriterId>,
) -> Result<BTreeSet<Origin>, RemoteError> {
    let segments = shown.map(|shown| shown.segments).unwrap_or_default();
    let state = State::of_all(pieces(notes)?.pieces);
    let was_seen = |origin: &Origin| {
        Some(origin.segment.writer) == writer || segments.contains(&origin.segment)
    };
    Ok(state.messages.into_keys().map(|(_, origin)| origin).filter(was_seen).collect())
}

/// Messages that one writer published, in order. They are read from the local segments.
struct PublishedRun {
    messages: std::vec::IntoIter<StoredMessage>,
    open: Option<StoredSegment>,
}

impl PublishedRun {
    /// Returns the messages that this host may have published without knowing it: the messages of its
    /// writer from the number `next` on or, if it knows of no writer, the messages of each writer.
    fn all(notes: &Notes, before: &Agreement) -> Result<Vec<Self>, RemoteError> {
        let mut runs: BTreeMap<WriterId, BTreeMap<Origin, StoredMessage>> = BTreeMap::new();
        for (origin, (_, message)) in pieces(notes)?.pieces.into_iter().flat_map(|it| it.messages) {
            let SegmentId { writer, number } = origin.segment;
            if before.writer.is_none_or(|known| known == writer && number >= before.next) {
                runs.entry(writer).or_default().insert(origin, message);
            }
        }
        let messages = runs.into_values().map(|run| run.into_values().collect::<Vec<_>>());
        Ok(messages.map(|run| Self { messages: run.into_iter(), open: None }).collect())
    }

    fn continues_with(&mut self, notes: &Notes, text: &str) -> Result<bool, RemoteError> {
        let Some(StoredMessage { segment, line }) = self.messages.next() else { return Ok(false) };
        let open = match self.open.take().filter(|open| open.id() == segment) {
            Some(open) => open,
            None => notes.open_segment(segment)?,
        };
        let line = self.open.insert(open).line(&line)?;
        Ok(matches!(line, Line::Message(message) if message.text == text))
    }
}

/// Returns the position after those unpublished lines of the local log that the bucket has already.
/// A host that was restored from a backup, or has lost its state about the bucket, published them
/// earlier and does not know it. They are at the start of its unpublished lines, in the same order.
pub(super) fn after_published(
    source: &dyn PushSource,
    notes: &Notes,
    before: &Agreement,
) -> Result<LogPosition, RemoteError> {
    let (mut known, mut at) = (before.messages, before.messages);
    let mut runs = PublishedRun::all(notes, before)?;
    while !runs.is_empty() {
        let (lines, end) = source.message_lines(&at)?;
        if lines.is_empty() {
            break;
        }
        for line in lines {
            // What cannot be shared was passed over.
            let Some(Ok(text)) = line.text.map(message_text) else { continue };
            let mut going = Vec::new();
            for mut run in runs {
                if run.continues_with(notes, &text)? {
                    going.push(run);
                }
            }
            runs = going;
            if runs.is_empty() {
                return Ok(known);
            }
            known = line.after;
        }
        at = end;
    }
    Ok(known)
}

#[cfg(test)]
mod tests;
