//! The settings of the sharing.

use std::time::Duration;

use crate::remote::Limits;

/// The settings of the sharing.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct TierOptions {
    /// Where the bucket is, as people write it.
    pub url: String,
    /// True if what is sealed is sent.
    pub pushes: bool,
    /// True if nothing is to be replaced or removed in the bucket; it must be so for all hosts.
    pub write_once: bool,
    /// The time within which what is sealed goes in one request.
    pub every: Duration,
    /// How old an answer about other hosts may be.
    pub poll: Duration,
    /// The most bytes of blocks that came from elsewhere.
    pub cache_bytes: u64,
    /// The limits of downloads.
    pub limits: Limits,
    /// True if local copies of what is sent go when the disk is nearly full.
    pub evicts: bool,
    /// True if this host deletes what is of no use any more.
    pub sweeps: bool,
}
