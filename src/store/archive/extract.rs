//! Reads the members of an untrusted archive and writes them to the disk.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, Read, Write as _};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::OFlags;
use tar::{Entry, EntryType};
use zstd::Decoder;

use crate::archive::format::{self, ATTRIBUTE, ArchiveMember};
use crate::archive::{BLOCK, MAX_HEADER, WINDOW_LOG};
use crate::{ArchiveError, ArchiveFlaw, Conversation, Dir, FileType, Time, attributes, layout};
use ctxfs_core::model::{Analysis, Record, RelPath, is_scratch};

const BATCH: usize = 256;
/// Maximum number of zero bytes after the last member. `tar` pads its last record.
const MAX_PADDING: usize = 64 * 1024;

pub(super) struct ImportWriter {
    conversation: Conversation,
    open: Vec<OpenDir>,
    last: Option<RelPath>,
    records: Vec<Record>,
    buffer: Vec<u8>,
    most: u64,
}

struct OpenDir {
    path: Option<RelPath>,
    mode: u32,
    modified: Time,
}

impl ImportWriter {
    pub(super) fn new(conversation: Conversation, most: u64) -> Self {
        let (open, last, records) = (Vec::new(), None, Vec::with_capacity(BATCH));
        Self { conversation, open, last, records, buffer: vec![0; BLOCK], most }
    }

    pub(super) fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// Adds the conversation's own directory. The mode in the archive is ignored: this directory
    /// always has the mode 0700.
    pub(super) fn add_top(&mut self, found: &ArchiveMember) -> Result<(), ArchiveError> {
        if !self.open.is_empty() {
            return Err(found.refused(ArchiveFlaw::Order));
        }
        let (mode, modified) = (layout::DIRECTORY_MODE, found.modified);
        self.open.push(OpenDir { path: None, mode, modified });
        Ok(())
    }

    pub(super) fn add_directory(
        &mut self,
        path: RelPath,
        found: &ArchiveMember,
    ) -> Result<(), ArchiveError> {
        let dir = self.enter_parent(&path, found)?;
        if self.open.len() > crate::walk::MAX_LEVELS {
            return Err(found.refused(ArchiveFlaw::Deep));
        }
        let made = dir.mkdir(path.file_name(), layout::DIRECTORY_MODE);
        made.map_err(|error| self.conversation.error_at("make", &path, error))?;
        let (mode, modified) = (found.mode, found.modified);
        self.open.push(OpenDir { path: Some(path), mode, modified });
        Ok(())
    }

    pub(super) fn add_file(
        &mut self,
        path: &RelPath,
        found: &ArchiveMember,
        content: &mut dyn Read,
    ) -> Result<String, ArchiveError> {
        let dir = self.enter_parent(path, found)?;
        let flags = OFlags::WRONLY | OFlags::EXCL;
        let file = dir.create_file(path.file_name(), flags, layout::FILE_MODE);
        let mut file = file.map_err(|error| self.conversation.error_at("make", path, error))?;
        let (digest, analysis) = self.content(path, &mut file, content)?;
        let finished = finish_file(&file, found).and_then(|()| crate::stat_file(&file));
        let stat = finished.map_err(|error| self.conversation.error_at("write", path, error))?;
        if !is_scratch(path.file_name()) {
            let file = Some(stat.local_file());
            let fresh = Conversation::fresh_record(path, &stat);
            self.records.push(Record { file, analysis, ..fresh });
        }
        if self.records.len() >= BATCH {
            self.write_records()?;
        }
        Ok(digest)
    }

    pub(super) fn write_records(&mut self) -> Result<(), ArchiveError> {
        self.conversation.manifest().append(&self.records)?;
        self.records.clear();
        Ok(())
    }

    pub(super) fn finish(&mut self) -> Result<(), ArchiveError> {
        self.conversation.manifest().compact()?;
        while let Some(dir) = self.open.pop() {
            self.finish_directory(&dir)?;
        }
        Ok(())
    }

    fn enter_parent(&mut self, path: &RelPath, found: &ArchiveMember) -> Result<Dir, ArchiveError> {
        if self.last.as_ref().is_some_and(|last| !is_before(last, path)) {
            return Err(found.refused(ArchiveFlaw::Order));
        }
        self.last = Some(path.clone());
        while let Some(dir) = self.open.pop_if(|dir| !holds(dir.path.as_ref(), path)) {
            self.finish_directory(&dir)?;
        }
        let within = self.open.last().map(|dir| dir.path.as_ref());
        let direct = within.is_some_and(|within| {
            RelPath::below(within, path.file_name()).is_ok_and(|direct| direct == *path)
        });
        let within = within.flatten().filter(|_| direct).cloned();
        if !direct {
            return Err(found.refused(ArchiveFlaw::NoDirectory));
        }
        let dir = self.conversation.dir();
        let dir = within.map_or_else(|| dir.try_clone(), |within| dir.open_dir_at(&within));
        Ok(dir.map_err(|error| self.conversation.error_at("open", path, error))?)
    }

    fn finish_directory(&self, dir: &OpenDir) -> Result<(), ArchiveError> {
        let conversation = self.conversation.dir();
        let Some(path) = &dir.path else {
            let set = attributes::set_mode_and_time(conversation, dir.mode, dir.modified);
            return set.map_err(|error| self.conversation.listing_error(error).into());
        };
        let set = conversation
            .open_dir_at(path)
            .and_then(|open| attributes::set_mode_and_time(&open, dir.mode, dir.modified));
        Ok(set.map_err(|error| self.conversation.error_at("change", path, error))?)
    }

