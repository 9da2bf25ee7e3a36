
use std::time::Duration;

use crate::remote::Limits;

///+ Settings of background synchronization.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct TierOptions {
    ///+ URL of the bucket as configured.
    pub url: String,
    ///+ True to push sealed outputs.
    pub pushes: bool,
    ///+ True if the bucket must be write-once, as for all its hosts.
    pub write_once: bool,
    ///+ Delay in which changes are batched into one push.
    pub every: Duration,
    ///+ Maximum age of a look.
    pub poll: Duration,
    ///+ Maximum bytes of cached blocks.
    pub cache_bytes: u64,
    ///+ Limits of downloads.
    pub limits: Limits,
    ///+ True to evict local copies of pushed outputs when the disk is nearly full.
    pub evicts: bool,
    ///+ True to delete unused segments and objects.
    pub sweeps: bool,
}
