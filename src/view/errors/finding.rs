//! The errors of an output as a reader needs them: judged by what stands around them.

use std::io;

use crate::errors::handled::{is_entry, is_handled, is_logged};
use crate::errors::json;
use crate::errors::json::ErrorRecord;
use crate::errors::message::message;
use crate::errors::owner::{has_place, owner};
use crate::errors::passed::is_of_passing_test;
use crate::errors::quoted::is_quoted;
use crate::errors::surroundings::Surroundings;
use ctxfs_core::materialize::Pattern;
use ctxfs_core::model::{Content, ErrorLine, ErrorRank, Json, Subject};

/// Lines alike from which on they did not end the program.
const OFTEN: u64 = 3;
/// The end of the output of a tracer.
const SUCCESS: &[u8] = b"+++ exited with 0 +++\n";
/// Lines between two errors, of which one says what the other does.
const NEAR: u64 = 8;

/// An error with what it says and what it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The line.
    pub(crate) at: ErrorLine,
    /// Its text in one line, with the lines that complete it.
    pub(crate) message: String,
    /// The test, file or step that it belongs to, if another line tells that.
    pub(crate) owner: Option<String>,
    /// True for an exception that a program has logged.
    is_logged: bool,
}

/// The errors of an output, judged by what stands around them.
pub(crate) struct Findings {
    /// The most telling of them, best first.
    pub(crate) shown: Vec<Finding>,
    /// Others, which tell nothing more.
    pub(crate) lesser: Vec<Finding>,
    /// The number of lines that are errors.
    pub(crate) count: u64,
    /// The number of lines that only mention errors.
    pub(crate) mentions: u64,
}

/// Judges the lines of an output that look like errors. In the output of a call that succeeded,
/// only what is marked as an error is one.
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
    for at in &errors.shown {
        match Finding::of(subject, at)? {
            Some(finding) => found.add(finding),
            None => found.mentions += at.times,
        }
    }
    if found.shown.iter().all(Finding::is_usual_call) && has_traced_success(subject.content)? {
        found.shown.clear();
    }
    if found.shown.is_empty() {
        found.mentions = errors.count;
    }
    found.count = errors.count.saturating_sub(found.mentions);
    found.part_with_lesser();
    found.shown.sort_by_key(Finding::weight);
    Ok(found)
}

impl Findings {
    /// Adds an error, unless a line near it says the same of the same.
    fn add(&mut self, finding: Finding) {
        let says_it = |other: &Finding| {
            let (one, two) = (other.message.as_str(), finding.message.as_str());
            let near = other.at.line.abs_diff(finding.at.line) < NEAR;
            let owners = other.owner.as_ref().zip(finding.owner.as_ref());
            let same = owners.is_none_or(|(one, two)| one.contains(two) || two.contains(one));
            near && same && (one.contains(two) || two.contains(one))
        };
        if !self.shown.iter().any(says_it) {
            self.shown.push(finding);
        }
    }

