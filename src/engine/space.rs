//! Limits on space: the cap of an artifact, the quota of a conversation, and the free space on the
//! disk.

use std::io;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use crate::engine::Engine;
use crate::engine::EngineError;
use crate::engine::EngineOptions;
use crate::engine::Result;
use crate::engine::sync::DashMap;
use crate::engine::sync::Mutex;
use crate::engine::sync::atomic::AtomicU64;
use crate::engine::sync::atomic::Ordering::Relaxed;
use crate::engine::sync::now;
use crate::model::Component;
use crate::store::Conversation;
use crate::store::Usage;

/// The bytes that may be written between two measurements.
const BETWEEN: u64 = 16 * 1024 * 1024;
/// The bytes per artifact that may be written between two measurements of a quota. A measurement
/// looks at each artifact, so its cost for an output does not grow with their number.
const FOR_EACH: u64 = 4096;
/// A measurement of a quota that finds too little for a write is believed for this many times as
/// long as it took, unless something is removed here.
const REFUSING: u32 = 10;
/// A measurement that takes less than this may be made for each write.
const QUICK: Duration = Duration::from_millis(1);

/// The space left on the disk and below the quotas. It is measured at intervals, so that writers
/// stop before either is full.
#[derive(Debug, Default)]
pub(crate) struct Space {
    disk: Allowance,
    quotas: DashMap<Component, Arc<Quota>>,
}

/// The state of a conversation's quota.
#[derive(Debug, Default)]
struct Quota {
    allowance: Allowance,
    refusal: Mutex<Option<Refusal>>,
}

/// A measurement that found too little, and the time until which it is believed.
#[derive(Debug)]
struct Refusal {
    free: u64,
    until: Instant,
}

/// The bytes that may be written before the next measurement.
#[derive(Debug, Default)]
struct Allowance(AtomicU64);

/// The outcome of a measurement.
#[derive(Debug, Clone, Copy)]
struct Measured {
    /// The bytes that would fit.
    free: u64,
    /// The most bytes before the next measurement.
    between: u64,
}

impl Allowance {
    /// Returns how many of `length` more bytes fit; `measure` finds out how many would.
    fn spend(&self, length: u64, measure: impl FnOnce() -> Result<Measured>) -> Result<u64> {
        let spent = self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(length));
        if spent.is_ok() {
            return Ok(length);
        }
        let Measured { free, between } = measure()?;
        // Other writers use the same room, so at most half of it before the next measurement.
        self.0.store((free.saturating_sub(length) / 2).min(between), Relaxed);
        Ok(length.min(free))
    }
}

impl Quota {
    /// Returns how many of `growth` more bytes fit.
    fn spend(&self, growth: u64, measure: impl FnOnce() -> Result<Measured>) -> Result<u64> {
        let started = now();
        let refuses = |refusal: &&Refusal| growth > refusal.free && started < refusal.until;
        if let Some(refusal) = self.refusal.lock().as_ref().filter(refuses) {
            return Ok(refusal.free);
        }
        let mut free = 0;
        let measure = || measure().inspect(|measured| free = measured.free);
        let fits = self.allowance.spend(growth, measure)?;
        let took = started.elapsed();
        if fits < growth && took > QUICK {
            *self.refusal.lock() = Some(Refusal { free, until: now() + took * REFUSING });
        }
        Ok(fits)
    }
}

/// Checks that an artifact that ends at `end` stays below its cap. Fails with
/// [`EngineError::TooLarge`].
pub(crate) fn check_cap(
    options: &EngineOptions,
    is_terminal: impl FnOnce() -> bool,
    end: u64,
) -> Result<()> {
    let over = |cap: Option<u64>| cap.filter(|most| end > *most);
    let log = over(options.max_terminal).filter(|_| is_terminal());
    match over(options.max_artifact).into_iter().chain(log).min() {
        Some(most) => Err(EngineError::TooLarge(most)),
        None => Ok(()),
    }
}

