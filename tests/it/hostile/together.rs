//! Many clients at the same moment.

use std::sync::Barrier;
use std::{fs, thread};

use crate::support::{Mode, TestMount, TestStore, listing, log};

const WRITERS: usize = 40;

#[test]
fn forty_outputs_through_the_mount() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let dir = mount.tool("c7");
        let start = Barrier::new(WRITERS);
        thread::scope(|scope| {
            for number in 0..WRITERS {
                let (dir, start) = (&dir, &start);
                scope.spawn(move || {
                    let text = log(100 + number);
                    let path = dir.join(format!("{number}.txt"));
                    start.wait();
                    fs::write(&path, &text).unwrap();
                    let summary = fs::read_to_string(dir.join(format!("{number}.txt.summary")));
                    let lines = format!("{} lines", 100 + number);
                    assert!(summary.unwrap().contains(&lines), "{number}");
                    assert_eq!(fs::read(&path).unwrap(), text, "{number}");
                });
            }
        });
        assert_eq!(listing(&dir).len(), WRITERS * 4, "{mode:?}");
        assert_eq!(references(&fs::read(mount.path().join("c7/manifest.json")).unwrap()), WRITERS);
    }
}

#[test]
fn forty_outputs_of_forty_processes() {
    let store = TestStore::new();
    thread::scope(|scope| {
        for number in 0..WRITERS {
            let store = &store;
            scope.spawn(move || {
                let text = log(100 + number);
                let name = store.put("c7", &format!("call_{number}"), &text);
                assert_eq!(fs::read(store.plain("c7", &name)).unwrap(), text);
            });
        }
    });
    assert_eq!(references(&store.view("c7/manifest.json")), WRITERS);
}

#[test]
fn forty_conversations() {
    let mount = TestMount::new(Mode::Passthrough);
    thread::scope(|scope| {
        for number in 0..WRITERS {
            let mount = &mount;
            scope.spawn(move || {
                mount.artifact(&format!("c{number}"), "x.txt", &log(number + 1));
            });
        }
    });
    assert_eq!(listing(mount.path()).len(), WRITERS + 1);
}

#[test]
fn readers_of_the_same_view() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", &log(50_000));
        let view = path.with_file_name("x.txt.grep/request 1\\d+7 ");
        let start = Barrier::new(16);
        let seen: Vec<Vec<u8>> = thread::scope(|scope| {
            let readers: Vec<_> = (0..16)
                .map(|_| {
                    scope.spawn(|| {
                        start.wait();
                        fs::read(&view).unwrap()
                    })
                })
                .collect();
            readers.into_iter().map(|reader| reader.join().unwrap()).collect()
        });
        assert!(!seen[0].is_empty() && seen.iter().all(|bytes| *bytes == seen[0]), "{mode:?}");
    }
}

/// Returns the number of artifacts that a manifest names.
fn references(manifest: &[u8]) -> usize {
    let text = String::from_utf8_lossy(manifest);
    serde_json::from_str::<serde_json::Value>(&text).unwrap();
    text.matches("\"ctx://c7/artifacts/").count()
}
