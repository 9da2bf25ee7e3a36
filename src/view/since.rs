//! `.since`: the changes in an output since an earlier one, usually the output of the last run of
//! the same command.
//!
//! Errors come first: fixed, new and the same. Errors are compared by their messages and owners, so
//! an error whose place moved is the same. The line difference follows, as `diff -u` prints it. Both
//! ignore texts that differ from run to run ([`alike`]).

mod alike;
mod lines;

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Write};
use std::ops::ControlFlow;

use crate::errors::{Finding, error_line, findings};
use crate::grep::page::long_lines;
use crate::number::{counted, grouped};
use crate::range::number;
use crate::rendered::notice;
use crate::since::alike::{alike, alike_elsewhere};
use crate::since::lines::{DiffEnd, LineDiff, compare};
use crate::{RenderError, Rendered, kind};
use ctxfs_core::materialize::{LikenessHasher, Pattern, error_lines};
use ctxfs_core::model::{
    Analysis, Change, Component, Earlier, ErrorLine, ErrorRank, Errors, Json, Since, Subject,
};

/// Maximum size in bytes of outputs that are compared when they are recorded.
pub const COMPARED_BYTES: u64 = 1 << 20;
// All errors of an output up to this size are compared. The analysis of a larger one has only the
// most informative.
const ALL_ERRORS_BYTES: u64 = 4 << 20;
const MAX_ERRORS: usize = 500;
// Maximum sizes in bytes of a list of errors, and of the notices and headings around them.
const LIST_BYTES: usize = 6000;
const RESERVE: usize = 1200;
// Exit codes from this one on mean that a signal ended the command.
const SIGNALED: i32 = 128;

/// The output that `.since-run/` compares with: the name of a file in the directories of artifacts,
/// the id of a call, or the number of a run of the same command.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EarlierName(Component);

impl EarlierName {
    pub(super) fn parse(name: &OsStr) -> Option<Self> {
        Component::new(name).ok().map(Self)
    }

    /// Returns the name.
    pub fn name(&self) -> &Component {
        &self.0
    }

    /// Returns the number of the run that the name may mean.
    pub fn number(&self) -> Option<u64> {
        self.0.as_os_str().to_str().and_then(number)
    }
}

impl fmt::Display for EarlierName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.as_os_str().display())
    }
}

pub(super) fn render(
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    let (run, earlier) = match subject.earlier {
        Earlier::Output { run, output } => (run, output),
        Earlier::Missing(why) => return Ok(Rendered::noted(format!("# {why}\n"))),
        Earlier::None => return Ok(Rendered::noted(unknown(subject))),
    };
    let heading = heading(run, earlier, subject);
    if is_same(earlier, subject) {
        writeln!(out, "# {heading}: the same bytes")?;
        return Ok(Rendered::plain());
    }
    if earlier.analysis.is_binary() || subject.analysis.is_binary() {
        let [before, now] = [earlier, subject]
            .map(|it| format!("{} of {}", counted(it.size(), "byte"), kind::full(it.analysis)));
        writeln!(out, "# {heading}: {now}, before {before}; not text, so not compared further")?;
        return Ok(Rendered::plain());
    }
    let errors = ErrorChanges::of(earlier, subject)?;
    let mut body = Vec::new();
    let [before, now] = [earlier, subject].map(|it| it.place.name());
    let gone = if errors.fixed { "fixed" } else { "gone" };
    write_errors(gone, (&errors.gone, before), &mut body);
    write_errors("new", (&errors.new, now), &mut body);
    write_errors("same", (&errors.same, now), &mut body);
    let mut hunks = Vec::new();
    let room = subject.view_bytes().saturating_sub(body.len() + RESERVE + heading.len());
    let contents = [earlier.content, subject.content];
    let diff = compare(contents, room, expired, Some(&mut hunks))?;
    let is_whole = matches!(diff.end, DiffEnd::Whole);
    let text = match (diff.removed + diff.added, is_whole) {
        (0, true) => "the same but for times, durations, addresses and temporary names".to_owned(),
        _ => [errors.text(), Some(lines_text(&diff))]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("; "),
    };
    writeln!(out, "# {heading}: {text}")?;
    out.write_all(&body)?;
    if !hunks.is_empty() {
        writeln!(out, "--- lines: - {before}, + {now} ---")?;
        out.write_all(&hunks)?;
    }
    let [old, new] = [earlier, subject].map(|it| it.place.of_view(".lines").path_for_reader());
    let goes_on = |why: &str, [before, now]: [u64; 2]| {
        format!("{why}; go on at {new}/{now}+200, before {old}/{before}+200")
    };
    let notices = [
        match diff.end {
            DiffEnd::Whole => None,
            DiffEnd::Room(at) => Some(goes_on("not all lines that differ are shown", at)),
            DiffEnd::Time(at) => Some(goes_on("out of time", at)),
            DiffEnd::Apart(at) => {
                Some(goes_on("from here on, the next lines have nothing in common", at))
            }
        },
        (!errors.is_complete).then(|| "not all errors were compared".to_owned()),
        diff.long.map(|at| long_lines("", at)),
        incomplete("the earlier output", earlier),
        incomplete("this output", subject),
    ];
    let whole = !matches!(diff.end, DiffEnd::Time(_))
        && [earlier, subject].iter().all(|it| it.analysis.bytes == it.content.len());
    Ok(Rendered { notice: notice(notices.into_iter().flatten()), whole })
}

