//! Promises to the kernel: the time for which it may use a name and attributes from its cache.
//!
//! The server promises a name and the attributes of its file only while two conditions hold: the
//! server watches the directory in the store, and the file is at rest. A file is at rest if no
//! client of this mount writes to it and it has not changed for a moment. The name of a directory
//! of the file's views is promised in the same way. The name of a view is never promised, because
//! the next version of the view is a new node. Any change ends the promise, and the server then
//! invalidates the attributes in the kernel.
//!
//! The server gives a promise in this order: read the change count of the directory
//! ([`Promises::mark`]), read the file from the disk, and promise only if no change came in between
//! ([`PromiseMark::give`]). A later change finds the promise and ends it.
//!
//! One thread waits for changes in the store, collects them for a moment and notifies the kernel.
//! The thread only invalidates the attributes of nodes, which takes no directory lock. Invalidating
//! a name would take such a lock, and would detach mounts on the name. If a name leads to a
//! different file by then, the kernel's next request for the attributes fails with ESTALE, and the
//! kernel looks the name up again.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use crate::{DirNode, Ino, Node};
use ctxfs_engine::FileId;
use ctxfs_engine::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use ctxfs_engine::sync::{Mutex, RwLock, now, thread};
use ctxfs_engine::workers::BackgroundThread;
use ctxfs_store::{Dir, NameChange, NameWatch, WatchId};
use ctxfs_view::readings;

/// Duration of a promise about a name and its attributes. A change that the watch does not report
/// becomes visible after this time.
pub(super) const PROMISE_TIME: Duration = Duration::from_secs(1);

/// Number of promises after which all expired promises are dropped, in every directory. Without
/// this, a client that walks through many directories would make them accumulate.
const FORGET_AFTER: u64 = 8192;
const GATHER: Duration = Duration::from_millis(5);

const MOST_DIRS: usize = 1024;
const MOST_NAMES: usize = 32_768;

/// The promises of a mount. The mount gives no promise before [`Self::begin`].
#[derive(Default)]
pub(crate) struct Promises(RwLock<Option<Arc<ActivePromises>>>);

struct ActivePromises {
    watch: NameWatch,
    dirs: Mutex<PromisedDirs>,
    /// Locked while changes are taken from the watch. The next holder of the lock finds all of them
    /// recorded.
    turn: Mutex<()>,
    given: AtomicU64,
    invalidate: Box<dyn Fn(Ino) + Send + Sync>,
    due: Mutex<HashSet<Ino>>,
    /// Locked while notifications are sent to the kernel. The next holder of the lock can rely on
    /// all of them having been sent.
    sending: Mutex<()>,
    wake: OwnedFd,
    ended: AtomicBool,
    thread: BackgroundThread,
}

/// A watched directory, and its change count from before any entry of it was examined.
pub(crate) struct PromiseMark {
    active: Arc<ActivePromises>,
    dir: Arc<PromisedDir>,
    changes: u64,
}

impl Promises {
    pub(crate) fn begin(&self, invalidate: impl Fn(Ino) + Send + Sync + 'static) -> io::Result<()> {
        let active = Arc::new(ActivePromises {
            watch: NameWatch::new()?,
            dirs: Mutex::default(),
            turn: Mutex::default(),
            given: AtomicU64::new(0),
            invalidate: Box::new(invalidate),
            due: Mutex::default(),
            sending: Mutex::default(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            ended: AtomicBool::default(),
            thread: BackgroundThread::default(),
        });
        let weak = Arc::downgrade(&active);
        let changes = active.watch.as_fd().try_clone_to_owned()?;
        let wake = active.wake.try_clone()?;
        active.thread.start("ctxfs-watch", move || work(&weak, &changes, &wake))?;
        *self.0.write() = Some(active);
        Ok(())
    }

    pub(crate) fn finish(&self) {
        let active = self.0.write().take();
        if let Some(active) = active {
            active.ended.store(true, Relaxed);
            active.wake_thread();
            active.thread.join();
        }
    }

    pub(crate) fn are_given(&self) -> bool {
        self.0.read().is_some()
    }

    /// Watches `dir` and reads its change count. Returns `None` if nothing in the directory may be
    /// promised.
    pub(crate) fn mark(&self, dir: &DirNode) -> Option<PromiseMark> {
        let active = Arc::clone(self.0.read().as_ref()?);
        if dir.is_root {
            return None;
        }
        let known = active.dirs.lock().get(dir.id);
        let dir = match known {
            Some(known) => known,
            None => active.dirs.lock().add(&active.watch, dir.id, &*dir.open().ok()?)?,
        };
        let changes = dir.changes.load(SeqCst);
        Some(PromiseMark { active, dir, changes })
    }

    /// Notifies the kernel of all changes so far. A file that is opened afterwards shows them.
    pub(crate) fn settle(&self) {
        let active = self.0.read().clone();
        if let Some(active) = active {
            active.settle();
            active.send_due();
        }
    }

    /// Ends the promises about `name` in `dir` at once, because this mount changes the file.
    pub(crate) fn end(&self, dir: FileId, name: &OsStr) {
        let Some(active) = self.0.read().clone() else { return };
        let dir = active.dirs.lock().get(dir);
        let Some(dir) = dir else { return };
        dir.end(name).into_iter().for_each(&active.invalidate);
    }

    pub(crate) fn end_about(&self, node: &Node) {
        if let Some(link) = node.link()
            && self.are_given()
            && let Some(link) = link.get()
            && let Ok(dir) = link.parent.as_dir()
        {
            self.end(dir.id, &link.name);
        }
    }

    pub(crate) fn end_all(&self) {
        let Some(active) = self.0.read().clone() else { return };
        let dirs = active.dirs.lock().all();
        for dir in dirs {
            dir.end_all().into_iter().for_each(&active.invalidate);
        }
    }
}

impl PromiseMark {
    pub(crate) fn of(promises: &Promises, node: &Node) -> Option<Self> {
        promises.mark(node.as_dir().ok()?)
    }

