//! The search of one of many artifacts after the other.

use std::io;
use std::io::Write as _;

use crate::grep::page::CutPoint;
use crate::grep::report::MatchReport;
use crate::position::TextPosition;
use crate::query::Options;
use ctxfs_core::model::Content;

// In bytes of waiting text. An open file weighs much, so that few files are open.
const OPEN_WEIGHT: usize = 1 << 20;

pub(super) enum ArtifactOutcome {
    Searched(ArtifactMatches),
    // Its matches may be too many to hold in memory: it is searched once its turn comes.
    Later(Box<dyn Content>),
    // Time ran out before its search began.
    NotBegun,
    Binary,
    Unreadable(io::Error),
    // It was removed after the search began.
    Gone,
    // The reader may not read it.
    Closed,
}

/// The matches in one artifact, as ripgrep prints them, cut off once the result is full. `lines` is
/// the number of matching lines; `windowed` is the first line of which only windows are shown.
#[derive(Default)]
pub(super) struct ArtifactMatches {
    pub(super) text: Vec<u8>,
    pub(super) cuts: Vec<CutPoint>,
    pub(super) lines: u64,
    pub(super) windowed: Option<TextPosition>,
    pub(super) end: SearchEnd,
}

/// The extent to which an artifact was searched.
#[derive(Default)]
pub(super) enum SearchEnd {
    #[default]
    Whole,
    OutOfTime(TextPosition),
    // Lines and their context did not fit into memory: the search stopped before this line.
    OutOfMemory(u64),
}

impl ArtifactOutcome {
    /// Returns about how many bytes of memory the result takes while it waits.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Searched(matches) => {
                matches.text.len() + matches.cuts.len() * size_of::<CutPoint>()
            }
            Self::Later(_) => OPEN_WEIGHT,
            Self::NotBegun | Self::Binary | Self::Unreadable(_) | Self::Gone | Self::Closed => 0,
        }
    }
}

impl ArtifactMatches {
    /// Takes the text that is left in the page of `report`, and its totals.
    pub(super) fn of(report: MatchReport<'_>, end: SearchEnd) -> Self {
        let (lines, windowed) = (report.lines, report.windowed);
        let (text, cuts) = report.page.into_text();
        Self { text, cuts, lines, windowed, end }
    }

    /// Returns the line of an artifact in a list: `x.txt:3` for `-c`, `x.txt` for `-l`, nothing if
    /// there is no match.
    pub(super) fn listed(
        name: &[u8],
        options: &Options,
        report: &MatchReport<'_>,
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
