//! Processes that read, map and search an artifact while its local copy goes and comes back.
//!
//! `CTXFS_READERS_BYTES` and `CTXFS_READERS_ROUNDS` set its size and how often it goes.

use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs};

use ctxfs_store::RemovalOutcome;
use ctxfs_sync::remote::PATIENCE;
use tempfile::TempDir;

use super::host::Sharing;
use crate::support::{Command, Mode, TestMount, TestStore, eventually, while_none_starts};

/// The processes that read at once.
const READERS: usize = 8;
/// The name of the artifact, below `artifacts`.
const NAME: &str = "tool/large.txt";
/// Reads a file of lines of 16 bytes, each its number, in one of four ways, until a file says stop.
/// Prints how often, and how long the longest call took. Any error, and any wrong byte, ends it.
const READER: &str = "
import mmap, os, random, sys, time
path, stop, way, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
draw = random.Random(way)
count, longest = 0, 0
def timed(call, *arguments):
    global longest
    began = time.monotonic()
    result = call(*arguments)
    longest = max(longest, time.monotonic() - began)
    return result
def expected(start, length):
    lines = range(start // 16, (start + length) // 16 + 1)
    text = b''.join(b'%015d\\n' % line for line in lines)
    return text[start % 16:start % 16 + length]
def part():
    start = draw.randrange(size)
    return start, min(draw.randrange(1, 200000), size - start)
def read():
    file = timed(os.open, path, os.O_RDONLY)
    for _ in range(8):
        start, length = part()
        assert timed(os.pread, file, length, start) == expected(start, length), start
    os.close(file)
def mapped():
    with timed(open, path, 'rb') as file:
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as map:
            for _ in range(8):
                start, length = part()
                found = timed(map.__getitem__, slice(start, start + length))
                assert found == expected(start, length), start
def search():
    line = draw.randrange(size // 16)
    file = timed(open, path + '.grep/^%015d$' % line, 'rb')
    found = timed(file.read)
    assert b'%d:%015d' % (line + 1, line) in found, found[:500]
def whole():
    at = 0
    with timed(open, path, 'rb') as file:
        while block := timed(file.read, 1 << 20):
            assert block == expected(at, len(block)), at
            at += len(block)
    assert at == size, at
while not os.path.exists(stop):
    (read, mapped, search, whole)[way % 4]()
    count += 1
print(count, longest)
";

fn set(name: &str, otherwise: u64) -> u64 {
    env::var(name).map_or(otherwise, |value| value.parse().unwrap())
}

fn store(url: &str) -> Arc<TestStore> {
    let store = Arc::new(TestStore::new());
    fs::create_dir_all(store.path()).unwrap();
    let settings = format!("[remote]\nurl = \"{url}\"\npush = \"asked\"\n");
    store.user_settings(settings);
    store
}

/// Ends a process also when the test fails.
struct Reader(Option<Child>);

impl Reader {
    fn ended(&mut self) -> String {
        let output = self.0.take().unwrap().wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

#[test]
fn every_byte_is_right_while_an_artifact_is_evicted_and_fetched() {
    let size = set("CTXFS_READERS_BYTES", 24 << 20) / 16 * 16;
    let rounds = set("CTXFS_READERS_ROUNDS", 3);
    let shared = TempDir::with_prefix("ctxfs-bucket-").unwrap();
    let url = format!("file://{}/bucket", shared.path().display());
    // What asks a bucket whose directory comes later begins anew, and reads fail for a second.
    fs::create_dir(shared.path().join("bucket")).unwrap();
    let mount = TestMount::of(&store(&url), Mode::Passthrough, &[]);
    let lines = (0..size / 16).map(|line| format!("{line:015}\n"));
    let path = mount.artifact("c7", "large.txt", lines.collect::<Vec<_>>().concat().as_bytes());
    mount.settle();
    let host = Sharing::new(&mount.store().path(), &url, 0);
    eventually("it is complete", || host.is_complete());
    host.sync(|sync| sync.push(&host.conversation)).unwrap();
    let stop = shared.path().join("stop");
    let reader = |way: usize| {
        let command = Command::python(READER, &[&path, &stop]).args([way.to_string()]);
        let command = command.arg(size.to_string());
        Reader(Some(
            command
                .with(|inner| {
                    inner.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
                })
                .spawn(),
        ))
    };
    let mut readers: Vec<Reader> = (0..READERS).map(reader).collect();
    for _ in 0..rounds {
        eventually("it is evicted", || {
            while_none_starts(|| host.evict(NAME)) == RemovalOutcome::Removed
        });
        assert!(host.is_far(NAME));
        std::thread::sleep(Duration::from_millis(300));
        let came = host.sync(|sync| sync.fetch_all(&host.conversation, &host.far()));
        assert_eq!(came.unwrap().0, 1);
        std::thread::sleep(Duration::from_millis(100));
    }
    fs::write(&stop, "").unwrap();
    for reader in &mut readers {
        let said = reader.ended();
        let (count, longest) = said.trim().split_once(' ').unwrap();
        assert!(count.parse::<u64>().unwrap() > 0, "{said}");
        assert!(longest.parse::<f64>().unwrap() < PATIENCE.as_secs_f64(), "{said}");
    }
}
