//! Reading and writing open files.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use rustix::fs::SeekFrom;

use crate::change::Change;
use crate::handle::{FileHandle, Handle};
use crate::node::file::FileNode;
use crate::seal_queue::SealJob;
use crate::{Fh, Flush, FsError, OpenMode, Result, Shared, message_log};
use ctxfs_core::model::Content as _;
use ctxfs_engine::{Counters, EngineError, reason_of_loss};
use ctxfs_store::{append_all, read_full_at, stat_file};

const OTHER_WHENCE: FsError = FsError::Invalid("a whence that the kernel keeps to itself");
/// The bytes that a live artifact may grow before its analysis continues: enough to leave small
/// writers alone, and few enough that a large artifact is analysed soon after its end.
const AHEAD: u64 = 1024 * 1024;

pub(super) fn read<T>(
    fs: &Shared,
    fh: Fh,
    offset: u64,
    buffer: &mut [u8],
    take: impl FnOnce(&[u8]) -> T,
) -> Result<T> {
    match fs.handles.get(fh)? {
        Handle::Computed(open) => {
            open.note_read(offset.saturating_add(buffer.len() as u64));
            Ok(open.text.read(offset, buffer.len(), take)?)
        }
        Handle::Listing(_) => Err(FsError::IsADirectory),
        Handle::Far(open) => {
            // It may wait for the network; see `read_elsewhere`.
            let here = open.here().ok_or(EngineError::Slow)?;
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

pub(super) fn write(
    fs: &Shared,
    fh: Fh,
    offset: u64,
    bytes: &[u8],
    mode: OpenMode,
    owner: Option<u64>,
) -> Result<u32> {
    let handle = fs.handles.file(fh)?;
    if !handle.writes {
        return Err(FsError::WrongMode);
    }
    if handle.node.is_message_log() {
        message_log::write(fs, &handle, offset, bytes, mode, owner)?;
    } else {
        let file = handle.node.as_file()?;
        let written = write_file(fs, &handle, file, offset, bytes, mode);
        let end = written.inspect_err(|error| note_trouble(file, error))?;
        if end % AHEAD < bytes.len() as u64 {
            fs.sealer.submit(SealJob::Follow(Arc::clone(&handle.node)));
        }
    }
    Counters::add(&fs.engine.counters.bytes_written, bytes.len() as u64);
    Ok(bytes.len() as u32)
}

/// Writes `bytes` if there is room. Returns the end of the file.
fn write_file(
    fs: &Shared,
    handle: &FileHandle,
    file: &FileNode,
    offset: u64,
    bytes: &[u8],
    mode: OpenMode,
) -> Result<u64> {
    let at = (!mode.appends()).then_some(offset);
    let change = Change { node: file, open: &handle.file, offset: at, length: bytes.len() as u64 };
    let _room = fs.engine.reserve_for_change(&change)?;
    let mut life = file.life();
    life.noticed(&stat_file(&handle.file)?, fs.engine.store.clock());
    let done = if mode.appends() {
        append_all(&handle.file, bytes)
    } else {
        handle.file.write_all_at(bytes, offset)
    };
    // A failed write may have written some of its bytes.
    done.inspect_err(|_| life.rewritten())?;
    let stat = stat_file(&handle.file)?;
    if mode.appends() {
        // If others append too, the kernel does not know the end.
        life.appended(&stat);
    } else {
        life.written(offset, &stat);
    }
    Ok(life.end())
}

/// Records why the artifact will lack its end, if `error` means that.
fn note_trouble(file: &FileNode, error: &FsError) {
    if let Some(why) = reason_of_loss(error.errno().0, error) {
        file.life().failed(why);
    }
}

pub(super) fn fsync(fs: &Shared, fh: Fh, flush: Flush) -> Result<()> {
    match (fs.handles.get(fh)?, flush) {
        (Handle::File(handle), Flush::Data) => Ok(handle.file.sync_data()?),
        (Handle::File(handle), Flush::All) => Ok(handle.file.sync_all()?),
        (Handle::Computed(_) | Handle::Far(_) | Handle::Listing(_), _) => Ok(()),
    }
}

pub(super) fn seek(fs: &Shared, fh: Fh, offset: i64, whence: i32) -> Result<i64> {
    let from = u64::try_from(offset).map_err(|_| FsError::Invalid("a negative offset"))?;
    match (fs.handles.get(fh)?, whence) {
        (Handle::File(handle), _) if handle.node.is_message_log() => {
            seek_in(message_log::log(fs, &handle)?.len(), from, whence)
        }
        (Handle::File(handle), _) => seek_on_disk(&handle.file, from, whence),
        (Handle::Computed(open), _) => seek_in(open.text.len(), from, whence),
        (Handle::Far(open), _) => match open.here() {
            Some(here) => seek_on_disk(here, from, whence),
            None => seek_in(open.far.stat.size, from, whence),
        },
        (Handle::Listing(_), _) => Err(OTHER_WHENCE),
    }
}

/// Looks for data, or its end, in a file of this disk.
fn seek_on_disk(file: &File, from: u64, whence: i32) -> Result<i64> {
    let from = match whence {
        libc::SEEK_DATA => SeekFrom::Data(from),
        libc::SEEK_HOLE => SeekFrom::Hole(from),
        _ => return Err(OTHER_WHENCE),
    };
    Ok(rustix::fs::seek(file, from)? as i64)
}

/// Looks for data, or its end, in a file of `length` bytes without holes.
fn seek_in(length: u64, from: u64, whence: i32) -> Result<i64> {
    match whence {
        libc::SEEK_DATA if from < length => Ok(from as i64),
        libc::SEEK_HOLE if from < length => Ok(length as i64),
        _ => Err(io::Error::from_raw_os_error(libc::ENXIO).into()),
    }
}
