//! `--write-once`: the content of a sealed artifact cannot change.

use std::fs;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use rustix::io::Errno;

use crate::support::Mode;
use crate::support::TestMount;
use crate::support::TestStore;
use crate::support::errno;
use crate::support::truncate_errno;

#[test]
fn sealed_content_cannot_change() {
    for mode in Mode::ALL {
        let mount = TestMount::of(&Arc::new(TestStore::new()), mode, &["--write-once"]);
        let dir = mount.tool("c7");
        let path = dir.join("x.txt");
        let mut writer = File::create(&path).unwrap();
        writer.write_all(b"one\n").unwrap();
        writer.write_all(b"two\n").unwrap();
        drop(writer);
        let refused = |told: &str, got: Errno| assert_eq!(got, Errno::PERM, "{mode:?} {told}");
        refused("write", errno(File::options().write(true).open(&path)));
        refused("append", errno(File::options().append(true).open(&path)));
        refused("both", errno(File::options().read(true).write(true).open(&path)));
        refused("create", errno(File::create(&path)));
        refused("truncate", truncate_errno(&path));
        let scratch = dir.join(".x.tmp");
        fs::write(&scratch, b"other\n").unwrap();
        refused("rename over", errno(fs::rename(&scratch, &path)));
        assert_eq!(fs::read(&path).unwrap(), b"one\ntwo\n", "{mode:?}");

        // Scratch stays scratch, and what is no content may change.
        fs::write(&scratch, b"again\n").unwrap();
        fs::rename(&scratch, dir.join("y.txt")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        fs::rename(&path, dir.join("z.txt")).unwrap();
        fs::remove_file(dir.join("z.txt")).unwrap();
    }
}

/// `close` returns before the kernel tells of the release: the answer must not depend on that.
#[test]
fn from_the_moment_of_close() {
    for mode in Mode::ALL {
        let mount = TestMount::of(&Arc::new(TestStore::new()), mode, &["--write-once"]);
        for number in 0..200 {
            let path = mount.artifact("c7", &format!("{number}.txt"), b"text\n");
            assert_eq!(errno(File::options().write(true).open(&path)), Errno::PERM, "{mode:?}");
        }
    }
}
