//! Artifacts whose bytes are elsewhere, in an export.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::io::Write;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Export, if_there};
use crate::archive::content::ContentReader;
use crate::archive::exported_file::{ExportedFile, FileState};
use crate::archive::member::Member;
use crate::archive::{ArchiveError, BLOCK};
use crate::conversation::Conversation;
use crate::error::StoreError;
use crate::far::FarArtifact;
use ctxfs_core::model::{Component, Content, FarFile, FarStore, RelPath};

/// The directory below which all artifacts are.
const ARTIFACTS: &str = "artifacts";
/// The beginning of the names of the attributes that an archive has.
const ATTRIBUTE: &[u8] = b"user.";
/// The time that fetches which fail may take together, and the most that counts of one.
const MOST_FAILING: Duration = Duration::from_mins(1);
const MOST_OF_ONE: Duration = Duration::from_secs(30);

/// The reasons to leave out an artifact.
const ELSEWHERE: &str = "its bytes are in the bucket that hosts share, and no bucket is set here";
const UNTRIED: &str = "its bytes are in the bucket, which did not answer for others: not tried";
const LEFT: &str = "its bytes have left the bucket: `ctxfs remote check` tells what it lacks";
const OTHERS: &str = "the bytes that came are not those of its digest";
const NO_DIRECTORY: &str = "its directory is not there, or cannot be read";

/// Paths in the order in which a walk comes to them.
#[derive(Debug, Default)]
pub(super) struct FarPaths(BTreeSet<InOrder>);

#[derive(Debug, PartialEq, Eq)]
struct InOrder(RelPath);

impl InOrder {
    fn as_path(&self) -> &Path {
        Path::new(self.0.as_os_str())
    }
}

impl Ord for InOrder {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_path().cmp(other.as_path())
    }
}

impl PartialOrd for InOrder {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FarPaths {
    /// Takes the first path that comes before `path`, or any. A walk that has come to a path itself
    /// has found its file.
    fn take_before(&mut self, path: Option<&RelPath>) -> Option<RelPath> {
        let Some(path) = path else { return self.0.pop_first().map(|InOrder(first)| first) };
        let end = InOrder(path.clone());
        self.0.remove(&end);
        let is_before = self.0.first().is_some_and(|first| *first < end);
        if is_before { self.0.pop_first().map(|InOrder(first)| first) } else { None }
    }
}

/// The fetches of an export.
#[derive(Debug)]
pub(super) struct Fetching<'a> {
    store: Option<&'a dyn FarStore>,
    /// The time that those took which failed.
    failing: Duration,
}

impl<'a> From<Option<&'a dyn FarStore>> for Fetching<'a> {
    fn from(store: Option<&'a dyn FarStore>) -> Self {
        Self { store, failing: Duration::ZERO }
    }
}

impl Fetching<'_> {
    /// Opens an artifact, and reads all of it once, so that what cannot be had is known. Tries no
    /// more of them after a minute without success.
    fn fetch(
        &mut self,
        conversation: &Component,
        artifact: &FarArtifact,
        progress: &mut dyn FnMut(u64),
    ) -> io::Result<FarFile> {
        let store = self.store.ok_or_else(|| io::Error::other(ELSEWHERE))?;
        if self.failing >= MOST_FAILING {
            return Err(io::Error::other(UNTRIED));
        }
        let start = Instant::now();
        let opened = store.open(conversation, &artifact.record);
        let checked = opened.and_then(|file| {
            check(&*file.content, artifact, progress)?;
            Ok(file)
        });
        if checked.is_err() {
            self.failing += start.elapsed().min(MOST_OF_ONE);
        }
        checked.map_err(|error| match error.raw_os_error() {
            Some(libc::ESTALE) => io::Error::other(LEFT),
            _ => error,
        })
    }
}

/// Reads a content, and fails if it is not that of the artifact.
fn check(
    content: &dyn Content,
    artifact: &FarArtifact,
    progress: &mut dyn FnMut(u64),
) -> io::Result<()> {
    let (mut hasher, mut block, mut offset) = (blake3::Hasher::new(), vec![0; BLOCK], 0);
    loop {
        let count = content.read_at(offset, &mut block)?;
        if count == 0 {
            break;
        }
        hasher.update(&block[..count]);
        offset += count as u64;
        progress(count as u64);
    }
    let recorded = artifact.record.analysis.as_ref().map(|analysis| analysis.digest.as_str());
    let is_it = recorded == Some(hasher.finalize().to_hex().as_str());
    if is_it && offset == artifact.stat.size { Ok(()) } else { Err(io::Error::other(OTHERS)) }
}

