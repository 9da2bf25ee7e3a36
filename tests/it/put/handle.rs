//! Handles: the reference in `X.handle` leads to the output, and to nothing else.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::{Mode, TestMount, TestStore, listing, log};

/// Returns the handle in the text of a stand-in.
fn handle_in(text: &[u8]) -> String {
    let text = String::from_utf8(text.to_vec()).unwrap();
    let (_, rest) = text.split_once("handle = \"").unwrap();
    rest.split_once("\", extract").unwrap().0.to_owned()
}

#[test]
fn one_that_ctxfs_names_is_two_uuids() {
    let store = TestStore::new();
    let output = log(5000);
    let text = store.ctxfs("put", &["--format", "handle"]).stdin(output.clone()).stdout();
    let handle = handle_in(&text);
    let (session, file) = handle.strip_prefix("session-").unwrap().split_once('/').unwrap();
    for id in [session, file] {
        assert!(id.len() == 36 && id.matches('-').count() == 4, "{handle}");
    }
    assert_eq!(store.view(&handle), output);
    assert_eq!(listing(&store.path().join("context")), [format!("session-{session}")]);
    // The bare id opens it as any other call's does.
    let path = format!("session-{session}/artifacts/tool/{file}");
    assert_eq!(store.view(&path), output);
}

#[test]
fn one_that_others_name_is_a_path() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let output = log(5000);
        for name in ["9f3k.txt", "x", "a \"b\".log", "gr\u{fc}n.txt"] {
            let path = mount.artifact("c7", name, &output);
            let text = fs::read(path.with_file_name(format!("{name}.handle"))).unwrap();
            let handle = handle_in(&text).replace("\\\"", "\"");
            assert_eq!(handle, format!("c7/{name}"));
            assert_eq!(mount.store().view(&handle), output, "{handle}");
        }
        let log_file = mount.path().join("c7/artifacts/terminal/s1.log");
        fs::write(&log_file, &output).unwrap();
        let handle = handle_in(&fs::read(log_file.with_extension("log.handle")).unwrap());
        assert_eq!(handle, "c7/artifacts/terminal/s1.log");
        assert_eq!(mount.store().view(&handle), output);
    }
}

#[test]
fn a_reference_is_read_the_moment_it_is_handed_out() {
    let store = TestStore::new();
    let name = store.put("c7", "9f3k", b"one\ntwo\n");
    let reference = format!("ctx://c7/artifacts/tool/{name}");
    assert_eq!(store.view(&reference), b"one\ntwo\n");
    assert_eq!(store.view(&format!("{reference}.lines/2-2")), b"two\n");
}

#[test]
fn no_handle_leads_out_of_the_store() {
    let store = TestStore::new();
    store.put("c7", "9f3k", b"text\n");
    let outside = store.scratch("outside");
    fs::write(outside.join("secret.txt"), "secret").unwrap();
    symlink(outside.join("secret.txt"), store.plain("c7", "link.txt")).unwrap();
    symlink(&outside, store.plain("c7", "out")).unwrap();
    symlink(&outside, store.path().join("context/linked")).unwrap();
    let outside = outside.join("secret.txt").display().to_string();
    for handle in [
        outside.as_str(),
        "c7/link.txt",
        "c7/link",
        "c7/out/secret.txt",
        "c7/artifacts/tool/out/secret.txt",
        "linked/secret.txt",
        "../outside-0/secret.txt",
        "c7/../../../outside-0/secret.txt",
        "ctx://c7/../../../outside-0/secret.txt",
        "ctx://../outside-0/secret.txt",
        "c7/manifest.jsonl",
        "ctx://c7/manifest.jsonl",
        "c7/artifacts/../manifest.jsonl",
        "/etc/passwd",
        "/x/artifacts/../../../etc/passwd",
        "VERSION",
        "../VERSION",
        "session-00000000-0000-0000-0000-000000000000/x",
    ] {
        let output = store.ctxfs("view", &[handle]).run();
        assert!(output.code == 1 && output.stdout.is_empty(), "{handle}: {output}");
        assert!(!output.stderr.is_empty(), "{handle}: {output}");
    }
}
