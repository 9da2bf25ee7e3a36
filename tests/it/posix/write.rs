//! Writing, in the ways that programs write.

use std::fs;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;

use crate::support::{Mode, TestMount, errno, log};

#[test]
fn in_place() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", b"one two three\n");
        let file = File::options().read(true).write(true).open(&path).unwrap();
        file.write_all_at(b"TWO", 4).unwrap();
        let mut seen = [0; 14];
        file.read_exact_at(&mut seen, 0).unwrap();
        assert_eq!(&seen, b"one TWO three\n");
        assert_eq!(fs::read(&path).unwrap(), b"one TWO three\n");
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"one TWO three\n");
        assert_eq!(fs::read(mount.store().plain("c7", "x.txt")).unwrap(), b"one TWO three\n");
    }
}

#[test]
fn every_byte_is_in_the_store_when_write_returns() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let mut writer = File::create(mount.tool("c7").join("x.txt")).unwrap();
        let plain = mount.store().plain("c7", "x.txt");
        let mut so_far = Vec::new();
        for line in log(200).split_inclusive(|byte| *byte == b'\n') {
            writer.write_all(line).unwrap();
            so_far.extend_from_slice(line);
            assert_eq!(fs::read(&plain).unwrap(), so_far);
        }
    }
}

#[test]
fn a_reader_sees_each_write_at_once() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.tool("c7").join("x.txt");
        let mut writer = File::create(&path).unwrap();
        let mut reader = File::open(&path).unwrap();
        let mut seen = Vec::new();
        for number in 0..300_u32 {
            let line = format!("{number} {}\n", "x".repeat(number as usize * 7 % 200));
            writer.write_all(line.as_bytes()).unwrap();
            seen.clear();
            reader.read_to_end(&mut seen).unwrap();
            assert_eq!(String::from_utf8_lossy(&seen), line, "{mode:?}");
            let size = reader.metadata().unwrap().len();
            assert_eq!(size, reader.stream_position().unwrap(), "{mode:?}");
            assert_eq!(fs::metadata(&path).unwrap().len(), size, "{mode:?}");
        }
    }
}

#[test]
fn with_holes() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.tool("c7").join("x.bin");
        let mut file = File::create(&path).unwrap();
        file.seek(SeekFrom::Start(100_000)).unwrap();
        file.write_all(b"end").unwrap();
        drop(file);
        let mut expected = vec![0; 100_000];
        expected.extend(b"end");
        assert!(fs::read(&path).unwrap() == expected);
    }
}

#[test]
fn truncate_and_extend() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", b"0123456789");
        let file = File::options().write(true).open(&path).unwrap();
        for (size, expected) in [(4, &b"0123"[..]), (6, b"0123\0\0"), (0, b"")] {
            file.set_len(size).unwrap();
            assert_eq!(fs::read(&path).unwrap(), expected, "{mode:?}");
            assert_eq!(fs::metadata(&path).unwrap().len(), size);
        }
        drop(file);
        fs::write(&path, b"long long text").unwrap();
        fs::write(&path, b"short").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"short");
    }
}

#[test]
fn exclusively() {
    let mount = TestMount::new(Mode::Passthrough);
    let path = mount.tool("c7").join("x.txt");
    File::create_new(&path).unwrap();
    assert_eq!(errno(File::create_new(&path)), rustix::io::Errno::EXIST);
}

#[test]
fn a_large_file() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.tool("c7").join("x.bin");
        let block: Vec<u8> = (0..1 << 20).map(|at: u32| (at % 251) as u8).collect();
        let mut file = File::create(&path).unwrap();
        for _ in 0..48 {
            file.write_all(&block).unwrap();
        }
        drop(file);
        let mut file = File::open(&path).unwrap();
        let mut seen = vec![0; block.len()];
        for _ in 0..48 {
            file.read_exact(&mut seen).unwrap();
            assert!(seen == block, "{mode:?}");
        }
        assert_eq!(file.read(&mut seen).unwrap(), 0);
    }
}

#[test]
fn synced() {
    let mount = TestMount::new(Mode::Passthrough);
    let path = mount.tool("c7").join("x.txt");
    let mut file = File::create(&path).unwrap();
    file.write_all(b"kept").unwrap();
    file.sync_data().unwrap();
    file.sync_all().unwrap();
    File::open(path.parent().unwrap()).unwrap().sync_all().unwrap();
}

#[test]
fn room_ahead() {
    use rustix::fs::FallocateFlags;
    let mount = TestMount::new(Mode::Passthrough);
    let path = mount.tool("c7").join("x.bin");
    let file = File::create(&path).unwrap();
    // A filesystem may have no fallocate; then it must say so, and not pretend.
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 5000) {
        Ok(()) => assert_eq!(file.metadata().unwrap().len(), 5000),
        Err(error) => assert_eq!(error, rustix::io::Errno::OPNOTSUPP),
    }
}
