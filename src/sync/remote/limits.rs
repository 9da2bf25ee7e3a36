
use rustix::fs::StatVfs;

///+ Downloads keep `min_free` and this fraction of it free, so that local writers do not find the
///+ disk full right after a pull.
const BESIDE: u64 = 4;

///+ Limits of downloads: those of local writers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    ///+ Bytes to keep free on the disk.
    pub min_free: u64,
    ///+ Maximum bytes of a conversation.
    pub quota: Option<u64>,
}

///+ Why a download does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Shortage {
    #[error(
        "it needs {needed} bytes, and {free} are free on the store's disk, of which {kept} stay free \
         for what is written here (`min_free`, and a quarter more): make room, or lower `min_free`"
    )]
    Disk { needed: u64, free: u64, kept: u64 },
    #[error(
        "it needs {needed} bytes, and its conversation has {used} of the {quota} of its quota: \
         remove outputs, or raise `quota`"
    )]
    Quota { needed: u64, used: u64, quota: u64 },
}

impl Limits {
    ///+ Checks that `needed` more bytes leave enough free space on a disk.
    pub(super) fn check_disk(self, disk: &StatVfs, needed: u64) -> Result<(), Shortage> {
        let kept = self.min_free.saturating_add(self.min_free / BESIDE);
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if needed.saturating_add(kept) <= free {
            Ok(())
        } else {
            Err(Shortage::Disk { needed, free, kept })
        }
    }

    ///+ Checks that `needed` bytes on top of `used` stay within the quota.
    pub(super) fn check_quota(self, used: u64, needed: u64) -> Result<(), Shortage> {
        match self.quota {
            Some(quota) if used.saturating_add(needed) > quota => {
                Err(Shortage::Quota { needed, used, quota })
            }
            _ => Ok(()),
        }
    }
}
