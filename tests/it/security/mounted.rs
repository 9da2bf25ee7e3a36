//! The flags of a mount.

use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, FileType, Mode as Bits};

use crate::support::{Command, Mode, TestMount, TestStore};

/// Returns the options of the mount at `dir`, as the kernel has them.
fn options(dir: &Path) -> Vec<String> {
    options_in(&fs::read_to_string("/proc/self/mountinfo").unwrap(), dir)
}

/// As [`options`], from a given mount table.
pub(super) fn options_in(table: &str, dir: &Path) -> Vec<String> {
    let dir = dir.to_str().unwrap();
    let line = table.lines().find(|line| line.split(' ').nth(4) == Some(dir)).unwrap();
    line.split(' ').nth(5).unwrap().split(',').map(str::to_owned).collect()
}

fn has(dir: &Path, option: &str) -> bool {
    options(dir).iter().any(|found| found == option)
}

#[test]
fn setuid_bits_and_devices_never_count() {
    let mount = TestMount::new(Mode::Passthrough);
    assert!(has(mount.path(), "nosuid") && has(mount.path(), "nodev"));
    mount.artifact("c7", "x.txt", b"text\n");
    // In the store, where anybody who may write there can plant it.
    let zero = mount.store().plain("c7", "zero");
    rustix::fs::mknodat(CWD, &zero, FileType::CharacterDevice, Bits::from(0o666), 0x105).unwrap();
    assert!(fs::read(mount.tool("c7").join("zero")).is_err());
}

#[test]
fn a_setuid_program_runs_as_who_runs_it() {
    let store = Arc::new(TestStore::new());
    for dir in [store.path().parent().unwrap(), &store.path()] {
        fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
    }
    let mount = TestMount::of(&store, Mode::Passthrough, &["--allow-other"]);
    let id = mount.tool("c7").join("id");
    fs::copy("/usr/bin/id", &id).unwrap();
    let open = "chmod 755 $1/c7 $1/c7/artifacts $1/c7/artifacts/tool; chmod 4755 $2; stat -c %a $2";
    let mode = Command::shell(open, &[mount.path(), &id]).text();
    assert_eq!(mode, "4755\n", "the bit is kept");
    let found = Command::new("setpriv")
        .args(["--reuid", "12345", "--regid", "12345", "--clear-groups"])
        .arg(&id)
        .arg("-u")
        .text();
    assert_eq!(found, "12345\n", "and counts for nothing");
}

#[test]
fn programs_do_not_run_where_they_must_not() {
    let asked = [(&["--noexec"][..], false), (&[][..], true)];
    for (mode, (options, runs)) in
        Mode::ALL.iter().flat_map(|mode| asked.map(|asked| (mode, asked)))
    {
        let mount = TestMount::of(&Arc::new(TestStore::new()), *mode, options);
        assert_eq!(has(mount.path(), "noexec"), !runs);
        let program = mount.tool("c7").join("true");
        fs::copy("/bin/true", &program).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        let ran = std::process::Command::new(&program).status();
        let denied = ran.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EACCES));
        assert_eq!((ran.is_ok(), denied), (runs, !runs));
    }
}
