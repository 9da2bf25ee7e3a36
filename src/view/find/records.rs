//! `.find` over records: elements of markup, stanzas, and rows of tables that are too wide for a
//! line. A record is found as a whole, and shown as its fields.

use std::io;
use std::ops::ControlFlow;

use crate::find::gather::{Candidate, CandidateSpan, Pool, RecordSpan, SCORE_UNIT};
use crate::find::matcher::{Finder, FoundTerms, Hit};
use crate::find::passage::{self, Passage, ShownLine};
use crate::find::question::ChosenTerms;
use crate::find::{choice, gather, record, scan};
use crate::grep::page;
use crate::number::counted;
use ctxfs_core::materialize::LikenessHasher;
use ctxfs_core::model::Content;
use ctxfs_core::records::{self, Field, Record, RecordForm};

// Number of fields at the beginning that often name the record.
const NAMING_FIELDS: usize = 2;
// Records with at most this many bytes between them have no text between them.
const MAX_GAP: u64 = 16;
const MAX_PLACES: usize = 64 << 10;
// Number of bytes of a record that tell if it is like another.
const LIKENESS_BYTES: usize = 1000;
// Number of bytes before a record in which the start of its line is searched.
const LINE_BYTES: u64 = 64 << 10;

/// The records with words. `count` is the number of records with words of their own. `stopped` is
/// the offset at which time ran out.
pub(super) struct GatheredRecords {
    pub(super) pool: Pool,
    pub(super) covered: CoveredPlaces,
    pub(super) count: u64,
    pub(super) stopped: Option<u64>,
}

/// The places of all records, in order. Near records share a place, and so do all records after
/// the first [`MAX_PLACES`] places.
#[derive(Default)]
pub(super) struct CoveredPlaces(Vec<(u64, u64)>);

/// The best record that ended inside an open record. `found` has its words, and the words of the
/// best record inside it.
#[derive(Clone)]
struct BestInner {
    place: (u64, u64),
    found: FoundTerms,
    score: u64,
}

/// Returns true if records of this form are searched as such. Otherwise, lines are searched.
pub(super) fn are_searched(form: &RecordForm) -> bool {
    match form {
        RecordForm::Elements(_) | RecordForm::Stanzas => true,
        RecordForm::Rows(rows) => rows.is_wide(),
        RecordForm::Lines | RecordForm::Items(_) | RecordForm::Entries => false,
    }
}

/// Gathers the records of `content` that have words of `chosen`.
///
/// A record around others has its own words, and the words of the best record inside it. It is a
/// candidate only if it has more words than the record inside. The names of fields count only beside
/// a word in a value: every record has the same names.
pub(super) fn gather(
    content: &dyn Content,
    form: &RecordForm,
    chosen: &ChosenTerms,
    expired: &dyn Fn() -> bool,
) -> io::Result<GatheredRecords> {
    let (mut finder, mut likeness) = (Finder::default(), LikenessHasher::default());
    let names = match form {
        RecordForm::Rows(rows) => {
            let names = rows.names().join("\n");
            FoundTerms::of(chosen.matcher.find(&mut finder, names.as_bytes(), false))
        }
        _ => FoundTerms::default(),
    };
    let (mut pool, mut covered, mut count) = (Pool::new(), CoveredPlaces::default(), 0);
    // By depth.
    let mut best: Vec<Option<BestInner>> = Vec::new();
    let mut look = |record: &Record<'_>| {
        covered.add(record);
        let inner = best.get_mut(record.depth + 1).and_then(Option::take);
        best.resize(record.depth + 1, None);
        let mut found = FoundTerms::default();
        if scan::first_candidate(&chosen.matcher, record.text, 0).is_some() {
            found = own_words(form, record, chosen, &mut finder);
        }
        count += u64::from(!found.is_empty());
        if !found.is_empty() {
            found.join(&names);
        }
        if let Some(inner) = &inner {
            found.join(&inner.found);
        }
        let value = (found.value(&chosen.weights) * SCORE_UNIT) as u64;
        let before = inner.as_ref().map_or(0, |inner| inner.score);
        if value > before {
            let kept = inner.as_ref().map(|inner| inner.place);
            let kind = likeness.of(&record.text[..record.text.len().min(LIKENESS_BYTES)]);
            pool.add(value, kind, || CandidateSpan::Record(span(record, kept)));
        }
        let place = (record.start, record.end);
        let own = BestInner { place, found, score: value };
        let whole = inner.filter(|inner| inner.score >= value).unwrap_or(own);
        let sibling = best[record.depth].take();
        best[record.depth] = sibling.filter(|it| it.score >= whole.score).or(Some(whole));
        ControlFlow::Continue(())
    };
    let stopped = records::each(content, form, expired, &mut look)?;
    Ok(GatheredRecords { pool, covered, count, stopped })
}

