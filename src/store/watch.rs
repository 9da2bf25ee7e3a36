//! Changes in directories, reported by inotify.
//!
//! The kernel reports the changes of all processes of this machine. A change is reported before its
//! system call returns. The kernel does not report writes through a mapping, or changes that other
//! machines make on a network disk. It queues events until they are read; by default the queue
//! holds 16,384 events.

use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use crate::{Dir, dir};

const CHANGES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::MOVE_SELF);
const NAME_CHANGES: WatchFlags = CHANGES.union(WatchFlags::ATTRIB);
/// Size in bytes of an event without a name, which consists of the fields of
/// `struct inotify_event`.
const MIN_EVENT: u64 = 16;

/// A set of watched directories that reports whether anything in them has changed.
#[derive(Debug)]
pub struct Watch {
    inotify: OwnedFd,
    events: WatchFlags,
}

impl Watch {
    /// Creates an empty set. If `attributes` is true, changes of owners, modes, times and extended
    /// attributes count too. Fails if the user has too many sets (`max_user_instances` of
    /// inotify(7)), or if a sandbox forbids inotify.
    pub fn new(attributes: bool) -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let events = if attributes { NAME_CHANGES } else { CHANGES };
        Ok(Self { inotify, events })
    }

    /// Starts watching `dir`, without its subdirectories. This is fast if `dir` is already watched.
    /// Otherwise the time grows with the number of its files in the kernel's cache.
    pub fn add(&self, dir: &Dir) -> io::Result<()> {
        // The path under /proc leads to the open directory itself.
        let link = dir::proc_path(dir);
        inotify::add_watch(&self.inotify, link, self.events | WatchFlags::ONLYDIR)?;
        Ok(())
    }

    /// Returns true if anything has changed since the last call. The change may include new
    /// directories, which the caller must then add.
    pub fn has_changed(&self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        let mut changed = false;
        loop {
            match events.next() {
                Ok(_) => changed = true,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return changed,
                Err(_) => return true,
            }
        }
    }
}

/// The identifier of a watched directory. A [`NameWatch`] never uses the same identifier twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WatchId(i32);

/// A change in a watched directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameChange {
    /// A name in the directory was created, moved or removed, or its file was changed.
    Name(WatchId, OsString),
    /// The directory itself was renamed, or its attributes were changed.
    Dir(WatchId),
    /// The watch of the directory has ended, because the directory was removed or its disk
    /// unmounted.
    Ended(WatchId),
    /// Anything may have changed, because there were more changes than the kernel queues.
    Lost,
}

/// A set of watched directories that reports which names change.
#[derive(Debug)]
pub struct NameWatch(OwnedFd);

impl NameWatch {
    /// Creates an empty set. Fails if the user has too many sets (`max_user_instances` of
    /// inotify(7)), or if a sandbox forbids inotify.
    pub fn new() -> io::Result<Self> {
        Ok(Self(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?))
    }

    /// Starts watching `dir`, without its subdirectories.
    pub fn add(&self, dir: &Dir) -> io::Result<WatchId> {
        // The path under /proc leads to the open directory itself.
        let link = dir::proc_path(dir);
        Ok(WatchId(inotify::add_watch(&self.0, link, NAME_CHANGES | WatchFlags::ONLYDIR)?))
    }

    /// Ends the watch of a directory. The directory may already be gone.
    pub fn remove(&self, id: WatchId) {
        // This fails if the directory is gone.
        inotify::remove_watch(&self.0, id.0).ok();
    }

