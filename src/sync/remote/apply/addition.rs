
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{Read, Write as _};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};
use std::{io, mem, thread};

use crate::remote::error::RemoteError;
use crate::remote::mark::{key_of, version_of};
use crate::replica::{Entry, FileKey, FileVersion, Origin};
use ctxfs_core::model::{Record, RelPath, text};
use ctxfs_store::{Arrival, Arrived, Conversation, Expected, FileMark, Stat, StoreError};

use super::Applying;

///+ Entries that are prefetched together.
const BATCH: usize = 64;
///+ Bytes of records that are written together.
const RECORDS: usize = 256 << 10;
const BLOCK: usize = 128 << 10;
const TAKEN: &str = "something else has its name, or is in the way";

///+ Source of the bytes of remote files.
pub trait Fetch {
    ///+ Sorts entries into the best order for fetching.
    fn order(&self, _entries: &mut [Entry]) {}

    ///+ Prefetches small files together. Errors are reported when each file is fetched.
    fn prepare(&self, _entries: &[Entry]) {}

    ///+ Returns the size of the first artifact of `entry`, if that is known without a request.
    fn size(&self, _entry: &Entry) -> Option<u64> {
        None
    }

    ///+ Starts to fetch the first artifact of `entry`. Returns `None` if it is unavailable.
    fn fetch(&self, entry: &Entry) -> Result<Option<Parcel<'_>>, RemoteError>;

    ///+ Returns the metadata of the first artifact of `entry` if its bytes are to stay in the bucket
    ///+ until they are read.
    fn known(&self, _entry: &Entry) -> Result<Option<Known>, RemoteError> {
        Ok(None)
    }
}

///+ Metadata of an artifact whose bytes stay in the bucket.
#[derive(Debug)]
pub struct Known {
    pub origin: Origin,
    pub arrived: Arrived,
    ///+ Bytes of the line in the bucket, about as many as of the local record.
    pub bytes: usize,
}

///+ A file that is being fetched. Its record has the size and, in the analysis, the digest of the
///+ content.
pub struct Parcel<'a> {
    pub record: Record,
    pub mode: u32,
    pub attributes: BTreeMap<String, String>,
    pub content: Box<dyn Read + 'a>,
}

impl std::fmt::Debug for Parcel<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parcel").field("record", &self.record).finish_non_exhaustive()
    }
}

enum Flaw {
    Disk(StoreError),
    Content(String),
}

struct Awaited {
    at: usize,
    path: RelPath,
    known: Known,
}

///+ Attributes of the recorded artifacts; `None` where the name is taken.
type RecordedStats = Result<Vec<Result<Option<Stat>, StoreError>>, StoreError>;

///+ A batch of records that a thread is writing.
struct Recording<'scope> {
    awaited: Arc<Vec<Awaited>>,
    outcome: ScopedJoinHandle<'scope, RecordedStats>,
}

///+ Adds files: records artifacts whose bytes stay in the bucket, in batches, and fetches the
///+ others. The next entries are read while a thread writes a batch of records.
pub(super) struct Additions<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    fetch: &'env dyn Fetch,
    entries: Vec<Entry>,
    is_done: Vec<bool>,
    awaited: Vec<Awaited>,
    bytes: usize,
    recording: Option<Recording<'scope>>,
}

impl<'scope, 'env> Additions<'scope, 'env> {
    pub(super) fn new(
        scope: &'scope Scope<'scope, 'env>,
        fetch: &'env dyn Fetch,
        mut entries: Vec<Entry>,
    ) -> Self {
        fetch.order(&mut entries);
        let (is_done, awaited) = (vec![false; entries.len()], Vec::new());
        Self { scope, fetch, entries, is_done, awaited, bytes: 0, recording: None }
    }

    pub(super) fn add_all(&mut self, applying: &mut Applying<'env>) -> Result<(), RemoteError> {
        for start in (0..self.entries.len()).step_by(BATCH) {
            let end = self.entries.len().min(start + BATCH);
            self.fetch.prepare(&self.entries[start..end]);
            (start..end).try_for_each(|at| self.add(applying, at))?;
        }
        Ok(())
    }

