use std::io;

use crate::grep::corpus::Search;
use crate::grep::corpus::left_out::LeftOut;
use crate::grep::corpus::report::{CorpusReport, SearchTotals, StopPoint};
use crate::grep::page::CutPoint;
use crate::number::{counted, grouped};
use crate::position::TextPosition;
use crate::query::ResumePoint;
use crate::{Query, Rendered};

struct CorpusNotices<'a> {
    search: &'a Search<'a>,
    totals: SearchTotals,
    left_out: LeftOut,
}

/// Writes the rest of the result, cut if it is too large, and returns its notices.
pub(super) fn finish(mut report: CorpusReport<'_>) -> io::Result<Rendered> {
    let notices = CorpusNotices {
        search: report.search,
        totals: std::mem::take(&mut report.totals),
        left_out: std::mem::take(&mut report.left_out).of(report.search.corpus),
    };
    let most = report.search.view_bytes();
    let room = |text: &str| most.saturating_sub(text.len());
    let mut text = notices.text(None);
    let mut cut = if notices.search.is_endless() { None } else { report.cut(room(&text)) };
    while let Some(at) = cut {
        text = notices.text(cut);
        if at.length() <= room(&text) {
            break;
        }
        cut = report.cut(room(&text).min(at.length() - 1));
    }
    report.finish(cut)?;
    let whole = notices.totals.stopped.is_none() && notices.left_out.is_final();
    Ok(Rendered { notice: (!text.is_empty()).then_some(text), whole })
}

impl CorpusNotices<'_> {
    fn text(&self, cut: Option<CutPoint>) -> String {
        let fallback = self.search.pattern.fallback.as_ref();
        let shown =
            |at: &(usize, TextPosition)| cut.is_none_or(|cut| *at < (cut.artifact, cut.from));
        let lines = [
            self.missing(),
            cut.map(|cut| self.cut(cut)),
            fallback.map(|why| format!("not a regex ({why}): searched as text")),
            self.totals.stopped.map(|stop| self.out_of_time(stop, cut.is_some())),
            self.totals.windowed.filter(shown).map(|(artifact, at)| self.long_lines(artifact, at)),
            self.out_of_memory(),
        ];
        let left_out = self.left_out.lines();
        lines.iter().flatten().chain(&left_out).flat_map(|line| ["# ", line, "\n"]).collect()
    }

    fn missing(&self) -> Option<String> {
        let mark = self.search.options().resume.as_ref().filter(|_| self.search.first.missing)?;
        Some(format!(
            "{} is not here any more: searched from the newest artifact on",
            mark.artifact
        ))
    }

    // `1,234 lines match in 12 of 10,000 artifacts; the first 480 follow. Go on: ...`
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
            self.path(&self.on(stop)),
            self.path(&self.search.query.at_most(0)),
        )
    }

    // `12 of 10,000 artifacts`
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
        format!("{after}; what was found follows. Go on: {}", self.path(&self.on(stop)))
    }

    fn long_lines(&self, artifact: usize, at: TextPosition) -> String {
        let (name, TextPosition { line, column }) = (self.search.text(artifact), at);
        format!(
            "some lines are long: {name}:{line}@{column} is line {line} at byte column {column}"
        )
    }

    fn out_of_memory(&self) -> Option<String> {
        let names = Some(&self.totals.out_of_memory).filter(|names| names.count() > 0)?;
        let text = names.text();
        Some(format!("lines too long for so much context: searched in part only, {text}"))
    }

    // The query that goes on where this one stopped.
    fn on(&self, stop: StopPoint) -> Query {
        let Search { query, corpus, first, .. } = self.search;
        let before = if stop.artifact == first.artifact { first.shown } else { 0 };
        let counts = query.options().max.is_some_and(|max| max > 0);
        let shown = if counts { before + stop.shown } else { 0 };
        query.on(ResumePoint { artifact: corpus.path(stop.artifact).clone(), at: stop.at, shown })
    }

    fn path(&self, query: &Query) -> String {
        format!("{}/.grep/{query}", self.search.directory.path)
    }
}
