//! An artifact opened for reading.

use std::fs::File;
use std::io;
use std::io::IoSlice;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::io::ReadWriteFlags;

use crate::model::Content;
use crate::model::RelPath;
use crate::store::dir::Dir;
use crate::store::stat;

/// An artifact opened for reading, of the length it had when it was opened.
///
/// Bytes that a writer adds later are not seen. Should the file be cut meanwhile, reads come back
/// short.
#[derive(Debug, Clone)]
pub struct Artifact {
    file: Arc<File>,
    length: u64,
}

impl Artifact {
    /// The first `length` bytes of `file`.
    pub fn new(file: Arc<File>, length: u64) -> Self {
        Self { file, length }
    }

    /// Opens the file at `path` below `dir`, which is a conversation's directory, for its writer: that
    /// one's reading does not count as a use.
    pub fn open(dir: &Dir, path: &RelPath) -> io::Result<Self> {
        let file = dir.open_file_at(path, OFlags::RDONLY | OFlags::NOATIME)?;
        let length = stat::stat_file(&file)?.size;
        Ok(Self::new(Arc::new(file), length))
    }

    /// The file itself.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }
}

impl Content for Artifact {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        read_full_at(&self.file, offset, &mut buffer[..wanted])
    }
}

/// Fills `buffer` from `offset` on. Fewer bytes come back only where the file ends.
pub fn read_full_at(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Appends whatever other processes do: the end is found and written to in one step.
pub fn append_all(file: &File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let slices = [IoSlice::new(bytes)];
        match rustix::io::pwritev2(file, &slices, 0, ReadWriteFlags::APPEND) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
