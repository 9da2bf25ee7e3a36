//! `.grep/<query>` of a directory: the output of `rg -n <query>` in it, newest artifact first.
//!
//! Several threads search one artifact each ([`worker`]). The results are joined in the order of
//! the artifacts, below the notices.

mod worker;

use std::io;
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;

use crate::Query;
use crate::grep;
use crate::grep::ChosenQuery;
use crate::grep::corpus::{Directory, NameList, SearchOmissions, Visited};
use crate::grep::many::worker::{
    ArtifactMatches, ArtifactOutcome, ArtifactSearcher, CorpusSearch, START, SearchEnd,
};
use crate::grep::page;
use crate::grep::page::CutPoint;
use crate::number::{counted, grouped};
use crate::query::ResumePoint;
use crate::range::TextPosition;
use crate::rendered::{RenderError, Rendered, notice};
use ctxfs_core::parallel;

/// Searches all artifacts in `directory` and writes the matches to `out`, without the notice. See
/// [`CorpusQuery::render`](crate::CorpusQuery::render).
pub(crate) fn render(
    query: &Query,
    directory: &Directory<'_>,
    expired: &(dyn Fn() -> bool + Sync),
    out: &mut (dyn Write + Send),
) -> Result<Rendered, RenderError> {
    let chosen = ChosenQuery::choose(query, |probe| {
        let search = CorpusSearch::new(probe, directory, expired)?;
        let mut sink = io::sink();
        let mut report = CorpusReport::new(&search, &mut sink);
        run(&search, &mut report, true);
        Ok(report.totals.units > 0)
    })?;
    let search = CorpusSearch::new(&chosen.query, directory, expired)?;
    let mut report = CorpusReport::new(&search, out);
    run(&search, &mut report, false);
    let mut notes = chosen.notes(&search.pattern, report.totals.units, |query| search.path(query));
    notes.extend(search.paths.bad.clone());
    Ok(finish(report, notes)?)
}

// Searches the artifacts in order. If `first_only` is true, ends at the first match.
fn run(search: &CorpusSearch<'_>, report: &mut CorpusReport<'_>, first_only: bool) {
    let first = search.first.artifact;
    parallel::in_order(
        search.corpus.len() - first,
        parallel::threads(),
        || ArtifactSearcher::new(search),
        |worker, number| worker.search(first + number),
        ArtifactOutcome::weight,
        |worker, number, visited| {
            let goes_on = report.take(worker, first + number, visited);
            search.full.store(report.full, Relaxed);
            if goes_on && !(first_only && report.totals.units > 0) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        },
    );
}

// `notes` tell how the query was read.
struct CorpusNotices<'a> {
    search: &'a CorpusSearch<'a>,
    notes: Vec<String>,
    totals: SearchTotals,
    left_out: SearchOmissions,
}

fn finish(mut report: CorpusReport<'_>, notes: Vec<String>) -> io::Result<Rendered> {
    let notices = CorpusNotices {
        search: report.search,
        notes,
        totals: std::mem::take(&mut report.totals),
        left_out: std::mem::take(&mut report.left_out).of(report.search.corpus),
    };
    let most = report.search.view_bytes();
    let room = |text: &str| most.saturating_sub(text.len());
    let mut text = notices.text(None);
    let mut cut = if notices.search.is_endless() { None } else { report.cut(room(&text)) };
    while let Some(at) = cut {
        text = notices.text(cut);
        if at.length <= room(&text) {
            break;
        }
        cut = report.cut(room(&text).min(at.length - 1));
    }
    report.finish(cut)?;
    let whole = notices.totals.stopped.is_none() && notices.left_out.is_final();
    Ok(Rendered { notice: (!text.is_empty()).then_some(text), whole })
}

