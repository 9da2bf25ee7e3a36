//! Copies that replace the local file of a sealed artifact.

use std::fs;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::Ordering::Relaxed;

use super::fixture::Fixture;
use crate::Ino;
use ctxfs_core::model::{Component, Record};
use ctxfs_engine::EngineOptions;
use ctxfs_store::{Stat, Store, stat_file};

const VIEWS: [&str; 5] = ["summary", "tail", "pretty", "meta.json", "grep/two"];

fn computed(fixture: &Fixture) -> u64 {
    fixture.fs.engine().counters().views_computed.load(Relaxed)
}

fn analysed(fixture: &Fixture) -> u64 {
    fixture.fs.engine().counters().bytes_analysed.load(Relaxed)
}

fn stat(fixture: &Fixture, name: &str) -> Stat {
    stat_file(File::open(fixture.plain(name)).unwrap()).unwrap()
}

/// Replaces a file by a new one with these bytes. The new file has the mode and the modification
/// time of the old one.
fn replace(fixture: &Fixture, name: &str, bytes: &[u8]) {
    let (new, old) = (fixture.plain(".new"), fixture.plain(name));
    let before = fs::metadata(&old).unwrap();
    fs::write(&new, bytes).unwrap();
    fs::set_permissions(&new, before.permissions()).unwrap();
    File::open(&new).unwrap().set_modified(before.modified().unwrap()).unwrap();
    fs::rename(new, old).unwrap();
}

/// Records the file as a copy of the file that it replaced.
fn record_copy(fixture: &Fixture, name: &str) {
    let mut record = fixture.record(name).unwrap();
    record.file.as_mut().unwrap().copied = Some(stat(fixture, name).ctime.as_nanos());
    append(fixture, &record);
}

/// Adds a record as another process would.
fn append(fixture: &Fixture, record: &Record) {
    let store = Store::open(fixture.dir.path()).unwrap();
    let conversation = store.conversation(&Component::new("c1").unwrap()).unwrap().unwrap();
    conversation.manifest().append(std::slice::from_ref(record)).unwrap();
}

/// Replaces the file of an artifact by a copy.
fn copy(fixture: &Fixture, name: &str) {
    let before = stat(fixture, name);
    replace(fixture, name, &fs::read(fixture.plain(name)).unwrap());
    assert!(!stat(fixture, name).same_file(&before));
    record_copy(fixture, name);
}

/// Stores an artifact, overwrites it, and waits until it is sealed.
fn put(fixture: &Fixture, name: &str, bytes: &[u8]) -> Ino {
    let ino = fixture.put(name, b"[0]\n");
    let fh = fixture.open(ino, libc::O_WRONLY).unwrap().fh;
    fixture.write(fh, 0, bytes).unwrap();
    fixture.close(fh);
    fixture.settle();
    ino
}

/// Returns the inode numbers and the texts of the views of an artifact.
fn views(fixture: &Fixture, name: &str) -> Vec<(Ino, String)> {
    let names = VIEWS.map(|view| format!("{name}.{view}"));
    names.iter().map(|view| (fixture.ino(view), fixture.text(view))).collect()
}

fn second_process(fixture: &Fixture) -> Fixture {
    Fixture::of(Fixture::serve(&fixture.dir, EngineOptions::default()), fixture)
}

/// Returns a document whose indented form is stored in the disk cache.
fn document() -> String {
    let items: Vec<_> = (0..20_000).map(|id| format!("{{\"id\":{id},\"two\":[1,2]}}")).collect();
    format!("[{}]", items.join(","))
}

#[test]
fn a_copy_is_the_same_file() {
    let fixture = Fixture::new();
    let ino = put(&fixture, "a.json", b"[1, \"two\"]\n");
    let before = views(&fixture, "a.json");
    let done = (computed(&fixture), analysed(&fixture));
    for _ in 0..3 {
        copy(&fixture, "a.json");
        assert_eq!(views(&fixture, "a.json"), before);
        assert_eq!(fixture.ino("a.json"), ino);
        assert_eq!(fixture.attr(ino).unwrap().size, 11);
    }
    assert_eq!((computed(&fixture), analysed(&fixture)), done);
}

