//! Two interfaces return the same bytes and the same error for the same path: the filesystem, and
//! the tree without inodes.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::fixture::{Fixture, ME};
use crate::{ContextFs, FsError, Ino, OpenMode, Result};
use ctxfs_core::model::{Component, Content as _, Folder, Provenance, Record, Removal, Root};
use ctxfs_engine::{Engine, EngineOptions, MessageWriter, Tree};
use ctxfs_store::{ArtifactWriter, Conversation, Store};

/// Names in `artifacts/tool`, of files and of missing files.
const FILES: &[&[u8]] = &[
    b"text.txt",
    b"data.json",
    b"lines.jsonl",
    b"broken.json",
    b"empty.txt",
    b"binary.bin",
    b"long-line.txt",
    b"scratch.tmp",
    b".hidden",
    b"call_1",
    b"call_1.json",
    b"call_2",
    b"text.txt.tail",
    b"removed.txt",
    b"call_3",
    b"deep",
    b"deep/er.txt",
    b"odd\xff.txt",
    br"odd\xff.txt",
    br"odd\x41.txt",
    b"control\n.txt",
    b"link.txt",
    b"link-to-dir",
    b"link-to-dir/er.txt",
    b"fifo",
    b"manifest.jsonl",
    b"a b%2F.txt",
    b"missing.txt",
    b"README.md",
    b".ctxfs",
];

/// Suffixes that may follow the name of a file.
const VIEWS: &[&str] = &[
    "",
    ".summary",
    ".tail",
    ".head",
    ".errors",
    ".terms",
    ".pretty",
    ".wrap",
    ".shape",
    ".meta.json",
    ".ref.json",
    ".handle",
    ".preview",
    ".envelope.json",
    ".grep",
    ".grep/error",
    ".grep/-i Error",
    ".grep/(",
    ".grep/a%2Fb",
    ".grep/.gitignore",
    ".grep/error/more",
    ".find",
    ".find/error of a disk",
    ".find/a%2Fb",
    ".find/.gitignore",
    ".find/error/more",
    ".lines/2-3",
    ".lines/-1",
    ".lines/9000-9001",
    ".lines/x",
    ".pages/0001",
    ".pages/9999",
    ".jq/.a",
    ".jq/.a.lines/1-1",
    ".pretty.grep/a",
    ".pretty.find/a",
    ".pretty.tail",
    ".pretty.pages/0001",
    ".pretty.pretty",
    ".wrap.lines/1-1",
    ".summary.tail",
    ".tail.tail",
    ".nothing",
    "/below",
    ".summary/below",
];

/// Paths outside `artifacts/tool`.
const PATHS: &[&str] = &[
    "",
    ".",
    "README.md",
    "README.md.tail",
    ".ignore",
    ".grep/error",
    ".ctxfs",
    ".ctxfs/version",
    ".ctxfs/nothing",
    "file-in-root",
    "file-in-root.tail",
    "c1",
    "c1.summary",
    "c1/",
    "c1//./artifacts/tool/text.txt",
    "c1/manifest.json",
    "c1/manifest.json.tail",
    "c1/manifest.jsonl",
    "c1/manifest.jsonl.tail",
    "c1/.ctxfs-counts.jsonl",
    "c1/.ctxfs/version",
    "c1/README.md",
    "c1/.ignore",
    "c1/.grep",
    "c1/.grep/error",
    "c1/.grep/-l .",
    "c1/.find",
    "c1/.find/error of a disk",
    "c1/artifacts/tool/.find/deep red",
    "c1/artifacts/.grep/error",
    "c1/artifacts/.ignore",
    "c1/artifacts/tool/.grep/-c e",
    "c1/artifacts/tool/deep/.grep/deep",
    "c1/artifacts/terminal/shell.log",
    "c1/artifacts/terminal/shell.log.tail",
    "c1/artifacts/terminal/shell.log.summary",
    "c1/artifacts/terminal/shell.log.grep/red",
    "c1/artifacts/terminal/shell.log.find/red",
    "c1/artifacts/terminal/shell.log.lines/1-2",
    "c1/artifacts/terminal/shell.log.meta.json",
    "c1/history",
    "c1/history/messages.jsonl",
    "c1/history/messages.jsonl.tail",
    "c1/history/messages.jsonl.summary",
    "c1/history/messages.json",
    "c1/history/messages.json.tail",
    "c1/history/messages.torn",
    "c1/history/.grep/user",
    "c1/history/.find/user",
    "c1/history/.ignore",
    "c1/catalog/index.json",
    "c1/catalog/index.json.shape",
    "c2/history/messages.json",
    "c2/manifest.json",
    "c2/.grep/error",
    "c3",
    "c3/manifest.json",
    r"c\xff/artifacts/tool/x.txt.tail",
];

