//! A file that arrives from another host, and the directories that are created for it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::slice;

use rustix::fs::{OFlags, XattrFlags};
use rustix::io::Errno;

use crate::{
    Conversation, Dir, FileType, ManifestLock, Stat, StoreError, Time, attributes, dir, error,
    layout, stat_file,
};
use ctxfs_core::model::{ArtifactState, Far, LocalFile, Record, RelPath};

/// The permission bits that are kept. Set-user-ID and set-group-ID are not among them.
pub(super) const MODE: u32 = 0o777;
const CUT: &str = "its writer had not closed it when it was published";
/// The attribute that marks a directory as created for a file of another host. An empty directory
/// without it is not removed. On a disk without attributes, this is every empty directory.
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

/// The facts about a file of another host, without its bytes.
#[derive(Debug, Clone, Default)]
pub struct Arrived {
    /// The record of the file on the other host.
    pub record: Record,
    /// Permission bits.
    pub mode: u32,
    /// Extended attributes. Only `user.*` attributes are set on this host.
    pub attributes: Vec<(OsString, Vec<u8>)>,
}

impl<'a> Arrival<'a> {
    /// Begins a file that will get the name `path` when it is complete.
    pub fn begin(conversation: &'a Conversation, path: &RelPath) -> Result<Self, StoreError> {
        let unique = RandomState::new().hash_one(path);
        let scratch = OsString::from(layout::arriving(unique));
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
        let files = entries.iter().filter(|entry| entry.kind == FileType::File);
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

    /// Gives the complete file its name, and records the file if it is an artifact. Creates the
    /// missing directories of the name. Returns the attributes of the file, or `None` if the name
    /// is taken or a file is in the way of a directory.
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
            // The error of the record is the one to return.
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

    fn record(&self, lock: &ManifestLock, record: &Record) -> Result<Stat, StoreError> {
        let stat = stat_file(&self.file).map_err(|error| self.fault(error))?;
        if self.path.is_artifact() {
            lock.append(slice::from_ref(&recorded(&self.path, record, &stat)))?;
        }
        Ok(stat)
    }

    /// Gives the complete file the name of the far artifact of `record`. The artifact keeps its
    /// identity. Returns false if the artifact has changed since `record` was read, or if the name
    /// is taken.
    pub(super) fn take_place_of(
        self,
        record: &Record,
        attributes: Vec<(OsString, Vec<u8>)>,
    ) -> Result<bool, StoreError> {
        self.take_name(record, attributes, |arrival| {
            let stat = stat_file(&arrival.file).map_err(|error| arrival.fault(error))?;
            let copied = Some(stat.ctime.as_nanos());
            let file = record.file.map(|file| LocalFile { copied, ..file });
            let file = file.or_else(|| Some(stat.local_file()));
            Ok(Record { file, ..with_file(record) })
        })
    }

    /// Gives an empty file the name of the far artifact of `record`. Returns false in the same
    /// cases as [`Self::take_place_of`].
    pub(super) fn begin_empty(
        self,
        record: &Record,
        attributes: Vec<(OsString, Vec<u8>)>,
    ) -> Result<bool, StoreError> {
        self.take_name(record, attributes, |_| Ok(with_file(record)))
    }

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

/// Returns the record of a far artifact that now has a local file. The record does not state
/// anything about the bytes of that file.
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
    match dir::parent_dir(conversation, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
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

/// Returns true if the directory at `path` was created for a file of another host.
pub(super) fn is_made(conversation: &Dir, path: &RelPath) -> bool {
    let dir = conversation.open_dir_at(path);
    dir.is_ok_and(|dir| rustix::fs::fgetxattr(&dir, MADE, &mut [0_u8; 0]).is_ok())
}

/// Removes the parent directories of `path` that were created for files of other hosts and are now
/// empty. A directory with a far artifact does not count as empty.
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
