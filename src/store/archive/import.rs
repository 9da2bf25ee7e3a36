//! Creates a conversation from an archive.
//!
//! Members are staged in directories of the store that readers do not see. Every import holds a
//! shared lock on a file beside the staging area. A process that gets an exclusive lock knows that
//! no import is running, and that everything in the staging area is a leftover of processes that
//! died.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, RenameFlags};
use tar::Archive;

use crate::archive::extract::{ArchiveEntry, ImportWriter, Unpacked, read_entry, read_error};
use crate::archive::format::{ArchiveMember, DigestList, HashingReader};
use crate::archive::{BLOCK, DESCRIPTION, DIGESTS, Description, FORMAT, MAX_RECORD};
use crate::file_lock::{self, LockKind, LockedFile};
use crate::{ArchiveError, ArchiveFlaw, Conversation, Dir, FileType, Store, StoreError, layout};
use ctxfs_core::model::{ArtifactState, Component, NameError, Record, RelPath, is_scratch};

const MAX_DESCRIPTION: u64 = 4096;

/// An import leaves at least 1/`SPARE_INODES` of the inodes of the disk free.
const SPARE_INODES: u64 = 100;
/// Lowest generation that is refused. Lower numbers are exact integers in JavaScript.
const MAX_GENERATIONS: u64 = 1 << 53;
/// Maximum number of milliseconds before or after the epoch. This is the range of dates in
/// JavaScript.
const MAX_MILLIS: u64 = 8_640_000_000_000_000;
const BATCH: usize = 256;
const CUT: &str = "its writer had not closed it when the archive was made";

/// The options of an import, which limit the resources that an untrusted archive can use.
///
/// `id` is the id of the new conversation; `None` means the id in the archive. `most_bytes` limits
/// the uncompressed size, and `most_files` the number of files and directories. `min_free` is the
/// number of bytes that must stay free on the store's disk. `quota` is the number of bytes of the
/// disk that the conversation may use.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "described above")]
pub struct ImportOptions {
    pub id: Option<Component>,
    pub most_bytes: u64,
    pub most_files: u64,
    pub min_free: u64,
    pub quota: Option<u64>,
}

/// The result of an import: the id of the conversation, the number of its files, and their total
/// size in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct Imported {
    pub id: Component,
    pub files: u64,
    pub bytes: u64,
}

impl Store {
    /// Creates a conversation from `archive`, either completely or not at all.
    ///
    /// The archive need not be trusted; the module `archive` lists the checks. Memory is bounded
    /// except for the index of the records. Readers see the conversation only when it is complete.
    pub fn import(
        &self,
        archive: impl BufRead,
        options: &ImportOptions,
    ) -> Result<Imported, ArchiveError> {
        let most = options.most_bytes;
        let unpacked = Unpacked::new(archive, most).map_err(ArchiveError::Read)?;
        let mut archive = Archive::new(unpacked);
        let mut import = read_members(self, &mut archive, options)?;
        let ended = archive.into_inner().require_end().map_err(|error| read_error(error, most))?;
        if !ended {
            return Err(ArchiveError::refused(DIGESTS, ArchiveFlaw::Garbage));
        }
        import.writer.finish()?;
        import.publish(self)
    }
}

fn read_members<R: Read>(
    store: &Store,
    archive: &mut Archive<R>,
    options: &ImportOptions,
) -> Result<Import, ArchiveError> {
    let most = options.most_bytes;
    let (mut import, mut header) = (None::<Import>, None);
    let entries = archive.entries().map_err(|error| read_error(error, most))?;
    for entry in entries.raw(true) {
        let mut entry = entry.map_err(|error| unreadable(error, most, import.is_none()))?;
        match read_entry(&mut entry, header.take())? {
            ArchiveEntry::Extension(bytes) => header = Some(bytes),
            ArchiveEntry::Member(found) => match &mut import {
                Some(import) => import.add_member(store, &found, &mut entry)?,
                None => import = Some(Import::begin(store, options, &found, &mut entry)?),
            },
        }
    }
    let import = import.ok_or(ArchiveError::Foreign)?;
    match import.digests {
        Some(_) => Err(ArchiveError::refused(DIGESTS, ArchiveFlaw::NoEnd)),
        None => Ok(import),
    }
}

