//! The faults of a disk, and the rules that cause them.

use std::path::Path;

use fuser::ReplyEmpty;
use parking_lot::Mutex;

/// A call to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Open,
    Create,
    Read,
    Write,
    Sync,
    /// The syncing of a directory. A `/.` follows its path.
    SyncDir,
    Rename,
    /// The reading of a whole directory.
    List,
}

/// A fault: calls fail from the time it is set until it is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    call: Call,
    /// A part of the path of the files that it concerns.
    of: &'static str,
    /// The calls that succeed before it.
    after: usize,
    how: How,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// With this error number.
    Error(i32),
    /// Half of the bytes, at least one.
    Short,
    /// It is answered when the fault is removed.
    Hang,
    /// There is room for so many bytes. The write that needs more writes these, and the next one
    /// none.
    Room(u64),
}

impl Fault {
    /// Makes every `call` fail with `errno`.
    pub(crate) const fn error(call: Call, errno: i32) -> Self {
        Self { call, of: "", after: 0, how: How::Error(errno) }
    }

    /// Makes every read or write move half of the bytes that it is asked for.
    pub(crate) const fn short(call: Call) -> Self {
        Self { call, of: "", after: 0, how: How::Short }
    }

    /// Makes every sync wait until the fault is removed, and then succeed.
    pub(crate) const fn hang() -> Self {
        Self { call: Call::Sync, of: "", after: 0, how: How::Hang }
    }

    /// Leaves room for `bytes` more bytes.
    pub(crate) const fn room(bytes: u64) -> Self {
        Self { call: Call::Write, of: "", after: 0, how: How::Room(bytes) }
    }

    /// Limits the fault to files that have this in their path.
    pub(crate) const fn of(self, of: &'static str) -> Self {
        Self { of, ..self }
    }

    /// Begins the fault after so many of the calls have succeeded.
    pub(crate) const fn after(self, after: usize) -> Self {
        Self { after, ..self }
    }
}

/// The fate of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It reads or writes at most so many bytes.
    Pass(usize),
    Fail(i32),
    Hang,
}

/// The faults that are in force.
#[derive(Default)]
pub(super) struct Faults(Mutex<State>);

#[derive(Default)]
struct State {
    faults: Vec<Fault>,
    struck: usize,
    /// The callers that wait for the end of the faults.
    waiting: Vec<ReplyEmpty>,
}

impl Faults {
    pub(super) fn begin(&self, fault: Fault) {
        self.0.lock().faults.push(fault);
    }

    pub(super) fn end(&self) -> usize {
        let ended = std::mem::take(&mut *self.0.lock());
        ended.waiting.into_iter().for_each(ReplyEmpty::ok);
        ended.struck
    }

    /// Answers a call when the faults end.
    pub(super) fn hold(&self, reply: ReplyEmpty) {
        self.0.lock().waiting.push(reply);
    }

    pub(super) fn struck(&self) -> usize {
        self.0.lock().struck
    }

    /// Returns the fate of `call` on the file at `path`, which is to read or write `bytes` bytes.
    pub(super) fn judge(&self, call: Call, path: &Path, bytes: usize) -> Verdict {
        let mut state = self.0.lock();
        let name = path.to_string_lossy();
        let meant = |fault: &&mut Fault| fault.call == call && name.contains(fault.of);
        let Some(fault) = state.faults.iter_mut().find(meant) else { return Verdict::Pass(bytes) };
        if fault.after > 0 {
            fault.after -= 1;
            return Verdict::Pass(bytes);
        }
        let verdict = match &mut fault.how {
            How::Error(errno) => Verdict::Fail(*errno),
            How::Hang => Verdict::Hang,
            How::Short => Verdict::Pass(bytes.div_ceil(2)),
            How::Room(0) => Verdict::Fail(libc::ENOSPC),
            How::Room(left) => {
                let fit = bytes.min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= fit as u64;
                Verdict::Pass(fit)
            }
        };
        state.struck += usize::from(verdict != Verdict::Pass(bytes));
        verdict
    }
}
