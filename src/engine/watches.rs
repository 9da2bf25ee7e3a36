//! Watches on searched directories. A watch shows whether anything below a directory has changed
//! since the last search.
//!
//! A check of ten thousand files on disk would take longer than a look-up may take. Instead,
//! inotify watches are added before a search lists the directories. A look-up only checks whether
//! inotify has reported a change.

use std::convert::Infallible;
use std::sync::Arc;

use quick_cache::sync::Cache;

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::{FileId, recent_cache};
use ctxfs_store::{Dir, Watch};

/// Maximum number of watched directories below a searched one. If there are more directories, the
/// search is not watched, and every look-up searches again.
const MOST_DIRS: usize = 64;

pub(crate) struct Watches {
    known: Cache<FileId, Arc<WatchedDir>>,
    /// True if changes of owners and modes count as changes.
    attributes: bool,
    next: AtomicU64,
}

struct WatchedDir {
    /// `None` if no inotify instance was available.
    watch: Option<Watch>,
    state: Mutex<WatchState>,
}

#[derive(Clone, Copy)]
struct WatchState {
    /// The number of the current state. Once the directory has been searched, the number changes
    /// whenever anything below the directory changes.
    number: u64,
    armed: bool,
}

/// A listing of a searched directory, which adds a watch for each directory that it enters.
pub(crate) struct Arming<'a> {
    watches: &'a Watches,
    dir: Arc<WatchedDir>,
    number: u64,
    needed: bool,
    dirs: usize,
    failed: bool,
}

impl Watches {
    /// Creates watches on at most `most` searched directories. If `attributes` is true, changes of
    /// owners and modes count as changes.
    pub(crate) fn new(most: usize, attributes: bool) -> Self {
        Self { known: recent_cache(most), attributes, next: AtomicU64::new(1) }
    }

    fn watched(&self, id: FileId) -> Arc<WatchedDir> {
        let new = || {
            let state = Mutex::new(WatchState { number: self.next_number(), armed: false });
            Ok::<_, Infallible>(Arc::new(WatchedDir {
                watch: Watch::new(self.attributes).ok(),
                state,
            }))
        };
        let Ok(watched) = self.known.get_or_insert_with(&id, new);
        watched
    }

    pub(crate) fn number(&self, id: FileId) -> u64 {
        let dir = self.watched(id);
        let mut state = dir.state.lock();
        if state.armed && dir.watch.as_ref().is_none_or(Watch::has_changed) {
            *state = WatchState { number: self.next_number(), armed: false };
        }
        state.number
    }

    pub(crate) fn arm(&self, id: FileId) -> Arming<'_> {
        let dir = self.watched(id);
        let WatchState { number, armed } = *dir.state.lock();
        Arming { watches: self, dir, number, needed: !armed, dirs: 0, failed: false }
    }

    /// Gives the directory `id` a new state number, so that the next look-up searches again.
    pub(crate) fn renew(&self, id: FileId) {
        self.watched(id).state.lock().number = self.next_number();
    }

    /// Returns a number that no other state has.
    pub(crate) fn next_number(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }
}

impl Arming<'_> {
    /// Watches a directory. Must be called before the names in the directory are read.
    pub(crate) fn enter(&mut self, dir: &Dir) {
        self.dirs += 1;
        if self.needed && !self.failed {
            let watch = self.dir.watch.as_ref().filter(|_| self.dirs <= MOST_DIRS);
            self.failed = watch.is_none_or(|watch| watch.add(dir).is_err());
        }
    }

    /// Ends the listing, after all directories have been entered.
    pub(crate) fn done(self) {
        let mut state = self.dir.state.lock();
        if self.failed {
            state.number = self.watches.next_number();
        } else if state.number == self.number {
            // If the number has changed since, a directory that is not watched may have been
            // created.
            state.armed = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use ctxfs_store::Stat;

    /// Returns the identity of a file that does not exist on any disk.
    fn id(ino: u64) -> FileId {
        FileId::of(&Stat { ino, ..Stat::imagined() })
    }

    #[test]
    fn a_state_holds_until_something_changes() {
        let temporary = tempfile::tempdir().unwrap();
        let (watches, dir) = (Watches::new(16, false), Dir::open(temporary.path()).unwrap());
        let before = watches.number(id(7));
        let mut arming = watches.arm(id(7));
        arming.enter(&dir);
        arming.done();
        assert_eq!((watches.number(id(7)), watches.number(id(7))), (before, before));
        fs::write(temporary.path().join("a"), "").unwrap();
        let after = watches.number(id(7));
        assert_ne!(after, before);
        watches.renew(id(7));
        assert_ne!(watches.number(id(7)), after);
        assert_ne!(watches.number(id(8)), watches.number(id(7)));
    }

    /// A directory is created after a search has listed its parent and before the next look-up.
    #[test]
    fn what_has_changed_is_not_taken_for_watched() {
        let temporary = tempfile::tempdir().unwrap();
        let (watches, dir) = (Watches::new(16, false), Dir::open(temporary.path()).unwrap());
        let mut slow = watches.arm(id(7));
        slow.enter(&dir);
        let mut quick = watches.arm(id(7));
        quick.enter(&dir);
        quick.done();
        let before = watches.number(id(7));
        let below = temporary.path().join("below");
        fs::create_dir(&below).unwrap();
        let after = watches.number(id(7));
        assert_ne!(after, before);
        slow.done();
        let mut next = watches.arm(id(7));
        next.enter(&dir);
        next.enter(&Dir::open(&below).unwrap());
        next.done();
        fs::write(below.join("b"), "").unwrap();
        assert_ne!(watches.number(id(7)), after);
    }

    #[test]
    fn what_cannot_be_watched_is_always_another_state() {
        let temporary = tempfile::tempdir().unwrap();
        let (watches, dir) = (Watches::new(16, false), Dir::open(temporary.path()).unwrap());
        let mut known = Vec::new();
        for _ in 0..3 {
            let mut arming = watches.arm(id(7));
            (0..=MOST_DIRS).for_each(|_| arming.enter(&dir));
            arming.done();
            known.push(watches.number(id(7)));
        }
        known.dedup();
        assert_eq!(known.len(), 3);
    }
}
