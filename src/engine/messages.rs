//! The message log of a conversation: taking messages in, and showing them as one JSON array or, to a
//! person, a page at a time.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::intake::{NewOutput, OutputName};
use crate::patience::{allow_slow, to_the_end};
use crate::stand_in::{StoredOutput, is_stand_in, is_stored};
use crate::{
    Client, Engine, EngineError, Reservation, Result, Share, SourceDir, SourceFile, Spool, Version,
    ViewText,
};
use ctxfs_core::model::{Component, Content as _, Limits, RelPath};
use ctxfs_store::message::{
    AppendContext, Batch, HELD, Host, LockedLog, Log, LogLine, LogLines, LongOutput, MessageEntry,
    MessageError, Preview, Published, UnfinishedLine,
};
use ctxfs_store::{Artifact, Conversation, Lease, MESSAGES, Stat, lease_of, message, stat_file};
use ctxfs_view::{Rendered, View};

/// Returns the version of the array of messages of a log with the attributes `stat`, whose size is
/// the length that readers see, including the messages that hosts have `published`. It changes with
/// every message.
pub fn messages_version(stat: &Stat, published: Option<&Published>) -> Version {
    let Stat { size, mtime, .. } = *stat;
    let facts = order_number(stat, published);
    Version { size, modified: mtime.as_nanos(), facts, ..Version::default() }
}

/// Returns a number that stays the same while the messages of the log keep their order.
fn order_number(stat: &Stat, published: Option<&Published>) -> u64 {
    let edition = published.map_or(0, Published::edition);
    stat.ino ^ edition.rotate_left(32)
}

/// Returns the messages of other hosts, which precede those in `of`, whose attributes are `own`.
/// `None` unless `of` is the message log of a conversation of several hosts.
pub fn published(
    engine: &Engine,
    of: &dyn SourceFile,
    own: &Stat,
) -> Result<Option<Arc<Published>>> {
    let Some(others) = &engine.options.other_messages else { return Ok(None) };
    if !of.is_message_log() {
        return Ok(None);
    }
    let id = of.conversation().ok_or(EngineError::Stale)?;
    Ok(others.published(&id, own)?)
}

/// For fewer bytes of an unfinished message a descriptor would cost more than the memory.
const SMALL: usize = 512;

/// The message that a writer has not finished. It is in memory as far as the share of its
/// conversation allows, and else in an unnamed file.
#[derive(Debug, Default)]
pub struct UnfinishedMessage {
    line: UnfinishedLine,
    held: Option<Share>,
    /// The room below the quota. No measurement would find the line, as it is not in the log yet.
    room: Reservation,
}

impl UnfinishedMessage {
    /// Returns true if the last byte ended a line.
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

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

    /// Gives back unneeded memory.
    fn settle(&mut self) {
        match &mut self.held {
            _ if self.line.held_bytes() == 0 => self.held = None,
            Some(held) => held.resize(self.line.held_bytes() as u64),
            None => {}
        }
    }

    /// Takes in bytes that follow those taken before, and hands the messages that they complete to
    /// `append`: all of them, or none. Bytes after the last newline stay unfinished.
    pub fn take<E: From<EngineError> + From<MessageError>>(
        &mut self,
        engine: &Engine,
        conversation: &Arc<Conversation>,
        bytes: &[u8],
        append: impl FnOnce(&Batch) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let room = engine.space.reserve_line(conversation, bytes.len() as u64)?;
        let host = MessageHost { engine, conversation };
        let context = AppendContext { conversation, host: &host };
        self.make_room(engine, conversation, bytes);
        let taken = Batch::take(&mut self.line, bytes, &context, append);
        self.settle();
        self.keep_room(room);
        taken
    }

    /// Hands a last line that lacks only its newline to `append`. Fails for any other line, which
    /// stays unfinished.
    pub fn finish<E: From<EngineError> + From<MessageError>>(
        &mut self,
        engine: &Engine,
        conversation: &Arc<Conversation>,
        append: impl FnOnce(&Batch) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        if self.is_empty() {
            return Ok(());
        }
        let host = MessageHost { engine, conversation };
        let context = AppendContext { conversation, host: &host };
        let finished = Batch::finish(&mut self.line, &context, append);
        self.settle();
        self.keep_room(Reservation::default());
        finished
    }

