//! The bytes of a computed file.

use std::cell::Cell;
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::io::Write;
use std::ops::Deref;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use std::time::Instant;

use quick_cache::DefaultHashBuilder;
use quick_cache::OptionsBuilder;
use quick_cache::Weighter;
use quick_cache::sync::Cache as Recent;
use quick_cache::sync::DefaultLifecycle;

use crate::fs::Ino;
use crate::model::Content;
use crate::store::Cache;
use crate::store::CacheKey;
use crate::store::Draft;
use crate::store::read_full_at;
use crate::store::stat_file;
use crate::view::Rendered;

/// Bytes that a result keeps in memory before it goes to a file of the store's cache.
const IN_MEMORY: usize = 256 * 1024;
/// Bytes that all results have in memory together before what is more goes there at once, but for the
/// smallest: whoever opens files and does not read them has them held.
const ALL_IN_MEMORY: u64 = 64 << 20;
/// So little costs a descriptor more than it saves.
const SMALL: usize = 512;
/// What took longer to compute is kept in the store's cache, however small.
const SLOW: Duration = Duration::from_secs(1);
/// What a result on disk counts for among those in memory: it holds a descriptor, and perhaps a
/// file that has no name any more, so few are held.
const DISK_WEIGHT: u64 = 128 * 1024;
/// Bytes on disk that count for one more byte in memory: a gigabyte counts as much as 8 MiB.
const DISK_SHARE: u64 = 128;
/// The last bytes of a result that is kept on disk, behind the length of its notice.
const MARK: &[u8; 8] = b"ctxfs\0\0\x01";

/// The bytes of all texts of this process that are in memory.
static IN_ALL: AtomicU64 = AtomicU64::new(0);

/// Bytes, counted while they are there.
#[derive(Debug)]
struct Counted(Vec<u8>);

impl Counted {
    fn new(bytes: Vec<u8>) -> Self {
        IN_ALL.fetch_add(bytes.capacity() as u64, Relaxed);
        Self(bytes)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        IN_ALL.fetch_sub(self.0.capacity() as u64, Relaxed);
    }
}

impl Deref for Counted {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// The bytes of a computed file: never changed once made.
#[derive(Debug, Clone)]
pub(crate) struct Body {
    /// The notice, and the text where that is in memory.
    head: Arc<Counted>,
    /// Bytes of the notice.
    notice: usize,
    /// The text, where it is not in memory.
    on_disk: Option<(Arc<File>, u64)>,
    /// Whether there was time for all of it.
    whole: bool,
    /// Equal keys mean equal bytes, at any time and to any process; none, where nobody can tell.
    key: Option<CacheKey>,
}

impl Body {
    /// Of a text without a notice.
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        let head = Arc::new(Counted::new(bytes));
        Self { head, notice: 0, on_disk: None, whole: true, key: None }
    }

    /// The result that the cache has under `key`, if it is one.
    pub(crate) fn kept(cache: &Cache, key: &CacheKey) -> Option<Self> {
        let file = cache.open(key)?;
        let length = stat_file(&file).ok()?.size;
        let mut end = [0; 16];
        file.read_exact_at(&mut end, length.checked_sub(16)?).ok()?;
        let (notice, mark) = end.split_at(8);
        let notice = u64::from_le_bytes(notice.try_into().ok()?);
        let text = (length - 16).checked_sub(notice).filter(|_| mark == MARK)?;
        let mut head = vec![0; usize::try_from(notice).ok()?];
        file.read_exact_at(&mut head, text).ok()?;
        let on_disk = Some((Arc::new(file), text));
        let (notice, head) = (head.len(), Arc::new(Counted::new(head)));
        Some(Self { notice, head, on_disk, whole: true, key: Some(key.clone()) })
    }

    pub(crate) fn len(&self) -> u64 {
        self.head.len() as u64 + self.on_disk.as_ref().map_or(0, |(_, length)| *length)
    }

    /// Whether it only says why there is nothing.
    pub(crate) fn is_notice(&self) -> bool {
        self.notice > 0 && self.len() == self.notice as u64
    }

