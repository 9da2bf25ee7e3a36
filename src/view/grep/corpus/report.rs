//! `.grep/<query>` of a directory: the output of `rg -n <query>` in it, newest artifact first.
//!
//! Several threads search one artifact each ([`worker`]). The matches in each are appended to those
//! in earlier ones, below the notices that the result needs.

use std::io;
use std::io::Write;

use crate::grep::corpus::left_out::{LeftOut, NameList};
use crate::grep::corpus::matches::{ArtifactMatches, ArtifactOutcome, SearchEnd};
use crate::grep::corpus::worker::Worker;
use crate::grep::corpus::{START, Search};
use crate::grep::page;
use crate::grep::page::CutPoint;
use crate::number::grouped;
use crate::position::TextPosition;

/// The result so far. Without a limit it is written as it comes; with one, everything beyond the
/// limit is dropped.
pub(super) struct CorpusReport<'a> {
    pub(super) search: &'a Search<'a>,
    out: &'a mut (dyn Write + Send),
    text: Vec<u8>,
    cuts: Vec<CutPoint>,
    full: bool,
    // True if the result has any text.
    begun: bool,
    failed: Option<io::Error>,
    pub(super) totals: SearchTotals,
    pub(super) left_out: LeftOut,
}

/// Totals over all artifacts that were searched. `units` are matching lines, or matching artifacts
/// if the result lists artifacts. `windowed` is the first line of which only windows are shown,
/// with the number of its artifact.
#[derive(Default)]
pub(super) struct SearchTotals {
    pub(super) units: u64,
    pub(super) artifacts: u64,
    pub(super) windowed: Option<(usize, TextPosition)>,
    pub(super) stopped: Option<StopPoint>,
    pub(super) out_of_memory: NameList,
}

/// A place where a search ended early. `shown` counts the matching lines of the artifact before it.
#[derive(Clone, Copy)]
pub(super) struct StopPoint {
    pub(super) artifact: usize,
    pub(super) at: TextPosition,
    pub(super) shown: u64,
}

impl<'a> CorpusReport<'a> {
    pub(super) fn new(search: &'a Search<'a>, out: &'a mut (dyn Write + Send)) -> Self {
        Self {
            search,
            out,
            text: Vec::new(),
            cuts: Vec::new(),
            full: false,
            begun: false,
            failed: None,
            totals: SearchTotals::default(),
            left_out: LeftOut::default(),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// Adds the result of the artifact `number`, which has to be the next one. Returns false if the
    /// search has to stop.
    pub(super) fn take(
        &mut self,
        worker: &mut Worker<'_>,
        number: usize,
        outcome: ArtifactOutcome,
    ) -> bool {
        let name = || self.search.text(number);
        match outcome {
            ArtifactOutcome::Gone => {}
            ArtifactOutcome::Closed => self.left_out.closed += 1,
            ArtifactOutcome::Binary => self.left_out.binary.push(name()),
            ArtifactOutcome::Unreadable(error) => {
                self.left_out.unreadable.push(format!("{} ({error})", name()));
            }
            ArtifactOutcome::NotBegun => {
                let at = self.search.options_of(Some(number)).from.unwrap_or(START);
                self.totals.stopped = Some(StopPoint { artifact: number, at, shown: 0 });
            }
            ArtifactOutcome::Searched(matches) => self.add(number, &matches),
            ArtifactOutcome::Later(content) => {
                let gap = self.begun && self.search.has_context();
                match worker.search_content(number, &*content, gap, &mut *self.out) {
                    Ok(matches) => {
                        self.begun |= matches.lines > 0;
                        self.add(number, &matches);
                    }
                    Err(error) => self.failed = Some(error),
                }
            }
        }
        self.totals.stopped.is_none() && self.failed.is_none()
    }

    fn add(&mut self, number: usize, matches: &ArtifactMatches) {
        if let Err(error) = self.add_text(number, matches) {
            self.failed = Some(error);
        }
        self.totals.artifacts += u64::from(matches.lines > 0);
        let lists = self.search.lists_artifacts();
        self.totals.units += if lists { u64::from(matches.lines > 0) } else { matches.lines };
        let windowed = matches.windowed.map(|at| (number, at));
        self.totals.windowed = self.totals.windowed.or(windowed);
        match matches.end {
            SearchEnd::Whole => {}
            SearchEnd::OutOfTime(at) => {
                self.totals.stopped =
                    Some(StopPoint { artifact: number, at, shown: matches.lines });
            }
            SearchEnd::OutOfMemory(line) => {
                let name = self.search.text(number);
                self.totals.out_of_memory.push(format!("{name} before line {}", grouped(line)));
            }
        }
    }

    fn add_text(&mut self, number: usize, matches: &ArtifactMatches) -> io::Result<()> {
        let gap: &[u8] = if self.begun && self.search.has_context() { b"--\n" } else { b"" };
        self.begun |= !matches.text.is_empty();
        if self.full || matches.text.is_empty() {
            return Ok(());
        }
        if self.search.is_endless() {
            self.out.write_all(gap)?;
            return self.out.write_all(&matches.text);
        }
        let (length, units) = (self.text.len(), self.totals.units);
        self.cuts.push(CutPoint::before(number, length, units));
        let inside = matches.cuts.iter().filter(|cut| cut.length() > 0);
        self.cuts.extend(inside.map(|cut| cut.of(number, length + gap.len(), units)));
        self.text.extend_from_slice(gap);
        self.text.extend_from_slice(&matches.text);
        self.full = self.text.len() > self.search.view_bytes();
        Ok(())
    }

    /// Returns the place to cut a result of more than `budget` bytes.
    pub(super) fn cut(&self, budget: usize) -> Option<CutPoint> {
        if self.text.len() > budget { page::latest(&self.cuts, budget) } else { None }
    }

    /// Writes the rest of the result, up to `cut`.
    pub(super) fn finish(mut self, cut: Option<CutPoint>) -> io::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let length = cut.map_or(self.text.len(), |cut| cut.length());
        self.out.write_all(&self.text[..length])
    }
}