/// Returns the words of a record outside of the records inside it. Returns none if no value has a
/// word.
fn own_words(
    form: &RecordForm,
    record: &Record<'_>,
    chosen: &ChosenTerms,
    finder: &mut Finder,
) -> FoundTerms {
    if let RecordForm::Rows(_) = form {
        return FoundTerms::of(chosen.matcher.find(finder, record.text, false));
    }
    let (mut values, mut names) = (FoundTerms::default(), FoundTerms::default());
    for field in form.fields((record.start, record.text), None, record.inner) {
        values.join(&FoundTerms::of(chosen.matcher.find(finder, field.value.as_bytes(), false)));
        names.join(&FoundTerms::of(chosen.matcher.find(finder, field.name.as_bytes(), false)));
    }
    if !values.is_empty() {
        values.join(&names);
    }
    values
}

/// Returns the span of `record` without the records inside it, except the one at `kept`.
fn span(record: &Record<'_>, kept: Option<(u64, u64)>) -> RecordSpan {
    let is_other =
        |place: &&(u64, u64)| kept.is_none_or(|(start, end)| !(place.0 <= start && end <= place.1));
    let Record { number, line, start, end, header, .. } = *record;
    let skipped = record.inner.iter().filter(is_other).copied().collect();
    RecordSpan { number, line, start, end, skipped, header }
}

impl CoveredPlaces {
    // Adds a record, after the records inside it. A record that is too long to be searched as a
    // whole covers nothing.
    fn add(&mut self, record: &Record<'_>) {
        if record.text.is_empty() {
            return;
        }
        let Self(places) = self;
        while places.pop_if(|(start, _)| *start >= record.start).is_some() {}
        let is_full = places.len() >= MAX_PLACES;
        match places.last_mut() {
            Some((_, end)) if is_full || record.start <= *end + MAX_GAP => *end = record.end,
            _ => places.push((record.start, record.end)),
        }
    }

    /// Returns true if all words of `candidate`, a line, or some of a window are in records.
    pub(super) fn have(
        &self,
        content: &dyn Content,
        candidate: &Candidate,
        chosen: &ChosenTerms,
    ) -> io::Result<bool> {
        let has = |start: u64, end: u64| {
            let at = self.0.partition_point(|(_, covered)| *covered <= start);
            self.0.get(at).is_some_and(|(covered, _)| *covered < end)
        };
        Ok(match &candidate.place {
            CandidateSpan::Line(line) => {
                let bytes = content.bytes(line.offset, gather::SHORT_LINE)?;
                let end = memchr::memchr(b'\n', &bytes).unwrap_or(bytes.len());
                let mut finder = Finder::default();
                let hits = chosen.matcher.find(&mut finder, &bytes[..end], false);
                let place = |at: usize| line.offset + at as u64;
                hits.iter().all(|hit| has(place(hit.start), place(hit.end)))
            }
            CandidateSpan::Window { start, end, .. } | CandidateSpan::Value { start, end, .. } => {
                has(*start, *end)
            }
            CandidateSpan::Record(_) => false,
        })
    }
}

