//! Links, fifos and disks in the store, planted before or while it is used: nothing outside is
//! read, and nothing outside changes.

use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::{fs, io, thread};

use rustix::fs::{CWD, RenameFlags};
use rustix::mount::{MountFlags, UnmountFlags};

use crate::support::{Mode, TestMount, TestStore, listing};

const SECRET: &str = "the secret of somebody else";

/// A directory beside the store, of which nothing may be read or changed.
struct Outside(PathBuf);

impl Outside {
    fn new(store: &TestStore) -> Self {
        let dir = store.scratch("outside");
        for name in ["x.txt", "y.txt", "messages.jsonl", "manifest.jsonl", "VERSION"] {
            fs::write(dir.join(name), SECRET).unwrap();
        }
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        Self(dir)
    }

    fn state(&self) -> Vec<(String, u32, std::time::SystemTime, Vec<u8>)> {
        let mut names = listing(&self.0);
        names.sort();
        let of = |name: String| {
            let path = self.0.join(&name);
            let found = path.metadata().unwrap();
            let bytes = fs::read(&path).unwrap();
            (name, found.permissions().mode(), found.modified().unwrap(), bytes)
        };
        names.into_iter().map(of).collect()
    }
}

/// Returns the text of a file, or nothing if it cannot be read.
fn text(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// Makes every call that a name in a directory of outputs allows. Returns the text it has seen.
fn use_all(dir: &Path, name: &str) -> String {
    let path = dir.join(name);
    let mut seen = text(&path);
    for view in ["summary", "tail", "grep/secret", "meta.json", "pages/0001", "errors"] {
        seen += &text(&dir.join(format!("{name}.{view}")));
    }
    fs::write(&path, "own").ok();
    fs::File::options().append(true).open(&path).and_then(|mut file| file.write_all(b"own")).ok();
    fs::File::options().write(true).open(&path).and_then(|file| file.set_len(1)).ok();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).ok();
    fs::rename(&path, dir.join("z.txt")).ok();
    fs::rename(dir.join("z.txt"), &path).ok();
    seen += &text(&path);
    seen
}

#[test]
fn links_lead_nowhere() {
    for mode in Mode::ALL {
        let store = Arc::new(TestStore::new());
        for id in ["c7", "c8", "c9"] {
            store.put(id, "call", b"text\n");
        }
        let outside = Outside::new(&store);
        let before = outside.state();
        let context = store.path().join("context");
        let plant = |target: &Path, at: &str| {
            let at = context.join(at);
            fs::remove_file(&at).or_else(|_| fs::remove_dir_all(&at)).ok();
            symlink(target, &at).unwrap();
        };
        plant(&outside.0.join("x.txt"), "c7/artifacts/tool/x.txt");
        plant(&outside.0, "c8/artifacts/tool");
        plant(&outside.0.join("manifest.jsonl"), "c7/manifest.jsonl");
        plant(&outside.0, "c9/history");
        plant(&outside.0, "c10");
        symlink(&outside.0, store.path().join("cache")).unwrap();
        let mount = TestMount::of(&store, mode, &[]);
        let mut seen = String::new();
        for dir in
            ["c7/artifacts/tool", "c8/artifacts/tool", "c9/history", "c10", "c10/artifacts/tool"]
        {
            for name in ["x.txt", "y.txt", "messages.jsonl", "new.txt"] {
                seen += &use_all(&mount.path().join(dir), name);
            }
        }
        for path in ["c7/manifest.json", "c7/.grep/secret", "c8/.grep/secret", "c9/manifest.json"] {
            seen += &text(&mount.path().join(path));
        }
        drop(mount);
        let archive = store.scratch("archive").join("a");
        let archive = archive.to_str().unwrap();
        for (command, arguments) in [
            ("view", &["c7/artifacts/tool/x.txt"][..]),
            ("view", &["c8/artifacts/tool/x.txt.tail"]),
            ("ls", &["c7"]),
            ("log", &["c9"]),
            ("gc", &["--keep-age", "1s"]),
            ("export", &["c8", "--output", archive]),
            ("put", &["-c", "c8", "--call", "new"]),
            ("put", &["-c", "c10", "--call", "new"]),
            ("stats", &[]),
        ] {
            let output = store.ctxfs(command, arguments).stdin("own").run();
            assert_ne!(output.code, 2, "{command} is used as it should be: {output}");
            seen += &String::from_utf8_lossy(&output.stdout);
            seen += &String::from_utf8_lossy(&output.stderr);
        }
        assert!(!seen.contains(SECRET), "{mode:?}: {seen}");
        assert_eq!(outside.state(), before, "{mode:?}");
    }
}

