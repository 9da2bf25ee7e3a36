//! On-disk form of the agreement of host and bucket.
//!
//! `agreement.jsonl` is a journal. Each line has the changed entries, the first artifact of each
//! dropped entry, and the progress of this host. A line that a crash left incomplete is ignored, so
//! the changes of a segment are applied as a whole or not at all. Entries are identified by their
//! first artifact, because no artifact is in two entries. The file key cannot identify an entry,
//! because hard links share it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::io::{BufRead as _, BufReader, BufWriter, Write};
use std::os::unix::fs::FileExt as _;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::{Intent, LogPosition, Notes};
use crate::remote::{RemoteError, disk};
use crate::replica::{Accepted, Base, Clock, Entry, Origin, Stamp, WriterId};
use ctxfs_store::FileMark;

const AGREEMENT: &str = "agreement.jsonl";
/// `agreement.jsonl` is rewritten when it is more than this many times as long as it would be
/// without outdated lines.
const MOST_BALLAST: u64 = 5;
/// Estimated length of an entry in bytes. `EMPTY` is the estimate for a file without entries. With
/// these estimates, the exact length of a rewritten file is seldom computed.
const ENTRY: u64 = 300;
const EMPTY: u64 = 64 << 10;
const END: u64 = 64 << 10;
/// Number of entries from which a line counts as long. A line without entries follows a long line,
/// so that the last line of the file is always short.
const LONG: usize = 64;
const BLOCK: usize = 64 << 10;

/// A value computed from the agreement. It is recomputed only after the agreement has changed.
/// `mark` is the [`FileMark`] that `agreement.jsonl` had before the computation. Each save of the
/// agreement changes the mark of the file.
#[derive(Debug)]
pub(crate) struct AgreementCache<T> {
    pub(crate) mark: Option<FileMark>,
    pub(crate) value: T,
}

impl<T> AgreementCache<T> {
    pub(crate) fn current(
        before: Option<Self>,
        notes: &Notes,
        make: impl FnOnce(Agreement) -> T,
    ) -> Result<Self, RemoteError> {
        // Take the mark first. If the file changes during the computation, the next call notices
        // it.
        let mark = notes.agreement_mark()?;
        match before {
            Some(before) if before.mark == mark => Ok(before),
            _ => Ok(Self { mark, value: make(notes.agreement()?) }),
        }
    }
}

/// Agreement of host and bucket, and the progress of this host: the writer of its last segment, the
/// number of that writer's next segment, the clock of its stamps, and the position in the local
/// message log up to which messages are published.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct Agreement {
    pub base: Base,
    pub writer: Option<WriterId>,
    pub next: u64,
    pub clock: Clock,
    pub messages: LogPosition,
    /// Messages that cannot be shared. The key is the offset in the local log, the value the
    /// length, both in bytes.
    pub unshared: BTreeMap<u64, u64>,
}

impl Default for Agreement {
    fn default() -> Self {
        let (base, clock, messages) = (Base::default(), Clock::default(), LogPosition::default());
        Self { base, writer: None, next: 1, clock, messages, unshared: BTreeMap::new() }
    }
}

impl Agreement {
    pub(crate) fn is_new(&self) -> bool {
        self.base.entries.is_empty() && self.messages.offset == 0
    }

    #[must_use]
    pub(crate) fn without_log(&self, messages: LogPosition) -> Self {
        Self { messages, unshared: BTreeMap::new(), ..self.clone() }
    }

    pub(crate) fn with_base(&self, base: Base) -> Self {
        let Self { writer, next, clock, messages, .. } = *self;
        Self { base, writer, next, clock, messages, unshared: self.unshared.clone() }
    }
}

/// The part of an agreement that is not about files. It is read without the entries, so the cost
/// does not depend on the size of the conversation. See [`Agreement`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriterProgress {
    pub(crate) writer: Option<WriterId>,
    pub(crate) next: u64,
    pub(crate) stamp: Stamp,
    pub(crate) messages: LogPosition,
}

impl WriterProgress {
    fn of(agreement: &Agreement) -> Self {
        let Agreement { writer, next, clock, messages, .. } = agreement;
        Self { writer: *writer, next: *next, stamp: clock.last(), messages: *messages }
    }
}

#[derive(Deserialize)]
struct JournalLine {
    #[serde(default)]
    drop: Vec<Origin>,
    #[serde(default)]
    entries: Vec<Entry>,
    at: Option<JournalProgress>,
}

