//! Writes a conversation to an archive.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek as _, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tar::Builder;
use zstd::Encoder;

use crate::archive::format::{ArchiveMember, DigestList, MemberContent, ReadFailure};
use crate::archive::{BLOCK, DESCRIPTION, DIGESTS, Description, FORMAT, LEVEL};
use crate::walk::{DirWalk, SkippedPlaces, WalkEntry};
use crate::{
    ArchiveError, Conversation, Dir, FarArtifact, FileType, Lease, Stat, StoreError, Time,
    UnreadPlaces, attributes, dir, if_there, layout, lease, read_full_at, stat_file,
};
use ctxfs_core::model::{ArtifactState, Component, Content, FarFile, FarStore, Record, RelPath};

const WRITTEN: &str = "it was still being written when it was exported";
const ARTIFACTS: &str = "artifacts";
/// No more fetches are tried once failing fetches have taken this long in total.
const MAX_FAILING: Duration = Duration::from_mins(1);
/// Maximum time that a single failing fetch adds to the total.
const MAX_OF_ONE: Duration = Duration::from_secs(30);
const ELSEWHERE: &str = "its bytes are in the bucket that hosts share, and no bucket is set here";
const UNTRIED: &str = "its bytes are in the bucket, which did not answer for others: not tried";
const LEFT: &str = "its bytes have left the bucket: `ctxfs remote check` tells what it lacks";
const OTHERS: &str = "the bytes that came are not those of its digest";
const NO_DIRECTORY: &str = "its directory is not there, or cannot be read";
const MAX_WAIT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);

/// Sources of an export in addition to the files of the conversation. With the default, the archive
/// has only the files on this disk.
///
/// If `log` is given, it replaces the file of the message log. `far` opens the artifacts whose
/// bytes are not on this disk.
#[derive(Debug, Clone, Copy, Default)]
#[expect(missing_docs, reason = "described above")]
pub struct ExportParts<'a> {
    pub log: Option<&'a File>,
    pub far: Option<&'a dyn FarStore>,
}

/// The content of an archive: the number of files and their total size in bytes.
///
/// `incomplete` counts artifacts that were still being written. The archive has the bytes written
/// up to the export, marked incomplete. `changed` counts artifacts whose content differs from the
/// digest in their record.
///
/// The other fields describe places that are not in the archive. `unread` are the places that could
/// not be read, by path in the conversation. `elsewhere` is the number of places in `unread` that
/// are artifacts in the bucket. `unseen` counts links, special files and invalid names, which
/// readers of the tree do not see. `gone` counts files and directories that were removed or renamed
/// during the export.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct Exported {
    pub files: u64,
    pub bytes: u64,
    pub incomplete: u64,
    pub changed: u64,
    pub unread: UnreadPlaces,
    pub elsewhere: u64,
    pub unseen: u64,
    pub gone: u64,
}

/// Returns the total size in bytes of all files of a conversation, including artifacts in the
/// bucket. The sum of the numbers that [`export`] passes to `progress` is about as large.
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
    Ok(here.saturating_add(far_bytes(conversation)))
}

/// Writes all files of a conversation to `out` as a single archive. After each read, calls
/// `progress` with the number of bytes read.
///
/// Each file is archived with the length that it had when it was opened. An artifact that is being
/// written is marked incomplete. A place that cannot be read is left out and reported. The names in
/// the directories on the current path are held in memory, and everything else in temporary files.
///
/// An artifact whose bytes are only in the bucket is read twice. The first read checks the recorded
/// digest before the member begins, because a member that has begun cannot be removed from the
/// archive.
pub fn export(
    conversation: &Conversation,
    parts: ExportParts<'_>,
    out: impl Write,
    progress: &mut dyn FnMut(u64),
) -> Result<Exported, ArchiveError> {
    let mut export =
        Export::new(conversation, parts, out, progress).map_err(ArchiveError::Write)?;
    export.write_description().map_err(ArchiveError::Write)?;
    export.write_directory(None, conversation.dir().stat_self())?;
    // The far artifacts are listed before the names are read, because an artifact may be fetched in
    // between.
    export.expect_far(None)?;
    let fault = |error| conversation.listing_error(error);
    let mut walk = walk(conversation).map_err(fault)?;
    while let Some(found) = walk.next().map_err(fault)? {
        export.write_far_before(Some(&found.path))?;
        match found.kind {
            FileType::Directory => {
                export.write_directory(Some(found.path.clone()), walk.stat_dir())?;
                export.expect_far(Some(&found.path))?;
            }
            FileType::File | FileType::Other => export.write_found(&mut walk, &found)?,
        }
    }
    export.write_far_before(None)?;
    export.report_skipped(walk.finish());
    export.finish()
}