    /// Ends a writer that is gone: appends a last line that lacks only its newline, and sets any
    /// other aside, beside the log. Changes nothing if the caller `comes_back` after an error.
    pub fn leave<E: From<EngineError> + From<MessageError>>(
        &mut self,
        engine: &Engine,
        conversation: &Arc<Conversation>,
        append: impl FnOnce(&Batch) -> std::result::Result<(), E>,
        comes_back: impl FnOnce(&E) -> bool,
    ) -> std::result::Result<(), E> {
        match self.finish(engine, conversation, append) {
            Ok(()) => Ok(()),
            Err(error) if comes_back(&error) => Err(error),
            Err(_) => {
                allow_slow()?;
                Ok(self.set_aside(engine, conversation)?)
            }
        }
    }

    fn set_aside(
        &mut self,
        engine: &Engine,
        conversation: &Arc<Conversation>,
    ) -> std::result::Result<(), MessageError> {
        let host = MessageHost { engine, conversation };
        let line = self.line.take()?;
        self.settle();
        let line = message::stored(line, &AppendContext { conversation, host: &host })?;
        tracing::warn!(conversation = %conversation.id(), "an unfinished message is set aside");
        let done = message::set_aside(&line, conversation);
        self.keep_room(Reservation::default());
        done
    }
}

/// The engine as the message log of one conversation sees it: long outputs in messages become
/// artifacts.
struct MessageHost<'a> {
    engine: &'a Engine,
    conversation: &'a Arc<Conversation>,
}

impl Host for MessageHost<'_> {
    fn limits(&self, tool: Option<&str>) -> Limits {
        self.engine.limits(tool)
    }

    fn is_stored(&self, reference: &str) -> bool {
        is_stored(self.engine, reference)
    }

    fn is_stand_in(&self, output: &[u8], limits: &Limits) -> io::Result<bool> {
        is_stand_in(self.engine, output, limits)
    }

    fn masks_stored(&self) -> bool {
        self.engine.secrets.stored_rules().is_some()
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
        // Other outputs of the message may be stored already, so it cannot be tried again.
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
        // A preview needs no analysis.
        let output = StoredOutput::open(self.engine, self.conversation, record, false)?;
        let text = output.view_in_place(self.engine, &View::Preview)?;
        let text = String::from_utf8(text).map_err(io::Error::other)?;
        let full_output_path = output.place().file();
        Ok(Preview { text: text.trim_end().to_owned(), full_output_path })
    }
}

/// A writer of messages, for a door without handles. It holds the log's lock only while it appends
/// whole lines.
pub struct MessageWriter {
    engine: Arc<Engine>,
    conversation: Arc<Conversation>,
    log: Arc<File>,
    unfinished: UnfinishedMessage,
}

impl MessageWriter {
    /// Opens the log of the conversation `id`, and creates it if it is missing.
    pub fn open(engine: &Arc<Engine>, id: &Component) -> Result<Self> {
        let conversation = engine.conversation(id)?;
        let log = Arc::new(conversation.writable_log_file()?);
        let unfinished = UnfinishedMessage::default();
        Ok(Self { engine: Arc::clone(engine), conversation, log, unfinished })
    }

    /// Takes bytes that follow those taken before, and appends the messages that they complete: all
    /// of them, or none.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let Self { engine, conversation, log, unfinished } = self;
        unfinished
            .take(engine, conversation, bytes, |batch| append(engine, log, conversation, batch))
    }

    /// Ends the last line, and syncs the log. A line that is no message is set aside, beside the
    /// log, and is an error.
    pub fn finish(mut self) -> Result<()> {
        let Self { engine, conversation, log, unfinished } = &mut self;
        let append = |batch: &Batch| append(engine, log, conversation, batch);
        match unfinished.finish(engine, conversation, append) {
            Ok(()) => Ok(log.sync_data()?),
            Err(error) => {
                unfinished.set_aside(engine, conversation)?;
                Err(error)
            }
        }
    }
}

fn append(
    engine: &Engine,
    file: &Arc<File>,
    conversation: &Conversation,
    batch: &Batch,
) -> Result<()> {
    let log = LockedLog::wait(file)?;
    if stat_file(file)?.nlink == 0 {
        // The conversation was removed meanwhile.
        return Err(EngineError::Stale);
    }
    let end = log.repair(conversation)?;
    log.append(batch, end)?;
    engine.changed(conversation.id(), None);
    Ok(())
}

