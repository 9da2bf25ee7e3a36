//! The best passages of one artifact.

use std::cmp::Reverse;
use std::io;

use crate::find::gather::{Candidate, CandidateSpan, Gathered};
use crate::find::matcher::{Finder, FoundTerms};
use crate::find::passage::{Passage, ShownLine};
use crate::find::question::ChosenTerms;
use crate::find::records::GatheredRecords;
use crate::find::{gather, json, record, records, stretches, table};
use ctxfs_core::model::Content;
use ctxfs_core::records::RecordForm;

const MAX_PASSAGES: usize = 48;

// Percentage of its score that a passage gains for each phrase of the question in it.
const PHRASE_PERCENT: u64 = 8;
const MAX_PHRASES: u64 = 3;

/// The passages of an artifact, best first, without overlaps. `header` is the first line of a
/// table. `count` is the number of passages with any of the words. `stopped` is the offset at which
/// time ran out.
#[derive(Debug, Default)]
pub(super) struct Passages {
    pub(super) best: Vec<Passage>,
    pub(super) header: Option<ShownLine>,
    pub(super) count: u64,
    pub(super) stopped: Option<u64>,
}

impl Passages {
    // Searches `content` for the words of `chosen`, in blocks of `block` bytes.
    pub(super) fn read(
        content: &dyn Content,
        chosen: &ChosenTerms,
        expired: &dyn Fn() -> bool,
        block: usize,
    ) -> io::Result<Self> {
        let as_json = if json::begins(content)? {
            json::gather(content, chosen, expired, block)?
        } else {
            None
        };
        let form = if as_json.is_some() { RecordForm::Lines } else { RecordForm::of(content)? };
        let table = if as_json.is_some() { None } else { table::of(content, &form)? };
        let is_table = table.is_some();
        let header = table.and_then(|table| table.header);
        let stretch = stretches::STRETCH_BYTES.min(block as u64);
        let lines = || gather::lines(content, chosen, expired, stretch);
        let Candidates { best: mut candidates, count, stopped } = if records::are_searched(&form) {
            of_records(content, &form, chosen, expired, lines)?
        } else {
            let Gathered { pool, passages, stopped } = as_json.map_or_else(lines, Ok)?;
            Candidates { best: pool.best(), count: passages, stopped }
        };
        let mut all = Vec::new();
        let finder = Finder::default();
        let mut reader = PassageReader { content, chosen, finder, is_table, form };
        if let Some(header) = &header {
            let is_row = |candidate: &Candidate| !is_line(candidate, header.line);
            if candidates.iter().any(|(candidate, _)| is_row(candidate)) {
                candidates.retain(|(candidate, _)| is_row(candidate));
            }
        }
        for (candidate, alike) in candidates {
            let passage = reader.read(&candidate)?;
            let score = reader.with_phrases(&passage);
            let passage = Passage { score, likeness: candidate.likeness, alike, ..passage };
            if passage.terms == 0 || passage.lines.iter().any(|line| line.text.contains(&0)) {
                continue;
            }
            all.push(passage);
        }
        all.sort_by_key(|passage: &Passage| {
            (Reverse(passage.score), passage.alike, passage.lines.first().map(|line| line.start))
        });
        let mut best: Vec<Passage> = Vec::new();
        for passage in all {
            if best.len() < MAX_PASSAGES && !best.iter().any(|other| other.overlaps(&passage)) {
                best.push(passage);
            }
        }
        Ok(Self { best, header, count, stopped })
    }
}

/// The candidates, each with the number of similar candidates. `count` and `stopped` are as in
/// [`Passages`].
struct Candidates {
    best: Vec<(Candidate, u64)>,
    count: u64,
    stopped: Option<u64>,
}

/// Returns the candidates among the records of `content`, then those among the lines outside of
/// records.
fn of_records(
    content: &dyn Content,
    form: &RecordForm,
    chosen: &ChosenTerms,
    expired: &dyn Fn() -> bool,
    lines: impl Fn() -> io::Result<Gathered>,
) -> io::Result<Candidates> {
    let GatheredRecords { pool, covered, count, stopped } =
        records::gather(content, form, chosen, expired)?;
    let mut best = pool.best();
    // Only markup has text outside of its records.
    if stopped.is_some() || !matches!(form, RecordForm::Elements(_)) {
        return Ok(Candidates { best, count, stopped });
    }
    let Gathered { pool, passages, stopped } = lines()?;
    let mut others = Vec::new();
    for other in pool.best() {
        // Names of elements and attributes are found as text if they are nowhere else.
        if best.is_empty() || !covered.have(content, &other.0, chosen)? {
            others.push(other);
        }
    }
    let count = if best.is_empty() { passages } else { count + others.len() as u64 };
    best.extend(others);
    Ok(Candidates { best, count, stopped })
}

fn is_line(candidate: &Candidate, line: u64) -> bool {
    matches!(&candidate.place, CandidateSpan::Line(start) if start.line == line)
}

struct PassageReader<'a> {
    content: &'a dyn Content,
    chosen: &'a ChosenTerms,
    finder: Finder,
    is_table: bool,
    form: RecordForm,
}

impl PassageReader<'_> {
    fn with_phrases(&mut self, passage: &Passage) -> u64 {
        let Self { chosen, finder, .. } = self;
        let mut found = FoundTerms::default();
        for line in &passage.lines {
            found.join(&FoundTerms::of(chosen.phrases.find(finder, &line.text, false)));
        }
        let count = u64::from(found.terms().count_ones()).min(MAX_PHRASES);
        passage.score * (100 + count * PHRASE_PERCENT) / 100
    }

    fn read(&mut self, candidate: &Candidate) -> io::Result<Passage> {
        let Self { content, chosen, finder, is_table, form } = self;
        match &candidate.place {
            CandidateSpan::Line(start) => {
                let passage = record::of_line(*content, *start, *is_table, chosen, finder)?;
                Ok(Passage { is_record: matches!(form, RecordForm::Rows(_)), ..passage })
            }
            CandidateSpan::Window { of, start, end, path } => {
                let passage = record::of_window(*content, *of, (*start, *end), chosen, finder)?;
                Ok(Passage { path: path.clone(), ..passage })
            }
            CandidateSpan::Value { of, start, end, path } => {
                json::of_value(*content, *of, (*start, *end), path, chosen, finder)
            }
            CandidateSpan::Record(span) => records::of_record(*content, form, span, chosen, finder),
        }
    }
}
