//! Writing a conversation to an archive.

mod far;

use std::fs::File;
use std::io;
use std::io::{BufWriter, Read, Seek as _, Write};
use std::os::unix::ffi::OsStrExt as _;

use tar::Builder;
use zstd::Encoder;

use crate::archive::content::{HashingReader, MemberContent, ReadFailure};
use crate::archive::digests::Digests;
use crate::archive::export::far::{FarPaths, Fetching};
use crate::archive::exported_file::{ExportedFile, FileState, Patience};
use crate::archive::member::Member;
use crate::archive::{ArchiveError, DESCRIPTION, DIGESTS, Description, FORMAT, LEVEL};
use crate::conversation::Conversation;
use crate::dir::Dir;
use crate::error::StoreError;
use crate::stat::{FileType, Stat, Time};
use crate::unread::UnreadPlaces;
use crate::walk::{LeftOut, Walk, WalkEntry};
use crate::{layout, stat};
use ctxfs_core::model::{ArtifactState, FarStore, Record, RelPath, is_scratch};

/// The reason in the record of an artifact that was still being written.
const WRITTEN: &str = "it was still being written when it was exported";

/// The parts of an export that are not files of the conversation. Without them it has what is on
/// this disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExportParts<'a> {
    /// The content of the message log, in place of its file.
    pub log: Option<&'a File>,
    /// The store of artifacts whose bytes are not on this disk.
    pub far: Option<&'a dyn FarStore>,
}

/// The content of an archive, in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exported {
    /// The number of files.
    pub files: u64,
    /// The sum of their sizes, in bytes.
    pub bytes: u64,
    /// The artifacts that were being written. They are included up to there, marked incomplete.
    pub incomplete: u64,
    /// The artifacts whose content differs from the digest in their record.
    pub changed: u64,
    /// The places that could not be read, by path in the conversation. The archive is without them.
    pub unread: UnreadPlaces,
    /// The artifacts among them whose bytes are elsewhere, and could not be had.
    pub elsewhere: u64,
    /// The number of links, special files and invalid names. No reader of the tree sees them, and
    /// the archive is without them.
    pub unseen: u64,
    /// The number of files and directories that were removed or renamed meanwhile.
    pub gone: u64,
}

/// Returns the bytes of all files of a conversation, with those that are elsewhere: about what
/// [`export_with`] will read.
pub fn bytes_to_export(conversation: &Conversation) -> Result<u64, StoreError> {
    let sum = || {
        let mut walk = walk(conversation)?;
        let mut sum = 0_u64;
        while let Some(found) = walk.next()? {
            if found.kind == FileType::File {
                sum = sum.saturating_add(walk.stat(&found)?.map_or(0, |stat| stat.size));
            }
        }
        Ok(sum)
    };
    let here = sum().map_err(|error| conversation.listing_error(error))?;
    Ok(here.saturating_add(far::bytes(conversation)))
}

/// Writes all files of a conversation to `out` as one archive. Calls `progress` with numbers of
/// bytes read.
///
/// Each file has the length it had when it was opened. An artifact that is written meanwhile is
/// marked incomplete. A place that cannot be read is left out and reported. Holds the names of the
/// directories on the way in memory, and everything else in temporary files.
pub fn export(
    conversation: &Conversation,
    out: impl Write,
    progress: &mut dyn FnMut(u64),
) -> Result<Exported, ArchiveError> {
    export_with(conversation, ExportParts::default(), out, progress)
}

/// Does what [`export`] does, with `parts`. An artifact whose bytes are elsewhere is read twice:
/// all of it must be had, and be what its record says, before its member begins.
pub fn export_with(
    conversation: &Conversation,
    parts: ExportParts<'_>,
    out: impl Write,
    progress: &mut dyn FnMut(u64),
) -> Result<Exported, ArchiveError> {
    let mut export =
        Export::new(conversation, parts, out, progress).map_err(ArchiveError::Write)?;
    export.describe().map_err(ArchiveError::Write)?;
    export.directory(None, conversation.dir().stat_self())?;
    // First, as bytes may come here while the names are read.
    export.expect_far(None)?;
    let fault = |error| conversation.listing_error(error);
    let mut walk = walk(conversation).map_err(fault)?;
    while let Some(found) = walk.next().map_err(fault)? {
        export.write_far_before(Some(&found.path))?;
        match found.kind {
            FileType::Directory => {
                export.directory(Some(found.path.clone()), walk.stat_dir())?;
                export.expect_far(Some(&found.path))?;
            }
            FileType::File | FileType::Other => export.found(&mut walk, &found)?,
        }
    }
    export.write_far_before(None)?;
    export.leave_out(walk.finish());
    export.finish()
}

/// Walks over what an export has.
fn walk(conversation: &Conversation) -> io::Result<Walk<impl FnMut(&Dir) -> io::Result<bool>>> {
    let walk = Walk::new(conversation.dir().try_clone()?, None, |_: &Dir| Ok(true))?;
    Ok(walk.without(layout::is_bookkeeping))
}