/// Returns the difference between an output and an earlier one, for the record of the output.
/// Outputs of more than 1 MiB are compared by their digests alone.
pub fn change(earlier: &Subject<'_>, subject: &Subject<'_>) -> io::Result<Change> {
    if is_same(earlier, subject) {
        return Ok(Change::Same);
    }
    let both = [earlier, subject];
    let is_small = |it: &&Subject<'_>| {
        let analysis = it.analysis;
        let is_text = !analysis.is_binary() && analysis.bytes == it.content.len();
        is_text && it.content.len() <= COMPARED_BYTES && it.record.incomplete().is_none()
    };
    if !both.iter().all(is_small) {
        return Ok(Change::Other);
    }
    let diff = compare(both.map(|it| it.content), 0, &|| false, None)?;
    let LineDiff { removed, added, end, .. } = diff;
    let is_whole = end == DiffEnd::Whole;
    if is_whole && removed + added == 0 {
        return Ok(Change::Alike);
    }
    let errors = ErrorChanges::of(earlier, subject)?;
    let [gone, new, same] = [&errors.gone, &errors.new, &errors.same].map(|list| list.len() as u64);
    Ok(match gone + new + same {
        _ if !errors.is_complete => Change::Other,
        0 if is_whole => Change::Lines { removed, added },
        0 => Change::Other,
        _ => Change::Errors { gone, new, same, fixed: errors.fixed },
    })
}

/// Formats the line of a summary about the last run of the same command: `since run 3 (4 min ago):
/// fixed 3, new 1, same 12`. Returns `None` if there was none.
pub(super) fn line(subject: &Subject<'_>) -> Option<String> {
    let record = subject.record;
    let Since { run, path, ago, change, .. } =
        record.since.as_ref().filter(|since| since.generation == record.generation)?;
    let name = path.rsplit('/').next().unwrap_or(path);
    let text = match change {
        Change::Same => format!("the same output as {name}"),
        Change::Alike => {
            format!("as {name}, but for times, durations, addresses and temporary names")
        }
        Change::Errors { gone, new, same, fixed } => {
            counts_text([*gone, *new, *same], *fixed) + "    .since"
        }
        Change::Lines { removed, added } => {
            format!("{} removed, {} added    .since", counted(*removed, "line"), grouped(*added))
        }
        Change::Other => "another output    .since".to_owned(),
    };
    Some(format!("since run {} ({}): {text}", grouped(*run), self::ago(*ago)))
}

fn counts_text([gone, new, same]: [u64; 3], fixed: bool) -> String {
    let [gone, new, same] = [gone, new, same].map(grouped);
    format!("{} {gone}, new {new}, same {same}", if fixed { "fixed" } else { "gone" })
}

// Returns `4 min ago`.
fn ago(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} ago", counted(seconds / 86400, "day")),
    }
}

fn unknown(subject: &Subject<'_>) -> String {
    let view = subject.place.of_view(".since-run/CALL").path_for_reader();
    format!(
        "# no earlier run of this command is stored in the conversation. {view} compares with the \
         output of any other call\n"
    )
}

fn heading(run: Option<u64>, earlier: &Subject<'_>, subject: &Subject<'_>) -> String {
    let between = subject.record.created - earlier.record.created;
    let when = match u64::try_from(between) {
        Ok(millis) => ago(millis),
        Err(_) => "a later output".to_owned(),
    };
    let name = earlier.place.name();
    match run {
        Some(run) => format!("since run {} ({name}, {when})", grouped(run)),
        None => format!("since {name} ({when})"),
    }
}

