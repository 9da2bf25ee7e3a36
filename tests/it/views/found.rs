//! The views that exist, and their attributes.

use std::fs;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;

use rustix::io::Errno;

use crate::support::{Mode, TestMount, errno, listing, log};

const VIEWS: &[&str] = &[
    "summary",
    "tail",
    "head",
    "grep/ERROR",
    "grep/-i error",
    "grep/nowhere",
    "grep/(unclosed",
    "lines/5-9",
    "lines/5+9",
    "lines/-9",
    "errors",
    "terms",
    "wrap",
    "shape",
    "jq/.a",
    "jq/-c %2E",
    "pages/0001",
    "pretty",
    "pretty.tail",
    "pretty.head",
    "pretty.grep/ERROR",
    "pretty.lines/1",
    "pretty.pages/0001",
    "pages/0005",
    "meta.json",
    "ref.json",
    "envelope.json",
    "handle",
    "preview",
];
/// The most bytes of an envelope: its preview has 51,200, and newlines take two.
const ENVELOPE_BYTES: usize = 60_000;

#[test]
fn the_size_is_exact_before_it_is_opened() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", &log(20_000));
        for view in VIEWS {
            let path = path.with_file_name(format!("x.txt.{view}"));
            let attributes = fs::metadata(&path).unwrap();
            let mut bytes = Vec::new();
            File::open(&path).unwrap().read_to_end(&mut bytes).unwrap();
            assert_eq!(attributes.len(), bytes.len() as u64, "{mode:?} {view}");
            let most = if *view == "envelope.json" { ENVELOPE_BYTES } else { 49_152 };
            let bounded = *view != "wrap";
            assert!(!bounded || bytes.len() <= most, "{view}: {} bytes", bytes.len());
        }
    }
}

#[test]
fn a_view_is_a_regular_file_that_can_only_be_read() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", &log(500));
        let artifact = fs::metadata(&path).unwrap();
        for view in VIEWS {
            let attributes = fs::symlink_metadata(path.with_file_name(format!("x.txt.{view}")));
            let attributes = attributes.unwrap();
            assert_eq!(attributes.mode(), 0o100_444, "{view}");
            assert_eq!(attributes.modified().unwrap(), artifact.modified().unwrap(), "{view}");
            assert_eq!((attributes.uid(), attributes.nlink()), (artifact.uid(), 1), "{view}");
        }
    }
}

#[test]
fn what_needs_a_query_lists_nothing() {
    let mount = TestMount::new(Mode::Passthrough);
    let path = mount.artifact("c7", "x.txt", &log(500));
    let folder = path.with_file_name("x.txt.grep");
    assert!(fs::metadata(&folder).unwrap().is_dir());
    fs::read(folder.join("ERROR")).unwrap();
    assert!(listing(&folder).is_empty());
}

#[test]
fn names_that_programs_probe_are_not_there() {
    let mount = TestMount::new(Mode::Passthrough);
    let folder = mount.artifact("c7", "x.txt", &log(500)).with_file_name("x.txt.grep");
    let probes = [
        ".git",
        ".gitignore",
        ".ignore",
        ".rgignore",
        ".fdignore",
        ".gitattributes",
        ".gitmodules",
        "HEAD",
        ".npmrc",
        "package.json",
        ".python-version",
        "rust-toolchain",
        "rust-toolchain.toml",
        "Cargo.toml",
        ".editorconfig",
        ".DS_Store",
        ".x.swp",
        ".x.swo",
        ".#x",
        "x~",
        ".nfs01",
        ".fuse_hidden01",
        "4913",
        "x.0123456789abcdef0123456789abcdef.tmp",
    ];
    for probe in probes {
        assert_eq!(errno(fs::metadata(folder.join(probe))), Errno::NOENT, "{probe}");
    }
    assert!(folder.join("[H]EAD").exists());
}

#[test]
fn queries_with_awkward_bytes() {
    let mount = TestMount::new(Mode::Passthrough);
    let text = "a/b\n100%\n.\nit's \"so\"\ntwo  blanks\ngr\u{fc}n\nfoo(bar)\n";
    let path = mount.artifact("c7", "x.txt", text.as_bytes());
    let cases = [
        ("a%2Fb", "1:a/b\n"),
        ("100%", "2:100%\n"),
        ("100%25", "2:100%\n"),
        (r"^%2E$", "3:.\n"),
        (r"^\.$", "3:.\n"),
        ("it's \"so\"", "4:it's \"so\"\n"),
        ("two  blanks", "5:two  blanks\n"),
        ("gr\u{fc}n", "6:gr\u{fc}n\n"),
        (r"foo\(bar\)", "7:foo(bar)\n"),
        ("-F foo(bar)", "7:foo(bar)\n"),
        ("[0-9]+%|gr", "2:100%\n6:gr\u{fc}n\n"),
        ("nowhere", ""),
    ];
    for (query, expected) in cases {
        let found = fs::read_to_string(path.with_file_name(format!("x.txt.grep/{query}")));
        assert_eq!(found.unwrap(), expected, "{query}");
    }
    let literal = fs::read_to_string(path.with_file_name("x.txt.grep/foo(")).unwrap();
    let (first, rest) = literal.split_once('\n').unwrap();
    assert!(first.starts_with("# not a regex"), "{first}");
    assert_eq!(rest, "7:foo(bar)\n");
    let long = format!("x.txt.grep/{}", "(a/b|nowhere)".replace('/', "%2F").repeat(68));
    assert!(fs::read(path.with_file_name(long)).is_ok());
}