/// Changes that this process made to the file before it was sealed do not matter.
#[test]
fn a_copy_is_not_analysed_again() {
    let fixture = Fixture::new();
    put(&fixture, "a.json", document().as_bytes());
    let meta = fixture.meta("a.json");
    let done = analysed(&fixture);
    copy(&fixture, "a.json");
    fixture.drop_text(fixture.ino("a.json.meta.json"));
    assert_eq!(fixture.meta("a.json"), meta);
    // A file in use is not replaced: the copy becomes a separate file with the same bytes.
    let fh = fixture.open(fixture.ino("a.json"), libc::O_RDONLY).unwrap().fh;
    let before = fixture.ino("a.json");
    copy(&fixture, "a.json");
    assert_ne!(fixture.ino("a.json"), before);
    assert_eq!(fixture.meta("a.json"), meta);
    assert_eq!(analysed(&fixture), done);
    fixture.fs.release(fh).unwrap();
}

#[test]
fn a_text_on_disk_is_that_of_the_copy_too() {
    let fixture = Fixture::new();
    put(&fixture, "a.json", document().as_bytes());
    let first = fixture.text("a.json.pretty");
    copy(&fixture, "a.json");
    assert_eq!(fixture.text("a.json.pretty"), first, "from memory");
    let cache = fixture.dir.path().join("cache");
    let kept = || fs::read_dir(&cache).unwrap().map(|it| it.unwrap().path()).collect::<Vec<_>>();
    let [text] = &kept()[..] else { panic!("{:?}", kept()) };
    // Another process, which would show a different text if it computed anything.
    let bytes = fs::read(text).unwrap();
    fs::write(text, [b"marked\n", &bytes[7..]].concat()).unwrap();
    let other = second_process(&fixture);
    assert!(other.text("a.json.pretty").starts_with("marked\n"));
    assert_eq!(kept().len(), 1);
}

#[test]
fn an_open_view_goes_on() {
    let fixture = Fixture::new();
    put(&fixture, "a.json", b"[1, \"two\"]\n");
    let view = fixture.ino("a.json.pretty");
    let fh = fixture.open(view, libc::O_RDONLY).unwrap().fh;
    let text = fixture.read_fh(fh);
    copy(&fixture, "a.json");
    assert_eq!(fixture.read_fh(fh), text);
    assert_eq!(fixture.attr(view).unwrap().size, text.len() as u64);
    // No client has looked the name up since then.
    assert_eq!(fixture.read_ino(view).unwrap(), text);
    fixture.drop_text(view);
    assert_eq!(fixture.read_ino(view).unwrap(), text);
    fixture.fs.release(fh).unwrap();
}

#[test]
fn a_copy_is_written_like_any_file() {
    let fixture = Fixture::new();
    let ino = put(&fixture, "a.json", b"[1, \"two\"]\n");
    copy(&fixture, "a.json");
    let fh = fixture.open(fixture.ino("a.json"), libc::O_WRONLY).unwrap().fh;
    fixture.write(fh, 1, b"3").unwrap();
    assert_eq!(fixture.text("a.json.tail"), "[3, \"two\"]\n");
    fixture.close(fh);
    fixture.settle();
    let record = fixture.record("a.json").unwrap();
    assert!(stat(&fixture, "a.json").is_recorded(&record), "{record:?}");
    assert_eq!(record.file, Some(stat(&fixture, "a.json").local_file()));
    copy(&fixture, "a.json");
    assert_eq!(fixture.text("a.json.tail"), "[3, \"two\"]\n");
    assert_eq!(fixture.ino("a.json"), ino);
    fixture.unlink("a.json").unwrap();
    let new = fixture.put("a.json", b"[4]\n");
    assert_ne!(new, ino);
    assert_eq!(fixture.text("a.json.tail"), "[4]\n");
}

