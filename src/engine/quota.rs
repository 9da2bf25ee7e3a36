//! The quota of a conversation: how much room all its files may take on the disk.
//!
//! The room is measured now and then, which looks at every file. In between, each writer takes what
//! it needs from what the last measurement left: first from what this process holds, then from what
//! all processes share ([`ctxfs_store::SharedRoom`]). What is granted and not written yet is
//! reserved, so that a measurement meanwhile counts it.

use std::fs::File;
use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::patience::{allow_slow, may_wait};
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::{DashMap, Mutex, MutexGuard, now};
use crate::{Engine, EngineError, Result};
use ctxfs_core::model::Component;
use ctxfs_store::{Conversation, FileType, SharedRoom, Usage, room_of, stat_file};

/// The bytes that may be written between two measurements.
const BETWEEN: u64 = 16 * 1024 * 1024;
/// The bytes per file that may be written between two measurements. A measurement looks at each
/// file, so its cost for an output does not grow with their number.
const FOR_EACH: u64 = 4096;
/// The most bytes that a process holds for its next writes, so that most of them do not lock the
/// shared room.
const HELD: u64 = 256 * 1024;
/// The part of the shared room that a process holds at most.
const PART: u64 = 16;
/// A measurement that finds too little for a write is believed for this many times as long as it
/// took, unless something is removed here.
const REFUSING: u32 = 10;
/// A measurement that takes less than this may be made for each write, by any thread.
const QUICK: Duration = Duration::from_millis(1);

/// The quotas of the conversations that are written.
#[derive(Debug, Default)]
pub(super) struct Quotas(DashMap<Component, Arc<Quota>>);

/// The state of a conversation's quota in this process.
#[derive(Debug)]
struct Quota {
    /// The bytes that this process has taken from the shared room and not granted yet. Locked for a
    /// moment only.
    held: Mutex<u64>,
    /// Locked by the thread that takes from the shared room, or measures.
    turn: Mutex<()>,
    /// The nanoseconds that the last measurement took. More than any before the first one.
    took: AtomicU64,
    /// The bytes that the last measurement found which could read everything, and those granted
    /// since.
    at_least: AtomicU64,
    /// The bytes that were granted and may not be written yet.
    reserved: AtomicU64,
    refusal: Mutex<Option<Refusal>>,
    /// Files that have lost their names and are open.
    unlinked: Mutex<Vec<UnlinkedFile>>,
}

impl Default for Quota {
    fn default() -> Self {
        Self {
            held: Mutex::default(),
            turn: Mutex::default(),
            took: AtomicU64::new(u64::MAX),
            at_least: AtomicU64::default(),
            reserved: AtomicU64::default(),
            refusal: Mutex::default(),
            unlinked: Mutex::default(),
        }
    }
}

/// The descriptors of a file without a name. It takes room until all of them are closed.
#[derive(Debug)]
struct UnlinkedFile(Vec<Weak<File>>);

/// A measurement that found too little, and the time until which it is believed.
#[derive(Debug)]
struct Refusal {
    free: u64,
    until: Instant,
}

/// A question for room.
pub(super) struct RoomRequest<'a> {
    pub(super) id: &'a Component,
    /// `None` if only files without a name are left of it.
    pub(super) conversation: Option<&'a Conversation>,
    /// The bytes that are needed.
    pub(super) growth: u64,
    /// True if fewer bytes help, too.
    pub(super) partly: bool,
}

/// The outcome of a measurement.
#[derive(Debug, Clone, Copy)]
struct Measured {
    /// The bytes that would fit.
    free: u64,
    /// The most bytes before the next measurement.
    between: u64,
    /// The sum of the lengths of the artifacts.
    artifacts: u64,
}

/// Room below a quota that was granted. It stays reserved until this is dropped.
#[derive(Debug, Default)]
pub struct Reservation {
    /// `None` if there is no quota.
    quota: Option<Arc<Quota>>,
    bytes: u64,
}

impl Reservation {
    /// Returns room without a quota.
    fn unlimited(bytes: u64) -> Self {
        Self { quota: None, bytes }
    }

    /// Returns the bytes that were granted.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Notes that `bytes` of them are on the disk now, where a measurement finds them.
    pub(super) fn written(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        if let Some(quota) = &self.quota {
            quota.reserved.fetch_sub(bytes, Relaxed);
        }
    }

    /// Adds what was granted as `more`. Keeps at most `most` bytes of both.
    pub(super) fn keep(&mut self, mut more: Self, most: u64) {
        self.bytes += std::mem::take(&mut more.bytes);
        self.quota = self.quota.take().or_else(|| more.quota.take());
        self.written(self.bytes.saturating_sub(most));
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.written(self.bytes);
    }
}

