//! Lines that begin a section, in the formats of various programs.

use std::ops::Range;
use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use crate::model::{Section, Sections};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeadingPosition {
    Anywhere,
    // After a blank line, or in the first line.
    Apart,
    First,
}

// Number of kinds of sections. Kinds are numbered from 0, with the most informative kind first.
pub(super) const KINDS: usize = 18;

/// A line that divides an output. `Begins` has the kind of the section that begins, and the range
/// of its name in the line. `Ends` has the kind of the section that ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heading {
    Begins(usize, Range<usize>),
    Ends(usize),
}

/// The rules: kind, position and pattern. The first group of the pattern is the name of the
/// section. If the pattern has no group, the line ends a section.
///
/// A line is matched only if it begins with one of [`FRAGMENTS`].
const RULES: [(usize, HeadingPosition, &str); 31] = [
    // git log; then diffs.
    (0, HeadingPosition::Anywhere, r"^commit ([0-9a-f]{7,12})"),
    (1, HeadingPosition::Anywhere, r#"^diff --git "?a/.+ "?b/([^"]+)"?$"#),
    (1, HeadingPosition::Anywhere, r"^diff -\w\S* .*?(\S+)$"),
    (1, HeadingPosition::Anywhere, r"^Index: (\S.*)$"),
    // Test runners: cargo, jest, unittest, pytest and others with rules, go.
    (2, HeadingPosition::Anywhere, r"^     Running (?:unittests )?(\S+) \("),
    (2, HeadingPosition::Anywhere, r"^   (Doc-tests \S+)$"),
    (3, HeadingPosition::Anywhere, r"^(?:PASS|FAIL) (\S+\.[cm]?[jt]sx?)\b"),
    (4, HeadingPosition::Anywhere, r"^(?:FAIL|ERROR): (\w+ \([\w.]+\))"),
    (5, HeadingPosition::Anywhere, r"^={3,} ([A-Za-z].*?) ={3,}$"),
    (5, HeadingPosition::Anywhere, r"^_{3,} (\S.*?) _{3,}$"),
    (5, HeadingPosition::Anywhere, r"^-{3,} ([A-Za-z][^{]*?) -{3,}$"),
    (5, HeadingPosition::Anywhere, r"^={3,} (?:\d+ [a-z]+(?:, )?)+ in [\d.]+s.* ={3,}$"),
    (6, HeadingPosition::Anywhere, r"^=== RUN +(\S+)$"),
    (7, HeadingPosition::Anywhere, r"^--- (?:FAIL|PASS|SKIP): (\S+) "),
    // Builds: Maven, Gradle, npm, Ansible, containers, make, CMake.
    (8, HeadingPosition::Anywhere, r"^\[INFO\] -+< (\S+) >-+$"),
    (8, HeadingPosition::Anywhere, r"^\[INFO\] --- (\S+) .*---$"),
    (8, HeadingPosition::Anywhere, r"^\[INFO\] Running (\S+)$"),
    (9, HeadingPosition::Anywhere, r"^> Task (:\S+)"),
    (9, HeadingPosition::Anywhere, r"^> (\S+@\d\S* \S.*)$"),
    (10, HeadingPosition::Anywhere, r"^((?:PLAY|TASK|RUNNING HANDLER) \[.*?\]|PLAY RECAP) \*+$"),
    (11, HeadingPosition::Anywhere, r"^#[1-9]\d* (\[.+)$"),
    (11, HeadingPosition::Anywhere, r"^Step (\d+/\d+ : .+)$"),
    (12, HeadingPosition::Anywhere, r"^(?:##\[group\]|::group::)(.+)$"),
    (13, HeadingPosition::Anywhere, r"^g?make(?:\[\d+\])?: Entering directory ['`](.+)'$"),
    (
        14,
        HeadingPosition::Anywhere,
        r"^\[(?: {1,2}\d{1,2}|100)%\] (?:Building \w+ object |Built target )?(\S.*)$",
    ),
    // Several files in one output, directories, headings.
    (15, HeadingPosition::Anywhere, r"^==> (\S.*?)(?: <==)?$"),
    (15, HeadingPosition::Apart, r"^(\.{1,2}(?:/[^:]*)?):$"),
    (16, HeadingPosition::Apart, r"^#{2,4} (\S.*?)(?: #+)?$"),
    (16, HeadingPosition::First, r"^# (\S.*?)(?: #+)?$"),
    // Tables of a dump.
    (
        17,
        HeadingPosition::Anywhere,
        r#"^CREATE TABLE (?:IF NOT EXISTS )?["`\[]?([\w.]+)["`\]]? *\("#,
    ),
    (17, HeadingPosition::Anywhere, r"^COPY ([\w.]+) .*FROM stdin;$"),
];

pub(super) const FRAGMENTS: [&str; 40] = [
    "commit ",
    "diff -",
    "Index: ",
    "     Running ",
    "   Doc-tests ",
    "PASS ",
    "FAIL",
    "ERROR: ",
    "===",
    "___",
    "---",
    "[INFO] -",
    "[INFO] Running ",
    "> Task ",
    "> ",
    "PLAY ",
    "TASK [",
    "RUNNING HANDLER",
    "#1",
    "#2",
    "#3",
    "#4",
    "#5",
    "#6",
    "#7",
    "#8",
    "#9",
    "Step ",
    "##",
    "::group::",
    "make",
    "gmake",
    "[ ",
    "[100%]",
    "==> ",
    ".:",
    "./",
    "..",
    "CREATE TABLE ",
    "COPY ",
];

pub(super) fn heading(line: &[u8], apart: bool, first: bool) -> Option<Heading> {
    let allowed = |position: HeadingPosition| match position {
        HeadingPosition::Anywhere => true,
        HeadingPosition::Apart => apart,
        HeadingPosition::First => first,
    };
    if !SET.is_match(line) {
        return None;
    }
    let rule = SET.matches(line).into_iter().find(|rule| allowed(RULES[*rule].1))?;
    let kind = RULES[rule].0;
    Some(match PATTERNS[rule].captures(line)?.get(1) {
        Some(name) => Heading::Begins(kind, name.range()),
        None => Heading::Ends(kind),
    })
}

static SET: LazyLock<RegexSet> = LazyLock::new(|| {
    let patterns = RULES.map(|(.., pattern)| pattern);
    let set = RegexSetBuilder::new(patterns).unicode(false).build();
    set.expect("the patterns of this file")
});

static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let pattern = |pattern: &str| RegexBuilder::new(pattern).unicode(false).build();
    RULES.iter().map(|(.., text)| pattern(text).expect("a pattern of this file")).collect()
});

