//! What writers in a mount do with the name of an output while `ctxfs put` receives it.

use std::fs;
use std::fs::File;
use std::io::Write as _;
use std::process::{Child, Stdio};

use crate::support::{Mode, TestMount, eventually, listing};

/// Begins to put a JSON array, and waits until its file is there.
fn begin(mount: &TestMount) -> Child {
    let before = listing(&mount.store().plain("c7", "")).len();
    let arguments = ["--conversation", "c7", "--call", "x", "--format", "ref"];
    let put = mount.store().ctxfs("put", &arguments).with(|inner| {
        inner.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    });
    let mut put = put.spawn();
    put.stdin.as_mut().unwrap().write_all(b"[1,").unwrap();
    let begun = || listing(&mount.store().plain("c7", "")).len() > before;
    eventually("it has begun", begun);
    put
}

/// Ends the array. Returns what was printed, and the error if there was one.
fn end(mut put: Child) -> (String, Option<String>) {
    put.stdin.take().unwrap().write_all(b"2]").unwrap();
    let told = put.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(told.stdout), (!told.status.success()).then(|| text(told.stderr)))
}

#[test]
fn a_file_that_a_writer_creates_meanwhile_stays() {
    let mount = TestMount::new(Mode::Passthrough);
    let dir = mount.tool("c7");
    let put = begin(&mount);
    let mut file = File::create_new(dir.join("x.json")).unwrap();
    file.write_all(b"one\n").unwrap();
    let (printed, error) = end(put);
    assert!(error.is_none() && printed.contains("artifacts/tool/x.txt"), "{printed} {error:?}");
    file.write_all(b"two\n").unwrap();
    drop(file);
    assert_eq!(fs::read(dir.join("x.json")).unwrap(), b"one\ntwo\n");
    assert_eq!(fs::read(dir.join("x.txt")).unwrap(), b"[1,2]");
}

#[test]
fn an_output_that_a_writer_has_open_stays() {
    let mount = TestMount::new(Mode::Passthrough);
    let path = mount.tool("c7").join("x.json");
    mount.store().put("c7", "x", b"[0]");
    let put = begin(&mount);
    let mut file = File::options().append(true).open(&path).unwrap();
    let (printed, error) = end(put);
    assert!(error.is_none() && printed.contains("artifacts/tool/x-2.json"), "{printed} {error:?}");
    file.write_all(b"\n").unwrap();
    drop(file);
    assert_eq!(fs::read(&path).unwrap(), b"[0]\n");
    assert_eq!(fs::read(path.with_file_name("x-2.json")).unwrap(), b"[1,2]");
}
