//! Application of changes from other hosts to local files.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{Read, Write as _};
use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};
use std::{io, mem, thread};

use crate::remote::Limits;
use crate::remote::error::RemoteError;
use crate::remote::files::{key_of, mark_of, shared_path, version_of};
use crate::replica::{Entry, FileKey, FileVersion, FoundFile, Origin, Step};
use ctxfs_core::model::{Record, RelPath, text, with_digits};
use ctxfs_store::{
    Arrival, Arrived, Conversation, FileMark, RemovalOutcome, Rename, RenameOutcome, Stat,
    StoreError, Usage, record_far, whole_blocks,
};

const REFUSED: &str = "its path is refused: no file that hosts share can have it";

/// Outcome of [`apply`]. The steps in `done` are applied and synced to disk; in a step that added a
/// file, `entry` has the key and version of the new file. The next pull retries the skipped files
/// in `left`. If the disk is full or the limits are reached, `no_room` has the first such error.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    pub done: Vec<Step>,
    pub left: Vec<SkippedFile>,
    pub no_room: Option<String>,
    /// Error that stopped the run because later steps would have failed too. The steps in `done`
    /// are applied even in this case.
    pub error: Option<RemoteError>,
}

/// A file that a pull left unchanged, and the reason. The next pull retries it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct SkippedFile {
    pub path: String,
    pub why: String,
}

/// Applies steps one by one, and skips the ones that fail. `now` is the time in milliseconds since
/// the epoch. It is stored in the trace that a write-once file leaves when it is removed or
/// renamed. The caller must hold the push lock. Files that exceed `limits` are skipped, and only
/// the first of them is reported.
///
/// A file is changed only if it is a shared file, is in the state that the step expects, and is not
/// open for writing. A rename never replaces a file. If a run is interrupted, each file is complete
/// under its old name, its new name, or a temporary name derived from one of these.
pub(crate) fn apply<'a>(
    conversation: &'a Conversation,
    steps: Vec<Step>,
    fetch: &'a dyn Fetch,
    (now, limits): (i64, Limits),
) -> Applied {
    let mut applying = Applying::new(conversation, (now, limits));
    let tried = applying.remove_all(&steps);
    let tried = tried.and_then(|()| applying.rename_all(&steps));
    let tried = tried.and_then(|()| applying.fetch_all(steps, fetch));
    applying.finish(tried)
}

struct Applying<'a> {
    conversation: &'a Conversation,
    now: i64,
    limits: Limits,
    used: Option<u64>,
    applied: Applied,
    touched: BTreeSet<Option<RelPath>>,
}

impl<'a> Applying<'a> {
    fn new(conversation: &'a Conversation, (now, limits): (i64, Limits)) -> Self {
        let (applied, touched) = (Applied::default(), BTreeSet::new());
        Self { conversation, now, limits, used: None, applied, touched }
    }

    fn remove_all(&mut self, steps: &[Step]) -> Result<(), RemoteError> {
        for step in steps {
            if let Step::Remove { path, found, .. } = step
                && self.remove(path, found)?
            {
                self.applied.done.push(step.clone());
            }
        }
        Ok(())
    }

    fn remove(&mut self, text: &str, found: &FoundFile) -> Result<bool, RemoteError> {
        let Some(path) = self.shared_path(text) else { return Ok(false) };
        let removed = match (found.key, mark_of(found.key, found.version)) {
            (FileKey::Remote(origin), _) => ctxfs_store::shared::remove_far(
                self.conversation,
                &path,
                &origin.to_string(),
                self.now,
            ),
            (FileKey::Local { .. }, Some(mark)) => {
                ctxfs_store::shared::remove(self.conversation, &path, &mark, self.now)
            }
            (FileKey::Local { .. }, None) => return Ok(false),
        };
        match self.unless_failed_at(text, removed)? {
            Some(RemovalOutcome::Removed) => {
                self.touch(&path);
                Ok(true)
            }
            Some(RemovalOutcome::Kept(why)) => {
                self.leave(text, why);
                Ok(false)
            }
            None => Ok(false),
        }
    }