    /// Calls `each` with every change that has been queued so far. Does not wait for changes.
    /// Returns even if new changes keep arriving.
    pub fn take(&self, mut each: impl FnMut(NameChange)) {
        let Ok(bytes) = rustix::io::ioctl_fionread(&self.0) else {
            return each(NameChange::Lost);
        };
        let mut left = bytes / MIN_EVENT;
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut events = inotify::Reader::new(&self.0, &mut buffer);
        // Events that are already in the buffer are passed on even beyond the count.
        while left > 0 || !events.is_buffer_empty() {
            left = left.saturating_sub(1);
            match events.next() {
                Ok(event) => each(change(&event)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => return each(NameChange::Lost),
            }
        }
    }
}

impl AsFd for NameWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn change(event: &inotify::Event<'_>) -> NameChange {
    let (flags, id) = (event.events(), WatchId(event.wd()));
    if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
        return NameChange::Lost;
    }
    if flags.contains(ReadFlags::IGNORED) {
        return NameChange::Ended(id);
    }
    match event.file_name() {
        Some(name) => NameChange::Name(id, OsStr::from_bytes(name.to_bytes()).to_owned()),
        None => NameChange::Dir(id),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write as _;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_kind_of_change_springs_it() {
        let temporary = tempfile::tempdir().unwrap();
        let path = |name: &str| temporary.path().join(name);
        let watch = Watch::new(false).unwrap();
        let dir = Dir::open(temporary.path()).unwrap();
        let mut open = File::create(path("open")).unwrap();
        let mut append = || open.write_all(b"more").unwrap();
        let changes: [(&str, &mut dyn FnMut()); 8] = [
            ("create", &mut || fs::write(path("a"), "").unwrap()),
            ("write", &mut || fs::write(path("a"), "text").unwrap()),
            ("append", &mut append),
            ("truncate", &mut || File::create(path("a")).unwrap().set_len(0).unwrap()),
            ("rename", &mut || fs::rename(path("a"), path("b")).unwrap()),
            ("make a directory", &mut || fs::create_dir(path("d")).unwrap()),
            ("move away", &mut || fs::rename(path("b"), path("d/b")).unwrap()),
            ("remove", &mut || fs::remove_dir_all(path("d")).unwrap()),
        ];
        watch.add(&dir).unwrap();
        for (what, change) in changes {
            assert!(!watch.has_changed(), "before: {what}");
            change();
            assert!(watch.has_changed(), "{what}");
            assert!(!watch.has_changed(), "after: {what}");
        }
    }

    #[test]
    fn looking_does_not_spring_it() {
        let temporary = tempfile::tempdir().unwrap();
        let file = temporary.path().join("a");
        fs::write(&file, "text").unwrap();
        let watch = Watch::new(false).unwrap();
        watch.add(&Dir::open(temporary.path()).unwrap()).unwrap();
        fs::read(&file).unwrap();
        fs::read_dir(temporary.path()).unwrap().count();
        drop(File::options().append(true).open(&file).unwrap());
        assert!(!watch.has_changed());
        fs::remove_dir_all(Path::new(temporary.path())).unwrap();
        assert!(watch.has_changed());
    }

    #[test]
    fn each_change_names_its_file() {
        let temporary = tempfile::tempdir().unwrap();
        let path = |name: &str| temporary.path().join(name);
        fs::write(path("a"), "text").unwrap();
        let watch = NameWatch::new().unwrap();
        let id = watch.add(&Dir::open(temporary.path()).unwrap()).unwrap();
        let names = || {
            let mut names = Vec::new();
            watch.take(|change| match change {
                NameChange::Name(of, name) if of == id => {
                    names.push(name.into_string().unwrap());
                }
                other => panic!("{other:?}"),
            });
            names.dedup();
            names
        };
        assert!(names().is_empty());
        fs::write(path("a"), "more").unwrap();
        assert_eq!(names(), ["a"]);
        fs::set_permissions(path("a"), fs::metadata(path("a")).unwrap().permissions()).unwrap();
        assert_eq!(names(), ["a"]);
        fs::rename(path("a"), path("b")).unwrap();
        assert_eq!(names(), ["a", "b"]);
        fs::remove_file(path("b")).unwrap();
        assert_eq!(names(), ["b"]);
        fs::read_dir(temporary.path()).unwrap().count();
        assert!(names().is_empty());
    }

    /// Checks that a process that changes names as fast as they are read does not block the reader.
    #[test]
    fn changes_that_come_meanwhile_are_left_for_later() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("a");
        fs::write(&path, "text").unwrap();
        let watch = NameWatch::new().unwrap();
        watch.add(&Dir::open(temporary.path()).unwrap()).unwrap();
        let permissions = fs::metadata(&path).unwrap().permissions();
        // The kernel merges two equal events in a row, so the events alternate.
        let change = || {
            fs::set_permissions(&path, permissions.clone()).unwrap();
            fs::rename(&path, temporary.path().join("b")).unwrap();
            fs::rename(temporary.path().join("b"), &path).unwrap();
        };
        change();
        for _ in 0..3 {
            let mut seen = 0;
            watch.take(|_| {
                seen += 1;
                assert!(seen < 10_000, "it does not end");
                change();
            });
            assert!(seen > 0);
        }
    }

    #[test]
    fn the_end_of_a_directory_ends_its_watch() {
        let temporary = tempfile::tempdir().unwrap();
        let below = temporary.path().join("below");
        fs::create_dir(&below).unwrap();
        let watch = NameWatch::new().unwrap();
        let id = watch.add(&Dir::open(&below).unwrap()).unwrap();
        fs::remove_dir(&below).unwrap();
        let mut seen = Vec::new();
        watch.take(|change| seen.push(change));
        assert_eq!(seen.last(), Some(&NameChange::Ended(id)), "{seen:?}");
    }
}
