//! `--write-once`: the content of a sealed artifact cannot change.

use std::fs;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Mode, TestMount, TestStore, errno, eventually, truncate_errno};

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

fn mount(mode: Mode) -> TestMount {
    TestMount::of(&Arc::new(TestStore::new()), mode, &["--write-once"])
}

fn exchange(one: &Path, two: &Path) -> Errno {
    let exchanged = rustix::fs::renameat_with(CWD, one, CWD, two, RenameFlags::EXCHANGE);
    exchanged.expect_err("they were exchanged")
}

/// No name makes a sealed artifact anything else, and none that it has gets other content.
#[test]
fn a_sealed_artifact_is_one_by_every_name() {
    for mode in Mode::ALL {
        let mut mount = mount(mode);
        let path = mount.artifact("c7", "x.txt", b"one\n");
        let (c7, c8) = (mount.path().join("c7"), mount.path().join("c8"));
        let other = mount.artifact("c8", "y.txt", b"other\n");
        let tool = c7.join("artifacts/tool");
        fs::create_dir(tool.join("d")).unwrap();
        fs::write(tool.join("d/deep.txt"), b"deep\n").unwrap();
        for away in [
            tool.join(".x"),
            tool.join("x.tmp"),
            tool.join("x~"),
            c7.join("x.txt"),
            c7.join("history/x.txt"),
            c7.join("catalog/tools/x.txt"),
            c8.join("history/archive/x.txt"),
        ] {
            assert_eq!(errno(fs::rename(&path, &away)), Errno::PERM, "{mode:?} {}", away.display());
        }
        for away in [c7.join("d"), c7.join("history/d"), c8.join("catalog/d")] {
            assert_eq!(errno(fs::rename(tool.join("d"), &away)), Errno::PERM, "{mode:?}");
        }
        assert_eq!(errno(fs::rename(&tool, c7.join("t"))), Errno::PERM, "{mode:?}");
        assert_eq!(errno(fs::rename(c7.join("artifacts"), c7.join("a"))), Errno::PERM, "{mode:?}");
        let scratch = tool.join(".y.tmp");
        fs::write(&scratch, b"forged\n").unwrap();
        let mut live = File::create(tool.join("live.txt")).unwrap();
        fs::create_dir(tool.join("empty")).unwrap();
        for (one, two) in [
            (&path, &scratch),
            (&scratch, &path),
            (&path, &tool.join("live.txt")),
            (&tool.join("live.txt"), &path),
            (&path, &other),
            (&tool.join("d"), &tool.join("empty")),
            (&tool.join("empty"), &tool.join("d")),
        ] {
            assert_eq!(exchange(one, two), Errno::PERM, "{mode:?} {}", one.display());
        }
        // Other names of artifacts are free, and what is not sealed has any name.
        live.write_all(b"live\n").unwrap();
        fs::rename(tool.join("live.txt"), tool.join(".live")).unwrap();
        let (second, third) = (c8.join("artifacts/tool/second.txt"), tool.join("third.txt"));
        fs::rename(&path, &second).unwrap();
        assert_eq!(errno(File::options().write(true).open(&second)), Errno::PERM, "{mode:?}");
        fs::rename(&second, &third).unwrap();
        fs::rename(tool.join("d"), tool.join("e")).unwrap();
        assert_eq!(errno(File::create(tool.join("e/deep.txt"))), Errno::PERM, "{mode:?}");
        drop(live);
        assert_eq!(mount.end(Signal::TERM), Some(0));
        let again = TestMount::of(mount.store(), mode, &["--write-once"]);
        let third = again.path().join("c7/artifacts/tool/third.txt");
        assert_eq!(errno(File::options().append(true).open(&third)), Errno::PERM, "{mode:?}");
        assert_eq!(truncate_errno(&third), Errno::PERM, "{mode:?}");
        assert_eq!(fs::read(&third).unwrap(), b"one\n", "{mode:?}");
    }
}

/// Returns what `ctxfs ls` tells of removed and renamed artifacts: path, rule and digest.
fn traces(mount: &TestMount) -> Vec<(String, String, String)> {
    let listed = mount.store().ctxfs("ls", &["--json", "c7"]).text();
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    let mut traces: Vec<_> = listed
        .iter()
        .filter(|row| row["rule"].is_string())
        .map(|row| (text(row, "path"), text(row, "rule"), text(row, "digest")))
        .collect();
    traces.sort();
    traces
}

