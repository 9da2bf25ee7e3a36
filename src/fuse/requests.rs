//! Requests that may have to wait. The worker that received a request tries it first. Other clients
//! need the worker, so a request that must wait continues on another thread.
//!
//! A request that needs a lock or a lease of another process is retried from the waiting room
//! ([`waiting`](super::waiting)). Work that takes long by itself, such as a flush to the disk, runs
//! on a pool of threads. No conversation may use all threads of the pool.
//!
//! A request that changes nothing can be interrupted. The client then gets EINTR, the work
//! continues, and the result is released.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::waiting::{MOST, Unanswered, WaitOutcome};
use crate::{
    Caller, ContextFs, Entry, Fh, FilePosition, Flush, FsError, Handle, Ino, NodeKind, OpenMode,
    Opened, Result, Shared, TimedAttr, attributes, dir, io, listing, open, remote,
};
use ctxfs_engine::patience::{promptly, slowly};
use ctxfs_engine::sync::{Mutex, now};
use ctxfs_engine::workers::JobOwner;

/// Maximum wait of a rename from one directory to another. Meanwhile the kernel starts no other
/// such rename on the mount.
const CROSSING: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
pub enum RequestSubject {
    Node(Ino),
    Handle(Fh),
}

/// The origin of a request: its subject, the client thread `tid` that waits for the reply, and the
/// maximum wait for another process. `tid` is 0 if no thread waits, or if the thread is in another
/// PID namespace.
#[derive(Debug, Clone, Copy)]
pub struct RequestOrigin {
    pub about: RequestSubject,
    pub tid: u32,
    pub longest_wait: Option<Duration>,
}

impl RequestOrigin {
    pub fn new(about: RequestSubject, tid: u32) -> Self {
        Self { about, tid, longest_wait: None }
    }

    pub fn of_rename(from: Ino, to: Ino, tid: u32) -> Self {
        let longest_wait = (from != to).then_some(CROSSING);
        Self { about: RequestSubject::Node(from), tid, longest_wait }
    }
}

type Reply<T> = Box<dyn FnOnce(Result<T>) + Send>;

/// A request that is retried until it has a result or may not wait longer. `run` makes one attempt
/// and passes its result to the reply, perhaps on another thread. `asked` is the time of the
/// request.
#[derive(Clone)]
struct PatientRequest<R> {
    fs: ContextFs,
    origin: RequestOrigin,
    asked: Instant,
    run: R,
}

impl<R> PatientRequest<R> {
    fn new(fs: &ContextFs, origin: RequestOrigin, run: R) -> Self {
        Self { fs: fs.clone(), origin, asked: now(), run }
    }

    fn start<T: 'static>(self, done: Reply<T>)
    where
        R: Fn(&ContextFs, Reply<T>) + Clone + Send + 'static,
    {
        let Self { fs, asked, run, .. } = self.clone();
        promptly(asked, || run(&fs, Box::new(move |tried| self.answer(tried, done))));
    }

    fn answer<T: 'static>(self, tried: Result<T>, done: Reply<T>)
    where
        R: Fn(&ContextFs, Reply<T>) + Clone + Send + 'static,
    {
        let (fs, origin) = (Arc::clone(&self.fs.0), self.origin);
        let may_wait = || origin.longest_wait.is_none_or(|most| now() - self.asked < most);
        match tried {
            Err(error) if error.must_wait() && may_wait() => {
                let again = move |turn| match turn {
                    WaitOutcome::Again => self.start(done),
                    WaitOutcome::NoRoom => done(Err(error)),
                    WaitOutcome::Interrupted => done(Err(FsError::Interrupted)),
                };
                let whom = fs.conversation_of(origin.about);
                if let Err(refused) = fs.waiting.add(whom, origin.tid, Box::new(again)) {
                    refused(WaitOutcome::NoRoom);
                }
            }
            Err(error) if error.is_slow() => match fs.check_crowd(origin.about) {
                Ok(()) => fs.submit_slow(origin.about, move || self.start(done)),
                Err(crowd) => done(Err(crowd)),
            },
            tried => done(tried),
        }
    }
}

struct PendingReply<T>(Mutex<Option<Reply<T>>>);

impl<T> PendingReply<T> {
    fn take(&self) -> Option<Reply<T>> {
        self.0.lock().take()
    }
}

/// The work on a request. If it ends without a result, for instance by a panic, the reply is
/// dropped, which answers EIO.
struct PendingWork<T>(Arc<PendingReply<T>>);

