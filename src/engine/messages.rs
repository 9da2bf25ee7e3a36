//! The message log of a conversation: appending messages, and showing them as one JSON array or,
//! for a person, page by page.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::{
    ByteHistory, Client, Engine, EngineError, FileId, FilePlace, NewOutput, OutputName,
    Reservation, Result, Share, SourceDir, SourceState, StoredOutput, Version, ViewText,
    allow_slow, is_message_log, is_stand_in, may_wait, reserve_line, to_the_end,
};
use ctxfs_core::model::{Component, Content as _, Limits, RelPath};
use ctxfs_store::message::{
    AppendContext, Batch, HELD, Host, LockedLog, Log, LogLine, LogLines, LongOutput, MessageEntry,
    MessageError, Preview, Published, UnfinishedLine,
};
use ctxfs_store::{Artifact, Conversation, Lease, MESSAGES, Stat, lease_of, message, stat_file};
use ctxfs_view::{Rendered, View};

impl Version {
    /// Returns the version of the JSON array of a message log, which changes with every message.
    /// `stat` has the attributes of the log. In `stat`, the size includes the messages that other
    /// hosts have `published`.
    pub fn of_messages(stat: &Stat, published: Option<&Published>) -> Self {
        let Stat { size, mtime, .. } = *stat;
        let facts = order_number(stat, published);
        Self { size, modified: mtime.as_nanos(), facts, ..Self::default() }
    }
}

fn order_number(stat: &Stat, published: Option<&Published>) -> u64 {
    let edition = published.map_or(0, Published::edition);
    stat.ino ^ edition.rotate_left(32)
}

/// Returns the messages that other hosts have published. In the message log, these messages precede
/// the messages of this host. `at` is the place of the local log and `own` its attributes. Returns
/// `None` if `at` is no message log, or if no other host has published messages.
pub(crate) fn published(
    engine: &Engine,
    at: &FilePlace,
    own: &Stat,
) -> Result<Option<Arc<Published>>> {
    match &engine.options.other_messages {
        Some(others) if is_message_log(&at.1) => Ok(others.published(&at.0, own)?),
        Some(_) | None => Ok(None),
    }
}

/// Maximum size in bytes of an unfinished message for which a file descriptor would cost more than
/// the memory.
const SMALL: usize = 512;

/// A message that its writer has not finished. It is in memory as far as its conversation's share
/// allows, and otherwise in an unnamed file.
#[derive(Debug, Default)]
pub struct UnfinishedMessage {
    /// What was written since the end of the last message.
    pub line: UnfinishedLine,
    held: Option<Share>,
    /// Room below the quota, reserved until the line is in the log. Until then, a measurement does
    /// not find the line.
    room: Reservation,
}

impl UnfinishedMessage {
    fn make_room(&mut self, engine: &Engine, conversation: &Conversation, bytes: &[u8]) {
        let needs = self.line.needs(bytes).min(HELD);
        let by = || Client { conversation: Some(conversation.id().clone()), user: None };
        let held = self.held.get_or_insert_with(|| engine.memory.holder(by()));
        let fits = held.try_resize((needs as u64).max(self.line.held_bytes() as u64));
        self.line.hold_at_most(if fits { HELD } else { SMALL });
    }

    fn keep_room(&mut self, more: Reservation) {
        self.room.keep(more, self.line.len());
    }

    fn settle(&mut self) {
        match &mut self.held {
            _ if self.line.held_bytes() == 0 => self.held = None,
            Some(held) => held.resize(self.line.held_bytes() as u64),
            None => {}
        }
    }
}

/// A message log that is open for appending. It is the host of the messages in it: their long
/// outputs become artifacts.
pub(crate) struct OpenLog<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) conversation: &'a Arc<Conversation>,
    pub(crate) file: &'a Arc<File>,
    pub(crate) state: &'a SourceState,
}

