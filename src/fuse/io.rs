//! Reading, writing, copying, seeking and preallocation in open files.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, SeekFrom};

use crate::{
    ContextFs, Fh, FileHandle, FileNode, Flush, FsError, Handle, OpenMode, Result, SealJob, Shared,
    message_log, remote,
};
use ctxfs_core::model::Content as _;
use ctxfs_engine::patience::allow_slow;
use ctxfs_engine::sync::atomic::Ordering::Relaxed;
use ctxfs_engine::{
    DoorFile as _, EngineError, FileLife as _, Freed, Growth, PlannedWrite, reason_of_loss,
};
use ctxfs_store::{append_all, read_full_at, stat_file};

const OTHER_WHENCE: FsError = FsError::Invalid("a whence that the kernel keeps to itself");
/// Number of bytes by which a live artifact may grow before its analysis continues. The number is
/// large enough not to disturb small writers, and small enough that the analysis of a large
/// artifact ends soon after the last write.
const AHEAD: u64 = 1024 * 1024;

impl ContextFs {
    /// Reads `buffer.len()` bytes from `offset`, or fewer at the end of the file. Calls `take` with
    /// the bytes.
    pub fn read<T>(
        &self,
        fh: Fh,
        offset: u64,
        buffer: &mut [u8],
        take: impl FnOnce(&[u8]) -> T,
    ) -> Result<T> {
        let fs = &self.0;
        match fs.handles.get(fh)? {
            Handle::Computed(open) => {
                open.note_read(offset.saturating_add(buffer.len() as u64));
                Ok(open.text.read(offset, buffer.len(), take)?)
            }
            Handle::Listing(_) => Err(FsError::IsADirectory),
            Handle::Remote(open) => {
                // The read may wait for the network; see `ContextFs::read_far`.
                let here = open.local.get().ok_or(EngineError::Slow)?;
                let count = read_full_at(here, offset, buffer)?;
                Ok(take(&buffer[..count]))
            }
            Handle::File(handle) => {
                let count = if handle.node.is_message_log() {
                    message_log::log(fs, &handle)?.read_at(offset, buffer)?
                } else {
                    read_full_at(&handle.file, offset, buffer)?
                };
                Ok(take(&buffer[..count]))
            }
        }
    }

    /// Writes all `bytes` at `offset`, or at the end of the file if `mode` appends. Returns the
    /// number of bytes. `mode` is the current mode of the open file. `owner` identifies the table
    /// of open files that holds the descriptor, if known.
    ///
    /// If a write fails because the disk is full or a limit is reached, the artifact is later
    /// sealed as incomplete.
    pub fn write(
        &self,
        fh: Fh,
        offset: u64,
        bytes: &[u8],
        mode: OpenMode,
        owner: Option<u64>,
    ) -> Result<u32> {
        let fs = &self.0;
        let handle = fs.handles.file(fh)?;
        if !handle.writes {
            return Err(FsError::WrongMode);
        }
        if handle.is_log || handle.node.is_message_log() {
            message_log::write(fs, &handle, offset, bytes, mode, owner)?;
        } else {
            let file = handle.node.as_file()?;
            let written = write_file(fs, &handle, file, offset, bytes, mode);
            let end = written.inspect_err(|error| note_trouble(file, error))?;
            if end % AHEAD < bytes.len() as u64 {
                fs.sealer.submit(SealJob::Follow(Arc::clone(&handle.node)));
            }
        }
        fs.counters.bytes_written.fetch_add(bytes.len() as u64, Relaxed);
        Ok(bytes.len() as u32)
    }

    pub fn fallocate(&self, fh: Fh, offset: u64, length: u64, mode: i32) -> Result<()> {
        let fs = &self.0;
        let handle = fs.handles.file(fh)?;
        let flags = FallocateFlags::from_bits_retain(mode as u32);
        if handle.node.is_message_log() || !KNOWN.contains(flags) {
            return Err(FsError::Unsupported);
        }
        let (file, open) = (handle.node.as_file()?, &handle.file);
        let punches = flags.contains(FallocateFlags::PUNCH_HOLE);
        let write = PlannedWrite { file: &**file, open, offset: Some(offset), length };
        let _room = if punches {
            None
        } else {
            check_can_be_counted(fs, &write, flags)?;
            Some(fs.engine.reserve(Growth::Write(write))?)
        };
        let mut life = file.life();
        life.noticed(&stat_file(&handle.file)?, fs.engine.store().clock());
        rustix::fs::fallocate(&*handle.file, flags, offset, length)?;
        life.bytes.rewritten();
        life.bytes.left_as(&stat_file(&handle.file)?);
        drop(life);
        if punches && let Some(id) = file.charged_to() {
            fs.engine.freed(&id, Freed { is_live: true, ..Freed::default() });
        }
        Ok(())
    }

    /// Returns the offset of the next data or hole at or after `offset`, as lseek(2) does.
    pub fn seek(&self, fh: Fh, offset: i64, whence: i32) -> Result<i64> {
        let fs = &self.0;
        let from = u64::try_from(offset).map_err(|_| FsError::Invalid("a negative offset"))?;
        match (fs.handles.get(fh)?, whence) {
            (Handle::File(handle), _) if handle.node.is_message_log() => {
                seek_in(message_log::log(fs, &handle)?.len(), from, whence)
            }
            (Handle::File(handle), _) => seek_on_disk(&handle.file, from, whence),
            (Handle::Computed(open), _) => seek_in(open.text.len(), from, whence),
            (Handle::Remote(open), _) => match open.local.get() {
                Some(here) => seek_on_disk(here, from, whence),
                None => seek_in(open.far.stat.size, from, whence),
            },
            (Handle::Listing(_), _) => Err(OTHER_WHENCE),
        }
    }
}

