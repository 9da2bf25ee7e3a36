//! What host and bucket agreed upon, on disk.
//!
//! `agreement.jsonl` has a line for each time something was agreed upon: the entries that changed,
//! the first artifacts of those that are no more, and how far this host has come. A line is whole
//! or, after a crash, passed over: so what a segment changes is noted as one. Entries are known by
//! their first artifact: no artifact is in two, while hard links have one key.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::io::{BufRead as _, BufReader, BufWriter, Write};
use std::os::unix::fs::FileExt as _;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::{MessagesAt, Notes};
use crate::remote::{RemoteError, whole_file};
use crate::replica::{Base, Clock, Entry, Origin, Stamp, WriterId};
use ctxfs_store::FileMark;

const AGREEMENT: &str = "agreement.jsonl";
/// Of so many bytes one may be of use.
const MOST_BALLAST: u64 = 5;
/// The bytes of an entry as far as a file is not worth being written anew, and those of an empty
/// file.
const ENTRY: u64 = 300;
const EMPTY: u64 = 64 << 10;
/// The bytes at the end of the file among which its last line is looked for.
const END: u64 = 64 << 10;
/// The entries of a line that is followed by one without any, so that the last line is short.
const LONG: usize = 64;
/// The bytes that are written at a time.
const BLOCK: usize = 64 << 10;

/// Something made of what host and bucket agreed upon, which is read again only when that changed.
#[derive(Debug)]
pub(crate) struct Derived<T> {
    /// The file from which it was read.
    pub(crate) mark: Option<FileMark>,
    pub(crate) value: T,
}

impl<T> Derived<T> {
    /// Returns `before`, if nothing changed since it was made, or makes it anew.
    pub(crate) fn current(
        before: Option<Self>,
        notes: &Notes,
        make: impl FnOnce(Agreement) -> T,
    ) -> Result<Self, RemoteError> {
        // Asked before: what is agreed upon meanwhile is read the next time.
        let mark = notes.agreement_mark()?;
        match before {
            Some(before) if before.mark == mark => Ok(before),
            _ => Ok(Self { mark, value: make(notes.agreement()?) }),
        }
    }
}

/// What host and bucket agreed upon, and how far this host has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreement {
    /// Which artifacts are which files.
    pub base: Base,
    /// Who published the last segment, if there is one.
    pub writer: Option<WriterId>,
    /// The number of that writer's next segment.
    pub next: u64,
    /// The clock of the stamps.
    pub clock: Clock,
    /// The messages that were published.
    pub messages: MessagesAt,
    /// Those that no segment can say: where each begins in the log of this host, and its bytes.
    pub unshared: BTreeMap<u64, u64>,
}

impl Default for Agreement {
    fn default() -> Self {
        let (base, clock, messages) = (Base::default(), Clock::default(), MessagesAt::default());
        Self { base, writer: None, next: 1, clock, messages, unshared: BTreeMap::new() }
    }
}

impl Agreement {
    /// Returns true if they agreed upon nothing that is there now.
    pub(crate) fn is_new(&self) -> bool {
        self.base.entries.is_empty() && self.messages.offset == 0
    }

    /// Returns the agreement where nothing is known of a log but its beginning, `messages`.
    #[must_use]
    pub(crate) fn without_log(&self, messages: MessagesAt) -> Self {
        Self { messages, unshared: BTreeMap::new(), ..self.clone() }
    }

    /// Returns the same with another base.
    pub(crate) fn with_base(&self, base: Base) -> Self {
        let Self { writer, next, clock, messages, .. } = *self;
        Self { base, writer, next, clock, messages, unshared: self.unshared.clone() }
    }
}

/// How far this host has come, as far as that is of use without the agreement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    /// Who published the last segment, if there is one.
    pub(crate) writer: Option<WriterId>,
    /// The number of that writer's next segment.
    pub(crate) next: u64,
    /// The latest stamp that was given or seen.
    pub(crate) stamp: Stamp,
}

impl Progress {
    fn of(agreement: &Agreement) -> Self {
        let Agreement { writer, next, clock, .. } = agreement;
        Self { writer: *writer, next: *next, stamp: clock.last() }
    }
}

/// A line of the file.
#[derive(Deserialize)]
struct Change {
    #[serde(default)]
    drop: Vec<Origin>,
    #[serde(default)]
    entries: Vec<Entry>,
    /// Absent if a later line says it.
    at: Option<At>,
}

/// The same without what changed.
#[derive(Deserialize)]
struct Ending {
    at: At,
}

/// A line that is to be written.
#[derive(Serialize)]
struct NewChange<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    drop: Vec<Origin>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    entries: Vec<&'a Entry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<&'a At>,
}

/// How far this host has come.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct At {
    writer: Option<WriterId>,
    next: u64,
    stamp: Stamp,
    messages: MessagesAt,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    unshared: BTreeMap<u64, u64>,
}

impl Default for At {
    fn default() -> Self {
        Self::of(&Agreement::default())
    }
}

impl At {
    fn of(agreement: &Agreement) -> Self {
        let Agreement { writer, next, messages, .. } = *agreement;
        let (stamp, unshared) = (agreement.clock.last(), agreement.unshared.clone());
        Self { writer, next, stamp, messages, unshared }
    }
}

