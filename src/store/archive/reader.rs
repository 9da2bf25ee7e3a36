//! Reading the bytes and headers of an archive that is not trusted.

use std::ffi::{OsStr, OsString};
use std::io;
use std::io::{BufRead, Read};
use std::os::unix::ffi::OsStrExt as _;

use tar::{Entry, EntryType};
use zstd::Decoder;

use crate::archive::member::{ATTRIBUTE, MODE};
use crate::archive::{ArchiveError, Flaw, MOST_HEADER, WINDOW_LOG, pax};
use crate::stat::{FileType, Time};

/// The most zeros that may follow the last member. `tar` pads its last record.
const MOST_PADDING: usize = 64 * 1024;

/// The decompressed bytes of an archive, up to a bound.
pub(super) struct Unpacked<R: BufRead> {
    decoder: Decoder<'static, R>,
    left: u64,
}

/// The error of an archive that passes the bound.
#[derive(Debug, thiserror::Error)]
#[error("too many bytes")]
struct TooMany;

impl<R: BufRead> Unpacked<R> {
    pub(super) fn new(archive: R, most: u64) -> io::Result<Self> {
        let mut decoder = Decoder::with_buffer(archive)?.single_frame();
        decoder.window_log_max(WINDOW_LOG)?;
        Ok(Self { decoder, left: most })
    }

    /// Returns true if only zeros are left, and nothing follows the compressed bytes.
    pub(super) fn require_end(mut self) -> io::Result<bool> {
        let mut padding = Vec::new();
        self.by_ref().take(MOST_PADDING as u64 + 1).read_to_end(&mut padding)?;
        let is_padding = padding.len() <= MOST_PADDING && padding.iter().all(|byte| *byte == 0);
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

/// Turns an error of reading an archive of at most `most` bytes into one for users.
pub(super) fn read_error(error: io::Error, most: u64) -> ArchiveError {
    match error.get_ref() {
        Some(inner) if inner.is::<TooMany>() => ArchiveError::TooLarge { most },
        _ => ArchiveError::Read(error),
    }
}

/// The description of a member, from its header and the extended header before it.
#[derive(Debug)]
pub(super) struct MemberHeader {
    pub(super) name: Vec<u8>,
    pub(super) kind: FileType,
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) modified: Time,
    pub(super) attributes: Vec<(OsString, Vec<u8>)>,
}

/// An entry of the tar file.
pub(super) enum ArchiveEntry {
    /// An extended header for the member that follows.
    Extension(Vec<u8>),
    /// A member, whose content must be read next.
    Member(MemberHeader),
}

/// Reads the header of `entry`, with the extended header that came before it.
pub(super) fn read_entry<R: Read>(
    entry: &mut Entry<'_, R>,
    header: Option<Vec<u8>>,
) -> Result<ArchiveEntry, ArchiveError> {
    let shown = String::from_utf8_lossy(&entry.header().path_bytes()).into_owned();
    let refused = |flaw| ArchiveError::refused(shown.escape_debug().to_string(), flaw);
    let kind = match entry.header().entry_type() {
        EntryType::XHeader if header.is_none() && entry.size() <= MOST_HEADER => {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).map_err(ArchiveError::Read)?;
            return Ok(ArchiveEntry::Extension(bytes));
        }
        EntryType::XHeader => return Err(refused(Flaw::Header)),
        EntryType::Regular => FileType::File,
        EntryType::Directory => FileType::Directory,
        _ => return Err(refused(Flaw::Kind)),
    };
    let found = found(entry, kind, &header.unwrap_or_default());
    Ok(ArchiveEntry::Member(found.ok_or_else(|| refused(Flaw::Header))?))
}

fn found<R: Read>(entry: &Entry<'_, R>, kind: FileType, header: &[u8]) -> Option<MemberHeader> {
    let plain = entry.header();
    let seconds = i64::try_from(plain.mtime().ok()?).ok()?;
    let mut found = MemberHeader {
        name: plain.path_bytes().into_owned(),
        kind,
        size: entry.size(),
        mode: plain.mode().ok()? & MODE,
        modified: Time { seconds, nanos: 0 },
        attributes: Vec::new(),
    };
    for (key, value) in pax::records(header).ok()? {
        match key {
            "path" => found.name = value.to_vec(),
            "mtime" => found.modified = pax::parse_time(value)?,
            key => {
                let name = key.strip_prefix(ATTRIBUTE).filter(|name| name.starts_with("user."))?;
                found.attributes.push((OsStr::new(name).to_owned(), value.to_vec()));
            }
        }
    }
    let is_empty = found.size == 0;
    (kind == FileType::File || is_empty).then_some(found)
}

impl MemberHeader {
    /// Returns the name as text, for error messages.
    pub(super) fn shown(&self) -> String {
        OsStr::from_bytes(&self.name).to_string_lossy().escape_debug().to_string()
    }

    /// Returns the error that refuses the archive for `flaw` of this member.
    pub(super) fn refused(&self, flaw: impl Into<Flaw>) -> ArchiveError {
        ArchiveError::refused(self.shown(), flaw)
    }
}