    /// Whether there was time for all of it.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    pub(crate) fn key(&self) -> Option<&CacheKey> {
        self.key.as_ref()
    }

    /// Hands `size` bytes from `offset` on to `take`, fewer at the end.
    pub(crate) fn read<T>(
        &self,
        offset: u64,
        size: usize,
        take: impl FnOnce(&[u8]) -> T,
    ) -> io::Result<T> {
        let end = self.len().min(offset.saturating_add(size as u64));
        let start = offset.min(end);
        if end <= self.head.len() as u64 {
            return Ok(take(&self.head[start as usize..end as usize]));
        }
        let mut bytes = vec![0; (end - start) as usize];
        self.read_at(start, &mut bytes)?;
        Ok(take(&bytes))
    }
}

impl Content for Body {
    fn len(&self) -> u64 {
        self.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let from_head = self.head[..].read_at(offset, buffer)?;
        let Some((file, length)) = &self.on_disk else { return Ok(from_head) };
        let at = (offset + from_head as u64).saturating_sub(self.head.len() as u64);
        let left = usize::try_from(length.saturating_sub(at)).unwrap_or(usize::MAX);
        let wanted = left.min(buffer.len() - from_head);
        let rest = &mut buffer[from_head..from_head + wanted];
        if read_full_at(file, at, rest)? < wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(from_head + wanted)
    }
}

/// Says whether so many more bytes have room on the disk.
type Room<'a> = dyn Fn(u64) -> io::Result<()> + Sync + 'a;

/// Collects a result of unknown length in bounded memory.
///
/// It is written to through a shared reference, so that what is there can be given out meanwhile.
pub(crate) struct Spool<'a> {
    cache: &'a Cache,
    room: &'a Room<'a>,
    started: Instant,
    text: RefCell<Collected>,
    /// Its beginning was given out: whoever got that looks for the rest on disk.
    given: Cell<bool>,
}

#[derive(Default)]
struct Collected {
    memory: Vec<u8>,
    /// What has outgrown memory, and its length.
    disk: Option<(Draft, u64)>,
}

impl<'a> Spool<'a> {
    /// What outgrows memory goes to `cache`, where there is room.
    pub(crate) fn new(cache: &'a Cache, room: &'a Room<'a>) -> Self {
        let (text, given) = (RefCell::default(), Cell::new(false));
        Self { cache, room, started: Instant::now(), text, given }
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> u64 {
        let Collected { memory, disk } = &*self.text.borrow();
        disk.as_ref().map_or(memory.len() as u64, |(_, length)| *length)
    }

    /// What there is so far, behind `notice`. The result is then kept however small it is.
    pub(crate) fn beginning(&self, notice: String) -> Body {
        self.given.set(true);
        let Collected { memory, disk } = &*self.text.borrow();
        let mut head = notice.into_bytes();
        let notice = head.len();
        head.extend_from_slice(memory);
        let on_disk = disk.as_ref().map(|(draft, length)| (Arc::clone(draft.file()), *length));
        Body { head: Arc::new(Counted::new(head)), notice, on_disk, whole: false, key: None }
    }

    /// The result: its notice first. With a `key` it is kept on disk, if it is whole and went there
    /// or took long.
    pub(crate) fn finish(self, rendered: Rendered, key: Option<CacheKey>) -> io::Result<Body> {
        let Rendered { notice, whole } = rendered;
        let key = key.filter(|_| whole);
        let late = self.given.get() || self.started.elapsed() >= SLOW;
        let mut head = notice.unwrap_or_default().into_bytes();
        let Collected { mut memory, disk } = self.text.take();
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
                tracing::debug!(%error, "a small result is not kept");
            }
            if memory.len() > SMALL && IN_ALL.load(Relaxed) > ALL_IN_MEMORY {
                on_disk = Some(self.aside(&memory)?);
            } else {
                head.append(&mut memory);
            }
        }
        head.shrink_to_fit();
        Ok(Body { head: Arc::new(Counted::new(head)), notice, on_disk, whole, key })
    }

    /// In a file without a name.
    fn aside(&self, text: &[u8]) -> io::Result<(Arc<File>, u64)> {
        (self.room)(text.len() as u64)?;
        let draft = self.cache.draft()?;
        draft.file().write_all_at(text, 0)?;
        Ok((Arc::clone(draft.file()), text.len() as u64))
    }

    fn add(&self, bytes: &[u8]) -> io::Result<()> {
        let Collected { memory, disk } = &mut *self.text.borrow_mut();
        if disk.is_none() && memory.len() + bytes.len() <= IN_MEMORY {
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
        Ok(())
    }
}