impl Notes {
    /// Returns what host and bucket agreed upon; nothing, if they never met.
    pub fn agreement(&self) -> Result<Agreement, RemoteError> {
        let path = self.path_of(AGREEMENT);
        let file = whole_file::open(&self.dir, AGREEMENT, OFlags::RDONLY);
        let Some(file) = file.map_err(RemoteError::at("open", &path))? else {
            return Ok(Agreement::default());
        };
        let mut reading = Reading::default();
        let mut lines = BufReader::new(file);
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            lines.read_until(b'\n', &mut line).map_err(RemoteError::at("read", &path))?;
            // The last line may be cut off, by a crash.
            let Some(whole) = line.strip_suffix(b"\n") else { break };
            reading.take(whole).map_err(|error| {
                let why = format!("line {number} is none, at column {}", error.column());
                RemoteError::Damaged { path: path.clone(), why }
            })?;
        }
        Ok(reading.agreement())
    }

    /// Returns how far this host has come. Reads the end of the file alone, if that has a line.
    pub(crate) fn progress(&self) -> Result<Progress, RemoteError> {
        let path = self.path_of(AGREEMENT);
        let end = whole_file::open(&self.dir, AGREEMENT, OFlags::RDONLY)
            .and_then(|file| file.map(|file| end_of(&file)).transpose())
            .map_err(RemoteError::at("read", &path))?;
        let Some(end) = end else { return Ok(Progress::of(&Agreement::default())) };
        match last_line(&end).and_then(|line| serde_json::from_slice(line).ok()) {
            Some(Ending { at: At { writer, next, stamp, .. } }) => {
                Ok(Progress { writer, next, stamp })
            }
            None => Ok(Progress::of(&self.agreement()?)),
        }
    }

    /// Notes that a stamp was seen: every one that is given from now on is later.
    pub(crate) fn see(&self, stamp: Stamp) -> Result<(), RemoteError> {
        let before = self.agreement()?;
        let mut after = before.clone();
        after.clock.see(stamp);
        self.save(&before, &after)
    }

    /// Returns what the file is that has the agreement; `None` if they never met. It is another
    /// one, or another state of it, after each [`Self::save`].
    fn agreement_mark(&self) -> Result<Option<FileMark>, RemoteError> {
        match self.dir.stat(AGREEMENT.as_ref()) {
            Ok(stat) => Ok(Some(FileMark::of(&stat))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(RemoteError::at("look at", &self.path_of(AGREEMENT))(error)),
        }
    }

    /// Notes that host and bucket agree upon `after`, where they agreed upon `before`, which is on
    /// disk. After a crash it is one of the two.
    pub fn save(&self, before: &Agreement, after: &Agreement) -> Result<(), RemoteError> {
        if before == after {
            return Ok(());
        }
        let path = self.path_of(AGREEMENT);
        let file = whole_file::open(&self.dir, AGREEMENT, OFlags::RDWR | OFlags::APPEND);
        let saved = file.and_then(|file| match file {
            Some(file) if can_grow(&file, after)? => append(&file, before, after),
            _ => whole_file::write_with(&self.dir, AGREEMENT, |file| print(after, file)),
        });
        saved.map_err(RemoteError::at("write", &path))
    }
}

#[derive(Default)]
struct Reading {
    entries: BTreeMap<Origin, Entry>,
    at: At,
}

impl Reading {
    fn take(&mut self, line: &[u8]) -> serde_json::Result<()> {
        let change: Change = serde_json::from_slice(line)?;
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
        let At { writer, next, stamp, messages, unshared } = self.at;
        let mut clock = Clock::default();
        clock.see(stamp);
        let base = Base { entries: self.entries.into_values().collect() };
        Agreement { base, writer, next, clock, messages, unshared }
    }
}

impl NewChange<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        out.write_all(b"\n")
    }
}

fn by_origin(base: &Base) -> BTreeMap<Origin, &Entry> {
    let first = |entry: &Entry| entry.origins.first().copied();
    base.entries.iter().filter_map(|entry| Some((first(entry)?, entry))).collect()
}

/// Prints the content of a file that says no more than needed, a line for each entry.
fn print(agreement: &Agreement, out: &mut dyn Write) -> io::Result<()> {
    let at = &At::of(agreement);
    for entry in by_origin(&agreement.base).into_values() {
        NewChange { drop: Vec::new(), entries: vec![entry], at: None }.write(out)?;
    }
    NewChange { drop: Vec::new(), entries: Vec::new(), at: Some(at) }.write(out)
}

/// Returns the last bytes of a file.
fn end_of(file: &File) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    let start = length.saturating_sub(END);
    let mut end = vec![0; (length - start) as usize];
    file.read_exact_at(&mut end, start)?;
    Ok(end)
}

/// Returns the last whole line of what a file ends with, if its beginning is in that.
fn last_line(end: &[u8]) -> Option<&[u8]> {
    let (before, _cut_off) = end.split_at(memchr::memrchr(b'\n', end)?);
    Some(&before[memchr::memrchr(b'\n', before)? + 1..])
}

/// Returns true if a line may be added: the file ends with a whole one, and most of it is of use.
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
    let mut counted = Counted(0);
    print(after, &mut counted)?;
    Ok(length <= counted.0 * MOST_BALLAST)
}

/// Counts the bytes that are written to it.
struct Counted(u64);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Adds the line that makes `after` of `before`.
fn append(file: &File, before: &Agreement, after: &Agreement) -> io::Result<()> {
    let (old, new) = (by_origin(&before.base), by_origin(&after.base));
    let gone = old.keys().filter(|origin| !new.contains_key(origin));
    let changed = new.iter().filter(|(origin, entry)| old.get(origin) != Some(entry));
    let (drop, at) = (gone.copied().collect(), Some(&At::of(after)));
    let entries: Vec<_> = changed.map(|(_, entry)| *entry).collect();
    let is_long = entries.len() > LONG;
    let mut out = BufWriter::with_capacity(BLOCK, file);
    NewChange { drop, entries, at }.write(&mut out)?;
    if is_long {
        NewChange { drop: Vec::new(), entries: Vec::new(), at }.write(&mut out)?;
    }
    out.flush()?;
    file.sync_data()
}