fn is_same(earlier: &Subject<'_>, subject: &Subject<'_>) -> bool {
    let both = [earlier, subject];
    both.iter().all(|it| it.analysis.bytes == it.content.len())
        && earlier.size() == subject.size()
        && earlier.analysis.digest == subject.analysis.digest
}

fn incomplete(what: &str, subject: &Subject<'_>) -> Option<String> {
    let why = subject.record.incomplete()?;
    Some(format!("{what} is incomplete ({why}), so what is missing in it may only be cut off"))
}

fn lines_text(diff: &LineDiff) -> String {
    let least = if diff.end == DiffEnd::Whole { "" } else { "at least " };
    let removed = counted(diff.removed, "line");
    format!("{least}{removed} removed, {} added", grouped(diff.added))
}

fn write_errors(what: &str, (list, name): (&[Finding], &str), body: &mut Vec<u8>) {
    if list.is_empty() {
        return;
    }
    let (start, count) = (body.len(), grouped(list.len() as u64));
    body.extend_from_slice(format!("--- {what}: {count}, lines of {name} ---\n").as_bytes());
    for (index, finding) in list.iter().enumerate() {
        let line = error_line(finding) + "\n";
        if body.len() - start + line.len() > LIST_BYTES {
            let more = counted((list.len() - index) as u64, "more error");
            body.extend_from_slice(format!("# and {more}\n").as_bytes());
            break;
        }
        body.extend_from_slice(line.as_bytes());
    }
}

/// The errors of the earlier output alone, of the later one alone, and of both. `fixed` is true if
/// the later run got as far as the earlier one. `is_complete` is false if one of the outputs has more
/// errors than were compared.
struct ErrorChanges {
    gone: Vec<Finding>,
    new: Vec<Finding>,
    same: Vec<Finding>,
    fixed: bool,
    is_complete: bool,
}

