//! The errors of an output as a reader needs them: judged by what stands around them.

use std::io;
use std::sync::LazyLock;

use regex::Regex;

use crate::model::ErrorLine;
use crate::model::ErrorRank;
use crate::model::Json;
use crate::model::Subject;
use crate::view::errors::json;
use crate::view::errors::json::ErrorRecord;
use crate::view::errors::message::message;
use crate::view::errors::owner::owner;
use crate::view::errors::quoted::is_quoted;
use crate::view::errors::surroundings::Surroundings;

/// Lines alike from which on they did not end the program.
const OFTEN: u64 = 3;
/// Lines between two errors, of which one says what the other does.
const NEAR: u64 = 8;
/// Most lines that a test prints between its name and its end.
const TEST_LINES: usize = 12;

/// An error with what it says and what it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::view) struct Finding {
    /// The line.
    pub(in crate::view) at: ErrorLine,
    /// What it says, in one line.
    pub(in crate::view) message: String,
    /// The test, file or step that it belongs to, if another line tells that.
    pub(in crate::view) owner: Option<String>,
    /// True for an exception that a program has logged.
    is_logged: bool,
}

/// The errors of an output, judged by what stands around them.
pub(in crate::view) struct Findings {
    /// The most telling of them, best first.
    pub(in crate::view) shown: Vec<Finding>,
    /// The number of lines that are errors.
    pub(in crate::view) count: u64,
    /// The number of lines that only mention errors.
    pub(in crate::view) mentions: u64,
}

/// Judges the lines of an output that look like errors. In the output of a call that succeeded,
/// only what is marked as an error is one.
pub(in crate::view) fn findings(subject: &Subject<'_>) -> io::Result<Findings> {
    let errors = &subject.analysis.errors;
    let is_document = matches!(subject.analysis.json, Json::Document { .. });
    let count = if is_document { 0 } else { errors.count };
    let mut found = Findings { shown: Vec::new(), count, mentions: 0 };
    if let Some(records) = json::records(subject)? {
        let finding = |ErrorRecord { at, message, owner, .. }| Finding {
            at,
            message,
            owner,
            is_logged: false,
        };
        return Ok(Findings { shown: records.into_iter().map(finding).collect(), ..found });
    }
    for at in &errors.shown {
        let lines = Surroundings::read(subject.content, at)?;
        if judged(subject, at, &lines) {
            found.add(Finding::new(at, &lines));
        } else {
            found.mentions += at.times;
        }
    }
    if found.shown.is_empty() {
        found.mentions = errors.count;
    }
    found.count = errors.count.saturating_sub(found.mentions);
    found.shown.sort_by_key(Finding::weight);
    Ok(found)
}

impl Findings {
    /// Adds an error, unless a line near it says the same.
    fn add(&mut self, finding: Finding) {
        let says_it = |other: &Finding| {
            let (one, two) = (other.message.as_str(), finding.message.as_str());
            let near = other.at.line.abs_diff(finding.at.line) < NEAR;
            near && (one.contains(two) || two.contains(one))
        };
        if !self.shown.iter().any(says_it) {
            self.shown.push(finding);
        }
    }
}

impl Finding {
    fn new(at: &ErrorLine, lines: &Surroundings) -> Self {
        // Exits and counts are of the whole.
        let is_of_all = matches!(at.rank, ErrorRank::Exit | ErrorRank::Tally);
        let owner = if is_of_all { None } else { owner(lines) };
        Self { at: *at, message: message(lines), owner, is_logged: is_logged(lines) }
    }

    /// Returns a number that is smaller for what tells more. What occurred often did not end the
    /// program.
    fn weight(&self) -> (ErrorRank, bool) {
        let is_often = self.at.times >= OFTEN;
        match self.at.rank {
            ErrorRank::Cause if is_often && self.is_logged => (ErrorRank::Report, true),
            rank => (rank, is_often),
        }
    }
}

fn judged(subject: &Subject<'_>, at: &ErrorLine, lines: &Surroundings) -> bool {
    let succeeded = subject.record.provenance.exit_code == Some(0);
    let is_marked = matches!(at.rank, ErrorRank::Error | ErrorRank::Logged);
    (!succeeded || is_marked || ENTRY.is_match(lines.own()))
        && !is_quoted(lines)
        && !is_handled(lines)
        && !is_of_passing_test(lines)
        && !goes_on(lines)
}

/// Returns true for what a test printed that passed: `test_a ... ERROR x`, and `ok` below.
fn is_of_passing_test(lines: &Surroundings) -> bool {
    let test = |line: &str| TEST.is_match(line);
    let above = || lines.above().take(TEST_LINES).find(|line| test(line) || line.is_empty());
    let begins = test(lines.own()) || above().is_some_and(test);
    let end = lines.below().take(TEST_LINES).find(|line| test(line) || PASSED.is_match(line));
    begins && end.is_some_and(|line| PASSED.is_match(line))
}

/// Returns true for a further line of pytest's explanation that names no exception.
fn goes_on(lines: &Surroundings) -> bool {
    let explains = |line: &str| line.starts_with("E  ");
    let is_further = lines.above().next().is_some_and(explains);
    explains(lines.own()) && is_further && !EXCEPTION.is_match(lines.own())
}

/// Returns true for an exception that a program has logged as a remark, and for a failed task of
/// Ansible that it ignores.
fn is_handled(lines: &Surroundings) -> bool {
    let is_ignored = lines.below().next() == Some("...ignoring");
    is_ignored || entry_above(lines).is_some_and(|entry| REMARK.is_match(entry))
}

/// Returns true for an exception that a program has logged.
fn is_logged(lines: &Surroundings) -> bool {
    entry_above(lines).is_some_and(|entry| ENTRY.is_match(entry))
}

/// Returns the line above the stack trace of an exception.
fn entry_above(lines: &Surroundings) -> Option<&str> {
    let is_trace = TRACE.is_match(lines.own());
    lines.above().find(|line| !TRACE.is_match(line)).filter(|_| is_trace)
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a pattern of this file")
}

/// A test that is about to run, and one that passed.
static TEST: LazyLock<Regex> = LazyLock::new(|| regex(r"^\S.* \.\.\. "));
static PASSED: LazyLock<Regex> = LazyLock::new(|| regex(r"^ok$|\.\.\. ok$"));
static EXCEPTION: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^E\s+([a-zA-Z_]\w*\.)*[A-Z]\w*(Error|Exception|Failed)\b"));
/// The beginning of an entry of a log: its time.
static ENTRY: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^\W{0,3}(\d{4}[-/]\d\d[-/]\d\d[ T]|\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:|\d+:[A-Z] \d\d )",
    )
});
/// A line of a stack trace: a heading, a frame, a cause.
static TRACE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^\s+at |^\s+\.\.\. \d+ more|^\s*Caused by: |^\s+File |^\s{4}|^Traceback |^([a-zA-Z_]\w*\.)*[A-Z]\w*(Error|Exception)\b",
    )
});
static REMARK: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^.{0,60}?\b(WARN|WARNING|DEBUG|TRACE)\b|^W\d{4} \d\d:"));
