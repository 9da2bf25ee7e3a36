//! The errors of an output, classified by the lines around them.

use std::io;

use crate::errors::context::{ContextReader, ErrorContext};
use crate::errors::json;
use crate::errors::json::ErrorRecord;
use crate::errors::message::message;
use crate::errors::owner::{PLACE, owner};
use crate::errors::quoted::is_quoted;
use crate::errors::tolerated::{ENTRY, is_handled, is_logged, is_of_passing_test};
use crate::errors::traced::failed_step;
use crate::number::counted;
use ctxfs_core::materialize::Pattern;
use ctxfs_core::model::{Content, ErrorLine, ErrorRank, Json, Subject};

// A line that repeats at least this often did not end the program.
const OFTEN_TIMES: u64 = 3;
// The last line of strace output for a program that succeeded.
const TRACER_SUCCESS: &[u8] = b"+++ exited with 0 +++\n";
// Two errors fewer than this many lines apart may be the same error, printed twice.
const NEAR_LINES: u64 = 8;

/// An error, with its message and its owner: the test, file or step that it belongs to. `owner` is
/// `None` if neither a line nearby nor a field of the line itself names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) at: ErrorLine,
    pub(crate) message: String,
    pub(crate) owner: Option<String>,
    is_logged: bool,
}

/// The errors of an output. `shown` has the most informative errors, best first. `lesser` has
/// errors that add nothing to `shown`. `count` is the number of error lines, and `mentions` is the
/// number of lines that only mention errors.
pub(crate) struct Findings {
    pub(crate) shown: Vec<Finding>,
    pub(crate) lesser: Vec<Finding>,
    pub(crate) count: u64,
    pub(crate) mentions: u64,
}

/// Classifies the lines of an output that look like errors. If the call succeeded, only lines that
/// are explicitly marked as errors count.
pub(crate) fn findings(subject: &Subject<'_>) -> io::Result<Findings> {
    let errors = &subject.analysis.errors;
    let is_document = matches!(subject.analysis.json, Json::Document { .. });
    let count = if is_document { 0 } else { errors.count };
    let mut found = Findings { shown: Vec::new(), lesser: Vec::new(), count, mentions: 0 };
    if let Some(records) = json::records(subject)? {
        let finding = |ErrorRecord { at, message, owner, .. }| Finding {
            at,
            message,
            owner,
            is_logged: false,
        };
        return Ok(Findings { shown: records.into_iter().map(finding).collect(), ..found });
    }
    let mut reader = ContextReader::new(subject.content);
    for at in &errors.shown {
        match Finding::of(subject, &mut reader, at)? {
            Some(finding) => found.add(finding),
            None => found.mentions += at.times,
        }
    }
    if found.shown.iter().all(Finding::is_usual_call) && has_traced_success(subject.content)? {
        found.shown.clear();
    }
    let is_call = |finding: &Finding| CALL.is_match(&finding.message);
    if (found.shown.is_empty() || found.shown.iter().any(is_call))
        && let Some(step) = failed_step(subject, &mut reader)?
    {
        found.shown.retain(|finding| finding.at.line != step.line);
        found.shown.push(Finding::new(step, &reader.read(&step)?));
    }
    if found.shown.is_empty() {
        found.mentions = errors.count;
    }
    found.count = errors.count.saturating_sub(found.mentions).max(found.shown.len() as u64);
    found.part_with_lesser();
    found.shown.sort_by_key(Finding::weight);
    Ok(found)
}

impl Findings {
    pub(super) fn all(&self) -> impl Iterator<Item = &Finding> {
        self.shown.iter().chain(&self.lesser)
    }

    /// Returns the number of kinds of errors: `3 kinds`, `at least 9 kinds`.
    pub(crate) fn kinds(&self) -> String {
        let lines: u64 = self.all().map(|finding| finding.at.times).sum();
        let least = if lines < self.count { "at least " } else { "" };
        format!("{least}{}", counted(self.all().count() as u64, "kind"))
    }

    fn add(&mut self, finding: Finding) {
        let says_it = |other: &Finding| {
            let (one, two) = (other.message.as_str(), finding.message.as_str());
            let near = other.at.line.abs_diff(finding.at.line) < NEAR_LINES;
            let owners = other.owner.as_ref().zip(finding.owner.as_ref());
            let same = owners.is_none_or(|(one, two)| one.contains(two) || two.contains(one));
            near && same && (one.contains(two) || two.contains(one))
        };
        if !self.shown.iter().any(says_it) {
            self.shown.push(finding);
        }
    }

