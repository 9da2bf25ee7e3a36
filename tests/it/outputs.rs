//! Summaries of real outputs: `tests/outputs` has what each must show, and must not.

use std::path::{Path, PathBuf};
use std::{fs, thread};

use serde::Deserialize;

use crate::documents::{documents, sources};
use crate::support::TestStore;

/// The least part of the outputs with a cause whose summary shows one with its place, in percent.
const RIGHT: usize = 99;
/// The least part of the steps that summaries offer which show the cause, in percent.
const STEPS: usize = 95;
/// Most bytes that a step shows.
const STEP_BYTES: usize = 8 << 10;
/// Bytes from which on an output is replaced by its summary.
const LONG: u64 = 8 << 10;
/// Threads that ask for summaries.
const THREADS: usize = 4;

/// What a person who knows the tool expects of a summary.
#[derive(Debug, Deserialize)]
struct Expected {
    exit: Option<i32>,
    /// The root causes; none for documents, source, data and what passed.
    #[serde(default)]
    cause: Vec<Cause>,
    /// Parts of lines that are no errors.
    #[serde(default)]
    never: Vec<String>,
}

/// A root cause. Both stand on one line of the summary.
#[derive(Debug, Deserialize)]
struct Cause {
    what: String,
    place: String,
}

/// What a summary names as errors, beside what it must.
struct Verdict {
    name: String,
    errors: Vec<String>,
    /// True if a cause stands with its place. None if there is no cause.
    right: Option<bool>,
    /// Those of `errors` that are none.
    wrong: Vec<String>,
}

fn directories() -> Vec<PathBuf> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outputs");
    let mut all: Vec<PathBuf> =
        fs::read_dir(top).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

/// Returns the summary of an output, which it stores.
fn summary(store: &TestStore, dir: &Path, exit_code: Option<i32>) -> String {
    let bytes = fs::read(dir.join("output")).unwrap();
    let call = dir.file_name().unwrap().to_str().unwrap();
    let code = exit_code.map(|code| format!("--exit-code={code}"));
    let mut arguments = vec!["--conversation", "c1", "--call", call, "--always"];
    arguments.extend(code.as_deref());
    store.ctxfs("put", &arguments).env("CTXFS_ADVERTISE", "/ctx").stdin(bytes).text()
}

/// Returns the lines that a summary names as errors.
fn errors(summary: &str) -> Vec<String> {
    let from = summary.lines().skip_while(|line| *line != "--- errors ---").skip(1);
    from.take_while(|line| !line.starts_with("--- ")).map(str::to_owned).collect()
}

fn expected(dir: &Path) -> Expected {
    let text = fs::read_to_string(dir.join("expect.toml")).unwrap();
    toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", dir.display()))
}

fn judge(store: &TestStore, dir: &Path) -> Verdict {
    let expected = expected(dir);
    let errors = errors(&summary(store, dir, expected.exit));
    let causes = &expected.cause;
    let shows = |cause: &Cause| {
        errors.iter().any(|line| line.contains(&cause.what) && line.contains(&cause.place))
    };
    let right = (!causes.is_empty()).then(|| causes.iter().any(shows));
    let is_wrong = |line: &&String| {
        causes.is_empty() || expected.never.iter().any(|never| line.contains(never.as_str()))
    };
    let wrong = errors.iter().filter(is_wrong).cloned().collect();
    let name = dir.file_name().unwrap().to_string_lossy().into_owned();
    Verdict { name, errors, right, wrong }
}

impl Verdict {
    /// Returns what is not as it should be; an empty text if nothing is.
    fn faults(&self) -> String {
        let Self { name, errors, right, wrong } = self;
        let missing = || format!("{name}: no cause with its place in {errors:#?}\n");
        let missing = (*right == Some(false)).then(missing).unwrap_or_default();
        let wrong = (!wrong.is_empty()).then(|| format!("{name}: no errors are {wrong:#?}\n"));
        missing + &wrong.unwrap_or_default()
    }
}

