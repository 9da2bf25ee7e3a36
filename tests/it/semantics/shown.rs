//! Checks that every promise without an example names the tests that show it, and that these exist.

use std::ffi::OsStr;
use std::path::Path;
use std::{env, fs};

use super::pages;
use crate::support::Command;

/// The beginning of a comment that names tests.
const COMMENT: &str = "<!-- tests:";

#[test]
fn every_promise_has_an_example_or_names_its_tests() {
    for page in pages::all() {
        assert_eq!(bare(&page.text), [""; 0], "{}", page.path);
    }
}

#[test]
fn the_tests_that_are_named_are_there() {
    let tests = tests();
    assert!(tests.len() > 500, "{} tests were found", tests.len());
    for page in pages::all() {
        let missing: Vec<&str> = named(&page.text).filter(|name| !is_among(name, &tests)).collect();
        assert_eq!(missing, [""; 0], "{}", page.path);
    }
}

#[test]
fn a_promise_without_a_test_is_seen() {
    let page = "\
## One

Shown.

```console
$ true
```

Shown, too:

- here
- there

<!-- tests: a::b c -->

Claimed.

## Two

Claimed again.";
    assert_eq!(bare(page), ["Claimed.", "Claimed again."]);
    assert_eq!(named(page).collect::<Vec<_>>(), ["a::b", "c"]);
    assert!(is_among("a::b", &["a::b::c".to_owned()]) && !is_among("a::b", &["a::bc".to_owned()]));
}

/// Returns the first line of each paragraph, list and table that neither an example nor a comment
/// follows.
fn bare(page: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut open: Option<String> = None;
    let prose: Vec<&str> = page.split("\n```").step_by(2).collect();
    for block in prose.join("\n\n```").split("\n\n") {
        let first = block.trim_start().lines().next().unwrap_or_default();
        let shows = first.starts_with("```") || first.starts_with(COMMENT);
        let goes_on = first.starts_with("- ") || first.starts_with('|');
        if shows || goes_on {
            open = if shows { None } else { open.or(Some(first.to_owned())) };
            continue;
        }
        found.extend(open.take());
        open = (!first.is_empty() && !first.starts_with('#')).then(|| first.to_owned());
    }
    found.extend(open);
    found
}

/// Returns the names of tests, or of modules of tests, in the comments of `page`.
fn named(page: &str) -> impl Iterator<Item = &str> {
    let comments = page.split(COMMENT).skip(1);
    comments.flat_map(|rest| rest[..rest.find("-->").unwrap()].split_whitespace())
}

pub(crate) fn is_among(name: &str, tests: &[String]) -> bool {
    let is_below = |test: &String| {
        test.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    tests.iter().any(is_below)
}

/// Returns all tests of the crates, each below its name without `ctxfs-`, of this program, and of
/// the program `layering`.
pub(crate) fn tests() -> Vec<String> {
    let listing = Command::new(env::current_exe().unwrap()).args(["--list"]).stdout();
    let listing = String::from_utf8(listing).unwrap();
    let mut tests: Vec<String> =
        listing.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect();
    of_sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), "", &mut tests);
    of_sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/src")), "fuzz::", &mut tests);
    of_file(include_str!("../../layering.rs"), "layering::", &mut tests);
    tests
}

/// Returns the tests in the files below `directory`, the module `module`.
fn of_sources(directory: &Path, module: &str, tests: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let inner = match path.file_stem().unwrap().to_str().unwrap() {
            "lib" => module.to_owned(),
            name => format!("{module}{name}::"),
        };
        if path.is_dir() {
            of_sources(&path, &inner, tests);
        } else if path.extension() == Some(OsStr::new("rs")) {
            of_file(&fs::read_to_string(&path).unwrap(), &inner, tests);
        }
    }
}

fn of_file(source: &str, module: &str, tests: &mut Vec<String>) {
    let inline = if source.contains("\nmod tests {") { "tests::" } else { "" };
    for test in source.split("#[test]\n").skip(1) {
        let name = test.split("fn ").nth(1).and_then(|rest| rest.split('(').next());
        tests.extend(name.map(|name| format!("{module}{inline}{name}")));
    }
}
