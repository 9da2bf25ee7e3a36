//! Copying from one open file to another without passing the bytes through the kernel.

use crate::{Fh, OpenMode, Result, Shared, far, io};
use ctxfs_engine::patience::allow_slow;

/// The most bytes that one call copies. The bound keeps the next request for the thread from
/// waiting long.
const MOST: u64 = 16 * 1024 * 1024;

/// A place in an open file.
#[derive(Debug, Clone, Copy)]
pub struct FilePosition {
    /// The file.
    pub fh: Fh,
    /// Bytes from its start.
    pub offset: u64,
}

pub(super) fn copy(
    fs: &Shared,
    from: FilePosition,
    to: FilePosition,
    length: u64,
    buffer: &mut [u8],
) -> Result<u32> {
    let most = length.min(MOST);
    let mut copied = 0;
    while copied < most {
        let size = buffer.len().min((most - copied) as usize);
        match copy_block(fs, from.after(copied), to.after(copied), &mut buffer[..size]) {
            Ok(0) => break,
            Ok(count) => copied += u64::from(count),
            Err(error) if copied == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(copied as u32)
}

fn copy_block(fs: &Shared, from: FilePosition, to: FilePosition, buffer: &mut [u8]) -> Result<u32> {
    // The kernel refuses to copy to a file that is open for append.
    let mode = OpenMode { flags: libc::O_WRONLY };
    let write = |bytes: &[u8]| match bytes {
        [] => Ok(0),
        bytes => io::write(fs, to.fh, to.offset, bytes, mode, None),
    };
    match io::read(fs, from.fh, from.offset, buffer, write) {
        // The bytes are elsewhere.
        Err(error) if error.is_slow() => {
            allow_slow()?;
            write(&far::read(fs, from.fh, from.offset, buffer.len())?)
        }
        copied => copied?,
    }
}

impl FilePosition {
    fn after(self, bytes: u64) -> Self {
        Self { offset: self.offset.saturating_add(bytes), ..self }
    }
}
