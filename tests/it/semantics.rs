//! `docs/SEMANTICS.md` is true: every example in it runs on a real mount, and what has no example
//! names the tests that show it.

mod document;
mod shown;
mod wildcard;

use std::env;
use std::path::Path;
use std::sync::Arc;

use document::Example;
use document::Step;
pub(crate) use shown::is_among;
pub(crate) use shown::tests;

use crate::support::Command;
use crate::support::Mode;
use crate::support::TestMount;
use crate::support::TestStore;

const PAGE: &str = include_str!("../../docs/SEMANTICS.md");
/// Fewer steps than this were not read right.
const FEWEST: usize = 80;

#[test]
fn every_example_holds_in_passthrough() {
    assert_true(PAGE, Mode::Passthrough);
}

#[test]
fn every_example_holds_without_passthrough() {
    assert_true(PAGE, Mode::Cached);
}

#[test]
fn the_page_is_read() {
    let examples = document::examples(PAGE);
    let steps: usize = examples.iter().map(|example| example.steps.len()).sum();
    assert!(steps >= FEWEST, "{steps} steps");
    assert!(PAGE.is_ascii());
}

/// A rule counts only once it has been seen to fail.
#[test]
fn a_wrong_example_is_seen() {
    let page = "\
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
    let found = failures(page, Mode::Passthrough);
    let lines: Vec<usize> = found.iter().map(|failure| failure.line).collect();
    assert_eq!(lines, [7, 9, 11], "{found:?}");
}

/// An example that does not hold.
#[derive(Debug)]
struct Failure {
    line: usize,
    text: String,
}

fn assert_true(page: &str, mode: Mode) {
    let found = failures(page, mode);
    let texts: Vec<&str> = found.iter().map(|failure| failure.text.as_str()).collect();
    assert!(found.is_empty(), "{mode:?}\n{}", texts.join("\n"));
}

/// Runs the examples, each section of the page in a new mount.
fn failures(page: &str, mode: Mode) -> Vec<Failure> {
    let examples = document::examples(page);
    let sections = examples.chunk_by(|a, b| (a.section, &a.options) == (b.section, &b.options));
    sections.flat_map(|examples| failures_of_section(examples, mode)).collect()
}

fn failures_of_section(examples: &[Example<'_>], mode: Mode) -> Vec<Failure> {
    let options = [&["--advertise", "/ctx"], examples[0].options.as_slice()].concat();
    let mount = TestMount::of(&Arc::new(TestStore::new()), mode, &options);
    mount.tool("c7");
    let steps = examples.iter().flat_map(|example| &example.steps);
    steps.filter_map(|step| failure(step, &mount)).collect()
}

fn failure(step: &Step<'_>, mount: &TestMount) -> Option<Failure> {
    let printed = run(step.command, mount);
    let printed: Vec<&str> = printed.lines().collect();
    let (command, expected) = (step.command, step.expected.join("\n"));
    let text = || {
        let line = step.line;
        let printed = printed.join("\n");
        format!(
            "docs/SEMANTICS.md:{line}: $ {command}\n--- says\n{expected}\n--- but prints\n{printed}"
        )
    };
    let holds = wildcard::matches(&step.expected, &printed);
    (!holds).then(|| Failure { line: step.line, text: text() })
}

/// Returns the output of the command, to standard output and standard error.
fn run(command: &str, mount: &TestMount) -> String {
    let script = format!("exec 2>&1\n{command}");
    let output = Command::new("sh")
        .args(["-c", &script])
        .without_settings()
        .current_dir(&mount.tool("c7"))
        .env("CTX", mount.path().join("c7"))
        .env("MNT", mount.path())
        .env("CTXFS_STORE", mount.store().path())
        .env("PATH", path())
        .env("LC_ALL", "C")
        .run();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The search path, with the program under test first.
fn path() -> std::ffi::OsString {
    let program = Path::new(env!("CARGO_BIN_EXE_ctxfs"));
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = program.parent().map(Path::to_owned).into_iter().chain(env::split_paths(&path));
    env::join_paths(folders).unwrap()
}
