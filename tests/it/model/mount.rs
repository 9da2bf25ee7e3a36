//! The model against real mounts, through system calls.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, OFlags, RenameFlags, Timespec, Timestamps, XattrFlags};
use rustix::process::Signal;

use super::core::flags;
use super::harness::{Stat, Subject};
use super::operations::{How, Mode, Op};
use super::reference::Answer;
use super::{harness, operations};
use crate::support::{Mode as Kind, TestMount};

#[test]
fn a_mount_with_passthrough_agrees_with_the_model() {
    agrees(Kind::Passthrough);
}

#[test]
fn a_mount_without_passthrough_agrees_with_the_model() {
    agrees(Kind::Cached);
}

fn agrees(kind: Kind) {
    let (config, ops) = super::size(40, 40);
    crate::support::holds(config, &operations::run(ops), |ops| check(kind, &ops));
}

/// Runs `ops` through a mount, then ends the daemon and checks the store on disk.
pub(crate) fn check(kind: Kind, ops: &[Op]) {
    let mut run = harness::run(Mounted::new(kind), ops);
    drop(run.let_go());
    assert_eq!(run.subject.mount.end(Signal::TERM), Some(0));
    run.compare_store(&run.subject.mount.store().path());
}

pub(crate) struct Mounted {
    mount: TestMount,
}

impl Mounted {
    fn new(kind: Kind) -> Self {
        let mounted = Self { mount: TestMount::new(kind) };
        let passthrough = mounted.mount.status()["passthrough"] == true;
        assert_eq!(passthrough, kind == Kind::Passthrough, "this kernel, or this user");
        mounted
    }

    fn at(&self, path: &str) -> PathBuf {
        self.mount.path().join(path)
    }
}

impl Subject for Mounted {
    type Handle = File;
    type Held = File;

    fn open(&mut self, path: &str, how: How) -> Answer<File> {
        let file = open(&self.at(path), flags(how))?;
        if answer(file.metadata())?.is_dir() {
            return Err(libc::EISDIR);
        }
        Ok(file)
    }

    fn write(&mut self, handle: &File, at: u64, bytes: &[u8]) -> Answer<()> {
        answer(handle.write_all_at(bytes, at))
    }

    fn read(&mut self, handle: &File, at: u64, length: usize) -> Answer<Vec<u8>> {
        let mut bytes = vec![0; length];
        let count = answer(handle.read_at(&mut bytes, at))?;
        bytes.truncate(count);
        Ok(bytes)
    }

    fn truncate(&mut self, handle: &File, length: u64) -> Answer<()> {
        answer(handle.set_len(length))
    }

    fn truncate_path(&mut self, path: &str, length: u64) -> Answer<()> {
        let path = std::ffi::CString::new(self.at(path).into_os_string().into_encoded_bytes());
        truncate(&path.unwrap(), length)
    }

    fn close(&mut self, handle: File, _late: u8) {
        drop(handle);
    }

    fn rename(&mut self, from: &str, to: &str, mode: Mode) -> Answer<()> {
        let flags = match mode {
            Mode::Replace => RenameFlags::empty(),
            Mode::KeepExisting => RenameFlags::NOREPLACE,
            Mode::Exchange => RenameFlags::EXCHANGE,
        };
        number(rustix::fs::renameat_with(CWD, self.at(from), CWD, self.at(to), flags))
    }

    fn unlink(&mut self, path: &str) -> Answer<()> {
        number(rustix::fs::unlinkat(CWD, self.at(path), AtFlags::empty()))
    }

    fn mkdir(&mut self, path: &str) -> Answer<()> {
        number(rustix::fs::mkdirat(CWD, self.at(path), 0o700.into()))
    }

    fn rmdir(&mut self, path: &str) -> Answer<()> {
        number(rustix::fs::unlinkat(CWD, self.at(path), AtFlags::REMOVEDIR))
    }

