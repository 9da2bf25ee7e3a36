//! Hosts and buckets for the tests of this module.

pub(super) mod bucket;
pub(super) mod host;
