//! Room: on the store's disk, and in a conversation's quota.

use std::sync::Arc;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use crate::fs::FsError;
use crate::fs::Options;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::node::Node;
use crate::fs::sync::DashMap;
use crate::fs::sync::Mutex;
use crate::fs::sync::MutexGuard;
use crate::fs::sync::atomic::AtomicU64;
use crate::fs::sync::atomic::Ordering::Relaxed;
use crate::fs::sync::now;
use crate::model::Component;
use crate::store::Cache;
use crate::store::Conversation;
use crate::store::Store;
use crate::store::Usage;

/// Bytes written between two looks.
const BETWEEN_LOOKS: u64 = 16 * 1024 * 1024;
/// The same, for each artifact whose size a look at a quota has to ask for: what a look costs a
/// small output does not grow with their number.
const FOR_EACH: u64 = 4096;
/// Looks at a quota that find too little room for a write take no more than one in so many parts of
/// the time, as long as nothing is removed here.
const REFUSING: u32 = 10;
/// A look that takes less is no matter.
const QUICK: Duration = Duration::from_millis(1);

/// Looks at disk and quotas now and then, so that writers stop before either is full.
#[derive(Debug, Default)]
pub(crate) struct Room {
    disk: Credit,
    quotas: DashMap<Component, Arc<Quota>>,
}

/// What is known of a conversation's quota.
#[derive(Debug, Default)]
struct Quota {
    credit: Credit,
    refusal: Mutex<Option<Refusal>>,
}

/// The room that a look has found to be too little, and how long that is believed.
#[derive(Debug)]
struct Refusal {
    room: u64,
    until: Instant,
}

/// Bytes that may be written before the next look.
#[derive(Debug, Default)]
struct Credit(AtomicU64);

/// What a look has found.
#[derive(Debug, Clone, Copy)]
struct Look {
    /// Bytes that would fit.
    room: u64,
    /// Most bytes before the next look.
    between: u64,
}

impl Credit {
    /// Whether `length` more bytes fit; `look` looks how many would.
    fn spend(&self, length: u64, look: impl FnOnce() -> Result<Look>) -> Result<bool> {
        let spent = self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(length));
        if spent.is_ok() {
            return Ok(true);
        }
        let Look { room, between } = look()?;
        // Other writers use the same room: half of it at most before the next look.
        self.0.store((room.saturating_sub(length) / 2).min(between), Relaxed);
        Ok(length <= room)
    }
}

impl Quota {
    /// Whether `growth` more bytes fit.
    fn spend(&self, growth: u64, look: impl FnOnce() -> Result<Look>) -> Result<bool> {
        let started = now();
        let refuses = |refusal: &Refusal| growth > refusal.room && started < refusal.until;
        if self.refusal().as_ref().is_some_and(refuses) {
            return Ok(false);
        }
        let mut room = 0;
        let fits = self.credit.spend(growth, || look().inspect(|look| room = look.room))?;
        let took = started.elapsed();
        if !fits && took > QUICK {
            *self.refusal() = Some(Refusal { room, until: now() + took * REFUSING });
        }
        Ok(fits)
    }

    fn refusal(&self) -> MutexGuard<'_, Option<Refusal>> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// EFBIG where a file that ends at `end` would pass its cap.
    pub(crate) fn in_cap(&self, node: &Node, end: u64) -> Result<()> {
        let over = |cap: Option<u64>| cap.filter(|most| end > *most);
        let is_terminal = || node.place().is_some_and(|(_, path)| path.is_terminal());
        let log = over(self.options.max_terminal).filter(|_| is_terminal());
        match over(self.options.max_artifact).into_iter().chain(log).min() {
            Some(most) => Err(FsError::TooLarge(most)),
            None => Ok(()),
        }
    }
}

impl Room {
    /// ENOSPC where `length` more bytes would leave too little on the disk, even without the
    /// results that `cache` has, and after `make_room`.
    pub(crate) fn on_disk(
        &self,
        store: &Store,
        cache: &Cache,
        options: &Options,
        length: u64,
        make_room: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let least = options.min_free;
        let free = || -> Result<u64> {
            let space = store.space()?;
            Ok((space.f_bavail * space.f_frsize).saturating_sub(least))
        };
        let room = || match free()? {
            enough if enough >= length => Ok(enough),
            _ => {
                cache.clear()?;
                let free_now = free()?;
                if free_now >= length {
                    return Ok(free_now);
                }
                make_room()?;
                free()
            }
        };
        let look = || Ok(Look { room: room()?, between: BETWEEN_LOOKS });
        if least == 0 || self.disk.spend(length, look)? {
            return Ok(());
        }
        Err(FsError::DiskNearlyFull(least))
    }

    /// EDQUOT where artifacts that grow by `growth` would pass the conversation's quota, even after
    /// `make_room`.
    pub(crate) fn in_quota(
        &self,
        conversation: &Conversation,
        quota: u64,
        growth: u64,
        make_room: impl Fn() -> Result<()>,
    ) -> Result<()> {
        if growth == 0 {
            return Ok(());
        }
        let free = || -> Result<Look> {
            let Usage { artifacts, bytes } = conversation.usage()?;
            Ok(Look { room: quota.saturating_sub(bytes), between: between(artifacts) })
        };
        let look = || match free()? {
            enough if enough.room >= growth => Ok(enough),
            _ => {
                make_room()?;
                free()
            }
        };
        let known = Arc::clone(&*self.quotas.entry(conversation.id().clone()).or_default());
        if known.spend(growth, look)? {
            return Ok(());
        }
        Err(FsError::OverQuota(quota))
    }

    /// Notes that something of a conversation was removed, cut or moved.
    pub(crate) fn freed(&self, conversation: &Component) {
        if let Some(known) = self.quotas.get(conversation) {
            *known.refusal() = None;
        }
    }
}

/// Bytes between two looks at the quota of a conversation of so many artifacts.
fn between(artifacts: u64) -> u64 {
    BETWEEN_LOOKS.max(artifacts.saturating_mul(FOR_EACH))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether so many bytes fit, and whether that took a look, which finds `room`.
    fn spend(quota: &Quota, growth: u64, room: u64) -> (bool, bool) {
        let mut looked = false;
        let look = || {
            looked = true;
            Ok(Look { room, between: between(0) })
        };
        (quota.spend(growth, look).unwrap(), looked)
    }

    #[test]
    fn an_output_pays_for_one_size_at_most_however_many_artifacts_there_are() {
        const OUTPUTS: u64 = 500_000;
        for artifacts in [0, 1000, 100_000] {
            let (quota, mut asked) = (Quota::default(), 0);
            for _ in 0..OUTPUTS {
                let look = || {
                    asked += artifacts;
                    Ok(Look { room: u64::MAX, between: between(artifacts) })
                };
                assert!(quota.spend(4096, look).unwrap());
            }
            assert!(asked <= OUTPUTS, "{asked} sizes for {OUTPUTS} outputs beside {artifacts}");
        }
    }

    #[test]
    fn a_refusal_holds_until_something_is_removed() {
        let (room, id) = (Room::default(), Component::new("c").unwrap());
        let quota = Arc::clone(&*room.quotas.entry(id.clone()).or_default());
        assert_eq!(spend(&quota, 100, 50), (false, true));
        let until = now() + Duration::from_hours(1);
        *quota.refusal() = Some(Refusal { room: 50, until });
        assert_eq!(spend(&quota, 100, 1000), (false, false));
        assert_eq!(spend(&quota, 50, 50), (true, true));
        room.freed(&id);
        assert_eq!(spend(&quota, 100, 1000), (true, true));
    }
}
