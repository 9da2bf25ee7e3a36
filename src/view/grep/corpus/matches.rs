//! What became of one of many artifacts.

use std::io;
use std::io::Write as _;

use crate::model::Content;
use crate::view::grep::page::CutPoint;
use crate::view::grep::report::Report;
use crate::view::position::TextPosition;
use crate::view::query::Options;

/// What an open file weighs beside text that waits: there are fewer of them.
const OPEN_WEIGHT: usize = 1 << 20;

pub(super) enum ArtifactOutcome {
    Searched(ArtifactMatches),
    /// What is found in it may be too much to be kept: it is to be searched when its turn comes.
    Later(Box<dyn Content>),
    /// There was no time to begin with it.
    NotBegun,
    Binary,
    Unreadable(io::Error),
    /// It was removed meanwhile.
    Gone,
}

/// What was found in one artifact.
#[derive(Default)]
pub(super) struct ArtifactMatches {
    /// As ripgrep prints it, cut off where a result has no room for more.
    pub(super) text: Vec<u8>,
    pub(super) cuts: Vec<CutPoint>,
    /// Lines that match.
    pub(super) lines: u64,
    /// The first line of which only windows are shown.
    pub(super) windowed: Option<TextPosition>,
    pub(super) end: SearchEnd,
}

/// How far the search of an artifact came.
#[derive(Default)]
pub(super) enum SearchEnd {
    #[default]
    Whole,
    OutOfTime(TextPosition),
    /// Lines and context together passed what memory there is, before this line.
    Crowded(u64),
}

impl ArtifactOutcome {
    /// Bytes that it takes while it waits, about.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Searched(matches) => {
                matches.text.len() + matches.cuts.len() * size_of::<CutPoint>()
            }
            Self::Later(_) => OPEN_WEIGHT,
            Self::NotBegun | Self::Binary | Self::Unreadable(_) | Self::Gone => 0,
        }
    }
}

impl ArtifactMatches {
    /// What is left in the page, and what is to be said of it.
    pub(super) fn of(report: Report<'_>, end: SearchEnd) -> Self {
        let (lines, windowed) = (report.lines, report.windowed);
        let (text, cuts) = report.page.into_text();
        Self { text, cuts, lines, windowed, end }
    }

    /// The line of an artifact in a list: `x.txt:3` for `-c`, `x.txt` for `-l`; none where nothing
    /// was found.
    pub(super) fn listed(
        name: &[u8],
        options: &Options,
        report: &Report<'_>,
        end: SearchEnd,
    ) -> io::Result<Self> {
        let mut text = Vec::new();
        if report.count() > 0 {
            text.extend_from_slice(name);
            if options.count {
                write!(text, ":{}", report.count())?;
            }
            text.push(b'\n');
        }
        Ok(Self { text, lines: report.lines, end, ..Self::default() })
    }
}