impl std::fmt::Debug for MessageWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MessageWriter")
            .field("conversation", &self.conversation)
            .finish_non_exhaustive()
    }
}

/// Returns the attributes of `of` as readers see it; on disk they are `stat`. A message log ends
/// with its last whole line. A line that a crash cut off is set aside once the log has no writer,
/// which fails with [`EngineError::Slow`] on a thread that must not wait. `reader` opens a log for
/// reading.
pub fn shown(
    engine: &Engine,
    of: &dyn SourceFile,
    stat: Stat,
    reader: impl FnOnce() -> Result<Arc<File>>,
) -> Result<Stat> {
    if stat.size == 0 || !of.is_message_log() {
        return Ok(stat);
    }
    let reader = reader()?;
    let size = message::whole(&reader, stat.size)?;
    if size < stat.size && repair(engine, of, &reader)? {
        return Ok(stat_file(&reader)?);
    }
    Ok(Stat { size, ..stat })
}

/// Returns the size in [`shown`]. On a thread that must not wait, nothing is set aside.
pub fn shown_length(
    engine: &Engine,
    of: &dyn SourceFile,
    stat: Stat,
    reader: &Arc<File>,
) -> Result<u64> {
    match shown(engine, of, stat, || Ok(Arc::clone(reader))) {
        Err(EngineError::Slow) => Ok(message::whole(reader, stat.size)?),
        shown => Ok(shown?.size),
    }
}

/// Repairs a log that ends inside a line. Returns false if it may have a writer.
fn repair(engine: &Engine, of: &dyn SourceFile, reader: &File) -> Result<bool> {
    // A lease needs a descriptor of its own, opened before any that can write.
    let probe = of.open_by_name(OFlags::RDONLY)?;
    if lease_of(&probe) != Lease::Free {
        return Ok(false);
    }
    allow_slow()?;
    let open = Arc::new(of.open_by_name(OFlags::RDWR)?);
    let Some(log) = LockedLog::now(&open)? else { return Ok(false) };
    let conversation = engine.conversation(&of.conversation().ok_or(EngineError::Stale)?)?;
    log.repair(&conversation)?;
    tracing::warn!(conversation = %conversation.id(), "the message log was torn, and is mended");
    of.note_repair(&stat_file(reader)?);
    Ok(true)
}

pub(crate) fn show_messages(
    engine: &Engine,
    history: &dyn SourceDir,
    version: &Version,
) -> Result<ViewText> {
    let id = history.place()?.conversation().cloned();
    let log = log_at(engine, history, id.as_ref(), version)?;
    let spool = Spool::begin(engine, id);
    let mut shown = engine.secrets.shown_form(&spool);
    message::array(log, &mut shown)?;
    shown.finish()?;
    drop(shown);
    Ok(spool.finish(Rendered { notice: None, whole: true }, None)?)
}

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

/// Bytes that are read at once on the way back.
const BLOCK: u64 = 256 << 10;
/// Bytes of the messages of a page, at most, unless a single message is longer.
const PAGE_BYTES: u64 = 4 << 20;

/// The messages of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageRange {
    /// The last ones before this offset of the log, or before its end if it is shorter.
    Before(u64),
    /// The first ones from this offset on, at which a message begins.
    From(u64),
}

/// A message, by its place in the log.
#[derive(Debug)]
pub struct LoggedMessage {
    /// The offset of its line.
    pub offset: u64,
    /// The message. A line that is no message is its truncated text. Secrets are masked.
    pub message: std::result::Result<MessageEntry, String>,
    /// The artifact with the whole result, and its size in bytes.
    pub output: Option<(RelPath, u64)>,
}

/// Consecutive messages.
#[derive(Debug, Default)]
pub struct MessagePage {
    /// The messages, oldest first.
    pub messages: Vec<LoggedMessage>,
    /// The offset of the first message. If it is not 0, there are older ones.
    pub start: u64,
    /// The offset behind the last message.
    pub end: u64,
}

impl Engine {
    /// Returns a page of at most `most` messages of the conversation `id`. A conversation without a
    /// log has none.
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

fn start_before(log: &Log, stop: u64, most: usize) -> io::Result<u64> {
    // The newline at `stop` ends the last line.
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
