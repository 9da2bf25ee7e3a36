//! The two ways of reading artifacts.

use std::fs;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{Mode, TestMount, log, server_of, signal, within};

/// As root on a kernel that can, readers do not wait for the daemon.
#[test]
fn passthrough_reads_without_the_daemon() {
    let mount = TestMount::new(Mode::Passthrough);
    let text = log(10_000);
    let path = mount.artifact("c7", "x.txt", &text);
    let file = File::open(&path).unwrap();
    let server = server_of(mount.path());
    signal(server, Signal::STOP);
    let read = within(Duration::from_secs(10), move || {
        let mut bytes = vec![0; text.len()];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes == text
    });
    signal(server, Signal::CONT);
    assert_eq!(read, Some(true), "the kernel reads the store's file");
}

#[test]
fn readers_and_writers_of_one_file_in_any_order() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", b"0123456789");
        for round in 0..30_u8 {
            let reader = File::open(&path).unwrap();
            let writer = File::options().write(true).open(&path).unwrap();
            let both = File::options().read(true).write(true).open(&path).unwrap();
            let late = File::open(&path).unwrap();
            writer.write_all_at(&[b'a' + round % 26], 3).unwrap();
            both.write_all_at(&[b'A' + round % 26], 5).unwrap();
            let mut seen = [0; 10];
            for file in [&reader, &both, &late] {
                file.read_exact_at(&mut seen, 0).unwrap();
                assert_eq!((seen[3], seen[5]), (b'a' + round % 26, b'A' + round % 26), "{mode:?}");
            }
        }
        assert_eq!(fs::metadata(&path).unwrap().len(), 10);
    }
}

#[test]
fn many_open_files() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let dir = mount.tool("c7");
        let files: Vec<File> = (0..900)
            .map(|number| File::create(dir.join(format!("{number}.txt"))).unwrap())
            .collect();
        for (number, file) in files.iter().enumerate() {
            file.write_all_at(format!("{number}\n").as_bytes(), 0).unwrap();
        }
        drop(files);
        for number in [0, 500, 899] {
            let tail = fs::read_to_string(dir.join(format!("{number}.txt.tail"))).unwrap();
            assert_eq!(tail, format!("{number}\n"), "{mode:?}");
        }
    }
}
