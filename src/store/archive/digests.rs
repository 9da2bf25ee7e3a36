//! The list of digests at the end of an archive: `<64 hexadecimal digits>  <name>`, a line a file.

use std::fs::File;
use std::io;
use std::io::{BufRead as _, BufReader, BufWriter, Read, Seek as _, Write as _};

use bstr::ByteSlice as _;

use crate::archive::{ArchiveError, BLOCK, Flaw};

/// A list of digests that is being written to a file, as it may not fit into memory.
pub(super) struct Digests(BufWriter<File>);

impl Digests {
    /// Creates a list in the empty file `file`.
    pub(super) fn new(file: File) -> Self {
        Self(BufWriter::new(file))
    }

    /// Adds a file of the archive by its name there, with its digest in hexadecimal digits.
    pub(super) fn add(&mut self, name: &[u8], digest: &str) -> io::Result<()> {
        // The notation of b3sum for a name with backslashes.
        let escaped = name.find_byte(b'\\').is_some();
        let mark = if escaped { "\\" } else { "" };
        write!(self.0, "{mark}{digest}  ")?;
        self.0.write_all(&name.replace("\\", "\\\\"))?;
        self.0.write_all(b"\n")
    }

    /// Returns the list, at its beginning, and its length.
    pub(super) fn finish(self) -> io::Result<(File, u64)> {
        let mut file = self.0.into_inner().map_err(io::IntoInnerError::into_error)?;
        let length = file.stream_position()?;
        file.rewind()?;
        Ok((file, length))
    }

    /// Compares this list with `list`, the one in the archive. They must be equal, so the first
    /// line that differs names the file that is wrong.
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
                return Err(ArchiveError::refused(name_in(&line), Flaw::Digest));
            }
            compared += line.len() as u64;
        }
        match list.read(&mut [0]).map_err(ArchiveError::Read)? {
            0 => Ok(()),
            _ => Err(ArchiveError::refused(super::DIGESTS, Flaw::Digest)),
        }
    }
}

fn name_in(line: &[u8]) -> String {
    let name = line.find("  ").map_or(line, |at| &line[at + 2..]);
    String::from_utf8_lossy(name.trim_end()).into_owned()
}