impl OpenLog<'_> {
    /// Adds `bytes` to the unfinished message, and appends the messages that are now complete;
    /// either all of them are appended or none. Bytes after the last newline stay unfinished.
    pub(crate) fn write(&self, unfinished: &mut UnfinishedMessage, bytes: &[u8]) -> Result<()> {
        let room = reserve_line(self.engine, self.conversation, bytes.len() as u64)?;
        unfinished.make_room(self.engine, self.conversation, bytes);
        let append = |batch: &Batch| self.append(batch);
        let taken = Batch::take(&mut unfinished.line, bytes, &self.context(), append);
        unfinished.settle();
        unfinished.keep_room(room);
        taken
    }

    /// Ends the unfinished message, if there is one. Appends a message that lacks only its newline.
    /// Fails for any other line, which stays unfinished. If the writer `is_gone`, moves such a line
    /// to a file beside the log, unless the call is to be retried.
    pub(crate) fn end(&self, unfinished: &mut UnfinishedMessage, is_gone: bool) -> Result<()> {
        if unfinished.line.is_empty() {
            return Ok(());
        }
        let append = |batch: &Batch| self.append(batch);
        let finished: Result<()> = Batch::finish(&mut unfinished.line, &self.context(), append);
        unfinished.settle();
        unfinished.keep_room(Reservation::default());
        let is_retried = |number| matches!(number, libc::EAGAIN | libc::EINPROGRESS);
        match finished {
            Err(error) if is_gone && !is_retried(error.raw_os_error()) => {
                allow_slow()?;
                self.set_aside(unfinished)
            }
            finished => finished,
        }
    }

    fn set_aside(&self, unfinished: &mut UnfinishedMessage) -> Result<()> {
        let line = unfinished.line.take().map_err(MessageError::from)?;
        unfinished.settle();
        let line = message::stored(line, &self.context())?;
        tracing::warn!(conversation = %self.conversation.id(), "an unfinished message is set aside");
        let done = message::set_aside(&line, self.conversation);
        unfinished.keep_room(Reservation::default());
        Ok(done?)
    }

    /// Appends messages. If another process holds the log, waits, or fails with EAGAIN on a thread
    /// that must not wait.
    fn append(&self, batch: &Batch) -> Result<()> {
        let Self { engine, conversation, file, state } = *self;
        let log = if may_wait() {
            LockedLog::wait(file)?
        } else {
            let held = "another process holds the log; try again";
            let held = || EngineError::Door { errno: libc::EAGAIN, source: held.into() };
            LockedLog::now(file)?.ok_or_else(held)?
        };
        let stat = stat_file(file)?;
        if stat.nlink == 0 {
            // The conversation was removed since the log was opened.
            return Err(EngineError::Stale);
        }
        if log.is_torn()? {
            allow_slow()?;
        }
        let mut life = state.life.lock();
        life.noticed(&stat, engine.store.clock());
        let end = log.repair(conversation)?;
        let appended = log.append(batch, end);
        life.bytes().written(end, &stat_file(file)?);
        engine.changed(conversation.id());
        Ok(appended?)
    }

    fn context(&self) -> AppendContext<'_> {
        AppendContext { conversation: self.conversation, host: self }
    }
}