pub(super) fn of_record(
    content: &dyn Content,
    form: &RecordForm,
    span: &RecordSpan,
    chosen: &ChosenTerms,
    finder: &mut Finder,
) -> io::Result<Passage> {
    let bytes = records::read(content, (span.start, span.end))?;
    let header = span.header.map(|place| records::read(content, place)).transpose()?;
    let fields = form.fields((span.start, &bytes), header.as_deref(), &span.skipped);
    let texts: Vec<String> = fields.iter().map(Field::to_string).collect();
    let hits: Vec<Vec<Hit>> = texts
        .iter()
        .map(|text| chosen.matcher.find(finder, text.as_bytes(), false).to_vec())
        .collect();
    let mut found = FoundTerms::default();
    let mut places = Vec::new();
    for (field, hits) in fields.iter().zip(&hits) {
        found.join(&FoundTerms::of(hits));
        places.extend(passage::places(hits, field.start as u64));
    }
    places.sort_unstable();
    let shown = shown(&fields, &texts, &hits, chosen);
    let line_start = line_start(content, span)?;
    let show = |at: &usize| {
        let (field, text) = (&fields[*at], texts[*at].as_bytes());
        let before = &bytes[..field.start.min(bytes.len())];
        let newline = memchr::memrchr(b'\n', before);
        let column = match newline {
            Some(newline) => Some((field.start - newline) as u64),
            None => line_start.map(|start| span.start + field.start as u64 - start + 1),
        };
        let column = column.filter(|column| *column > 1);
        let text = if page::is_long(text) {
            let around = hits[*at].first().map_or(0, |hit| hit.start);
            page::excerpt(text, &page::window(text, around), false, true)
        } else {
            text.to_vec()
        };
        ShownLine {
            line: span.line + crate::scan::newlines(before),
            column,
            start: span.start + field.start as u64,
            end: span.start + field.end as u64,
            text,
            is_hit: !hits[*at].is_empty(),
        }
    };
    let all = if shown.len() == fields.len() {
        String::new()
    } else {
        format!(": {} of {}", shown.len(), counted(fields.len() as u64, "field"))
    };
    Ok(Passage {
        score: record::score(&found, &places, chosen),
        terms: found.terms(),
        likeness: 0,
        alike: 0,
        is_record: true,
        path: format!("X.record/{}{all}", span.number),
        lines: shown.iter().map(show).collect(),
    })
}

/// Returns the offset of the line in which a record begins, if it is near.
fn line_start(content: &dyn Content, span: &RecordSpan) -> io::Result<Option<u64>> {
    if span.line == 1 {
        return Ok(Some(0));
    }
    let from = span.start.saturating_sub(LINE_BYTES);
    let bytes = content.bytes(from, (span.start - from) as usize)?;
    Ok(memchr::memrchr(b'\n', &bytes).map(|at| from + at as u64 + 1))
}

/// Returns the fields to show, in order: all fields of a small record, otherwise the fields with
/// words, the first fields, and fields near those with words. An attribute is shown for its words
/// only.
fn shown(
    fields: &[Field],
    texts: &[String],
    hits: &[Vec<Hit>],
    chosen: &ChosenTerms,
) -> Vec<usize> {
    let is_text = |at: &usize| !fields[*at].is_attribute;
    let length: usize = (0..fields.len()).filter(is_text).map(|at| texts[at].len() + 1).sum();
    let shown = choice::with_words(hits, chosen);
    if length <= choice::SMALL {
        return (0..fields.len()).filter(|at| is_text(at) || shown.contains(at)).collect();
    }
    let mut others: Vec<usize> = (0..fields.len())
        .filter(|at| {
            !shown.contains(at) && is_text(at) && texts[*at].len() <= choice::NEIGHBOUR_BYTES
        })
        .collect();
    let distance = |at: &usize| shown.iter().map(|other| other.abs_diff(*at)).min();
    let first = others.iter().copied().take(NAMING_FIELDS).max().unwrap_or(0);
    others.sort_by_cached_key(|at| (*at > first, distance(at), *at));
    choice::with_neighbours(shown, others, |at| texts[at].len() + 1)
}

#[cfg(test)]
mod tests;