    fn rename_all(&mut self, steps: &[Step]) -> Result<(), RemoteError> {
        let mut renames = Renames::default();
        for step in steps {
            if let Step::Rename { from, found, entry, .. } = step {
                let (from, to) = (self.shared_path(from), self.shared_path(&entry.path));
                if let (Some(from), Some(to)) = (from, to) {
                    renames.push(step, found, (from, to));
                }
            }
        }
        renames.run(self)
    }

    fn fetch_all(&mut self, steps: Vec<Step>, fetch: &'a dyn Fetch) -> Result<(), RemoteError> {
        Arrival::remove_unfinished(self.conversation)?;
        let entry = |step| match step {
            Step::Add { entry } => Some(entry),
            Step::Remove { .. } | Step::Rename { .. } => None,
        };
        let entries: Vec<Entry> = steps.into_iter().filter_map(entry).collect();
        let (added, tried) = thread::scope(|scope| {
            let mut additions = Additions::new(scope, fetch, entries);
            let tried = additions.add_all(self);
            // Record the pending artifacts even after a failure.
            let ended = additions.end(self);
            (additions.done(), tried.and(ended))
        });
        // Usually there are many additions and few other steps.
        let mut done: Vec<Step> = added.into_iter().map(|entry| Step::Add { entry }).collect();
        done.splice(0..0, mem::take(&mut self.applied.done));
        self.applied.done = done;
        tried
    }

    /// Returns the value of `tried`. If `tried` failed because of this path only, or because the
    /// disk is full, skips the path and returns `None`.
    fn unless_failed_at<T>(
        &mut self,
        path: &str,
        tried: Result<T, StoreError>,
    ) -> Result<Option<T>, RemoteError> {
        match tried {
            Ok(given) => Ok(Some(given)),
            Err(error) if is_full(&error) => {
                self.leave_for_room(path, &error);
                Ok(None)
            }
            Err(error) if error.is_of_place() => {
                self.leave(path, error);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reserves `size` bytes within the limits. If they do not fit, skips `path` and returns false.
    fn has_room(&mut self, path: &RelPath, size: u64) -> Result<bool, RemoteError> {
        let measured = match (self.used, self.limits.quota) {
            (None, Some(_)) => Some(Usage::of(self.conversation)?.bytes),
            (used, _) => used,
        };
        self.used = measured;
        let used = measured.unwrap_or_default();
        let disk = self.conversation.dir().space();
        let disk = disk.map_err(|error| self.conversation.error_at("measure", path, error))?;
        let checked = self.limits.check_disk(&disk, size);
        if let Err(shortage) = checked.and_then(|()| self.limits.check_quota(used, size)) {
            self.leave_for_room(&path.to_text(), shortage);
            return Ok(false);
        }
        self.used = measured.map(|used| used.saturating_add(whole_blocks(size)));
        Ok(true)
    }

    fn touch(&mut self, path: &RelPath) {
        self.touched.insert(path.parent());
    }

    fn leave(&mut self, path: &str, why: impl std::fmt::Display) {
        self.applied.left.push(SkippedFile { path: path.to_owned(), why: why.to_string() });
    }

    fn leave_for_room(&mut self, path: &str, why: impl std::fmt::Display) {
        if self.applied.no_room.is_none() {
            self.applied.no_room = Some(why.to_string());
            self.leave(path, why);
        }
    }

    fn shared_path(&mut self, text: &str) -> Option<RelPath> {
        let path = shared_path(text);
        if path.is_none() {
            self.leave(text, REFUSED);
        }
        path
    }

    /// Syncs all changes to disk. If the sync fails, no step counts as done, and the next
    /// comparison finds the changes.
    fn finish(mut self, tried: Result<(), RemoteError>) -> Applied {
        self.applied.error = tried.err();
        if let Err(error) =
            ctxfs_store::shared::sync_parents(self.conversation, mem::take(&mut self.touched))
        {
            self.applied.done.clear();
            self.applied.error.get_or_insert(error.into());
        }
        self.conversation.manifest().compact_if_wasteful();
        self.applied
    }
}

fn is_full(error: &StoreError) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

const BATCH: usize = 64;
const RECORDS: usize = 256 << 10;
const BLOCK: usize = 128 << 10;
const TAKEN: &str = "something else has its name, or is in the way";

/// Source of the bytes of remote files. If an entry has several artifacts, the first known one is
/// used. Temporary errors stop the whole run; other errors skip one file.
pub(crate) trait Fetch {
    fn order(&self, _entries: &mut [Entry]) {}

    fn prepare(&self, _entries: &[Entry]) {}

    fn size(&self, _entry: &Entry) -> Option<u64> {
        None
    }

    fn fetch(&self, entry: &Entry) -> Result<Option<FetchedFile<'_>>, RemoteError>;

    /// Returns the metadata of the first artifact of `entry` if its bytes should stay in the bucket
    /// until they are read. Otherwise returns `None`, as the default always does.
    fn known(&self, _entry: &Entry) -> Result<Option<RemoteArtifact>, RemoteError> {
        Ok(None)
    }
}

/// Metadata of an artifact whose bytes stay in the bucket: its record with the location of the
/// bytes, and the size of its line in the bucket.
#[derive(Debug)]
pub(crate) struct RemoteArtifact {
    pub origin: Origin,
    pub record: Record,
    /// Size in bytes of the artifact's line in the bucket. This is used as an estimate of the size
    /// of the local record.
    pub bytes: usize,
}

/// A file that is being fetched. `record` has the size of the content, and its analysis has the
/// digest.
pub(crate) struct FetchedFile<'a> {
    pub record: Record,
    pub mode: u32,
    pub attributes: BTreeMap<String, String>,
    pub content: Box<dyn Read + 'a>,
}

enum ReceiveError {
    Disk(StoreError),
    Content(String),
}

struct PendingRecord {
    at: usize,
    path: RelPath,
    known: RemoteArtifact,
}

/// Attributes of the recorded artifacts, with `None` for each name that is taken.
type RecordedStats = Result<Vec<Result<Option<Stat>, StoreError>>, StoreError>;

struct Recording<'scope> {
    awaited: Arc<Vec<PendingRecord>>,
    outcome: ScopedJoinHandle<'scope, RecordedStats>,
}

/// Adds files. Artifacts whose bytes stay in the bucket are recorded in batches; others are
/// fetched. A thread writes one batch of records while the next entries are read.
struct Additions<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    fetch: &'env dyn Fetch,
    entries: Vec<Entry>,
    is_done: Vec<bool>,
    awaited: Vec<PendingRecord>,
    bytes: usize,
    recording: Option<Recording<'scope>>,
}

