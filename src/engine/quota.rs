//! The quota of a conversation: how much room all its files may take on the disk.
//!
//! A measurement looks at every file, so it is made only at intervals. In between, each writer
//! takes room from the amount that the last measurement found free: first from the part that this
//! process holds, then from the part that all processes share ([`ctxfs_store::SharedRoom`]).
//! Granted bytes stay reserved until they are written, so that a measurement in the meantime counts
//! them.

use std::fs::File;
use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::{DashMap, Mutex, MutexGuard, now};
use crate::{Result, Retention, allow_slow, may_wait};
use ctxfs_core::model::Component;
use ctxfs_store::{Conversation, FileType, SharedRoom, Usage, room_of, stat_file};

/// Maximum number of bytes that are written between two measurements of a conversation with few
/// files.
const BETWEEN: u64 = 16 * 1024 * 1024;
/// For a conversation with many files, the maximum number of bytes between two measurements is the
/// number of files times `FOR_EACH`, if that is more than `BETWEEN`. A measurement looks at each
/// file, so this keeps the cost per stored output constant as the number of files grows.
const FOR_EACH: u64 = 4096;
/// Maximum number of bytes that a process holds for its next writes. Most writes then do not have
/// to lock the shared room.
const HELD: u64 = 256 * 1024;
/// A process holds at most 1/`PART` of the shared room.
const PART: u64 = 16;
/// A measurement that finds too little room for a write is a refusal. The refusal is reused for
/// this many times the duration of the measurement, unless this process removes something in the
/// meantime.
const REFUSING: u32 = 10;
/// If the last measurement took at most this time, any thread may measure again for each write.
const QUICK: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
pub(crate) struct Quotas(DashMap<Component, Arc<Quota>>);

/// The quota of a conversation, as far as this process uses it.
///
/// - `held`: bytes taken from the shared room and not yet granted. Locked only briefly.
/// - `turn`: locked by the thread that takes from the shared room or measures
/// - `took`: duration of the last measurement in nanoseconds. `u64::MAX` before the first
///   measurement.
/// - `at_least`: the bytes found by the last measurement that could read everything, plus the bytes
///   granted since then
/// - `reserved`: bytes that are granted but perhaps not yet written
#[derive(Debug)]
struct Quota {
    held: Mutex<u64>,
    turn: Mutex<()>,
    took: AtomicU64,
    at_least: AtomicU64,
    reserved: AtomicU64,
    refusal: Mutex<Option<QuotaRefusal>>,
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

/// The descriptors of a file without a name. The file takes room until all of them are closed.
#[derive(Debug)]
struct UnlinkedFile(Vec<Weak<File>>);

/// A measurement that found too little room, and the time until which its result is reused.
#[derive(Debug)]
struct QuotaRefusal {
    free: u64,
    until: Instant,
}

pub(crate) struct RoomRequest<'a> {
    pub(crate) id: &'a Component,
    pub(crate) conversation: Option<&'a Conversation>,
    pub(crate) growth: u64,
    /// True if the caller can also use fewer bytes.
    pub(crate) partly: bool,
}

/// The result of a measurement.
///
/// - `free`: number of bytes that would fit
/// - `between`: maximum number of bytes to grant before the next measurement
/// - `artifacts`: the sum of the lengths of the artifacts
#[derive(Debug, Clone, Copy)]
struct Measured {
    free: u64,
    between: u64,
    artifacts: u64,
}

/// Granted room below a quota. It stays reserved until this value is dropped.
#[derive(Debug, Default)]
pub struct Reservation {
    quota: Option<Arc<Quota>>,
    bytes: u64,
}

impl Reservation {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Records that `bytes` of the reserved bytes are now on the disk, where a measurement finds
    /// them.
    pub(crate) fn written(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        if let Some(quota) = &self.quota {
            quota.reserved.fetch_sub(bytes, Relaxed);
        }
    }