fn write_file(
    fs: &Shared,
    handle: &FileHandle,
    file: &FileNode,
    offset: u64,
    bytes: &[u8],
    mode: OpenMode,
) -> Result<u64> {
    let (from, length) = ((!mode.appends()).then_some(offset), bytes.len() as u64);
    let write = PlannedWrite { file, open: &handle.file, offset: from, length };
    let _room = fs.engine.reserve(Growth::Write(write))?;
    let mut life = file.life();
    life.noticed(&stat_file(&handle.file)?, fs.engine.store().clock());
    let done = if mode.appends() {
        append_all(&handle.file, bytes)
    } else {
        handle.file.write_all_at(bytes, offset)
    };
    // A failed write may have written some of the bytes.
    done.inspect_err(|_| life.bytes.rewritten())?;
    let stat = stat_file(&handle.file)?;
    // The kernel does not know the end of the file if other handles append too.
    let start = from.unwrap_or(life.end());
    life.bytes.written(start, &stat);
    Ok(life.end())
}

fn note_trouble(file: &FileNode, error: &FsError) {
    if let Some(why) = reason_of_loss(error.errno().0, error) {
        file.life().failed(why);
    }
}

pub(super) fn fsync(fs: &Shared, fh: Fh, flush: Flush) -> Result<()> {
    match (fs.handles.get(fh)?, flush) {
        (Handle::File(handle), Flush::Data) => Ok(handle.file.sync_data()?),
        (Handle::File(handle), Flush::All) => Ok(handle.file.sync_all()?),
        (Handle::Computed(_) | Handle::Remote(_) | Handle::Listing(_), _) => Ok(()),
    }
}

fn seek_on_disk(file: &File, from: u64, whence: i32) -> Result<i64> {
    let from = match whence {
        libc::SEEK_DATA => SeekFrom::Data(from),
        libc::SEEK_HOLE => SeekFrom::Hole(from),
        _ => return Err(OTHER_WHENCE),
    };
    Ok(rustix::fs::seek(file, from)? as i64)
}

fn seek_in(length: u64, from: u64, whence: i32) -> Result<i64> {
    match whence {
        libc::SEEK_DATA if from < length => Ok(from as i64),
        libc::SEEK_HOLE if from < length => Ok(length as i64),
        _ => Err(io::Error::from_raw_os_error(libc::ENXIO).into()),
    }
}

/// Maximum number of bytes that one call copies. The limit keeps the next request for the thread
/// from waiting long.
const MOST_COPIED: u64 = 16 * 1024 * 1024;
const COPY_BLOCK: u64 = 1024 * 1024;

#[derive(Debug, Clone, Copy)]
pub struct FilePosition {
    pub fh: Fh,
    pub offset: u64,
}

pub(crate) fn copy(
    fs: &ContextFs,
    from: FilePosition,
    to: FilePosition,
    length: u64,
) -> Result<u32> {
    let most = length.min(MOST_COPIED);
    let mut copied = 0;
    while copied < most {
        let size = COPY_BLOCK.min(most - copied) as usize;
        let (from, to) = (from.after(copied), to.after(copied));
        match with_buffer(size, |buffer| copy_block(fs, from, to, buffer)) {
            Ok(0) => break,
            Ok(count) => copied += u64::from(count),
            Err(error) if copied == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(copied as u32)
}

fn copy_block(
    fs: &ContextFs,
    from: FilePosition,
    to: FilePosition,
    buffer: &mut [u8],
) -> Result<u32> {
    // The kernel refuses to copy to a file that is open for append.
    let mode = OpenMode { flags: libc::O_WRONLY };
    let write = |bytes: &[u8]| match bytes {
        [] => Ok(0),
        bytes => fs.write(to.fh, to.offset, bytes, mode, None),
    };
    match fs.read(from.fh, from.offset, buffer, write) {
        // The bytes are not on the local disk.
        Err(error) if error.is_slow() => {
            allow_slow()?;
            write(&remote::read(&fs.0, from.fh, from.offset, buffer.len())?)
        }
        copied => copied?,
    }
}

thread_local! {
    /// The buffer grows to the largest request that the worker has served, and never shrinks.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn with_buffer<T>(size: usize, run: impl FnOnce(&mut [u8]) -> T) -> T {
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < size {
            buffer.resize(size, 0);
        }
        run(&mut buffer[..size])
    })
}

impl FilePosition {
    fn after(self, bytes: u64) -> Self {
        Self { offset: self.offset.saturating_add(bytes), ..self }
    }
}

const KNOWN: FallocateFlags =
    FallocateFlags::KEEP_SIZE.union(FallocateFlags::PUNCH_HOLE).union(FallocateFlags::ZERO_RANGE);

/// With a quota, refuses a request with `KEEP_SIZE` that goes beyond the end of the file. The file
/// would then have more blocks than its length needs, so its holes could be counted as data.
fn check_can_be_counted(
    fs: &Shared,
    write: &PlannedWrite<'_>,
    flags: FallocateFlags,
) -> Result<()> {
    let keeps = flags.contains(FallocateFlags::KEEP_SIZE);
    let is_beyond_end = || Ok::<_, FsError>(write.end()? > stat_file(write.open)?.size);
    if keeps && fs.engine.options().quota.is_some() && is_beyond_end()? {
        return Err(FsError::Unsupported);
    }
    Ok(())
}