/// An export in progress.
struct Export<'a, W: Write> {
    conversation: &'a Conversation,
    /// The content of the message log, if that is not the file.
    log: Option<&'a File>,
    /// The artifacts whose bytes are elsewhere that are still to come, and how these are had.
    far: FarPaths,
    fetching: Fetching<'a>,
    /// The directory that was written last.
    last_dir: Option<RelPath>,
    members: MemberWriter<W>,
    digests: Digests,
    records: BufWriter<File>,
    progress: &'a mut dyn FnMut(u64),
    patience: Patience,
    done: Exported,
}

impl<'a, W: Write> Export<'a, W> {
    fn new(
        conversation: &'a Conversation,
        parts: ExportParts<'a>,
        out: W,
        progress: &'a mut dyn FnMut(u64),
    ) -> io::Result<Self> {
        Ok(Self {
            conversation,
            log: parts.log,
            far: FarPaths::default(),
            fetching: Fetching::from(parts.far),
            last_dir: None,
            members: MemberWriter::new(conversation, out)?,
            digests: Digests::new(tempfile::tempfile()?),
            records: BufWriter::new(tempfile::tempfile()?),
            progress,
            patience: Patience::default(),
            done: Exported::default(),
        })
    }

    fn describe(&mut self) -> io::Result<()> {
        let conversation = self.conversation.id().to_text();
        let mut line = serde_json::to_vec(&Description { format: FORMAT, conversation })?;
        line.push(b'\n');
        let digest = self.members.own(DESCRIPTION, line.len() as u64, &*line)?;
        self.digests.add(&self.members.name(DESCRIPTION.as_bytes()), &digest)
    }

    fn directory(
        &mut self,
        path: Option<RelPath>,
        stat: io::Result<Stat>,
    ) -> Result<(), ArchiveError> {
        let stat = stat.map_err(|error| self.conversation.listing_error(error))?;
        self.last_dir.clone_from(&path);
        self.members.write(&Member::of(path, &stat), io::empty()).map_err(ArchiveError::Write)
    }

    /// Writes a file that the walk has come to. Waits a little for its writer.
    fn found(
        &mut self,
        walk: &mut Walk<impl FnMut(&Dir) -> io::Result<bool>>,
        found: &WalkEntry,
    ) -> Result<(), ArchiveError> {
        let (conversation, path) = (self.conversation, &found.path);
        loop {
            let opened = walk.with(found, |dir, name| if_there(ExportedFile::open(dir, name)));
            let Some(opened) = opened.map_err(|error| conversation.listing_error(error))? else {
                return Ok(());
            };
            // Its bytes may have gone elsewhere since the names were read.
            let Some(file) = opened else { return self.without_file(path) };
            let state = FileState::of(conversation, path, &file);
            let waits = state.as_ref().is_ok_and(|state| state.is_live);
            if !waits || !self.patience.pause() {
                return self.file(path, file, state);
            }
        }
    }

    fn file(
        &mut self,
        path: &RelPath,
        file: ExportedFile,
        state: Result<FileState, StoreError>,
    ) -> Result<(), ArchiveError> {
        let conversation = self.conversation;
        let state = state.or_else(|error| -> Result<_, StoreError> {
            conversation.pass_over(error, &mut self.done.unread)?;
            Ok(FileState::unrecorded(path, &file))
        })?;
        let ExportedFile { file, stat, attributes } = self.as_shown(path, file)?;
        let member = Member { attributes, ..Member::of(Some(path.clone()), &stat) };
        let digest = self.content(&member, path, &file, true)?;
        let fault = |error| conversation.error_at("read", path, error);
        let live = state.is_live || !stat::stat_file(&file).map_err(fault)?.is_unchanged(&stat);
        let record = self.as_read(state.record, &stat, live && path.is_artifact(), &digest);
        if is_scratch(path.file_name()) {
            return Ok(());
        }
        self.keep(&record).map_err(ArchiveError::Write)
    }

    /// Returns a file with the content that it has in the archive.
    fn as_shown(&self, path: &RelPath, file: ExportedFile) -> Result<ExportedFile, StoreError> {
        let is_log = || path.to_text() == format!("{}/{}", layout::HISTORY, layout::MESSAGES);
        let Some(log) = self.log.filter(|_| is_log()) else { return Ok(file) };
        let opened = log.try_clone().and_then(|log| Ok((stat::stat_file(&log)?.size, log)));
        let opened = opened.map_err(|error| self.conversation.error_at("read", path, error));
        let (size, log) = opened?;
        Ok(ExportedFile { file: log, stat: Stat { size, ..file.stat }, ..file })
    }

    fn leave_out(&mut self, LeftOut { unread, unseen, gone }: LeftOut) {
        self.done.unread.extend(unread);
        self.done.unseen += unseen;
        self.done.gone += gone;
    }