    /// Copies the content to `file` and returns its digest. For an artifact, also analyses the
    /// bytes and returns the analysis. Does not trust what the archive says about the bytes.
    fn content(
        &mut self,
        path: &RelPath,
        file: &mut File,
        content: &mut dyn Read,
    ) -> Result<(String, Option<Analysis>), ArchiveError> {
        let mut hasher = blake3::Hasher::new();
        let mut analyzer = path.is_artifact().then(ctxfs_core::materialize::Analyzer::new);
        loop {
            let count = match content.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(read_error(error, self.most)),
            };
            let bytes = &self.buffer[..count];
            match &mut analyzer {
                Some(analyzer) => analyzer.push(bytes),
                None => drop(hasher.update(bytes)),
            }
            let written = file.write_all(bytes);
            written.map_err(|error| self.conversation.error_at("write", path, error))?;
        }
        let analysis = analyzer.map(|analyzer| analyzer.finish());
        let digest = analysis.as_ref().map(|analysis| analysis.digest.clone());
        Ok((digest.unwrap_or_else(|| hasher.finalize().to_hex().to_string()), analysis))
    }
}

fn finish_file(file: &File, found: &ArchiveMember) -> io::Result<()> {
    attributes::set_attributes(file, &found.attributes)?;
    attributes::set_mode_and_time(file, found.mode, found.modified)
}

/// Returns true if `path` is below the directory `dir`. `None` stands for the conversation's own
/// directory.
fn holds(dir: Option<&RelPath>, path: &RelPath) -> bool {
    dir.is_none_or(|dir| {
        let rest = path.as_os_str().as_bytes().strip_prefix(dir.as_os_str().as_bytes());
        rest.is_some_and(|rest| rest.starts_with(b"/"))
    })
}

/// Returns true if `a` comes before `b` in an archive. Archives are sorted by the bytes of the
/// names.
fn is_before(a: &RelPath, b: &RelPath) -> bool {
    let names = |path: &RelPath| -> Vec<Vec<u8>> {
        let bytes = OsStr::as_bytes(path.as_os_str());
        bytes.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect()
    };
    names(a) < names(b)
}

pub(super) struct Unpacked<R: BufRead> {
    decoder: Decoder<'static, R>,
    left: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("too many bytes")]
struct TooMany;

impl<R: BufRead> Unpacked<R> {
    pub(super) fn new(archive: R, most: u64) -> io::Result<Self> {
        let mut decoder = Decoder::with_buffer(archive)?.single_frame();
        decoder.window_log_max(WINDOW_LOG)?;
        Ok(Self { decoder, left: most })
    }

    /// Returns true if the rest of the tar stream consists of at most [`MAX_PADDING`] zeros and
    /// nothing follows the compressed data.
    pub(super) fn require_end(mut self) -> io::Result<bool> {
        let mut padding = Vec::new();
        self.by_ref().take(MAX_PADDING as u64 + 1).read_to_end(&mut padding)?;
        let is_padding = padding.len() <= MAX_PADDING && padding.iter().all(|byte| *byte == 0);
        Ok(is_padding && self.decoder.finish().fill_buf()?.is_empty())
    }
}

impl<R: BufRead> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.decoder.read(buffer)?;
        let left = self.left.checked_sub(count as u64);
        self.left = left.ok_or_else(|| io::Error::other(TooMany))?;
        Ok(count)
    }
}

pub(super) fn read_error(error: io::Error, most: u64) -> ArchiveError {
    match error.get_ref() {
        Some(inner) if inner.is::<TooMany>() => ArchiveError::TooLarge { most },
        _ => ArchiveError::Read(error),
    }
}

pub(super) enum ArchiveEntry {
    Extension(Vec<u8>),
    Member(ArchiveMember),
}

/// Reads the header of `entry`. `header` is the extended header that came before the entry. If the
/// result is a member, the caller must read its content next.
pub(super) fn read_entry<R: Read>(
    entry: &mut Entry<'_, R>,
    header: Option<Vec<u8>>,
) -> Result<ArchiveEntry, ArchiveError> {
    let shown = String::from_utf8_lossy(&entry.header().path_bytes()).into_owned();
    let refused = |flaw| ArchiveError::refused(shown.escape_debug().to_string(), flaw);
    let kind = match entry.header().entry_type() {
        EntryType::XHeader if header.is_none() && entry.size() <= MAX_HEADER => {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).map_err(ArchiveError::Read)?;
            return Ok(ArchiveEntry::Extension(bytes));
        }
        EntryType::XHeader => return Err(refused(ArchiveFlaw::Header)),
        EntryType::Regular => FileType::File,
        EntryType::Directory => FileType::Directory,
        _ => return Err(refused(ArchiveFlaw::Kind)),
    };
    let found = found(entry, kind, &header.unwrap_or_default());
    Ok(ArchiveEntry::Member(found.ok_or_else(|| refused(ArchiveFlaw::Header))?))
}

fn found<R: Read>(entry: &Entry<'_, R>, kind: FileType, header: &[u8]) -> Option<ArchiveMember> {
    let plain = entry.header();
    let seconds = i64::try_from(plain.mtime().ok()?).ok()?;
    let mut found = ArchiveMember {
        name: plain.path_bytes().into_owned(),
        kind,
        size: entry.size(),
        mode: plain.mode().ok()? & crate::far::MODE,
        modified: Time { seconds, nanos: 0 },
        attributes: Vec::new(),
    };
    for (key, value) in format::pax_records(header).ok()? {
        match key {
            "path" => found.name = value.to_vec(),
            "mtime" => found.modified = format::parse_time(value)?,
            key => {
                let name = key.strip_prefix(ATTRIBUTE).filter(|name| name.starts_with("user."))?;
                found.attributes.push((OsStr::new(name).to_owned(), value.to_vec()));
            }
        }
    }
    let is_empty = found.size == 0;
    (kind == FileType::File || is_empty).then_some(found)
}
