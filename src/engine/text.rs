//! The text of a computed file: its collection in bounded memory, and the caches that keep texts
//! and other recent values in memory.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::hash::Hash;
use std::io::{self, Write};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, UnitWeighter, Weighter};

use crate::Share;
use ctxfs_core::model::Content;
use ctxfs_store::{Cache as DiskCache, CacheKey, Draft, read_full_at, stat_file};
use ctxfs_view::Rendered;

/// Marks a text that is kept on disk. The file ends with the length of the notice and this mark.
const MARK: &[u8; 8] = b"ctxfs\0\0\x01";

/// Bytes in memory and their share of the memory budget. The share is `None` for the few bytes of a
/// notice.
#[derive(Debug)]
struct HeldBytes(Vec<u8>, #[expect(dead_code, reason = "gives back")] Option<Share>);

/// The text of a computed file. It never changes.
///
/// The text consists of a notice about missing parts, which may be empty, and the rest.
///
/// - `head`: the notice, and the rest unless it is in a file
/// - `notice`: the length of the notice, in bytes
/// - `on_disk`: a file of the store's cache with the rest of the text, and the length of the rest.
///   `None` if the rest is in `head`.
/// - `key`: the key of the text in the store's cache. Two texts with the same key have the same
///   bytes, at any time and in any process. `None` if that cannot be guaranteed.
#[derive(Debug, Clone)]
pub struct ViewText {
    head: Arc<HeldBytes>,
    notice: usize,
    on_disk: Option<(Arc<File>, u64)>,
    whole: bool,
    pub(crate) key: Option<CacheKey>,
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

    /// Returns this text, marked as complete if `whole` is true and as a beginning otherwise.
    pub(crate) fn with_whole(self, whole: bool) -> Self {
        Self { whole, ..self }
    }

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

    pub fn on_disk_length(&self) -> u64 {
        self.on_disk.as_ref().map_or(0, |(_, length)| *length)
    }

    pub(crate) fn notice_length(&self) -> usize {
        self.notice
    }

    /// Returns true if the text is only a notice, which states why there is nothing else.
    pub(crate) fn is_notice(&self) -> bool {
        self.notice > 0 && self.len() == self.notice as u64
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.whole
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
        self.head.0.len() as u64 + self.on_disk_length()
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

/// Maximum number of bytes of a text in memory, unless [`Spool::in_memory`] was called. A longer
/// text goes to a file of the store's cache.
const IN_MEMORY: usize = 256 * 1024;
/// Maximum size in bytes of a text for which a file descriptor would cost more than the memory that
/// it saves.
const SMALL: usize = 512;
/// A text that took at least this long to compute is kept in the store's cache, even if it is
/// small.
const SLOW: Duration = Duration::from_secs(1);

/// Fails if the disk has no room for the given number of bytes.
type RoomCheck<'a> = Box<dyn Fn(u64) -> io::Result<()> + Send + 'a>;

/// A text of unknown length that is being computed, in bounded memory.
///
/// Bytes that exceed the share of the conversation go to a file. The spool can be written through a
/// shared reference, so that its beginning can be given to readers while the rest is computed.
pub struct Spool<'a> {
    cache: &'a DiskCache,
    room: RoomCheck<'a>,
    held: RefCell<Share>,
    stays: bool,
    started: Instant,
    text: RefCell<SpooledText>,
    /// True once readers have got the beginning. The next look-up then searches the disk for the
    /// complete text.
    given: Cell<bool>,
}

#[derive(Default)]
struct SpooledText {
    memory: Vec<u8>,
    disk: Option<(Draft, u64)>,
}

impl std::fmt::Debug for Spool<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spool").finish_non_exhaustive()
    }
}

impl<'a> Spool<'a> {
    pub(crate) fn new(cache: &'a DiskCache, room: RoomCheck<'a>, held: Share) -> Self {
        let (text, given, held) = (RefCell::default(), Cell::new(false), RefCell::new(held));
        Self { cache, room, held, stays: false, started: Instant::now(), text, given }
    }

