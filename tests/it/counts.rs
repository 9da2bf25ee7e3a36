//! Counts, on real mounts.

use std::fs;
use std::sync::Arc;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Mode, TestMount, TestStore};

fn stats(store: &TestStore, arguments: &[&str]) -> Value {
    let mut all = vec!["--json"];
    all.extend(arguments);
    serde_json::from_slice(&store.ctxfs("stats", &all).stdout()).unwrap()
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap()
}

#[test]
fn what_is_stored_and_read_is_counted() {
    for mode in Mode::ALL {
        let store = Arc::new(TestStore::new());
        let mut mount = TestMount::of(&store, mode, &[]);
        let text = "some words in a line\n".repeat(10_000);
        let path = mount.artifact("c", "a.txt", text.as_bytes());
        let view =
            |name: &str| fs::read(format!("{}.{name}", path.display())).unwrap().len() as i64;
        let handed = view("summary") + view("summary") + view("preview");
        let read = view("tail") + view("lines/5-10") + view("pretty.head") + view("grep/-c words");
        assert_eq!(mount.end(Signal::TERM), Some(0));
        let total = &stats(&store, &["c"])["total"];
        assert_eq!(number(&total["stored"]["bytes"]), text.len() as i64);
        let tokens = number(&total["stored"]["tokens"]);
        assert!((40_000..80_000).contains(&tokens), "{tokens}");
        assert_eq!(number(&total["handed"]["bytes"]), handed, "{mode:?}");
        assert_eq!(number(&total["read"]["bytes"]), read, "{mode:?}");
        assert_eq!(number(&total["savedBytes"]), text.len() as i64 - handed - read);
        assert_eq!(total["views"]["summary"], 2);
        assert_eq!((&total["views"]["grep"], &total["views"]["head"]), (&1.into(), &1.into()));
    }
}

#[test]
fn an_append_is_counted_once() {
    let store = Arc::new(TestStore::new());
    let mut mount = TestMount::of(&store, Mode::Passthrough, &[]);
    let path = mount.artifact("c", "log.txt", &[b'x'; 1000]);
    for _ in 0..5 {
        let mut log = fs::OpenOptions::new().append(true).open(&path).unwrap();
        std::io::Write::write_all(&mut log, &[b'y'; 100]).unwrap();
    }
    // Written under another name first, as editors do.
    let scratch = path.with_extension("txt.tmp");
    fs::write(&scratch, [b'z'; 500]).unwrap();
    fs::rename(&scratch, path.with_file_name("b.txt")).unwrap();
    mount.end(Signal::TERM);
    assert_eq!(number(&stats(&store, &[])["total"]["stored"]["bytes"]), 2000);
}

#[test]
fn an_output_in_a_message_is_counted_with_what_the_log_has_of_it() {
    let store = Arc::new(TestStore::new());
    let output = "word ".repeat(20_000);
    let message = serde_json::json!(
        { "role": "tool", "tool_call_id": "a", "toolName": "grep", "content": output }
    );
    // Told twice, it is stored once.
    for _ in 0..2 {
        let append = store.ctxfs("log", &["append", "c"]).stdin(format!("{message}\n"));
        assert_eq!(append.run().code, 0);
    }
    let total = &stats(&store, &["c"])["total"];
    assert_eq!(number(&total["stored"]["bytes"]), output.len() as i64);
    assert_eq!((number(&total["stored"]["times"]), number(&total["handed"]["times"])), (1, 2));
    assert!((1000..2000).contains(&number(&total["handed"]["bytes"])), "{total}");
}

#[test]
fn a_model_that_reads_it_all_saves_nothing() {
    let store = Arc::new(TestStore::new());
    let mut mount = TestMount::of(&store, Mode::Passthrough, &[]);
    let path = mount.artifact("c", "a.txt", "a line of text\n".repeat(2000).as_bytes());
    for page in ["0001", "0002", "0003", "0004", "0005", "0001", "0002"] {
        fs::read(format!("{}.pages/{page}", path.display())).unwrap();
    }
    fs::read(format!("{}.summary", path.display())).unwrap();
    mount.end(Signal::TERM);
    let total = &stats(&store, &[])["total"];
    assert!(number(&total["savedBytes"]) < 0, "{total}");
    assert!(number(&total["savedTokens"]) < 0, "{total}");
}

