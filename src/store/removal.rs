//! Removing content to make room: its record stays, and says when and why.
//!
//! Nothing that is written, was changed or was read since it was chosen goes; the crash rules are in
//! `layout`.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::BuildHasher as _;
use std::hash::RandomState;
use std::io;

use rustix::fs::FlockOperation;
use rustix::fs::OFlags;
use rustix::fs::RenameFlags;

use crate::model::Amount;
use crate::model::Counts;
use crate::model::Record;
use crate::model::RelPath;
use crate::model::Removal;
use crate::model::ArtifactState;
use crate::store::conversation::Conversation;
use crate::store::dir::Dir;
use crate::store::error::StoreError;
use crate::store::layout;
use crate::store::lease;
use crate::store::lease::Lease;
use crate::store::stat;
use crate::store::stat::Kind;
use crate::store::stat::Stat;

/// Artifacts that are removed at a time: each is held open so long, and nobody else adds records.
const BATCH: usize = 64;

/// An artifact that is to go, as it was when that was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doomed {
    /// Where it is in its conversation.
    pub path: RelPath,
    /// The disk's number for it.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// Last change of the bytes, in nanoseconds since the epoch.
    pub modified: i64,
    /// When it was last read, in milliseconds since the epoch.
    pub read: i64,
    /// What its record is to say.
    pub removal: Removal,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Its content is gone, and its record says why.
    Removed,
    /// It is as it was. The text says why.
    Kept(&'static str),
}

/// Keeps other processes from sweeping the store as long as it lives.
#[derive(Debug)]
pub struct Sweeping {
    _locked: Dir,
}

impl Sweeping {
    pub(super) fn wait(context: &Dir) -> io::Result<Self> {
        // Opened anew: whoever shares a descriptor shares its lock.
        let dir = context.reopen()?;
        rustix::io::retry_on_intr(|| rustix::fs::flock(&dir, FlockOperation::LockExclusive))?;
        Ok(Self { _locked: dir })
    }
}

/// An artifact that nobody can open for writing as long as this lives.
struct Guarded<'a> {
    doomed: &'a Doomed,
    folder: Dir,
    record: Record,
    /// Holds the lease.
    _file: File,
}

impl Conversation {
    /// Removes the content of artifacts and records why; answers what became of each.
    ///
    /// One that somebody has open for reading is read to its end by that one; who opens one for
    /// writing waits a moment, and finds that it is gone.
    pub fn remove_contents(
        &self,
        _sweeping: &Sweeping,
        doomed: &[Doomed],
    ) -> Result<Vec<Fate>, StoreError> {
        let mut fates = Vec::with_capacity(doomed.len());
        for batch in doomed.chunks(BATCH) {
            fates.extend(self.remove_batch(batch)?);
        }
        self.tidy();
        Ok(fates)
    }

    /// Finishes what a process that stopped had begun to remove.
    pub fn finish_removals(&self, _sweeping: &Sweeping) -> Result<(), StoreError> {
        let entries = self.dir().entries().map_err(|error| self.listing_fault(error))?;
        let left = entries.iter().filter(|e| e.kind == Kind::File && layout::is_gone(&e.name));
        for entry in left {
            let removed = self.dir().unlink(&entry.name);
            removed.map_err(|error| self.listing_fault(error))?;
        }
        Ok(())
    }

    fn remove_batch(&self, batch: &[Doomed]) -> Result<Vec<Fate>, StoreError> {
        let held = self.hold()?;
        let mut fates = Vec::with_capacity(batch.len());
        let mut guarded = Vec::with_capacity(batch.len());
        for doomed in batch {
            let guard = self.guard(doomed)?;
            fates.push(guard.as_ref().map_or_else(|why| Fate::Kept(why), |_| Fate::Removed));
            guarded.extend(guard);
        }
        if guarded.is_empty() {
            return Ok(fates);
        }
        let records: Vec<_> = guarded.iter().map(|guarded| guarded.record.clone()).collect();
        self.add(&held, &records)?;
        self.sync_records(&held)?;
        let unique = RandomState::new();
        for (number, guarded) in guarded.iter().enumerate() {
            let name = layout::gone(unique.hash_one(number));
            let removed = self.remove_guarded(guarded, &name);
            removed.map_err(|error| self.fault_at("remove", &guarded.doomed.path, error))?;
        }
        drop(held);
        self.count_removed(&records)?;
        Ok(fates)
    }