/// Even a file with the length and the time of the old file is a different file.
#[test]
fn other_bytes_are_another_file() {
    let fixture = Fixture::new();
    put(&fixture, "a.json", document().as_bytes());
    let (ino, before) = (fixture.ino("a.json"), views(&fixture, "a.json"));
    let other = document().replace("two", "TWO");
    replace(&fixture, "a.json", other.as_bytes());
    for reader in [&fixture, &second_process(&fixture)] {
        assert_eq!(reader.text("a.json.pretty"), before[2].1.replace("two", "TWO"));
    }
    assert_ne!(fixture.ino("a.json"), ino);
}

/// No record says that the file is a copy.
#[test]
fn the_same_bytes_in_another_file_are_another_file() {
    let fixture = Fixture::new();
    let ino = put(&fixture, "a.json", b"[1, \"two\"]\n");
    let view = fixture.ino("a.json.tail");
    replace(&fixture, "a.json", b"[1, \"two\"]\n");
    assert_ne!(fixture.ino("a.json"), ino);
    assert_ne!(fixture.ino("a.json.tail"), view);
}

/// The modification time stays the same, so that only the change time shows the change.
#[test]
fn a_sealed_file_that_others_change_is_noticed() {
    let fixture = Fixture::new();
    put(&fixture, "a.json", document().as_bytes());
    for (is_copy, text) in [(false, "TWO"), (true, "SIX")] {
        if is_copy {
            copy(&fixture, "a.json");
        }
        let (view, before) = (fixture.ino("a.json.pretty"), fixture.text("a.json.pretty"));
        let at = fs::read_to_string(fixture.plain("a.json")).unwrap().find("two\"").unwrap();
        let file = File::options().write(true).open(fixture.plain("a.json")).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        file.write_all_at(text.as_bytes(), at as u64).unwrap();
        file.set_modified(modified).unwrap();
        assert_ne!(fixture.ino("a.json.pretty"), view);
        for reader in [&fixture, &second_process(&fixture)] {
            assert_eq!(
                reader.text("a.json.pretty"),
                before.replacen("two\"", &format!("{text}\""), 1)
            );
        }
        put(&fixture, "a.json", document().as_bytes());
    }
}

#[test]
fn what_depends_on_the_record_is_not_shared() {
    let fixture = Fixture::new();
    for (name, call) in [("a.json", "first"), ("b.json", "second")] {
        put(&fixture, name, document().as_bytes());
        let mut record = fixture.record(name).unwrap();
        record.provenance.call = Some(call.to_owned());
        append(&fixture, &record);
    }
    let digest = |name: &str| fixture.record(name).unwrap().analysis.unwrap().digest;
    assert_eq!(digest("a.json"), digest("b.json"));
    for (name, call, path) in [("a.json", "first", "a.json"), ("b.json", "second", "b.json")] {
        assert_eq!(fixture.meta(name)["call"], call);
        assert_eq!(fixture.meta(name)["path"], format!("artifacts/tool/{path}"));
        assert!(fixture.text(&format!("{name}.summary")).contains(path), "{name}");
    }
    // Two artifacts with the same name and bytes, of different calls.
    fixture.text("a.json.pretty");
    fixture.text("b.json.pretty");
    let cache = fixture.dir.path().join("cache");
    let kept = || fs::read_dir(&cache).unwrap().count();
    assert_eq!(kept(), 2);
    let mut record = fixture.record("a.json").unwrap();
    record.provenance.call = Some("third".to_owned());
    append(&fixture, &record);
    fixture.text("a.json.pretty");
    assert_eq!((fixture.meta("a.json")["call"].as_str(), kept()), (Some("third"), 3));
}