fn walk(conversation: &Conversation) -> io::Result<DirWalk<impl FnMut(&Dir) -> io::Result<bool>>> {
    let walk = DirWalk::new(conversation.dir().try_clone()?, None, |_: &Dir| Ok(true))?;
    Ok(walk.without(layout::is_bookkeeping))
}

struct Export<'a, W: Write> {
    conversation: &'a Conversation,
    log: Option<&'a File>,
    /// Paths of the far artifacts that are not written yet, in the order of the walk.
    far: BTreeSet<PathBuf>,
    fetching: Fetching<'a>,
    last_dir: Option<RelPath>,
    members: MemberWriter<W>,
    digests: DigestList,
    records: BufWriter<File>,
    progress: &'a mut dyn FnMut(u64),
    /// Remaining time to wait for files that were closed a moment ago. A server needs some time to
    /// notice that a file was closed and to record that it is complete.
    wait_left: Duration,
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
            far: BTreeSet::new(),
            fetching: Fetching { store: parts.far, failing: Duration::ZERO },
            last_dir: None,
            members: MemberWriter::new(conversation, out)?,
            digests: DigestList::new(tempfile::tempfile()?),
            records: BufWriter::new(tempfile::tempfile()?),
            progress,
            wait_left: MAX_WAIT,
            done: Exported::default(),
        })
    }

    fn write_description(&mut self) -> io::Result<()> {
        let conversation = self.conversation.id().to_text();
        let mut line = serde_json::to_vec(&Description { format: FORMAT, conversation })?;
        line.push(b'\n');
        let digest = self.members.write_own(DESCRIPTION, line.len() as u64, &*line)?;
        self.digests.add(&self.members.name(DESCRIPTION.as_bytes()), &digest)
    }

    fn write_directory(
        &mut self,
        path: Option<RelPath>,
        stat: io::Result<Stat>,
    ) -> Result<(), ArchiveError> {
        let stat = stat.map_err(|error| self.conversation.listing_error(error))?;
        self.last_dir.clone_from(&path);
        let name = path.map_or_else(Vec::new, |path| [path.as_os_str().as_bytes(), b"/"].concat());
        let member = ArchiveMember::of(self.members.name(&name), &stat);
        member.write(io::empty(), &mut self.members.tar).map_err(ArchiveError::Write)
    }

    fn write_found(
        &mut self,
        walk: &mut DirWalk<impl FnMut(&Dir) -> io::Result<bool>>,
        found: &WalkEntry,
    ) -> Result<(), ArchiveError> {
        let (conversation, path) = (self.conversation, &found.path);
        loop {
            let opened = walk.with(found, |dir, name| if_there(ExportedFile::open(dir, name)));
            let Some(opened) = opened.map_err(|error| conversation.listing_error(error))? else {
                return Ok(());
            };
            // The file may have been evicted since the names were read.
            let Some(file) = opened else { return self.write_without_file(path) };
            let state = FileState::of(conversation, path, &file);
            let waits = state.as_ref().is_ok_and(|state| state.is_live);
            if !waits || !self.pause() {
                return self.write_file(path, file, state);
            }
        }
    }

    /// Waits a little for a writer. Returns false without waiting if no time is left.
    fn pause(&mut self) -> bool {
        let Some(left) = self.wait_left.checked_sub(PAUSE) else { return false };
        self.wait_left = left;
        std::thread::sleep(PAUSE);
        true
    }

    fn write_file(
        &mut self,
        path: &RelPath,
        file: ExportedFile,
        state: Result<FileState, StoreError>,
    ) -> Result<(), ArchiveError> {
        let conversation = self.conversation;
        let state = state.or_else(|error| -> Result<_, StoreError> {
            self.done.unread.pass_over(conversation.path(), error)?;
            Ok(FileState::unrecorded(path, &file))
        })?;
        let ExportedFile { file, stat, attributes } = self.with_shown_log(path, file)?;
        let name = self.members.name(path.as_os_str().as_bytes());
        let member = ArchiveMember { attributes, ..ArchiveMember::of(name, &stat) };
        let digest = self.write_content(&member, path, &file, true)?;
        let fault = |error| conversation.error_at("read", path, error);
        let live = state.is_live || !stat_file(&file).map_err(fault)?.is_unchanged(&stat);
        let record = self.record_as_read(state.record, &stat, live && path.is_artifact(), &digest);
        if ctxfs_core::model::is_scratch(path.file_name()) {
            return Ok(());
        }
        self.keep_record(&record).map_err(ArchiveError::Write)
    }

    fn with_shown_log(
        &self,
        path: &RelPath,
        file: ExportedFile,
    ) -> Result<ExportedFile, StoreError> {
        let is_log = || path.to_text() == format!("{}/{}", layout::HISTORY, layout::MESSAGES);
        let Some(log) = self.log.filter(|_| is_log()) else { return Ok(file) };
        let opened = log.try_clone().and_then(|log| Ok((stat_file(&log)?.size, log)));
        let opened = opened.map_err(|error| self.conversation.error_at("read", path, error));
        let (size, log) = opened?;
        Ok(ExportedFile { file: log, stat: Stat { size, ..file.stat }, ..file })
    }

    fn report_skipped(&mut self, SkippedPlaces { unread, unseen, gone }: SkippedPlaces) {
        self.done.unread.extend(unread);
        self.done.unseen += unseen;
        self.done.gone += gone;
    }

    fn write_content(
        &mut self,
        member: &ArchiveMember,
        path: &RelPath,
        input: impl Read,
        counts: bool,
    ) -> Result<String, ArchiveError> {
        let mut uncounted = |_: u64| ();
        let progress: &mut dyn FnMut(u64) =
            if counts { &mut *self.progress } else { &mut uncounted };
        let mut content = MemberContent::new(input, member.size, progress);
        let written = member.write(&mut content, &mut self.members.tar);
        match content.failed {
            Some(ReadFailure::Short) => return Err(ArchiveError::Cut { path: path.to_text() }),
            Some(ReadFailure::Disk(error)) => {
                return Err(self.conversation.error_at("read", path, error).into());
            }
            None => written.map_err(ArchiveError::Write)?,
        }
        let digest = content.hasher.finalize().to_hex();
        self.digests.add(&member.name, &digest).map_err(ArchiveError::Write)?;
        self.done.files += 1;
        self.done.bytes += member.size;
        Ok(digest.to_string())
    }

    fn record_as_read(
        &mut self,
        mut record: Record,
        stat: &Stat,
        live: bool,
        digest: &str,
    ) -> Record {
        let matches = stat.matches(&record);
        let recorded = record.analysis.take().filter(|_| matches);
        let differs = recorded.as_ref().is_some_and(|analysis| analysis.digest != digest);
        self.done.changed += u64::from(differs);
        self.done.incomplete += u64::from(live);
        if live {
            record.state = ArtifactState::Incomplete(WRITTEN.to_owned());
        }
        let analysis = recorded.filter(|_| !differs);
        record = Record { file: None, owner: None, far: None, ..record };
        Record { size: stat.size, modified: stat.mtime.as_nanos(), analysis, ..record }
    }

    fn keep_record(&mut self, record: &Record) -> io::Result<()> {
        serde_json::to_writer(&mut self.records, record)?;
        self.records.write_all(b"\n")
    }

    fn keep_records_without_files(&mut self) -> Result<(), ArchiveError> {
        let records = match self.conversation.records() {
            Ok(records) => records,
            Err(error) => {
                return Ok(self.done.unread.pass_over(self.conversation.path(), error)?);
            }
        };
        for record in records {
            let record = record?;
            let Ok(path) = RelPath::from_text(&record.path) else { continue };
            let found = self.conversation.dir().stat_at(&path);
            let is_gone = found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
            let is_far = record.far.as_ref().is_some_and(|far| !far.here);
            if record.state != ArtifactState::Live && is_gone && !is_far {
                self.keep_record(&record).map_err(ArchiveError::Write)?;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Exported, ArchiveError> {
        self.keep_records_without_files()?;
        let Self { mut members, mut digests, records, done, .. } = self;
        let end = || -> io::Result<()> {
            let mut records = records.into_inner().map_err(io::IntoInnerError::into_error)?;
            let length = records.stream_position()?;
            records.rewind()?;
            let digest = members.write_own(layout::MANIFEST, length, records)?;
            digests.add(&members.name(layout::MANIFEST.as_bytes()), &digest)?;
            let (digests, length) = digests.finish()?;
            members.write_own(DIGESTS, length, digests)?;
            members.finish()
        };
        end().map_err(ArchiveError::Write)?;
        Ok(done)
    }
}

struct MemberWriter<W: Write> {
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

    fn write_own(&mut self, name: &str, size: u64, content: impl Read) -> io::Result<String> {
        let member = ArchiveMember {
            name: self.name(name.as_bytes()),
            kind: FileType::File,
            size,
            mode: layout::FILE_MODE,
            modified: Time::default(),
            attributes: Vec::new(),
        };
        let mut content =
            crate::archive::format::HashingReader { content, hasher: blake3::Hasher::new() };
        member.write(&mut content, &mut self.tar)?;
        Ok(content.hasher.finalize().to_hex().to_string())
    }

    fn finish(self) -> io::Result<()> {
        self.tar.into_inner()?.finish()?.flush()
    }
}

#[derive(Debug)]
struct Fetching<'a> {
    store: Option<&'a dyn FarStore>,
    failing: Duration,
}

impl Fetching<'_> {
    /// Opens an artifact and reads all of it once, to detect a failure before its member begins.
    /// Fails at once if earlier fetches failed for a minute in total.
    fn fetch(
        &mut self,
        conversation: &Component,
        artifact: &FarArtifact,
        progress: &mut dyn FnMut(u64),
    ) -> io::Result<FarFile> {
        let store = self.store.ok_or_else(|| io::Error::other(ELSEWHERE))?;
        if self.failing >= MAX_FAILING {
            return Err(io::Error::other(UNTRIED));
        }
        let start = Instant::now();
        let opened = store.open(conversation, &artifact.record);
        let checked = opened.and_then(|file| {
            check(&*file.content, artifact, progress)?;
            Ok(file)
        });
        if checked.is_err() {
            self.failing += start.elapsed().min(MAX_OF_ONE);
        }
        checked.map_err(|error| match error.raw_os_error() {
            Some(libc::ESTALE) => io::Error::other(LEFT),
            _ => error,
        })
    }
}

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
    let is_it = artifact.record.digest() == Some(hasher.finalize().to_hex().as_str());
    if is_it && offset == artifact.stat.size { Ok(()) } else { Err(io::Error::other(OTHERS)) }
}