    fn chmod(&mut self, path: &str, mode: u32) -> Answer<()> {
        answer(std::fs::set_permissions(self.at(path), std::fs::Permissions::from_mode(mode)))
    }

    fn utimes(&mut self, path: &str, seconds: u32) -> Answer<()> {
        let time = Timespec { tv_sec: seconds.into(), tv_nsec: 0 };
        let times = Timestamps { last_access: time, last_modification: time };
        number(rustix::fs::utimensat(CWD, self.at(path), &times, AtFlags::empty()))
    }

    fn exit(&mut self, path: &str, code: u8) -> Answer<()> {
        let (value, flags) = (code.to_string(), XattrFlags::empty());
        let name = "user.ctx.exit_code";
        number(rustix::fs::setxattr(self.at(path), name, value.as_bytes(), flags))
    }

    fn list(&mut self, path: &str) -> Answer<Vec<String>> {
        let entries = answer(std::fs::read_dir(self.at(path)))?;
        Ok(entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect())
    }

    fn stat(&mut self, path: &str) -> Answer<Stat> {
        let found = answer(std::fs::metadata(self.at(path)))?;
        Ok(Stat {
            number: found.ino(),
            is_dir: found.is_dir(),
            size: found.len(),
            mode: found.mode() & 0o7777,
            modified: found.mtime(),
        })
    }

    fn bytes(&mut self, path: &str) -> Answer<Vec<u8>> {
        whole(&open(&self.at(path), libc::O_RDONLY)?)
    }

    fn hold(&mut self, path: &str) -> Answer<(File, Vec<u8>)> {
        let file = open(&self.at(path), libc::O_RDONLY)?;
        let bytes = whole(&file)?;
        Ok((file, bytes))
    }

    fn number(&self, held: &File) -> u64 {
        held.metadata().unwrap().ino()
    }

    fn again(&mut self, held: &File) -> Vec<Vec<u8>> {
        let mut found = vec![whole(held).unwrap()];
        let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(held));
        match open(Path::new(&link), libc::O_RDONLY) {
            Ok(file) => found.push(whole(&file).unwrap()),
            Err(error) => assert_eq!(error, libc::ESTALE),
        }
        found
    }

    /// Does nothing: the kernel decides by itself when to forget.
    fn forget(&mut self) {}

    fn settle(&mut self) {
        self.mount.settle();
    }

    fn tick(&mut self) {}
}

/// Reads everything. The size in `stat` must be exact.
fn whole(file: &File) -> Answer<Vec<u8>> {
    let size = answer(file.metadata())?.len();
    let mut bytes = vec![0; size as usize + 1];
    let mut count = 0;
    while let more @ 1.. = answer(file.read_at(&mut bytes[count..], count as u64))? {
        count += more;
    }
    assert_eq!(count as u64, size, "a size that is not exact");
    bytes.truncate(count);
    Ok(bytes)
}

fn open(path: &Path, flags: i32) -> Answer<File> {
    let flags = OFlags::from_bits_retain(flags.cast_unsigned()) | OFlags::CLOEXEC;
    number(rustix::fs::open(path, flags, 0o600.into())).map(File::from)
}

#[expect(unsafe_code, reason = "no safe wrapper has truncate(2), which takes a path")]
fn truncate(path: &std::ffi::CStr, length: u64) -> Answer<()> {
    // SAFETY: `path` ends with a NUL, and nothing but the file is touched.
    match unsafe { libc::truncate(path.as_ptr(), length.cast_signed()) } {
        0 => Ok(()),
        _ => answer(Err(io::Error::last_os_error())),
    }
}

fn answer<T>(result: io::Result<T>) -> Answer<T> {
    result.map_err(|error| error.raw_os_error().unwrap_or_else(|| panic!("{error}")))
}

fn number<T>(result: rustix::io::Result<T>) -> Answer<T> {
    result.map_err(rustix::io::Errno::raw_os_error)
}