    fn add(&mut self, applying: &mut Applying<'env>, at: usize) -> Result<(), RemoteError> {
        let entry = &self.entries[at];
        let Some(path) = applying.shared_path(&entry.path) else { return Ok(()) };
        match asked(applying, entry, known(&path, entry, self.fetch))? {
            Some(Some(known)) => {
                self.bytes += known.bytes;
                self.awaited.push(Awaited { at, path, known });
                if self.bytes < RECORDS { Ok(()) } else { self.record(applying) }
            }
            Some(None) => {
                if let Some(mark) = add(applying, entry, &path, self.fetch)? {
                    self.note(at, key_of(&mark), version_of(&mark));
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn note(&mut self, at: usize, key: FileKey, version: FileVersion) {
        let entry = &mut self.entries[at];
        (entry.key, entry.version, self.is_done[at]) = (key, version, true);
    }

    fn record(&mut self, applying: &mut Applying<'env>) -> Result<(), RemoteError> {
        self.settle(applying)?;
        let awaited = Arc::new(mem::take(&mut self.awaited));
        if !self.has_room(applying, &awaited)? {
            return Ok(());
        }
        let (conversation, all) = (applying.conversation, Arc::clone(&awaited));
        let thread = thread::Builder::new().name("ctxfs-record".to_owned());
        match thread.spawn_scoped(self.scope, move || expect(conversation, &all)) {
            Ok(outcome) => self.recording = Some(Recording { awaited, outcome }),
            Err(_) => self.note_all(applying, &awaited, expect(conversation, &awaited))?,
        }
        Ok(())
    }

    fn has_room(
        &mut self,
        applying: &mut Applying<'env>,
        awaited: &[Awaited],
    ) -> Result<bool, RemoteError> {
        let bytes = mem::take(&mut self.bytes) as u64;
        let first = awaited.first();
        first.map_or(Ok(true), |first| applying.has_room(&first.path, bytes))
    }

    fn settle(&mut self, applying: &mut Applying<'env>) -> Result<(), RemoteError> {
        let Some(Recording { awaited, outcome }) = self.recording.take() else { return Ok(()) };
        let outcome = outcome.join().unwrap_or_else(|panic| resume_unwind(panic));
        self.note_all(applying, &awaited, outcome)
    }

    pub(super) fn end(&mut self, applying: &mut Applying<'env>) -> Result<(), RemoteError> {
        let settled = self.settle(applying);
        let awaited = mem::take(&mut self.awaited);
        if !self.has_room(applying, &awaited)? {
            return settled;
        }
        let outcome = expect(applying.conversation, &awaited);
        settled.and(self.note_all(applying, &awaited, outcome))
    }

    fn note_all(
        &mut self,
        applying: &mut Applying<'env>,
        awaited: &[Awaited],
        outcome: RecordedStats,
    ) -> Result<(), RemoteError> {
        let Some(first) = awaited.first() else { return Ok(()) };
        let outcome = applying.settled(&self.entries[first.at].path, outcome)?;
        for (Awaited { at, path, known }, stat) in awaited.iter().zip(outcome.into_iter().flatten())
        {
            match applying.settled(&self.entries[*at].path, stat)? {
                Some(Some(stat)) => {
                    applying.touch(path);
                    let key = FileKey::Elsewhere(known.origin);
                    self.note(*at, key, version_of(&FileMark::of(&stat)));
                }
                Some(None) => applying.leave(&self.entries[*at].path, TAKEN),
                None => {}
            }
        }
        Ok(())
    }

    pub(super) fn done(self) -> Vec<Entry> {
        let (mut entries, mut is_done) = (self.entries, self.is_done.into_iter());
        entries.retain(|_| is_done.next().unwrap_or_default());
        entries
    }
}

fn expect(conversation: &Conversation, awaited: &[Awaited]) -> RecordedStats {
    if awaited.is_empty() {
        return Ok(Vec::new());
    }
    let all: Vec<Expected<'_>> = awaited.iter().map(Awaited::expected).collect();
    conversation.expect(&all)
}

fn known(path: &RelPath, entry: &Entry, fetch: &dyn Fetch) -> Result<Option<Known>, RemoteError> {
    if path.is_artifact() { fetch.known(entry) } else { Ok(None) }
}

///+ Fetches the file of an entry. Returns the mark of the new file, or `None` if the file is
///+ skipped.
fn add(
    applying: &mut Applying<'_>,
    entry: &Entry,
    path: &RelPath,
    fetch: &dyn Fetch,
) -> Result<Option<FileMark>, RemoteError> {
    if applying.conversation.dir().stat_at(path).is_ok() {
        applying.leave(&entry.path, "something else has its name");
        return Ok(None);
    }
    let size = fetch.size(entry);
    if let Some(size) = size
        && !applying.has_room(path, size)?
    {
        return Ok(None);
    }
    let Some(parcel) = fetched(applying, entry, fetch)? else { return Ok(None) };
    // The line of the artifact may state another size.
    if size != Some(parcel.record.size) && !applying.has_room(path, parcel.record.size)? {
        return Ok(None);
    }
    match received(applying, path, parcel) {
        Ok((arrival, arrived)) => complete(applying, entry, path, (arrival, &arrived)),
        Err(Flaw::Disk(error)) => applying.settled(&entry.path, Err(error)),
        Err(Flaw::Content(why)) => {
            applying.leave(&entry.path, why);
            Ok(None)
        }
    }
}

fn fetched<'f>(
    applying: &mut Applying<'_>,
    entry: &Entry,
    fetch: &'f dyn Fetch,
) -> Result<Option<Parcel<'f>>, RemoteError> {
    match asked(applying, entry, fetch.fetch(entry))? {
        Some(Some(parcel)) => Ok(Some(parcel)),
        Some(None) => {
            applying.leave(&entry.path, "its bytes cannot be had now");
            Ok(None)
        }
        None => Ok(None),
    }
}

///+ Returns the answer, or `None` if the entry is skipped. Fails if other entries would fail too.
fn asked<T>(
    applying: &mut Applying<'_>,
    entry: &Entry,
    answer: Result<T, RemoteError>,
) -> Result<Option<T>, RemoteError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.may_pass() => Err(error),
        Err(RemoteError::Store(error)) => applying.settled(&entry.path, Err(error)),
        Err(error) => {
            applying.leave(&entry.path, error);
            Ok(None)
        }
    }
}