/// Returns the sum of the sizes of the far artifacts of a conversation. Artifacts whose records
/// cannot be read are left out.
fn far_bytes(conversation: &Conversation) -> u64 {
    let sizes = conversation.each_far(None).map(|each| {
        each.filter_map(Result::ok).fold(0, |sum: u64, far| sum.saturating_add(far.stat.size))
    });
    sizes.unwrap_or_default()
}

impl<W: Write> Export<'_, W> {
    /// Adds the far artifacts of the directory `dir` to the paths that are still to be written. If
    /// `dir` is `None`, adds those of the whole conversation.
    ///
    /// An artifact may be fetched or evicted during the export. To find it in any case, the caller
    /// must call this for the whole conversation before any names are read, and again for each
    /// directory after its names are read.
    fn expect_far(&mut self, dir: Option<&RelPath>) -> Result<(), StoreError> {
        if dir.is_some_and(|dir| !Path::new(dir.as_os_str()).starts_with(ARTIFACTS)) {
            return Ok(());
        }
        let added = self.add_far(dir);
        added.or_else(|error| self.done.unread.pass_over(self.conversation.path(), error))
    }

    fn add_far(&mut self, dir: Option<&RelPath>) -> Result<(), StoreError> {
        let conversation = self.conversation;
        for artifact in conversation.each_far(dir)? {
            self.far.insert(PathBuf::from(artifact?.path.as_os_str()));
        }
        Ok(())
    }

    fn write_far_before(&mut self, path: Option<&RelPath>) -> Result<(), ArchiveError> {
        while let Some(next) = self.take_far_before(path) {
            self.write_without_file(&next)?;
        }
        Ok(())
    }

    /// Takes the next far path that must be written before the walk writes `path`. If `path` is
    /// `None`, takes the next of all remaining paths. Also forgets `path` itself, because the walk
    /// has found its file.
    fn take_far_before(&mut self, path: Option<&RelPath>) -> Option<RelPath> {
        if let Some(path) = path {
            let path = Path::new(path.as_os_str());
            self.far.remove(path);
            self.far.first().filter(|first| first.as_path() < path)?;
        }
        self.far.pop_first().and_then(|first| RelPath::new(first).ok())
    }

    /// Writes an artifact that the walk did not find as a file, or whose file has been removed
    /// since. By now, the artifact may be a file, far, or gone.
    fn write_without_file(&mut self, path: &RelPath) -> Result<(), ArchiveError> {
        if !self.has_directory_of(path) {
            self.done.unread.add(path.to_text(), NO_DIRECTORY);
            return Ok(());
        }
        let conversation = self.conversation;
        let found = self.open_if_there(path).and_then(|file| match file {
            Some(file) => Ok((Some(file), None)),
            None => Ok((None, conversation.far(path)?)),
        });
        match found {
            Ok((Some(file), _)) => {
                let state = FileState::of(conversation, path, &file);
                self.write_file(path, file, state)
            }
            Ok((None, Some(artifact))) => self.write_far(&artifact),
            Ok((None, None)) => {
                self.done.gone += 1;
                Ok(())
            }
            Err(error) => Ok(self.done.unread.pass_over(conversation.path(), error)?),
        }
    }

    fn has_directory_of(&self, path: &RelPath) -> bool {
        let Some(parent) = path.parent() else { return true };
        let last = self.last_dir.as_ref();
        last.is_some_and(|last| Path::new(last.as_os_str()).starts_with(parent.as_os_str()))
    }

    fn open_if_there(&self, path: &RelPath) -> Result<Option<ExportedFile>, StoreError> {
        let dir = dir::parent_dir(self.conversation.dir(), path);
        let opened = dir.and_then(|dir| ExportedFile::open(&dir, path.file_name()));
        if_there(opened).map_err(|error| self.conversation.error_at("read", path, error))
    }

    fn write_far(&mut self, artifact: &FarArtifact) -> Result<(), ArchiveError> {
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
        let attributes = attributes::users_among(&file.attributes);
        let name = self.members.name(path.as_os_str().as_bytes());
        let member = ArchiveMember { attributes, ..ArchiveMember::of(name, stat) };
        let reader = crate::archive::format::ContentReader::new(&*file.content);
        let digest = self.write_content(&member, path, reader, false)?;
        let record = self.record_as_read(record.clone(), stat, false, &digest);
        self.keep_record(&record).map_err(ArchiveError::Write)
    }
}

