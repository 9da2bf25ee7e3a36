//! Promises to the kernel: the time for which it may answer for a file without asking.
//!
//! A name and the attributes of its file are promised while the server watches the directory in the
//! store and the file is at rest: it has no writer here, and has not changed for a moment. So is the
//! name of a directory of its views. A view's own name is never promised: the next version is
//! another node. A change by anybody ends the promise, and the kernel is told
//! ([`notices`](super::notices)).
//!
//! A promise is kept in this order: the changes of the directory are counted ([`Promises::mark`]),
//! the disk is asked, and the promise is given only if no change came meanwhile
//! ([`Promises::give`]). A change after that finds the promise, and ends it.

mod dirs;

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::node::dir::DirNode;
use crate::node::{Linked, Node};
use crate::notices::Notices;
use crate::promises::dirs::{PromisedDir, PromisedDirs};
use crate::{Ino, Shared};
use ctxfs_engine::FileId;
use ctxfs_engine::sync::atomic::AtomicU64;
use ctxfs_engine::sync::atomic::Ordering::Relaxed;
use ctxfs_engine::sync::{Mutex, RwLock};
use ctxfs_store::{NameChange, NameWatch};
use ctxfs_view::readings;

/// The time for which a name and its attributes are promised. A change that nothing reports shows
/// after it.
pub(super) const LASTS: Duration = Duration::from_secs(1);

/// Promises after which those that have run out are forgotten, wherever they were given: a client
/// may walk through any number of directories.
const FORGET_AFTER: u64 = 8192;

/// Promises of a mount. It gives none before there is a kernel to tell.
#[derive(Default)]
pub(crate) struct Promises(RwLock<Option<Arc<PromiseKeeper>>>);

/// The keeper of the promises: the watch, and the way to the kernel.
struct PromiseKeeper {
    watch: NameWatch,
    dirs: Mutex<PromisedDirs>,
    /// Locked while changes are taken from the watch, so that whoever took the turn has noted all.
    turn: Mutex<()>,
    /// The number of promises that were given.
    given: AtomicU64,
    notices: Notices,
}

/// A directory, and the number of its changes when it was asked for.
pub(crate) struct Mark {
    keeper: Arc<PromiseKeeper>,
    dir: Arc<PromisedDir>,
    changes: u64,
}

impl Promises {
    /// Begins to give promises, with `tell` to make the kernel forget the attributes of a node.
    pub(super) fn begin(&self, tell: impl Fn(Ino) + Send + Sync + 'static) -> io::Result<()> {
        let keeper = Arc::new(PromiseKeeper {
            watch: NameWatch::new()?,
            dirs: Mutex::default(),
            turn: Mutex::default(),
            given: AtomicU64::new(0),
            notices: Notices::new(Box::new(tell))?,
        });
        let weak = Arc::downgrade(&keeper);
        keeper.notices.start(&keeper.watch, move || {
            weak.upgrade().is_some_and(|keeper| {
                keeper.settle();
                true
            })
        })?;
        *self.0.write() = Some(keeper);
        Ok(())
    }

    /// Ends all promises.
    pub(super) fn finish(&self) {
        let keeper = self.0.write().take();
        if let Some(keeper) = keeper {
            keeper.notices.finish();
        }
    }

    /// Returns true if promises are given.
    pub(super) fn are_given(&self) -> bool {
        self.0.read().is_some()
    }

    /// Watches `dir`, and counts its changes up to now. `None` if nothing may be promised in it.
    pub(super) fn mark(&self, dir: &DirNode) -> Option<Mark> {
        let keeper = Arc::clone(self.0.read().as_ref()?);
        if dir.is_root() {
            return None;
        }
        let known = keeper.dirs.lock().get(dir.id());
        let dir = match known {
            Some(known) => known,
            None => keeper.dirs.lock().add(&keeper.watch, dir.id(), &*dir.open().ok()?)?,
        };
        let changes = dir.changes();
        Some(Mark { keeper, dir, changes })
    }

    /// Tells the kernel of all changes up to now, at once: whoever opens a file then sees them.
    pub(super) fn settle(&self) {
        let keeper = self.0.read().clone();
        if let Some(keeper) = keeper {
            keeper.settle();
            keeper.notices.tell_due();
        }
    }

    /// Ends the promises about `name` in `dir`, at once: this mount changes the file.
    pub(super) fn end(&self, dir: FileId, name: &OsStr) {
        let Some(keeper) = self.0.read().clone() else { return };
        let dir = keeper.dirs.lock().get(dir);
        let Some(dir) = dir else { return };
        keeper.notices.tell_now(&dir.end(name));
    }

    /// Ends the promises about the file that has this name, at once.
    pub(super) fn end_about(&self, linked: &Linked) {
        if !self.are_given() {
            return;
        }
        if let Some(link) = linked.get()
            && let Ok(dir) = link.parent.as_dir()
        {
            self.end(dir.id(), &link.name);
        }
    }

    /// Ends all promises at once: a directory moves, with what is below it.
    pub(super) fn end_all(&self) {
        let Some(keeper) = self.0.read().clone() else { return };
        let dirs = keeper.dirs.lock().all();
        for dir in dirs {
            keeper.notices.tell_now(&dir.end_all());
        }
    }
}

impl Mark {
    /// Returns the mark of the directory `node`, before anything in it is looked at.
    pub(super) fn of(fs: &Shared, node: &Node) -> Option<Self> {
        fs.promises.mark(node.as_dir().ok()?)
    }

    /// Promises `node`, which is found under `name` or has its views. Returns the time for
    /// which that lasts: none if anything has changed since the mark.
    pub(super) fn give(&self, name: &OsStr, node: Ino) -> Duration {
        if !self.dir.promise(name, node, LASTS) {
            return Duration::ZERO;
        }
        self.keeper.forget_past();
        self.keeper.settle();
        if self.dir.changes() == self.changes { LASTS } else { Duration::ZERO }
    }
}

impl PromiseKeeper {
    /// Forgets the promises that have run out, now and then.
    fn forget_past(&self) {
        if self.given.fetch_add(1, Relaxed) % FORGET_AFTER == FORGET_AFTER - 1 {
            let dirs = self.dirs.lock().all();
            for dir in dirs {
                dir.forget_past();
            }
        }
    }

    /// Notes all changes up to now.
    fn settle(&self) {
        let _turn = self.turn.lock();
        self.watch.take(|change| self.note(change));
    }

    fn note(&self, change: NameChange) {
        match change {
            NameChange::Name(id, name) => {
                let Some(dir) = self.dirs.lock().watched(id) else { return };
                self.notices.add(dir.end(&name));
                // A new file hides the view of its name.
                readings(&name).for_each(|(stem, _)| self.notices.add(dir.end(stem)));
            }
            NameChange::Dir(id) => {
                let Some(dir) = self.dirs.lock().watched(id) else { return };
                self.notices.add(dir.end_all());
            }
            NameChange::Ended(id) => {
                let dir = self.dirs.lock().remove(id);
                self.notices.add(dir.map(|dir| dir.end_all()).unwrap_or_default());
            }
            NameChange::Lost => {
                let dirs = self.dirs.lock().all();
                for dir in dirs {
                    self.notices.add(dir.end_all());
                }
            }
        }
    }
}
