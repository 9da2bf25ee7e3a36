//! Windows of readers, and the requests that they cause.

mod flights;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::{fs, iter};

use tempfile::TempDir;

use crate::bucket::BlockPacker;
use crate::remote::Limits;
use crate::remote::blocks::source::*;
use crate::remote::tests::bucket::{TestBucket, soon};
use ctxfs_store::Dir;

/// An object in a bucket, and a directory for its cached blocks.
struct Object {
    bucket: Arc<TestBucket>,
    location: ObjectLocation,
    text: Vec<u8>,
    kept: TempDir,
}

impl Object {
    /// Creates an object of `blocks` blocks with different bytes.
    fn new(blocks: usize) -> Self {
        let length = blocks * BLOCK_BYTES as usize - 7;
        let text: Vec<u8> = (0..length).map(|at| (at * at / 1013 % 251) as u8).collect();
        let mut packer = BlockPacker::new(Vec::new());
        packer.push(&text).unwrap();
        let (packed, known) = packer.finish().unwrap();
        let name: ObjectName = "000102030405060708090a0b0c0d0e0f".parse().unwrap();
        let location = ObjectLocation {
            conversation: Component::new("c").unwrap(),
            object: ObjectPlace {
                name,
                size: text.len() as u64,
                packed: packed.len() as u64,
                blocks: known.blocks_digest.clone(),
            },
        };
        let bucket = Arc::new(TestBucket::new());
        for (key, bytes) in [
            (object_key(&location.conversation, name), packed),
            (blocks_key(&location.conversation, name), known.blocks),
        ] {
            bucket.create(&key, &Bytes::from(bytes), soon()).unwrap();
        }
        bucket.made();
        Self { bucket, location, text, kept: tempfile::tempdir().unwrap() }
    }

    fn open(&self) -> ObjectContent {
        let cache =
            BlockCache::new(Dir::open(self.kept.path()).unwrap(), (1 << 30, Limits::default()))
                .unwrap();
        let bucket = Arc::clone(&self.bucket) as _;
        let id = "000102030405060708090a0b0c0d0e0f".parse().unwrap();
        let source = BlockSource::new((bucket, id), cache, Duration::from_mins(1));
        ObjectContent::new(source, self.location.clone())
    }

    /// Reads blocks piece by piece and checks their bytes.
    fn read(&self, content: &ObjectContent, blocks: impl IntoIterator<Item = usize>) {
        for block in blocks {
            let start = block * BLOCK_BYTES as usize;
            let end = self.text.len().min(start + BLOCK_BYTES as usize);
            for start in (start..end).step_by(100_000) {
                let wanted = &self.text[start..end.min(start + 100_000)];
                let got = content.bytes(start as u64, wanted.len()).unwrap();
                assert!(got == wanted, "{start} of block {block}");
            }
        }
    }
}

#[test]
fn a_sequential_reader_fetches_more_each_time_and_only_once() {
    let object = Object::new(70);
    object.read(&object.open(), 0..70);
    // One request for the table, and one for each window. The windows start with the blocks 0, 1,
    // 3, 7, 15, 31 and 63.
    assert_eq!(object.bucket.made().len(), 8);
    object.read(&object.open(), 0..70);
    assert_eq!(object.bucket.made().len(), 0);
}

#[test]
fn threads_that_share_the_work_are_one_reader() {
    let object = Object::new(70);
    let (content, next) = (object.open(), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                object.read(
                    &content,
                    iter::repeat_with(|| next.fetch_add(1, SeqCst)).take_while(|block| *block < 70),
                );
            });
        }
    });
    let made = object.bucket.made().len();
    assert!(made <= 20, "{made}");
}

#[test]
fn who_reads_here_and_there_fetches_that_alone() {
    let object = Object::new(20);
    object.read(&object.open(), [7, 3, 12, 0, 15]);
    assert_eq!(object.bucket.made().len(), 6);
    object.read(&object.open(), [8, 4, 13, 1, 16]);
    assert_eq!(object.bucket.made().len(), 5);
}

#[test]
fn where_nothing_can_be_kept_each_block_is_fetched_when_it_is_read() {
    let object = Object::new(20);
    let content = object.open();
    fs::remove_dir(object.kept.path()).unwrap();
    object.read(&content, 0..20);
    assert_eq!(object.bucket.made().len(), 21);
    fs::create_dir(object.kept.path()).unwrap();
}

#[test]
fn a_window_has_so_many_bytes_at_most() {
    let object = Object::new(20);
    let table = object.open().object().unwrap().table.clone();
    for (start, count) in [(0, 1), (0, 20), (7, 20), (19, 4), (20, 4)] {
        let end = window_end(start, count, &table);
        assert!(end <= start + count && end <= 20 && (end > start || start == 20));
        let bytes = |end: usize| table.frame_range(end - 1).end - table.frame_range(start).start;
        assert!(end <= start + 1 || bytes(end) <= WINDOW_BYTES);
        assert!(end >= 20.min(start + count) || bytes(end + 1) > WINDOW_BYTES);
    }
}
