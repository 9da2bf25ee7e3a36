//! Checks that the tests, source files and link targets that documents name exist.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::semantics::{is_among, tests};

/// Documents in which a word in backticks with `::` in it is a test, or a module of tests: of
/// `tests/it`, of the library, or of another file in `tests`.
const DOCUMENTS: &[&str] = &["docs/SECURITY.md"];

#[test]
fn tests_that_documents_name_are_there() {
    let top = top();
    let tests = tests();
    for document in DOCUMENTS {
        let text = fs::read_to_string(top.join(document)).unwrap();
        let named: Vec<&str> = named(&text).collect();
        assert!(named.len() > 10, "{document}: {named:?}");
        let missing: Vec<_> = named.iter().filter(|name| !is_among(name, &tests)).collect();
        assert!(missing.is_empty(), "{document} names {missing:?}");
    }
}

#[test]
fn names_are_seen() {
    let text = "`a`, `one::two`, one::three, `four::`, `not a::name`";
    assert_eq!(named(text).collect::<Vec<_>>(), ["one::two", "four"]);
    let tests = tests();
    for there in ["documents::names_are_seen", "security", "layering::a_breach_is_seen"] {
        assert!(is_among(there, &tests), "{there}");
    }
    assert!(!is_among("documents::named", &tests) && !is_among("layering::breaches", &tests));
}

fn named(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split('`').skip(1).step_by(2);
    words
        .filter(|word| word.contains("::") && !word.contains(' '))
        .map(|word| word.trim_end_matches("::"))
}

#[test]
fn links_lead_somewhere() {
    let documents = documents();
    assert!(documents.len() > 20, "{documents:?}");
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        let dead: Vec<&str> = links(&text).filter(|link| !leads(&document, link)).collect();
        assert!(dead.is_empty(), "{}: {dead:?}", document.display());
    }
}

#[test]
fn dead_links_are_seen() {
    let text = "[a](b.md) `[c](d)`\n```\n[e](f)\n```\n[g](https://h) [i\nj](k.md#l)";
    assert_eq!(links(text).collect::<Vec<_>>(), ["b.md", "https://h", "k.md#l"]);
    let page = top().join("docs/SEMANTICS.md");
    for link in ["FORMAT.md", "#words", "semantics/text.md#xhead-xtail-and-xlines", "https://h"] {
        assert!(leads(&page, link), "{link}");
    }
    for link in ["ABSENT.md", "#absent", "semantics/text.md#absent"] {
        assert!(!leads(&page, link), "{link}");
    }
}

#[test]
fn source_files_that_documents_name_are_there() {
    let sources = sources();
    assert!(sources.len() > 300, "{} files", sources.len());
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        let words = text.split('`').skip(1).step_by(2);
        let named = words.filter(|word| is_rust(Path::new(word)) && !word.contains([' ', '*']));
        let missing: Vec<&str> = named.filter(|name| !is_source(name, &sources)).collect();
        assert!(missing.is_empty(), "{} names {missing:?}", document.display());
    }
}

#[test]
fn missing_source_files_are_seen() {
    let sources = sources();
    for there in ["tests/it/documents.rs", "it/documents.rs", "model.rs"] {
        assert!(is_source(there, &sources), "{there}");
    }
    assert!(!is_source("absent.rs", &sources) && !is_source("ocuments.rs", &sources));
}

/// Returns the source files of the library, its tests and its examples.
pub(crate) fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = ["src", "tests", "examples"].map(|name| top().join(name)).into();
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if is_rust(&path) {
                found.push(path);
            }
        }
    }
    found
}

fn is_rust(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("rs"))
}

/// Returns true if `name` is the end of the path of a source file, as documents shorten paths.
fn is_source(name: &str, sources: &[PathBuf]) -> bool {
    sources.iter().any(|source| source.ends_with(name))
}

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns every Markdown file at the top and below `docs`.
pub(crate) fn documents() -> Vec<PathBuf> {
    let directories = ["", "docs", "docs/semantics", "examples"].map(|name| top().join(name));
    let paths = directories.iter().flat_map(|dir| fs::read_dir(dir).unwrap());
    let paths = paths.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension() == Some(OsStr::new("md"))).collect()
}

/// Returns the targets of the links in `text`, except for those in code.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split("\n```").step_by(2).flat_map(|block| block.split('`').step_by(2));
    let links = prose.flat_map(|prose| prose.split("](").skip(1));
    links.filter_map(|rest| rest.split(')').next())
}

/// Returns true if `link`, in `document`, leads to a file and, after `#`, to a heading in it, or to
/// another site.
fn leads(document: &Path, link: &str) -> bool {
    if link.starts_with("https://") {
        return true;
    }
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => document.to_owned(),
        path => document.parent().unwrap().join(path),
    };
    let has = |text: String| text.lines().any(|line| anchor(line).as_deref() == Some(heading));
    target.exists() && (heading.is_empty() || fs::read_to_string(target).is_ok_and(has))
}

/// Returns the anchor of the heading `line`, as GitHub makes it.
fn anchor(line: &str) -> Option<String> {
    let title = line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#'))?;
    let kept = title.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    Some(kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect())
}
