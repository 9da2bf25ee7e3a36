//! Views of views, and their texts in the disk cache.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Barrier};
use std::time::Duration;
use std::{fs, thread};

use bstr::ByteSlice as _;

use super::fixture::{Fixture, ME, errno};
use crate::OpenMode;
use ctxfs_engine::EngineOptions;

/// Returns a document on one line whose indented form takes some hundred kilobytes.
fn document() -> String {
    let item =
        |id: usize| format!("{{\"id\":{id},\"name\":\"item number {id}\",\"tags\":[\"a\",\"b\"]}}");
    let items: Vec<String> = (0..8000).map(item).collect();
    format!("{{\"items\":[{}],\"last\":true}}", items.join(","))
}

/// Returns the lengths of the texts in the store's cache.
fn kept(fixture: &Fixture) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(fixture.dir.path().join("cache")) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().metadata().unwrap().len()).collect()
}

fn computed(fixture: &Fixture) -> u64 {
    fixture.fs.engine().counters().views_computed.load(Relaxed)
}

/// Returns the text of a large view, which takes more than one read.
fn whole(fixture: &Fixture, name: &str) -> String {
    let fh = fixture.open(fixture.ino(name), libc::O_RDONLY).unwrap().fh;
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; 300_000]);
    loop {
        let offset = bytes.len() as u64;
        let count = fixture.fs.read(fh, offset, &mut buffer, |read| {
            bytes.extend_from_slice(read);
            read.len()
        });
        if count.unwrap() == 0 {
            break;
        }
    }
    fixture.fs.release(fh).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_view_is_looked_into_like_a_file() {
    let fixture = Fixture::new();
    fixture.put("a.json", document().as_bytes());
    let pretty = whole(&fixture, "a.json.pretty");
    let lines: Vec<&str> = pretty.lines().collect();
    assert_eq!(fixture.text("a.json.pretty.lines/3-5"), lines[2..5].join("\n") + "\n");
    assert_eq!(fixture.text("a.json.pretty.tail"), lines[lines.len() - 200..].join("\n") + "\n");
    assert_eq!(fixture.text("a.json.pretty.head"), lines[..200].join("\n") + "\n");
    let found = lines.iter().position(|line| line.contains("item number 7777")).unwrap();
    let want = format!("{}:{}\n", found + 1, lines[found]);
    assert_eq!(fixture.text("a.json.pretty.grep/item number 7777"), want);
    let pages = fixture.list(fixture.ino("a.json.pretty.pages"));
    let page = |name: &String| fixture.text(&format!("a.json.pretty.pages/{name}"));
    assert_eq!(pages.iter().map(page).collect::<String>(), pretty);
    let cut = fixture.text("a.json.pretty.grep/name");
    assert!(cut.starts_with("# 8,000 of 64,005 lines match; the first "), "{cut:.200}");
    let on = "/ctx/c1/artifacts/tool/a.json.pretty.grep/--from=";
    assert!(cut.lines().next().unwrap().contains(on), "{cut:.200}");
}

#[test]
fn two_deep_and_no_deeper() {
    let fixture = Fixture::new();
    fixture.put("a.json", b"{\"a\": 1}\n");
    for name in [
        "a.json.pretty.pretty",
        "a.json.pretty.summary",
        "a.json.tail.tail",
        "a.json.grep.tail",
        "a.json.pretty.tail.tail",
        "a.json.pretty.grep.grep",
        "a.json.pretty.unknown",
        "b.json.pretty.tail",
        "a.json.pretty.lines/0",
        "a.json.pretty.pages/1",
    ] {
        assert_eq!(errno(fixture.lookup(name)), libc::ENOENT, "{name}");
    }
    assert_eq!(errno(fixture.read("a.json.pretty.pages/0002")), libc::ENOENT);
    assert_eq!(errno(fixture.read("a.json.pretty.lines/9")), libc::ENOENT);
    assert!(fixture.list(fixture.ino("a.json.pretty.grep")).is_empty());
    assert_eq!(fixture.list(fixture.ino("a.json.pretty.pages")), ["0001"]);
}

