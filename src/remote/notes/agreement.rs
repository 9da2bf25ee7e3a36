//! What host and bucket agreed upon, on disk.
//!
//! `agreement.jsonl` has a line for each time something was agreed upon: the entries that changed,
//! the first artifacts of those that are no more, and how far this host has come. A line is whole
//! or, after a crash, passed over: so what a segment changes is noted as one. Entries are known by
//! their first artifact: no artifact is in two, while hard links have one key.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::io::BufRead as _;
use std::io::BufReader;
use std::io::Write;
use std::os::unix::fs::FileExt as _;

use rustix::fs::OFlags;
use serde::Deserialize;
use serde::Serialize;

use super::MessagesAt;
use super::Notes;
use crate::remote::RemoteError;
use crate::remote::whole_file;
use crate::replica::Base;
use crate::replica::Clock;
use crate::replica::Entry;
use crate::replica::Origin;
use crate::replica::Stamp;
use crate::replica::WriterId;
use crate::store::FileMark;

const AGREEMENT: &str = "agreement.jsonl";
/// Of so many bytes one may be of use.
const MOST_BALLAST: u64 = 5;
/// The bytes of an entry as far as a file is not worth being written anew, and those of an empty
/// file.
const ENTRY: u64 = 300;
const EMPTY: u64 = 64 << 10;

/// Something made of what host and bucket agreed upon, which is read again only when that changed.
#[derive(Debug)]
pub(in crate::remote) struct Derived<T> {
    /// The file from which it was read.
    pub(in crate::remote) mark: Option<FileMark>,
    pub(in crate::remote) value: T,
}

impl<T> Derived<T> {
    /// Returns `before`, if nothing changed since it was made, or makes it anew.
    pub(in crate::remote) fn current(
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
    pub(in crate::remote) fn is_new(&self) -> bool {
        self.base.entries.is_empty() && self.messages.offset == 0
    }

    /// Returns the agreement where nothing is known of a log but its beginning, `messages`.
    #[must_use]
    pub(in crate::remote) fn without_log(&self, messages: MessagesAt) -> Self {
        Self { messages, unshared: BTreeMap::new(), ..self.clone() }
    }
}

/// A line of the file.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Change {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    drop: Vec<Origin>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    entries: Vec<Entry>,
    at: At,
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
            Some(file) if can_grow(&file, after)? => append(file, &Change::between(before, after)),
            _ => whole_file::write_with(&self.dir, AGREEMENT, |file| print(after, file).map(drop)),
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
        self.at = change.at;
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

impl Change {
    fn between(before: &Agreement, after: &Agreement) -> Self {
        let (old, new) = (by_origin(&before.base), by_origin(&after.base));
        let gone = old.keys().filter(|origin| !new.contains_key(origin));
        let changed = new.iter().filter(|(origin, entry)| old.get(origin) != Some(entry));
        let entries = changed.map(|(_, entry)| (*entry).clone()).collect();
        Self { drop: gone.copied().collect(), entries, at: At::of(after) }
    }

    fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("an agreement can be JSON");
        line.push(b'\n');
        line
    }
}

fn by_origin(base: &Base) -> BTreeMap<Origin, &Entry> {
    let first = |entry: &Entry| entry.origins.first().copied();
    base.entries.iter().filter_map(|entry| Some((first(entry)?, entry))).collect()
}

/// Prints the content of a file that says no more than needed, a line for each entry. Returns its
/// bytes.
fn print(agreement: &Agreement, out: &mut dyn Write) -> io::Result<u64> {
    let (at, mut bytes) = (At::of(agreement), 0);
    let mut print = |entries| {
        let line = Change { drop: Vec::new(), entries, at: at.clone() }.line();
        bytes += line.len() as u64;
        out.write_all(&line)
    };
    for entry in by_origin(&agreement.base).into_values() {
        print(vec![entry.clone()])?;
    }
    print(Vec::new())?;
    Ok(bytes)
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
    let may_be_ballast = length > expected * MOST_BALLAST;
    Ok(!may_be_ballast || length <= print(after, &mut io::sink())? * MOST_BALLAST)
}

fn append(mut file: File, change: &Change) -> io::Result<()> {
    file.write_all(&change.line())?;
    file.sync_data()
}