fn component(name: impl AsRef<OsStr>) -> Component {
    Component::new(name).unwrap()
}

fn in_tool(name: &[u8]) -> PathBuf {
    Path::new("c1/artifacts/tool").join(OsStr::from_bytes(name))
}

/// Returns all paths that are read through each interface.
fn paths() -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = PATHS.iter().map(PathBuf::from).collect();
    for file in FILES {
        let view = |view: &&str| in_tool(&[file, view.as_bytes()].concat());
        paths.extend(VIEWS.iter().map(view));
    }
    let long = b"x".repeat(256);
    let longest = b"x".repeat(255);
    let query = "y".repeat(300);
    let names = [&long, &longest, &[&longest, &b".tail"[..]].concat()];
    paths.extend(names.into_iter().map(|name| in_tool(name)));
    paths.push(in_tool(format!("text.txt.grep/{query}").as_bytes()));
    paths
}

/// Creates files in the store without the mount, as other processes do.
fn plant(fixture: &Fixture) {
    let files: &[(&[u8], &[u8])] = &[
        (b"odd\xff.txt", b"an odd name, error\n"),
        (b"control\n.txt", b"never shown\n"),
        (b"manifest.jsonl", b"{}\n"),
        (b"a b%2F.txt", b"error a/b\n"),
        (&b"x".repeat(255), b"the longest name\n"),
    ];
    let tool = fixture.plain("");
    for (name, bytes) in files {
        fs::write(tool.join(OsStr::from_bytes(name)), bytes).unwrap();
    }
    fs::create_dir(tool.join("deep")).unwrap();
    fs::write(tool.join("deep/er.txt"), "deeper error\n").unwrap();
    symlink("text.txt", tool.join("link.txt")).unwrap();
    symlink("deep", tool.join("link-to-dir")).unwrap();
    let directory = fs::File::open(&tool).unwrap();
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(&directory, "fifo", kind, mode, 0).unwrap();
    let context = fixture.dir.path().join("context");
    fs::write(context.join("file-in-root"), "not a conversation\n").unwrap();
    fs::write(context.join("c1/catalog/index.json"), r#"{"tools": [{"name": "sh"}]}"#).unwrap();
    fs::write(context.join("c1/history/messages.torn"), "torn\n").unwrap();
    let log = "plain\n\x1b[31mred\x1b[0m error\nover\rwritten\n";
    fs::write(context.join("c1/artifacts/terminal/shell.log"), log).unwrap();
}

/// Stores the same files and records as `ctxfs put`: outputs of calls, and one output whose content
/// was removed.
fn put_calls(conversation: &Arc<Conversation>) {
    for (call, bytes) in [("call_1", &br#"{"a": [1, "error"]}"#[..]), ("call_2", b"text\n")] {
        write_call(conversation, call, bytes);
    }
    for call in ["removed.txt", "call_3"] {
        let record = write_call(conversation, call, b"gone\n");
        let (at, rule, why) = (1_768_318_245_000, "keep_age".to_owned(), "it was old".to_owned());
        let removed = Some(Removal { at, rule, why, stays: false });
        conversation.manifest().append(&[Record { removed, ..record.clone() }]).unwrap();
        let name = Path::new(&record.path).file_name().unwrap();
        conversation.folder(Folder::Tool).unwrap().unlink(name).unwrap();
    }
}

fn write_call(conversation: &Arc<Conversation>, call: &str, bytes: &[u8]) -> Record {
    let provenance =
        Provenance { call: Some(call.into()), tool: Some("exec".into()), ..Provenance::default() };
    let writer = if call.contains('.') {
        ArtifactWriter::create(conversation, Folder::Tool, &component(call), provenance)
    } else {
        ArtifactWriter::create_for_call(conversation, Folder::Tool, call, provenance)
    };
    let mut writer = writer.unwrap();
    writer.write_all(bytes).unwrap();
    writer.seal().unwrap().record
}

/// Returns a filesystem whose conversation has files of many kinds.
fn fixture() -> Fixture {
    let fixture = Fixture::new();
    let lines = "a line: a/b error\nanother line\n".repeat(300);
    let long = format!("{}\n", "word, and more <of> it ".repeat(500));
    let files: [(&str, &[u8]); 9] = [
        ("text.txt", lines.as_bytes()),
        ("data.json", br#"{"a": {"b": [1, 2, {"error": "x"}]}, "c": "a/b"}"#),
        ("lines.jsonl", b"{\"a\": 1}\n{\"a\": \"error\"}\n"),
        ("broken.json", b"{\"a\": [1, 2,"),
        ("empty.txt", b""),
        ("binary.bin", b"\0\x01\x02\xff\xfeerror\0"),
        ("long-line.txt", long.as_bytes()),
        ("scratch.tmp", b"scratch error\n"),
        ("text.txt.tail", b"a real file\n"),
    ];
    // The name of a view can be taken only while the view's file does not exist.
    for (name, bytes) in files.into_iter().rev() {
        fixture.put(name, bytes);
    }
    fixture.fs.mkdir(Ino::ROOT, OsStr::new("c2"), 0o700, ME).unwrap();
    fixture.fs.mkdir(Ino::ROOT, OsStr::from_bytes(b"c\xff"), 0o700, ME).unwrap();
    plant(&fixture);
    let store = Store::open(fixture.dir.path()).unwrap();
    let other = store.conversation(&component(OsStr::from_bytes(b"c\xff"))).unwrap().unwrap();
    write_call(&other, "x.txt", b"elsewhere\n");
    put_calls(&store.conversation(&component("c1")).unwrap().unwrap());
    let mut log = MessageWriter::open(fixture.fs.engine(), &component("c1")).unwrap();
    log.write(b"{\"role\": \"user\", \"content\": \"hi\"}\n{\"role\": \"assistant\"").unwrap();
    log.write(b", \"content\": \"error\"}").unwrap();
    log.finish().unwrap();
    fixture.settle();
    fixture
}

fn names(path: &Path) -> Vec<OsString> {
    let names = path.as_os_str().as_bytes().split(|byte| *byte == b'/');
    names.filter(|name| !matches!(*name, b"" | b".")).map(|n| OsStr::from_bytes(n).into()).collect()
}

/// Reads a path through the filesystem. Returns the bytes or an errno.
fn through_fs(fs: &ContextFs, path: &Path) -> std::result::Result<Vec<u8>, i32> {
    let read = || -> Result<Vec<u8>> {
        let mut at = Ino::ROOT;
        for name in names(path) {
            at = fs.lookup(at, &name, ME)?.attr.ino;
        }
        let (send, opened) = std::sync::mpsc::channel();
        let mode = OpenMode { flags: libc::O_RDONLY };
        fs.open(at, mode, ME, move |opened| send.send(opened).unwrap());
        let fh = opened.recv().unwrap()?.fh;
        let bytes = fs.read(fh, 0, &mut vec![0; 1 << 20], <[u8]>::to_vec)?;
        fs.release(fh)?;
        Ok(bytes)
    };
    read().map_err(|error: FsError| error.errno().0)
}

fn through_tree(tree: &Tree, path: &Path) -> std::result::Result<Vec<u8>, i32> {
    let opened = tree.open(path).map_err(|error| error.raw_os_error())?;
    Ok(opened.bytes(0, 1 << 20).unwrap())
}

/// Returns a tree as another process opens it.
fn tree_of(fixture: &Fixture, options: EngineOptions) -> Tree {
    Tree::new(Engine::new(Store::open(fixture.dir.path()).unwrap(), options))
}

#[test]
fn every_door_gives_the_same_bytes_or_the_same_error() {
    let fixture = fixture();
    let own = Tree::new(Arc::clone(fixture.fs.engine()));
    let other = tree_of(&fixture, EngineOptions::default());
    let (mut read, mut failed) = (Vec::new(), 0);
    for path in paths() {
        let expected = through_fs(&fixture.fs, &path);
        for tree in [&own, &other] {
            let found = through_tree(tree, &path);
            assert!(
                found == expected,
                "{}: {:?}, not {:?}",
                path.display(),
                found.as_deref().map(String::from_utf8_lossy),
                expected.as_deref().map(String::from_utf8_lossy),
            );
        }
        match expected {
            Ok(_) => read.push(path),
            Err(_) => failed += 1,
        }
    }
    // The list contains paths of both kinds, and one name of each kind of view exists.
    assert!(read.len() > 300 && failed > 300, "{} were read, {failed} were not", read.len());
    for name in ["call_1", "call_2.tail", "removed.txt.summary", "call_3.summary"] {
        assert!(read.contains(&in_tool(name.as_bytes())), "{name}");
    }
    for name in [r"odd\xff.txt.grep/error", "text.txt.pretty.grep/a", "deep/er.txt.tail"] {
        assert!(read.contains(&in_tool(name.as_bytes())), "{name}");
    }
    for path in ["c1/history/messages.json", "c1/.grep/error", ".ctxfs/version", "README.md"] {
        assert!(read.contains(&PathBuf::from(path)), "{path}");
    }
}

#[test]
fn a_door_to_one_conversation_gives_the_same_too() {
    let fixture = fixture();
    let only = || EngineOptions {
        root: Root::One("/outputs".to_owned()),
        only: Some(component("c1")),
        ..EngineOptions::default()
    };
    let fs = Fixture::serve(&fixture.dir, only());
    let tree = tree_of(&fixture, only());
    let of_one =
        ["README.md", "manifest.json", ".ignore", ".ctxfs/version", ".grep/error", "c1", ""];
    let inside =
        paths().into_iter().filter_map(|path| Some(path.strip_prefix("c1").ok()?.to_owned()));
    for path in of_one.into_iter().map(PathBuf::from).chain(inside) {
        let expected = through_fs(&fs, &path);
        assert_eq!(through_tree(&tree, &path), expected, "{}", path.display());
    }
    fs.shut_down();
}

#[test]
fn a_path_that_leaves_the_tree_leads_nowhere() {
    let fixture = fixture();
    let tree = tree_of(&fixture, EngineOptions::default());
    for path in ["/etc/passwd", "..", "c1/../c1/manifest.json", "c1/../../VERSION", "../VERSION"] {
        assert_eq!(through_tree(&tree, Path::new(path)), Err(libc::ENOENT), "{path}");
    }
}

/// An interface of the same process sees only whole writes to a file that is open through the other
/// one.
#[test]
fn a_file_that_is_written_is_the_same_through_both() {
    let fixture = Fixture::new();
    let tree = Tree::new(Arc::clone(fixture.fs.engine()));
    let fh = fixture.create("live.txt", libc::O_WRONLY).unwrap();
    for (number, bytes) in [&b"one\n"[..], b"two\nerror\n", b"three"].into_iter().enumerate() {
        fixture.write(fh, if number == 0 { 0 } else { number as u64 * 4 }, bytes).unwrap();
        for view in ["", ".tail", ".summary", ".grep/e", ".meta.json", ".lines/1-1"] {
            let path = in_tool(format!("live.txt{view}").as_bytes());
            let expected = through_fs(&fixture.fs, &path);
            assert!(expected.is_ok(), "{view}");
            assert_eq!(through_tree(&tree, &path), expected, "{view} after write {number}");
        }
    }
    fixture.close(fh);
}

#[test]
fn a_log_that_was_torn_is_repaired_by_its_first_reader() {
    let fixture = fixture();
    let log = fixture.dir.path().join("context/c1/history/messages.jsonl");
    let whole = fs::read(&log).unwrap();
    fs::write(&log, [&whole, &b"{\"role\": \"us"[..]].concat()).unwrap();
    let tree = tree_of(&fixture, EngineOptions::default());
    assert_eq!(through_tree(&tree, Path::new("c1/history/messages.jsonl")), Ok(whole.clone()));
    assert_eq!(fs::read(&log).unwrap(), whole);
    let aside = fs::read(log.with_file_name("messages.torn")).unwrap();
    assert_eq!(aside, b"torn\n{\"role\": \"us\n");
}

#[test]
fn a_line_that_is_no_message_is_refused_and_set_aside() {
    let fixture = Fixture::new();
    let mut log = MessageWriter::open(fixture.fs.engine(), &component("c1")).unwrap();
    log.write(b"{\"role\": \"user\"}\n").unwrap();
    assert_eq!(log.write(b"nothing\n").unwrap_err().raw_os_error(), libc::EINVAL);
    log.write(b"{\"role\"").unwrap();
    assert_eq!(log.finish().unwrap_err().raw_os_error(), libc::EINVAL);
    let history = fixture.dir.path().join("context/c1/history");
    assert_eq!(fs::read(history.join("messages.jsonl")).unwrap(), b"{\"role\": \"user\"}\n");
    assert_eq!(fs::read(history.join("messages.torn")).unwrap(), b"{\"role\"\n");
}

#[test]
fn what_is_read_through_the_tree_is_counted() {
    let fixture = Fixture::new();
    fixture.put("a.txt", b"one\ntwo\n");
    fixture.settle();
    let engine = Engine::new(Store::open(fixture.dir.path()).unwrap(), EngineOptions::default());
    let tree = Tree::new(Arc::clone(&engine));
    let path = in_tool(b"a.txt.grep/o");
    drop(tree.open(&path).unwrap());
    assert_eq!(through_tree(&tree, &path).unwrap(), b"1:one\n2:two\n");
    assert_eq!(engine.counters().views_computed.load(Relaxed), 2);
    let counts = engine.counts(None).unwrap();
    let read = counts.sums.total.read;
    assert_eq!((read.times, read.bytes), (1, 12), "opening alone is no reading");
    assert_eq!(counts.by_conversation.len(), 1);
}
