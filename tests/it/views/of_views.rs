//! Views of views, and the texts that are kept on disk for them.

use std::fs;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::{Command, Mode, TestMount, TestStore, listing, need};

/// Returns a document of `items` items on one line, and its form as `jq .` prints it.
fn document(items: usize) -> (String, String) {
    let item =
        |id: usize| format!("{{\"id\":{id},\"name\":\"gr\u{fc}n {id}\",\"tags\":[1.0,null]}}");
    let indented = |id: usize| {
        format!(
            "    {{\n      \"id\": {id},\n      \"name\": \"gr\u{fc}n {id}\",\n      \
             \"tags\": [\n        1.0,\n        null\n      ]\n    }}"
        )
    };
    let line = (0..items).map(item).collect::<Vec<_>>().join(",");
    let indented = (0..items).map(indented).collect::<Vec<_>>().join(",\n");
    (format!("{{\"items\":[{line}]}}"), format!("{{\n  \"items\": [\n{indented}\n  ]\n}}\n"))
}

fn beside(path: &Path, view: &str) -> PathBuf {
    path.with_file_name(format!("{}.{view}", path.file_name().unwrap().to_str().unwrap()))
}

/// Returns the texts in the store's cache.
fn kept(store: &TestStore) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(store.path().join("cache")) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_readable_form_is_searched_read_and_paged() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let (line, indented) = document(20_000);
        let path = mount.artifact("c7", "x.json", line.as_bytes());
        let read = |view: &str| fs::read_to_string(beside(&path, view)).unwrap();
        let attributes = fs::metadata(beside(&path, "pretty")).unwrap();
        assert_eq!(attributes.len(), indented.len() as u64, "{mode:?}");
        assert!(read("pretty") == indented, "{mode:?}");
        let lines: Vec<&str> = indented.lines().collect();
        assert_eq!(read("pretty.lines/100-101"), lines[99..101].join("\n") + "\n");
        assert_eq!(read("pretty.tail"), lines[lines.len() - 200..].join("\n") + "\n");
        assert_eq!(read("pretty.head"), lines[..200].join("\n") + "\n");
        let at = lines.iter().position(|line| line.ends_with(" 19999\",")).unwrap();
        assert_eq!(read("pretty.grep/n 19999"), format!("{}:{}\n", at + 1, lines[at]));
        let pages = beside(&path, "pretty.pages");
        let page = |name: &String| {
            let page = fs::read_to_string(pages.join(name)).unwrap();
            assert!(page.len() <= 6144);
            page
        };
        let rebuilt: String = listing(&pages).iter().map(page).collect();
        assert!(rebuilt == indented, "{mode:?}");
        assert!(listing(&beside(&path, "pretty.grep")).is_empty());
    }
}

#[test]
fn a_search_in_it_is_what_ripgrep_prints_of_it() {
    need("rg", "ripgrep");
    let mount = TestMount::new(Mode::Passthrough);
    let (line, indented) = document(3000);
    let path = mount.artifact("c7", "x.json", line.as_bytes());
    let plain = mount.store().scratch("plain").join("x");
    fs::write(&plain, indented).unwrap();
    for query in [&["-C2", "\"id\": 299\\d"][..], &["-c", "null"], &["-o", "n 29\\d\\d"]] {
        let expected = Command::new("rg").arg("-n").args(query).arg(&plain).run().stdout;
        let found = fs::read(beside(&path, &format!("pretty.grep/{}", query.join(" ")))).unwrap();
        assert!(found == expected, "{query:?}");
    }
}

#[test]
fn without_a_mount_it_is_the_same_and_two_processes_share_one_result() {
    let mount = TestMount::new(Mode::Passthrough);
    let store = mount.store();
    let (line, indented) = document(20_000);
    let path = mount.artifact("c7", "x.json", line.as_bytes());
    assert!(fs::read_to_string(beside(&path, "pretty")).unwrap() == indented);
    assert_eq!(kept(store).len(), 1);
    let view = |view: &str| store.view(&format!("c7/artifacts/tool/x.json.{view}"));
    assert!(view("pretty") == indented.as_bytes());
    assert_eq!(kept(store).len(), 1, "the process has used what the mount made");
    // What one of them left is what the other shows.
    let result = &kept(store)[0];
    let mut bytes = fs::read(result).unwrap();
    bytes[..2].copy_from_slice(b"!\n");
    fs::write(result, bytes).unwrap();
    assert_eq!(view("pretty.lines/1"), b"!\n");
    fs::remove_dir_all(store.path().join("cache")).unwrap();
    assert_eq!(view("pretty.lines/1"), b"{\n");
    assert_eq!(view("pretty.grep/n 7\""), b"61:      \"name\": \"gr\xc3\xbcn 7\",\n");
    assert_eq!(kept(store).len(), 1);
}

#[test]
fn many_processes_at_once() {
    let store = Arc::new(TestStore::new());
    let (line, indented) = document(20_000);
    store.put("c7", "x", line.as_bytes());
    let view = || store.view("c7/artifacts/tool/x.json.pretty");
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(view)).collect();
        for thread in threads {
            assert!(thread.join().unwrap() == indented.as_bytes());
        }
    });
    assert_eq!(kept(&store).len(), 1);
}

#[test]
fn the_cache_may_go_while_it_is_read() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let (line, indented) = document(40_000);
        let path = mount.artifact("c7", "x.json", line.as_bytes());
        let mut open = File::open(beside(&path, "pretty")).unwrap();
        let mut start = vec![0; 100_000];
        open.read_exact(&mut start).unwrap();
        fs::remove_dir_all(mount.store().path().join("cache")).unwrap();
        let mut rest = Vec::new();
        open.read_to_end(&mut rest).unwrap();
        assert!([start, rest].concat() == indented.as_bytes(), "{mode:?}");
        assert!(fs::read_to_string(beside(&path, "pretty")).unwrap() == indented, "{mode:?}");
        assert_eq!(fs::read_to_string(beside(&path, "pretty.lines/1")).unwrap(), "{\n");
    }
}

#[test]
fn it_follows_what_is_written() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.jsonl", b"");
        for number in 1..=20 {
            let mut text = fs::read(&path).unwrap();
            text.extend(format!("{{\"n\":{number}}}\n").bytes());
            fs::write(&path, text).unwrap();
            let tail = fs::read_to_string(beside(&path, "pretty.lines/-2")).unwrap();
            assert_eq!(tail, format!("  \"n\": {number}\n}}\n"), "{mode:?}");
            let found = fs::read_to_string(beside(&path, "pretty.grep/-c n")).unwrap();
            assert_eq!(found, format!("{number}\n"), "{mode:?}");
        }
    }
}
