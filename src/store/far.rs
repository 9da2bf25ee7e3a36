//! Artifacts whose bytes are in a bucket and not on this disk. Only the manifest lists them.
//!
//! Such an artifact has the identity of a local file that does not exist. If its bytes were once on
//! this disk, it is the identity of the removed file. If they never were, it is that of a file on a
//! device number that no disk has. When the bytes are fetched, the new file is recorded as a copy
//! that replaces the nonexistent file. This way, the artifact keeps its identity for all processes.

use std::ffi::OsString;
use std::io::{self, Write as _};

use crate::arrival::{self, MODE};
use crate::manifest::digest;
use crate::{Arrival, Arrived, Conversation, Dir, Stat, StoreError, Time, error};
use ctxfs_core::model::{Component, Far, FarFile, LocalFile, Record, RelPath};

const BLOCK: usize = 1 << 20;

/// An artifact whose bytes are not on this disk: its path in the conversation, its record with the
/// origin in the bucket, and the attributes that its file would have.
///
/// In the attributes, the number of links (`nlink`) and the number of blocks are 0; see
/// [`Stat::is_far`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct FarArtifact {
    pub path: RelPath,
    pub record: Record,
    pub stat: Stat,
}

/// An artifact of another host that is to be recorded here while its bytes stay in the bucket.
#[derive(Debug)]
pub struct Expected<'a> {
    /// Path of the artifact on this host.
    pub path: &'a RelPath,
    /// Record and attributes of the artifact on the other host.
    pub arrived: &'a Arrived,
    /// Origin of the bytes in the bucket.
    pub origin: String,
}

impl Conversation {
    /// Returns the artifact at `path` if its record says that its bytes are not on this disk. The
    /// caller must already have checked that no file exists there: if one does, the record does not
    /// apply.
    pub fn far(&self, path: &RelPath) -> Result<Option<FarArtifact>, StoreError> {
        if !path.is_artifact() {
            return Ok(None);
        }
        let record = self.manifest().record(&path.to_text())?;
        Ok(record.and_then(|record| far_of(self, path, record)))
    }

    /// Returns the far artifacts directly in the directory `dir`, or in the whole conversation if
    /// `dir` is `None`. Leaves out an artifact if there is a file at its path.
    pub fn far_artifacts(&self, dir: Option<&RelPath>) -> Result<Vec<FarArtifact>, StoreError> {
        self.each_far(dir)?.collect()
    }

    /// Returns true if there is a far artifact directly in `dir`, or anywhere in the conversation
    /// if `dir` is `None`.
    pub fn has_far(&self, dir: Option<&RelPath>) -> Result<bool, StoreError> {
        Ok(self.each_far(dir)?.next().transpose()?.is_some())
    }

    /// Returns an iterator over the artifacts of [`Self::far_artifacts`]. Each step reads one
    /// record from the manifest and checks the disk for a file.
    pub fn each_far(
        &self,
        dir: Option<&RelPath>,
    ) -> Result<impl Iterator<Item = Result<FarArtifact, StoreError>>, StoreError> {
        let records = self.manifest().far(dir.map(RelPath::to_text).as_deref())?;
        let open = dir.and_then(|dir| self.dir().open_dir_at(dir).ok());
        let without_file = move |record: Record| {
            let path = RelPath::from_text(&record.path).ok()?;
            let stat = match &open {
                Some(open) => open.stat(path.file_name()),
                None => self.dir().stat_at(&path),
            };
            let is_it = path.is_artifact() && stat.is_err();
            is_it.then(|| far_of(self, &path, record)).flatten()
        };
        Ok(records.filter_map(move |record| record.map(&without_file).transpose()))
    }
}

impl Expected<'_> {
    /// Records artifacts of another host whose bytes stay in the bucket. Creates the parent
    /// directories of their paths. Returns the attributes of each artifact, or `None` if its path
    /// is taken or a file is in the way of a directory. Fails if no artifact could be recorded.
    ///
    /// New directories are on the disk when this returns. The records are not synced: if one is
    /// lost, the next pull records it again.
    pub fn record_all(
        conversation: &Conversation,
        all: &[Self],
    ) -> Result<Vec<Result<Option<Stat>, StoreError>>, StoreError> {
        let lock = conversation.manifest().lock()?;
        let are_far =
            conversation.manifest().are_far(all.iter().map(|each| each.path.to_text()))?;
        let (mut records, mut parent) = (Vec::with_capacity(all.len()), None);
        let mut stats = Vec::with_capacity(all.len());
        for (each, is_far) in all.iter().zip(are_far) {
            let is_free = is_free(conversation, each.path, &mut parent);
            stats.push(is_free.map(|is_free| {
                let recorded = (is_free && !is_far).then(|| each.recorded(conversation));
                let (stat, record) = recorded.unzip();
                records.extend(record);
                stat
            }));
        }
        lock.append(&records)?;
        Ok(stats)
    }

    fn recorded(&self, conversation: &Conversation) -> (Stat, Record) {
        let Arrived { record, mode, .. } = self.arrived;
        let far = Far { origin: self.origin.clone(), mode: mode & MODE, here: false };
        let file = imagined_file(conversation.id(), record, &far);
        let stat = stat_of(conversation, record, file, far.mode);
        (stat, Record { far: Some(far), ..arrival::recorded(self.path, record, &stat) })
    }
}