impl Host for OpenLog<'_> {
    fn limits(&self, tool: Option<&str>) -> Limits {
        self.engine.options.limits.limits(tool)
    }

    fn is_stored(&self, reference: &str) -> bool {
        self.engine.store.resolve(reference).is_ok_and(|found| found.is_some())
    }

    fn is_stand_in(&self, output: &[u8], limits: &Limits) -> io::Result<bool> {
        is_stand_in(self.engine, output, limits)
    }

    fn masks_stored(&self) -> bool {
        self.engine.secrets.stored().is_some()
    }

    fn write_stored(&self, output: &mut dyn Read, sink: &mut dyn Write) -> io::Result<()> {
        let mut sink = self.engine.secrets.stored_form(sink);
        io::copy(output, &mut sink)?;
        sink.finish()
    }

    fn allow_storing(&self) -> std::result::Result<(), MessageError> {
        Ok(allow_slow()?)
    }

    fn take_in(&self, output: LongOutput<'_>) -> std::result::Result<RelPath, MessageError> {
        let LongOutput { call, provenance, length, mut content } = output;
        let (name, length) = (OutputName::Call(call), Some(length));
        let output = NewOutput { name, provenance, length };
        // Other outputs of the message may already be stored, so this step cannot be retried.
        to_the_end(|| {
            let mut intake = self.engine.intake(self.conversation, output)?;
            let copied = io::copy(&mut content, &mut intake).and_then(|_| intake.finish());
            copied.map_err(EngineError::from)?;
            Ok(intake.seal()?.path().clone())
        })
    }

    fn preview(&self, path: &RelPath) -> std::result::Result<Preview, MessageError> {
        let stat = self.conversation.dir().stat_at(path)?;
        let record = self.conversation.record_for(path, &stat)?;
        // A preview does not need an analysis of the whole output.
        let output = StoredOutput::open(self.engine, self.conversation, record, false)?;
        let text = output.view_in_place(self.engine, &View::Preview)?;
        let text = String::from_utf8(text).map_err(io::Error::other)?;
        let full_output_path = output.place().address();
        Ok(Preview { text: text.trim_end().to_owned(), full_output_path })
    }
}

/// A writer of messages, for a door without handles. It locks the log only while it appends whole
/// lines.
#[derive(Debug)]
pub struct MessageWriter {
    engine: Arc<Engine>,
    conversation: Arc<Conversation>,
    log: Arc<File>,
    state: SourceState<ByteHistory>,
    unfinished: UnfinishedMessage,
}

impl MessageWriter {
    pub fn open(engine: &Arc<Engine>, id: &Component) -> Result<Self> {
        let conversation = engine.conversation(id)?;
        let log = Arc::new(conversation.writable_log_file()?);
        let state = SourceState::new(ByteHistory::default());
        let unfinished = UnfinishedMessage::default();
        Ok(Self { engine: Arc::clone(engine), conversation, log, state, unfinished })
    }

    /// Calls `meet` with the first bytes of each message in the log, at most `most`. Messages that
    /// other hosts have published are not among them.
    pub fn each_start(&self, most: usize, mut meet: impl FnMut(&[u8])) -> Result<()> {
        let Some(log) = message::log_of(&self.conversation, None)? else { return Ok(()) };
        for line in LogLines::from(log, 0) {
            meet(&line?.bytes(0, most)?);
        }
        Ok(())
    }

    /// Adds `bytes` to the unfinished message, and appends the messages that are now complete;
    /// either all of them are appended or none.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let Self { engine, conversation, log: file, state, unfinished } = self;
        OpenLog { engine, conversation, file, state }.write(unfinished, bytes)
    }

    /// Ends the last line and syncs the log. If the line is not a message, moves it to a file
    /// beside the log and fails.
    pub fn finish(mut self) -> Result<()> {
        let Self { engine, conversation, log: file, state, unfinished } = &mut self;
        let log = OpenLog { engine, conversation, file, state };
        match log.end(unfinished, false) {
            Ok(()) => Ok(file.sync_data()?),
            Err(error) => {
                log.set_aside(unfinished)?;
                Err(error)
            }
        }
    }
}

/// Returns the attributes of the file `at` as readers see them. `stat` has the attributes on disk.
/// Readers see a message log up to its last whole line. `state` is the state of the file, and
/// `reader` opens it for reading.
///
/// If a crash left an incomplete line and the log has no writer, moves the line to a file beside
/// the log. On a thread that must not wait, fails with [`EngineError::Slow`] instead.
pub(crate) fn shown(
    engine: &Engine,
    (at, state): (&FilePlace, &SourceState),
    stat: Stat,
    reader: impl FnOnce() -> Result<Arc<File>>,
) -> Result<Stat> {
    if stat.size == 0 || !is_message_log(&at.1) {
        return Ok(stat);
    }
    let reader = reader()?;
    let size = message::whole(&reader, stat.size)?;
    if size < stat.size && repair(engine, (at, state), &reader)? {
        return Ok(stat_file(&reader)?);
    }
    Ok(Stat { size, ..stat })
}