#[test]
fn what_is_removed_or_renamed_leaves_a_trace_that_stays() {
    for mode in Mode::ALL {
        let mount = mount(mode);
        let digest = |bytes: &[u8]| blake3::hash(bytes).to_string();
        let path = mount.artifact("c7", "x.txt", b"one\n");
        fs::remove_file(&path).unwrap();
        let renamed = mount.artifact("c7", "y.txt", b"two\n");
        fs::rename(&renamed, path.with_file_name("z.txt")).unwrap();
        let trace = |name: &str, rule: &str, bytes| {
            (format!("artifacts/tool/{name}"), rule.to_owned(), digest(bytes))
        };
        let want = [trace("x.txt", "unlink", b"one\n"), trace("y.txt", "rename", b"two\n")];
        assert_eq!(traces(&mount), want, "{mode:?}");
        let summary = |name: &str| fs::read_to_string(path.with_file_name(name)).unwrap();
        let removed = summary("x.txt.summary");
        assert!(removed.contains("REMOVED") && removed.contains(&digest(b"one\n")), "{removed}");
        let other = summary("y.txt.summary");
        assert!(other.contains("RENAMED") && other.contains("tool/z.txt now"), "{other}");
        // Nothing takes a trace away: neither its summary, nor another artifact of the name, nor
        // the end of its conversation.
        let no_more = fs::remove_file(path.with_file_name("x.txt.summary"));
        assert_eq!(errno(no_more), Errno::PERM, "{mode:?}");
        fs::write(&path, b"three\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three\n", "{mode:?}");
        assert_eq!(traces(&mount), want, "{mode:?}");
        let c7 = mount.path().join("c7");
        assert_eq!(errno(fs::remove_dir_all(&c7)), Errno::PERM, "{mode:?}");
        let new = mount.path().join("new");
        fs::create_dir(&new).unwrap();
        assert_eq!(errno(fs::rename(&new, &c7)), Errno::PERM, "{mode:?}");
        let all = traces(&mount);
        for one in [&want[0], &want[1], &trace("x.txt", "unlink", b"three\n")] {
            assert!(all.contains(one), "{mode:?} {all:?}");
        }
        assert_eq!(all.len(), 4, "{mode:?} {all:?}");
        fs::remove_dir(&new).unwrap();
    }
}

#[test]
fn without_the_option_nothing_leaves_a_trace() {
    let mount = TestMount::new(Mode::Cached);
    let path = mount.artifact("c7", "x.txt", b"one\n");
    fs::rename(&path, path.with_file_name("y.txt")).unwrap();
    fs::remove_file(path.with_file_name("y.txt")).unwrap();
    assert!(traces(&mount).is_empty());
    fs::remove_dir_all(mount.path().join("c7")).unwrap();
}

/// A command that works on the store keeps what a write-once mount has sealed, and with the setting
/// whatever is complete.
#[test]
fn commands_do_not_replace_anything() {
    let mount = mount(Mode::Cached);
    let store = mount.store();
    let path = mount.artifact("c7", "x.txt", b"one\n");
    let sealed = || fs::read_to_string(store.path().join("context/c7/manifest.jsonl"));
    eventually("it is sealed", || sealed().is_ok_and(|lines| lines.contains("\"once\":true")));
    let put = |call: &str, setting: &str| {
        let put = store.ctxfs("put", &["-c", "c7", "--call", call]).stdin("other\n");
        put.env("CTXFS_WRITE_ONCE", setting).run()
    };
    for setting in ["false", "true"] {
        assert_eq!(put("x", setting).code, 0);
    }
    assert_eq!(fs::read(&path).unwrap(), b"one\n");
    assert_eq!(fs::read(path.with_file_name("x-2.txt")).unwrap(), b"other\n");
    for call in ["a", "b"] {
        assert_eq!(put(call, "true").code, 0);
        assert_eq!(put(call, "false").code, 0);
    }
    let names: Vec<_> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with("txt") || name.starts_with('.'))
        .collect();
    assert_eq!(names.len(), 4, "{names:?}");
}