    fn count_removed(&self, records: &[Record]) -> Result<(), StoreError> {
        let mut counts: BTreeMap<String, Counts> = BTreeMap::new();
        for record in records {
            let of_tool = counts.entry(record.provenance.tool_name().unwrap_or_default()).or_default();
            of_tool.expired += Amount::once(record.size, record.tokens());
        }
        let at = records.first().and_then(|record| record.removed.as_ref());
        self.count(at.map_or(0, |removal| removal.at), counts)
    }

    /// The artifact, if it is as it was and nobody writes it; else why it stays.
    fn guard<'a>(
        &self,
        doomed: &'a Doomed,
    ) -> Result<Result<Guarded<'a>, &'static str>, StoreError> {
        let (file, stat) = match self.open_doomed(doomed) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Err("it is gone")),
            Err(_) => return Ok(Err("it cannot be opened")),
        };
        if !doomed.is_as(&stat) {
            return Ok(Err("it was used meanwhile"));
        }
        let record = self.record_for(&doomed.path, &stat)?;
        match lease::take(&file) {
            Lease::Free if record.state != ArtifactState::Live => {}
            Lease::Free | Lease::Held => return Ok(Err("it is being written")),
            Lease::Unknown => return Ok(Err("its disk cannot tell whether it is being written")),
        }
        let folder = self.folder_of(&doomed.path);
        let folder = folder.map_err(|error| self.fault_at("open", &doomed.path, error))?;
        let record = removed(record, &stat, &doomed.removal);
        Ok(Ok(Guarded { doomed, folder, record, _file: file }))
    }

    fn open_doomed(&self, doomed: &Doomed) -> io::Result<(File, Stat)> {
        let file = self.dir().open_file_at(&doomed.path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let stat = stat::stat_file(&file)?;
        Ok((file, stat))
    }

    fn folder_of(&self, path: &RelPath) -> io::Result<Dir> {
        match path.parent() {
            Some(parent) => self.dir().open_dir_at(&parent),
            None => self.dir().try_clone(),
        }
    }

    /// Gives it the name `gone`, and removes it if it is what it was taken for: somebody may have
    /// renamed another file over it a moment ago. That one gets its name back.
    fn remove_guarded(&self, guarded: &Guarded<'_>, gone: &str) -> io::Result<()> {
        let (name, gone) = (guarded.doomed.path.file_name(), gone.as_ref());
        match guarded.folder.rename(name, self.dir(), gone, RenameFlags::empty()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            renamed => renamed?,
        }
        if self.dir().stat(gone)?.ino == guarded.doomed.ino {
            return self.dir().unlink(gone);
        }
        self.dir().rename(gone, &guarded.folder, name, RenameFlags::NOREPLACE).or_else(|_| {
            let aside = layout::replacing(name, RandomState::new().hash_one(name));
            self.dir().rename(gone, &guarded.folder, &aside, RenameFlags::empty())
        })
    }
}

impl Doomed {
    fn is_as(&self, stat: &Stat) -> bool {
        let same =
            (stat.ino, stat.size, stat.mtime.as_nanos()) == (self.ino, self.size, self.modified);
        same && stat.atime.as_millis() <= self.read
    }
}

/// The record of what is about to be removed.
fn removed(record: Record, stat: &Stat, removal: &Removal) -> Record {
    let (size, modified) = (stat.size, stat.mtime.as_nanos());
    let speaks = (record.size, record.modified) == (size, modified);
    Record {
        size,
        modified,
        analysis: record.analysis.filter(|_| speaks),
        removed: Some(removal.clone()),
        ..record
    }
}