impl<'scope, 'env> Additions<'scope, 'env> {
    fn new(
        scope: &'scope Scope<'scope, 'env>,
        fetch: &'env dyn Fetch,
        mut entries: Vec<Entry>,
    ) -> Self {
        fetch.order(&mut entries);
        let (is_done, awaited) = (vec![false; entries.len()], Vec::new());
        Self { scope, fetch, entries, is_done, awaited, bytes: 0, recording: None }
    }

    fn add_all(&mut self, applying: &mut Applying<'env>) -> Result<(), RemoteError> {
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
        match unless_skipped(applying, entry, known(&path, entry, self.fetch))? {
            Some(Some(known)) => {
                self.bytes += known.bytes;
                self.awaited.push(PendingRecord { at, path, known });
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
        match thread.spawn_scoped(self.scope, move || record_pending(conversation, &all)) {
            Ok(outcome) => self.recording = Some(Recording { awaited, outcome }),
            Err(_) => self.note_all(applying, &awaited, record_pending(conversation, &awaited))?,
        }
        Ok(())
    }

    fn has_room(
        &mut self,
        applying: &mut Applying<'env>,
        awaited: &[PendingRecord],
    ) -> Result<bool, RemoteError> {
        let bytes = mem::take(&mut self.bytes) as u64;
        let first = awaited.first();
        first.map_or(Ok(true), |first| applying.has_room(&first.path, bytes))
    }

    fn settle(&mut self, applying: &mut Applying<'env>) -> Result<(), RemoteError> {
        let Some(Recording { awaited, outcome }) = self.recording.take() else { return Ok(()) };
        let outcome = outcome.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        self.note_all(applying, &awaited, outcome)
    }

    fn end(&mut self, applying: &mut Applying<'env>) -> Result<(), RemoteError> {
        let settled = self.settle(applying);
        let awaited = mem::take(&mut self.awaited);
        if !self.has_room(applying, &awaited)? {
            return settled;
        }
        let outcome = record_pending(applying.conversation, &awaited);
        settled.and(self.note_all(applying, &awaited, outcome))
    }

    fn note_all(
        &mut self,
        applying: &mut Applying<'env>,
        awaited: &[PendingRecord],
        outcome: RecordedStats,
    ) -> Result<(), RemoteError> {
        let Some(first) = awaited.first() else { return Ok(()) };
        let outcome = applying.unless_failed_at(&self.entries[first.at].path, outcome)?;
        for (PendingRecord { at, path, known }, stat) in
            awaited.iter().zip(outcome.into_iter().flatten())
        {
            match applying.unless_failed_at(&self.entries[*at].path, stat)? {
                Some(Some(stat)) => {
                    applying.touch(path);
                    let key = FileKey::Remote(known.origin);
                    self.note(*at, key, version_of(&FileMark::of(&stat)));
                }
                Some(None) => applying.leave(&self.entries[*at].path, TAKEN),
                None => {}
            }
        }
        Ok(())
    }

    fn done(self) -> Vec<Entry> {
        let (mut entries, mut is_done) = (self.entries, self.is_done.into_iter());
        entries.retain(|_| is_done.next().unwrap_or_default());
        entries
    }
}

fn record_pending(conversation: &Conversation, awaited: &[PendingRecord]) -> RecordedStats {
    if awaited.is_empty() {
        return Ok(Vec::new());
    }
    let record = |pending: &PendingRecord| Record {
        path: pending.path.to_text(),
        ..pending.known.record.clone()
    };
    record_far(conversation, &awaited.iter().map(record).collect::<Vec<_>>())
}

fn known(
    path: &RelPath,
    entry: &Entry,
    fetch: &dyn Fetch,
) -> Result<Option<RemoteArtifact>, RemoteError> {
    if path.is_artifact() { fetch.known(entry) } else { Ok(None) }
}

/// Fetches the file of an entry and returns the mark of the new file. Returns `None` if the file is
/// skipped.
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
    // The line of the artifact may state a size that differs from the expected one.
    if size != Some(parcel.record.size) && !applying.has_room(path, parcel.record.size)? {
        return Ok(None);
    }
    match receive(applying, path, parcel) {
        Ok((arrival, arrived)) => complete(applying, entry, path, (arrival, &arrived)),
        Err(ReceiveError::Disk(error)) => applying.unless_failed_at(&entry.path, Err(error)),
        Err(ReceiveError::Content(why)) => {
            applying.leave(&entry.path, why);
            Ok(None)
        }
    }
}

fn fetched<'f>(
    applying: &mut Applying<'_>,
    entry: &Entry,
    fetch: &'f dyn Fetch,
) -> Result<Option<FetchedFile<'f>>, RemoteError> {
    match unless_skipped(applying, entry, fetch.fetch(entry))? {
        Some(Some(parcel)) => Ok(Some(parcel)),
        Some(None) => {
            applying.leave(&entry.path, "its bytes cannot be had now");
            Ok(None)
        }
        None => Ok(None),
    }
}

