//! The parts of an archive: members, their pax headers, and the list of digests at the end.
//!
//! `tar::PaxExtensions` ends a record at a newline, but the arguments of a call may contain
//! newlines. This module therefore splits records by their length, as pax(1) specifies.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read, Seek as _, Write};

use bstr::ByteSlice as _;
use tar::{Builder, EntryType, Header};

use crate::archive::BLOCK;
use crate::{ArchiveError, ArchiveFlaw, FileType, Stat, Time};
use ctxfs_core::model::Content;

/// Maximum length of a name that fits into a plain header, in bytes.
const NAME_BYTES: usize = 100;
/// Prefix of the pax key for an extended attribute, as GNU tar and other programs write it.
pub(super) const ATTRIBUTE: &str = "SCHILY.xattr.";
const BILLION: i128 = 1_000_000_000;

/// A file or directory of an archive, without its content.
///
/// The name begins with the id of the conversation. The name of a directory ends with `/`. Only
/// attributes named `user.*` are included.
#[derive(Debug)]
pub(super) struct ArchiveMember {
    pub(super) name: Vec<u8>,
    pub(super) kind: FileType,
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) modified: Time,
    pub(super) attributes: Vec<(std::ffi::OsString, Vec<u8>)>,
}

impl ArchiveMember {
    pub(super) fn of(name: Vec<u8>, stat: &Stat) -> Self {
        let kind = stat.kind();
        let size = if kind == FileType::File { stat.size } else { 0 };
        let (mode, modified) = (stat.mode & crate::far::MODE, stat.mtime);
        Self { name, kind, size, mode, modified, attributes: Vec::new() }
    }

    pub(super) fn refused(&self, flaw: impl Into<ArchiveFlaw>) -> ArchiveError {
        let name = String::from_utf8_lossy(&self.name);
        ArchiveError::refused(name.escape_debug().to_string(), flaw)
    }

    /// Writes the member with `content`, which must have exactly the member's size.
    pub(super) fn write<W: Write>(
        &self,
        content: impl Read,
        tar: &mut Builder<W>,
    ) -> io::Result<()> {
        let time = print_time(self.modified);
        let mut more = vec![("mtime".to_owned(), time.as_bytes())];
        if self.name.len() > NAME_BYTES {
            more.push(("path".to_owned(), &self.name));
        }
        for (attribute, value) in &self.attributes {
            // ctxfs does not write an attribute with such a name, and pax cannot express it.
            let Some(attribute) = attribute.to_str() else { continue };
            more.push((format!("{ATTRIBUTE}{attribute}"), value));
        }
        tar.append_pax_extensions(more.iter().map(|(key, value)| (key.as_str(), *value)))?;
        tar.append(&self.header(), content)
    }

    fn header(&self) -> Header {
        let mut header = Header::new_ustar();
        let is_dir = self.kind == FileType::Directory;
        header.set_entry_type(if is_dir { EntryType::Directory } else { EntryType::Regular });
        header.set_mode(self.mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(self.size);
        header.set_mtime(u64::try_from(self.modified.seconds).unwrap_or(0));
        let shown = &self.name[..self.name.len().min(NAME_BYTES)];
        header.as_old_mut().name[..shown.len()].copy_from_slice(shown);
        header.set_cksum();
        header
    }
}

pub(super) fn pax_records(mut header: &[u8]) -> Result<Vec<(&str, &[u8])>, Damaged> {
    let mut found = Vec::new();
    while !header.is_empty() {
        let (record, rest) = first_record(header).ok_or(Damaged)?;
        found.push(record);
        header = rest;
    }
    Ok(found)
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Damaged;

type PaxRecord<'a> = (&'a str, &'a [u8]);

fn first_record(header: &[u8]) -> Option<(PaxRecord<'_>, &[u8])> {
    let blank = memchr::memchr(b' ', header)?;
    let length: usize = std::str::from_utf8(&header[..blank]).ok()?.parse().ok()?;
    let (record, rest) = header.split_at_checked(length)?;
    let record = record.strip_suffix(b"\n")?.get(blank + 1..)?;
    let equals = memchr::memchr(b'=', record)?;
    let key = std::str::from_utf8(&record[..equals]).ok()?;
    Some(((key, &record[equals + 1..]), rest))
}

fn print_time(time: Time) -> String {
    let nanos = i128::from(time.seconds) * BILLION + i128::from(time.nanos);
    let (sign, nanos) = (if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs());
    let (seconds, fraction) = (nanos / BILLION as u128, nanos % BILLION as u128);
    if fraction == 0 {
        return format!("{sign}{seconds}");
    }
    format!("{sign}{seconds}.{fraction:09}").trim_end_matches('0').to_owned()
}

pub(super) fn parse_time(text: &[u8]) -> Option<Time> {
    let text = std::str::from_utf8(text).ok()?;
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (seconds, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(seconds) || !is_number(fraction) || fraction.len() > 9 {
        return None;
    }
    let seconds: i64 = seconds.parse().ok()?;
    let fraction: i128 = format!("{fraction:0<9}").parse().ok()?;
    let nanos = i128::from(seconds) * BILLION + fraction;
    let nanos = if negative { -nanos } else { nanos };
    let seconds = i64::try_from(nanos.div_euclid(BILLION)).ok()?;
    Some(Time { seconds, nanos: nanos.rem_euclid(BILLION) as u32 })
}

pub(super) struct MemberContent<'a, R> {
    input: BufReader<io::Take<R>>,
    left: u64,
    pub(super) hasher: blake3::Hasher,
    progress: &'a mut dyn FnMut(u64),
    /// The reason why a read failed. It is stored here because `tar` wraps the errors of a reader.
    pub(super) failed: Option<ReadFailure>,
}

pub(super) enum ReadFailure {
    Short,
    Disk(io::Error),
}

impl<'a, R: Read> MemberContent<'a, R> {
    pub(super) fn new(input: R, length: u64, progress: &'a mut dyn FnMut(u64)) -> Self {
        let input = BufReader::with_capacity(BLOCK, input.take(length));
        Self { input, left: length, hasher: blake3::Hasher::new(), progress, failed: None }
    }
}

impl<R: Read> Read for MemberContent<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.input.read(buffer) {
            Ok(0) if self.left > 0 && !buffer.is_empty() => {
                self.failed = Some(ReadFailure::Short);
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            Ok(count) => {
                self.hasher.update(&buffer[..count]);
                self.left -= count as u64;
                (self.progress)(count as u64);
                Ok(count)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                self.failed = Some(ReadFailure::Disk(error));
                Err(io::ErrorKind::Other.into())
            }
        }
    }
}

pub(super) struct ContentReader<'a> {
    content: &'a dyn Content,
    offset: u64,
}

