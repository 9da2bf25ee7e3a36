//! Message log of a conversation, merged from all hosts.
//!
//! ```text
//! <store>/remote/messages/<conversation>/published.jsonl
//! ```
//!
//! Readers get the local log if its published part equals the merged messages. Otherwise readers
//! get the merged log, which is in this file, followed by the unpublished rest of the local log.
//!
//! The first line of the file is a [`PublishedHead`]. It identifies the local log to which the file
//! belongs, and states the length of the published part of that log. A file that belongs to a
//! different local log is ignored. The file is rewritten after a pull. It stays valid until then,
//! since readers append the later messages of this host from the local log.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::{io, mem};

use rustix::fs::{OFlags, RenameFlags};
use serde::{Deserialize, Serialize};

use crate::bucket::{FormatError, LINE_BYTES, Line};
use crate::remote::notes::ShownMessages;
use crate::remote::push::message_text;
use crate::remote::{
    Home, LogPosition, Notes, RemoteError, Stored, StoredMessage, StoredSegment, disk,
};
use crate::replica::{SegmentId, State};
use ctxfs_core::model::{Component, Content};
use ctxfs_store::message::{LockedLog, Log, LogLine, LogLines, OtherMessages, Published};
use ctxfs_store::{
    Artifact, Conversation, Dir, FileMark, PUBLISHED, Stat, Store, message, read_full_at, stat_file,
};

const NEW: &str = "published.jsonl.new";
const BLOCK: usize = 256 << 10;

pub(super) struct MergedLog<'a> {
    pub(super) home: &'a Home,
    pub(super) notes: &'a Notes,
    pub(super) conversation: &'a Conversation,
    pub(super) state: &'a State<Stored, StoredMessage>,
    pub(super) segments: BTreeSet<SegmentId>,
    pub(super) at: LogPosition,
    pub(super) now: u64,
}

impl MergedLog<'_> {
    pub(super) fn keep(&self) -> Result<(), RemoteError> {
        let Some(own) = self.own_log()? else { return Ok(()) };
        let dir = self.home.messages(self.conversation.id())?;
        let part = self.own_part(&own).map_err(self.failed("read"))?;
        let (inode, born, segments) = (part.at.inode, part.at.born, self.segments.clone());
        self.notes.keep_shown(Some(&ShownMessages { inode, born, segments }))?;
        if self.digest()? == part.digest {
            return forget(&dir, &own).map_err(self.failed("show"));
        }
        let at = part.at;
        let new = self.write(&dir, part)?;
        self.replace(&dir, &own, (new, at)).map_err(self.failed("show"))
    }

    fn own_log(&self) -> Result<Option<Arc<File>>, RemoteError> {
        if self.state.messages.is_empty() && self.conversation.log_file()?.is_none() {
            return Ok(None);
        }
        Ok(Some(Arc::new(self.conversation.ensured_log_file()?)))
    }

    fn own_part(&self, own: &Arc<File>) -> io::Result<LocalPart> {
        let mark = FileMark::of(&stat_file(own)?);
        let offset = self.at.bytes_in(&mark);
        let at = LogPosition { inode: mark.ino, born: mark.born, offset, ..self.at };
        LocalPart::read(&Artifact::new(Arc::clone(own), offset), at)
    }

    fn failed(&self, action: &'static str) -> impl Fn(io::Error) -> RemoteError {
        move |error| self.conversation.log_error(action, error).into()
    }

    fn each(
        &self,
        mut take: impl FnMut(&str) -> Result<(), RemoteError>,
    ) -> Result<(), RemoteError> {
        let mut texts = MessageReader::of(self.notes);
        self.state.messages.values().try_for_each(|told| take(&texts.text(told)?))
    }

    fn digest(&self) -> Result<blake3::Hash, RemoteError> {
        let mut digest = blake3::Hasher::new();
        self.each(|text| {
            add_message(&mut digest, text);
            Ok(())
        })?;
        Ok(digest.finalize())
    }

    /// Writes all messages to a new file, after a blank first line. Each local line that cannot be
    /// shared follows the message that precedes it in the local log.
    fn write(&self, dir: &Dir, mut part: LocalPart) -> Result<File, RemoteError> {
        let flags = OFlags::RDWR | OFlags::TRUNC;
        let file = dir.create_file(NEW.as_ref(), flags, disk::FILE_MODE);
        let file = file.map_err(self.failed("show"))?;
        let mut out = BufWriter::new(&file);
        let begun =
            out.write_all(&[b' '; HEAD]).and_then(|()| part.write_those_after(None, &mut out));
        begun.map_err(self.failed("show"))?;
        self.each(|text| {
            let written = writeln!(out, "{text}").and_then(|()| part.write_after(text, &mut out));
            written.map_err(self.failed("show"))
        })?;
        let ended = part.write_rest(&mut out).and_then(|()| out.flush());
        drop(out);
        ended.and_then(|()| file.sync_data()).map_err(self.failed("show"))?;
        Ok(file)
    }

    fn replace(
        &self,
        dir: &Dir,
        own: &Arc<File>,
        (new, at): (File, LogPosition),
    ) -> io::Result<()> {
        let _locked = LockedLog::wait(own)?;
        let new = Arc::new(new);
        let Some(edition) = self.edition(dir, own, (&new, at))? else {
            return disk::remove(dir, NEW);
        };
        new.write_all_at(&PublishedHead { edition, own: at }.line(), 0)?;
        new.sync_data()?;
        dir.rename(NEW.as_ref(), dir, PUBLISHED.as_ref(), RenameFlags::empty())?;
        dir.sync()?;
        touch(own);
        Ok(())
    }

    /// Returns the edition number for the new merged log. It stays the same if the old log is a
    /// prefix of `new`. Returns `None` if both logs are equal.
    fn edition(
        &self,
        dir: &Dir,
        own: &Arc<File>,
        (new, at): (&Arc<File>, LogPosition),
    ) -> io::Result<Option<u64>> {
        let stat = stat_file(own)?;
        let whole = Artifact::new(Arc::clone(own), message::whole(own, stat.size)?);
        let known = published_in(dir, &stat)?.map(Arc::new);
        let known_edition = known.as_ref().map(|known| known.edition());
        let before = Log::new(whole.clone(), known);
        let range = HEAD as u64..new.metadata()?.len();
        let front = Published::new(Arc::clone(new), range, 0, at.offset);
        let after = Log::new(whole, Some(Arc::new(front)));
        let grows = begins_with(&after, &before)?;
        Ok(match known_edition {
            _ if grows && after.len() == before.len() => None,
            Some(edition) if grows => Some(edition),
            // The new number is larger than the old edition, and larger than all earlier ones as
            // long as the clock does not go back.
            edition => Some(self.now.max(edition.unwrap_or_default().saturating_add(1))),
        })
    }
}

