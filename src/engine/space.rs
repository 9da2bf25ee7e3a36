//! Limits on room: the cap of an artifact, the quota of a conversation, and the free space on disk.

use std::fs::File;
use std::sync::{Arc, Weak};

use crate::error::{EngineError, Result};
use crate::options::EngineOptions;
use crate::quota::{Quotas, Reservation, RoomRequest};
use crate::retention::Retention;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::Relaxed;
use ctxfs_core::model::Component;
use ctxfs_store::{Cache, Conversation, LEAST, Store, whole_blocks};

/// Maximum number of bytes that are written between two measurements of the free space on disk.
const BETWEEN: u64 = 16 * 1024 * 1024;
/// Maximum number of sweeps with which one writer tries to make room on the disk. A removed output
/// that is still open frees its room only when it is closed, so another output must be removed as
/// well.
const SWEEPS: usize = 3;

/// The room left on the disk and below the quotas. It is measured at intervals, so that writers
/// stop before either is full.
///
/// Methods fail with the error of the limit that was reached: [`EngineError::TooLarge`],
/// [`EngineError::OverQuota`] or [`EngineError::DiskNearlyFull`].
#[derive(Debug)]
pub struct Space {
    store: Store,
    cache: Cache,
    options: Arc<EngineOptions>,
    retention: Arc<Retention>,
    disk: Allowance,
    quotas: Quotas,
}

/// The number of bytes that may be written before the next measurement.
#[derive(Debug, Default)]
struct Allowance(AtomicU64);

impl Allowance {
    /// Returns how many of `length` more bytes fit. Calls `measure` if the allowance does not
    /// suffice; `measure` returns the free room.
    fn spend(&self, length: u64, measure: impl FnOnce() -> Result<u64>) -> Result<u64> {
        let spent = self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(length));
        if spent.is_ok() {
            return Ok(length);
        }
        let free = measure()?;
        // Other writers use the same room, so the next allowance is at most half of it.
        self.0.store((free.saturating_sub(length) / 2).min(BETWEEN), Relaxed);
        Ok(length.min(free))
    }
}

impl Space {
    pub(crate) fn new(
        store: &Store,
        cache: &Cache,
        options: &Arc<EngineOptions>,
        retention: &Arc<Retention>,
    ) -> Self {
        Self {
            store: store.clone(),
            cache: cache.clone(),
            options: Arc::clone(options),
            retention: Arc::clone(retention),
            disk: Allowance::default(),
            quotas: Quotas::default(),
        }
    }

    /// Checks that an artifact stays below its cap. It has `size` bytes and will end at the offset
    /// `end`. An artifact that does not grow may exceed the cap.
    pub(crate) fn check_cap(
        &self,
        is_terminal: impl FnOnce() -> bool,
        size: impl FnOnce() -> Result<u64>,
        end: u64,
    ) -> Result<()> {
        let over = |cap: Option<u64>| cap.filter(|most| end > *most);
        let log = over(self.options.max_terminal).filter(|_| is_terminal());
        match over(self.options.max_artifact).into_iter().chain(log).min() {
            Some(most) if end > size()? => Err(EngineError::TooLarge(most)),
            Some(_) | None => Ok(()),
        }
    }

    /// Returns how many of `length` bytes, appended to an artifact of `size` bytes, stay below its
    /// cap.
    pub(crate) fn fitting_below_cap(
        &self,
        is_terminal: bool,
        size: u64,
        length: u64,
    ) -> Result<u64> {
        match self.check_cap(|| is_terminal, || Ok(size), size.saturating_add(length)) {
            Err(EngineError::TooLarge(most)) if most > size => Ok(most - size),
            checked => checked.map(|()| length),
        }
    }

    /// Checks that `length` more bytes leave enough free space on the disk. If necessary, clears
    /// the cache of texts. If that is not enough and `may_go` is true, removes the oldest outputs.
    pub(crate) fn check_disk(&self, length: u64, may_go: bool) -> Result<()> {
        if self.fitting_on_disk(length, may_go)? < length {
            Err(EngineError::DiskNearlyFull(self.options.min_free))
        } else {
            Ok(())
        }
    }

    /// Returns how many of `length` more bytes leave enough free space on the disk. Makes room in
    /// the same way as [`Self::check_disk`].
    pub(crate) fn fitting_on_disk(&self, length: u64, may_go: bool) -> Result<u64> {
        let least = self.options.min_free;
        if least == 0 {
            return Ok(length);
        }
        let free = || -> Result<u64> {
            let space = self.store.space()?;
            Ok((space.f_bavail * space.f_frsize).saturating_sub(least))
        };
        let make_room = || {
            let enough = free()?;
            if enough >= length {
                return Ok(enough);
            }
            self.cache.clear()?;
            let free_now = free()?;
            if free_now >= length || !may_go {
                return Ok(free_now);
            }
            for _ in 0..SWEEPS {
                let removed = self.retention.make_room_on_disk(least, length)?;
                if !removed || free()? >= length {
                    break;
                }
            }
            free()
        };
        self.disk.spend(length, make_room)
    }

    /// Reserves room below the conversation's quota for all bytes of `request`. If necessary,
    /// removes the oldest outputs.
    pub(crate) fn reserve(&self, request: &RoomRequest<'_>) -> Result<Reservation> {
        let reserved = self.reserve_part(request)?;
        if reserved.bytes() < request.growth { Err(self.over_quota()) } else { Ok(reserved) }
    }

    /// Reserves room for as many bytes of `request` as fit, possibly for none.
    pub(crate) fn reserve_part(&self, request: &RoomRequest<'_>) -> Result<Reservation> {
        self.quotas.reserve(self.options.quota, &self.retention, request)
    }

    pub(crate) fn over_quota(&self) -> EngineError {
        EngineError::OverQuota(self.options.quota.unwrap_or(u64::MAX))
    }

    /// Checks the disk and reserves room for a new file of `length` bytes in `conversation`.
    pub(crate) fn reserve_file(
        &self,
        conversation: &Conversation,
        length: u64,
    ) -> Result<Reservation> {
        self.check_disk(length, true)?;
        self.reserve_below_quota(conversation, whole_blocks(length).max(LEAST))
    }

    /// Checks the disk and reserves room for `length` more bytes in a log of `conversation`.
    pub(crate) fn reserve_line(
        &self,
        conversation: &Conversation,
        length: u64,
    ) -> Result<Reservation> {
        self.check_disk(length, true)?;
        self.reserve_below_quota(conversation, length)
    }

    fn reserve_below_quota(&self, conversation: &Conversation, growth: u64) -> Result<Reservation> {
        if self.options.quota.is_none() || growth == 0 {
            return Ok(Reservation::default());
        }
        // If the conversation has been removed, only unnamed files of it can remain.
        let id = conversation.id();
        let found = self.store.conversation(id)?;
        let conversation = found.as_deref();
        self.reserve(&RoomRequest { id, conversation, growth, partly: false })
    }

    /// Records that something of the conversation was removed, truncated or moved.
    pub fn freed(&self, conversation: &Component) {
        self.quotas.freed(conversation);
    }

    /// Counts a file of the conversation that has lost its name, until the descriptors `open` are
    /// closed.
    pub fn unlinked(&self, conversation: &Component, open: Vec<Weak<File>>) {
        self.quotas.unlinked(conversation, open);
    }

    pub(crate) fn forget(&self, conversation: &Component) {
        self.quotas.forget(conversation);
    }
}
