//! Checks `docs/SEMANTICS.md` and the pages in `docs/semantics`: every example in them runs on a
//! real mount, and every promise without an example names the tests that show it.

mod document;
mod pages;
mod shown;
mod wildcard;

use std::env;
use std::path::Path;
use std::sync::Arc;

use document::{Example, Step};
use pages::Page;
pub(crate) use shown::{is_among, tests};

use crate::support::{Command, Mode, TestMount, TestStore};

/// The fewest steps that all pages have together, so that a page that is not parsed is noticed.
const FEWEST: usize = 300;

#[test]
fn every_example_holds_in_passthrough() {
    assert_true(&pages::all(), Mode::Passthrough);
}

#[test]
fn every_example_holds_without_passthrough() {
    assert_true(&pages::all(), Mode::Cached);
}

#[test]
fn the_pages_are_read() {
    let pages = pages::all();
    let examples = pages.iter().flat_map(|page| document::examples(&page.text));
    let steps: usize = examples.map(|example| example.steps.len()).sum();
    assert!(steps >= FEWEST, "{steps} steps");
}

/// A rule counts only once it has been seen to fail.
#[test]
fn a_wrong_example_is_seen() {
    let text = "\
## One

```console
$ echo text > x.txt
$ cat x.txt.tail
text
$ cat x.txt.tail
other
$ echo silent > /dev/null
said
$ echo said
```

## Two

```console
$ cat x.txt.tail
cat: x.txt.tail: No such file or directory
```
";
    let page = Page { path: "page.md".to_owned(), text: text.to_owned() };
    let found = failures(&page, Mode::Passthrough);
    let lines: Vec<usize> = found.iter().map(|failure| failure.line).collect();
    assert_eq!(lines, [7, 9, 11], "{found:?}");
}

/// A wrong example.
#[derive(Debug)]
struct Failure {
    line: usize,
    text: String,
}

fn assert_true(pages: &[Page], mode: Mode) {
    let found: Vec<Failure> = pages.iter().flat_map(|page| failures(page, mode)).collect();
    let texts: Vec<&str> = found.iter().map(|failure| failure.text.as_str()).collect();
    assert!(found.is_empty(), "{mode:?}\n{}", texts.join("\n"));
}

/// Runs the examples of `page`, each section in a new mount.
fn failures(page: &Page, mode: Mode) -> Vec<Failure> {
    let examples = document::examples(&page.text);
    let sections = examples.chunk_by(|a, b| (a.section, &a.options) == (b.section, &b.options));
    sections.flat_map(|examples| failures_of_section(&page.path, examples, mode)).collect()
}

fn failures_of_section(path: &str, examples: &[Example<'_>], mode: Mode) -> Vec<Failure> {
    let options = [&["--advertise", "/ctx"], examples[0].options.as_slice()].concat();
    let mount = TestMount::of(&Arc::new(TestStore::new()), mode, &options);
    mount.tool("c7");
    let steps = examples.iter().flat_map(|example| &example.steps);
    steps.filter_map(|step| failure(path, step, &mount)).collect()
}

fn failure(path: &str, step: &Step<'_>, mount: &TestMount) -> Option<Failure> {
    let printed = run(step.command, mount);
    let printed: Vec<&str> = printed.lines().collect();
    let (line, command, expected) = (step.line, step.command, step.expected.join("\n"));
    let text = || {
        let printed = printed.join("\n");
        format!("{path}:{line}: $ {command}\n--- says\n{expected}\n--- but prints\n{printed}")
    };
    let holds = wildcard::matches(&step.expected, &printed);
    (!holds).then(|| Failure { line, text: text() })
}

/// Runs `command`, and returns what it prints to standard output and standard error.
fn run(command: &str, mount: &TestMount) -> String {
    let script = format!("exec 2>&1\n{command}");
    let output = Command::new("sh")
        .args(["-c", &script])
        .without_settings()
        .current_dir(&mount.tool("c7"))
        .env("CTX", mount.path().join("c7"))
        .env("MNT", mount.path())
        .env("CTXFS_STORE", mount.store().path())
        .env("PATH", search_path())
        .env("LC_ALL", "C")
        .run();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The search path, with the program under test first.
fn search_path() -> std::ffi::OsString {
    let program = Path::new(env!("CARGO_BIN_EXE_ctxfs"));
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = program.parent().map(Path::to_owned).into_iter().chain(env::split_paths(&path));
    env::join_paths(folders).unwrap()
}
