//! Copying from one open file to another, without the bytes passing through the kernel.

use crate::fs::ContextFs;
use crate::fs::Fh;
use crate::fs::OpenMode;
use crate::fs::Result;

/// Bytes that one call copies at most, so that whoever waits for its thread does not wait long.
const MOST: u64 = 16 * 1024 * 1024;

/// A place in an open file.
#[derive(Debug, Clone, Copy)]
pub struct FilePosition {
    /// The file.
    pub fh: Fh,
    /// Bytes from its start.
    pub offset: u64,
}

impl ContextFs {
    /// Copies up to `length` bytes, a `buffer` at a time, and says how many: fewer where `from`
    /// ends, past 16 MiB, and before an error that comes after the first bytes.
    ///
    /// Each buffer is one write like any other: its limits, and what becomes of the artifact, are
    /// those of [`ContextFs::write`].
    pub fn copy(
        &self,
        from: FilePosition,
        to: FilePosition,
        length: u64,
        buffer: &mut [u8],
    ) -> Result<u32> {
        let most = length.min(MOST);
        let mut copied = 0;
        while copied < most {
            let size = buffer.len().min((most - copied) as usize);
            match self.copy_block(from.after(copied), to.after(copied), &mut buffer[..size]) {
                Ok(0) => break,
                Ok(count) => copied += u64::from(count),
                Err(error) if copied == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(copied as u32)
    }

    fn copy_block(&self, from: FilePosition, to: FilePosition, buffer: &mut [u8]) -> Result<u32> {
        // The kernel copies to no file that is open for append.
        let mode = OpenMode { flags: libc::O_WRONLY };
        self.read(from.fh, from.offset, buffer, |bytes| match bytes {
            [] => Ok(0),
            bytes => self.write(to.fh, to.offset, bytes, mode),
        })?
    }
}

impl FilePosition {
    fn after(self, bytes: u64) -> Self {
        Self { offset: self.offset.saturating_add(bytes), ..self }
    }
}
