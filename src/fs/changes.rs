//! Whether anything below a directory has changed since it was last searched.
//!
//! Looking at each of ten thousand files would take longer than a look-up may. So the directories
//! are watched from before a search lists them, and a look-up only asks whether the watch has sprung.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::PoisonError;

use quick_cache::sync::Cache;

use crate::fs::Ino;
use crate::fs::sync::Mutex;
use crate::fs::sync::MutexGuard;
use crate::fs::sync::atomic::AtomicU64;
use crate::fs::sync::atomic::Ordering::Relaxed;
use crate::store::Dir;
use crate::store::Watch;

/// Searched directories that stay watched: each costs the user one of 128 watchers, and the kernel
/// a MiB or two where much is written and nobody searches.
const WATCHED: usize = 16;
/// Directories below one that are watched. With more, every look-up finds a new state.
const MOST_DIRS: usize = 64;

/// The directories that were searched, by their number.
pub(crate) struct Watched {
    known: Cache<Ino, Arc<Changes>>,
    /// Gives each state a number of its own.
    next: AtomicU64,
}

/// What is known of one.
pub(crate) struct Changes {
    /// None, where the system has no more of them.
    watch: Option<Watch>,
    state: Mutex<State>,
}

#[derive(Clone, Copy)]
struct State {
    /// Changes with everything below the directory, once somebody has searched it.
    number: u64,
    /// Whether everything below the directory is watched.
    armed: bool,
}

/// Sets the watch of a directory while it is listed.
pub(crate) struct Arming<'a> {
    watched: &'a Watched,
    changes: Arc<Changes>,
    /// The state when it began.
    number: u64,
    needed: bool,
    dirs: usize,
    failed: bool,
}

impl Watched {
    pub(crate) fn new() -> Self {
        Self { known: Cache::new(WATCHED), next: AtomicU64::new(1) }
    }

    fn changes(&self, ino: Ino) -> Arc<Changes> {
        let new = || {
            let state = Mutex::new(State { number: self.fresh(), armed: false });
            Ok::<_, Infallible>(Arc::new(Changes { watch: Watch::new().ok(), state }))
        };
        let Ok(changes) = self.known.get_or_insert_with(&ino, new);
        changes
    }

    /// The state in which all below the directory `ino` is.
    pub(crate) fn number(&self, ino: Ino) -> u64 {
        let changes = self.changes(ino);
        let mut state = changes.state();
        if state.armed && changes.watch.as_ref().is_none_or(Watch::has_changed) {
            *state = State { number: self.fresh(), armed: false };
        }
        state.number
    }

    /// Begins to watch the directory `ino`, which is about to be listed.
    pub(crate) fn arm(&self, ino: Ino) -> Arming<'_> {
        let changes = self.changes(ino);
        let State { number, armed } = *changes.state();
        Arming { watched: self, changes, number, needed: !armed, dirs: 0, failed: false }
    }

    /// Makes it another state.
    pub(crate) fn renew(&self, ino: Ino) {
        self.changes(ino).state().number = self.fresh();
    }

    fn fresh(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }
}

impl Arming<'_> {
    /// Watches one directory of those that are listed, before its names are read.
    pub(crate) fn enter(&mut self, dir: &Dir) {
        self.dirs += 1;
        if self.needed && !self.failed {
            let watch = self.changes.watch.as_ref().filter(|_| self.dirs <= MOST_DIRS);
            self.failed = watch.is_none_or(|watch| watch.add(dir).is_err());
        }
    }

    /// All directories have been seen.
    pub(crate) fn done(self) {
        let mut state = self.changes.state();
        if self.failed {
            state.number = self.watched.fresh();
        } else if state.number == self.number {
            // Otherwise a directory may have come that was not there to be watched.
            state.armed = true;
        }
    }
}

impl Changes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const INO: Ino = Ino(7);

    #[test]
    fn a_state_holds_until_something_changes() {
        let temporary = tempfile::tempdir().unwrap();
        let (watched, dir) = (Watched::new(), Dir::open(temporary.path()).unwrap());
        let before = watched.number(INO);
        let mut arming = watched.arm(INO);
        arming.enter(&dir);
        arming.done();
        assert_eq!((watched.number(INO), watched.number(INO)), (before, before));
        fs::write(temporary.path().join("a"), "").unwrap();
        let after = watched.number(INO);
        assert_ne!(after, before);
        watched.renew(INO);
        assert_ne!(watched.number(INO), after);
        assert_ne!(watched.number(Ino(8)), watched.number(INO));
    }

    /// A directory is made after one search has listed where it is, and before another look-up.
    #[test]
    fn what_has_sprung_is_not_taken_for_set() {
        let temporary = tempfile::tempdir().unwrap();
        let (watched, dir) = (Watched::new(), Dir::open(temporary.path()).unwrap());
        let mut slow = watched.arm(INO);
        slow.enter(&dir);
        let mut quick = watched.arm(INO);
        quick.enter(&dir);
        quick.done();
        let before = watched.number(INO);
        let below = temporary.path().join("below");
        fs::create_dir(&below).unwrap();
        let after = watched.number(INO);
        assert_ne!(after, before);
        slow.done();
        let mut next = watched.arm(INO);
        next.enter(&dir);
        next.enter(&Dir::open(&below).unwrap());
        next.done();
        fs::write(below.join("b"), "").unwrap();
        assert_ne!(watched.number(INO), after);
    }

    #[test]
    fn what_cannot_be_watched_is_always_another_state() {
        let temporary = tempfile::tempdir().unwrap();
        let (watched, dir) = (Watched::new(), Dir::open(temporary.path()).unwrap());
        let mut known = Vec::new();
        for _ in 0..3 {
            let mut arming = watched.arm(INO);
            (0..=MOST_DIRS).for_each(|_| arming.enter(&dir));
            arming.done();
            known.push(watched.number(INO));
        }
        known.dedup();
        assert_eq!(known.len(), 3);
    }
}