impl Awaited {
    fn expected(&self) -> Expected<'_> {
        let Known { origin, arrived, .. } = &self.known;
        Expected { path: &self.path, arrived, origin: origin.to_string() }
    }
}

fn received<'a>(
    applying: &Applying<'a>,
    path: &RelPath,
    parcel: Parcel<'_>,
) -> Result<(Arrival<'a>, Arrived), Flaw> {
    let Parcel { record, mode, attributes, mut content } = parcel;
    let digest = record.analysis.as_ref().map(|analysis| analysis.digest.as_str());
    let digest = digest.ok_or_else(|| Flaw::Content("its record has no digest".to_owned()))?;
    let mut arrival = applying.conversation.receive(path).map_err(Flaw::Disk)?;
    let mut block = vec![0; BLOCK];
    while let Some(count) = read(&mut content, &mut block)? {
        let written = arrival.write_all(&block[..count]);
        let failed = |error| applying.conversation.error_at("write", path, error);
        written.map_err(|error| Flaw::Disk(failed(error)))?;
        if arrival.written() > record.size {
            break;
        }
    }
    if arrival.written() != record.size || arrival.digest() != digest {
        let why = "its bytes are not those of its digest; `ctxfs remote check` tells more";
        return Err(Flaw::Content(why.to_owned()));
    }
    let attributes = attributes.into_iter();
    let attributes = attributes.map(|(name, value)| (OsString::from(name), text::decode(&value)));
    let attributes = attributes.collect();
    Ok((arrival, Arrived { record, mode, attributes }))
}

fn read(content: &mut dyn Read, block: &mut [u8]) -> Result<Option<usize>, Flaw> {
    loop {
        match content.read(block) {
            Ok(count) => return Ok(Some(count).filter(|count| *count > 0)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Flaw::Content(error.to_string())),
        }
    }
}

fn complete(
    applying: &mut Applying<'_>,
    entry: &Entry,
    path: &RelPath,
    (arrival, arrived): (Arrival<'_>, &Arrived),
) -> Result<Option<FileMark>, RemoteError> {
    match applying.settled(&entry.path, arrival.complete(arrived))? {
        Some(Some(stat)) => {
            applying.touch(path);
            Ok(Some(FileMark::of(&stat)))
        }
        Some(None) => {
            applying.leave(&entry.path, TAKEN);
            Ok(None)
        }
        None => Ok(None),
    }
}
