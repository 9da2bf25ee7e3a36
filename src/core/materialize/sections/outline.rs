//! Finds sections that can only be recognized from several lines: in manual pages, under underlined
//! headings, in directory listings, and in search results. Also finds the statuses of access logs.
//!
//! The first lines decide whether the output is a list of search results or an access log. If it is
//! neither, only the beginnings of paragraphs are examined from then on.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::materialize::block::OpenLine;
use crate::materialize::sections::kinds::SectionGroup;
use crate::model::{Section, Sections};

const LINE_BYTES: usize = 256;
const HEADING_BYTES: usize = 80;
// Number of lines after which it is decided whether the output is a list of search results, an
// access log, or neither.
const JUDGED: u64 = 64;
// The line below a heading underlines it if their lengths differ by less than this number of
// characters.
const UNDERLINE: usize = 3;

static BLANK: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\n\n"));

// The kinds of sections, most informative first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutlineKind {
    Listing,
    Underlined,
    Manual,
    Numbered,
}

const KINDS: usize = 4;

/// Finds sections line by line. `inside` is false at the start and after a blank line. `returns` is
/// true if one of the first lines ends with a carriage return.
#[derive(Debug, Clone, Default)]
pub(super) struct OutlineDetector {
    open: OpenLine<LINE_BYTES>,
    found: [SectionGroup; KINDS],
    inside: bool,
    heading: Option<PossibleHeading>,
    returns: bool,
    search: SearchResults,
    statuses: Statuses,
}

#[derive(Debug, Clone)]
struct PossibleHeading {
    line: u64,
    offset: u64,
    text: Vec<u8>,
}

#[derive(Debug, Clone, Default)]
struct SearchResults {
    lines: u64,
    results: u64,
    // True if the output is not a list of search results.
    is_off: bool,
    path: Vec<u8>,
    files: SectionGroup,
}

pub(super) struct OutlineFindings {
    pub(super) sections: Sections,
    pub(super) is_search: bool,
    pub(super) statuses: Vec<(u16, u64)>,
}

impl OutlineDetector {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        loop {
            rest = &rest[self.skipped(rest)..];
            let Some(end) = memchr::memchr(b'\n', rest) else { break };
            self.open.push(&rest[..end]);
            self.end_open();
            rest = &rest[end + 1..];
        }
        self.open.push(rest);
    }

    /// Skips complete lines in the middle of a paragraph, after its first two lines. Returns the
    /// number of skipped bytes.
    fn skipped(&mut self, bytes: &[u8]) -> usize {
        let is_off = self.search.is_off && self.statuses.is_off && self.open.lines >= JUDGED;
        let inside = self.inside && self.heading.is_none() && self.open.is_empty();
        if !is_off || !inside || self.returns || bytes.first() == Some(&b'\n') {
            return 0;
        }
        let last = || memchr::memrchr(b'\n', bytes).map_or(0, |last| last + 1);
        let end = BLANK.find(bytes).map_or_else(last, |blank| blank + 1);
        self.open.lines += memchr::memchr_iter(b'\n', &bytes[..end]).count() as u64;
        self.open.offset += end as u64;
        end
    }

    /// Returns the findings so far. Examines an unfinished last line too. `lines` is the total
    /// number of lines.
    pub(super) fn finish(&self, lines: u64) -> OutlineFindings {
        let mut ended = self.clone();
        if !self.open.is_empty() {
            ended.end_open();
        }
        ended.take_heading(None);
        let statuses = ended.statuses.finish();
        if let Some(sections) = ended.search.finish(lines) {
            return OutlineFindings { sections, is_search: true, statuses };
        }
        let kinds = ended.found.iter().map(|kind| kind.ended(lines));
        let sections = kinds.filter(|kind| kind.divides(lines)).map(SectionGroup::into_sections);
        OutlineFindings {
            sections: { sections }.next().unwrap_or_default(),
            is_search: false,
            statuses,
        }
    }

    fn end_open(&mut self) {
        let mut open = std::mem::take(&mut self.open);
        let length = open.length();
        open.end(|line, number, offset| self.line(line, length, number, offset));
        self.open = open;
    }

    fn line(&mut self, line: &[u8], length: usize, number: u64, offset: u64) {
        let cut = line.len() < length;
        self.returns |= number <= JUDGED && line.ends_with(b"\r");
        let is_return = self.returns && !cut;
        let line = line.strip_suffix(b"\r").filter(|_| is_return).unwrap_or(line);
        self.search.line(line, number, offset);
        self.statuses.line(line);
        self.take_heading(Some(line));
        let apart = !self.inside;
        let is_outside = line.is_empty() || (apart && is_rule(line));
        self.inside = !is_outside;
        if apart && self.inside && line.len() <= HEADING_BYTES && !cut && line[0] != b' ' {
            self.heading = Some(PossibleHeading { line: number, offset, text: line.to_vec() });
        }
    }

    // Decides whether the possible heading is one, from the line below it. `below` is `None` at the
    // end of the output.
    fn take_heading(&mut self, below: Option<&[u8]>) {
        let Some(heading) = self.heading.take() else { return };
        let Some((kind, length)) = heading.kind(below.unwrap_or_default()) else { return };
        let PossibleHeading { line, offset, .. } = heading;
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.found[kind as usize].begin(Section { line, last: line, offset, length });
    }
}