#[test]
fn finding_one_computes_nothing_and_asking_its_size_both() {
    let fixture = Fixture::new();
    fixture.put("a.json", b"{\"a\": [1, 2]}\n");
    fixture.settle();
    let before = computed(&fixture);
    let found = fixture.lookup("a.json.pretty.grep/1").unwrap();
    assert_eq!((found.attr.size, found.attr_ttl), (0, Duration::ZERO));
    assert_eq!(computed(&fixture), before);
    assert_eq!(fixture.attr(found.attr.ino).unwrap().size, "3:    1,\n".len() as u64);
    assert_eq!(computed(&fixture), before + 2);
    assert_eq!(fixture.text("a.json.pretty.grep/2"), "4:    2\n");
    assert_eq!(computed(&fixture), before + 3, "the text is there already");
    assert_eq!(fixture.ino("a.json.pretty.grep/1"), found.attr.ino);
}

#[test]
fn it_follows_the_file() {
    let fixture = Fixture::new();
    fixture.put("a.json", b"[1]");
    let dir = fixture.ino("a.json.pretty.lines");
    let first = fixture.ino("a.json.pretty.lines/2");
    assert_eq!(fixture.read_ino(first).unwrap(), b"  1\n");
    let fh = fixture.open(fixture.ino("a.json"), libc::O_WRONLY).unwrap().fh;
    fixture.write(fh, 0, b"[2]").unwrap();
    fixture.close(fh);
    assert_eq!(fixture.ino("a.json.pretty.lines"), dir);
    let second = fixture.fs.lookup(dir, OsStr::new("2"), ME).unwrap().attr.ino;
    assert_ne!(second, first);
    assert_eq!(fixture.read_ino(second).unwrap(), b"  2\n");
    assert_eq!(fixture.read_ino(first).unwrap(), b"  1\n");
}

#[test]
fn a_real_file_hides_the_view_of_its_name() {
    let fixture = Fixture::new();
    fixture.put("a.json.pretty", b"real\n");
    fixture.put("a.json", b"[1]");
    assert_eq!(fixture.text("a.json.pretty"), "real\n");
    assert_eq!(fixture.text("a.json.pretty.tail"), "real\n");
    assert_eq!(fixture.text("a.json.pretty.grep/r"), "1:real\n");
    fixture.unlink("a.json.pretty").unwrap();
    assert_eq!(fixture.text("a.json.pretty.tail"), "[\n  1\n]\n");
}

#[test]
fn nothing_can_take_its_place() {
    let fixture = Fixture::new();
    fixture.put("a.json", b"[1]");
    assert_eq!(errno(fixture.create("a.json.pretty.tail", libc::O_WRONLY)), libc::EPERM);
    let name = OsStr::new("a.json.pretty.grep");
    assert_eq!(errno(fixture.fs.mkdir(fixture.tool, name, 0o700, ME)), libc::EPERM);
    let dir = fixture.ino("a.json.pretty.grep");
    let mode = OpenMode { flags: libc::O_WRONLY };
    let created = fixture.fs.create(dir, OsStr::new(".git"), 0o600, mode, ME);
    assert_eq!(errno(created), libc::EPERM);
    fixture.unlink("a.json.pretty.tail").unwrap();
    fixture.fs.rmdir(fixture.tool, name).unwrap();
    assert_eq!(errno(fixture.unlink("a.json.pretty.grep")), libc::EISDIR);
    assert_eq!(errno(fixture.unlink("a.json.pretty.summary")), libc::ENOENT);
    assert_eq!(fixture.text("a.json.pretty.tail"), "[\n  1\n]\n");
}