/// Another thread turns a directory and a file into links and back, as fast as it can.
#[test]
fn a_race_of_links_leads_nowhere() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let dir = mount.tool("c7");
        mount.artifact("c7", "x.txt", b"own\n");
        let store = Arc::clone(mount.store());
        let outside = Outside::new(&store);
        let before = outside.state();
        let tool = store.plain("c7", "x.txt").parent().unwrap().to_owned();
        symlink(&outside.0, tool.with_file_name("link")).unwrap();
        symlink(outside.0.join("x.txt"), tool.join("link.txt")).unwrap();
        let inner =
            rustix::fs::open(&tool, rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty());
        let inner = inner.unwrap();
        let over = AtomicBool::new(false);
        let mut seen = String::new();
        thread::scope(|scope| {
            let turn = || {
                let (link, exchange) = (tool.with_file_name("link"), RenameFlags::EXCHANGE);
                while !over.load(Relaxed) {
                    rustix::fs::renameat_with(CWD, &tool, CWD, &link, exchange).unwrap();
                    // The file is renamed by others, too.
                    rustix::fs::renameat_with(&inner, "x.txt", &inner, "link.txt", exchange).ok();
                }
            };
            let turning = scope.spawn(turn);
            for round in 0..60 {
                seen += &use_all(&dir, "x.txt");
                seen += &use_all(&dir, &format!("new-{round}.txt"));
                seen += &text(&mount.path().join("c7/.grep/secret"));
            }
            over.store(true, Relaxed);
            turning.join().unwrap();
        });
        assert!(!seen.contains(SECRET), "{mode:?}: {seen}");
        assert!(seen.contains("own"), "{mode:?}: something was read");
        drop(mount);
        assert_eq!(outside.state(), before, "{mode:?}");
    }
}

/// Opening a fifo blocks, and would block a thread of the server.
#[test]
fn what_is_no_file_holds_nobody() {
    let mount = TestMount::new(Mode::Passthrough);
    let dir = mount.tool("c7");
    for number in 0..8 {
        let fifo = mount.store().plain("c7", &format!("fifo-{number}.txt"));
        rustix::fs::mkfifoat(CWD, fifo, rustix::fs::Mode::RWXU).unwrap();
    }
    for number in 0..8 {
        let error = fs::read(dir.join(format!("fifo-{number}.txt"))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
    mount.artifact("c7", "x.txt", b"text\n");
    assert_eq!(text(&dir.join("x.txt.tail")), "text\n");
    assert!(text(&mount.path().join("c7/.grep/text")).contains("x.txt"));
}

/// A user who may mount in the store may choose its disks: another disk is served like any
/// directory.
#[test]
fn a_disk_in_the_store_is_served() {
    struct Disk(PathBuf);
    impl Drop for Disk {
        fn drop(&mut self) {
            rustix::mount::unmount(&self.0, UnmountFlags::DETACH).unwrap();
        }
    }
    let store = Arc::new(TestStore::new());
    store.put("c7", "call", b"text\n");
    let tool = store.plain("c7", "x.txt").parent().unwrap().to_owned();
    rustix::mount::mount("ctxfs-test", &tool, "tmpfs", MountFlags::NODEV, None).unwrap();
    let disk = Disk(tool.clone());
    let mount = TestMount::of(&store, Mode::Passthrough, &[]);
    mount.artifact("c7", "x.txt", b"on the disk\n");
    assert_eq!(text(&mount.tool("c7").join("x.txt.tail")), "on the disk\n");
    assert_eq!(text(&tool.join("x.txt")), "on the disk\n");
    drop(mount);
    drop(disk);
    assert_eq!(listing(&tool), ["call.txt"]);
}
