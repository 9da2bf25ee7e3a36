//! Reads, appends to and replaces plain files.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use rustix::fs::{OFlags, RenameFlags};
use rustix::io::{Errno, ReadWriteFlags};

use crate::{Dir, layout, stat_file};
use ctxfs_core::model::{Content, RelPath};

/// An artifact opened for reading. The artifact ends where the file ended at the time of opening.
///
/// Readers do not see bytes that a writer adds later. If the file is truncated after it was opened,
/// reads return fewer bytes.
#[derive(Debug, Clone)]
pub struct Artifact {
    file: Arc<File>,
    length: u64,
}

impl Artifact {
    /// Returns an artifact that consists of the first `length` bytes of `file`.
    pub fn new(file: Arc<File>, length: u64) -> Self {
        Self { file, length }
    }

    /// Opens the file at `path` in the conversation directory `dir`. Reads do not change the access
    /// time, and do not count as a use of the artifact.
    pub fn open(dir: &Dir, path: &RelPath) -> io::Result<Self> {
        let file = dir.open_file_at(path, OFlags::RDONLY | OFlags::NOATIME)?;
        let length = stat_file(&file)?.size;
        Ok(Self::new(Arc::new(file), length))
    }

    /// Returns the underlying file, which may be longer than the artifact.
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

/// Fills `buffer` with the bytes of `file` from `offset` on, and returns the number of bytes read.
/// The number is less than the length of `buffer` only if the file ends earlier.
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

/// Appends `bytes` to `file`. The kernel finds the end of the file and writes there in one step.
/// Other processes may therefore append at the same time.
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

/// Replaces the content of the file `name`. A reader of `name` sees either the old content or the
/// new one. If `syncs` is true, this holds even after a crash of the machine. Otherwise, such a
/// crash may lose both.
pub(super) fn replace_file(dir: &Dir, name: &OsStr, bytes: &[u8], syncs: bool) -> io::Result<()> {
    let temporary = layout::temporary();
    let temporary = OsStr::new(&temporary);
    let written = write_whole(dir, temporary, bytes, syncs)
        .and_then(|()| dir.rename(temporary, dir, name, RenameFlags::empty()));
    if written.is_err() {
        // The first failure is reported.
        let _removed = dir.unlink(temporary);
        return written;
    }
    if syncs { dir.sync() } else { Ok(()) }
}

fn write_whole(dir: &Dir, name: &OsStr, bytes: &[u8], syncs: bool) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::EXCL;
    let mut file = dir.create_file(name, flags, layout::FILE_MODE)?;
    file.write_all(bytes)?;
    if syncs { file.sync_all() } else { Ok(()) }
}

/// A file, and an analyzer of the bytes that are written through this value. Other bytes are not
/// analysed: bytes that the file already has, and bytes that are written in another way.
#[derive(Debug)]
#[expect(missing_docs, reason = "described above")]
pub struct AnalysedFile {
    pub file: File,
    pub analyzer: ctxfs_core::materialize::Analyzer,
}

impl Write for AnalysedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.analyzer.push(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
