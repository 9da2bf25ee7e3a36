//! Directories inside each other, far deeper than any tool needs them.

use std::fs;
use std::path::Path;

use crate::support::{Command, Mode, TestMount};

/// As deep as a server that recursed would not survive.
const DEEP: usize = 20_000;

/// Creates directories inside each other in `path` until that fails, or `DEEP` of them. Prints
/// their number, and the error.
fn nest(path: &Path) -> String {
    let nest = format!(
        "import os, sys\n\
         os.chdir(sys.argv[1])\n\
         for n in range({DEEP}):\n\
         \x20   try: os.mkdir('d')\n\
         \x20   except OSError as error: sys.exit(print(n, error.errno))\n\
         \x20   os.chdir('d')\n\
         print(n + 1)"
    );
    Command::python(&nest, &[path]).limit(150).text()
}

#[test]
fn a_client_nests_as_deep_as_it_may() {
    let mount = TestMount::new(Mode::Cached);
    let tool = mount.tool("c7");
    assert_eq!(nest(&tool), format!("254 {}\n", libc::ENAMETOOLONG));
    let archive = mount.path().join("c7/history/archive");
    assert_eq!(nest(&archive), format!("254 {}\n", libc::ENAMETOOLONG));
    let found = Command::new("find").arg(mount.path()).args(["-name", "d"]).text();
    assert_eq!(found.lines().count(), 2 * 254);
    Command::new("rm").arg("-r").args([tool.join("d"), archive.join("d")]).stdout();
    assert_eq!(fs::read_dir(&tool).unwrap().count(), 0);
}

#[test]
fn what_is_deeper_in_the_store_harms_nobody() {
    let mount = TestMount::new(Mode::Cached);
    let path = mount.artifact("c7", "x.txt", b"text\n");
    let stored = mount.store().plain("c7", "d");
    fs::create_dir(&stored).unwrap();
    assert_eq!(nest(&stored), format!("{DEEP}\n"));
    let found = Command::new("find").arg(mount.path()).args(["-name", "d"]).run();
    assert!(found.to_string().contains("File name too long"), "{found}");
    assert_eq!(found.stdout.split(|byte| *byte == b'\n').count(), 254 + 1 + 1, "{found}");
    let refused =
        fs::rename(path.with_file_name("d"), mount.path().join("c7/artifacts/terminal/d"));
    assert!(refused.is_ok(), "it is no deeper there");
    let deeper = mount.path().join("c7/history/archive/d");
    let refused = fs::rename(mount.path().join("c7/artifacts/terminal/d"), &deeper);
    assert!(refused.is_ok(), "nor there");
    fs::create_dir(path.with_file_name("in")).unwrap();
    let refused = fs::rename(&deeper, path.with_file_name("in").join("d")).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::ENAMETOOLONG));
    fs::remove_dir(path.with_file_name("in")).unwrap();
    let tail = path.with_file_name("x.txt.tail");
    assert_eq!(fs::read(tail).unwrap(), b"text\n");
    let search = mount.path().join("c7/.grep/text");
    assert!(fs::read_to_string(search).unwrap().contains("x.txt"));
    // The standard library cannot remove it with the test's other files.
    let stored = mount.store().path().join("context/c7/history/archive/d");
    Command::new("rm").arg("-r").arg(stored).limit(150).stdout();
}
