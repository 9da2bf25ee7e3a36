//! Room: on the store's disk, and in a conversation's quota.

use std::sync::Arc;

use crate::fs::FsError;
use crate::fs::Options;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::node::Node;
use crate::fs::sync::DashMap;
use crate::fs::sync::atomic::AtomicU64;
use crate::fs::sync::atomic::Ordering::Relaxed;
use crate::model::Component;
use crate::store::Cache;
use crate::store::Conversation;
use crate::store::Store;

/// Bytes written between two looks.
const BETWEEN_LOOKS: u64 = 16 * 1024 * 1024;

/// Looks at disk and quotas now and then, so that writers stop before either is full.
#[derive(Debug, Default)]
pub(crate) struct Room {
    disk: Credit,
    quotas: DashMap<Component, Arc<Credit>>,
}

/// Bytes that may be written before the next look.
#[derive(Debug, Default)]
struct Credit(AtomicU64);

impl Credit {
    /// Whether `length` more bytes fit; `room` looks how many would.
    fn spend(&self, length: u64, room: impl FnOnce() -> Result<u64>) -> Result<bool> {
        let spent = self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(length));
        if spent.is_ok() {
            return Ok(true);
        }
        let room = room()?;
        // Other writers use the same room: half of it at most before the next look.
        self.0.store((room.saturating_sub(length) / 2).min(BETWEEN_LOOKS), Relaxed);
        Ok(length <= room)
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
        if least == 0 || self.disk.spend(length, room)? {
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
        let free = || -> Result<u64> { Ok(quota.saturating_sub(used(conversation)?)) };
        let room = || match free()? {
            enough if enough >= growth => Ok(enough),
            _ => {
                make_room()?;
                free()
            }
        };
        if growth == 0 {
            return Ok(());
        }
        let credit = Arc::clone(&*self.quotas.entry(conversation.id().clone()).or_default());
        if credit.spend(growth, room)? {
            return Ok(());
        }
        Err(FsError::OverQuota(quota))
    }
}

/// Bytes of all artifacts of a conversation.
fn used(conversation: &Conversation) -> Result<u64> {
    let sizes = conversation.artifacts()?.into_iter();
    Ok(sizes.filter_map(|path| conversation.dir().stat_at(&path).ok()).map(|stat| stat.size).sum())
}