    pub(crate) fn keep(&mut self, mut more: Self, most: u64) {
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
    /// Reserves room below a quota of `most` bytes. If there is less room than requested, grants
    /// what is left if the caller can use fewer bytes, and otherwise nothing. Without a quota,
    /// grants the whole request.
    pub(crate) fn reserve(
        &self,
        most: Option<u64>,
        retention: &Retention,
        request: &RoomRequest<'_>,
    ) -> Result<Reservation> {
        let Some(most) = most.filter(|_| request.growth > 0) else {
            return Ok(Reservation { quota: None, bytes: request.growth });
        };
        let quota = self.of(request.id);
        let measure = || quota.measure_and_make_room(retention, request, most);
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

    /// Forgets a refusal, because something of the conversation was removed, truncated or moved.
    pub(crate) fn freed(&self, id: &Component) {
        if let Some(known) = self.0.get(id) {
            *known.refusal.lock() = None;
        }
    }

    pub(crate) fn unlinked(&self, id: &Component, open: Vec<Weak<File>>) {
        let quota = self.of(id);
        let mut unlinked = quota.unlinked.lock();
        unlinked.retain(|file| file.open().is_some());
        unlinked.push(UnlinkedFile(open));
    }

    /// Forgets a removed conversation, unless it has open unnamed files.
    pub(crate) fn forget(&self, id: &Component) {
        self.0.remove_if(id, |_, quota| {
            quota.unlinked.lock().iter().all(|file| file.open().is_none())
        });
    }
}

impl Quota {
    /// Grants bytes, reserves them, and returns their number. `shared` locks the room that all
    /// processes share. `measure` measures how much room is left.
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
        // The thread that had the turn before may have taken more than it needed.
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

    fn take_held(&self, growth: u64) -> Option<u64> {
        let mut held = self.held.lock();
        *held = held.checked_sub(growth)?;
        Some(self.reserve(growth))
    }

    /// Reserves granted bytes. The caller holds the lock of `held` or the turn, so that the next
    /// measurement counts these bytes as reserved.
    fn reserve(&self, granted: u64) -> u64 {
        self.reserved.fetch_add(granted, Relaxed);
        self.at_least.fetch_add(granted, Relaxed);
        granted
    }

    /// Takes the turn: only one thread at a time may measure. Fails with EAGAIN if another thread
    /// has the turn and this thread must not wait.
    fn take_turn(&self) -> Result<MutexGuard<'_, ()>> {
        let taken = || io::Error::from_raw_os_error(libc::EAGAIN);
        if may_wait() {
            Ok(self.turn.lock())
        } else {
            Ok(self.turn.try_lock().ok_or_else(taken)?)
        }
    }

    /// Takes bytes from the shared room, or measures if they do not suffice. `held` has all bytes
    /// that this process holds, so that no other thread can take them in the meantime.
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
            if granted < request.growth && took > QUICK {
                let (free, until) = (measured.free - granted, now() + took * REFUSING);
                *self.refusal.lock() = Some(QuotaRefusal { free, until });
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

    /// Measures the room that is left below the quota. If the room is too small for the request,
    /// removes the oldest outputs that a retention rule allows to remove, and measures once more.
    fn measure_and_make_room(
        &self,
        retention: &Retention,
        request: &RoomRequest<'_>,
        quota: u64,
    ) -> Result<Measured> {
        let found = self.measure(request, quota)?;
        let lacking = request.growth.saturating_sub(found.free);
        if lacking == 0 || request.conversation.is_none() {
            return Ok(found);
        }
        retention.make_room_in(request.id, found.artifacts.saturating_sub(lacking))?;
        self.measure(request, quota)
    }

    fn measure(&self, request: &RoomRequest<'_>, quota: u64) -> Result<Measured> {
        let at_least = self.at_least.load(Relaxed);
        let mut found = self.usage(request)?;
        // ext4 omits blocks from `st_blocks` for a moment while it chooses a place for them. A sum
        // that is smaller than expected is therefore measured once more.
        if found.bytes < at_least {
            let again = self.usage(request)?;
            found = Usage { bytes: again.bytes.max(found.bytes), ..again };
        }
        let Usage { entries, bytes, artifacts, is_whole } = found;
        // Files in an unreadable directory, such as one without read permission, still take room.
        let used = if is_whole { bytes } else { bytes.max(at_least) };
        self.at_least.store(used, Relaxed);
        Ok(Measured { free: quota.saturating_sub(used), between: between(entries), artifacts })
    }

    /// Adds up the files on disk, the open unnamed files, and the reserved bytes.
    fn usage(&self, request: &RoomRequest<'_>) -> Result<Usage> {
        // The reserved bytes are read first. Bytes that are written in the meantime are then
        // counted at most twice, but never missed.
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
    fn fitting(&self, free: u64) -> u64 {
        if self.partly || free >= self.growth { self.growth.min(free) } else { 0 }
    }
}

impl UnlinkedFile {
    fn open(&self) -> Option<Arc<File>> {
        self.0.iter().find_map(Weak::upgrade)
    }
}

/// Returns the room that a file without a name takes. Returns `None` if the file has another link,
/// because it is then counted there.
fn unlinked_room(file: &File) -> Option<u64> {
    let stat = stat_file(file).ok()?;
    (stat.kind() == FileType::File && stat.nlink == 0).then(|| room_of(&stat))
}

fn between(entries: u64) -> u64 {
    BETWEEN.max(entries.saturating_mul(FOR_EACH))
}

/// For tests: quotas that leave a given room to a new conversation.
#[cfg(any(test, feature = "testing"))]
#[allow(missing_docs, clippy::unwrap_used, reason = "a fixture, also for tests of other crates")]
pub mod fixture {
    use ctxfs_core::model::Component;
    use ctxfs_store::{SharedRoom, Store, Usage};

    pub fn of_new_conversation(room: u64) -> u64 {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let conversation = store.create_conversation(&Component::new("c").unwrap()).unwrap();
        SharedRoom::lock(&conversation, true).unwrap().unwrap().set(0, 0).unwrap();
        Usage::of(&conversation).unwrap().bytes + room
    }
}

#[cfg(test)]
mod tests;