/// Returns the error for a failed read. A failure at the start of the input means that the input is
/// not an archive, unless the error shows that the input is a damaged archive.
fn unreadable(error: io::Error, most: u64, at_start: bool) -> ArchiveError {
    let damaged = error.raw_os_error().is_some() || error.kind() == io::ErrorKind::UnexpectedEof;
    if at_start && !damaged { ArchiveError::Foreign } else { read_error(error, most) }
}

struct Import {
    id: Component,
    top: Vec<u8>,
    options: ImportOptions,
    writer: ImportWriter,
    /// The digests of the members so far. `None` once they have been compared with the list of
    /// digests in the archive, which is the last member.
    digests: Option<DigestList>,
    manifest_seen: bool,
    members: u64,
    files: u64,
    bytes: u64,
    room: u64,
    // This must be the last field, because fields are dropped in order. The directory is removed
    // after everything that uses it is dropped.
    staging: Staging,
}

impl Import {
    fn begin(
        store: &Store,
        options: &ImportOptions,
        found: &ArchiveMember,
        content: &mut dyn Read,
    ) -> Result<Self, ArchiveError> {
        let mut text = Vec::new();
        let mut content = content.take(MAX_DESCRIPTION);
        content.read_to_end(&mut text).map_err(ArchiveError::Read)?;
        let description: Description =
            serde_json::from_slice(&text).map_err(|_| ArchiveError::Foreign)?;
        if description.format > FORMAT {
            let (found, known) = (description.format, FORMAT);
            return Err(ArchiveError::Newer { found, known });
        }
        let exported = Component::from_text(&description.conversation);
        let exported = exported.map_err(|flaw| found.refused(flaw))?;
        let top = exported.as_os_str().as_bytes().to_vec();
        if found.kind != FileType::File || found.name != own_name(&top, DESCRIPTION) {
            return Err(ArchiveError::Foreign);
        }
        let id = options.id.clone().unwrap_or(exported);
        if store.conversation(&id)?.is_some() {
            return Err(ArchiveError::Exists { id });
        }
        let mut import = Self::stage(store, id, top, options)?;
        import.note_digest(&found.name, blake3::hash(&text).to_hex().as_str())?;
        Ok(import)
    }

    fn stage(
        store: &Store,
        id: Component,
        top: Vec<u8>,
        options: &ImportOptions,
    ) -> Result<Self, ArchiveError> {
        let fault = |error| StoreError::io("make a directory in", store.root(), error);
        let staging = Staging::new(store.dir(), store.root()).map_err(fault)?;
        let (dir, path) = staging.conversation().map_err(fault)?;
        let conversation = Conversation::new(id.clone(), path, dir).map_err(fault)?;
        let digests = DigestList::new(staging.digests().map_err(fault)?);
        Ok(Self {
            id,
            top,
            options: options.clone(),
            writer: ImportWriter::new(conversation, options.most_bytes),
            digests: Some(digests),
            manifest_seen: false,
            members: 0,
            files: 0,
            bytes: 0,
            room: 0,
            staging,
        })
    }

    fn add_member(
        &mut self,
        store: &Store,
        found: &ArchiveMember,
        content: &mut dyn Read,
    ) -> Result<(), ArchiveError> {
        if found.kind == FileType::File && found.name == own_name(&self.top, DIGESTS) {
            let digests = self.digests.take().ok_or_else(|| found.refused(ArchiveFlaw::Order))?;
            if !self.manifest_seen {
                return Err(found.refused(ArchiveFlaw::NoEnd));
            }
            return digests.compare(content);
        }
        if self.digests.is_none() || self.manifest_seen {
            return Err(found.refused(ArchiveFlaw::Order));
        }
        self.members += 1;
        if self.members > self.options.most_files {
            return Err(ArchiveError::TooMany { most: self.options.most_files });
        }
        self.require_room(store, found.size)?;
        if found.kind == FileType::File && found.name == own_name(&self.top, layout::MANIFEST) {
            return self.manifest(found, content);
        }
        let Some(path) = self.path(found)? else { return self.writer.add_top(found) };
        if found.kind == FileType::Directory {
            return self.writer.add_directory(path, found);
        }
        let digest = self.writer.add_file(&path, found, content)?;
        self.files += 1;
        self.bytes += found.size;
        self.note_digest(&found.name, &digest)
    }