/// The node of the file stays in the table until the views of its views are forgotten.
#[test]
fn all_is_forgotten_in_the_end() {
    let fixture = Fixture::new();
    fixture.put("a.json", b"[1]");
    fixture.settle();
    let before = fixture.fs.status();
    for _ in 0..3 {
        let dir = fixture.lookup("a.json.pretty.grep").unwrap().attr.ino;
        let one = fixture.fs.lookup(dir, OsStr::new("1"), ME).unwrap().attr.ino;
        let two = fixture.fs.lookup(dir, OsStr::new("2"), ME).unwrap().attr.ino;
        let same = fixture.fs.lookup(dir, OsStr::new("1"), ME).unwrap().attr.ino;
        assert_eq!(same, one);
        fixture.read_ino(one).unwrap();
        fixture.fs.forget(one, 2);
        assert_eq!(fixture.read_ino(two).unwrap(), b"");
        fixture.fs.forget(two, 1);
        fixture.fs.forget(dir, 1);
        let pages = fixture.lookup("a.json.pretty.pages").unwrap().attr.ino;
        assert_eq!(fixture.list(pages), ["0001"]);
        fixture.fs.forget(pages, 1);
        // Looking up the paths also counted a look-up of each directory.
        let (c1, artifacts) = (fixture.find("c1").unwrap(), fixture.find("c1/artifacts").unwrap());
        fixture.fs.forget(c1.attr.ino, 4);
        fixture.fs.forget(artifacts.attr.ino, 3);
        fixture.fs.forget(fixture.tool, 2);
    }
    assert_eq!(fixture.fs.status().nodes, before.nodes);
}

#[test]
fn what_is_no_text_says_so_in_every_view() {
    let fixture = Fixture::new();
    fixture.put("a.txt", b"no JSON\n");
    let notice = fixture.text("a.txt.pretty");
    assert!(notice.starts_with("# not JSON"), "{notice}");
    for view in ["grep/no", "tail", "lines/1", "pages/0001"] {
        assert_eq!(fixture.text(&format!("a.txt.pretty.{view}")), notice, "{view}");
    }
}

#[test]
fn a_large_result_is_computed_once() {
    let fixture = Fixture::new();
    fixture.put("a.json", document().as_bytes());
    fixture.settle();
    assert!(kept(&fixture).is_empty());
    let pretty = whole(&fixture, "a.json.pretty");
    let results = kept(&fixture);
    assert_eq!(results.len(), 1);
    assert!((results[0] - pretty.len() as u64) < 100);
    // Another process, which would show a different text if it computed anything.
    let other = Fixture::serve(&fixture.dir, EngineOptions::default());
    let path = fs::read_dir(fixture.dir.path().join("cache")).unwrap().next().unwrap().unwrap();
    let mut bytes = fs::read(path.path()).unwrap();
    bytes[..7].copy_from_slice(b"marked\n");
    fs::write(path.path(), bytes).unwrap();
    let marked = Fixture::of(other, &fixture);
    assert!(whole(&marked, "a.json.pretty").starts_with("marked\n"));
    assert_eq!(marked.text("a.json.pretty.lines/1"), "marked\n");
}

#[test]
fn a_change_makes_another_result() {
    let fixture = Fixture::new();
    fixture.put("a.json", document().as_bytes());
    let first = whole(&fixture, "a.json.pretty");
    let fh = fixture.open(fixture.ino("a.json"), libc::O_WRONLY).unwrap().fh;
    fixture.write(fh, 2, b"I").unwrap();
    let live = whole(&fixture, "a.json.pretty");
    assert_eq!(live, first.replacen("items", "Items", 1));
    assert_eq!(kept(&fixture).len(), 1, "what is still written is not kept");
    fixture.close(fh);
    assert_eq!(whole(&fixture, "a.json.pretty"), live);
}

