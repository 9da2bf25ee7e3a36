//! Requests that change nothing, and that whoever waits may give up while they are worked on: a
//! look-up, attributes, opening for reading. The work goes on, and what comes of it is let go.

use std::ffi::OsStr;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::waiting::Unanswered;
use crate::{
    About, Caller, ContextFs, Entry, Fh, FsError, Ino, OpenMode, Opened, RequestOrigin, Result,
    TimedAttr, open,
};
use ctxfs_engine::sync::{Mutex, now};

/// The function that answers a request, until somebody takes it.
struct Pending<D>(Mutex<Option<D>>);

impl<D> Pending<D> {
    fn take(&self) -> Option<D> {
        self.0.lock().take()
    }
}

/// The work on a request. If it ends without a result, as by a panic, the function is dropped, and
/// so answers EIO.
struct Working<D>(Arc<Pending<D>>);

impl<D> Drop for Working<D> {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

/// A [`Pending`] whose answer is a result of some type.
struct Interruptible<D, T>(Arc<Pending<D>>, PhantomData<fn(T)>);

impl<T, D: FnOnce(Result<T>) + Send> Unanswered for Interruptible<D, T> {
    fn is_answered(&self) -> bool {
        self.0.0.lock().is_none()
    }

    fn interrupt(&self) {
        if let Some(done) = self.0.take() {
            done(Err(FsError::Interrupted));
        }
    }
}

impl ContextFs {
    /// Finds a name as [`Self::lookup`] does, and hands it to `done`. It may wait for other hosts.
    pub fn lookup_patiently(
        &self,
        parent: Ino,
        name: Arc<OsStr>,
        caller: Caller,
        done: impl FnOnce(Result<Entry>) + Send + 'static,
    ) {
        let undo = |fs: &Self, entry: Entry| fs.forget(entry.attr.ino, 1);
        self.interruptibly(caller.pid, done, undo, |done| {
            let origin = RequestOrigin { about: About::Node(parent), tid: caller.pid };
            self.patiently(origin, move |fs| fs.lookup(parent, &name, caller), done);
        });
    }

    /// Does what [`Self::patiently`] does, for an operation that changes nothing, and whose result
    /// holds nothing.
    pub fn ask_patiently<T: Send + 'static>(
        &self,
        origin: RequestOrigin,
        attempt: impl FnMut(&Self) -> Result<T> + Send + 'static,
        done: impl FnOnce(Result<T>) + Send + 'static,
    ) {
        self.interruptibly(
            origin.tid,
            done,
            |_, _| (),
            |done| {
                self.patiently(origin, attempt, done);
            },
        );
    }

    /// Hands the attributes of `ino` to `done`. Those of a view may come on another thread, as its
    /// size has to be computed.
    pub fn getattr(
        &self,
        ino: Ino,
        caller: Caller,
        done: impl FnOnce(Result<TimedAttr>) + Send + 'static,
    ) {
        self.interruptibly(
            caller.pid,
            done,
            |_, _| (),
            |done| {
                self.getattr_patiently(ino, caller, done);
            },
        );
    }

    /// Opens a directory and hands it to `done`. The pages of a view may come on another thread, as
    /// their number follows from its size.
    pub fn opendir(
        &self,
        ino: Ino,
        caller: Caller,
        done: impl FnOnce(Result<Fh>) + Send + 'static,
    ) {
        let undo = |fs: &Self, fh| drop(fs.releasedir(fh));
        self.interruptibly(caller.pid, done, undo, |done| {
            self.opendir_patiently(ino, caller, done);
        });
    }

    /// Opens a file and hands it to `done`. A computed file may come on another thread.
    pub fn open(
        &self,
        ino: Ino,
        mode: OpenMode,
        caller: Caller,
        done: impl FnOnce(Result<Opened>) + Send + 'static,
    ) {
        let how = (mode, caller);
        if mode.writes() {
            // It may empty the file.
            return self.open_patiently(ino, how, now(), done);
        }
        let undo = |fs: &Self, opened: Opened| drop(open::give_back(&fs.0, &opened));
        self.interruptibly(caller.pid, done, undo, |done| {
            self.open_patiently(ino, how, now(), done);
        });
    }

    /// Has `run` work on a request and hand its result to the function that it gets, which hands it
    /// to `done`. If the thread `tid`, which waits for it, is told to end before that, `done` gets
    /// [`FsError::Interrupted`]; `undo` then gets what comes too late.
    fn interruptibly<T: 'static, D: FnOnce(Result<T>) + Send + 'static>(
        &self,
        tid: u32,
        done: D,
        undo: impl FnOnce(&Self, T) + Send + 'static,
        run: impl FnOnce(Box<dyn FnOnce(Result<T>) + Send>),
    ) {
        let pending = Arc::new(Pending(Mutex::new(Some(done))));
        let (fs, working) = (self.clone(), Working(Arc::clone(&pending)));
        run(Box::new(move |got| match (working.0.take(), got) {
            (Some(done), got) => done(got),
            (None, Ok(late)) => undo(&fs, late),
            (None, Err(_)) => {}
        }));
        let unanswered = Interruptible(pending, PhantomData);
        if tid != 0 && !unanswered.is_answered() {
            self.0.waiting.watch(tid, Box::new(unanswered));
        }
    }
}
