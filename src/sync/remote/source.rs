//! Files and messages of a local conversation, opened for a push.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::io::{Read as _, Seek as _};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::OFlags;

use crate::bucket::LINE_BYTES;
use crate::remote::error::RemoteError;
use crate::remote::mark::{mark_of, shared_path};
use crate::remote::notes::MessagesAt;
use crate::remote::own_log::chained;
use crate::remote::push::{Opened, OwnLine, Source};
use crate::replica::{FileKey, FileVersion};
use ctxfs_core::materialize::Analyzer;
use ctxfs_core::model::{Analysis, ArtifactState, Content as _, Record, RelPath, text};
use ctxfs_store::message::{LogLine, LogLines};
use ctxfs_store::{
    Artifact, Conversation, FileMark, Lease, Stat, StoreError, lease_of, message, stat_file,
    user_attributes,
};

///+ Permission bits that are sent: no set-user-ID and no set-group-ID.
const MODE: u32 = 0o777;
const BLOCK: usize = 128 << 10;
///+ Maximum bytes of messages in one call, unless one message alone has more.
const MESSAGES_BYTES: usize = 4 << 20;
///+ Overhead of a message in a segment.
const AROUND: usize = 128;

///+ Local files and messages of a conversation. Create a new one for each push.
#[derive(Debug)]
pub struct LocalSource<'a> {
    conversation: &'a Conversation,
    is_synced: AtomicBool,
}

impl<'a> LocalSource<'a> {
    pub fn new(conversation: &'a Conversation) -> Self {
        Self { conversation, is_synced: AtomicBool::new(false) }
    }

    fn sync_once(&self) -> io::Result<()> {
        if !self.is_synced.load(Relaxed) {
            rustix::fs::syncfs(self.conversation.dir())?;
            self.is_synced.store(true, Relaxed);
        }
        Ok(())
    }

    ///+ Returns the file with its metadata, if it is complete and matches `stat`.
    fn complete(
        &self,
        path: &RelPath,
        file: File,
        stat: &Stat,
    ) -> Result<Option<Opened>, RemoteError> {
        let record = match self.conversation.record_for(path, stat)? {
            record if record.state == ArtifactState::Live => self.conversation.recover(path)?,
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

impl Source for LocalSource<'_> {
    ///+ The first call syncs the disk. Otherwise a crash of the machine could leave less than was
    ///+ sent, which would count as a change.
    fn open(
        &self,
        path: &str,
        key: FileKey,
        version: FileVersion,
    ) -> Result<Option<Opened>, RemoteError> {
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

    fn message_lines(&self, from: &MessagesAt) -> Result<(Vec<OwnLine>, MessagesAt), RemoteError> {
        let Some(file) = self.conversation.log_file()? else { return Ok((Vec::new(), *from)) };
        let read = || {
            let mark = FileMark::of(&stat_file(&file)?);
            let log = Artifact::new(Arc::clone(&file), message::whole(&file, mark.size)?);
            let start = MessagesAt { inode: mark.ino, born: mark.born, ..MessagesAt::default() };
            let start = if from.is_in(&mark) { *from } else { start };
            let (lines, at) = messages_of(log, start)?;
            if !lines.is_empty() {
                // Otherwise a crash could lose messages that other hosts have.
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
) -> io::Result<Option<Opened>> {
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
    Ok(Some(Opened { file, record, mode, attributes }))
}

///+ Returns the record for other hosts.
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

///+ Analyses a file, and rewinds it.
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

///+ Returns attributes `user.*`, and skips names that are not UTF-8.
fn attributes_of(file: &File) -> io::Result<BTreeMap<String, String>> {
    let all = user_attributes(file)?.into_iter();
    let named = all.filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    Ok(named.map(|(name, value)| (name, text::encode(&value))).collect())
}

///+ Returns messages of `log` from `at` on, and the position after them.
fn messages_of(log: Artifact, mut at: MessagesAt) -> io::Result<(Vec<OwnLine>, MessagesAt)> {
    let (mut taken, mut bytes) = (Vec::new(), 0);
    let mut lines = LogLines::from(log, at.offset);
    while let Some(line) = lines.next() {
        let line = line?;
        let chain = chained(at.chain, &line)?;
        let line = own_line(line, lines.reached())?;
        let length = line.text.as_ref().map_or(0, |text| text.len() + AROUND);
        if bytes > 0 && bytes + length > MESSAGES_BYTES {
            return Ok((taken, at));
        }
        taken.push(line);
        bytes += length;
        at = MessagesAt { offset: lines.reached(), chain, ..at };
    }
    Ok((taken, MessagesAt { offset: lines.reached(), ..at }))
}

///+ Returns the line whose newline ends at `end`. Does not read a line that is too long for a
///+ segment.
fn own_line(line: LogLine, end: u64) -> io::Result<OwnLine> {
    let length = line.len();
    let offset = end.saturating_sub(length + 1);
    let text = match line {
        LogLine::Bytes(bytes) => Some(bytes),
        LogLine::Part(..) if length >= LINE_BYTES as u64 => None,
        LogLine::Part(log, start, length) => Some(log.bytes(start, length as usize)?),
    };
    Ok(OwnLine { offset, length, text })
}

#[cfg(test)]
mod tests;
