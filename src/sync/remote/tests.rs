//! Hosts and buckets for the tests of this layer.

pub(super) mod bucket;
pub(super) mod host;
