//! Reading an artifact, and appending to a file.

use std::fs::File;
use std::io;
use std::io::IoSlice;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags};

use crate::dir::Dir;
use crate::stat;
use ctxfs_core::model::{Content, RelPath};

/// An artifact opened for reading, with the length it had when it was opened.
///
/// Readers do not see bytes that a writer adds later. If the file is truncated meanwhile, reads
/// come back short.
#[derive(Debug, Clone)]
pub struct Artifact {
    file: Arc<File>,
    length: u64,
}

impl Artifact {
    /// Returns the artifact of the first `length` bytes of `file`.
    pub fn new(file: Arc<File>, length: u64) -> Self {
        Self { file, length }
    }

    /// Opens the file at `path` below `dir`, the directory of a conversation, for its writer. Reads
    /// do not count as a use.
    pub fn open(dir: &Dir, path: &RelPath) -> io::Result<Self> {
        let file = dir.open_file_at(path, OFlags::RDONLY | OFlags::NOATIME)?;
        let length = stat::stat_file(&file)?.size;
        Ok(Self::new(Arc::new(file), length))
    }

    /// Returns the file.
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

/// Fills `buffer` with the bytes from `offset` on, and returns their number. It is less than the
/// length of `buffer` only if the file ends before.
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

/// Appends `bytes` to `file`. The kernel finds the end and writes there in one step, so other
/// processes may append at the same time.
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