impl ErrorChanges {
    fn of(earlier: &Subject<'_>, subject: &Subject<'_>) -> io::Result<Self> {
        let FoundErrors { own: mut gone, is_complete: had_all, .. } = FoundErrors::of(earlier)?;
        let FoundErrors { own: mut new, is_complete: has_all, lines } = FoundErrors::of(subject)?;
        let is_reason = |finding: &Finding| finding.at.rank != ErrorRank::Tally;
        // The name of a failed test repeats the reason.
        if gone.iter().chain(&new).any(is_reason) {
            gone.retain(is_reason);
            new.retain(is_reason);
        }
        let is_complete = had_all && has_all;
        let second = |finding: &Finding| {
            // One error stands for all that differ from it in numbers.
            if is_complete { moved_key(finding) } else { number_key(finding) }
        };
        let keys: [ErrorKey<'_>; 3] =
            [&|finding| Some(exact_key(finding)), &|finding| Some(second(finding)), &owner_key];
        let mut same = Vec::new();
        for key in keys {
            let mut known: HashMap<u64, Vec<Finding>> = HashMap::new();
            for finding in std::mem::take(&mut gone) {
                match key(&finding) {
                    Some(key) => known.entry(key).or_default().push(finding),
                    None => gone.push(finding),
                }
            }
            for finding in std::mem::take(&mut new) {
                let found = key(&finding).and_then(|key| known.get_mut(&key)?.pop());
                if found.is_some() { same.push(finding) } else { new.push(finding) }
            }
            gone.extend(known.into_values().flatten());
        }
        // A line that is no error because the later run succeeded has not gone.
        let mut is_gone = |finding: &Finding| -> io::Result<bool> {
            let line = earlier.content.bytes(finding.at.offset, finding.at.length as usize)?;
            Ok(!lines.contains(&alike(&line)))
        };
        let went: Vec<bool> = gone.iter().map(&mut is_gone).collect::<io::Result<_>>()?;
        let mut went = went.into_iter();
        gone.retain(|_| went.next().unwrap_or(true));
        for list in [&mut gone, &mut new, &mut same] {
            list.sort_by_key(|finding| finding.at.line);
        }
        let code = subject.record.provenance.exit_code.unwrap_or(0);
        let is_unexplained = code != 0 && new.is_empty() && same.is_empty();
        let has_ended = code < SIGNALED && subject.record.incomplete().is_none();
        let got_far = has_ended && !is_unexplained && (new.is_empty() || !same.is_empty());
        let fixed = got_far || gone.is_empty();
        Ok(Self { gone, new, same, fixed, is_complete })
    }

    fn text(&self) -> Option<String> {
        let counts = [&self.gone, &self.new, &self.same].map(|list| list.len() as u64);
        (counts.iter().sum::<u64>() > 0).then(|| counts_text(counts, self.fixed))
    }
}

// Returns the key of an error, or `None` if the errors of this kind have none.
type ErrorKey<'a> = &'a dyn Fn(&Finding) -> Option<u64>;

/// The errors of an output, each once, without exit codes, totals and outer exceptions.
/// `is_complete` is true if these are all errors of the output. `lines` has the hashes of all lines
/// that look like errors, if all of these were found.
struct FoundErrors {
    own: Vec<Finding>,
    is_complete: bool,
    lines: HashSet<u64>,
}

impl FoundErrors {
    fn of(subject: &Subject<'_>) -> io::Result<Self> {
        let (content, analysis) = (subject.content, subject.analysis);
        let is_listed = content.len() > ALL_ERRORS_BYTES
            || matches!(analysis.json, Json::Document { .. })
            || analysis.errors.count == 0;
        let mut lines = HashSet::new();
        let (found, is_complete) = if is_listed {
            let has_all = analysis.errors.shown.len() as u64 == analysis.errors.count
                && analysis.bytes == content.len();
            (findings(subject)?, has_all)
        } else {
            let bytes = content.bytes(0, ALL_ERRORS_BYTES as usize)?;
            let errors = each_error(&bytes, &mut lines);
            let is_complete = errors.shown.len() < MAX_ERRORS;
            let analysis = Analysis { errors, ..analysis.clone() };
            (findings(&Subject { analysis: &analysis, ..*subject })?, is_complete)
        };
        let mut seen = HashSet::new();
        let is_own = |finding: &Finding| {
            let is_of_all = match finding.at.rank {
                ErrorRank::Exit | ErrorRank::Outer => true,
                ErrorRank::Tally => TOTAL.is_match(&finding.message),
                _ => false,
            };
            !is_of_all && seen.insert(exact_key(finding))
        };
        let mut own = found.shown;
        own.retain(is_own);
        Ok(Self { own, is_complete, lines })
    }
}

// Returns the error lines of an output, most informative first, of lines that are alike only the
// first. Adds their hashes to `seen`.
fn each_error(bytes: &[u8], seen: &mut HashSet<u64>) -> Errors {
    let lines = || bytes.split(|byte| *byte == b'\n');
    let mut matches = error_lines(lines()).into_iter().peekable();
    let mut errors = Errors::default();
    let mut offset = 0;
    let _all = lines().enumerate().try_for_each(|(index, line)| {
        if let Some(found) = matches.next_if(|found| found.index == index) {
            errors.count += 1;
            let head = &line[..line.len().min(MAX_LENGTH)];
            if seen.insert(alike(head)) {
                let length = head.len() as u32;
                let line = index as u64 + 1;
                errors.shown.push(ErrorLine {
                    line,
                    offset,
                    length,
                    rank: found.rank,
                    times: 1,
                    last: None,
                });
            }
        }
        offset += line.len() as u64 + 1;
        let is_over = matches.peek().is_none() || errors.shown.len() == MAX_ERRORS;
        if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    errors.shown.sort_by_key(|error| error.rank);
    errors
}

// Maximum of `ErrorLine::length`.
const MAX_LENGTH: usize = 4096;

fn text_of(finding: &Finding) -> String {
    format!("{}\n{}", finding.message, finding.owner.as_deref().unwrap_or_default())
}

fn exact_key(finding: &Finding) -> u64 {
    alike(text_of(finding).as_bytes())
}

// The key of an error whose line may have moved.
fn moved_key(finding: &Finding) -> u64 {
    alike_elsewhere(&text_of(finding))
}

// The key of an error and of all that differ from it in numbers.
fn number_key(finding: &Finding) -> u64 {
    LikenessHasher::default().of(text_of(finding).as_bytes())
}

// The key of a test that fails in another way.
fn owner_key(finding: &Finding) -> Option<u64> {
    let name = finding.owner.as_deref()?.split(", ").next()?;
    let is_test = !FILE.is_match(name);
    is_test.then(|| alike(name.as_bytes()))
}

// The number of failures in a whole run.
static TOTAL: Pattern = Pattern::new(
    r"\b\d+( \w+)? ([Pp]assed|[Ff]ailed|[Ff]ailures?|[Ee]rrors?|[Ff]ailing|[Pp]assing)\b|(?i)\b(failures?|failed|errors?)[=:] ?\d",
);
// A file, or a place in one.
static FILE: Pattern = Pattern::new(r"\.[A-Za-z]\w{0,4}($|[:(]\[?\d)|File \x22");

#[cfg(test)]
mod tests;
