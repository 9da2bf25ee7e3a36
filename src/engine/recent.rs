//! Small caches of what was used last.

use std::hash::Hash;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, UnitWeighter};

/// Makes an empty cache of at most `items` items.
///
/// It has one shard: by default the number would follow from the processors, which takes longer to
/// find out than a short command does with the cache.
pub(super) fn recent_cache<K: Eq + Hash, V: Clone>(items: usize) -> Cache<K, V> {
    let options = OptionsBuilder::new()
        .shards(1)
        .estimated_items_capacity(items)
        .weight_capacity(items as u64)
        .build()
        .expect("both capacities are given");
    let lifecycle = DefaultLifecycle::default();
    Cache::with_options(options, UnitWeighter, DefaultHashBuilder::default(), lifecycle)
}