impl FarArtifact {
    /// Writes the bytes of the artifact to this disk, under its name. The artifact keeps its
    /// identity. Returns false and leaves no file if the artifact was removed or renamed in the
    /// meantime, or if a file has its name. Fails with `InvalidData` if the bytes do not have the
    /// recorded digest.
    pub fn bring_here(
        &self,
        conversation: &Conversation,
        file: &FarFile,
    ) -> Result<bool, StoreError> {
        let (path, mut arrival) = (&self.path, Arrival::begin(conversation, &self.path)?);
        let (mut block, mut offset) = (vec![0; BLOCK], 0);
        loop {
            let read = file.content.read_at(offset, &mut block);
            let count = read.map_err(|error| conversation.error_at("fetch", path, error))?;
            if count == 0 {
                break;
            }
            let written = arrival.write_all(&block[..count]);
            written.map_err(|error| conversation.error_at("write", path, error))?;
            offset += count as u64;
        }
        if digest(&self.record) != Some(&*arrival.digest()) {
            let other = io::Error::from(io::ErrorKind::InvalidData);
            return Err(conversation.error_at("fetch the right bytes of", path, other));
        }
        arrival.take_place_of(&self.record, file.attributes.clone())
    }

    /// Creates an empty file under the name of the artifact, for a writer that will replace all of
    /// its bytes. Returns false in the same cases as [`Self::bring_here`].
    pub fn begin_empty(
        &self,
        conversation: &Conversation,
        attributes: Vec<(OsString, Vec<u8>)>,
    ) -> Result<bool, StoreError> {
        Arrival::begin(conversation, &self.path)?.begin_empty(&self.record, attributes)
    }
}

impl Stat {
    /// Returns true if these are the attributes of a [`FarArtifact`]. They must come from a lookup
    /// by name: those of an open file without a name and without bytes look the same.
    pub fn is_far(&self) -> bool {
        self.nlink == 0 && self.blocks == 0
    }
}

fn far_of(conversation: &Conversation, path: &RelPath, record: Record) -> Option<FarArtifact> {
    let far = record.far.as_ref().filter(|far| !far.here && record.removed.is_none())?;
    let file = record.file.unwrap_or_else(|| imagined_file(conversation.id(), &record, far));
    let stat = stat_of(conversation, &record, file, far.mode & MODE);
    Some(FarArtifact { path: path.clone(), stat, record })
}

/// Returns true if the path of an artifact is free and no file is in the way of its directories.
/// Creates the missing directories. `parent` caches the directory that was opened last.
fn is_free(
    conversation: &Conversation,
    path: &RelPath,
    parent: &mut Option<(Option<RelPath>, Dir)>,
) -> Result<bool, StoreError> {
    if parent.as_ref().is_none_or(|(last, _)| *last != path.parent()) {
        let dir = match arrival::made_parent(conversation.dir(), path) {
            Err(error) if error::is_in_the_way(&error) => return Ok(false),
            made => {
                let action = "make the directory of";
                made.map_err(|error| conversation.error_at(action, path, error))?
            }
        };
        *parent = Some((path.parent(), dir));
    }
    Ok(parent.as_ref().is_some_and(|(_, dir)| dir.stat(path.file_name()).is_err()))
}

fn stat_of(conversation: &Conversation, record: &Record, file: LocalFile, mode: u32) -> Stat {
    let modified = Time::from_nanos(record.modified);
    let Stat { uid, gid, .. } = *conversation.stat();
    Stat {
        dev: file.dev,
        ino: file.ino,
        size: record.size,
        blocks: 0,
        mode: libc::S_IFREG | mode,
        nlink: 0,
        uid,
        gid,
        atime: modified,
        mtime: modified,
        ctime: Time::from_nanos(file.copied.unwrap_or(file.changed)),
        born: file.born.map(Time::from_nanos),
    }
}

/// Returns the identity of an artifact whose bytes were never on this disk. It uses device 0, which
/// no disk has.
fn imagined_file(id: &Component, record: &Record, far: &Far) -> LocalFile {
    let origin = &far.origin;
    let digest = blake3::hash(format!("{}/{origin}", id.to_text()).as_bytes());
    let number = digest.as_bytes().first_chunk::<8>();
    // The front ends add to inode numbers; the upper bits are left free for that.
    let ino = u64::from_le_bytes(*number.expect("a digest has eight bytes")) >> 16;
    let born = Some(record.created.saturating_mul(1_000_000));
    LocalFile { dev: 0, ino, born, changed: record.modified, copied: None }
}

#[cfg(test)]
pub(super) mod tests;