impl<'a> ContentReader<'a> {
    pub(super) fn new(content: &'a dyn Content) -> Self {
        Self { content, offset: 0 }
    }
}

impl Read for ContentReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read_at(self.offset, buffer)?;
        self.offset += count as u64;
        Ok(count)
    }
}

pub(super) struct HashingReader<R> {
    pub(super) content: R,
    pub(super) hasher: blake3::Hasher,
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        Ok(count)
    }
}

/// A list of digests, with a line `<64 hexadecimal digits>  <name>` for each file. The list is
/// stored in a file, because it may not fit into memory.
pub(super) struct DigestList(BufWriter<File>);

impl DigestList {
    pub(super) fn new(file: File) -> Self {
        Self(BufWriter::new(file))
    }

    pub(super) fn add(&mut self, name: &[u8], digest: &str) -> io::Result<()> {
        // b3sum marks and escapes a name with backslashes in the same way.
        let escaped = name.find_byte(b'\\').is_some();
        let mark = if escaped { "\\" } else { "" };
        write!(self.0, "{mark}{digest}  ")?;
        self.0.write_all(&name.replace("\\", "\\\\"))?;
        self.0.write_all(b"\n")
    }

    pub(super) fn finish(self) -> io::Result<(File, u64)> {
        let mut file = self.0.into_inner().map_err(io::IntoInnerError::into_error)?;
        let length = file.stream_position()?;
        file.rewind()?;
        Ok((file, length))
    }

    /// Compares this list with `list`, which comes from the archive. Fails if the lists differ. The
    /// error names the file of the first line that differs.
    pub(super) fn compare(self, list: &mut dyn Read) -> Result<(), ArchiveError> {
        let (own, length) = self.finish().map_err(ArchiveError::Read)?;
        let mut own = BufReader::with_capacity(BLOCK, own);
        let mut list = BufReader::with_capacity(BLOCK, list);
        let (mut line, mut other) = (Vec::new(), Vec::new());
        let mut compared = 0;
        while compared < length {
            line.clear();
            own.read_until(b'\n', &mut line).map_err(ArchiveError::Read)?;
            other.resize(line.len(), 0);
            let same = list.read_exact(&mut other).is_ok() && other == line;
            if !same {
                return Err(ArchiveError::refused(name_in(&line), ArchiveFlaw::Digest));
            }
            compared += line.len() as u64;
        }
        match list.read(&mut [0]).map_err(ArchiveError::Read)? {
            0 => Ok(()),
            _ => Err(ArchiveError::refused(super::DIGESTS, ArchiveFlaw::Digest)),
        }
    }
}

fn name_in(line: &[u8]) -> String {
    let name = line.find("  ").map_or(line, |at| &line[at + 2..]);
    String::from_utf8_lossy(name.trim_end()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_hold_newlines() {
        let header = b"19 a=two\nlines=yes\n6 b=c\n7 d=\0\n\n";
        let found = pax_records(header).unwrap();
        assert_eq!(found, [("a", &b"two\nlines=yes"[..]), ("b", b"c"), ("d", b"\0\n")]);
    }

    #[test]
    fn damaged_headers_are_seen() {
        for header in [
            &b"x"[..],
            b" a=b\n",
            b"6 a=b",
            b"7 a=b\n",
            b"5 a=b\n",
            b"99 a=b\n",
            b"-1 a=b\n",
            b"0 a=b\n",
            b"1 a=b\n",
            b"6 a b\n",
            b"18446744073709551616 a=b\n",
            b"6 \xff=b\n",
        ] {
            assert_eq!(
                pax_records(header),
                Err(Damaged),
                "{:?}",
                header.escape_ascii().to_string()
            );
        }
    }

    #[test]
    fn times_come_back() {
        for (seconds, nanos, text) in [
            (0, 0, "0"),
            (1_763_755_200, 250_000_000, "1763755200.25"),
            (1, 1, "1.000000001"),
            (-2, 500_000_000, "-1.5"),
            (-1, 0, "-1"),
        ] {
            let time = Time { seconds, nanos };
            assert_eq!(print_time(time), text);
            assert_eq!(parse_time(text.as_bytes()), Some(time));
        }
        for text in
            ["", "-", "1.", ".5", "1.0000000001", "1e3", "+1", "99999999999999999999", "\u{661}"]
        {
            assert_eq!(parse_time(text.as_bytes()), None, "{text}");
        }
    }
}