#[derive(Deserialize)]
struct JournalTail {
    at: JournalProgress,
}

#[derive(Serialize)]
struct NewJournalLine<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    drop: Vec<Origin>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    entries: Vec<&'a Entry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<&'a JournalProgress>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct JournalProgress {
    writer: Option<WriterId>,
    next: u64,
    stamp: Stamp,
    messages: LogPosition,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    unshared: BTreeMap<u64, u64>,
}

impl Default for JournalProgress {
    fn default() -> Self {
        Self::of(&Agreement::default())
    }
}

impl JournalProgress {
    fn of(agreement: &Agreement) -> Self {
        let Agreement { writer, next, messages, .. } = *agreement;
        let (stamp, unshared) = (agreement.clock.last(), agreement.unshared.clone());
        Self { writer, next, stamp, messages, unshared }
    }
}

impl Notes {
    /// Returns the agreement. It is empty before the first push or look.
    pub fn agreement(&self) -> Result<Agreement, RemoteError> {
        let path = self.dir.path.join(AGREEMENT);
        let file = disk::open(&self.dir.dir, AGREEMENT, OFlags::RDONLY);
        let Some(file) = file.map_err(RemoteError::at("open", &path))? else {
            return Ok(Agreement::default());
        };
        let mut reading = JournalReader::default();
        let mut lines = BufReader::new(file);
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            lines.read_until(b'\n', &mut line).map_err(RemoteError::at("read", &path))?;
            // A crash may have truncated the last line.
            let Some(whole) = line.strip_suffix(b"\n") else { break };
            reading.take(whole).map_err(|error| {
                let why = format!("line {number} is none, at column {}", error.column());
                RemoteError::Damaged { path: path.clone(), why }
            })?;
        }
        Ok(reading.agreement())
    }

    pub(crate) fn progress(&self) -> Result<WriterProgress, RemoteError> {
        let end = disk::open(&self.dir.dir, AGREEMENT, OFlags::RDONLY)
            .and_then(|file| file.map(|file| end_of(&file)).transpose())
            .map_err(self.dir.failed("read", AGREEMENT))?;
        let Some(end) = end else { return Ok(WriterProgress::of(&Agreement::default())) };
        match last_line(&end).and_then(|line| serde_json::from_slice(line).ok()) {
            Some(JournalTail { at: JournalProgress { writer, next, stamp, messages, .. } }) => {
                Ok(WriterProgress { writer, next, stamp, messages })
            }
            None => Ok(WriterProgress::of(&self.agreement()?)),
        }
    }

    /// Advances the clock, so that later stamps of this host sort after `stamp`.
    pub(crate) fn see(&self, stamp: Stamp) -> Result<(), RemoteError> {
        let before = self.agreement()?;
        let mut after = before.clone();
        after.clock.see(stamp);
        self.save(&before, &after)
    }

    fn agreement_mark(&self) -> Result<Option<FileMark>, RemoteError> {
        Ok(self.dir.stat(AGREEMENT)?.as_ref().map(FileMark::of))
    }

    pub(crate) fn save(&self, before: &Agreement, after: &Agreement) -> Result<(), RemoteError> {
        if before == after {
            return Ok(());
        }
        let dir = &self.dir.dir;
        let file = disk::open(dir, AGREEMENT, OFlags::RDWR | OFlags::APPEND);
        let saved = file.and_then(|file| match file {
            Some(file) if can_grow(&file, after)? => append_changes(&file, before, after),
            _ => disk::write_with(dir, AGREEMENT, |file| print(after, file)),
        });
        saved.map_err(self.dir.failed("write", AGREEMENT))
    }
}

/// Appends a sent segment to the agreement if it only adds files or messages. The cost does not depend
/// on the size of the conversation. Returns false, and changes nothing, if the segment does more, or
/// if the agreement must be written whole.
pub(crate) fn append_sent(notes: &Notes, intent: &Intent) -> Result<bool, RemoteError> {
    let Accepted { puts, moves, removed } = &intent.accepted;
    if !moves.is_empty() || !removed.is_empty() {
        return Ok(false);
    }
    let add = || -> io::Result<bool> {
        let opened = disk::open(&notes.dir.dir, AGREEMENT, OFlags::RDWR | OFlags::APPEND)?;
        let Some(file) = opened else { return Ok(false) };
        let end = end_of(&file)?;
        let last = last_line(&end).filter(|_| end.ends_with(b"\n"));
        let last = last.and_then(|line| serde_json::from_slice(line).ok());
        let Some(JournalTail { mut at }) = last else { return Ok(false) };
        let mut clock = Clock::default();
        clock.see(at.stamp);
        clock.see(intent.stamp);
        (at.writer, at.next) = (Some(intent.segment.writer), intent.segment.number + 1);
        (at.stamp, at.messages) = (clock.last(), intent.messages.unwrap_or(at.messages));
        append(&file, (Vec::new(), puts.iter().collect()), &at)?;
        Ok(true)
    };
    add().map_err(notes.dir.failed("write", AGREEMENT))
}

