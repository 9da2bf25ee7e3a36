//! Noticing changes in directories, by any process.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use rustix::fs::inotify;
use rustix::fs::inotify::{CreateFlags, WatchFlags};
use rustix::io::Errno;

use crate::dir::Dir;

/// The events that change the names in a directory or the bytes of its files.
const CHANGES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::MOVE_SELF);

/// A set of watched directories (inotify).
///
/// The kernel reports changes by any process of this machine, before the call that makes the change
/// returns. It reports neither writes through a mapping nor changes by other machines on a network
/// disk. It queues events until they are read, by default at most 16,384.
#[derive(Debug)]
pub struct Watch {
    inotify: OwnedFd,
    events: WatchFlags,
}

impl Watch {
    /// Creates an empty set. With `attributes`, changes of owners and modes count, and those of
    /// times and extended attributes with them. Fails if the user has too many
    /// (`max_user_instances` of inotify(7)), or if a sandbox forbids it.
    pub fn new(attributes: bool) -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let events = if attributes { CHANGES | WatchFlags::ATTRIB } else { CHANGES };
        Ok(Self { inotify, events })
    }

    /// Watches `dir` from now on, but not the directories in it. Fast if `dir` is watched already.
    /// Otherwise the time grows with the number of its files in the kernel's cache.
    pub fn add(&self, dir: &Dir) -> io::Result<()> {
        // The name under /proc leads to the open directory itself.
        let link = format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd());
        inotify::add_watch(&self.inotify, link, self.events | WatchFlags::ONLYDIR)?;
        Ok(())
    }

    /// Reports whether anything has changed since the last call. If so, there may be new
    /// directories, which the caller must add.
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::fs::File;
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
}