impl Quotas {
    /// Reserves room. Returns less than was asked for only if that helps, and else nothing.
    pub(super) fn reserve(
        &self,
        engine: &Engine,
        request: &RoomRequest<'_>,
    ) -> Result<Reservation> {
        let Some(most) = engine.options.quota.filter(|_| request.growth > 0) else {
            return Ok(Reservation::unlimited(request.growth));
        };
        let quota = self.of(request.id);
        let measure = || quota.measure_and_make_room(engine, request, most);
        let shared = || -> Result<Option<SharedRoom>> {
            let lock = |conversation| SharedRoom::lock(conversation, may_wait());
            Ok(request.conversation.map_or(Ok(None), lock)?)
        };
        let bytes = quota.grant(request, most, shared, measure)?;
        Ok(Reservation { quota: Some(quota), bytes })
    }

    fn of(&self, id: &Component) -> Arc<Quota> {
        Arc::clone(&*self.0.entry(id.clone()).or_default())
    }

    /// Forgets a refusal, as something of the conversation was removed, cut or moved.
    pub(super) fn freed(&self, id: &Component) {
        if let Some(known) = self.0.get(id) {
            *known.refusal.lock() = None;
        }
    }

    /// Goes on counting a file that has lost its name, until its descriptors are closed.
    pub(super) fn unlinked(&self, id: &Component, open: Vec<Weak<File>>) {
        let quota = self.of(id);
        let mut unlinked = quota.unlinked.lock();
        unlinked.retain(|file| file.open().is_some());
        unlinked.push(UnlinkedFile(open));
    }

    /// Forgets a conversation that was removed, unless there are files without a name.
    pub(super) fn forget(&self, id: &Component) {
        self.0.remove_if(id, |_, quota| {
            quota.unlinked.lock().iter().all(|file| file.open().is_none())
        });
    }
}

impl Quota {
    /// Returns how many bytes are granted, which are then reserved. `shared` locks the room of all
    /// processes, and `measure` finds out how much there is.
    fn grant(
        &self,
        request: &RoomRequest<'_>,
        quota: u64,
        shared: impl FnOnce() -> Result<Option<SharedRoom>>,
        measure: impl FnOnce() -> Result<Measured>,
    ) -> Result<u64> {
        if let Some(granted) = self.take_held(request.growth) {
            return Ok(granted);
        }
        let _turn = self.take_turn()?;
        // Whoever had the turn before may have taken more than it needed.
        if let Some(granted) = self.take_held(request.growth) {
            return Ok(granted);
        }
        if self.is_refused(request) {
            return Ok(0);
        }
        let shared = shared()?;
        let mut held = std::mem::take(&mut *self.held.lock());
        let granted = self.grant_shared(request, quota, &mut held, shared, measure);
        *self.held.lock() += held;
        granted.map(|granted| self.reserve(granted))
    }

    /// Grants `growth` bytes of those that are held, or nothing.
    fn take_held(&self, growth: u64) -> Option<u64> {
        let mut held = self.held.lock();
        *held = held.checked_sub(growth)?;
        Some(self.reserve(growth))
    }

    /// Reserves what is granted. The caller has locked what it takes that from, so that whoever
    /// measures finds it in one place or the other.
    fn reserve(&self, granted: u64) -> u64 {
        self.reserved.fetch_add(granted, Relaxed);
        self.at_least.fetch_add(granted, Relaxed);
        granted
    }

