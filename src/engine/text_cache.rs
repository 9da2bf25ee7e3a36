//! The cache of texts for later readers.

use std::sync::Arc;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::text::ViewText;

/// Bytes on disk that weigh one byte in memory: a gigabyte weighs as much as 8 MiB.
const DISK_SHARE: u64 = 128;
/// The weight of the cache's own entry.
const ENTRY_WEIGHT: u64 = 128;

/// Texts by the number of their computed file. The least used ones are dropped when all together
/// pass the capacity.
pub(super) type TextCache = Cache<u64, Arc<ViewText>, ByMemory>;

/// Weighs a text by the memory that it holds.
#[derive(Debug, Clone)]
pub(super) struct ByMemory {
    /// The least that a text on disk weighs, in bytes of memory: it holds a descriptor, and perhaps
    /// a file without a name, so few are kept.
    least: u64,
    /// The most that a text on disk weighs.
    most: u64,
}

impl Weighter<u64, Arc<ViewText>> for ByMemory {
    fn weight(&self, _: &u64, text: &Arc<ViewText>) -> u64 {
        let on_disk = match text.on_disk_length() {
            0 => 0,
            // Even the largest text must stay between the call that asks for its size and its
            // opening.
            length => (self.least + length / DISK_SHARE).min(self.most),
        };
        text.memory_length() + on_disk + ENTRY_WEIGHT
    }
}

/// Creates an empty cache of at most `bytes` bytes, and of at most `on_disk` texts on disk.
pub(super) fn text_cache(bytes: u64, on_disk: usize) -> TextCache {
    let options = OptionsBuilder::new()
        // Several shards would divide the bytes, and none could hold the largest text.
        .shards(1)
        .estimated_items_capacity(4096)
        .weight_capacity(bytes)
        .build()
        .expect("both capacities are given");
    let least = bytes / on_disk as u64;
    let weighter = ByMemory { least, most: least.max(bytes / 4) };
    Cache::with_options(
        options,
        weighter,
        DefaultHashBuilder::default(),
        DefaultLifecycle::default(),
    )
}
