//! Files that arrive from other hosts, and far artifacts: artifacts whose bytes are in a bucket and
//! not on this disk. Only the manifest lists far artifacts.
//!
//! A far artifact has the identity of a local file that does not exist. If the bytes were once on
//! this disk, that file is the one that was removed. Otherwise, that file is invented, with a
//! device number that no disk has. When the bytes are fetched, the new file is recorded as a copy
//! of the file that does not exist. The artifact therefore keeps its identity for all processes.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::slice;

use rustix::fs::{OFlags, XattrFlags};
use rustix::io::Errno;

use crate::{Conversation, Dir, Stat, StoreError, Time, attributes, dir, error, layout, stat_file};
use ctxfs_core::model::{ArtifactState, Component, Far, FarFile, LocalFile, Record, RelPath};

const BLOCK: usize = 1 << 20;

/// An artifact whose bytes are not on this disk: its path in the conversation, its record with the
/// origin in the bucket, and the attributes that its file would have.
///
/// In these attributes, the number of links (`nlink`) and the number of blocks are 0; see
/// [`Stat::is_far`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct FarArtifact {
    pub path: RelPath,
    pub record: Record,
    pub stat: Stat,
}

impl Conversation {
    /// Returns the artifact at `path` if it is far according to its record, and `None` otherwise.
    /// The caller must have checked that no file exists at `path`, because the record does not
    /// apply to such a file.
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

/// Records artifacts of another host whose bytes stay in the bucket. `records` come from the other
/// host, but have the paths on this host. `far` in each record has the origin and mode of the
/// bytes.
///
/// Creates the parent directories of the paths. Returns the attributes of each artifact, or `None`
/// if its path is taken or a file is in the way of a directory. Fails if no artifact could be
/// recorded. New directories are on the disk when this returns. The records are not synced: if one
/// is lost, the next pull records it again.
pub fn record_far(
    conversation: &Conversation,
    records: &[Record],
) -> Result<Vec<Result<Option<Stat>, StoreError>>, StoreError> {
    let lock = conversation.manifest().lock()?;
    let are_far = conversation.manifest().are_far(records.iter().map(|record| &record.path))?;
    let (mut new, mut parent) = (Vec::with_capacity(records.len()), None);
    let mut stats = Vec::with_capacity(records.len());
    for (record, is_far) in records.iter().zip(are_far) {
        let (Ok(path), Some(far)) = (RelPath::from_text(&record.path), &record.far) else {
            stats.push(Ok(None));
            continue;
        };
        stats.push(is_free(conversation, &path, &mut parent).map(|is_free| {
            (is_free && !is_far).then(|| {
                let far = Far { mode: far.mode & MODE, ..far.clone() };
                let file = imagined_file(conversation.id(), record, &far);
                let stat = stat_of(conversation, record, file, far.mode);
                new.push(Record { far: Some(far), ..recorded(&path, record, &stat) });
                stat
            })
        }));
    }
    lock.append(&new)?;
    Ok(stats)
}

impl FarArtifact {
    /// Writes the bytes of the artifact to this disk, under its name. The artifact keeps its
    /// identity. Returns false and leaves no file if the artifact was removed or renamed in the
    /// meantime, or if another file has its name. Fails with `InvalidData` if the digest of the
    /// bytes is not the recorded one.
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
        if self.record.digest() != Some(&*arrival.digest()) {
            let other = io::Error::from(io::ErrorKind::InvalidData);
            return Err(conversation.error_at("fetch the right bytes of", path, other));
        }
        arrival.take_name(&self.record, file.attributes.clone(), |arrival| {
            let stat = stat_file(&arrival.file).map_err(|error| arrival.fault(error))?;
            let copied = Some(stat.ctime.as_nanos());
            let file = self.record.file.map(|file| LocalFile { copied, ..file });
            let file = file.or_else(|| Some(stat.local_file()));
            Ok(Record { file, ..with_file(&self.record) })
        })
    }

    /// Creates an empty file under the name of the artifact, for a writer that will replace all of
    /// its bytes. Returns false in the same cases as [`Self::bring_here`].
    pub fn begin_empty(
        &self,
        conversation: &Conversation,
        attributes: Vec<(OsString, Vec<u8>)>,
    ) -> Result<bool, StoreError> {
        let arrival = Arrival::begin(conversation, &self.path)?;
        arrival.take_name(&self.record, attributes, |_| Ok(with_file(&self.record)))
    }
}

