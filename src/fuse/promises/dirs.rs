//! The watched directories, and what is promised in each.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Ino;
use ctxfs_engine::FileId;
use ctxfs_engine::sync::atomic::AtomicU64;
use ctxfs_engine::sync::atomic::Ordering::SeqCst;
use ctxfs_engine::sync::{Mutex, now};
use ctxfs_store::{Dir, NameWatch, WatchId};

/// The most directories that are watched.
const MOST_DIRS: usize = 1024;
/// The most names of a directory about which something is promised at a time.
const MOST_NAMES: usize = 32_768;

/// The directories that are watched.
#[derive(Default)]
pub(super) struct PromisedDirs {
    by_id: HashMap<FileId, Arc<PromisedDir>>,
    by_watch: HashMap<WatchId, Arc<PromisedDir>>,
}

/// A directory that is watched.
pub(super) struct PromisedDir {
    id: FileId,
    watch: WatchId,
    /// The changes of anything in it.
    changes: AtomicU64,
    promised: Mutex<HashMap<OsString, Promise>>,
}

/// A promise about a name: the nodes found under it, and the directories of its views.
struct Promise {
    nodes: Vec<Ino>,
    until: Instant,
}

impl PromisedDirs {
    pub(super) fn get(&self, id: FileId) -> Option<Arc<PromisedDir>> {
        self.by_id.get(&id).cloned()
    }

    pub(super) fn watched(&self, watch: WatchId) -> Option<Arc<PromisedDir>> {
        self.by_watch.get(&watch).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<PromisedDir>> {
        self.by_id.values().cloned().collect()
    }

    /// Watches the directory `id`, which is open as `dir`, from now on. `None` if it cannot be.
    pub(super) fn add(
        &mut self,
        watch: &NameWatch,
        id: FileId,
        dir: &Dir,
    ) -> Option<Arc<PromisedDir>> {
        if let Some(known) = self.get(id) {
            return Some(known);
        }
        if self.by_id.len() >= MOST_DIRS {
            self.drop_idle(watch);
        }
        if self.by_id.len() >= MOST_DIRS {
            return None;
        }
        let number = watch.add(dir).ok()?;
        let new = Arc::new(PromisedDir {
            id,
            watch: number,
            changes: AtomicU64::new(0),
            promised: Mutex::default(),
        });
        self.by_id.insert(id, Arc::clone(&new));
        self.by_watch.insert(number, Arc::clone(&new));
        Some(new)
    }

    /// Removes a directory whose watch has ended.
    pub(super) fn remove(&mut self, watch: WatchId) -> Option<Arc<PromisedDir>> {
        let dir = self.by_watch.remove(&watch)?;
        self.by_id.remove(&dir.id);
        Some(dir)
    }

    /// Ends the watches of directories in which nothing is promised, and which nobody looks at.
    fn drop_idle(&mut self, watch: &NameWatch) {
        // Referred to by the two maps alone.
        let is_idle =
            |dir: &Arc<PromisedDir>| Arc::strong_count(dir) <= 2 && dir.forget_past() == 0;
        let idle: Vec<_> =
            self.by_id.values().filter(|dir| is_idle(dir)).map(|dir| dir.watch).collect();
        for number in idle {
            watch.remove(number);
            self.remove(number);
        }
    }
}

impl PromisedDir {
    /// Returns the number of its changes.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(SeqCst)
    }

    /// Notes that `node` is promised under `name`. Returns false if there are too many names.
    pub(super) fn promise(&self, name: &OsStr, node: Ino, lasts: Duration) -> bool {
        let until = now() + lasts;
        let mut promised = self.promised.lock();
        if let Some(promise) = promised.get_mut(name) {
            promise.until = until;
            if !promise.nodes.contains(&node) {
                promise.nodes.push(node);
            }
            return true;
        }
        if promised.len() >= MOST_NAMES {
            let now = now();
            promised.retain(|_, promise| promise.until > now);
        }
        if promised.len() >= MOST_NAMES {
            return false;
        }
        promised.insert(name.to_owned(), Promise { nodes: vec![node], until });
        true
    }

    /// Ends the promises about `name`, which is changing. Returns the nodes that were promised.
    pub(super) fn end(&self, name: &OsStr) -> Vec<Ino> {
        self.changes.fetch_add(1, SeqCst);
        let promise = self.promised.lock().remove(name);
        promise.map(|promise| promise.nodes).unwrap_or_default()
    }

    /// Ends all promises. Returns the nodes that were promised.
    pub(super) fn end_all(&self) -> Vec<Ino> {
        self.changes.fetch_add(1, SeqCst);
        let promised = std::mem::take(&mut *self.promised.lock());
        promised.into_values().flat_map(|promise| promise.nodes).collect()
    }

    /// Forgets the promises that have run out. Returns the number of names that are left.
    pub(super) fn forget_past(&self) -> usize {
        let mut promised = self.promised.lock();
        let now = now();
        promised.retain(|_, promise| promise.until > now);
        let left = promised.len();
        promised.shrink_to(2 * left);
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctxfs_store::Stat;

    fn watched() -> (NameWatch, tempfile::TempDir, PromisedDirs, Arc<PromisedDir>) {
        let temporary = tempfile::tempdir().unwrap();
        let (watch, mut dirs) = (NameWatch::new().unwrap(), PromisedDirs::default());
        let open = Dir::open(temporary.path()).unwrap();
        let dir = dirs.add(&watch, FileId::of(&Stat::imagined()), &open).unwrap();
        (watch, temporary, dirs, dir)
    }

    #[test]
    fn a_change_ends_what_is_promised_about_its_name() {
        let (_watch, _temporary, _dirs, dir) = watched();
        for node in [Ino(7), Ino(8), Ino(7)] {
            assert!(dir.promise("x".as_ref(), node, Duration::from_secs(1)));
        }
        dir.promise("y".as_ref(), Ino(9), Duration::from_secs(1));
        let before = dir.changes();
        assert_eq!(dir.end("x".as_ref()), [Ino(7), Ino(8)]);
        assert_ne!(dir.changes(), before);
        assert!(dir.end("x".as_ref()).is_empty());
        assert_eq!(dir.end_all(), [Ino(9)]);
    }

    #[test]
    fn promises_are_bounded_and_run_out() {
        let (watch, _temporary, mut dirs, dir) = watched();
        for number in 0..=MOST_NAMES as u64 {
            let name = OsString::from(number.to_string());
            let kept = dir.promise(&name, Ino(number), Duration::from_secs(100));
            assert_eq!(kept, number < MOST_NAMES as u64);
        }
        drop(dir.end_all());
        dir.promise("x".as_ref(), Ino(7), Duration::ZERO);
        assert_eq!(dir.forget_past(), 0);
        assert_eq!(dir.promised.lock().capacity(), 0);
        drop(dir);
        dirs.drop_idle(&watch);
        assert!(dirs.all().is_empty());
    }
}