    /// Writes a member with its content. Returns the digest. Without `counts` that is no progress.
    fn content(
        &mut self,
        member: &Member,
        path: &RelPath,
        input: impl Read,
        counts: bool,
    ) -> Result<String, ArchiveError> {
        let mut uncounted = |_: u64| ();
        let progress: &mut dyn FnMut(u64) =
            if counts { &mut *self.progress } else { &mut uncounted };
        let mut content = MemberContent::new(input, member.size, progress);
        let written = self.members.write(member, &mut content);
        match content.failed {
            Some(ReadFailure::Short) => return Err(ArchiveError::Cut { path: path.to_text() }),
            Some(ReadFailure::Disk(error)) => {
                return Err(self.conversation.error_at("read", path, error).into());
            }
            None => written.map_err(ArchiveError::Write)?,
        }
        let digest = content.hasher.finalize().to_hex();
        let name = self.members.name(path.as_os_str().as_bytes());
        self.digests.add(&name, &digest).map_err(ArchiveError::Write)?;
        self.done.files += 1;
        self.done.bytes += member.size;
        Ok(digest.to_string())
    }

    /// Returns the record of a file as of the moment it was read.
    fn as_read(&mut self, mut record: Record, stat: &Stat, live: bool, digest: &str) -> Record {
        let modified = stat.mtime.as_nanos();
        let speaks = (record.size, record.modified) == (stat.size, modified);
        let recorded = record.analysis.take().filter(|_| speaks);
        let differs = recorded.as_ref().is_some_and(|analysis| analysis.digest != digest);
        self.done.changed += u64::from(differs);
        self.done.incomplete += u64::from(live);
        if live {
            record.state = ArtifactState::Incomplete(WRITTEN.to_owned());
        }
        let analysis = recorded.filter(|_| !differs);
        record = Record { file: None, owner: None, far: None, ..record };
        Record { size: stat.size, modified, analysis, ..record }
    }

    fn keep(&mut self, record: &Record) -> io::Result<()> {
        serde_json::to_writer(&mut self.records, record)?;
        self.records.write_all(b"\n")
    }

    /// Writes the records of content that was removed by a rule.
    fn records_without_files(&mut self) -> Result<(), ArchiveError> {
        let records = match self.conversation.records() {
            Ok(records) => records,
            Err(error) => return Ok(self.conversation.pass_over(error, &mut self.done.unread)?),
        };
        for record in records {
            let record = record?;
            let Ok(path) = RelPath::from_text(&record.path) else { continue };
            let found = self.conversation.dir().stat_at(&path);
            let is_gone = found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
            let is_far = record.far.as_ref().is_some_and(|far| !far.here);
            if record.state != ArtifactState::Live && is_gone && !is_far {
                self.keep(&record).map_err(ArchiveError::Write)?;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Exported, ArchiveError> {
        self.records_without_files()?;
        let Self { mut members, mut digests, records, done, .. } = self;
        let end = || -> io::Result<()> {
            let mut records = records.into_inner().map_err(io::IntoInnerError::into_error)?;
            let length = records.stream_position()?;
            records.rewind()?;
            let digest = members.own(layout::MANIFEST, length, records)?;
            digests.add(&members.name(layout::MANIFEST.as_bytes()), &digest)?;
            let (digests, length) = digests.finish()?;
            members.own(DIGESTS, length, digests)?;
            members.finish()
        };
        end().map_err(ArchiveError::Write)?;
        Ok(done)
    }
}

/// Returns what was opened, or `None` if it is not there.
fn if_there<T>(opened: io::Result<T>) -> io::Result<Option<T>> {
    match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// A writer of the members of an archive.
struct MemberWriter<W: Write> {
    /// The id of the conversation, which begins the name of each member.
    top: Vec<u8>,
    tar: Builder<Encoder<'static, W>>,
}

impl<W: Write> MemberWriter<W> {
    fn new(conversation: &Conversation, out: W) -> io::Result<Self> {
        let mut encoder = Encoder::new(out, LEVEL)?;
        encoder.include_checksum(true)?;
        let top = conversation.id().as_os_str().as_bytes().to_vec();
        Ok(Self { top, tar: Builder::new(encoder) })
    }

    fn name(&self, path: &[u8]) -> Vec<u8> {
        [&self.top, &b"/"[..], path].concat()
    }

    fn write(&mut self, member: &Member, content: impl Read) -> io::Result<()> {
        member.write(&self.top, content, &mut self.tar)
    }

    /// Writes a file of the archive itself. Returns the digest.
    fn own(&mut self, name: &str, size: u64, content: impl Read) -> io::Result<String> {
        let member = Member {
            path: None,
            kind: FileType::File,
            size,
            mode: layout::FILE_MODE,
            modified: Time::default(),
            attributes: Vec::new(),
        };
        let mut content = HashingReader { content, hasher: blake3::Hasher::new() };
        member.write(&self.name(name.as_bytes()), &mut content, &mut self.tar)?;
        Ok(content.hasher.finalize().to_hex().to_string())
    }

    fn finish(self) -> io::Result<()> {
        self.tar.into_inner()?.finish()?.flush()
    }
}
