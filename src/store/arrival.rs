//! A file that arrives from another host, and the directories that are made for it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::slice;

use rustix::fs::{OFlags, XattrFlags};
use rustix::io::Errno;

use crate::error::is_in_the_way;
use crate::removal::parent_dir;
use crate::{
    Conversation, Dir, FileType, ManifestLock, Stat, StoreError, Time, attributes, layout, stat,
};
use ctxfs_core::model::{ArtifactState, Far, LocalFile, Record, RelPath};

/// The permission bits that are kept, without set-user-ID and set-group-ID.
pub(super) const MODE: u32 = 0o777;
/// The beginning of the names of the attributes that users set.
const ATTRIBUTE: &[u8] = b"user.";
/// The reason in the record of an artifact that its writer had not closed.
const CUT: &str = "its writer had not closed it when it was published";

/// A file that comes from another host. It has a scratch name until it is whole, and is removed if
/// this is dropped before.
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

/// What is known of a file that comes from another host, beside its bytes.
#[derive(Debug, Clone, Default)]
pub struct Arrived {
    /// Its record there.
    pub record: Record,
    /// Its permissions.
    pub mode: u32,
    /// Its attributes `user.*`. Others are not set.
    pub attributes: Vec<(OsString, Vec<u8>)>,
}

impl Conversation {
    /// Begins the file at `path`.
    pub fn receive(&self, path: &RelPath) -> Result<Arrival<'_>, StoreError> {
        let unique = RandomState::new().hash_one(path);
        let scratch = OsString::from(layout::coming(unique));
        let flags = OFlags::WRONLY | OFlags::EXCL;
        let file = self.dir().create_file(&scratch, flags, layout::FILE_MODE);
        let file = file.map_err(|error| self.error_at("make", path, error))?;
        Ok(Arrival {
            conversation: self,
            path: path.clone(),
            scratch,
            file,
            hasher: blake3::Hasher::new(),
            written: 0,
            is_named: false,
        })
    }

    /// Removes what a process that died had begun to receive. For a caller that nobody else
    /// receives files beside.
    pub fn remove_cut_arrivals(&self) -> Result<(), StoreError> {
        let entries = self.dir().entries().map_err(|error| self.listing_error(error))?;
        let files = entries.iter().filter(|entry| entry.kind == FileType::File);
        for entry in files.filter(|entry| layout::is_coming(&entry.name)) {
            self.dir().unlink(&entry.name).map_err(|error| self.listing_error(error))?;
        }
        Ok(())
    }
}