    /// Parts with remarks on the way to a reason that is known, and, in the output of a tracer,
    /// calls that fail in a usual way if anything else is known.
    fn part_with_lesser(&mut self) {
        let has = |ranks: &[ErrorRank]| {
            self.shown.iter().any(|finding| ranks.contains(&finding.weight().0))
        };
        let has_reason = self.shown.iter().any(Finding::is_reason);
        let has_other = has_reason || has(&[ErrorRank::Logged, ErrorRank::Report]);
        let tells = |finding: &Finding| match finding.weight() {
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
    /// Returns the error that a line is, or the last of those like it. What a program did not log
    /// itself comes first. Returns `None` if they only mention errors.
    fn of(subject: &Subject<'_>, first: &ErrorLine) -> io::Result<Option<Self>> {
        let found = Self::at(subject, *first)?;
        let Some(last) = first.last.filter(|_| found.as_ref().is_none_or(|found| found.is_logged))
        else {
            return Ok(found);
        };
        let last = ErrorLine { line: last.line, offset: last.offset, last: None, ..*first };
        let last = Self::at(subject, last)?;
        Ok(if last.as_ref().is_some_and(|last| !last.is_logged) { last } else { found.or(last) })
    }

    fn at(subject: &Subject<'_>, at: ErrorLine) -> io::Result<Option<Self>> {
        let lines = Surroundings::read(subject.content, &at)?;
        Ok(judged(subject, &at, &lines).then(|| Self::new(at, &lines)))
    }

    fn new(at: ErrorLine, lines: &Surroundings) -> Self {
        // Exits and counts are of the whole.
        let is_of_all = matches!(at.rank, ErrorRank::Exit | ErrorRank::Tally);
        let owner = if is_of_all { None } else { owner(lines) };
        Self { at, message: message(lines), owner, is_logged: is_logged(lines) }
    }

    /// Returns true for a traced call that fails in a usual way: a program looks for a file.
    fn is_usual_call(&self) -> bool {
        self.at.rank == ErrorRank::Outer && CALL.is_match(&self.message)
    }

    /// Returns true if it tells why and where the call failed, and not only that a command did.
    fn is_reason(&self) -> bool {
        let has_place = || self.owner.is_some() || has_place(&self.message);
        let tells = match self.weight().0 {
            ErrorRank::Cause => true,
            ErrorRank::Error => has_place(),
            _ => false,
        };
        tells && !WRAPPER.is_match(&self.message)
    }

    /// Returns a number that is smaller for what tells more. What occurred often did not end the
    /// program.
    fn weight(&self) -> (ErrorRank, bool) {
        let is_often = self.at.times >= OFTEN;
        match self.at.rank {
            ErrorRank::Cause if is_often && self.is_logged => (ErrorRank::Report, true),
            ErrorRank::Cause if WRAPPER.is_match(&self.message) => (ErrorRank::Exit, is_often),
            rank => (rank, is_often),
        }
    }
}

fn judged(subject: &Subject<'_>, at: &ErrorLine, lines: &Surroundings) -> bool {
    let succeeded = subject.record.provenance.exit_code == Some(0);
    let is_marked = matches!(at.rank, ErrorRank::Error | ErrorRank::Logged);
    (!succeeded || is_marked || is_entry(lines.own()))
        && !is_quoted(lines, is_marked_strongly(at, lines))
        && !is_handled(lines)
        && !is_of_passing_test(lines)
        && !goes_on(lines)
}

/// Returns true for the output of a tracer whose program succeeded.
fn has_traced_success(content: &dyn Content) -> io::Result<bool> {
    let start = content.len().saturating_sub(SUCCESS.len() as u64);
    Ok(content.bytes(start, SUCCESS.len())? == SUCCESS)
}

/// Returns true for what only errors look like, at the beginning of a line.
fn is_marked_strongly(at: &ErrorLine, lines: &Surroundings) -> bool {
    matches!(at.rank, ErrorRank::Cause | ErrorRank::Error) && !lines.own().starts_with([' ', '\t'])
}

/// Returns true for a further line of pytest's explanation that names no exception.
fn goes_on(lines: &Surroundings) -> bool {
    let explains = |line: &str| line.starts_with("E  ");
    let is_further = lines.above().next().is_some_and(explains);
    explains(lines.own()) && is_further && !EXCEPTION.is_match(lines.own())
}

/// The failure of a command that another one ran.
static WRAPPER: Pattern = Pattern::new(
    r"[Ee]xit(ed)?( with)?( non-zero)? (code|status)|[Ee]xited with|[Cc]ommand failed",
);
static CALL: Pattern = Pattern::with(" = -1 E", r"^(\[pid +\d+\] )?\w+\(.* = -1 E\w+ ");
static EXCEPTION: Pattern =
    Pattern::with("E ", r"^E\s+([a-zA-Z_]\w*\.)*[A-Z]\w*(Error|Exception|Failed)\b");