/// Returns how many of `length` bytes at the end of an artifact of `size` bytes stay below its cap.
pub(super) fn fitting_below_cap(
    options: &EngineOptions,
    is_terminal: bool,
    size: u64,
    length: u64,
) -> Result<u64> {
    match check_cap(options, || is_terminal, size.saturating_add(length)) {
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
                engine.retention.make_room_on_disk(engine, least, length)?;
                free()
            }
        };
        let measure = || Ok(Measured { free: make_room()?, between: BETWEEN });
        if least == 0 { Ok(length) } else { self.disk.spend(length, measure) }
    }

    /// Checks that a computed text of `length` bytes leaves enough space on the disk. Removes no
    /// output for it.
    pub(super) fn check_text(&self, engine: &Engine, length: u64) -> io::Result<()> {
        Ok(self.check_disk(engine, length, false)?)
    }

    /// Checks that artifacts that grow by `growth` bytes stay below the conversation's quota. If
    /// need be, removes the oldest. Fails with [`EngineError::OverQuota`].
    pub(crate) fn check_quota(
        &self,
        engine: &Engine,
        conversation: &Conversation,
        growth: u64,
    ) -> Result<()> {
        let Some(quota) = engine.options.quota else { return Ok(()) };
        let fits = self.fitting_in_quota(engine, conversation, growth, 0)?;
        if fits < growth { Err(EngineError::OverQuota(quota)) } else { Ok(()) }
    }

    /// Returns by how many of `growth` bytes the artifacts may grow, as [`Self::check_quota`] has
    /// it. `hidden` are the bytes of the artifact itself that are not among those on disk yet.
    pub(super) fn fitting_in_quota(
        &self,
        engine: &Engine,
        conversation: &Conversation,
        growth: u64,
        hidden: u64,
    ) -> Result<u64> {
        let Some(quota) = engine.options.quota.filter(|_| growth > 0) else { return Ok(growth) };
        let free = || -> Result<Measured> {
            let Usage { artifacts, bytes } = conversation.usage()?;
            let free = quota.saturating_sub(bytes.saturating_add(hidden));
            Ok(Measured { free, between: between(artifacts) })
        };
        let measure = || match free()? {
            enough if enough.free >= growth => Ok(enough),
            _ => {
                let growth = growth.saturating_add(hidden);
                engine.retention.make_room_in(engine, conversation.id(), quota, growth)?;
                free()
            }
        };
        let known = Arc::clone(&*self.quotas.entry(conversation.id().clone()).or_default());
        known.spend(growth, measure)
    }

    /// Forgets a refusal, as something of the conversation was removed, cut or moved.
    pub(crate) fn freed(&self, conversation: &Component) {
        if let Some(known) = self.quotas.get(conversation) {
            *known.refusal.lock() = None;
        }
    }
}

/// Returns the bytes between two measurements of a conversation with so many artifacts.
fn between(artifacts: u64) -> u64 {
    BETWEEN.max(artifacts.saturating_mul(FOR_EACH))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of `growth` bytes fit, and true if a measurement, which finds `room`, was
    /// needed for that.
    fn spend(quota: &Quota, growth: u64, room: u64) -> (u64, bool) {
        let mut measured = false;
        let measure = || {
            measured = true;
            Ok(Measured { free: room, between: between(0) })
        };
        (quota.spend(growth, measure).unwrap(), measured)
    }

    #[test]
    fn an_output_pays_for_one_size_at_most_however_many_artifacts_there_are() {
        const OUTPUTS: u64 = 500_000;
        for artifacts in [0, 1000, 100_000] {
            let (quota, mut asked) = (Quota::default(), 0);
            for _ in 0..OUTPUTS {
                let measure = || {
                    asked += artifacts;
                    Ok(Measured { free: u64::MAX, between: between(artifacts) })
                };
                assert_eq!(quota.spend(4096, measure).unwrap(), 4096);
            }
            assert!(asked <= OUTPUTS, "{asked} sizes for {OUTPUTS} outputs beside {artifacts}");
        }
    }

    #[test]
    fn a_refusal_holds_until_something_is_removed() {
        let (space, id) = (Space::default(), Component::new("c").unwrap());
        let quota = Arc::clone(&*space.quotas.entry(id.clone()).or_default());
        assert_eq!(spend(&quota, 100, 50), (50, true));
        let until = now() + Duration::from_hours(1);
        *quota.refusal.lock() = Some(Refusal { free: 50, until });
        assert_eq!(spend(&quota, 100, 1000), (50, false));
        assert_eq!(spend(&quota, 50, 50), (50, true));
        space.freed(&id);
        assert_eq!(spend(&quota, 100, 1000), (100, true));
    }
}