impl Arrival<'_> {
    /// Returns the number of bytes written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Returns the BLAKE3 of the bytes written so far, in lower-case hexadecimal.
    pub fn digest(&self) -> String {
        self.hasher.finalize().to_hex().to_string()
    }

    /// Gives the whole file its name, which must be free, and records it if it is an artifact.
    /// Makes the directories of the name. Returns what the disk says of the file, or `None` if
    /// something has that name or is in the way.
    ///
    /// Its bytes are on the disk before, and its name after [`Conversation::sync_parents`].
    pub fn complete(mut self, arrived: &Arrived) -> Result<Option<Stat>, StoreError> {
        self.prepare(arrived).map_err(|error| self.fault(error))?;
        let lock = self.conversation.manifest().lock()?;
        let dir = match self.name() {
            Err(error) if is_in_the_way(&error) => return Ok(None),
            named => named.map_err(|error| self.fault(error))?,
        };
        let recorded = self.record(&lock, &arrived.record);
        if recorded.is_err() {
            // Nothing is left of it.
            let _removed = dir.unlink(self.path.file_name());
        }
        recorded.map(Some)
    }

    fn prepare(&self, arrived: &Arrived) -> io::Result<()> {
        let is_users = |(name, _): &&(OsString, Vec<u8>)| name.as_bytes().starts_with(ATTRIBUTE);
        let all: Vec<_> = arrived.attributes.iter().filter(is_users).cloned().collect();
        attributes::set_attributes(&self.file, &all)?;
        let modified = Time::from_nanos(arrived.record.modified);
        attributes::set_mode_and_time(&self.file, arrived.mode & MODE, modified)?;
        self.file.sync_all()
    }

    fn name(&mut self) -> io::Result<Dir> {
        let dir = self.conversation.made_parent(&self.path)?;
        let from = self.conversation.dir();
        from.rename_to_free(&self.scratch, &dir, self.path.file_name())?;
        self.is_named = true;
        Ok(dir)
    }

    fn record(&self, lock: &ManifestLock, record: &Record) -> Result<Stat, StoreError> {
        let stat = stat::stat_file(&self.file).map_err(|error| self.fault(error))?;
        if self.path.is_artifact() {
            lock.append(slice::from_ref(&recorded(&self.path, record, &stat)))?;
        }
        Ok(stat)
    }

    /// Gives the whole file the name of the artifact of which `record` says that its bytes are not
    /// here. It stays the same artifact. Returns false if that is not as recorded any more.
    pub(super) fn stand_in_for(
        self,
        record: &Record,
        attributes: Vec<(OsString, Vec<u8>)>,
    ) -> Result<bool, StoreError> {
        self.take_name(record, attributes, Self::copied)
    }

    /// Gives an empty file that name: somebody writes the artifact anew. Returns false as
    /// [`Self::stand_in_for`] does.
    pub(super) fn begin_anew(
        self,
        record: &Record,
        attributes: Vec<(OsString, Vec<u8>)>,
    ) -> Result<bool, StoreError> {
        self.take_name(record, attributes, |_, record| Ok(begun(record)))
    }

    /// Gives the file the name of an artifact without one, whose record becomes what `after` makes
    /// of it.
    fn take_name(
        mut self,
        record: &Record,
        attributes: Vec<(OsString, Vec<u8>)>,
        after: impl FnOnce(&Self, &Record) -> Result<Record, StoreError>,
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
            Err(error) if is_in_the_way(&error) => return Ok(false),
            named => named.map_err(|error| self.fault(error))?,
        };
        let after = after(&self, record).and_then(|after| lock.append(slice::from_ref(&after)));
        if after.is_err() {
            let _removed = dir.unlink(self.path.file_name());
        }
        after.map(|()| true)
    }

    /// Returns the record with this file as the copy that took the place of its file.
    fn copied(&self, record: &Record) -> Result<Record, StoreError> {
        let stat = stat::stat_file(&self.file).map_err(|error| self.fault(error))?;
        let copied = Some(stat.ctime.as_nanos());
        let file = record.file.map(|file| LocalFile { copied, ..file });
        let file = file.or_else(|| Some(stat.local_file()));
        Ok(Record { file, ..begun(record) })
    }

    fn fault(&self, error: io::Error) -> StoreError {
        self.conversation.error_at("write", &self.path, error)
    }
}

/// Returns the record of an artifact that has a file on this disk now. It does not tell of the
/// bytes of that file.
fn begun(record: &Record) -> Record {
    let far = record.far.clone().map(|far| Far { here: true, ..far });
    Record { far, ..record.clone() }
}

/// Returns the record of an artifact from another host, whose file is as `stat` says.
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
            // What cannot be removed now is removed before the next file comes.
            let _removed = self.conversation.dir().unlink(&self.scratch);
        }
    }
}

/// The attribute of a directory that was made for a file of another host. Without it, as on a disk
/// that has no attributes, an empty directory stays.
const MADE: &str = "user.ctx.made";

impl Conversation {
    /// Opens the directory of `path`. Makes those on the way that are missing, and syncs their
    /// names. Fails with ENOTDIR or EEXIST if a file is in the way.
    pub(super) fn made_parent(&self, path: &RelPath) -> io::Result<Dir> {
        match parent_dir(self.dir(), path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        let (mut dir, mut at) = (self.dir().try_clone()?, None);
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

    /// Removes the directories above `path` that were made for files of other hosts and are empty
    /// now: they have no artifact without a file either.
    pub(super) fn remove_made_parents(&self, path: &RelPath) {
        let mut at = path.parent();
        let is_empty =
            |path: &RelPath| is_made(self.dir(), path) && !self.has_far(Some(path)).unwrap_or(true);
        while let Some(path) = at.filter(is_empty) {
            let removed = parent_dir(self.dir(), &path).and_then(|dir| dir.rmdir(path.file_name()));
            at = path.parent().filter(|_| removed.is_ok());
        }
    }
}

/// Returns true if the directory at `path` was made for a file of another host.
pub(super) fn is_made(conversation: &Dir, path: &RelPath) -> bool {
    let dir = conversation.open_dir_at(path);
    dir.is_ok_and(|dir| rustix::fs::fgetxattr(&dir, MADE, &mut [0_u8; 0]).is_ok())
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
