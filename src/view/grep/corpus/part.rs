//! What became of one of many artifacts.

use std::io;
use std::io::Write as _;

use crate::model::Content;
use crate::view::grep::page::Cut;
use crate::view::grep::report::Report;
use crate::view::query::Options;
use crate::view::query::Position;

/// What an open file weighs beside text that waits: there are fewer of them.
const OPEN_WEIGHT: usize = 1 << 20;

pub(super) enum Outcome {
    Searched(Part),
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
pub(super) struct Part {
    /// As ripgrep prints it, cut off where a result has no room for more.
    pub(super) text: Vec<u8>,
    pub(super) cuts: Vec<Cut>,
    /// Lines that match.
    pub(super) lines: u64,
    /// The first line of which only windows are shown.
    pub(super) windowed: Option<Position>,
    pub(super) end: End,
}

/// How far the search of an artifact came.
#[derive(Default)]
pub(super) enum End {
    #[default]
    Whole,
    OutOfTime(Position),
    /// Lines and context together passed what memory there is, before this line.
    Crowded(u64),
}

impl Outcome {
    /// Bytes that it takes while it waits, about.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Searched(part) => part.text.len() + part.cuts.len() * size_of::<Cut>(),
            Self::Later(_) => OPEN_WEIGHT,
            Self::NotBegun | Self::Binary | Self::Unreadable(_) | Self::Gone => 0,
        }
    }
}

impl Part {
    /// What is left in the page, and what is to be said of it.
    pub(super) fn of(report: Report<'_>, end: End) -> Self {
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
        end: End,
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