/// Returns the sum of the sizes of all artifacts of a conversation whose bytes are elsewhere, as
/// far as these can be known.
pub(super) fn bytes(conversation: &Conversation) -> u64 {
    let sizes = conversation.each_far(None).map(|each| {
        each.filter_map(Result::ok).fold(0, |sum: u64, far| sum.saturating_add(far.stat.size))
    });
    sizes.unwrap_or_default()
}

impl<W: Write> Export<'_, W> {
    /// Adds the artifacts that are elsewhere to those that are to come: all of the conversation, or
    /// those of a directory whose names have been read. An artifact whose bytes go or come
    /// meanwhile is in one of these lists, or among the names.
    pub(super) fn expect_far(&mut self, dir: Option<&RelPath>) -> Result<(), StoreError> {
        if dir.is_some_and(|dir| !Path::new(dir.as_os_str()).starts_with(ARTIFACTS)) {
            return Ok(());
        }
        let added = self.add_far(dir);
        added.or_else(|error| self.conversation.pass_over(error, &mut self.done.unread))
    }

    fn add_far(&mut self, dir: Option<&RelPath>) -> Result<(), StoreError> {
        let conversation = self.conversation;
        for artifact in conversation.each_far(dir)? {
            self.far.0.insert(InOrder(artifact?.path));
        }
        Ok(())
    }

    /// Writes the artifacts that are elsewhere and come before `path`, or all that are left.
    pub(super) fn write_far_before(&mut self, path: Option<&RelPath>) -> Result<(), ArchiveError> {
        while let Some(next) = self.far.take_before(path) {
            self.without_file(&next)?;
        }
        Ok(())
    }

    /// Writes an artifact that had no file when its directory was read, or has none any more.
    pub(super) fn without_file(&mut self, path: &RelPath) -> Result<(), ArchiveError> {
        if !self.has_directory_of(path) {
            self.done.unread.add(path.to_text(), NO_DIRECTORY);
            return Ok(());
        }
        let conversation = self.conversation;
        let found = self.came_here(path).and_then(|file| match file {
            Some(file) => Ok((Some(file), None)),
            None => Ok((None, conversation.far(path)?)),
        });
        match found {
            Ok((Some(file), _)) => {
                let state = FileState::of(conversation, path, &file);
                self.file(path, file, state)
            }
            Ok((None, Some(artifact))) => self.far(&artifact),
            Ok((None, None)) => {
                self.done.gone += 1;
                Ok(())
            }
            Err(error) => Ok(conversation.pass_over(error, &mut self.done.unread)?),
        }
    }

    /// Returns true if the archive has the directory of `path`: it is the last one, or contains it.
    fn has_directory_of(&self, path: &RelPath) -> bool {
        let Some(parent) = path.parent() else { return true };
        let last = self.last_dir.as_ref();
        last.is_some_and(|last| Path::new(last.as_os_str()).starts_with(parent.as_os_str()))
    }

    /// Opens the file at `path`, if there is one now.
    fn came_here(&self, path: &RelPath) -> Result<Option<ExportedFile>, StoreError> {
        let dir = match path.parent() {
            Some(parent) => self.conversation.dir().open_dir_at(&parent),
            None => self.conversation.dir().try_clone(),
        };
        let opened = dir.and_then(|dir| ExportedFile::open(&dir, path.file_name()));
        if_there(opened).map_err(|error| self.conversation.error_at("read", path, error))
    }

    /// Writes an artifact whose bytes are elsewhere. Names it if these cannot be had.
    fn far(&mut self, artifact: &FarArtifact) -> Result<(), ArchiveError> {
        let FarArtifact { path, record, stat } = artifact;
        let file = self.fetching.fetch(self.conversation.id(), artifact, self.progress);
        let file = match file {
            Ok(file) => file,
            Err(why) => {
                self.done.unread.add(path.to_text(), why);
                self.done.elsewhere += 1;
                return Ok(());
            }
        };
        let is_users = |(name, _): &&(OsString, Vec<u8>)| name.as_bytes().starts_with(ATTRIBUTE);
        let attributes = file.attributes.iter().filter(is_users).cloned().collect();
        let member = Member { attributes, ..Member::of(Some(path.clone()), stat) };
        let reader = ContentReader::new(&*file.content);
        let digest = self.content(&member, path, reader, false)?;
        let record = self.as_read(record.clone(), stat, false, &digest);
        self.keep(&record).map_err(ArchiveError::Write)
    }
}

#[cfg(test)]
mod tests;