impl<T> Drop for PendingWork<T> {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

/// Starts a request that changes nothing. If a signal ends its client before there is a result,
/// `done` gets [`FsError::Interrupted`] and `undo` gets the later result.
fn interruptibly<T, R>(
    request: PatientRequest<R>,
    done: Reply<T>,
    undo: impl FnOnce(&ContextFs, T) + Send + 'static,
) where
    T: 'static,
    R: Fn(&ContextFs, Reply<T>) + Clone + Send + 'static,
{
    let pending = Arc::new(PendingReply(Mutex::new(Some(done))));
    let (fs, tid) = (request.fs.clone(), request.origin.tid);
    let (undoing, work) = (fs.clone(), PendingWork(Arc::clone(&pending)));
    request.start(Box::new(move |got| match (work.0.take(), got) {
        (Some(done), got) => done(got),
        (None, Ok(late)) => undo(&undoing, late),
        (None, Err(_)) => {}
    }));
    let is_answered = |pending: &PendingReply<T>| pending.0.lock().is_none();
    if tid != 0 && !is_answered(&pending) {
        let asked = Arc::clone(&pending);
        let interrupt = move || {
            if let Some(done) = pending.take() {
                done(Err(FsError::Interrupted));
            }
        };
        fs.0.waiting.watch(Unanswered {
            tid,
            is_answered: Box::new(move || is_answered(&asked)),
            interrupt: Box::new(interrupt),
        });
    }
}

impl ContextFs {
    /// Tries an operation and calls `done` with its result. If the operation needs a lock that
    /// another process holds, or would take long, it continues on another thread and this function
    /// returns at once.
    ///
    /// `attempt` is called again as long as it fails for one of these reasons. A failed attempt
    /// must therefore not have changed anything. If a signal ends the client, `done` gets
    /// [`FsError::Interrupted`].
    pub fn retry<T: 'static>(
        &self,
        origin: RequestOrigin,
        attempt: impl Fn(&Self) -> Result<T> + Send + Sync + 'static,
        done: impl FnOnce(Result<T>) + Send + 'static,
    ) {
        let attempt = Arc::new(attempt);
        let run = move |fs: &Self, done: Reply<T>| done(attempt(fs));
        PatientRequest::new(self, origin, run).start(Box::new(done));
    }

    /// Like [`Self::retry`], for an operation that changes nothing and whose result needs no
    /// release. The client can be interrupted at any time.
    pub fn retry_interruptibly<T: 'static>(
        &self,
        origin: RequestOrigin,
        attempt: impl Fn(&Self) -> Result<T> + Send + Sync + 'static,
        done: impl FnOnce(Result<T>) + Send + 'static,
    ) {
        let attempt = Arc::new(attempt);
        let run = move |fs: &Self, done: Reply<T>| done(attempt(fs));
        interruptibly(PatientRequest::new(self, origin, run), Box::new(done), |_, _| ());
    }

    /// Looks up a name like [`Self::lookup`] and calls `done` with the entry. May wait for other
    /// hosts.
    pub fn lookup_then(
        &self,
        parent: Ino,
        name: Arc<OsStr>,
        caller: Caller,
        done: impl FnOnce(Result<Entry>) + Send + 'static,
    ) {
        let origin = RequestOrigin::new(RequestSubject::Node(parent), caller.pid);
        let run = move |fs: &Self, done: Reply<_>| done(fs.lookup(parent, &name, caller));
        let undo = |fs: &Self, entry: Entry| fs.forget(entry.attr.ino, 1);
        interruptibly(PatientRequest::new(self, origin, run), Box::new(done), undo);
    }

    /// Calls `done` with the attributes of `ino`. May call it on another thread, because the size
    /// of a view may have to be computed.
    pub fn getattr(
        &self,
        ino: Ino,
        caller: Caller,
        done: impl FnOnce(Result<TimedAttr>) + Send + 'static,
    ) {
        let origin = RequestOrigin::new(RequestSubject::Node(ino), caller.pid);
        let run = move |fs: &Self, done: Reply<_>| attributes::getattr(&fs.0, ino, caller, done);
        interruptibly(PatientRequest::new(self, origin, run), Box::new(done), |_, _| ());
    }

    /// Opens a directory and calls `done` with the handle. For a directory of the pages of a view,
    /// may call it on another thread, because the number of pages depends on the size of the view.
    pub fn opendir(
        &self,
        ino: Ino,
        caller: Caller,
        done: impl FnOnce(Result<Fh>) + Send + 'static,
    ) {
        let origin = RequestOrigin::new(RequestSubject::Node(ino), caller.pid);
        let run = move |fs: &Self, done: Reply<_>| listing::opendir(&fs.0, ino, caller, done);
        let undo = |fs: &Self, fh| drop(fs.releasedir(fh));
        interruptibly(PatientRequest::new(self, origin, run), Box::new(done), undo);
    }

    /// Opens a file and calls `done` with the result. For a computed file, may call it on another
    /// thread.
    pub fn open(
        &self,
        ino: Ino,
        mode: OpenMode,
        caller: Caller,
        done: impl FnOnce(Result<Opened>) + Send + 'static,
    ) {
        let origin = RequestOrigin::new(RequestSubject::Node(ino), caller.pid);
        let run = move |fs: &Self, done: Reply<_>| open::open(&fs.0, ino, (mode, caller), done);
        let request = PatientRequest::new(self, origin, run);
        if mode.writes() {
            // The open may truncate the file, so it is not interrupted.
            return request.start(Box::new(done));
        }
        let undo = |fs: &Self, opened: Opened| drop(open::give_back(&fs.0, &opened));
        interruptibly(request, Box::new(done), undo);
    }

    /// Writes like [`Self::write`] and calls `done` with the result. May call it on another thread:
    /// another process may have locked the message log, disk space may have to be freed, or `mode`
    /// may require a flush to the disk.
    pub fn write_then(
        &self,
        (fh, tid): (Fh, u32),
        offset: u64,
        bytes: &[u8],
        (mode, owner): (OpenMode, Option<u64>),
        done: impl FnOnce(Result<u32>) + Send + 'static,
    ) {
        let done = flush_then(self, (fh, mode), done);
        match promptly(now(), || self.write(fh, offset, bytes, mode, owner)) {
            Err(error) if error.is_retried() => {
                let bytes = bytes.to_vec();
                let write = move |fs: &Self| fs.write(fh, offset, &bytes, mode, owner);
                self.retry(RequestOrigin::new(RequestSubject::Handle(fh), tid), write, done);
            }
            written => done(written),
        }
    }

    /// Copies up to `length` bytes, one block at a time, and calls `done` with the number of copied
    /// bytes. Copies fewer if `from` ends, if `length` exceeds 16 MiB, or if an error occurs after
    /// the first bytes. Each block is an ordinary write.
    pub fn copy_then(
        &self,
        (from, to): (FilePosition, FilePosition),
        length: u64,
        tid: u32,
        done: impl FnOnce(Result<u32>) + Send + 'static,
    ) {
        match self.0.handles.file(to.fh) {
            Ok(handle) => {
                let origin = RequestOrigin::new(RequestSubject::Handle(to.fh), tid);
                let attempt = move |fs: &Self| io::copy(fs, from, to, length);
                self.retry(origin, attempt, flush_then(self, (to.fh, handle.mode), done));
            }
            Err(error) => done(Err(error)),
        }
    }
}