/// Keeps a draft of `length` bytes as a whole result.
fn keep(cache: &Cache, draft: Draft, length: u64, notice: &[u8], key: &CacheKey) -> io::Result<()> {
    let end = [notice, &(notice.len() as u64).to_le_bytes(), MARK].concat();
    draft.file().write_all_at(&end, length)?;
    if let Err(error) = cache.keep(draft, key) {
        tracing::debug!(%error, "a result is not kept");
    }
    Ok(())
}

fn keep_small(cache: &Cache, text: &[u8], notice: &[u8], key: &CacheKey) -> io::Result<()> {
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

/// Results by the number of their node, the least used of them dropped when they pass the bytes that
/// are kept.
pub(crate) type BodyCache = Recent<Ino, Arc<Body>, ByBytes>;

/// Weighs a result by the memory that it holds.
#[derive(Debug, Clone)]
pub(crate) struct ByBytes {
    /// What a result on disk counts for at most.
    most: u64,
}

impl Weighter<Ino, Arc<Body>> for ByBytes {
    fn weight(&self, _: &Ino, body: &Arc<Body>) -> u64 {
        let weigh = |(_, length): &(Arc<File>, u64)| DISK_WEIGHT + length / DISK_SHARE;
        let on_disk = body.on_disk.as_ref().map_or(0, weigh);
        // The largest of all must still be held from the question for its size to its opening.
        body.head.len() as u64 + on_disk.min(self.most) + 128
    }
}

/// An empty cache for so many bytes.
pub(crate) fn cache(bytes: u64) -> BodyCache {
    let options = OptionsBuilder::new()
        // Several would divide the bytes among them, and none could hold the largest result.
        .shards(1)
        .estimated_items_capacity(4096)
        .weight_capacity(bytes)
        .build()
        .expect("both capacities are given");
    let weighter = ByBytes { most: bytes / 4 };
    Recent::with_options(
        options,
        weighter,
        DefaultHashBuilder::default(),
        DefaultLifecycle::default(),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tempfile::TempDir;

    use super::*;
    use crate::store::Store;

    fn all(body: &Body) -> Vec<u8> {
        body.read(0, usize::MAX, <[u8]>::to_vec).unwrap()
    }

    fn noted(notice: &str) -> Rendered {
        Rendered { notice: Some(notice.to_owned()), whole: true }
    }

    fn store() -> (TempDir, Cache) {
        let dir = tempfile::tempdir().unwrap();
        let cache = Store::open(dir.path()).unwrap().cache(1 << 30);
        (dir, cache)
    }

    fn large() -> Vec<u8> {
        (0..IN_MEMORY * 2).map(|i| (i % 251) as u8).collect()
    }

    /// Files in the cache; none, where there is no cache.
    fn files(dir: &TempDir) -> usize {
        std::fs::read_dir(dir.path().join("cache")).map_or(0, Iterator::count)
    }

    #[test]
    fn a_small_result_stays_in_memory_behind_its_notice() {
        let (dir, cache) = store();
        let spool = Spool::new(&cache, &|_| Ok(()));
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
        let spool = Spool::new(&cache, &|_| Ok(()));
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
        assert!(Body::kept(&cache, &key).is_none());
        let spool = Spool::new(&cache, &|_| Ok(()));
        large().chunks(1000).for_each(|piece| (&spool).write_all(piece).unwrap());
        assert!(Body::kept(&cache, &key).is_none());
        let made = spool.finish(noted("# notice\n"), Some(key.clone())).unwrap();
        let kept = Body::kept(&cache, &key).unwrap();
        assert_eq!(all(&kept), all(&made));
        assert_eq!((kept.notice, kept.key.clone()), (9, Some(key.clone())));
        std::fs::remove_dir_all(dir.path().join("cache")).unwrap();
        assert_eq!(all(&kept), all(&made));
        assert!(Body::kept(&cache, &key).is_none());
    }

    /// Whoever asks for the size of a view opens it next: it must still be there then.
    #[test]
    fn the_largest_results_are_held_and_only_a_few_of_them() {
        let bodies = super::cache(8 << 20);
        let body = |number: u64| {
            let file = tempfile::tempfile().unwrap();
            let on_disk = Some((Arc::new(file), number << 40));
            Arc::new(Body { on_disk, ..Body::of(Vec::new()) })
        };
        for number in 1..20 {
            bodies.insert(Ino(number), body(number));
            assert!(bodies.get(&Ino(number)).is_some(), "{number}");
        }
        assert!(bodies.len() <= 4, "{}", bodies.len());
    }

    #[test]
    fn what_ran_out_of_time_is_not_kept() {
        let (dir, cache) = store();
        let key = CacheKey::of(&[b"late"]).unwrap();
        let spool = Spool::new(&cache, &|_| Ok(()));
        (&spool).write_all(&large()).unwrap();
        let late = Rendered { notice: None, whole: false };
        let body = spool.finish(late, Some(key.clone())).unwrap();
        assert_eq!((all(&body), body.is_whole(), body.key()), (large(), false, None));
        assert!(Body::kept(&cache, &key).is_none());
        assert_eq!(files(&dir), 0);
    }

    #[test]
    fn a_beginning_stays_as_it_was_given() {
        for size in [10, IN_MEMORY * 2] {
            let (dir, cache) = store();
            let spool = Spool::new(&cache, &|_| Ok(()));
            let wanted: Vec<u8> = large().into_iter().cycle().take(size * 2).collect();
            (&spool).write_all(&wanted[..size]).unwrap();
            let beginning = spool.beginning("# more\n".to_owned());
            assert_eq!(spool.len(), size as u64);
            (&spool).write_all(&wanted[size..]).unwrap();
            let key = CacheKey::of(&[b"late"]).unwrap();
            let body = spool.finish(noted("# all\n"), Some(key.clone())).unwrap();
            assert_eq!(all(&beginning), [b"# more\n", &wanted[..size]].concat());
            assert!(!beginning.is_whole());
            assert_eq!(all(&body), [b"# all\n", &wanted[..]].concat());
            assert_eq!(all(&Body::kept(&cache, &key).unwrap()), all(&body));
            assert_eq!(files(&dir), 1);
        }
    }

    #[test]
    fn a_file_that_is_no_result_is_not_taken_for_one() {
        let (dir, cache) = store();
        let key = CacheKey::of(&[b"large"]).unwrap();
        let spool = Spool::new(&cache, &|_| Ok(()));
        (&spool).write_all(&large()).unwrap();
        spool.finish(noted(""), Some(key.clone())).unwrap();
        let path = std::fs::read_dir(dir.path().join("cache")).unwrap().next().unwrap().unwrap();
        let whole = std::fs::read(path.path()).unwrap();
        for length in [0, 7, 16, whole.len() - 1] {
            std::fs::write(path.path(), &whole[..length]).unwrap();
            assert!(Body::kept(&cache, &key).is_none(), "{length}");
        }
        let mut end = whole.clone();
        let length = end.len();
        end[length - 16..length - 8].fill(0xff);
        std::fs::write(path.path(), end).unwrap();
        assert!(Body::kept(&cache, &key).is_none());
        std::fs::write(path.path(), whole).unwrap();
        assert_eq!(all(&Body::kept(&cache, &key).unwrap()), large());
    }

    #[test]
    fn a_disk_without_room_is_an_error() {
        let (dir, cache) = store();
        let left = Mutex::new(IN_MEMORY as u64 + 1000);
        let room = |bytes: u64| {
            let mut left = left.lock().unwrap();
            let full = || io::Error::from_raw_os_error(libc::ENOSPC);
            *left = left.checked_sub(bytes).ok_or_else(full)?;
            Ok(())
        };
        let spool = Spool::new(&cache, &room);
        (&spool).write_all(&vec![0; IN_MEMORY]).unwrap();
        (&spool).write_all(&[0; 1000]).unwrap();
        let error = (&spool).write_all(&[0; 1]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
        drop(spool);
        assert_eq!(files(&dir), 0);
    }
}