    /// Promises `node`, which was found under `name` or is a directory of views of the file `name`.
    /// Returns the duration of the promise, which is zero if anything has changed since the mark.
    pub(crate) fn give(&self, name: &OsStr, node: Ino) -> Duration {
        if !self.dir.promise(name, node, PROMISE_TIME) {
            return Duration::ZERO;
        }
        self.active.forget_past();
        self.active.settle();
        let is_unchanged = self.dir.changes.load(SeqCst) == self.changes;
        if is_unchanged { PROMISE_TIME } else { Duration::ZERO }
    }
}

impl ActivePromises {
    fn forget_past(&self) {
        if self.given.fetch_add(1, Relaxed) % FORGET_AFTER == FORGET_AFTER - 1 {
            let dirs = self.dirs.lock().all();
            for dir in dirs {
                dir.forget_past();
            }
        }
    }

    fn settle(&self) {
        let _turn = self.turn.lock();
        self.watch.take(|change| self.note(change));
    }

    fn note(&self, change: NameChange) {
        match change {
            NameChange::Name(id, name) => {
                let Some(dir) = self.dirs.lock().watched(id) else { return };
                self.add_due(dir.end(&name));
                // A new file hides the view of the same name.
                readings(&name).for_each(|(stem, _)| self.add_due(dir.end(stem)));
            }
            NameChange::Dir(id) => {
                let Some(dir) = self.dirs.lock().watched(id) else { return };
                self.add_due(dir.end_all());
            }
            NameChange::Ended(id) => {
                let dir = self.dirs.lock().remove(id);
                self.add_due(dir.map(|dir| dir.end_all()).unwrap_or_default());
            }
            NameChange::Lost => {
                let dirs = self.dirs.lock().all();
                for dir in dirs {
                    self.add_due(dir.end_all());
                }
            }
        }
    }

    fn add_due(&self, nodes: Vec<Ino>) {
        if !nodes.is_empty() {
            self.due.lock().extend(nodes);
            self.wake_thread();
        }
    }

    fn wake_thread(&self) {
        rustix::io::write(&self.wake, &1_u64.to_ne_bytes()).ok();
    }

    fn send_due(&self) {
        let _turn = self.sending.lock();
        let due = std::mem::take(&mut *self.due.lock());
        due.into_iter().for_each(&self.invalidate);
    }
}

fn work(active: &Weak<ActivePromises>, changes: &OwnedFd, wake: &OwnedFd) {
    // Checked before each wait, because an earlier read may have consumed the wake-up that signals
    // the end.
    let is_running = || active.upgrade().is_some_and(|active| !active.ended.load(Relaxed));
    while is_running() && wait(changes, wake) {
        thread::sleep(GATHER);
        rustix::io::read(wake, &mut [0; 8]).ok();
        let Some(active) = active.upgrade() else { return };
        active.settle();
        active.send_due();
    }
}

fn wait(changes: &OwnedFd, wake: &OwnedFd) -> bool {
    let mut ready = [PollFd::new(changes, PollFlags::IN), PollFd::new(wake, PollFlags::IN)];
    loop {
        match poll(&mut ready, None) {
            Ok(_) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                tracing::warn!(%error, "changes in the store are no longer seen");
                return false;
            }
        }
    }
}

/// The watched directories. At their maximum number, no further directory gets promises until other
/// directories have none left.
#[derive(Default)]
pub(super) struct PromisedDirs {
    by_id: HashMap<FileId, Arc<PromisedDir>>,
    by_watch: HashMap<WatchId, Arc<PromisedDir>>,
}

/// A watched directory with its change count, and the promises about names in it.
pub(super) struct PromisedDir {
    id: FileId,
    watch: WatchId,
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

    pub(super) fn remove(&mut self, watch: WatchId) -> Option<Arc<PromisedDir>> {
        let dir = self.by_watch.remove(&watch)?;
        self.by_id.remove(&dir.id);
        Some(dir)
    }

    /// Ends the watches of directories that have no promises, and that no look-up uses at the
    /// moment.
    fn drop_idle(&mut self, watch: &NameWatch) {
        // Only the two maps refer to the directory.
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
    /// Stores a promise of `node` under `name`. Returns false if too many names of the directory
    /// are promised.
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

    /// Ends the promises about `name`, which changes. Returns the promised nodes, whose attributes
    /// the kernel must then drop.
    pub(super) fn end(&self, name: &OsStr) -> Vec<Ino> {
        self.changes.fetch_add(1, SeqCst);
        let promise = self.promised.lock().remove(name);
        promise.map(|promise| promise.nodes).unwrap_or_default()
    }

    pub(super) fn end_all(&self) -> Vec<Ino> {
        self.changes.fetch_add(1, SeqCst);
        let promised = std::mem::take(&mut *self.promised.lock());
        promised.into_values().flat_map(|promise| promise.nodes).collect()
    }

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
    use ctxfs_store::Stat;

    use super::*;

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
        let before = dir.changes.load(SeqCst);
        assert_eq!(dir.end("x".as_ref()), [Ino(7), Ino(8)]);
        assert_ne!(dir.changes.load(SeqCst), before);
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