/// Returns the value of `answer`, or `None` if the entry is skipped. Fails if other entries would
/// fail too.
fn unless_skipped<T>(
    applying: &mut Applying<'_>,
    entry: &Entry,
    answer: Result<T, RemoteError>,
) -> Result<Option<T>, RemoteError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.may_pass() => Err(error),
        Err(RemoteError::Store(error)) => applying.unless_failed_at(&entry.path, Err(error)),
        Err(error) => {
            applying.leave(&entry.path, error);
            Ok(None)
        }
    }
}

fn receive<'a>(
    applying: &Applying<'a>,
    path: &RelPath,
    parcel: FetchedFile<'_>,
) -> Result<(Arrival<'a>, Arrived), ReceiveError> {
    let FetchedFile { record, mode, attributes, mut content } = parcel;
    let digest = record.digest();
    let digest =
        digest.ok_or_else(|| ReceiveError::Content("its record has no digest".to_owned()))?;
    let mut arrival = Arrival::begin(applying.conversation, path).map_err(ReceiveError::Disk)?;
    let mut block = vec![0; BLOCK];
    while let Some(count) = read(&mut content, &mut block)? {
        let written = arrival.write_all(&block[..count]);
        let failed = |error| applying.conversation.error_at("write", path, error);
        written.map_err(|error| ReceiveError::Disk(failed(error)))?;
        if arrival.written() > record.size {
            break;
        }
    }
    if arrival.written() != record.size || arrival.digest() != digest {
        let why = "its bytes are not those of its digest; `ctxfs remote check` tells more";
        return Err(ReceiveError::Content(why.to_owned()));
    }
    let attributes = attributes.into_iter();
    let attributes =
        attributes.map(|(name, value)| (std::ffi::OsString::from(name), text::decode(&value)));
    let attributes = attributes.collect();
    Ok((arrival, Arrived { record, mode, attributes }))
}

