//! The text of a computed file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use crate::Share;
use ctxfs_core::model::Content;
use ctxfs_store::{Cache, CacheKey, read_full_at, stat_file};

/// The last bytes of a text that is kept on disk, after the length of its notice.
pub(super) const MARK: &[u8; 8] = b"ctxfs\0\0\x01";

/// Bytes in memory, and their part of the budget. `None` for the few bytes of a notice.
#[derive(Debug)]
struct HeldBytes(Vec<u8>, #[expect(dead_code, reason = "gives back")] Option<Share>);

/// The text of a computed file, which never changes once it is made.
#[derive(Debug, Clone)]
pub struct ViewText {
    /// The notice, and the rest of the text if that is in memory.
    head: Arc<HeldBytes>,
    /// The length of the notice in bytes.
    notice: usize,
    /// The rest of the text and its length, if that is on disk.
    on_disk: Option<(Arc<File>, u64)>,
    /// False if time ran out before all of it was computed.
    whole: bool,
    /// Equal keys mean equal bytes, at any time and in any process. `None` if that cannot be
    /// guaranteed.
    key: Option<CacheKey>,
}

impl ViewText {
    /// Creates a text of `head`, whose first `notice` bytes are the notice, followed by the file
    /// `on_disk`.
    pub(super) fn new(head: Vec<u8>, notice: usize, on_disk: Option<(Arc<File>, u64)>) -> Self {
        let head = Arc::new(HeldBytes(head, None));
        Self { head, notice, on_disk, whole: true, key: None }
    }

    /// Creates such a text whose bytes in memory are held by `held`.
    pub(super) fn held(
        head: Vec<u8>,
        notice: usize,
        on_disk: Option<(Arc<File>, u64)>,
        held: Share,
    ) -> Self {
        let head = Arc::new(HeldBytes(head, Some(held)));
        Self { head, notice, on_disk, whole: true, key: None }
    }

    /// Returns the same text, known by `key`.
    pub(super) fn with_key(self, key: Option<CacheKey>) -> Self {
        Self { key, ..self }
    }

    /// Returns the same text, marked as a beginning unless it is `whole`.
    pub(super) fn with_whole(self, whole: bool) -> Self {
        Self { whole, ..self }
    }

    /// Returns the text that `cache` holds under `key`, if that is a whole text.
    pub(crate) fn cached(cache: &Cache, key: &CacheKey) -> Option<Self> {
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
        Some(Self::new(head, notice, Some((Arc::new(file), text))).with_key(Some(key.clone())))
    }

    /// Returns its length in bytes.
    pub fn len(&self) -> u64 {
        self.head.0.len() as u64 + self.on_disk_length()
    }

    /// Returns true if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of its bytes in memory.
    pub(super) fn memory_length(&self) -> u64 {
        self.head.0.len() as u64
    }

    /// Returns the number of its bytes on disk.
    pub fn on_disk_length(&self) -> u64 {
        self.on_disk.as_ref().map_or(0, |(_, length)| *length)
    }

    /// Returns the bytes of its notice.
    #[cfg(test)]
    pub(super) fn notice_length(&self) -> usize {
        self.notice
    }

    /// Returns true if it is only a notice that says why there is nothing.
    pub(crate) fn is_notice(&self) -> bool {
        self.notice > 0 && self.len() == self.notice as u64
    }

    /// Returns true if time sufficed for all of it.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Returns its key. Equal keys mean equal bytes.
    pub(crate) fn key(&self) -> Option<&CacheKey> {
        self.key.as_ref()
    }

    /// Hands `size` bytes from `offset` on to `take`, and fewer at the end.
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