impl Stat {
    /// Returns true if these are the attributes of a [`FarArtifact`]. `self` must come from a
    /// lookup by name, because an open file that is empty and has no name has the same numbers.
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

/// Returns true if the path of an artifact is free, and no file has the name of one of its
/// directories. Creates the missing directories. `parent` caches the directory that was opened
/// last.
fn is_free(
    conversation: &Conversation,
    path: &RelPath,
    parent: &mut Option<(Option<RelPath>, Dir)>,
) -> Result<bool, StoreError> {
    if parent.as_ref().is_none_or(|(last, _)| *last != path.parent()) {
        let dir = match made_parent(conversation.dir(), path) {
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

/// Returns the identity of an artifact whose bytes were never on this disk. The identity has device
/// 0, which no disk has.
fn imagined_file(id: &Component, record: &Record, far: &Far) -> LocalFile {
    let origin = &far.origin;
    let digest = blake3::hash(format!("{}/{origin}", id.to_text()).as_bytes());
    let number = digest.as_bytes().first_chunk::<8>();
    // The upper bits of the inode number stay 0, because the front ends add to inode numbers.
    let ino = u64::from_le_bytes(*number.expect("a digest has eight bytes")) >> 16;
    let born = Some(record.created.saturating_mul(1_000_000));
    LocalFile { dev: 0, ino, born, changed: record.modified, copied: None }
}

/// The permission bits that are kept. Set-user-ID and set-group-ID are not among them.
pub(super) const MODE: u32 = 0o777;
const CUT: &str = "its writer had not closed it when it was published";
/// The attribute of a directory that was created for a file of another host. An empty directory is
/// removed only if it has this attribute. On a disk without attributes, no directory is removed.
const MADE: &str = "user.ctx.made";

/// A file that arrives from another host.
///
/// The file has a scratch name until it is complete. Dropping an arrival that was not completed
/// removes the file. After a crash, [`Self::remove_unfinished`] removes it.
#[derive(Debug)]
pub struct Arrival<'a> {
    conversation: &'a Conversation,
    path: RelPath,
    scratch: OsString,
    file: File,
    hasher: blake3::Hasher,
    written: u64,
    is_named: bool,
}

/// The facts about a file of another host, without its bytes: the record on that host, the
/// permission bits, and the extended attributes. Only `user.*` attributes are set on this host.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "described above")]
pub struct Arrived {
    pub record: Record,
    pub mode: u32,
    pub attributes: Vec<(OsString, Vec<u8>)>,
}

impl<'a> Arrival<'a> {
    /// Begins a file that will get the name `path` when it is complete.
    pub fn begin(conversation: &'a Conversation, path: &RelPath) -> Result<Self, StoreError> {
        let scratch = OsString::from(layout::arriving());
        let flags = OFlags::WRONLY | OFlags::EXCL;
        let file = conversation.dir().create_file(&scratch, flags, layout::FILE_MODE);
        let file = file.map_err(|error| conversation.error_at("make", path, error))?;
        let (path, hasher) = (path.clone(), blake3::Hasher::new());
        Ok(Self { conversation, path, scratch, file, hasher, written: 0, is_named: false })
    }

    /// Removes the unfinished files of a process that died. No thread or process may be receiving
    /// files of the conversation during the call.
    pub fn remove_unfinished(conversation: &Conversation) -> Result<(), StoreError> {
        let dir = conversation.dir();
        let entries = dir.entries().map_err(|error| conversation.listing_error(error))?;
        let files = entries.iter().filter(|entry| entry.kind == crate::FileType::File);
        for entry in files.filter(|entry| layout::is_arriving(&entry.name)) {
            dir.unlink(&entry.name).map_err(|error| conversation.listing_error(error))?;
        }
        Ok(())
    }

    /// Returns the number of bytes written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Returns the BLAKE3 of the bytes written so far, in lower-case hexadecimal.
    pub fn digest(&self) -> String {
        self.hasher.finalize().to_hex().to_string()
    }

    /// Gives the complete file its name. Records the file if it is an artifact. Creates the missing
    /// directories of the name. Returns the attributes of the file, or `None` if the name is taken
    /// or a file is in the way of a directory.
    ///
    /// The bytes are synced before the file gets its name. The name is on the disk only after
    /// [`sync_parents`](crate::shared::sync_parents).
    pub fn complete(mut self, arrived: &Arrived) -> Result<Option<Stat>, StoreError> {
        self.prepare(arrived).map_err(|error| self.fault(error))?;
        let lock = self.conversation.manifest().lock()?;
        let dir = match self.name() {
            Err(error) if error::is_in_the_way(&error) => return Ok(None),
            named => named.map_err(|error| self.fault(error))?,
        };
        let recorded = self.record(&lock, &arrived.record);
        if recorded.is_err() {
            // The error of the record is returned.
            let _removed = dir.unlink(self.path.file_name());
        }
        recorded.map(Some)
    }

    fn prepare(&self, arrived: &Arrived) -> io::Result<()> {
        let all = attributes::users_among(&arrived.attributes);
        attributes::set_attributes(&self.file, &all)?;
        let modified = Time::from_nanos(arrived.record.modified);
        attributes::set_mode_and_time(&self.file, arrived.mode & MODE, modified)?;
        self.file.sync_all()
    }

    fn name(&mut self) -> io::Result<Dir> {
        let from = self.conversation.dir();
        let dir = made_parent(from, &self.path)?;
        from.rename_to_free(&self.scratch, &dir, self.path.file_name())?;
        self.is_named = true;
        Ok(dir)
    }

    fn record(&self, lock: &crate::ManifestLock, record: &Record) -> Result<Stat, StoreError> {
        let stat = stat_file(&self.file).map_err(|error| self.fault(error))?;
        if self.path.is_artifact() {
            lock.append(slice::from_ref(&recorded(&self.path, record, &stat)))?;
        }
        Ok(stat)
    }

    /// Gives the complete file the name of the far artifact with this record. Then appends the
    /// record that `after` returns. Returns false if the artifact has changed since `record` was
    /// read, or if the name is taken.
    fn take_name(
        mut self,
        record: &Record,
        attributes: Vec<(OsString, Vec<u8>)>,
        after: impl FnOnce(&Self) -> Result<Record, StoreError>,
    ) -> Result<bool, StoreError> {
        let mode = record.far.as_ref().map_or(layout::FILE_MODE, |far| far.mode);
        let arrived = Arrived { record: record.clone(), mode, attributes };
        self.prepare(&arrived).map_err(|error| self.fault(error))?;
        let lock = self.conversation.manifest().lock()?;
        let now = self.conversation.far(&self.path)?;
        if now.is_none_or(|now| now.record != *record) {
            return Ok(false);
        }
        let dir = match self.name() {
            Err(error) if error::is_in_the_way(&error) => return Ok(false),
            named => named.map_err(|error| self.fault(error))?,
        };
        let after = after(&self).and_then(|after| lock.append(slice::from_ref(&after)));
        if after.is_err() {
            let _removed = dir.unlink(self.path.file_name());
        }
        after.map(|()| true)
    }

    fn fault(&self, error: io::Error) -> StoreError {
        self.conversation.error_at("write", &self.path, error)
    }
}

impl Write for Arrival<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        if !self.is_named {
            // If this fails, the scratch file is removed before the next file arrives.
            let _removed = self.conversation.dir().unlink(&self.scratch);
        }
    }
}

/// Returns the record of a far artifact that now has a local file. The record keeps the identity of
/// the file that does not exist, so it does not describe the bytes of the local file.
fn with_file(record: &Record) -> Record {
    let far = record.far.clone().map(|far| Far { here: true, ..far });
    Record { far, ..record.clone() }
}

pub(super) fn recorded(path: &RelPath, record: &Record, stat: &Stat) -> Record {
    let state = match &record.state {
        ArtifactState::Live | ArtifactState::Gone => ArtifactState::Incomplete(CUT.to_owned()),
        state @ (ArtifactState::Sealed | ArtifactState::Incomplete(_)) => state.clone(),
    };
    Record {
        generation: record.generation.max(1),
        state,
        file: Some(stat.local_file()),
        created: record.created,
        provenance: record.provenance.clone(),
        analysis: record.analysis.clone(),
        once: record.once,
        ..Conversation::fresh_record(path, stat)
    }
}

/// Opens the parent directory of `path` in a conversation. Creates the missing directories on the
/// way and syncs their names. Fails with ENOTDIR or EEXIST if a file is in the way.
pub(super) fn made_parent(conversation: &Dir, path: &RelPath) -> io::Result<Dir> {
    if let Some(dir) = crate::if_there(dir::parent_dir(conversation, path))? {
        return Ok(dir);
    }
    let (mut dir, mut at) = (conversation.try_clone()?, None);
    let Some(parent) = path.parent() else { return Ok(dir) };
    for name in parent.as_os_str().as_bytes().split(|byte| *byte == b'/') {
        let name = OsStr::from_bytes(name);
        let is_new = dir.ensure_dir(name, layout::DIRECTORY_MODE)?;
        let inner = dir.open_dir(name)?;
        at = RelPath::below(at.as_ref(), name).ok();
        if is_new {
            mark_made(&inner, at.as_ref())?;
            dir.sync()?;
        }
        dir = inner;
    }
    Ok(dir)
}

fn mark_made(dir: &Dir, path: Option<&RelPath>) -> io::Result<()> {
    if path.is_some_and(layout::is_standard) {
        return Ok(());
    }
    match rustix::fs::fsetxattr(dir, MADE, b"1", XattrFlags::empty()) {
        Ok(()) | Err(Errno::NOTSUP | Errno::NOSPC | Errno::DQUOT | Errno::PERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn is_made(conversation: &Dir, path: &RelPath) -> bool {
    let dir = conversation.open_dir_at(path);
    dir.is_ok_and(|dir| rustix::fs::fgetxattr(&dir, MADE, &mut [0_u8; 0]).is_ok())
}

/// Removes the parent directories of `path` that were created for files of other hosts and are now
/// empty. A directory that contains a far artifact is not empty.
pub(super) fn remove_made_parents(conversation: &Conversation, path: &RelPath) {
    let dir = conversation.dir();
    let is_empty =
        |path: &RelPath| is_made(dir, path) && !conversation.has_far(Some(path)).unwrap_or(true);
    let mut at = path.parent();
    while let Some(path) = at.filter(is_empty) {
        let removed = dir::parent_dir(dir, &path).and_then(|dir| dir.rmdir(path.file_name()));
        at = path.parent().filter(|_| removed.is_ok());
    }
}

#[cfg(test)]
pub(super) mod tests;
