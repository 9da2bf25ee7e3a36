//! Artifacts whose bytes are not on this disk: only the manifest has them.
//!
//! Such an artifact is known by a local file that is not there: the one that it was when its bytes
//! were here, or one of a device that no disk has. When its bytes come, theirs is a copy that takes
//! the place of that file, and so it stays the same artifact for all who know it.

use std::ffi::OsString;
use std::io::{self, Write as _};

use crate::arrival::{self, MODE};
use crate::error::is_in_the_way;
use crate::{Arrived, Conversation, Dir, Stat, StoreError, Time};
use ctxfs_core::model::{Component, Far, FarFile, LocalFile, Record, RelPath};

/// Bytes that are copied at a time.
const BLOCK: usize = 1 << 20;

/// An artifact whose bytes are not on this disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FarArtifact {
    /// Its path in the conversation.
    pub path: RelPath,
    /// Its record.
    pub record: Record,
    /// The attributes that its file would have. It has no name on this disk.
    pub stat: Stat,
}

/// An artifact of another host.
#[derive(Debug)]
pub struct Expected<'a> {
    /// The path that it gets.
    pub path: &'a RelPath,
    /// The facts that its file would have.
    pub arrived: &'a Arrived,
    /// The artifact, as the bucket knows it.
    pub origin: String,
}

impl Conversation {
    /// Returns the artifact at `path`, if its record says that its bytes are not on this disk. For
    /// a caller who has found that no file is there: the bytes of a file are its own.
    pub fn far(&self, path: &RelPath) -> Result<Option<FarArtifact>, StoreError> {
        if !path.is_artifact() {
            return Ok(None);
        }
        let record = self.manifest().record(&path.to_text())?;
        Ok(record.and_then(|record| self.far_of(path, record)))
    }

    /// Returns the artifacts with names in the directory `dir`, or all of the conversation, whose
    /// records say that their bytes are not on this disk, and at whose paths there is no file.
    pub fn far_artifacts(&self, dir: Option<&RelPath>) -> Result<Vec<FarArtifact>, StoreError> {
        self.each_far(dir)?.collect()
    }

    /// Returns true if there is one of these.
    pub fn has_far(&self, dir: Option<&RelPath>) -> Result<bool, StoreError> {
        Ok(self.each_far(dir)?.next().transpose()?.is_some())
    }

