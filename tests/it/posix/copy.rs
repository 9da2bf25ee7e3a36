//! Copying inside the mount with `copy_file_range(2)`.

use std::fs;
use std::fs::File;
use std::sync::Arc;

use rustix::io::Errno;

use crate::support::{Command, Mode, TestMount, TestStore};

/// Copies up to `length` bytes, with as few calls as the kernel needs.
fn copy(from: (&File, u64), to: (&File, u64), length: usize) -> Result<usize, Errno> {
    let (mut offset, mut to_offset) = (from.1, to.1);
    let mut copied = 0;
    while copied < length {
        let left = length - copied;
        let (at, to_at) = (Some(&mut offset), Some(&mut to_offset));
        match rustix::fs::copy_file_range(from.0, at, to.0, to_at, left)? {
            0 => break,
            count => copied += count,
        }
    }
    Ok(copied)
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| b'a' + (at % 23) as u8).collect()
}

#[test]
fn whole_files_and_ranges() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        // More than one call copies.
        let original = bytes(20_000_000);
        let path = mount.artifact("c7", "a.txt", &original);
        let from = File::open(&path).unwrap();
        let copied = path.with_file_name("b.txt");
        let to = File::create(&copied).unwrap();
        assert_eq!(copy((&from, 0), (&to, 0), usize::MAX >> 1), Ok(original.len()));
        assert_eq!(fs::read(&copied).unwrap(), original, "{mode:?}");
        assert_eq!(fs::read(mount.store().plain("c7", "b.txt")).unwrap(), original);

        assert_eq!(copy((&from, 19_999_990), (&to, 5), 100), Ok(10));
        let mut expected = original.clone();
        expected[5..15].copy_from_slice(&original[19_999_990..]);
        assert_eq!(fs::read(&copied).unwrap(), expected, "{mode:?}");
        drop(to);
        let size = format!("\"size\": {}", original.len());
        let meta = fs::read_to_string(path.with_file_name("b.txt.meta.json")).unwrap();
        assert!(meta.contains(&size), "{meta}");
    }
}

#[test]
fn of_a_view() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "a.txt", b"one\ntwo\nthree\n");
        let script = "cp a.txt.grep/t b.txt && cmp a.txt.grep/t b.txt && cat b.txt.tail";
        let said = Command::shell(script, &[]).current_dir(path.parent().unwrap()).text();
        assert_eq!(said, "2:two\n3:three\n", "{mode:?}");
    }
}

#[test]
fn a_cap_holds() {
    for mode in Mode::ALL {
        let cap = ["--max-artifact", "3000000"];
        let mount = TestMount::of(&Arc::new(TestStore::new()), mode, &cap);
        let original = bytes(2_500_000);
        let path = mount.artifact("c7", "a.txt", &original);
        let from = File::open(&path).unwrap();
        let copied = path.with_file_name("b.txt");
        let to = File::create(&copied).unwrap();
        assert_eq!(copy((&from, 0), (&to, 0), original.len()), Ok(original.len()));
        assert_eq!(copy((&from, 0), (&to, 2_500_000), original.len()), Err(Errno::FBIG));
        drop(to);
        assert!(fs::metadata(&copied).unwrap().len() <= 3_000_000, "{mode:?}");
        let summary = fs::read_to_string(path.with_file_name("b.txt.summary")).unwrap();
        assert!(summary.starts_with("[ctxfs] INCOMPLETE"), "{summary}");
    }
}

#[test]
fn what_is_not_offered_is_refused_without_a_word_in_the_log() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "a.txt", b"one\n");
        let script = r#"
import os, select, sys
a = os.open(sys.argv[1], os.O_RDONLY)
b = os.open(sys.argv[1] + ".copy", os.O_CREAT | os.O_WRONLY)
poll = select.poll()
poll.register(a)
assert poll.poll(1000)[0][1] & select.POLLIN
assert os.copy_file_range(a, b, 4) == 4
"#;
        Command::python(script, &[&path]).text();
        let said = mount.said();
        // A busy machine is no fault.
        let warned = said.lines().any(|line| line.contains("WARN") && !line.contains("slow"));
        assert!(!said.contains("Not Implemented") && !warned, "{said}");
    }
}