impl CorpusNotices<'_> {
    fn text(&self, cut: Option<CutPoint>) -> String {
        let shown =
            |at: &(usize, TextPosition)| cut.is_none_or(|cut| *at < (cut.artifact, cut.from));
        let lines = [
            self.missing(),
            cut.map(|cut| self.cut(cut)),
            self.totals.stopped.map(|stop| self.out_of_time(stop, cut.is_some())),
            self.totals.windowed.filter(shown).map(|(artifact, at)| {
                page::long_lines(&format!("{}:", self.search.text(artifact)), at)
            }),
            self.out_of_memory(),
            grep::hard_lines(self.search.pattern.matcher.hard_lines()),
        ];
        let lines = lines.into_iter().flatten().chain(self.left_out.lines());
        notice(self.notes.iter().cloned().chain(lines)).unwrap_or_default()
    }

    fn missing(&self) -> Option<String> {
        let mark =
            self.search.query.options().resume.as_ref().filter(|_| self.search.first.missing)?;
        Some(format!(
            "{} is not here any more: searched from the newest artifact on",
            mark.artifact
        ))
    }

    // Formats the notice: `1,234 lines match in 12 of 10,000 artifacts; the first 480 follow. Go
    // on: ...`.
    fn cut(&self, cut: CutPoint) -> String {
        let units = self.totals.units;
        let verb = if units == 1 { "matches" } else { "match" };
        let found = if self.search.lists_artifacts() {
            format!("{} {verb}", self.artifacts(units))
        } else {
            let artifacts = self.artifacts(self.totals.artifacts);
            format!("{} {verb} in {artifacts}", counted(units, "line"))
        };
        let follow = match cut.before + cut.shown {
            1 => "the first follows".to_owned(),
            more => format!("the first {} follow", grouped(more)),
        };
        let TextPosition { line, column } = cut.from;
        let inside = if column > 1 {
            let (name, line) = (self.search.text(cut.artifact), grouped(line));
            format!(", line {line} of {name} up to byte column {}", grouped(column - 1))
        } else {
            String::new()
        };
        let stop = StopPoint { artifact: cut.artifact, at: cut.from, shown: cut.shown };
        format!(
            "{found}; {follow}{inside}. Go on: {}    All at once: {}",
            self.search.path(&self.on(stop)),
            self.search.path(&self.search.query.at_most(0)),
        )
    }

    // Formats the number of artifacts: `12 of 10,000 artifacts`.
    fn artifacts(&self, found: u64) -> String {
        let first = &self.search.first;
        let all = (self.search.corpus.len() - first.artifact) as u64;
        if self.totals.stopped.is_some() {
            format!("{} so far", counted(found, "artifact"))
        } else if first.artifact == 0 && first.at.is_none() {
            format!("{} of {}", grouped(found), counted(all, "artifact"))
        } else {
            let name = self.search.text(first.artifact);
            format!("{} of the {} from {name} on", grouped(found), counted(all, "artifact"))
        }
    }

    fn out_of_time(&self, stop: StopPoint, cut: bool) -> String {
        let first = self.search.first.artifact;
        let all = (self.search.corpus.len() - first) as u64;
        let done = grouped((stop.artifact - first) as u64);
        let after = format!("out of time after {done} of {}", counted(all, "artifact"));
        if cut {
            return after;
        }
        format!("{after}; what was found follows. Go on: {}", self.search.path(&self.on(stop)))
    }

    fn out_of_memory(&self) -> Option<String> {
        let names = Some(&self.totals.out_of_memory).filter(|names| names.count() > 0)?;
        let text = names.text();
        let hard = self.search.pattern.matcher.hard_lines() > 0;
        let why =
            if hard { "the pattern takes too long" } else { "lines too long for so much context" };
        Some(format!("{why}: searched in part only, {text}"))
    }

    // Returns the query that continues where this one stopped.
    fn on(&self, stop: StopPoint) -> Query {
        let CorpusSearch { query, corpus, first, .. } = self.search;
        let before = if stop.artifact == first.artifact { first.shown } else { 0 };
        let counts = query.options().max.is_some_and(|max| max > 0);
        let shown = if counts { before + stop.shown } else { 0 };
        query.on(ResumePoint { artifact: corpus.path(stop.artifact).clone(), at: stop.at, shown })
    }
}

/// The result so far. Without a size limit it is written immediately. With a limit, everything
/// beyond the limit is dropped.
struct CorpusReport<'a> {
    search: &'a CorpusSearch<'a>,
    out: &'a mut (dyn Write + Send),
    text: Vec<u8>,
    cuts: Vec<CutPoint>,
    full: bool,
    // True if the result contains any text.
    begun: bool,
    failed: Option<io::Error>,
    totals: SearchTotals,
    left_out: SearchOmissions,
}

/// Totals over all artifacts that were searched. `units` counts matching lines, or matching
/// artifacts if the result lists artifacts. `windowed` is the first line that is shown only as
/// windows, with the number of its artifact.
#[derive(Default)]
struct SearchTotals {
    units: u64,
    artifacts: u64,
    windowed: Option<(usize, TextPosition)>,
    stopped: Option<StopPoint>,
    out_of_memory: NameList,
}

/// A place where a search ended early and where another search can continue. `shown` is the number
/// of matching lines of the artifact before that place.
#[derive(Clone, Copy)]
struct StopPoint {
    artifact: usize,
    at: TextPosition,
    shown: u64,
}

impl<'a> CorpusReport<'a> {
    fn new(search: &'a CorpusSearch<'a>, out: &'a mut (dyn Write + Send)) -> Self {
        Self {
            search,
            out,
            text: Vec::new(),
            cuts: Vec::new(),
            full: false,
            begun: false,
            failed: None,
            totals: SearchTotals::default(),
            left_out: SearchOmissions::default(),
        }
    }

    /// Adds the result of the artifact `number`, which must be the next in order. Returns false if
    /// the search has to stop.
    fn take(
        &mut self,
        worker: &mut ArtifactSearcher<'_>,
        number: usize,
        visited: Visited<ArtifactOutcome>,
    ) -> bool {
        if let Visited::NotBegun = visited {
            let at = self.search.options_of(Some(number)).from.unwrap_or(START);
            self.totals.stopped = Some(StopPoint { artifact: number, at, shown: 0 });
        }
        match self.left_out.note(visited, || self.search.text(number)) {
            None => {}
            Some(ArtifactOutcome::Searched(matches)) => self.add(number, &matches),
            Some(ArtifactOutcome::Later(content)) => {
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
        let inside = matches.cuts.iter().filter(|cut| cut.length > 0);
        self.cuts.extend(inside.map(|cut| cut.of(number, length + gap.len(), units)));
        self.text.extend_from_slice(gap);
        self.text.extend_from_slice(&matches.text);
        self.full = self.text.len() > self.search.view_bytes();
        Ok(())
    }

    fn cut(&self, budget: usize) -> Option<CutPoint> {
        if self.text.len() > budget { page::latest(&self.cuts, budget) } else { None }
    }

    fn finish(mut self, cut: Option<CutPoint>) -> io::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let length = cut.map_or(self.text.len(), |cut| cut.length);
        self.out.write_all(&self.text[..length])
    }
}

#[cfg(test)]
mod tests;