    fn manifest(
        &mut self,
        found: &ArchiveMember,
        content: &mut dyn Read,
    ) -> Result<(), ArchiveError> {
        self.manifest_seen = true;
        self.writer.write_records()?;
        let mut content = HashingReader { content, hasher: blake3::Hasher::new() };
        let most = self.options.most_bytes;
        take_records(self.writer.conversation(), &mut content, most)?;
        self.note_digest(&found.name, content.hasher.finalize().to_hex().as_str())
    }

    fn path(&self, found: &ArchiveMember) -> Result<Option<RelPath>, ArchiveError> {
        let below = found.name.strip_prefix(&*self.top).and_then(|name| name.strip_prefix(b"/"));
        let below = below.ok_or_else(|| found.refused(ArchiveFlaw::Outside))?;
        let path = match found.kind {
            FileType::Directory if below.is_empty() => return Ok(None),
            FileType::Directory => below.strip_suffix(b"/").unwrap_or(below),
            FileType::File | FileType::Other => below,
        };
        let path = RelPath::new(std::ffi::OsStr::from_bytes(path));
        let path = path.map_err(|flaw| found.refused(flaw))?;
        if layout::is_bookkeeping(path.as_os_str()) {
            return Err(found.refused(NameError::Reserved));
        }
        Ok(Some(path))
    }

    /// Fails unless one more file of `size` bytes fits into the quota and on the disk. The disk
    /// must also have a free inode for the file, beyond those that stay free because of
    /// [`SPARE_INODES`].
    fn require_room(&mut self, store: &Store, size: u64) -> Result<(), ArchiveError> {
        self.room = self.room.saturating_add(crate::whole_blocks(size).max(crate::LEAST));
        if let Some(quota) = self.options.quota.filter(|quota| self.room > *quota) {
            return Err(ArchiveError::OverQuota { quota });
        }
        let space = store.space()?;
        let min_free = self.options.min_free;
        let left = (space.f_bavail * space.f_frsize).saturating_sub(min_free);
        if size > left {
            return Err(ArchiveError::NoRoom { needed: size, left, min_free });
        }
        // A disk without a limit on inodes reports 0.
        if space.f_files > 0 && space.f_favail <= space.f_files / SPARE_INODES {
            return Err(ArchiveError::NoInodes { left: space.f_favail });
        }
        Ok(())
    }

    fn note_digest(&mut self, name: &[u8], digest: &str) -> Result<(), ArchiveError> {
        let Some(digests) = &mut self.digests else { return Ok(()) };
        digests.add(name, digest).map_err(ArchiveError::Read)
    }

    fn publish(self, store: &Store) -> Result<Imported, ArchiveError> {
        let Self { id, files, bytes, staging, writer, .. } = self;
        // The writer holds open the directory that is about to be renamed.
        drop(writer);
        match staging.publish(store.context(), &id) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(ArchiveError::Exists { id })
            }
            published => {
                published.map_err(|error| {
                    StoreError::io("name", &layout::conversation_path(store.root(), &id), error)
                })?;
                Ok(Imported { id, files, bytes })
            }
        }
    }
}

fn own_name(top: &[u8], name: &str) -> Vec<u8> {
    [top, b"/", name.as_bytes()].concat()
}

/// Adds the records in `lines` to a conversation that already has all files, each with a fresh
/// record. `most` is the maximum size of the archive in bytes, for the error message.
fn take_records(
    conversation: &Conversation,
    lines: &mut dyn Read,
    most: u64,
) -> Result<(), ArchiveError> {
    let mut lines = BufReader::with_capacity(BLOCK, lines);
    let mut line = Vec::new();
    let mut records = Vec::with_capacity(BATCH);
    for number in 1.. {
        line.clear();
        let read = lines.by_ref().take(MAX_RECORD).read_until(b'\n', &mut line);
        if read.map_err(|error| read_error(error, most))? == 0 {
            break;
        }
        let record = parse(&line)
            .ok_or_else(|| ArchiveError::refused(layout::MANIFEST, ArchiveFlaw::Record(number)))?;
        records.push(checked(conversation, record)?);
        if records.len() >= BATCH {
            conversation.manifest().append(&records)?;
            records.clear();
        }
    }
    Ok(conversation.manifest().append(&records)?)
}

fn parse(line: &[u8]) -> Option<(RelPath, Record)> {
    let record: Record = serde_json::from_slice(line.strip_suffix(b"\n")?).ok()?;
    let path = RelPath::from_text(&record.path).ok()?;
    let possible = path.to_text() == record.path
        && (1..MAX_GENERATIONS).contains(&record.generation)
        && record.created.unsigned_abs() <= MAX_MILLIS
        && record.state != ArtifactState::Gone
        && !is_scratch(path.file_name());
    possible.then_some((path, record))
}