    /// Moves errors to `lesser` if they add nothing once the reason of the failure is known. Also
    /// moves banners and traced system calls that commonly fail, if any other error is known.
    fn part_with_lesser(&mut self) {
        let has = |ranks: &[ErrorRank]| {
            self.shown.iter().any(|finding| ranks.contains(&finding.weight().0))
        };
        let has_reason = self.shown.iter().any(Finding::is_reason);
        let has_other = has_reason || has(&[ErrorRank::Logged, ErrorRank::Report]);
        let is_banner = |finding: &Finding| BANNER.is_match(&finding.message);
        let has_banners_alone = self.shown.iter().all(is_banner);
        let tells = |finding: &Finding| match finding.weight() {
            _ if is_banner(finding) => has_banners_alone,
            (ErrorRank::Report, _) | (ErrorRank::Logged | ErrorRank::Tally, true) => !has_reason,
            (ErrorRank::Tally, _) => !has_reason || !finding.message.starts_with("Traceback "),
            (ErrorRank::Outer, _) => !has_other || !finding.is_usual_call(),
            _ => true,
        };
        let shown = std::mem::take(&mut self.shown);
        (self.shown, self.lesser) = shown.into_iter().partition(tells);
    }
}

impl Finding {
    /// Classifies the first line of a series of similar lines. If that line is only a log message,
    /// also classifies the last line of the series and prefers it if it is not a log message.
    /// Returns `None` if both lines only mention errors.
    fn of(
        subject: &Subject<'_>,
        reader: &mut ContextReader<'_>,
        first: &ErrorLine,
    ) -> io::Result<Option<Self>> {
        let mut at = |at: ErrorLine| {
            let lines = reader.read(&at)?;
            io::Result::Ok(judged(subject, &at, &lines).then(|| Self::new(at, &lines)))
        };
        let found = at(*first)?;
        let Some(last) = first.last.filter(|_| found.as_ref().is_none_or(|found| found.is_logged))
        else {
            return Ok(found);
        };
        let last = ErrorLine { line: last.line, offset: last.offset, last: None, ..*first };
        let last = at(last)?;
        Ok(if last.as_ref().is_some_and(|last| !last.is_logged) { last } else { found.or(last) })
    }

    fn new(at: ErrorLine, lines: &ErrorContext) -> Self {
        // Exit codes and totals describe the whole run.
        let is_of_all = matches!(at.rank, ErrorRank::Exit | ErrorRank::Tally);
        let owner = if is_of_all { None } else { owner(lines) };
        Self { at, message: message(lines), owner, is_logged: is_logged(lines) }
    }

    /// Returns true if the line itself says what went wrong, and no log does.
    pub(super) fn is_telling(&self) -> bool {
        matches!(self.at.rank, ErrorRank::Cause | ErrorRank::Error) && !self.is_logged
    }

    /// Returns true for a traced system call that commonly fails, such as a lookup of a file along
    /// a search path.
    fn is_usual_call(&self) -> bool {
        self.at.rank == ErrorRank::Outer && CALL.is_match(&self.message)
    }

    /// Returns true if the error says why or where the call failed, and not only that a command
    /// failed.
    fn is_reason(&self) -> bool {
        let has_place = || self.owner.is_some() || PLACE.is_match(&self.message);
        let tells = match self.weight().0 {
            ErrorRank::Cause => true,
            ErrorRank::Error => has_place(),
            _ => false,
        };
        tells && !WRAPPER.is_match(&self.message)
    }

    /// Returns the sort key: more informative errors have smaller keys. An error that occurs often
    /// is less informative, because it did not end the program.
    fn weight(&self) -> (ErrorRank, bool) {
        let is_often = self.at.times >= OFTEN_TIMES;
        match self.at.rank {
            ErrorRank::Cause if is_often && self.is_logged => (ErrorRank::Report, true),
            ErrorRank::Cause if WRAPPER.is_match(&self.message) => (ErrorRank::Exit, is_often),
            rank => (rank, is_often),
        }
    }
}

fn judged(subject: &Subject<'_>, at: &ErrorLine, lines: &ErrorContext) -> bool {
    let succeeded = subject.record.provenance.exit_code == Some(0);
    let is_marked = matches!(at.rank, ErrorRank::Error | ErrorRank::Logged);
    (!succeeded || is_marked || ENTRY.is_match(lines.own()))
        && !is_quoted(lines, is_marked_strongly(at, lines))
        && !is_handled(lines)
        && !is_of_passing_test(lines)
}

fn has_traced_success(content: &dyn Content) -> io::Result<bool> {
    let start = content.len().saturating_sub(TRACER_SUCCESS.len() as u64);
    Ok(content.bytes(start, TRACER_SUCCESS.len())? == TRACER_SUCCESS)
}

// Returns true for an unindented line of a rank that only real errors have.
fn is_marked_strongly(at: &ErrorLine, lines: &ErrorContext) -> bool {
    matches!(at.rank, ErrorRank::Cause | ErrorRank::Error) && !lines.own().starts_with([' ', '\t'])
}

static WRAPPER: Pattern = Pattern::new(
    r"[Ee]xit(ed)?( with)?( non-zero)? (code|status)|[Ee]xited with|[Cc]ommand failed|Failed to import test module",
);
static CALL: Pattern = Pattern::with(" = -1 E", r"^(\[pid +\d+\] |[\d:.]+ +)*\w+\(.* = -1 E\w+ ");
// The banners of pytest.
static BANNER: Pattern = Pattern::new(r"^={3,} (FAILURES|ERRORS) ={3,}$|^!{3,} .* !{3,}$");