#[test]
fn the_cache_may_be_removed_at_any_time() {
    let fixture = Fixture::new();
    fixture.put("a.json", document().as_bytes());
    let pretty = whole(&fixture, "a.json.pretty");
    let fh = fixture.open(fixture.ino("a.json.pretty"), libc::O_RDONLY).unwrap().fh;
    fs::remove_dir_all(fixture.dir.path().join("cache")).unwrap();
    assert_eq!(fixture.read_fh(fh), pretty.as_bytes());
    assert_eq!(whole(&fixture, "a.json.pretty"), pretty);
    assert_eq!(fixture.text("a.json.pretty.lines/3"), "    {\n");
    fixture.fs.release(fh).unwrap();
    // The text is dropped from memory too, so it is computed again.
    let view = fixture.ino("a.json.pretty");
    fixture.drop_text(view);
    assert_eq!(whole(&fixture, "a.json.pretty"), pretty);
    assert_eq!(kept(&fixture).len(), 1);
}

#[test]
fn what_is_larger_than_the_cache_is_used_all_the_same() {
    let fixture =
        Fixture::with(EngineOptions { disk_cache_bytes: 1000, ..EngineOptions::default() });
    fixture.put("a.json", document().as_bytes());
    let pretty = whole(&fixture, "a.json.pretty");
    assert!(kept(&fixture).is_empty());
    assert_eq!(fixture.text("a.json.pretty.tail").lines().count(), 200);
    assert!(pretty.ends_with("\"last\": true\n}\n"));
}

#[test]
fn a_full_disk_is_said() {
    let fixture = Fixture::new();
    fixture.put("a.json", document().as_bytes());
    let full = EngineOptions { min_free: u64::MAX, ..EngineOptions::default() };
    let other = Fixture::of(Fixture::serve(&fixture.dir, full), &fixture);
    assert_eq!(errno(other.read("a.json.pretty")), libc::ENOSPC);
    assert_eq!(errno(other.read("a.json.pretty.tail")), libc::ENOSPC);
    // A view that needs no disk space can be read.
    assert_eq!(other.text("a.json.grep/-c item"), "1\n");
    assert!(kept(&fixture).is_empty());
}

/// Artifacts have priority over cached texts.
#[test]
fn a_writer_gets_the_room_of_the_results() {
    let fixture = Fixture::new();
    fixture.put("a.json", document().as_bytes());
    whole(&fixture, "a.json.pretty");
    assert_eq!(kept(&fixture).len(), 1);
    let full = EngineOptions { min_free: u64::MAX, ..EngineOptions::default() };
    let other = Fixture::of(Fixture::serve(&fixture.dir, full), &fixture);
    let fh = other.create("b.txt", libc::O_WRONLY).unwrap();
    assert_eq!(errno(other.write(fh, 0, b"x")), libc::ENOSPC);
    other.close(fh);
    assert!(kept(&fixture).is_empty());
}

/// The text of a view of a live file cannot be stored, so no such view continues after its
/// deadline.
#[test]
fn what_ran_out_of_time_is_neither_kept_nor_final() {
    let fixture =
        Fixture::with(EngineOptions { view_deadline: Duration::ZERO, ..EngineOptions::default() });
    let fh = fixture.create("a.json", libc::O_WRONLY).unwrap();
    fixture.write(fh, 0, document().as_bytes()).unwrap();
    let first = fixture.ino("a.json.pretty");
    let text = fixture.read_ino(first).unwrap();
    assert!(text.starts_with(b"# out of time after 0.0 of "), "{}", text.as_bstr());
    assert!(kept(&fixture).is_empty());
    assert_ne!(fixture.ino("a.json.pretty"), first);
    assert!(fixture.text("a.json.pretty.grep/item").starts_with("# out of time after 0.0 of "));
    let found = fixture.text("a.json.pretty.tail");
    let want =
        "# out of time: what follows is of the beginning of /ctx/c1/artifacts/tool/a.json.pretty.";
    assert!(found.starts_with(want), "{found}");
    fixture.close(fh);
}

