//! The room on the disk that is left to those who write here.

use rustix::fs::StatVfs;

/// Of the bytes that stay free, the part that what comes from a bucket leaves beside them. So those
/// who write here still have some, and do not find the disk full at once.
const BESIDE: u64 = 4;

/// The bounds that writers of this host have, for what comes from a bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// The bytes that stay free on the disk.
    pub min_free: u64,
    /// The most bytes of a conversation, if there is a bound.
    pub quota: Option<u64>,
}

/// A reason why something does not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Shortage {
    /// The disk would have too little left.
    #[error(
        "it needs {needed} bytes, and {free} are free on the store's disk, of which {kept} stay free \
         for what is written here (`min_free`, and a quarter more): make room, or lower `min_free`"
    )]
    Disk { needed: u64, free: u64, kept: u64 },
    /// The conversation would have too much.
    #[error(
        "it needs {needed} bytes, and its conversation has {used} of the {quota} of its quota: \
         remove outputs, or raise `quota`"
    )]
    Quota { needed: u64, used: u64, quota: u64 },
}

impl Limits {
    /// Fails if `needed` more bytes would leave too little on a disk.
    pub(super) fn check_disk(self, disk: &StatVfs, needed: u64) -> Result<(), Shortage> {
        let kept = self.min_free.saturating_add(self.min_free / BESIDE);
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if needed.saturating_add(kept) <= free {
            Ok(())
        } else {
            Err(Shortage::Disk { needed, free, kept })
        }
    }

    /// Fails if `needed` more bytes beside those that are `used` would be more than the quota.
    pub(super) fn check_quota(self, used: u64, needed: u64) -> Result<(), Shortage> {
        match self.quota {
            Some(quota) if used.saturating_add(needed) > quota => {
                Err(Shortage::Quota { needed, used, quota })
            }
            _ => Ok(()),
        }
    }
}