    /// Takes the turn of the thread that may measure. Fails with EAGAIN where that may take long
    /// and this thread may not wait.
    fn take_turn(&self) -> Result<MutexGuard<'_, ()>> {
        let taken = || io::Error::from_raw_os_error(libc::EAGAIN);
        if may_wait() {
            Ok(self.turn.lock())
        } else {
            Ok(self.turn.try_lock().ok_or_else(taken)?)
        }
    }

    /// Takes from the shared room, or measures, with the bytes `held`, of which nobody else takes
    /// any meanwhile.
    fn grant_shared(
        &self,
        request: &RoomRequest<'_>,
        quota: u64,
        held: &mut u64,
        shared: Option<SharedRoom>,
        measure: impl FnOnce() -> Result<Measured>,
    ) -> Result<u64> {
        let left = shared.as_ref().map_or(Ok(0), |shared| shared.left(quota))?;
        let (granted, rest) = if let Some(rest) = left.checked_sub(request.growth - *held) {
            (request.growth, rest)
        } else {
            if self.took.load(Relaxed) > QUICK.as_nanos() as u64 {
                allow_slow()?;
            }
            let started = now();
            let measured = measure()?;
            let took = started.elapsed();
            self.took.store(took.as_nanos() as u64, Relaxed);
            let granted = request.fitting(measured.free);
            if granted < request.growth {
                self.refuse(measured.free - granted, took);
            }
            (granted, (measured.free - granted).min(measured.between))
        };
        *held = 0;
        if let Some(shared) = shared {
            *held = (rest / PART).min(HELD);
            shared.set(quota, rest - *held)?;
        }
        Ok(granted)
    }

    /// Returns true if an earlier refusal is still believed, and nothing of the request fits.
    fn is_refused(&self, request: &RoomRequest<'_>) -> bool {
        let mut refusal = self.refusal.lock();
        let mut unlinked = self.unlinked.lock();
        let before = unlinked.len();
        unlinked.retain(|file| file.open().is_some());
        if unlinked.len() < before {
            *refusal = None;
        }
        let believed = refusal.as_ref().filter(|known| now() < known.until);
        believed
            .is_some_and(|known| request.growth > known.free && request.fitting(known.free) == 0)
    }

    fn refuse(&self, free: u64, took: Duration) {
        if took > QUICK {
            *self.refusal.lock() = Some(Refusal { free, until: now() + took * REFUSING });
        }
    }

    /// Measures, and if too little would fit, removes the oldest outputs where a rule allows that,
    /// and measures again.
    fn measure_and_make_room(
        &self,
        engine: &Engine,
        request: &RoomRequest<'_>,
        quota: u64,
    ) -> Result<Measured> {
        let found = self.measure(request, quota)?;
        let lacking = request.growth.saturating_sub(found.free);
        if lacking == 0 || request.conversation.is_none() {
            return Ok(found);
        }
        let may_stay = found.artifacts.saturating_sub(lacking);
        engine.retention.make_room_in(engine, request.id, may_stay)?;
        self.measure(request, quota)
    }

    fn measure(&self, request: &RoomRequest<'_>, quota: u64) -> Result<Measured> {
        let at_least = self.at_least.load(Relaxed);
        let mut found = self.find(request)?;
        // ext4 leaves blocks out of st_blocks for a moment while it chooses a place for them. What
        // seems to be gone is looked for once more.
        if found.bytes < at_least {
            let again = self.find(request)?;
            found = Usage { bytes: again.bytes.max(found.bytes), ..again };
        }
        let Usage { entries, bytes, artifacts, is_whole } = found;
        // What cannot be read, such as a directory that its owner has closed, is still there.
        let used = if is_whole { bytes } else { bytes.max(at_least) };
        self.at_least.store(used, Relaxed);
        Ok(Measured { free: quota.saturating_sub(used), between: between(entries), artifacts })
    }

    /// Adds up what is on the disk, what is open without a name, and what is reserved.
    fn find(&self, request: &RoomRequest<'_>) -> Result<Usage> {
        // First: what is written meanwhile then counts twice at most.
        let reserved = self.reserved.load(Relaxed);
        let gone = Usage { is_whole: true, ..Usage::default() };
        let mut found = request.conversation.map_or(Ok(gone), Usage::of)?;
        let open: Vec<_> = self.unlinked.lock().iter().filter_map(UnlinkedFile::open).collect();
        let unlinked: u64 = open.iter().filter_map(|file| unlinked_room(file)).sum();
        found.bytes += unlinked + reserved;
        Ok(found)
    }
}

impl RoomRequest<'_> {
    /// Returns how many of the bytes are granted where `free` bytes fit.
    fn fitting(&self, free: u64) -> u64 {
        if self.partly || free >= self.growth { self.growth.min(free) } else { 0 }
    }

    /// Returns the error for a request that was not granted.
    pub(super) fn refusal(engine: &Engine) -> EngineError {
        EngineError::OverQuota(engine.options.quota.unwrap_or(u64::MAX))
    }
}

impl UnlinkedFile {
    fn open(&self) -> Option<Arc<File>> {
        self.0.iter().find_map(Weak::upgrade)
    }
}

/// Returns the room of a file that has lost its name. A link to it elsewhere would be counted
/// there.
fn unlinked_room(file: &File) -> Option<u64> {
    let stat = stat_file(file).ok()?;
    (stat.kind() == FileType::File && stat.nlink == 0).then(|| room_of(&stat))
}

/// Returns the bytes between two measurements of a conversation with so many files.
fn between(entries: u64) -> u64 {
    BETWEEN.max(entries.saturating_mul(FOR_EACH))
}

#[cfg(any(test, feature = "testing"))]
pub mod fixture;
#[cfg(test)]
mod tests;