#[test]
fn what_can_be_kept_is_computed_on() {
    let fixture =
        Fixture::with(EngineOptions { view_deadline: Duration::ZERO, ..EngineOptions::default() });
    for (name, text) in [("large.json", document()), ("small.json", "{\"a\":1}".to_owned())] {
        fixture.put(name, text.as_bytes());
        fixture.settle();
        let view = format!("{name}.pretty");
        let first = fixture.ino(&view);
        let beginning = fixture.read_ino(first).unwrap();
        assert!(beginning.starts_with(b"# out of time: the beginning follows"), "{name}");
        while fixture.ino(&view) == first {
            thread::sleep(Duration::from_millis(1));
        }
        let text = whole(&fixture, &view);
        assert!(text.starts_with('{') && text.ends_with("}\n"), "{name}: {text:.100}");
        assert!(fixture.text(&format!("{view}.lines/1")) == "{\n");
        assert_eq!(fixture.attr(first).unwrap().size, beginning.len() as u64);
        assert_eq!(fixture.read_ino(first).unwrap(), beginning);
    }
    assert_eq!(kept(&fixture).len(), 2);
}

/// A text that is too large to be stored would be computed in vain.
#[test]
fn what_is_larger_than_the_cache_is_not_computed_on() {
    let options = EngineOptions {
        view_deadline: Duration::ZERO,
        disk_cache_bytes: 1000,
        ..EngineOptions::default()
    };
    let fixture = Fixture::with(options);
    fixture.put("a.json", document().as_bytes());
    let first = fixture.ino("a.json.pretty");
    fixture.read_ino(first).unwrap();
    while fixture.ino("a.json.pretty") == first {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(whole(&fixture, "a.json.pretty").starts_with("# out of time"));
    assert!(kept(&fixture).is_empty());
}

#[test]
fn many_who_look_into_one_text_share_it() {
    for _ in 0..5 {
        let fixture = Arc::new(Fixture::new());
        fixture.put("a.json", document().as_bytes());
        fixture.settle();
        let barrier = Arc::new(Barrier::new(8));
        let ask = |number: usize| {
            let (fixture, barrier) = (Arc::clone(&fixture), Arc::clone(&barrier));
            thread::spawn(move || {
                let view = fixture.ino(&format!("a.json.pretty.grep/\"item number {number}\""));
                barrier.wait();
                String::from_utf8(fixture.read_ino(view).unwrap()).unwrap()
            })
        };
        let threads: Vec<_> = (0..8).map(ask).collect();
        for (number, thread) in threads.into_iter().enumerate() {
            let line = 8 * number + 5;
            let want = format!("{line}:      \"name\": \"item number {number}\",\n");
            assert_eq!(thread.join().unwrap(), want);
        }
        assert_eq!(computed(&fixture), 1 + 8);
        assert_eq!(kept(&fixture).len(), 1);
    }
}

/// Two queries that are displayed alike are distinguished.
#[test]
fn queries_of_any_bytes_have_results_of_their_own() {
    let fixture = Fixture::new();
    let mut text = "[\"first\",\"second\"]\n".repeat(40_000).into_bytes();
    text.extend_from_slice(b"\n\"\xff\"\n");
    fixture.put("a.json", &text);
    let dir = fixture.ino("a.json.pretty.grep");
    let find =
        |query: &[u8]| fixture.fs.lookup(dir, OsStr::from_bytes(query), ME).unwrap().attr.ino;
    let count = |query: &[u8]| fixture.read_ino(find(query)).unwrap();
    assert_ne!(find(b"-m0 first|\xff"), find(b"-m0 first|\xfe"));
    assert_eq!(count(b"-c \"first\""), b"40000\n");
    assert!(count(b"-m0 -v x|\xfe").len() > 256 * 1024);
    assert!(count(b"-m0 -v x|\xff").len() > 256 * 1024);
}
