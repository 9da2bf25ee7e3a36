//! The model against real mounts, by system calls.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use ctxfs::fs::ContextFs;
use ctxfs::fs::Options;
use ctxfs::fuse::Session;
use ctxfs::fuse::SessionOptions;
use ctxfs::fuse::mount;
use ctxfs::fuse::mount::MountOptions;
use ctxfs::store::Store;
use proptest::test_runner::TestRunner;
use rustix::fs::AtFlags;
use rustix::fs::CWD;
use rustix::fs::OFlags;
use rustix::fs::RenameFlags;
use rustix::fs::Timespec;
use rustix::fs::Timestamps;
use rustix::fs::XattrFlags;
use rustix::mount::UnmountFlags;
use tempfile::TempDir;

use super::core::flags;
use super::harness;
use super::harness::Stat;
use super::harness::Subject;
use super::operations;
use super::operations::How;
use super::operations::Mode;
use super::operations::Op;
use super::reference::Answer;

/// Longest that one run may take: after it, what hangs gets an error and the test fails.
const LIMIT: Duration = Duration::from_mins(2);

#[test]
fn a_mount_with_passthrough_agrees_with_the_model() {
    agrees(true);
}

#[test]
fn a_mount_without_passthrough_agrees_with_the_model() {
    agrees(false);
}

fn agrees(passthrough: bool) {
    let (config, ops) = super::size(40, 40);
    let mut runner = TestRunner::new(config);
    let ran = runner.run(&operations::run(ops), |ops| {
        check(passthrough, &ops);
        Ok(())
    });
    ran.unwrap_or_else(|error| panic!("{error}"));
}

/// Runs `ops` through a mount; then unmounts, and looks at what is left on disk.
pub(crate) fn check(passthrough: bool, ops: &[Op]) {
    let mut run = harness::run(Mounted::new(passthrough), ops);
    run.let_go();
    run.subject.end();
    run.compare_store(&run.subject.store());
}

/// A mount that this process serves to itself.
pub(crate) struct Mounted {
    target: PathBuf,
    fs: ContextFs,
    served: Option<JoinHandle<io::Result<()>>>,
    /// Ends the watch over the mount when it is dropped.
    _watch: mpsc::Sender<()>,
    // Last: the mount must be gone before its directory is removed.
    dir: TempDir,
}

impl Mounted {
    fn new(passthrough: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (root, target) = (dir.path().join("store"), dir.path().join("mnt"));
        std::fs::create_dir(&target).unwrap();
        let options = Options { min_free: 0, ..Options::default() };
        let fs = ContextFs::new(Store::open(&root).unwrap(), options).unwrap();
        let mounting = MountOptions { source: root.display().to_string(), allow_other: false };
        let mounted = mount::mount(&target, &mounting).unwrap();
        let options = SessionOptions { passthrough, ..SessionOptions::default() };
        let session = Session::start(fs.clone(), mounted.fd, &options);
        let watch = watch(target.clone());
        let session = session.inspect_err(|_| force(&target)).unwrap();
        let is_passthrough = session.is_passthrough();
        let served = Some(thread::spawn(|| session.wait()));
        let mounted = Self { target, fs, served, _watch: watch, dir };
        assert!(is_passthrough || !passthrough, "this kernel, or this user, has no passthrough");
        mounted
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    fn at(&self, path: &str) -> PathBuf {
        self.target.join(path)
    }

    /// Unmounts, and waits until all is sealed.
    fn end(&mut self) {
        if let Some(served) = self.served.take() {
            mount::unmount(&self.target).unwrap();
            served.join().unwrap().unwrap();
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.served.is_some() {
            force(&self.target);
        }
    }
}

/// Ends a mount that outlives its time, so that nothing waits for it any longer.
fn watch(target: PathBuf) -> mpsc::Sender<()> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        if receive.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
            force(&target);
        }
    });
    send
}

fn force(target: &Path) {
    rustix::mount::unmount(target, UnmountFlags::FORCE | UnmountFlags::DETACH).ok();
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

    /// The kernel forgets when it likes; asked to, it drops what nobody uses.
    fn forget(&mut self) {}

    fn settle(&mut self) {
        // Releases come when they come.
        let mut quiet = 0;
        while quiet < 5 {
            quiet = if self.fs.in_use().waiting_to_seal == 0 { quiet + 1 } else { 0 };
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn tick(&mut self) {}
}

/// Reads all; what `stat` says of the size must be exact.
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