/// Removes the merged log, so that readers see only the local log.
fn forget(dir: &Dir, own: &Arc<File>) -> io::Result<()> {
    match dir.stat(PUBLISHED.as_ref()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        stat => stat?,
    };
    let _locked = LockedLog::wait(own)?;
    disk::remove(dir, PUBLISHED)?;
    touch(own);
    Ok(())
}

fn touch(own: &File) {
    if let Err(error) = own.set_modified(std::time::SystemTime::now()) {
        tracing::debug!(%error, "the time of a log stays as it was");
    }
}

fn begins_with(whole: &dyn Content, start: &dyn Content) -> io::Result<bool> {
    let mut offset = 0;
    while offset < start.len() {
        let block = start.bytes(offset, BLOCK)?;
        if block.is_empty() || whole.bytes(offset, block.len())? != block {
            return Ok(false);
        }
        offset += block.len() as u64;
    }
    Ok(true)
}

#[derive(Debug)]
struct LocalPart {
    at: LogPosition,
    digest: blake3::Hash,
    /// Lines that cannot be shared, each with the digest of the preceding message. Usually there
    /// are none or few.
    unshared: Vec<(Option<blake3::Hash>, LogLine)>,
}

fn add_message(digest: &mut blake3::Hasher, text: &str) {
    digest.update(text.as_bytes());
    digest.update(b"\n");
}

impl LocalPart {
    fn read(part: &Artifact, at: LogPosition) -> io::Result<Self> {
        let (mut digest, mut unshared, mut before) = (blake3::Hasher::new(), Vec::new(), None);
        for line in LogLines::from(part.clone(), 0) {
            let line = line?;
            match shared(&line)? {
                Some(text) => {
                    add_message(&mut digest, &text);
                    before = Some(blake3::hash(text.as_bytes()));
                }
                None => unshared.push((before, line)),
            }
        }
        Ok(Self { at, digest: digest.finalize(), unshared })
    }

