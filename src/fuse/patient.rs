//! Requests that may have to wait: each is tried on the thread that got it, which others need, and
//! goes on elsewhere if it must.
//!
//! Locks and leases of other processes are waited for in the waiting room. Work that takes long
//! by itself, such as a flush to the disk, goes to a pool of threads, of which no conversation gets
//! all.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::handle::Handle;
use crate::node::NodeKind;
use crate::waiting::{MOST, Turn};
use crate::{
    Caller, ContextFs, Fh, Flush, FsError, Ino, OpenMode, Opened, Result, TimedAttr, dir, far,
    getattr, io, listing, open,
};
use ctxfs_engine::patience::{promptly, slowly};
use ctxfs_engine::sync::now;
use ctxfs_engine::workers::Beneficiary;

/// The longest wait of a rename from one directory to another: the kernel begins no other such
/// rename of the mount meanwhile.
const CROSSING: Duration = Duration::from_secs(1);

/// The thing that a request is about, which tells its conversation.
#[derive(Debug, Clone, Copy)]
pub enum About {
    /// A node.
    Node(Ino),
    /// An open file.
    Handle(Fh),
}

/// The origin of a request.
#[derive(Debug, Clone, Copy)]
pub struct RequestOrigin {
    /// The thing that it is about.
    pub about: About,
    /// The thread that waits for the answer. 0 if none does, or if it is not known.
    pub tid: u32,
}

/// A request that may have to wait.
struct Request<A, D> {
    fs: ContextFs,
    origin: RequestOrigin,
    /// The time at which it was first tried.
    asked: Instant,
    /// The longest wait.
    most: Option<Duration>,
    attempt: A,
    done: D,
}

impl<T, A, D> Request<A, D>
where
    T: 'static,
    A: FnMut(&ContextFs) -> Result<T> + Send + 'static,
    D: FnOnce(Result<T>) + Send + 'static,
{
    /// Tries it on a thread that others need.
    fn try_promptly(mut self) {
        match promptly(self.asked, || (self.attempt)(&self.fs)) {
            Err(error) if error.is_slow() => match self.fs.check_crowd(self.origin.about) {
                Ok(()) => self.fs.clone().elsewhere(self.origin.about, move || self.try_slowly()),
                Err(crowd) => (self.done)(Err(crowd)),
            },
            tried => self.answer_or_wait(tried),
        }
    }

    fn try_slowly(mut self) {
        let tried = (self.attempt)(&self.fs);
        self.answer_or_wait(tried);
    }

    fn may_wait(&self) -> bool {
        self.most.is_none_or(|most| now() - self.asked < most)
    }

    fn answer_or_wait(self, tried: Result<T>) {
        match tried {
            Err(error) if error.must_wait() && self.may_wait() => {
                let (fs, origin) = (self.fs.clone(), self.origin);
                fs.later(origin, move |turn| match turn {
                    Turn::Again => self.try_promptly(),
                    Turn::NoRoom => (self.done)(Err(error)),
                    Turn::Interrupted => (self.done)(Err(FsError::Interrupted)),
                });
            }
            tried => (self.done)(tried),
        }
    }
}