/// Returns the size that [`shown`] would return. On a thread that must not wait, returns the end of
/// the last whole line and moves nothing.
pub(crate) fn shown_length(
    engine: &Engine,
    of: (&FilePlace, &SourceState),
    stat: Stat,
    reader: &Arc<File>,
) -> Result<u64> {
    match shown(engine, of, stat, || Ok(Arc::clone(reader))) {
        Err(EngineError::Slow) => Ok(message::whole(reader, stat.size)?),
        shown => Ok(shown?.size),
    }
}

/// Repairs a log that ends with an incomplete line. Returns false if the log may have a writer.
fn repair(
    engine: &Engine,
    ((id, path), state): (&FilePlace, &SourceState),
    reader: &File,
) -> Result<bool> {
    let conversation = engine.conversation(id)?;
    let file = FileId::of(&stat_file(reader)?);
    let open = |flags| file.check(conversation.dir().open_file_at(path, flags));
    // A lease needs its own descriptor, opened before any descriptor that can write.
    let probe = open(OFlags::RDONLY)?;
    if lease_of(&probe) != Lease::Free {
        return Ok(false);
    }
    allow_slow()?;
    let open = Arc::new(open(OFlags::RDWR)?);
    let Some(log) = LockedLog::now(&open)? else { return Ok(false) };
    log.repair(&conversation)?;
    tracing::warn!(conversation = %conversation.id(), "the message log was torn, and is mended");
    let (stat, mut life) = (stat_file(reader)?, state.life.lock());
    let bytes = life.bytes();
    bytes.rewritten();
    bytes.left_as(&stat);
    Ok(true)
}

pub(crate) fn show_messages(
    engine: &Engine,
    history: &dyn SourceDir,
    version: &Version,
) -> Result<ViewText> {
    let id = history.place()?.conversation().cloned();
    let log = log_at(engine, history, id.as_ref(), version)?;
    let spool = engine.spool(id);
    let mut shown = engine.secrets.shown_form(&spool);
    message::array(log, &mut shown)?;
    shown.finish()?;
    drop(shown);
    Ok(spool.finish(Rendered { notice: None, whole: true }, None)?)
}

/// Returns the log in the directory `history` of the conversation `id`, as it was at `version`.
fn log_at(
    engine: &Engine,
    history: &dyn SourceDir,
    id: Option<&Component>,
    version: &Version,
) -> Result<Log> {
    let file = Arc::new(history.dir()?.open_file(MESSAGES.as_ref(), OFlags::RDONLY)?);
    let stat = stat_file(&file)?;
    let published = match (&engine.options.other_messages, id) {
        (Some(others), Some(id)) => others.published(id, &stat)?,
        _ => None,
    };
    let is_same = order_number(&stat, published.as_deref()) == version.facts;
    let log = Log::new(Artifact::new(file, stat.size), published);
    if !is_same || log.len() < version.size {
        return Err(EngineError::Stale);
    }
    Ok(log.up_to(version.size))
}

const BLOCK: u64 = 256 << 10;
/// Maximum number of bytes of the messages of a page, unless a single message is longer.
const PAGE_BYTES: u64 = 4 << 20;

/// The range of the messages of a page.
///
/// - `Before`: the last messages before this offset of the log, or before its end if the log is
///   shorter
/// - `From`: the first messages starting at this offset, at which a message must begin
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageRange {
    Before(u64),
    From(u64),
}

/// A message, with its position in the log.
///
/// - `message`: the message. For a line that is not a message, the truncated text of the line.
///   Secrets are masked.
/// - `output`: the artifact with the complete result, and its size in bytes
#[derive(Debug)]
pub struct LoggedMessage {
    pub offset: u64,
    pub message: std::result::Result<MessageEntry, String>,
    pub output: Option<(RelPath, u64)>,
}

/// A page of consecutive messages of a log.
///
/// - `messages`: the messages, oldest first
/// - `start`: the offset of the first message. If it is not 0, the log has older messages.
/// - `end`: the offset after the last message
#[derive(Debug, Default)]
pub struct MessagePage {
    pub messages: Vec<LoggedMessage>,
    pub start: u64,
    pub end: u64,
}