    /// Keeps the text in memory, regardless of its length, as far as the share of the conversation
    /// allows. For texts that must be available when the disk is full.
    #[must_use]
    pub fn in_memory(self) -> Self {
        Self { stays: true, ..self }
    }

    pub(crate) fn length(&self) -> u64 {
        let SpooledText { memory, disk } = &*self.text.borrow();
        disk.as_ref().map_or(memory.len() as u64, |(_, length)| *length)
    }

    /// Returns the text so far, after `notice`. The complete text is then kept even if it is small.
    pub(crate) fn beginning(&self, notice: String) -> ViewText {
        self.given.set(true);
        let SpooledText { memory, disk } = &*self.text.borrow();
        let mut head = notice.into_bytes();
        let notice = head.len();
        head.extend_from_slice(memory);
        let on_disk = disk.as_ref().map(|(draft, length)| (Arc::clone(draft.file()), *length));
        let mut held = self.held.borrow().another();
        held.resize(head.len() as u64);
        ViewText::new(head, notice, on_disk, Some(held)).with_whole(false)
    }

    /// Ends the text and puts its notice first. If there is a `key` and the text is complete, keeps
    /// the text on disk if it outgrew memory or took long to compute.
    pub fn finish(self, rendered: Rendered, key: Option<CacheKey>) -> io::Result<ViewText> {
        let Rendered { notice, whole } = rendered;
        let key = key.filter(|_| whole);
        let late = self.given.get() || self.started.elapsed() >= SLOW;
        let mut head = notice.unwrap_or_default().into_bytes();
        let SpooledText { mut memory, disk } = self.text.take();
        let notice = head.len();
        let mut on_disk = None;
        if let Some((draft, length)) = disk {
            on_disk = Some((Arc::clone(draft.file()), length));
            if let Some(key) = &key {
                keep(self.cache, draft, length, &head, key)?;
            }
        } else {
            if let Some(key) = key.as_ref().filter(|_| late)
                && let Err(error) = keep_small(self.cache, &memory, &head, key)
            {
                tracing::debug!(%error, "a small text was not kept");
            }
            if memory.len() > SMALL && !self.held.borrow_mut().try_resize(memory.len() as u64) {
                on_disk = Some(self.spill(&memory)?);
            } else if notice == 0 {
                head = memory;
            } else {
                head.append(&mut memory);
            }
        }
        head.shrink_to_fit();
        let mut held = self.held.into_inner();
        held.resize(head.len() as u64);
        Ok(ViewText::new(head, notice, on_disk, Some(held)).with_whole(whole).with_key(key))
    }

    fn fits_in_memory(&self, length: usize) -> bool {
        // The capacity of a growing vector is up to twice its length.
        let capacity = length.next_power_of_two() as u64;
        length <= IN_MEMORY || self.stays && self.held.borrow_mut().try_resize(capacity)
    }

    fn spill(&self, text: &[u8]) -> io::Result<(Arc<File>, u64)> {
        (self.room)(text.len() as u64)?;
        let draft = self.cache.draft()?;
        draft.file().write_all_at(text, 0)?;
        Ok((Arc::clone(draft.file()), text.len() as u64))
    }

    fn add(&self, bytes: &[u8]) -> io::Result<()> {
        let SpooledText { memory, disk } = &mut *self.text.borrow_mut();
        if disk.is_none() && self.fits_in_memory(memory.len() + bytes.len()) {
            memory.extend_from_slice(bytes);
            return Ok(());
        }
        let (draft, length) = match disk {
            Some(disk) => disk,
            None => disk.insert((self.cache.draft()?, 0)),
        };
        for bytes in [&std::mem::take(memory)[..], bytes] {
            (self.room)(bytes.len() as u64)?;
            draft.file().write_all_at(bytes, *length)?;
            *length += bytes.len() as u64;
        }
        self.held.borrow_mut().resize(0);
        Ok(())
    }
}

fn keep(
    cache: &DiskCache,
    draft: Draft,
    length: u64,
    notice: &[u8],
    key: &CacheKey,
) -> io::Result<()> {
    let end = [notice, &(notice.len() as u64).to_le_bytes(), MARK].concat();
    draft.file().write_all_at(&end, length)?;
    if let Err(error) = cache.keep(draft, key) {
        tracing::debug!(%error, "a text was not kept");
    }
    Ok(())
}