fn read(content: &mut dyn Read, block: &mut [u8]) -> Result<Option<usize>, ReceiveError> {
    loop {
        match content.read(block) {
            Ok(count) => return Ok(Some(count).filter(|count| *count > 0)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(ReceiveError::Content(error.to_string())),
        }
    }
}

fn complete(
    applying: &mut Applying<'_>,
    entry: &Entry,
    path: &RelPath,
    (arrival, arrived): (Arrival<'_>, &Arrived),
) -> Result<Option<FileMark>, RemoteError> {
    match applying.unless_failed_at(&entry.path, arrival.complete(arrived))? {
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

const TRIES: usize = 8;
const DIGITS: usize = 8;

/// A set of renames. They run in an order in which each new name is free.
#[derive(Default)]
struct Renames<'s> {
    pending: Vec<PendingRename<'s>>,
}

struct PendingRename<'s> {
    step: &'s Step,
    found: &'s FoundFile,
    from: RelPath,
    at: RelPath,
    to: RelPath,
    state: RenameState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RenameState {
    Waiting,
    Done,
    Left,
}

#[derive(Clone, Copy)]
enum RenameAction {
    Move(usize),
    Aside(usize),
}

impl<'s> Renames<'s> {
    fn push(&mut self, step: &'s Step, found: &'s FoundFile, path: (RelPath, RelPath)) {
        let (from, to) = path;
        let (at, state) = (from.clone(), RenameState::Waiting);
        self.pending.push(PendingRename { step, found, from, at, to, state });
    }

    fn run(mut self, applying: &mut Applying<'_>) -> Result<(), RemoteError> {
        let waiting = |renames: &Self| {
            renames.pending.iter().filter(|each| each.state == RenameState::Waiting).count()
        };
        let tried = loop {
            let before = waiting(&self);
            let tried = self.round(applying);
            if tried.is_err() || waiting(&self) == before || waiting(&self) == 0 {
                break tried;
            }
        };
        self.take_back(applying);
        for each in self.pending.iter().filter(|each| each.state == RenameState::Waiting) {
            applying.leave(&each.to.to_text(), TAKEN);
        }
        tried
    }

    fn round(&mut self, applying: &mut Applying<'_>) -> Result<(), RemoteError> {
        for action in self.order() {
            match action {
                RenameAction::Move(which) => self.rename(which, applying)?,
                RenameAction::Aside(which) => self.step_aside(which, applying)?,
            }
        }
        Ok(())
    }

    fn rename(&mut self, which: usize, applying: &mut Applying<'_>) -> Result<(), RemoteError> {
        let to = self.pending[which].to.clone();
        if self.relocate(which, &to, applying)? {
            self.pending[which].state = RenameState::Done;
            applying.applied.done.push(self.pending[which].step.clone());
        }
        Ok(())
    }

    fn step_aside(&mut self, which: usize, applying: &mut Applying<'_>) -> Result<(), RemoteError> {
        for number in 0..TRIES {
            // If one path is below the other, a temporary name can be created next to only one of
            // them.
            let PendingRename { at, to, .. } = &self.pending[which];
            let beside = if number % 2 == 0 { to } else { at };
            let Some(aside) = aside(beside) else { continue };
            let is_moved = self.relocate(which, &aside, applying)?;
            if is_moved || self.pending[which].state != RenameState::Waiting {
                return Ok(());
            }
        }
        Ok(())
    }

    fn relocate(
        &mut self,
        which: usize,
        to: &RelPath,
        applying: &mut Applying<'_>,
    ) -> Result<bool, RemoteError> {
        let pending = &mut self.pending[which];
        if pending.state != RenameState::Waiting {
            return Ok(false);
        }
        let done = relocated(pending, to, applying);
        match applying.unless_failed_at(&pending.at.to_text(), done)? {
            Some(RenameOutcome::Done) => {
                let before = std::mem::replace(&mut pending.at, to.clone());
                applying.touch(&before);
                applying.touch(to);
                return Ok(true);
            }
            Some(RenameOutcome::Taken) => {}
            Some(RenameOutcome::Kept(why)) => {
                applying.leave(&pending.at.to_text(), why);
                pending.state = RenameState::Left;
            }
            None => pending.state = RenameState::Left,
        }
        Ok(false)
    }

    /// Restores the original names of files that have a temporary name because their rename failed.
    /// Skips names that are taken.
    fn take_back(&mut self, applying: &mut Applying<'_>) {
        let in_vain =
            |each: &&mut PendingRename<'_>| each.state != RenameState::Done && each.at != each.from;
        for each in self.pending.iter_mut().filter(in_vain) {
            let from = each.from.clone();
            // The next comparison finds the file under its old or its new name.
            let _back = relocated(each, &from, applying);
            applying.touch(&from);
        }
    }

    /// Sorts the renames topologically: a file comes after the files that occupy its new name.
    /// Breaks each cycle with a temporary name.
    fn order(&self) -> Vec<RenameAction> {
        let places = PathIndex::of(&self.pending);
        let mut order = Vec::new();
        let mut mark = vec![VisitMark::New; self.pending.len()];
        for first in 0..self.pending.len() {
            let (mut way, mut next) = (Vec::new(), Some(first));
            while let Some(at) = next.filter(|at| mark[*at] == VisitMark::New) {
                mark[at] = VisitMark::OnTheWay;
                way.push(at);
                next = places.in_the_way_of(&self.pending[at]);
            }
            let circle = next.filter(|at| mark[*at] == VisitMark::OnTheWay);
            order.extend(circle.map(RenameAction::Aside));
            for at in way.into_iter().rev() {
                mark[at] = VisitMark::Ordered;
                order.push(RenameAction::Move(at));
            }
        }
        order
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum VisitMark {
    New,
    OnTheWay,
    Ordered,
}

struct PathIndex(BTreeMap<String, usize>);

impl PathIndex {
    fn of(pending: &[PendingRename<'_>]) -> Self {
        let waiting =
            pending.iter().enumerate().filter(|(_, each)| each.state == RenameState::Waiting);
        Self(waiting.map(|(which, each)| (each.at.to_text(), which)).collect())
    }

    fn in_the_way_of(&self, pending: &PendingRename<'_>) -> Option<usize> {
        let to = pending.to.to_text();
        let above = to.match_indices('/').filter_map(|(end, _)| self.0.get(&to[..end]));
        let within = format!("{to}/");
        let below = self.0.range(within.clone()..).next();
        let below = below.filter(|(path, _)| path.starts_with(&within)).map(|(_, which)| which);
        self.0.get(&to).into_iter().chain(above).chain(below).next().copied()
    }
}

fn relocated(
    pending: &PendingRename<'_>,
    to: &RelPath,
    applying: &Applying<'_>,
) -> Result<RenameOutcome, StoreError> {
    let rename = Rename { from: &pending.at, to, at: applying.now };
    let FoundFile { key, version, .. } = *pending.found;
    match (key, mark_of(key, version)) {
        (_, Some(mark)) => ctxfs_store::shared::rename(applying.conversation, rename, &mark),
        (FileKey::Remote(origin), None) => {
            ctxfs_store::shared::rename_far(applying.conversation, rename, &origin.to_string())
        }
        (FileKey::Local { .. }, None) => Ok(RenameOutcome::Kept("it is no file")),
    }
}

/// Returns a visible temporary name next to `path`: `x~<digits>` followed by the extension.
fn aside(path: &RelPath) -> Option<RelPath> {
    let text = path.to_text();
    let digits = format!("{:016x}", RandomState::new().hash_one(&text));
    shared_path(&with_digits(&text, &digits[..DIGITS]))
}

#[cfg(test)]
mod tests;
