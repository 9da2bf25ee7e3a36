//! Limits on space: the cap of an artifact, the quota of a conversation, and the free space on the
//! disk.

use std::fs::File;
use std::io;
use std::sync::Weak;

use crate::quota::{Quotas, RoomRequest};
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::Relaxed;
use crate::{Engine, EngineError, EngineOptions, Reservation, Result};
use ctxfs_core::model::Component;

/// The bytes that may be written between two measurements.
const BETWEEN: u64 = 16 * 1024 * 1024;
/// The sweeps with which one writer tries to make room on the disk. An output that is open gives
/// its room only when it is closed, so another one must go.
const SWEEPS: usize = 3;

/// The space left on the disk and below the quotas. It is measured at intervals, so that writers
/// stop before either is full.
#[derive(Debug, Default)]
pub struct Space {
    disk: Allowance,
    quotas: Quotas,
}

/// The bytes that may be written before the next measurement.
#[derive(Debug, Default)]
struct Allowance(AtomicU64);

impl Allowance {
    /// Returns how many of `length` more bytes fit; `measure` finds out how many would.
    fn spend(&self, length: u64, measure: impl FnOnce() -> Result<u64>) -> Result<u64> {
        let spent = self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(length));
        if spent.is_ok() {
            return Ok(length);
        }
        let free = measure()?;
        // Other writers use the same room, so at most half of it before the next measurement.
        self.0.store((free.saturating_sub(length) / 2).min(BETWEEN), Relaxed);
        Ok(length.min(free))
    }
}

/// Checks that an artifact of `size` bytes that is to end at `end` stays below its cap. One that
/// does not grow may be as long as it is. Fails with [`EngineError::TooLarge`].
pub(crate) fn check_cap(
    options: &EngineOptions,
    is_terminal: impl FnOnce() -> bool,
    size: impl FnOnce() -> Result<u64>,
    end: u64,
) -> Result<()> {
    let over = |cap: Option<u64>| cap.filter(|most| end > *most);
    let log = over(options.max_terminal).filter(|_| is_terminal());
    match over(options.max_artifact).into_iter().chain(log).min() {
        Some(most) if end > size()? => Err(EngineError::TooLarge(most)),
        Some(_) | None => Ok(()),
    }
}

/// Returns how many of `length` bytes at the end of an artifact of `size` bytes stay below its cap.
pub(super) fn fitting_below_cap(
    options: &EngineOptions,
    is_terminal: bool,
    size: u64,
    length: u64,
) -> Result<u64> {
    match check_cap(options, || is_terminal, || Ok(size), size.saturating_add(length)) {
        Err(EngineError::TooLarge(most)) if most > size => Ok(most - size),
        checked => checked.map(|()| length),
    }
}

impl Space {
    /// Checks that `length` more bytes leave enough space on the disk. If need be, clears the cache
    /// of texts and, if outputs `may_go`, removes the oldest. Fails with
    /// [`EngineError::DiskNearlyFull`].
    pub(crate) fn check_disk(&self, engine: &Engine, length: u64, may_go: bool) -> Result<()> {
        let fits = self.fitting_on_disk(engine, length, may_go)?;
        if fits < length {
            Err(EngineError::DiskNearlyFull(engine.options.min_free))
        } else {
            Ok(())
        }
    }

    /// Returns how many of `length` more bytes leave enough on the disk, as
    /// [`Self::check_disk`] has it.
    pub(super) fn fitting_on_disk(
        &self,
        engine: &Engine,
        length: u64,
        may_go: bool,
    ) -> Result<u64> {
        let least = engine.options.min_free;
        let free = || -> Result<u64> {
            let space = engine.store.space()?;
            Ok((space.f_bavail * space.f_frsize).saturating_sub(least))
        };
        let make_room = || match free()? {
            enough if enough >= length => Ok(enough),
            _ => {
                engine.cache.clear()?;
                let free_now = free()?;
                if free_now >= length || !may_go {
                    return Ok(free_now);
                }
                for _ in 0..SWEEPS {
                    let removed = engine.retention.make_room_on_disk(engine, least, length)?;
                    if !removed || free()? >= length {
                        break;
                    }
                }
                free()
            }
        };
        if least == 0 { Ok(length) } else { self.disk.spend(length, make_room) }
    }

    /// Checks that a computed text of `length` bytes leaves enough space on the disk. Removes no
    /// output for it.
    pub(super) fn check_text(&self, engine: &Engine, length: u64) -> io::Result<()> {
        Ok(self.check_disk(engine, length, false)?)
    }

    /// Reserves room below the conversation's quota for all bytes of `request`, or fails with
    /// [`EngineError::OverQuota`]. If need be, removes the oldest outputs.
    pub(super) fn reserve(
        &self,
        engine: &Engine,
        request: &RoomRequest<'_>,
    ) -> Result<Reservation> {
        let reserved = self.reserve_part(engine, request)?;
        if reserved.bytes() < request.growth {
            Err(RoomRequest::refusal(engine))
        } else {
            Ok(reserved)
        }
    }

    /// Reserves room for as many bytes of `request` as fit, perhaps none.
    pub(super) fn reserve_part(
        &self,
        engine: &Engine,
        request: &RoomRequest<'_>,
    ) -> Result<Reservation> {
        self.quotas.reserve(engine, request)
    }

    /// Notes that something of the conversation was removed, cut or moved.
    pub fn freed(&self, conversation: &Component) {
        self.quotas.freed(conversation);
    }

    /// Goes on counting a file of the conversation that has lost its name, until the descriptors
    /// `open` are closed.
    pub fn unlinked(&self, conversation: &Component, open: Vec<Weak<File>>) {
        self.quotas.unlinked(conversation, open);
    }

    /// Forgets a conversation that was removed.
    pub(super) fn forget(&self, conversation: &Component) {
        self.quotas.forget(conversation);
    }
}