impl Engine {
    /// Returns a page of at most `most` messages of the conversation `id`. The page is empty if the
    /// conversation has no log.
    pub fn messages(
        &self,
        id: &Component,
        range: MessageRange,
        most: usize,
    ) -> Result<MessagePage> {
        if self.options.only.as_ref().is_some_and(|only| only != id) {
            return Err(EngineError::NotFound);
        }
        let conversation = self.conversation(id)?;
        let others = self.options.other_messages.as_deref();
        let log = message::log_of(&conversation, others)?;
        let Some(log) = log else { return Ok(MessagePage::default()) };
        let (start, stop) = match range {
            MessageRange::From(offset) => (offset.min(log.len()), log.len()),
            MessageRange::Before(offset) => {
                let stop = offset.min(log.len());
                (start_before(&log, stop, most)?, stop)
            }
        };
        let mut lines = LogLines::from(log, start);
        let mut page = MessagePage { messages: Vec::new(), start, end: start };
        while page.end < stop && page.messages.len() < most && page.end - start < PAGE_BYTES {
            let Some(line) = lines.next() else { break };
            let line = line?;
            page.end = lines.reached();
            let offset = page.end - line.len() - 1;
            page.messages.push(logged(self, &conversation, offset, &line));
        }
        Ok(page)
    }
}

fn logged(
    engine: &Engine,
    conversation: &Conversation,
    offset: u64,
    line: &LogLine,
) -> LoggedMessage {
    const SHOWN: usize = 4096;
    let LogLine::Bytes(bytes) = line else {
        let text = format!("a message of {} bytes", line.len());
        return LoggedMessage { offset, message: Err(text), output: None };
    };
    let line = String::from_utf8_lossy(bytes);
    let mask = engine.secrets.rules().map(|rules| |text: &str| rules.mask_text(text));
    let mask = mask.as_ref().map(|mask| mask as &dyn Fn(&str) -> String);
    let message = MessageEntry::parse(&line, mask).map_err(|_| {
        let line = mask.map_or_else(|| line.clone().into_owned(), |mask| mask(&line));
        line.chars().take(SHOWN).collect::<String>()
    });
    let output = message.as_ref().ok().and_then(|message| message.artifact(conversation));
    LoggedMessage { offset, message, output }
}

/// Returns the offset at which the last `most` lines before `stop` begin. Takes fewer lines if they
/// exceed `PAGE_BYTES`.
fn start_before(log: &Log, stop: u64, most: usize) -> io::Result<u64> {
    // The newline before `stop` ends the last line.
    let (mut at, mut start, mut found) = (stop.saturating_sub(1), stop, 0);
    while at > 0 && found < most {
        let from = at.saturating_sub(BLOCK);
        let block = log.bytes(from, (at - from) as usize)?;
        for newline in memchr::memrchr_iter(b'\n', &block) {
            start = from + newline as u64 + 1;
            found += 1;
            if found == most || stop - start > PAGE_BYTES {
                return Ok(start);
            }
        }
        at = from;
    }
    Ok(if found < most { 0 } else { start })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_found_from_the_end() {
        let mut file = tempfile::tempfile().unwrap();
        let text = (0..100).map(|number| format!("line {number}\n")).collect::<Vec<_>>().concat();
        file.write_all(text.as_bytes()).unwrap();
        let log = Log::from(Artifact::new(Arc::new(file), text.len() as u64));
        let start = start_before(&log, log.len(), 3).unwrap();
        assert_eq!(&text[start as usize..], "line 97\nline 98\nline 99\n");
        let before = start_before(&log, start, 2).unwrap();
        assert_eq!(&text[before as usize..start as usize], "line 95\nline 96\n");
        assert_eq!(start_before(&log, log.len(), 100).unwrap(), 0);
        assert_eq!(start_before(&log, log.len(), 1000).unwrap(), 0);
        assert_eq!(start_before(&log, 0, 10).unwrap(), 0);
    }
}