impl ContextFs {
    /// Tries an operation, and hands its result to `done`. If it needs what another process has
    /// locked, or would take long, it goes on elsewhere, and this returns at once.
    ///
    /// `attempt` is called again as long as it fails for such a reason, and must have changed
    /// nothing then. If whoever waits is told to end, it fails with [`FsError::Interrupted`].
    pub fn patiently<T: 'static>(
        &self,
        origin: RequestOrigin,
        attempt: impl FnMut(&Self) -> Result<T> + Send + 'static,
        done: impl FnOnce(Result<T>) + Send + 'static,
    ) {
        let (fs, asked) = (self.clone(), now());
        Request { fs, origin, asked, most: None, attempt, done }.try_promptly();
    }

    /// As [`Self::patiently`], for a rename from the directory `from` into the directory `to`, for
    /// which the thread `tid` waits.
    pub fn patiently_between(
        &self,
        (from, to): (Ino, Ino),
        tid: u32,
        attempt: impl FnMut(&Self) -> Result<()> + Send + 'static,
        done: impl FnOnce(Result<()>) + Send + 'static,
    ) {
        let (fs, asked) = (self.clone(), now());
        let origin = RequestOrigin { about: About::Node(from), tid };
        let most = (from != to).then_some(CROSSING);
        Request { fs, origin, asked, most, attempt, done }.try_promptly();
    }

    /// Writes as [`Self::write`] does, and hands the result to `done`, perhaps on another thread:
    /// the message log may be locked by another process, room may have to be made, and `mode` may
    /// demand that the bytes are flushed to the disk. The thread `tid` waits for it.
    pub fn write_patiently(
        &self,
        (fh, tid): (Fh, u32),
        offset: u64,
        bytes: &[u8],
        (mode, owner): (OpenMode, Option<u64>),
        done: impl FnOnce(Result<u32>) + Send + 'static,
    ) {
        let flushed = self.flushed(fh, mode, done);
        match promptly(now(), || self.write(fh, offset, bytes, mode, owner)) {
            Err(error) if error.comes_back() => {
                let bytes = bytes.to_vec();
                let write = move |fs: &Self| fs.write(fh, offset, &bytes, mode, owner);
                self.patiently(RequestOrigin { about: About::Handle(fh), tid }, write, flushed);
            }
            written => flushed(written),
        }
    }

    /// Returns a function that hands a result to `done`, after what was written is flushed to the
    /// disk if `mode`, that of the open file, demands that.
    pub fn flushed<T: Send + 'static>(
        &self,
        fh: Fh,
        mode: OpenMode,
        done: impl FnOnce(Result<T>) + Send + 'static,
    ) -> impl FnOnce(Result<T>) + Send + 'static {
        let fs = self.clone();
        move |written| match (written, mode.flush()) {
            (Ok(written), Some(flush)) => {
                let flushing = fs.clone();
                fs.elsewhere(About::Handle(fh), move || {
                    done(io::fsync(&flushing.0, fh, flush).map(|()| written));
                });
            }
            (written, _) => done(written),
        }
    }

    /// Reads what [`Self::read`] said is slow, on another thread, and hands it to `done`: bytes that
    /// are not on this disk have to be fetched.
    pub fn read_elsewhere(
        &self,
        fh: Fh,
        (offset, length): (u64, usize),
        done: impl FnOnce(Result<Vec<u8>>) + Send + 'static,
    ) {
        let (fs, about) = (self.clone(), About::Handle(fh));
        match self.check_crowd(about) {
            Ok(()) => self.elsewhere(about, move || done(far::read(&fs.0, fh, offset, length))),
            Err(crowd) => done(Err(crowd)),
        }
    }

    /// Flushes the bytes of a file to the disk, on another thread, and calls `done`.
    pub fn fsync(&self, fh: Fh, flush: Flush, done: impl FnOnce(Result<()>) + Send + 'static) {
        let (fs, about) = (self.clone(), About::Handle(fh));
        match self.check_crowd(about) {
            Ok(()) => self.elsewhere(about, move || done(io::fsync(&fs.0, fh, flush))),
            crowded => done(crowded),
        }
    }

    /// Flushes the names in a directory to the disk, on another thread, and calls `done`.
    pub fn fsyncdir(&self, ino: Ino, done: impl FnOnce(Result<()>) + Send + 'static) {
        let (fs, about) = (self.clone(), About::Node(ino));
        match self.check_crowd(about) {
            Ok(()) => self.elsewhere(about, move || done(dir::fsync(&fs.0, ino))),
            crowded => done(crowded),
        }
    }

    /// Hands the attributes of `ino` to `done`; see [`Self::getattr`].
    pub(super) fn getattr_patiently(
        &self,
        ino: Ino,
        caller: Caller,
        done: impl FnOnce(Result<TimedAttr>) + Send + 'static,
    ) {
        let again = move |fs: &Self, done: _| fs.getattr_patiently(ino, caller, done);
        let origin = RequestOrigin { about: About::Node(ino), tid: caller.pid };
        let done = self.or_again(origin, done, again);
        promptly(now(), || getattr::getattr(&self.0, ino, caller, done));
    }

    /// Opens a directory and hands it to `done`; see [`Self::opendir`].
    pub(super) fn opendir_patiently(
        &self,
        ino: Ino,
        caller: Caller,
        done: impl FnOnce(Result<Fh>) + Send + 'static,
    ) {
        let again = move |fs: &Self, done: _| fs.opendir_patiently(ino, caller, done);
        let origin = RequestOrigin { about: About::Node(ino), tid: caller.pid };
        let done = self.or_again(origin, done, again);
        promptly(now(), || listing::opendir(&self.0, ino, caller, done));
    }

    /// Opens a file that was first asked for at `asked`; see [`Self::open`].
    pub(super) fn open_patiently(
        &self,
        ino: Ino,
        how: (OpenMode, Caller),
        asked: Instant,
        done: impl FnOnce(Result<Opened>) + Send + 'static,
    ) {
        let again = move |fs: &Self, done: _| fs.open_patiently(ino, how, asked, done);
        let origin = RequestOrigin { about: About::Node(ino), tid: how.1.pid };
        let patient = self.or_again(origin, done, again);
        promptly(asked, || open::open(&self.0, ino, how, patient));
    }

    /// Returns a function that hands a result to `done`. If the result is an error that means to
    /// wait, or that it is slow, calls `again` with `done` later, or elsewhere.
    pub(super) fn or_again<T: 'static, D: FnOnce(Result<T>) + Send + 'static>(
        &self,
        origin: RequestOrigin,
        done: D,
        again: impl FnOnce(&Self, D) + Send + 'static,
    ) -> impl FnOnce(Result<T>) + Send + 'static {
        let fs = self.clone();
        move |got| match got {
            Err(error) if error.must_wait() => {
                let waiting = fs.clone();
                fs.later(origin, move |turn| match turn {
                    Turn::Again => again(&waiting, done),
                    Turn::NoRoom => done(Err(error)),
                    Turn::Interrupted => done(Err(FsError::Interrupted)),
                });
            }
            Err(error) if error.is_slow() => match fs.check_crowd(origin.about) {
                Ok(()) => fs.clone().elsewhere(origin.about, move || again(&fs, done)),
                Err(crowd) => done(Err(crowd)),
            },
            got => done(got),
        }
    }

    /// Calls `again` when it is time to try a request again, or when its wait ends otherwise.
    fn later(&self, origin: RequestOrigin, again: impl FnOnce(Turn) + Send + 'static) {
        let whom = self.conversation_of(origin.about);
        if let Err(refused) = self.0.waiting.add(whom, origin.tid, Box::new(again)) {
            refused(Turn::NoRoom);
        }
    }

    /// Fails if too many requests of a conversation wait for [`Self::elsewhere`].
    pub(super) fn check_crowd(&self, about: About) -> Result<()> {
        match self.0.slow_workers.waiting(&self.conversation_of(about)) {
            MOST.. => Err(FsError::Held("too many requests of the conversation wait already")),
            _ => Ok(()),
        }
    }

    /// Calls `run` on a thread that nobody else waits for, as it takes long.
    pub(super) fn elsewhere(&self, about: About, run: impl FnOnce() + Send + 'static) {
        let run = move || slowly(run);
        if let Err(error) = self.0.slow_workers.submit(self.conversation_of(about), run) {
            tracing::warn!(%error, "a request could not be handed to another thread");
        }
    }

    /// Returns the conversation of what a request is about.
    fn conversation_of(&self, about: About) -> Beneficiary {
        let node = match about {
            About::Node(ino) => self.0.nodes.get(ino).ok()?,
            About::Handle(fh) => match self.0.handles.get(fh).ok()? {
                Handle::File(file) => Arc::clone(&file.node),
                Handle::Far(open) => Arc::clone(&open.node),
                Handle::Computed(_) | Handle::Listing(_) => return None,
            },
        };
        match &node.kind {
            NodeKind::Computed(of) => of.computed.conversation(),
            _ => node.conversation(),
        }
    }
}
