//! Modes, times and extended attributes, before and after sealing.

use std::fs;
use std::fs::File;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::time::{Duration, SystemTime};

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::support::{Command, Mode, TestMount, disk_clock_moves_on, need};

#[test]
fn modes() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", b"text\n");
        for bits in [0o600, 0o644, 0o444, 0o640] {
            fs::set_permissions(&path, fs::Permissions::from_mode(bits)).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, bits, "{mode:?}");
        }
        assert_eq!(fs::read(&path).unwrap(), b"text\n");
    }
}

#[test]
fn times() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", b"text\n");
        let before = fs::read(path.with_file_name("x.txt.tail")).unwrap();
        let then = SystemTime::UNIX_EPOCH + Duration::new(1_600_000_000, 123_000_000);
        let file = File::options().write(true).open(&path).unwrap();
        file.set_times(fs::FileTimes::new().set_accessed(then).set_modified(then)).unwrap();
        drop(file);
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), then, "{mode:?}");
        let view = path.with_file_name("x.txt.tail");
        assert_eq!(fs::metadata(&view).unwrap().modified().unwrap(), then, "{mode:?}");
        assert_eq!(fs::read(&view).unwrap(), before);
    }
}

#[test]
fn a_write_moves_the_time_on() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", b"text\n");
        let view = path.with_file_name("x.txt.summary");
        let first = fs::metadata(&view).unwrap().modified().unwrap();
        disk_clock_moves_on();
        fs::write(&path, b"other\n").unwrap();
        assert!(fs::metadata(&view).unwrap().modified().unwrap() > first, "{mode:?}");
    }
}

#[test]
fn what_the_writer_says_reaches_the_views() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", b"text\n");
        let said = [
            ("user.ctx.tool", "exec"),
            ("user.ctx.server", "shell"),
            ("user.ctx.args", r#"{"cmd":"make test"}"#),
            ("user.ctx.exit_code", "3"),
            ("user.ctx.mime", "text/x-log"),
        ];
        for (name, value) in said {
            rustix::fs::setxattr(&path, name, value.as_bytes(), XattrFlags::empty()).unwrap();
            let mut buffer = [0; 64];
            let length = rustix::fs::getxattr(&path, name, &mut buffer[..]).unwrap();
            assert_eq!(&buffer[..length], value.as_bytes(), "{mode:?} {name}");
        }
        let mut buffer = [0; 1000];
        let length = rustix::fs::listxattr(&path, &mut buffer[..]).unwrap();
        let names: Vec<&[u8]> = buffer[..length].split(|byte| *byte == 0).collect();
        for (name, _) in said {
            assert!(names.contains(&name.as_bytes()), "{mode:?} {name}");
        }
        let summary = fs::read_to_string(path.with_file_name("x.txt.summary")).unwrap();
        assert!(summary.contains("shell/exec") && summary.contains("exit code 3"), "{summary}");
        let reference = fs::read_to_string(path.with_file_name("x.txt.ref.json")).unwrap();
        assert!(reference.contains("text/x-log"), "{reference}");
    }
}

#[test]
fn said_before_the_end() {
    let mount = TestMount::new(Mode::Passthrough);
    let path = mount.tool("c7").join("x.txt");
    let file = File::create(&path).unwrap();
    rustix::fs::fsetxattr(&file, "user.ctx.exit_code", b"7", XattrFlags::empty()).unwrap();
    drop(file);
    let summary = fs::read_to_string(path.with_file_name("x.txt.summary")).unwrap();
    assert!(summary.contains("exit code 7"), "{summary}");
}

#[test]
fn attributes_that_cannot_be() {
    let mount = TestMount::new(Mode::Passthrough);
    let path = mount.artifact("c7", "x.txt", b"text\n");
    let set =
        |name: &str, value: &[u8]| rustix::fs::setxattr(&path, name, value, XattrFlags::empty());
    assert_eq!(set("user.ctx.exit_code", b"many"), Err(Errno::INVAL));
    let mut buffer = [0; 10];
    let missing = rustix::fs::getxattr(&path, "user.ctx.tool", &mut buffer[..]);
    assert_eq!(missing.unwrap_err(), Errno::NODATA);
}

#[test]
fn owner_and_link_count() {
    let mount = TestMount::new(Mode::Passthrough);
    let path = mount.artifact("c7", "x.txt", b"text\n");
    let attributes = fs::metadata(&path).unwrap();
    assert_eq!(attributes.uid(), rustix::process::geteuid().as_raw());
    assert_eq!(attributes.nlink(), 1);
    assert!(attributes.blocks() > 0);
}

#[test]
fn free_space_is_the_stores() {
    let mount = TestMount::new(Mode::Passthrough);
    let here = rustix::fs::statvfs(mount.path()).unwrap();
    let store = rustix::fs::statvfs(mount.store().path()).unwrap();
    assert_eq!(here.f_blocks * here.f_frsize, store.f_blocks * store.f_frsize);
    assert_eq!(here.f_namemax, 255);
}

#[test]
fn the_tools_of_attributes() {
    need("setfattr", "attr");
    let mount = TestMount::new(Mode::Passthrough);
    let path = mount.artifact("c7", "x.txt", b"text\n");
    let script =
        r#"setfattr -n user.ctx.tool -v exec "$1"; getfattr --only-values -n user.ctx.tool "$1""#;
    assert_eq!(Command::shell(script, &[&path]).text(), "exec");
}