/// Does something with each output, several at a time.
fn each<T: Send>(work: impl Fn(&Path) -> T + Sync) -> Vec<T> {
    let dirs = directories();
    let work_on = |dirs: &[PathBuf]| dirs.iter().map(|dir| work(dir)).collect();
    thread::scope(|scope| {
        let parts = dirs.chunks(dirs.len().div_ceil(THREADS));
        let threads: Vec<_> = parts.map(|part| scope.spawn(|| work_on(part))).collect();
        threads.into_iter().flat_map(|thread| -> Vec<T> { thread.join().unwrap() }).collect()
    })
}

#[test]
fn causes_stand_with_their_places_and_little_else() {
    let store = TestStore::new();
    let verdicts = each(|dir| judge(&store, dir));
    let all = verdicts.iter().filter(|verdict| verdict.right.is_some()).count();
    let right = verdicts.iter().filter(|verdict| verdict.right == Some(true)).count();
    let wrong: usize = verdicts.iter().map(|verdict| verdict.wrong.len()).sum();
    assert!(
        verdicts.len() >= 80 && 100 * right >= RIGHT * all && wrong == 0,
        "{}{right} of {all} right, {wrong} lines wrong",
        verdicts.iter().map(Verdict::faults).collect::<String>()
    );
}

/// Documents and source code quote many errors. One in fifty may pass for a log.
#[test]
fn what_is_written_about_errors_is_none() {
    let store = TestStore::new();
    let texts = sources().into_iter().chain(documents());
    let long: Vec<_> = texts.filter(|path| fs::metadata(path).unwrap().len() >= LONG).collect();
    let wrong = long.iter().filter_map(|path| {
        let text = fs::read(path).unwrap();
        let summary = store.ctxfs("put", &["--conversation", "c2", "--always"]).stdin(text).text();
        let errors = errors(&summary);
        (!errors.is_empty()).then(|| format!("{}: {errors:#?}\n", path.display()))
    });
    let wrong: Vec<String> = wrong.collect();
    let (all, wrong_count) = (long.len(), wrong.len());
    assert!(all >= 50 && 50 * wrong_count <= all, "{wrong_count} of {all}: {}", wrong.concat());
}

/// Returns the steps that a summary offers to what is most telling: what their paths end with.
fn steps(summary: &str) -> Vec<&str> {
    let labels = ["next:   ", "find:   ", "search: ", "part:   "];
    let facts = summary.lines().take_while(|line| !line.starts_with("--- "));
    let steps = facts.filter_map(|line| labels.iter().find_map(|label| line.strip_prefix(label)));
    let names = steps.map(|step| step.split("    ").next().unwrap());
    // Names of every output, which have to be completed.
    let any = ["/WORDS", "/PATTERN", "/A-B"];
    names.filter(|name| !any.iter().any(|end| name.ends_with(end))).collect()
}

/// Takes each step that the summary of an output with a cause offers, literally. Returns what is
/// wrong with those that do not show the cause, or too much, and the number of steps.
fn take_steps(store: &TestStore, dir: &Path) -> (Vec<String>, usize) {
    let expected = expected(dir);
    if expected.cause.is_empty() {
        return (Vec::new(), 0);
    }
    let summary = summary(store, dir, expected.exit);
    let file = summary.lines().find_map(|line| line.strip_prefix("file:   /ctx/")).unwrap();
    let file = file.split("    ").next().unwrap();
    let fault = |step: &&str| {
        let shown = store.ctxfs("view", &[&format!("{file}{step}")]).text();
        let shows = |cause: &Cause| cause.what.split_whitespace().all(|word| shown.contains(word));
        let right = expected.cause.iter().any(shows) && shown.len() <= STEP_BYTES;
        (!right).then(|| format!("{}{step}: {} bytes\n", dir.display(), shown.len()))
    };
    let steps = steps(&summary);
    (steps.iter().filter_map(fault).collect(), steps.len())
}

#[test]
fn steps_lead_to_the_cause() {
    let store = TestStore::new();
    let taken = each(|dir| take_steps(&store, dir));
    let all: usize = taken.iter().map(|(_, count)| count).sum();
    let wrong: Vec<String> = taken.into_iter().flat_map(|(wrong, _)| wrong).collect();
    let right = all - wrong.len();
    assert!(
        all >= 200 && 100 * right >= STEPS * all,
        "{}{right} of {all} steps right",
        wrong.concat()
    );
}