impl PossibleHeading {
    fn kind(&self, below: &[u8]) -> Option<(OutlineKind, usize)> {
        let text = self.text.as_slice();
        let all = text.len();
        if is_rule(below)
            && below.len().abs_diff(String::from_utf8_lossy(text).chars().count()) < UNDERLINE
        {
            return Some((OutlineKind::Underlined, all));
        }
        if text.ends_with(b":") && below.starts_with(b"total ") {
            return Some((OutlineKind::Listing, all - 1));
        }
        if is_capital(text) && below.first().is_some_and(|first| matches!(first, b' ' | b'\t')) {
            return Some((OutlineKind::Manual, all));
        }
        is_numbered(text).then_some((OutlineKind::Numbered, all))
    }
}

// Returns true for a line such as `=====` above or below a heading.
fn is_rule(line: &[u8]) -> bool {
    let Some(first) = line.first().filter(|first| matches!(first, b'=' | b'-' | b'~' | b'^'))
    else {
        return false;
    };
    line.len() >= 3 && line.iter().all(|byte| byte == first)
}

// Matches headings such as `SEE ALSO`.
fn is_capital(text: &[u8]) -> bool {
    let part =
        |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || b" -/,&".contains(byte);
    text.len() >= 3 && text[0].is_ascii_uppercase() && text.iter().all(part)
}

// Matches headings such as `2.1 Results`.
fn is_numbered(text: &[u8]) -> bool {
    let number = text.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    let title = text[number..].trim_ascii_start();
    let ends = title.last().is_some_and(|last| last.is_ascii_alphanumeric() || *last == b')');
    text[0].is_ascii_digit()
        && text.get(number) == Some(&b' ')
        && title.first().is_some_and(u8::is_ascii_uppercase)
        && ends
}

impl SearchResults {
    fn line(&mut self, line: &[u8], number: u64, offset: u64) {
        self.lines += 1;
        self.is_off |= self.lines > JUDGED && 2 * self.results < self.lines;
        if self.is_off {
            return;
        }
        let Some(path) = path(line) else {
            self.results += u64::from(line == b"--");
            return;
        };
        self.results += 1;
        if self.path != path {
            path.clone_into(&mut self.path);
            let length = u32::try_from(path.len()).unwrap_or(u32::MAX);
            self.files.begin(Section { line: number, last: number, offset, length });
        }
    }

    // Returns the sections only if nearly all lines are search results.
    fn finish(&self, lines: u64) -> Option<Sections> {
        let most = 10 * self.results >= 9 * self.lines && self.files.count >= 2;
        (most && !self.is_off).then(|| self.files.ended(lines).into_sections())
    }
}

// Returns the path in a line such as `src/a.rs:12:text`.
fn path(line: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr(b':', line)?;
    let (path, rest) = (&line[..end], &line[end + 1..]);
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_path = path.iter().any(|byte| matches!(byte, b'.' | b'/'))
        && !path.iter().any(|byte| matches!(byte, b' ' | b'"' | b'(' | b'['));
    (is_path && digits > 0 && rest.get(digits) == Some(&b':')).then_some(path)
}

const FEWEST: u64 = 10;
const STATUSES: usize = 24;

// Counts the statuses in the lines of an access log.
#[derive(Debug, Clone, Default)]
struct Statuses {
    lines: u64,
    entries: u64,
    // True if the output is not an access log.
    is_off: bool,
    counts: Vec<(u16, u64)>,
}

impl Statuses {
    fn line(&mut self, line: &[u8]) {
        self.lines += 1;
        self.is_off |= self.lines > JUDGED && 2 * self.entries < self.lines;
        if self.is_off {
            return;
        }
        let Some(status) = status(line) else { return };
        self.entries += 1;
        if let Some((_, count)) = self.counts.iter_mut().find(|(known, _)| *known == status) {
            *count += 1;
        } else if self.counts.len() < STATUSES {
            self.counts.push((status, 1));
        }
    }

    // Returns the counts only if most lines are log entries.
    fn finish(&self) -> Vec<(u16, u64)> {
        let mut counts = self.counts.clone();
        counts.sort_unstable();
        let is_log = self.entries >= FEWEST && 2 * self.entries >= self.lines;
        if is_log && !self.is_off { counts } else { Vec::new() }
    }
}

// Returns the status in a line such as `... "GET / HTTP/1.1" 200 ...`.
fn status(line: &[u8]) -> Option<u16> {
    let after = PROTOCOL.find(line)? + PROTOCOL.needle().len();
    let rest = &line[after..];
    let version = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    let [b'"', b' ', status @ .., b' '] = rest.get(version..version + 6)? else { return None };
    let status = str::from_utf8(status).ok()?.parse().ok()?;
    (100..600).contains(&status).then_some(status)
}

static PROTOCOL: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("HTTP/"));