fn keep_small(cache: &DiskCache, text: &[u8], notice: &[u8], key: &CacheKey) -> io::Result<()> {
    let draft = cache.draft()?;
    draft.file().write_all_at(text, 0)?;
    keep(cache, draft, text.len() as u64, notice, key)
}

impl Write for Spool<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for &Spool<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use tempfile::TempDir;

    use super::*;
    use crate::engine::HELD_FOR_CLIENTS;
    use crate::{Client, Shares};
    use ctxfs_store::Store;

    fn all(body: &ViewText) -> Vec<u8> {
        body.read(0, usize::MAX, <[u8]>::to_vec).unwrap()
    }

    fn noted(notice: &str) -> Rendered {
        Rendered { notice: Some(notice.to_owned()), whole: true }
    }

    fn store() -> (TempDir, DiskCache) {
        let dir = tempfile::tempdir().unwrap();
        let cache = Store::open(dir.path()).unwrap().cache(1 << 30);
        (dir, cache)
    }

    fn spool(cache: &DiskCache) -> Spool<'_> {
        Spool::new(
            cache,
            Box::new(|_| Ok(())),
            Shares::new(HELD_FOR_CLIENTS).holder(Client::default()),
        )
    }

    fn large() -> Vec<u8> {
        (0..IN_MEMORY * 2).map(|i| (i % 251) as u8).collect()
    }

    /// Returns the number of files in the cache.
    fn files(dir: &TempDir) -> usize {
        std::fs::read_dir(dir.path().join("cache")).map_or(0, Iterator::count)
    }

    #[test]
    fn a_small_result_stays_in_memory_behind_its_notice() {
        let (dir, cache) = store();
        let spool = spool(&cache);
        (&spool).write_all(b"body\n").unwrap();
        let key = CacheKey::of(&[b"small"]);
        let body = spool.finish(noted("# notice\n"), key).unwrap();
        assert_eq!(all(&body), b"# notice\nbody\n");
        assert_eq!(body.len(), 14);
        assert_eq!(body.read(7, 4, <[u8]>::to_vec).unwrap(), b"e\nbo");
        assert_eq!(body.read(99, 4, <[u8]>::to_vec).unwrap(), b"");
        assert_eq!(files(&dir), 0);
    }

    #[test]
    fn a_large_result_goes_to_disk_and_reads_the_same() {
        let (dir, cache) = store();
        let wanted = large();
        let spool = spool(&cache);
        (&spool).write_all(&wanted).unwrap();
        assert_eq!(files(&dir), 1);
        let body = spool.finish(noted("# n\n"), None).unwrap();
        assert_eq!(files(&dir), 0, "nobody else may use it");
        assert_eq!(&all(&body)[4..], wanted);
        assert_eq!(body.read(2, 6, <[u8]>::to_vec).unwrap(), b"n\n\x00\x01\x02\x03");
        let end = body.len();
        assert_eq!(body.read(end - 3, 9, <[u8]>::to_vec).unwrap(), &wanted[wanted.len() - 3..]);
    }

    #[test]
    fn a_large_result_with_a_key_is_kept() {
        let (dir, cache) = store();
        let key = CacheKey::of(&[b"large"]).unwrap();
        assert!(ViewText::cached(&cache, &key).is_none());
        let spool = spool(&cache);
        large().chunks(1000).for_each(|piece| (&spool).write_all(piece).unwrap());
        assert!(ViewText::cached(&cache, &key).is_none());
        let made = spool.finish(noted("# notice\n"), Some(key.clone())).unwrap();
        let kept = ViewText::cached(&cache, &key).unwrap();
        assert_eq!(all(&kept), all(&made));
        assert_eq!((kept.notice_length(), kept.key.clone()), (9, Some(key.clone())));
        std::fs::remove_dir_all(dir.path().join("cache")).unwrap();
        assert_eq!(all(&kept), all(&made));
        assert!(ViewText::cached(&cache, &key).is_none());
    }

    /// A caller that reads the size of a view opens the view next, so the text must still be there.
    #[test]
    fn the_largest_results_are_held_and_only_a_few_of_them() {
        let bodies = text_cache(8 << 20, 64);
        let body = |number: u64| {
            let file = tempfile::tempfile().unwrap();
            let on_disk = Some((Arc::new(file), number << 40));
            Arc::new(ViewText::new(Vec::new(), 0, on_disk, None))
        };
        for number in 1..20 {
            bodies.insert(number, body(number));
            assert!(bodies.get(&number).is_some(), "{number}");
        }
        assert!(bodies.len() <= 4, "{}", bodies.len());
    }

    #[test]
    fn what_ran_out_of_time_is_not_kept() {
        let (dir, cache) = store();
        let key = CacheKey::of(&[b"late"]).unwrap();
        let spool = spool(&cache);
        (&spool).write_all(&large()).unwrap();
        let late = Rendered { notice: None, whole: false };
        let body = spool.finish(late, Some(key.clone())).unwrap();
        assert_eq!((all(&body), body.is_whole(), body.key), (large(), false, None));
        assert!(ViewText::cached(&cache, &key).is_none());
        assert_eq!(files(&dir), 0);
    }

    #[test]
    fn a_beginning_stays_as_it_was_given() {
        for size in [10, IN_MEMORY * 2] {
            let (dir, cache) = store();
            let spool = spool(&cache);
            let wanted: Vec<u8> = large().into_iter().cycle().take(size * 2).collect();
            (&spool).write_all(&wanted[..size]).unwrap();
            let beginning = spool.beginning("# more\n".to_owned());
            assert_eq!(spool.length(), size as u64);
            (&spool).write_all(&wanted[size..]).unwrap();
            let key = CacheKey::of(&[b"late"]).unwrap();
            let body = spool.finish(noted("# all\n"), Some(key.clone())).unwrap();
            assert_eq!(all(&beginning), [b"# more\n", &wanted[..size]].concat());
            assert!(!beginning.is_whole());
            assert_eq!(all(&body), [b"# all\n", &wanted[..]].concat());
            assert_eq!(all(&ViewText::cached(&cache, &key).unwrap()), all(&body));
            assert_eq!(files(&dir), 1);
        }
    }

    #[test]
    fn a_file_that_is_no_result_is_not_taken_for_one() {
        let (dir, cache) = store();
        let key = CacheKey::of(&[b"large"]).unwrap();
        let spool = spool(&cache);
        (&spool).write_all(&large()).unwrap();
        spool.finish(noted(""), Some(key.clone())).unwrap();
        let path = std::fs::read_dir(dir.path().join("cache")).unwrap().next().unwrap().unwrap();
        let whole = std::fs::read(path.path()).unwrap();
        for length in [0, 7, 16, whole.len() - 1] {
            std::fs::write(path.path(), &whole[..length]).unwrap();
            assert!(ViewText::cached(&cache, &key).is_none(), "{length}");
        }
        let mut end = whole.clone();
        let length = end.len();
        end[length - 16..length - 8].fill(0xff);
        std::fs::write(path.path(), end).unwrap();
        assert!(ViewText::cached(&cache, &key).is_none());
        std::fs::write(path.path(), whole).unwrap();
        assert_eq!(all(&ViewText::cached(&cache, &key).unwrap()), large());
    }

    #[test]
    fn a_disk_without_room_is_an_error() {
        let (dir, cache) = store();
        let left = Mutex::new(IN_MEMORY as u64 + 1000);
        let room = |bytes: u64| {
            let mut left = left.lock();
            let full = || io::Error::from_raw_os_error(libc::ENOSPC);
            *left = left.checked_sub(bytes).ok_or_else(full)?;
            Ok(())
        };
        let spool = Spool::new(
            &cache,
            Box::new(room),
            Shares::new(HELD_FOR_CLIENTS).holder(Client::default()),
        );
        (&spool).write_all(&vec![0; IN_MEMORY]).unwrap();
        (&spool).write_all(&[0; 1000]).unwrap();
        let error = (&spool).write_all(&[0; 1]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
        drop(spool);
        assert_eq!(files(&dir), 0);
    }
}
