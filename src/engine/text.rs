//! The text of a computed file, and the caches that keep texts and other recent values in memory.

use std::fs::File;
use std::hash::Hash;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, UnitWeighter, Weighter};

use crate::shares::Share;
use ctxfs_core::model::Content;
use ctxfs_store::{Cache as DiskCache, CacheKey, read_full_at, stat_file};

/// The last bytes of a text kept on disk. They follow the length of its notice.
pub(crate) const MARK: &[u8; 8] = b"ctxfs\0\0\x01";

/// Bytes in memory and their share of the memory budget. The share is `None` for the few bytes of a
/// notice.
#[derive(Debug)]
struct HeldBytes(Vec<u8>, #[expect(dead_code, reason = "gives back")] Option<Share>);

/// The text of a computed file. It never changes.
///
/// The text consists of a notice, which states what is left out, and the rest. The notice is in
/// memory. The rest is in memory or in a file of the store's cache.
#[derive(Debug, Clone)]
pub struct ViewText {
    head: Arc<HeldBytes>,
    notice: usize,
    /// The file with the rest of the text, and the length of the rest. `None` if the rest is in
    /// `head`.
    on_disk: Option<(Arc<File>, u64)>,
    whole: bool,
    key: Option<CacheKey>,
}

impl ViewText {
    /// Creates a text that consists of `head` and then the file `on_disk`. The first `notice` bytes
    /// of `head` are the notice. `held` is the share for the bytes in memory.
    pub(crate) fn new(
        head: Vec<u8>,
        notice: usize,
        on_disk: Option<(Arc<File>, u64)>,
        held: Option<Share>,
    ) -> Self {
        let head = Arc::new(HeldBytes(head, held));
        Self { head, notice, on_disk, whole: true, key: None }
    }

    pub(crate) fn with_key(self, key: Option<CacheKey>) -> Self {
        Self { key, ..self }
    }

    /// Returns the same text. Unless `whole` is true, it is marked as a beginning.
    pub(crate) fn with_whole(self, whole: bool) -> Self {
        Self { whole, ..self }
    }

    /// Returns the text kept under `key` in `cache`, if its file is complete.
    pub(crate) fn cached(cache: &DiskCache, key: &CacheKey) -> Option<Self> {
        let file = cache.open(key)?;
        let length = stat_file(&file).ok()?.size;
        let mut end = [0; 16];
        file.read_exact_at(&mut end, length.checked_sub(16)?).ok()?;
        let (notice, mark) = end.split_at(8);
        let notice = u64::from_le_bytes(notice.try_into().ok()?);
        let text = (length - 16).checked_sub(notice).filter(|_| mark == MARK)?;
        let mut head = vec![0; usize::try_from(notice).ok()?];
        file.read_exact_at(&mut head, text).ok()?;
        let notice = head.len();
        let text = Self::new(head, notice, Some((Arc::new(file), text)), None);
        Some(text.with_key(Some(key.clone())))
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> u64 {
        self.head.0.len() as u64 + self.on_disk_length()
    }

    /// Returns true if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of bytes on disk.
    pub fn on_disk_length(&self) -> u64 {
        self.on_disk.as_ref().map_or(0, |(_, length)| *length)
    }

    #[cfg(test)]
    pub(crate) fn notice_length(&self) -> usize {
        self.notice
    }

    /// Returns true if the text is only a notice, which states why there is nothing else.
    pub(crate) fn is_notice(&self) -> bool {
        self.notice > 0 && self.len() == self.notice as u64
    }

    /// Returns false if time ran out before the complete text was computed.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Returns the key of the text in the store's cache. Two texts with the same key have the same
    /// bytes, at any time and in any process. `None` if that cannot be guaranteed.
    pub(crate) fn key(&self) -> Option<&CacheKey> {
        self.key.as_ref()
    }

    /// Calls `take` with `size` bytes starting at `offset`. At the end of the text there are fewer
    /// bytes.
    pub fn read<T>(
        &self,
        offset: u64,
        size: usize,
        take: impl FnOnce(&[u8]) -> T,
    ) -> io::Result<T> {
        let end = self.len().min(offset.saturating_add(size as u64));
        let start = offset.min(end);
        if end <= self.head.0.len() as u64 {
            return Ok(take(&self.head.0[start as usize..end as usize]));
        }
        let mut bytes = vec![0; (end - start) as usize];
        self.read_at(start, &mut bytes)?;
        Ok(take(&bytes))
    }
}

impl Content for ViewText {
    fn len(&self) -> u64 {
        self.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let from_head = self.head.0[..].read_at(offset, buffer)?;
        let Some((file, length)) = &self.on_disk else { return Ok(from_head) };
        let at = (offset + from_head as u64).saturating_sub(self.head.0.len() as u64);
        let left = usize::try_from(length.saturating_sub(at)).unwrap_or(usize::MAX);
        let wanted = left.min(buffer.len() - from_head);
        let rest = &mut buffer[from_head..from_head + wanted];
        if read_full_at(file, at, rest)? < wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(from_head + wanted)
    }
}

/// Number of bytes on disk that weigh as much as one byte in memory. A gigabyte on disk weighs as
/// much as 8 MiB in memory.
const DISK_SHARE: u64 = 128;
/// The weight of the cache's own data for an entry.
const ENTRY_WEIGHT: u64 = 128;

/// Texts by the number of their computed file. When the total weight exceeds the capacity, the
/// least used texts are dropped.
pub(crate) type TextCache = Cache<u64, Arc<ViewText>, ByMemory>;

/// Weighs a text by the memory that it holds. A text on disk weighs at least `least`, because it
/// holds a file descriptor and perhaps an unnamed file. It weighs at most `most`.
#[derive(Debug, Clone)]
pub(crate) struct ByMemory {
    least: u64,
    most: u64,
}

impl Weighter<u64, Arc<ViewText>> for ByMemory {
    fn weight(&self, _: &u64, text: &Arc<ViewText>) -> u64 {
        let on_disk = match text.on_disk_length() {
            0 => 0,
            // With this maximum, even the largest text stays cached from the call that reads its
            // size until it is opened.
            length => (self.least + length / DISK_SHARE).min(self.most),
        };
        text.head.0.len() as u64 + on_disk + ENTRY_WEIGHT
    }
}

pub(crate) fn text_cache(bytes: u64, on_disk: usize) -> TextCache {
    let least = bytes / on_disk as u64;
    cache(4096, bytes, ByMemory { least, most: least.max(bytes / 4) })
}

pub(crate) fn recent_cache<K: Eq + Hash, V: Clone>(items: usize) -> Cache<K, V> {
    cache(items, items as u64, UnitWeighter)
}

/// Creates a cache with one shard. The default number of shards depends on the number of
/// processors, and determining that takes longer than a short command uses the cache. Several
/// shards would also divide the capacity for texts, so that no shard could hold the largest text.
fn cache<K: Eq + Hash, V: Clone, W: Weighter<K, V> + Clone>(
    items: usize,
    capacity: u64,
    weighter: W,
) -> Cache<K, V, W> {
    let options = OptionsBuilder::new()
        .shards(1)
        .estimated_items_capacity(items)
        .weight_capacity(capacity)
        .build()
        .expect("both capacities are given");
    let lifecycle = DefaultLifecycle::default();
    Cache::with_options(options, weighter, DefaultHashBuilder::default(), lifecycle)
}