#[derive(Default)]
struct JournalReader {
    entries: BTreeMap<Origin, Entry>,
    at: JournalProgress,
}

impl JournalReader {
    fn take(&mut self, line: &[u8]) -> serde_json::Result<()> {
        let change: JournalLine = serde_json::from_slice(line)?;
        for origin in &change.drop {
            self.entries.remove(origin);
        }
        for entry in change.entries {
            if let Some(first) = entry.origins.first() {
                self.entries.insert(*first, entry);
            }
        }
        if let Some(at) = change.at {
            self.at = at;
        }
        Ok(())
    }

    fn agreement(self) -> Agreement {
        let JournalProgress { writer, next, stamp, messages, unshared } = self.at;
        let mut clock = Clock::default();
        clock.see(stamp);
        let base = Base { entries: self.entries.into_values().collect() };
        Agreement { base, writer, next, clock, messages, unshared }
    }
}

impl NewJournalLine<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        out.write_all(b"\n")
    }
}

fn by_origin(base: &Base) -> BTreeMap<Origin, &Entry> {
    let first = |entry: &Entry| entry.origins.first().copied();
    base.entries.iter().filter_map(|entry| Some((first(entry)?, entry))).collect()
}

fn print(agreement: &Agreement, out: &mut dyn Write) -> io::Result<()> {
    let at = &JournalProgress::of(agreement);
    for entry in by_origin(&agreement.base).into_values() {
        NewJournalLine { drop: Vec::new(), entries: vec![entry], at: None }.write(out)?;
    }
    NewJournalLine { drop: Vec::new(), entries: Vec::new(), at: Some(at) }.write(out)
}

fn end_of(file: &File) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    let start = length.saturating_sub(END);
    let mut end = vec![0; (length - start) as usize];
    file.read_exact_at(&mut end, start)?;
    Ok(end)
}

fn last_line(end: &[u8]) -> Option<&[u8]> {
    let (before, _cut_off) = end.split_at(memchr::memrchr(b'\n', end)?);
    Some(&before[memchr::memrchr(b'\n', before)? + 1..])
}

/// Returns true if a line may be appended to `file`: the file ends with a newline, and is at most
/// [`MOST_BALLAST`] times as long as it would be if rewritten with the agreement `after`.
fn can_grow(file: &File, after: &Agreement) -> io::Result<bool> {
    let length = file.metadata()?.len();
    let Some(last) = length.checked_sub(1) else { return Ok(false) };
    let mut end = [0];
    file.read_exact_at(&mut end, last)?;
    if end != *b"\n" {
        return Ok(false);
    }
    let expected = EMPTY + ENTRY * after.base.entries.len() as u64;
    if length <= expected * MOST_BALLAST {
        return Ok(true);
    }
    let mut counted = ByteCounter(0);
    print(after, &mut counted)?;
    Ok(length <= counted.0 * MOST_BALLAST)
}

struct ByteCounter(u64);

impl Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn append_changes(file: &File, before: &Agreement, after: &Agreement) -> io::Result<()> {
    let (old, new) = (by_origin(&before.base), by_origin(&after.base));
    let gone = old.keys().filter(|origin| !new.contains_key(origin));
    let changed = new.iter().filter(|(origin, entry)| old.get(origin) != Some(entry));
    let entries = changed.map(|(_, entry)| *entry).collect();
    append(file, (gone.copied().collect(), entries), &JournalProgress::of(after))
}

fn append(
    file: &File,
    (drop, entries): (Vec<Origin>, Vec<&Entry>),
    at: &JournalProgress,
) -> io::Result<()> {
    let (at, is_long) = (Some(at), entries.len() > LONG);
    let mut out = BufWriter::with_capacity(BLOCK, file);
    NewJournalLine { drop, entries, at }.write(&mut out)?;
    if is_long {
        NewJournalLine { drop: Vec::new(), entries: Vec::new(), at }.write(&mut out)?;
    }
    out.flush()?;
    file.sync_data()
}
