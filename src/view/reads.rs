//! What `.summary`, `.head` and `.tail` read of an output.

use std::ops::Range;

use crate::model::Analysis;
use crate::model::Limits;
use crate::redact::read_to_mask;
use crate::view::errors::AROUND;
use crate::view::errors::RECORD;
use crate::view::summary::READ;

/// Bytes that are read at either end: those of an excerpt, which are more than a view shows, and one
/// that tells whether a line begins there.
const END: u64 = READ as u64 + 1;
const _: () = assert!(READ > Limits::VIEW_BYTES);

/// The ranges of an output that its `.summary`, `.head` and `.tail` read, as far as its analysis
/// tells. They may overlap.
///
/// A summary reads more of an output of at most 16 MiB with errors in it: it tries searches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandInReads {
    /// Its ends: what all three read.
    pub ends: Vec<Range<u64>>,
    /// What else a summary reads: what the analysis found, the most telling errors first.
    pub found: Vec<Range<u64>>,
    /// The ends, with what is read around them if secrets are masked.
    pub masked: Vec<Range<u64>>,
}

impl StandInReads {
    /// Returns what is read of an output that is not empty and has this analysis.
    pub fn of(analysis: &Analysis) -> Self {
        let length = analysis.bytes;
        let beginning = 0..END.min(length);
        let mut ends = vec![beginning];
        if analysis.is_binary() {
            return Self { masked: ends.clone(), found: Vec::new(), ends };
        }
        ends.push(length.saturating_sub(END)..length);
        let masked = ends.iter().map(|end| read_to_mask(end, length)).collect();
        let found = found(analysis).into_iter();
        let found = found.map(|range| range.start.min(length)..range.end.min(length));
        Self { ends, found: found.filter(|range| !range.is_empty()).collect(), masked }
    }
}

fn found(analysis: &Analysis) -> Vec<Range<u64>> {
    let part = |offset: u64, length: u64| offset..offset.saturating_add(length);
    let around = |at: u64| at.saturating_sub(AROUND as u64)..at.saturating_add(AROUND as u64);
    let mut found = Vec::new();
    found.extend(analysis.repeated.iter().map(|each| part(each.offset, each.length.into())));
    found.extend(analysis.unlike.iter().map(|each| part(each.offset, each.length.into())));
    found.extend(analysis.sections.shown.iter().map(|each| part(each.offset, each.length.into())));
    for record in analysis.trouble.iter().flat_map(|trouble| &trouble.records) {
        found.push(part(record.offset, RECORD as u64));
        found.extend(record.outer.map(|outer| part(outer, RECORD as u64)));
    }
    for error in &analysis.errors.shown {
        found.push(around(error.offset));
        found.extend(error.last.map(|last| around(last.offset)));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::io;

    use parking_lot::Mutex;

    use super::*;
    use crate::model::Content;
    use crate::model::Subject;
    use crate::view::View;
    use crate::view::fixture::Fixture;
    use crate::view::render;

    /// Notes what is read.
    struct Watched<'a>(&'a [u8], Mutex<Vec<Range<u64>>>);

    impl Content for Watched<'_> {
        fn len(&self) -> u64 {
            self.0.len() as u64
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.0.read_at(offset, buffer)?;
            self.1.lock().push(offset..offset + count as u64);
            Ok(count)
        }
    }

    /// Fails if one of the three views of `text` reads anything else.
    #[track_caller]
    fn check(text: &str) -> StandInReads {
        let fixture = Fixture::analysed(text);
        let watched = Watched(text.as_bytes(), Mutex::default());
        let subject = Subject { content: &watched, ..fixture.subject() };
        for view in [View::Summary, View::Tail, View::Head] {
            render(&view, &subject, &|| false, &mut Vec::new()).unwrap();
        }
        let reads = StandInReads::of(&fixture.analysis);
        let known: Vec<_> = reads.ends.iter().chain(&reads.found).collect();
        for read in watched.1.into_inner().into_iter().filter(|read| !read.is_empty()) {
            let mut at = read.start;
            while let Some(next) = known.iter().find(|range| range.contains(&at)) {
                at = next.end;
            }
            assert!(at >= read.end, "{read:?} of {}", text.len());
        }
        reads
    }

    fn lines(count: usize) -> String {
        (0..count)
            .map(|line| format!("line {line} of a log, and {}\n", line * line))
            .collect::<Vec<_>>()
            .concat()
    }

    #[test]
    fn the_three_views_of_a_log_read_its_ends_and_what_was_found() {
        check(&lines(30_000));
        check(&format!("{}\n{}", "x".repeat(1 << 20), lines(10)));
        check(&(lines(3000) + "\n[section]\n" + &lines(30_000) + "\n[other]\n" + &lines(3000)));
        let json = (0..20_000).map(|id| format!("{{\"id\":{id},\"level\":\"info\"}}\n"));
        check(&json.collect::<Vec<_>>().concat());
    }

    #[test]
    fn those_of_one_with_errors_read_around_them() {
        let middle = "Traceback (most recent call last):\nValueError: 17 is no port\n";
        let text = lines(300_000) + middle + &lines(300_000);
        assert!(text.len() > 16 << 20, "{}", text.len());
        let reads = check(&text);
        assert!(!reads.found.is_empty());
    }

    #[test]
    fn a_short_one_is_read_whole() {
        let reads = check("one\ntwo\n");
        assert_eq!(reads.ends, [0..8, 0..8]);
        assert_eq!(reads.masked, [0..8, 0..8]);
    }
}
