//! One inode per view and generation: it changes with the content, and only with it.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, thread};

use crate::support::{Mode, TestMount, log};

/// The milliseconds after which a file that nobody changes is at rest, and some.
const AT_REST: u64 = 80;

/// A way to change an artifact.
type Write = fn(&Path);

#[test]
fn the_inode_follows_the_content() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", b"first\n");
        let views = ["tail", "summary", "grep/t"];
        for (view, pause) in views.iter().flat_map(|view| [(view, 0), (view, AT_REST)]) {
            let view = path.with_file_name(format!("x.txt.{view}"));
            fs::write(&path, b"first\n").unwrap();
            thread::sleep(Duration::from_millis(pause));
            let first = fs::metadata(&view).unwrap().ino();
            let _held = File::open(&view).unwrap();
            fs::read(&view).unwrap();
            assert_eq!(fs::metadata(&view).unwrap().ino(), first, "{mode:?} {}", view.display());
            fs::write(&path, b"second text\n").unwrap();
            assert_ne!(fs::metadata(&view).unwrap().ino(), first, "{mode:?} {}", view.display());
        }
    }
}

#[test]
fn who_holds_a_view_keeps_its_bytes() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", b"first\n");
        let view = path.with_file_name("x.txt.tail");
        let mut held = File::open(&view).unwrap();
        fs::write(&path, b"a second, longer text\n").unwrap();
        assert_eq!(read(&mut held), "first\n", "{mode:?}");
        assert_eq!(held.metadata().unwrap().len(), 6, "{mode:?}");
        assert_eq!(fs::read(&view).unwrap(), b"a second, longer text\n", "{mode:?}");
        fs::remove_file(&path).unwrap();
        assert_eq!(read(&mut held), "first\n", "{mode:?}");
    }
}

#[test]
fn each_way_of_writing_shows_at_once() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", b"zero\n");
        let view = path.with_file_name("x.txt.tail");
        let ways: [(Write, &str); 5] = [
            (|path| fs::write(path, b"again\n").unwrap(), "again\n"),
            (
                |path| {
                    let mut file = File::options().append(true).open(path).unwrap();
                    file.write_all(b"more\n").unwrap();
                },
                "again\nmore\n",
            ),
            (
                |path| {
                    let mut file = File::options().write(true).open(path).unwrap();
                    file.write_all(b"A").unwrap();
                },
                "Again\nmore\n",
            ),
            (|path| File::options().write(true).open(path).unwrap().set_len(6).unwrap(), "Again\n"),
            (
                |path| {
                    let scratch = path.with_file_name(".x.tmp");
                    fs::write(&scratch, b"renamed\n").unwrap();
                    fs::rename(scratch, path).unwrap();
                },
                "renamed\n",
            ),
        ];
        for (write, expected) in ways {
            fs::read(&view).unwrap();
            write(&path);
            assert_eq!(fs::read_to_string(&view).unwrap(), expected, "{mode:?}");
            let shown = fs::read_to_string(path.with_file_name("x.txt.lines/1-1")).unwrap();
            assert_eq!(shown.trim_end(), expected.lines().next().unwrap(), "{mode:?}");
        }
    }
}

/// The size and the bytes of an open view agree, and no line is torn, while the artifact grows.
#[test]
fn nothing_is_torn_while_the_artifact_grows() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.tool("c7").join("x.txt");
        let mut writer = File::create(&path).unwrap();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                for line in log(4000).split_inclusive(|byte| *byte == b'\n') {
                    writer.write_all(line).unwrap();
                }
                done.store(true, Ordering::Relaxed);
            });
            let view = path.with_file_name("x.txt.tail");
            let mut rounds = 0;
            while !done.load(Ordering::Relaxed) || rounds < 50 {
                let mut held = File::open(&view).unwrap();
                let size = held.metadata().unwrap().len();
                let text = read(&mut held);
                assert_eq!(text.len() as u64, size, "{mode:?}");
                assert!(text.is_empty() || text.ends_with('\n'), "{mode:?}: {text}");
                assert!(text.lines().count() <= 200, "{mode:?}");
                rounds += 1;
            }
        });
    }
}

fn read(file: &mut File) -> String {
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}