    fn write_after(&mut self, text: &str, out: &mut impl Write) -> io::Result<()> {
        if self.unshared.is_empty() {
            return Ok(());
        }
        self.write_those_after(Some(blake3::hash(text.as_bytes())), out)
    }

    fn write_rest(&mut self, out: &mut impl Write) -> io::Result<()> {
        mem::take(&mut self.unshared).iter().try_for_each(|(_, line)| write_line(line, out))
    }

    fn write_those_after(
        &mut self,
        message: Option<blake3::Hash>,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let all = mem::take(&mut self.unshared).into_iter();
        let (these, others): (Vec<_>, Vec<_>) = all.partition(|(before, _)| *before == message);
        self.unshared = others;
        these.iter().try_for_each(|(_, line)| write_line(line, out))
    }
}

fn shared(line: &LogLine) -> io::Result<Option<String>> {
    if line.len() >= LINE_BYTES as u64 {
        return Ok(None);
    }
    Ok(message_text(line.bytes(0, line.len() as usize)?).ok())
}

fn write_line(line: &LogLine, out: &mut impl Write) -> io::Result<()> {
    line.read(|block| out.write_all(block))?;
    out.write_all(b"\n")
}

/// Maximum bytes of cached records, enough for two segments of maximum size.
const MOST: usize = 64 << 20;

/// Reads messages from their segments. Messages of several hosts alternate, so the reader caches
/// the records of some segments.
struct MessageReader<'a> {
    notes: &'a Notes,
    held: BTreeMap<SegmentId, StoredSegment>,
    bytes: usize,
}

impl<'a> MessageReader<'a> {
    fn of(notes: &'a Notes) -> Self {
        Self { notes, held: BTreeMap::new(), bytes: 0 }
    }

    fn text(&mut self, told: &StoredMessage) -> Result<String, RemoteError> {
        let id = told.segment;
        if !self.held.contains_key(&id) {
            self.hold(id)?;
        }
        if let Line::Message(line) = self.held[&id].line(&told.line)? {
            return Ok(line.text);
        }
        Err(RemoteError::of(id)(FormatError::damaged("a message is none any more")))
    }

    fn hold(&mut self, id: SegmentId) -> Result<(), RemoteError> {
        let segment = self.notes.open_segment(id)?;
        let bytes = segment.records.len();
        if self.bytes + bytes > MOST {
            self.held.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.held.insert(id, segment);
        Ok(())
    }
}

pub(super) const HEAD: usize = 256;

/// Merged message logs of a store, as of the last pull of each conversation. Readers see the merged
/// log, followed by the unpublished rest of the local log.
#[derive(Debug)]
pub struct PublishedMessages(Store);

/// First line of the merged log. It is JSON, padded with blanks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PublishedHead {
    pub(super) edition: u64,
    pub(super) own: LogPosition,
}

impl PublishedHead {
    pub(super) fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("a head can be JSON");
        line.resize(HEAD - 1, b' ');
        line.push(b'\n');
        line
    }

    fn read(file: &File) -> io::Result<Option<Self>> {
        let mut line = [0; HEAD];
        let count = read_full_at(file, 0, &mut line)?;
        Ok(serde_json::from_slice(&line[..count]).ok())
    }
}

impl PublishedMessages {
    /// Returns the merged logs of `store`. Does not open any file.
    pub fn of(store: &Store) -> Self {
        Self(store.clone())
    }
}

impl OtherMessages for PublishedMessages {
    fn published(
        &self,
        conversation: &Component,
        own: &Stat,
    ) -> io::Result<Option<Arc<Published>>> {
        let Some(file) = self.0.published_messages(conversation)? else { return Ok(None) };
        Ok(published(file, own)?.map(Arc::new))
    }
}

fn published_in(dir: &Dir, own: &Stat) -> io::Result<Option<Published>> {
    match dir.open_file(PUBLISHED.as_ref(), OFlags::RDONLY) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        file => published(file?, own),
    }
}

fn published(file: File, own: &Stat) -> io::Result<Option<Published>> {
    let Some(head) = PublishedHead::read(&file)? else {
        tracing::warn!(
            "what other hosts said cannot be read: it is damaged; `ctxfs pull` makes it anew"
        );
        return Ok(None);
    };
    if !head.own.is_in(&FileMark::of(own)) {
        return Ok(None);
    }
    let end = file.metadata()?.len().max(HEAD as u64);
    Ok(Some(Published::new(Arc::new(file), HEAD as u64..end, head.edition, head.own.offset)))
}

#[cfg(test)]
mod tests;
