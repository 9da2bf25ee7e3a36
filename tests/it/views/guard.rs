//! Views cannot be written, replaced or hidden; removing one does nothing.

use std::fs;
use std::fs::File;

use rustix::io::Errno;

use crate::support::{Mode, TestMount, errno, listing, truncate_errno};

const VIEWS: &[&str] = &[
    "x.txt.summary",
    "x.txt.tail",
    "x.txt.head",
    "x.txt.errors",
    "x.txt.terms",
    "x.txt.meta.json",
    "x.txt.envelope.json",
    "x.txt.handle",
    "x.txt.preview",
    "x.txt.grep/text",
    "x.txt.lines/1-1",
    "x.txt.wrap",
    "x.txt.shape",
    "x.txt.jq/.a",
    "x.txt.pages/0001",
    "x.txt.pretty",
    "x.txt.pretty.tail",
    "x.txt.pretty.grep/text",
];

#[test]
fn no_way_to_write_one() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", &b"text\n".repeat(2000));
        let dir = path.parent().unwrap();
        for view in VIEWS {
            let view = &dir.join(view);
            let before = fs::read(view).unwrap();
            let told = format!("{mode:?} {}", view.display());
            assert_eq!(errno(File::options().write(true).open(view)), Errno::PERM, "{told}");
            assert_eq!(errno(File::options().append(true).open(view)), Errno::PERM, "{told}");
            assert_eq!(errno(File::create(view)), Errno::PERM, "{told}");
            assert_eq!(errno(File::create_new(view)), Errno::EXIST, "{told}");
            assert_eq!(truncate_errno(view), Errno::PERM, "{told}");
            let other = dir.join(".other.tmp");
            fs::write(&other, b"other").unwrap();
            assert_eq!(errno(fs::rename(&other, view)), Errno::PERM, "{told}");
            assert_eq!(fs::read(&other).unwrap(), b"other", "{told}");
            fs::remove_file(&other).unwrap();
            assert_eq!(errno(fs::rename(view, dir.join("y.txt"))), Errno::PERM, "{told}");
            assert_eq!(errno(fs::create_dir(view)), Errno::EXIST, "{told}");
            assert_eq!(fs::read(view).unwrap(), before, "{told}");
        }
        assert_eq!(listing(dir).len(), 4, "{mode:?}");
    }
}

#[test]
fn removing_one_does_nothing() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", b"text\n");
        for view in VIEWS {
            let view = path.with_file_name(view);
            let before = fs::read(&view).unwrap();
            fs::remove_file(&view).unwrap();
            assert_eq!(fs::read(&view).unwrap(), before, "{mode:?} {}", view.display());
        }
        fs::remove_dir(path.with_file_name("x.txt.grep")).unwrap();
        let tail = path.with_file_name("x.txt.tail");
        // A thread that makes room for a file of its own would try for ever.
        drop(fs::remove_file(&tail));
        assert_eq!(errno(fs::remove_file(&tail)), Errno::PERM);
        assert_eq!(fs::read(path.with_file_name("x.txt.grep/text")).unwrap(), b"1:text\n");
        assert_eq!(fs::read(&path).unwrap(), b"text\n");
    }
}

#[test]
fn a_view_name_cannot_be_made_while_its_file_is_there() {
    let mount = TestMount::new(Mode::Passthrough);
    let dir = mount.tool("c7");
    let name = dir.join("y.txt.summary");
    fs::write(&name, b"an ordinary name\n").unwrap();
    assert_eq!(fs::read(&name).unwrap(), b"an ordinary name\n");
    // The real file hides the view of the same name.
    fs::write(dir.join("y.txt"), b"text\n").unwrap();
    assert_eq!(fs::read(&name).unwrap(), b"an ordinary name\n");
    assert_eq!(listing(&dir).iter().filter(|found| *found == "y.txt.summary").count(), 1);
    fs::remove_file(&name).unwrap();
    assert!(fs::read_to_string(&name).unwrap().contains("ctx://c7/artifacts/tool/y.txt"));
}

#[test]
fn a_folder_of_views_takes_no_files() {
    let mount = TestMount::new(Mode::Passthrough);
    let path = mount.artifact("c7", "x.txt", b"text\n");
    for folder in ["x.txt.grep", "x.txt.lines", "x.txt.jq", "x.txt.pages", "x.txt.pretty.grep"] {
        // Names that are no views there, so that only creating remains.
        let new = path.with_file_name(folder).join(".swp~");
        assert_eq!(errno(File::create(&new)), Errno::PERM, "{folder}");
        assert_eq!(errno(fs::create_dir(&new)), Errno::PERM, "{folder}");
        let other = path.with_file_name(".other.tmp");
        fs::write(&other, b"other").unwrap();
        assert_eq!(errno(fs::rename(&other, &new)), Errno::PERM, "{folder}");
    }
}
