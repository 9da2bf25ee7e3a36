//! Everybody's ways past a quota.

use std::fs;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use crate::support::{Command, Mode, TestMount, TestStore};

const QUOTA: u64 = 8 << 20;

/// Returns the bytes that a conversation takes on the disk.
fn room(store: &TestStore) -> u64 {
    let (mut bytes, mut dirs) = (0, vec![store.path().join("context/c7")]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            // What is gone meanwhile takes none.
            let Ok(found) = entry.metadata() else { continue };
            bytes += found.blocks() * 512;
            if found.is_dir() {
                dirs.push(entry.path());
            }
        }
    }
    bytes
}

fn mounted(mode: Mode) -> TestMount {
    TestMount::of(&Arc::new(TestStore::new()), mode, &["--quota", &QUOTA.to_string()])
}

#[test]
fn holes_copies_and_mapped_pages_are_counted() {
    for mode in Mode::ALL {
        for script in [
            // Writing in a hole.
            "
file = os.open(path, os.O_WRONLY | os.O_CREAT)
os.ftruncate(file, 200 << 20)
for at in range(0, 32 << 20, 1 << 16):
    os.pwrite(file, b'x' * (1 << 16), at)
",
            // Pages that are mapped.
            "
file = os.open(path, os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 32 << 20)
with mmap.mmap(file, 32 << 20) as map:
    for at in range(0, 32 << 20, 4096):
        map[at:at + 1] = b'x'
    map.flush()
",
            // A copy in the kernel.
            "
source = os.open(path + '.source.tmp', os.O_RDWR | os.O_CREAT)
os.write(source, b'x' * (6 << 20))
file = os.open(path, os.O_WRONLY | os.O_CREAT)
while os.copy_file_range(source, file, 6 << 20, 0):
    pass
",
            // Reserved room.
            "
for number in range(32):
    file = os.open(f'{path}.{number}.tmp', os.O_WRONLY | os.O_CREAT)
    os.posix_fallocate(file, 0, 1 << 20)
",
            // Names, and directories in directories.
            "
for number in range(100_000):
    os.mkdir(f'{path}.{number // 100}' + '/d' * (number % 100))
",
            // Files that have lost their names.
            "
files = []
while len(files) < 100:
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.unlink(path)
    files.append(file)
    os.write(file, b'x' * (1 << 20))
",
        ] {
            let mount = mounted(mode);
            let path = mount.tool("c7").join("x.txt");
            let script = script.trim().replace('\n', "\n    ");
            let script = format!(
                "import errno, mmap, os, sys\npath = sys.argv[1]\ntry:\n    {script}\n    \
                 print('all')\nexcept OSError as error:\n    print(errno.errorcode[error.errno])\n",
            );
            let told = Command::python(&script, &[&path]).text();
            // What the kernel writes later fails as a disk does.
            let is_full = told.trim() == "EDQUOT" || script.contains("mmap(") && told != "all\n";
            assert!(is_full, "{mode:?}: {told}\n{script}");
            let taken = room(mount.store());
            assert!(taken <= QUOTA, "{mode:?}: {taken}\n{script}");
        }
    }
}

#[test]
fn many_processes_share_what_is_left() {
    let mount = mounted(Mode::Passthrough);
    let store = mount.store();
    let dir = mount.tool("c7");
    let bytes = vec![b'x'; 3 << 20];
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (dir, bytes) = (&dir, &bytes);
            scope.spawn(move || {
                let file = File::create(dir.join(format!("mount-{number}.txt")));
                file.and_then(|mut file| bytes.chunks(1 << 16).try_for_each(|b| file.write_all(b)))
            });
            scope.spawn(move || {
                let put = store.ctxfs("put", &["-c", "c7", "--call", &format!("put-{number}")]);
                put.env("CTXFS_QUOTA", QUOTA.to_string()).stdin(bytes.clone()).run()
            });
        }
    });
    let taken = room(store);
    // Each process may be writing one block, and hold a little, when another measures.
    assert!(taken <= QUOTA + 5 * (1 << 20), "{taken}");
    assert!(taken >= QUOTA / 2, "{taken}");
    // There is room as soon as something is removed.
    for entry in fs::read_dir(&dir).unwrap() {
        fs::remove_file(entry.unwrap().path()).ok();
    }
    fs::write(dir.join("new.txt"), &bytes).unwrap();
}

#[test]
fn an_import_is_below_the_quota_or_is_none() {
    let store = TestStore::new();
    store.put("c7", "a", &vec![b'x'; 1 << 20]);
    let archive = store.scratch("archive").join("c7.tar.zst");
    let path = archive.to_str().unwrap();
    store.ctxfs("export", &["c7", "-o", path]).stdout();
    let import = |quota: &str| {
        let to = TestStore::new();
        let done = to.ctxfs("import", &[path]).env("CTXFS_QUOTA", quota).run();
        let is_there = to.path().join("context/c7").exists();
        (done.code, String::from_utf8_lossy(&done.stderr).into_owned(), is_there)
    };
    let (code, told, is_there) = import("1000000");
    assert!(code == 1 && !is_there, "{told}");
    assert!(told.contains("would pass its quota of 1000000 bytes"), "{told}");
    let (code, told, is_there) = import("2000000");
    assert!(code == 0 && is_there, "{told}");
}