    /// Returns these one after the other.
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
            is_it.then(|| self.far_of(&path, record)).flatten()
        };
        Ok(records.filter_map(move |record| record.map(&without_file).transpose()))
    }

    fn far_of(&self, path: &RelPath, record: Record) -> Option<FarArtifact> {
        let is_far = record.far.as_ref().is_some_and(|far| !far.here);
        (is_far && record.removed.is_none()).then(|| FarArtifact {
            path: path.clone(),
            stat: self.far_stat(&record),
            record,
        })
    }

    /// Records artifacts of another host, whose bytes stay in the bucket. Makes the directories of
    /// their names. Returns the attributes of each, or `None` if something has its name or is in
    /// the way. Fails if none could be recorded.
    ///
    /// They are on the disk after [`Conversation::sync_parents`], as far as their directories go: a
    /// record that is lost comes again.
    pub fn expect(
        &self,
        all: &[Expected<'_>],
    ) -> Result<Vec<Result<Option<Stat>, StoreError>>, StoreError> {
        let lock = self.manifest().lock()?;
        let are_far = self.manifest().are_far(all.iter().map(|each| each.path.to_text()))?;
        let (mut records, mut parent) = (Vec::with_capacity(all.len()), None);
        let mut stats = Vec::with_capacity(all.len());
        for (each, is_far) in all.iter().zip(are_far) {
            let expected = match self.is_free(each.path, &mut parent) {
                Ok(is_free) => Ok((is_free && !is_far).then(|| self.expected(each))),
                Err(error) => Err(error),
            };
            stats.push(expected.map(|expected| {
                let (stat, record) = expected.unzip();
                records.extend(record);
                stat
            }));
        }
        lock.append(&records)?;
        Ok(stats)
    }

    /// Returns true if no file has the name of an artifact, and nothing is in the way. `parent` is
    /// the directory that was opened last.
    fn is_free(
        &self,
        path: &RelPath,
        parent: &mut Option<(Option<RelPath>, Dir)>,
    ) -> Result<bool, StoreError> {
        if parent.as_ref().is_none_or(|(last, _)| *last != path.parent()) {
            let dir = match self.made_parent(path) {
                Err(error) if is_in_the_way(&error) => return Ok(false),
                made => {
                    made.map_err(|error| self.error_at("make the directory of", path, error))?
                }
            };
            *parent = Some((path.parent(), dir));
        }
        Ok(parent.as_ref().is_some_and(|(_, dir)| dir.stat(path.file_name()).is_err()))
    }

    /// Returns the attributes and the record of an artifact.
    fn expected(&self, Expected { path, arrived, origin }: &Expected<'_>) -> (Stat, Record) {
        let Arrived { record, mode, .. } = arrived;
        let far = Far { origin: origin.clone(), mode: mode & MODE, here: false };
        let stat = self.stat_of(record, imagined_file(self.id(), record, &far), far.mode);
        (stat, Record { far: Some(far), ..arrival::recorded(path, record, &stat) })
    }

    /// Writes the bytes of an artifact to this disk, under its name. The artifact stays what it is.
    /// Returns false if they are not to come any more: it was removed or renamed meanwhile, or a
    /// file has its name.
    pub fn bring_here(&self, artifact: &FarArtifact, file: &FarFile) -> Result<bool, StoreError> {
        let (path, mut arrival) = (&artifact.path, self.receive(&artifact.path)?);
        let (mut block, mut offset) = (vec![0; BLOCK], 0);
        loop {
            let read = file.content.read_at(offset, &mut block);
            let count = read.map_err(|error| self.error_at("fetch", path, error))?;
            if count == 0 {
                break;
            }
            let written = arrival.write_all(&block[..count]);
            written.map_err(|error| self.error_at("write", path, error))?;
            offset += count as u64;
        }
        let digest = artifact.record.analysis.as_ref().map(|analysis| &analysis.digest);
        if digest != Some(&arrival.digest()) {
            let other = io::Error::from(io::ErrorKind::InvalidData);
            return Err(self.error_at("fetch the right bytes of", path, other));
        }
        arrival.stand_in_for(&artifact.record, file.attributes.clone())
    }

    /// Makes an empty file under the name of an artifact, without its bytes: somebody writes it
    /// anew. Returns false as [`Self::bring_here`] does.
    pub fn begin_anew(
        &self,
        artifact: &FarArtifact,
        attributes: Vec<(OsString, Vec<u8>)>,
    ) -> Result<bool, StoreError> {
        self.receive(&artifact.path)?.begin_anew(&artifact.record, attributes)
    }

    /// Returns the attributes that the file of an artifact would have whose bytes are not here.
    pub(super) fn far_stat(&self, record: &Record) -> Stat {
        let nowhere = Far::default();
        let far = record.far.as_ref().unwrap_or(&nowhere);
        let file = record.file.unwrap_or_else(|| imagined_file(self.id(), record, far));
        self.stat_of(record, file, far.mode & MODE)
    }

    fn stat_of(&self, record: &Record, file: LocalFile, mode: u32) -> Stat {
        let modified = Time::from_nanos(record.modified);
        let Stat { uid, gid, .. } = *self.stat();
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
}

impl Stat {
    /// Returns true if it is that of an artifact whose bytes are not on this disk. For attributes
    /// that were found by a name: those of an open file without a name look the same.
    pub fn is_far(&self) -> bool {
        self.nlink == 0 && self.blocks == 0
    }
}

/// Returns the local file as which an artifact is known that was never here. No disk is device 0.
fn imagined_file(id: &Component, record: &Record, far: &Far) -> LocalFile {
    let origin = &far.origin;
    let digest = blake3::hash(format!("{}/{origin}", id.to_text()).as_bytes());
    let number = digest.as_bytes().first_chunk::<8>();
    // Doors add to these numbers.
    let ino = u64::from_le_bytes(*number.expect("a digest has eight bytes")) >> 16;
    let born = Some(record.created.saturating_mul(1_000_000));
    LocalFile { dev: 0, ino, born, changed: record.modified, copied: None }
}

#[cfg(test)]
pub(super) mod tests;