impl ContextFs {
    /// Reads bytes that are not on the local disk, after [`Self::read`] has failed because it would
    /// be slow.
    pub fn read_far(
        &self,
        fh: Fh,
        (offset, length): (u64, usize),
        done: impl FnOnce(Result<Vec<u8>>) + Send + 'static,
    ) {
        let read = move |fs: &Shared| remote::read(fs, fh, offset, length);
        run_slow(self, RequestSubject::Handle(fh), read, done);
    }

    pub fn fsync(&self, fh: Fh, flush: Flush, done: impl FnOnce(Result<()>) + Send + 'static) {
        run_slow(self, RequestSubject::Handle(fh), move |fs| io::fsync(fs, fh, flush), done);
    }

    pub fn fsyncdir(&self, ino: Ino, done: impl FnOnce(Result<()>) + Send + 'static) {
        run_slow(self, RequestSubject::Node(ino), move |fs| dir::fsync(fs, ino), done);
    }
}

/// Returns a function that calls `done` with a result. If `mode` requires it, the function first
/// flushes the bytes of `fh` to the disk.
fn flush_then<T: Send + 'static>(
    fs: &ContextFs,
    (fh, mode): (Fh, OpenMode),
    done: impl FnOnce(Result<T>) + Send + 'static,
) -> impl FnOnce(Result<T>) + Send + 'static {
    let fs = Arc::clone(&fs.0);
    move |written| match (written, mode.flush()) {
        (Ok(written), Some(flush)) => {
            let flushing = Arc::clone(&fs);
            fs.submit_slow(RequestSubject::Handle(fh), move || {
                done(io::fsync(&flushing, fh, flush).map(|()| written));
            });
        }
        (written, _) => done(written),
    }
}

fn run_slow<T>(
    fs: &ContextFs,
    about: RequestSubject,
    run: impl FnOnce(&Shared) -> Result<T> + Send + 'static,
    done: impl FnOnce(Result<T>) + Send + 'static,
) {
    let shared = Arc::clone(&fs.0);
    match fs.0.check_crowd(about) {
        Ok(()) => fs.0.submit_slow(about, move || done(run(&shared))),
        Err(crowd) => done(Err(crowd)),
    }
}

impl Shared {
    fn check_crowd(&self, about: RequestSubject) -> Result<()> {
        match self.slow_workers.waiting(&self.conversation_of(about)) {
            MOST.. => Err(FsError::TryAgain("too many requests of the conversation wait already")),
            _ => Ok(()),
        }
    }

    fn submit_slow(&self, about: RequestSubject, run: impl FnOnce() + Send + 'static) {
        let whom = self.conversation_of(about);
        if let Err(error) = self.slow_workers.submit(whom, move || slowly(run)) {
            tracing::warn!(%error, "a request could not be handed to another thread");
        }
    }

    fn conversation_of(&self, about: RequestSubject) -> JobOwner {
        let node = match about {
            RequestSubject::Node(ino) => self.nodes.get(ino).ok()?,
            RequestSubject::Handle(fh) => match self.handles.get(fh).ok()? {
                Handle::File(file) => Arc::clone(&file.node),
                Handle::Remote(open) => Arc::clone(&open.node),
                Handle::Computed(_) | Handle::Listing(_) => return None,
            },
        };
        match &node.kind {
            NodeKind::Computed(of) => of.computed.base.conversation(),
            _ => node.conversation(),
        }
    }
}