struct ExportedFile {
    file: File,
    stat: Stat,
    attributes: Vec<(OsString, Vec<u8>)>,
}

impl ExportedFile {
    /// Opens a file and reads one byte of it, to detect an unreadable file before its member
    /// begins.
    fn open(dir: &Dir, name: &OsStr) -> io::Result<Self> {
        let file = dir.open_file(name, rustix::fs::OFlags::RDONLY)?;
        read_full_at(&file, 0, &mut [0])?;
        let (stat, attributes) = (stat_file(&file)?, attributes::user_attributes(&file)?);
        Ok(Self { file, stat, attributes })
    }

    fn has_writer(&self) -> bool {
        lease::settled_lease(&self.file) == Lease::Held
    }
}

struct FileState {
    record: Record,
    is_live: bool,
}

impl FileState {
    /// Returns the state of a file. Recovers an artifact whose writer ended without sealing it.
    fn of(
        conversation: &Conversation,
        path: &RelPath,
        file: &ExportedFile,
    ) -> Result<Self, StoreError> {
        conversation.recover(path, None)?;
        let record = conversation.record_for(path, &file.stat)?;
        let is_live = record.state == ArtifactState::Live || file.has_writer();
        Ok(Self { record, is_live })
    }

    fn unrecorded(path: &RelPath, file: &ExportedFile) -> Self {
        let record = Conversation::fresh_record(path, &file.stat);
        Self { record, is_live: file.has_writer() }
    }
}

#[cfg(test)]
mod tests;
