//! The cost of an operation on one artifact does not depend on the number of artifacts.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use ctxfs_core::materialize::Analyzer;
use ctxfs_core::model::{Component, Folder, Record, RelPath};
use ctxfs_store::{Conversation, Store, stat_file};
use rustix::process::Signal;

use crate::support::{Command, Mode, TestMount, TestStore, eventually, signal};

/// A small and a large number of artifacts.
const COUNTS: [usize; 2] = [20, 2000];
/// The system calls with which a server reads and changes its store.
const CALLS: &str =
    "statx,fstat,openat,openat2,pread64,pwrite64,write,lseek,getdents64,unlinkat,renameat2";
/// Repetitions of each operation.
const TIMES: usize = 5;

#[test]
fn an_operation_on_one_of_many_artifacts_takes_as_many_calls_as_on_one_of_few() {
    for mode in Mode::ALL {
        let [few, many] = COUNTS.map(|count| calls(mode, count));
        let (of_few, of_many): (usize, usize) = (few.values().sum(), many.values().sum());
        assert!(of_few > 20 * TIMES, "hardly anything was counted: {few:?}");
        // How far the sealing thread gets between two writes is a matter of chance.
        assert!(of_many < 2 * of_few, "{mode:?}: {few:?}, but {many:?}");
    }
}

/// Returns the system calls of a server that finds, creates, renames and removes one of `count`
/// artifacts.
fn calls(mode: Mode, count: usize) -> BTreeMap<String, usize> {
    let store = Arc::new(TestStore::new());
    fill(&store.path(), count);
    // A sweep looks at all outputs.
    let settings = "[hooks]\nkeep_age = \"off\"\nkeep_store = \"off\"\n";
    fs::write(store.path().join("ctxfs.toml"), settings).unwrap();
    let mount = TestMount::of(&store, mode, &[]);
    let dir = mount.tool("c");
    // The first look at a conversation reads its manifest.
    fs::read(dir.join("0.txt.summary")).unwrap();
    let trace = store.scratch("trace").join("calls");
    let mut tracer = Command::new("strace")
        .args(["-f", "-c", "-q", "-e", &format!("trace={CALLS}"), "-o"])
        .arg(&trace)
        .args(["-p", &mount.pid().to_string()])
        .with(|inner| {
            inner.stdin(Stdio::null());
        })
        .spawn();
    eventually("all threads are traced", || is_traced(mount.pid()));
    for number in 0..TIMES {
        work(&dir, &store, number);
    }
    signal(tracer.id(), Signal::INT);
    tracer.wait().unwrap();
    parsed(&fs::read_to_string(trace).unwrap())
}

fn work(dir: &Path, store: &TestStore, number: usize) {
    let old = dir.join(format!("{number}.txt"));
    for view in ["", ".summary", ".tail", ".grep/output", ".lines/1-1"] {
        assert!(!fs::read(format!("{}{view}", old.display())).unwrap().is_empty());
    }
    let (new, renamed) = (dir.join(format!("new-{number}.txt")), dir.join("renamed.txt"));
    fs::write(&new, "one\n").unwrap();
    fs::read(format!("{}.summary", new.display())).unwrap();
    fs::File::options().append(true).open(&new).unwrap().write_all(b"two\n").unwrap();
    sealed(store, &new);
    fs::rename(&new, &renamed).unwrap();
    assert_eq!(fs::metadata(&renamed).unwrap().len(), 8);
    fs::remove_file(&renamed).unwrap();
    fs::metadata(&new).unwrap_err();
}

/// Waits until the last record of a file is that of its second generation, sealed.
fn sealed(store: &TestStore, path: &Path) {
    let manifest = store.path().join("context/c/manifest.jsonl");
    let path = format!("\"artifacts/tool/{}\"", path.file_name().unwrap().display());
    let is_sealed = |line: &str| line.contains("\"sealed\"") && line.contains("\"size\":8");
    eventually("it is sealed", || {
        let manifest = fs::read_to_string(&manifest).unwrap();
        manifest.lines().rfind(|line| line.contains(&path)).is_some_and(is_sealed)
    });
}

/// Creates a conversation of so many sealed artifacts.
fn fill(path: &Path, count: usize) {
    let store = Store::open(path).unwrap();
    let conversation = store.create_conversation(&Component::new("c").unwrap()).unwrap();
    let records: Vec<_> = (0..count).map(|number| leave(&path.join("context/c"), number)).collect();
    conversation.manifest().append(&records).unwrap();
}

fn leave(dir: &Path, number: usize) -> Record {
    let name = Component::new(format!("{number}.txt")).unwrap();
    let path = RelPath::artifact(Folder::Tool, &name);
    let text = format!("output {number}\n");
    fs::write(dir.join(path.as_os_str()), &text).unwrap();
    let stat = stat_file(fs::File::open(dir.join(path.as_os_str())).unwrap()).unwrap();
    let mut analyzer = Analyzer::new();
    analyzer.push(text.as_bytes());
    Record { analysis: Some(analyzer.finish()), ..Conversation::fresh_record(&path, &stat) }
}

fn is_traced(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks.flatten().all(|task| {
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        !status.contains("TracerPid:\t0\n")
    })
}

/// Returns the calls of each kind, from the table that `strace -c` prints.
fn parsed(table: &str) -> BTreeMap<String, usize> {
    let rows = table.lines().filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let (name, count) = (words.last()?, words.get(3)?.parse().ok()?);
        (*name != "total").then(|| ((*name).to_owned(), count))
    });
    rows.collect()
}