// Numbers of sections that are kept: the first ones, and the largest of all others.
const FIRST: usize = 16;
const LARGEST: usize = 16;
// Minimum average number of lines of a section. Shorter sections consist of little more than their
// headings.
const LINES: u64 = 3;

/// The sections of one kind, in bounded memory. `open` is the last section while it has not ended.
/// `short` counts sections of one line.
#[derive(Debug, Clone, Default)]
pub(super) struct SectionGroup {
    pub(super) count: u64,
    start: u64,
    short: u64,
    first: Vec<Section>,
    largest: Vec<Section>,
    open: Option<Section>,
}

impl SectionGroup {
    // Begins a section, and ends the open section.
    pub(super) fn begin(&mut self, section: Section) {
        if self.count == 0 {
            self.start = section.line;
        }
        self.count += 1;
        self.end(section.line - 1);
        self.open = Some(section);
    }

    pub(super) fn end(&mut self, last: u64) {
        let Some(mut section) = self.open.take() else { return };
        section.last = last.max(section.line);
        self.short += u64::from(section.last == section.line);
        if self.first.len() < FIRST {
            self.first.push(section);
            return;
        }
        let size = |section: &Section| section.last - section.line;
        // Insert after sections of the same size, so that earlier sections are kept.
        let at = self.largest.partition_point(|kept| size(kept) >= size(&section));
        self.largest.insert(at, section);
        self.largest.truncate(LARGEST);
    }

    /// Returns true if these sections divide most of the output, and are large enough to be named.
    pub(super) fn divides(&self, lines: u64) -> bool {
        let before = self.start.saturating_sub(1);
        self.count >= 2
            && 2 * before <= lines
            && self.count * LINES <= lines - before
            && 2 * self.short <= self.count
    }

    pub(super) fn ended(&self, lines: u64) -> Self {
        let mut ended = self.clone();
        ended.end(lines);
        ended
    }

    pub(super) fn into_sections(mut self) -> Sections {
        self.largest.sort_by_key(|section| section.line);
        Sections { count: self.count, shown: [self.first, self.largest].concat() }
    }
}