#[test]
fn tools_and_removals_are_told_apart_and_outlast_all() {
    let store = Arc::new(TestStore::new());
    for (call, tool) in [("a", "exec"), ("b", "exec"), ("c", "search")] {
        let output = "result\n".repeat(3000);
        store
            .ctxfs("put", &["-c", "c", "--call", call, "--tool", tool, "--server", "sh"])
            .stdin(output)
            .stdout();
    }
    let before = stats(&store, &[]);
    assert_eq!(number(&before["tools"]["sh/exec"]["stored"]["bytes"]), 42_000);
    assert_eq!(number(&before["tools"]["sh/search"]["stored"]["times"]), 1);
    assert!(number(&before["tools"]["sh/search"]["handed"]["tokens"]) > 50);
    let mut mount = TestMount::of(&store, Mode::Passthrough, &[]);
    fs::remove_file(mount.tool("c").join("a.txt")).unwrap();
    store.ctxfs("gc", &["--keep-conversation", "0"]).stdout();
    mount.end(Signal::TERM);
    let after = stats(&store, &[]);
    assert_eq!(number(&after["tools"]["sh/exec"]["deleted"]["bytes"]), 21_000);
    assert_eq!(number(&after["tools"]["sh/exec"]["expired"]["times"]), 1);
    assert_eq!(number(&after["total"]["expired"]["bytes"]), 42_000);
    assert_eq!(after["total"]["stored"], before["total"]["stored"], "they survive");
    assert_eq!(after["conversations"]["c"], after["total"]);
    assert_eq!(after["days"].as_object().unwrap().len(), 1);
}

#[test]
fn sums_stay_with_their_conversation() {
    let store = Arc::new(TestStore::new());
    store.put("c", "a", &vec![b'x'; 20_000]);
    store.put("other", "a", &vec![b'x'; 30_000]);
    let stored = || number(&stats(&store, &[])["total"]["stored"]["bytes"]);
    let archive = store.ctxfs("export", &["c"]).stdout();
    store.ctxfs("import", &["--as", "again", "-"]).stdin(archive).stdout();
    assert_eq!(stored(), 50_000, "what is imported was stored elsewhere");
    let mount = TestMount::of(&store, Mode::Passthrough, &[]);
    fs::remove_dir_all(mount.path().join("other")).unwrap();
    assert_eq!(stored(), 20_000);
}

#[test]
fn a_person_sees_a_table_and_a_chart() {
    let store = TestStore::new();
    store.put("c", "a", "text\n".repeat(5000).as_bytes());
    let text = String::from_utf8(store.ctxfs("stats", &[]).stdout()).unwrap();
    assert!(text.contains("saved  tool") && text.contains("  (no tool)"), "{text}");
    assert!(text.contains("tokens a day") && text.contains("stored \u{2588}"), "{text}");
}

#[test]
fn the_mount_tells_it_too() {
    let mount = TestMount::new(Mode::Passthrough);
    let path = mount.artifact("c", "a.txt", "text\n".repeat(5000).as_bytes());
    let summary = fs::read(format!("{}.summary", path.display())).unwrap();
    let control = mount.path().join(".ctxfs");
    let handed = || {
        let status: Value =
            serde_json::from_slice(&fs::read(control.join("status.json")).unwrap()).unwrap();
        status["counted"]["handed"]["bytes"].as_u64() == Some(summary.len() as u64)
            && status["savedBytes"].as_i64() == Some(25_000 - summary.len() as i64)
    };
    crate::support::eventually("it is counted", handed);
    let metrics = fs::read_to_string(control.join("metrics")).unwrap();
    let line = format!("ctxfs_handed_bytes_total{{tool=\"\"}} {}", summary.len());
    assert!(metrics.lines().any(|found| found == line), "{metrics}");
    for line in metrics.lines() {
        let known = line.starts_with("# HELP ctxfs_") || line.starts_with("# TYPE ctxfs_");
        let value = line.rsplit_once(' ').is_some_and(|(_, value)| value.parse::<i64>().is_ok());
        assert!(known || (line.starts_with("ctxfs_") && value), "{line}");
    }
}

/// Two servers and commands add to the same sums.
#[test]
fn several_processes_lose_no_count() {
    let store = Arc::new(TestStore::new());
    let mut mounts = [(); 2].map(|()| TestMount::of(&store, Mode::Cached, &[]));
    for conversation in ["c0", "c1"] {
        mounts[0].tool(conversation);
    }
    std::thread::scope(|scope| {
        for (number, mount) in mounts.iter().enumerate() {
            scope.spawn(move || {
                for file in 0..50 {
                    mount.artifact(
                        &format!("c{}", file % 2),
                        &format!("{number}-{file}.txt"),
                        &[b'x'; 100],
                    );
                }
            });
        }
        for number in 0..4 {
            let store = &store;
            scope.spawn(move || store.put("c0", &format!("p{number}"), &[b'y'; 100]));
        }
    });
    for mount in &mut mounts {
        assert_eq!(mount.end(Signal::TERM), Some(0));
    }
    let total = &stats(&store, &[])["total"]["stored"];
    assert_eq!((number(&total["times"]), number(&total["bytes"])), (104, 10_400));
}
