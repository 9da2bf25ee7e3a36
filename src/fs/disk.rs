//! Room on the store's disk.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::fs::FsError;
use crate::fs::Result;
use crate::store::Store;

/// Bytes written between two looks at the disk.
const BETWEEN_LOOKS: u64 = 16 * 1024 * 1024;

/// Looks at the disk now and then, so that a mount stops before the disk is full.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    /// Bytes that may be written before the next look.
    credit: AtomicU64,
}

impl Disk {
    /// ENOSPC where `length` more bytes would leave less than `min_free` on the disk.
    pub(crate) fn check(&self, store: &Store, min_free: u64, length: u64) -> Result<()> {
        let spent = self.credit.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(length));
        if min_free == 0 || spent.is_ok() {
            return Ok(());
        }
        let space = store.space()?;
        let room = (space.f_bavail * space.f_frsize).saturating_sub(min_free);
        if room < length {
            return Err(FsError::DiskNearlyFull(min_free));
        }
        // Other writers use the same room: half of it at most before the next look.
        self.credit.store((room / 2).min(BETWEEN_LOOKS), Relaxed);
        Ok(())
    }
}
