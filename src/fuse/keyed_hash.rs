//! Hashes that stand for what they are of.

use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::LazyLock;

/// Returns the hash of `value` under a random key of this process: nobody can choose two values of
/// one hash.
pub(super) fn keyed_hash(value: impl Hash) -> u64 {
    static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    KEY.hash_one(value)
}