/// Adapts a record of the archive to this host. If the conversation has a record of the same file,
/// takes the size, time, identity and analysis from that record. If the archive's record has a
/// digest, fails unless the conversation's record has the same digest.
fn checked(
    conversation: &Conversation,
    (path, mut record): (RelPath, Record),
) -> Result<Record, ArchiveError> {
    (record.owner, record.file, record.far) = (None, None, None);
    if record.state == ArtifactState::Live {
        record.state = ArtifactState::Incomplete(CUT.to_owned());
    }
    let Some(found) = conversation.record(&path)? else { return Ok(record) };
    if record.digest().is_some() && record.digest() != found.digest() {
        return Err(ArchiveError::refused(record.path, ArchiveFlaw::RecordedDigest));
    }
    let Record { size, modified, file, analysis, .. } = found;
    // A person imports it, so that the limits for outputs of hosts do not apply.
    record.provenance.host = None;
    Ok(Record { size, modified, file, analysis, removed: None, ..record })
}

const CONVERSATION: &str = "conversation";
const DIGESTS_FILE: &str = "digests";

/// The directory of a single import. Dropping this value removes the directory with everything that
/// is still in it.
pub(super) struct Staging {
    root: PathBuf,
    store: Dir,
    own: Dir,
    name: OsString,
    all: Dir,
    lock: LockedFile,
}

impl Staging {
    pub(super) fn new(store: &Dir, root: &Path) -> io::Result<Self> {
        let lock = file_lock::lock_by_name(store, layout::STAGING_LOCK, LockKind::Shared)?;
        store.ensure_dir(layout::STAGING.as_ref(), layout::DIRECTORY_MODE)?;
        let all = store.open_dir(layout::STAGING.as_ref())?;
        let name = OsString::from(layout::unique());
        all.mkdir(&name, layout::DIRECTORY_MODE)?;
        let own = all.open_dir(&name)?;
        own.mkdir(CONVERSATION.as_ref(), layout::DIRECTORY_MODE)?;
        Ok(Self { root: root.to_owned(), store: store.try_clone()?, own, name, all, lock })
    }

    pub(super) fn conversation(&self) -> io::Result<(Dir, PathBuf)> {
        let path = self.root.join(layout::STAGING).join(&self.name).join(CONVERSATION);
        Ok((self.own.open_dir(CONVERSATION.as_ref())?, path))
    }

    pub(super) fn digests(&self) -> io::Result<File> {
        self.own.create_file(DIGESTS_FILE.as_ref(), OFlags::RDWR | OFlags::EXCL, layout::FILE_MODE)
    }

    /// Moves the conversation to `id` in one step. Fails with EEXIST if `id` is taken. Syncs the
    /// content to the disk before the move, and the new name after it.
    pub(super) fn publish(self, context: &Dir, id: &Component) -> io::Result<()> {
        rustix::fs::syncfs(&self.own)?;
        let rename = |flags| self.own.rename(CONVERSATION.as_ref(), context, id.as_os_str(), flags);
        match rename(RenameFlags::NOREPLACE) {
            // The disk lacks NOREPLACE. A plain rename replaces at most an empty directory.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => {
                rename(RenameFlags::empty())?;
            }
            renamed => renamed?,
        }
        context.sync()
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // If this fails, the next `clean_staging` removes the directory.
        self.all.remove_all(&self.name).ok();
        if file_lock::try_lock(&self.lock).unwrap_or(false) {
            self.store.rmdir(layout::STAGING.as_ref()).ok();
        }
    }
}

pub(crate) fn clean_staging(store: &Dir) -> io::Result<()> {
    let name = layout::STAGING.as_ref();
    let Some(all) = crate::if_there(store.open_dir(name))? else { return Ok(()) };
    let lock = layout::STAGING_LOCK.as_ref();
    let lock = store.create_file(lock, OFlags::RDWR, layout::FILE_MODE)?;
    let Some(_locked) = LockedFile::try_lock(lock)? else { return Ok(()) };
    for entry in all.entries()? {
        all.remove_all(&entry.name)?;
    }
    // The last import may have just removed the directory.
    crate::if_there(store.rmdir(name)).map(drop)
}
