//! The bytes of a computed file.

use std::fs::File;
use std::io;
use std::io::Seek as _;
use std::io::Write;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tempfile::SpooledData;
use tempfile::SpooledTempFile;
use tempfile::spooled_tempfile_in;

use crate::fs::Ino;

/// Bytes that a result keeps in memory before it goes to an unnamed file in the store.
const IN_MEMORY: usize = 256 * 1024;
/// What a result on disk counts for in the cache: it holds a descriptor, so few are kept.
const SPOOLED_WEIGHT: u64 = 128 * 1024;

/// The bytes of a computed file: never changed once made.
#[derive(Debug)]
pub(crate) struct Body {
    head: Vec<u8>,
    spooled: Option<(File, u64)>,
}

impl Body {
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Self { head: bytes, spooled: None }
    }

    pub(crate) fn len(&self) -> u64 {
        self.head.len() as u64 + self.spooled.as_ref().map_or(0, |(_, length)| *length)
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
        let head = self.head.len() as u64;
        if end <= head {
            return Ok(take(&self.head[start as usize..end as usize]));
        }
        let mut bytes = self.head[start.min(head) as usize..].to_vec();
        if let Some((file, _)) = &self.spooled {
            let from = bytes.len();
            bytes.resize((end - start) as usize, 0);
            file.read_exact_at(&mut bytes[from..], start.max(head) - head)?;
        }
        Ok(take(&bytes))
    }
}

/// Collects a result of unknown length in bounded memory.
#[derive(Debug)]
pub(crate) struct Spool(SpooledTempFile);

impl Spool {
    /// What outgrows memory goes to an unnamed file in `dir`.
    pub(crate) fn new(dir: &std::path::Path) -> Self {
        Self(spooled_tempfile_in(IN_MEMORY, dir))
    }

    /// The result: `notice` first.
    pub(crate) fn finish(self, notice: Option<String>) -> io::Result<Body> {
        let mut head = notice.unwrap_or_default().into_bytes();
        match self.0.into_inner() {
            SpooledData::InMemory(bytes) => {
                head.extend_from_slice(bytes.get_ref());
                Ok(Body::of(head))
            }
            SpooledData::OnDisk(mut file) => {
                let length = file.seek(io::SeekFrom::End(0))?;
                Ok(Body { head, spooled: Some((file, length)) })
            }
        }
    }
}

impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Results by the number of their node, the least used of them dropped when they pass the bytes that
/// are kept.
pub(crate) type BodyCache = Cache<Ino, Arc<Body>, ByBytes>;

/// Weighs a result by the memory that it holds.
#[derive(Debug, Clone)]
pub(crate) struct ByBytes;

impl Weighter<Ino, Arc<Body>> for ByBytes {
    fn weight(&self, _: &Ino, body: &Arc<Body>) -> u64 {
        let on_disk = if body.spooled.is_some() { SPOOLED_WEIGHT } else { 0 };
        body.head.len() as u64 + on_disk + 128
    }
}

/// An empty cache for so many bytes.
pub(crate) fn cache(bytes: u64) -> BodyCache {
    Cache::with_weighter(4096, bytes, ByBytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(body: &Body) -> Vec<u8> {
        body.read(0, usize::MAX, <[u8]>::to_vec).unwrap()
    }

    #[test]
    fn a_small_result_stays_in_memory_behind_its_notice() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(dir.path());
        spool.write_all(b"body\n").unwrap();
        let body = spool.finish(Some("# notice\n".into())).unwrap();
        assert_eq!(all(&body), b"# notice\nbody\n");
        assert_eq!(body.len(), 14);
        assert_eq!(body.read(7, 4, <[u8]>::to_vec).unwrap(), b"e\nbo");
        assert_eq!(body.read(99, 4, <[u8]>::to_vec).unwrap(), b"");
    }

    #[test]
    fn a_large_result_goes_to_disk_and_reads_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let wanted: Vec<u8> = (0..IN_MEMORY * 2).map(|i| (i % 251) as u8).collect();
        let mut spool = Spool::new(dir.path());
        spool.write_all(&wanted).unwrap();
        let body = spool.finish(Some("# n\n".into())).unwrap();
        assert!(body.spooled.is_some());
        assert_eq!(&all(&body)[4..], wanted);
        assert_eq!(body.read(2, 6, <[u8]>::to_vec).unwrap(), b"n\n\x00\x01\x02\x03");
        let end = body.len();
        assert_eq!(body.read(end - 3, 9, <[u8]>::to_vec).unwrap(), &wanted[wanted.len() - 3..]);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
