//! The needs of the stand-ins of a larger file, noted before it is sent, so that others make them
//! without its object.

use std::io;
use std::ops::Range;

use super::parts::PartsPlan;
use ctxfs_core::materialize::{Checkpoints, PlainText};
use ctxfs_core::model::{
    Analysis, Content, Limits, NoFilters, Place, Record, RelPath, Shortcuts, Subject,
};
use ctxfs_view::{StandInReads, shortcuts};

///+ Maximum checkpoints in a log with escape sequences.
const PLACES: usize = 400;

///+ Computes the stand-ins of `content` in advance, so that other hosts can make them without its
///+ object: adds shortcuts to the analysis in `record`, and returns the ranges to send with it.
///+ Returns `None` without a complete analysis.
pub(super) fn planned(record: &mut Record, content: &dyn Content) -> io::Result<Option<PartsPlan>> {
    let Some(analysis) = record.analysis.as_ref().filter(|known| known.bytes == content.len())
    else {
        return Ok(None);
    };
    let (shortcuts, reads) = if analysis.has_escapes() {
        of_log(record, analysis, content)?
    } else {
        of_text(record, analysis.clone(), content)?
    };
    let plan = PartsPlan::of(&reads);
    if let Some(analysis) = &mut record.analysis {
        analysis.shortcuts =
            Some(shortcuts).filter(|known| *known != Shortcuts::default()).map(Box::new);
    }
    Ok(Some(plan))
}

///+ Returns the shortcuts of a text, and the ranges that its stand-ins read with them.
fn of_text(
    record: &Record,
    analysis: Analysis,
    content: &dyn Content,
) -> io::Result<(Shortcuts, StandInReads)> {
    let path = RelPath::from_text(&record.path).map_err(io::Error::other)?;
    let (place, limits) = (Place::new("/ctx", "conversation", &path), Limits::default());
    let analysis = Analysis { shortcuts: None, ..analysis };
    let subject = Subject {
        content,
        analysis: &analysis,
        record,
        place: &place,
        limits: &limits,
        same_name: &[],
        redacts: None,
        filters: &NoFilters,
    };
    let shortcuts = shortcuts(&subject)?;
    let analysis = Analysis { shortcuts: Some(Box::new(shortcuts.clone())), ..analysis.clone() };
    let reads = StandInReads::of(&Subject { analysis: &analysis, ..subject })?;
    Ok((shortcuts, reads))
}

///+ Does what [`of_text`] does for a log with escape sequences, whose stand-ins show its plain text:
///+ maps the ranges to the log, and adds checkpoints from which it can be decoded.
fn of_log(
    record: &Record,
    analysis: &Analysis,
    log: &dyn Content,
) -> io::Result<(Shortcuts, StandInReads)> {
    let lines = Checkpoints::dense(log)?;
    let text = PlainText::new(log, lines.clone())?;
    let (mut shortcuts, reads) = of_text(record, analysis.of_text(), &text)?;
    let mut places = Vec::new();
    let mut in_log = |ranges: Vec<Range<u64>>| -> Vec<Range<u64>> {
        let around = ranges.iter().map(|range| lines.around(range, log.len()));
        let around = around.map(|(place, range)| {
            places.push(place);
            range
        });
        around.collect()
    };
    let StandInReads { ends, found, masked_ends, masked } = reads;
    let (ends, found) = (in_log(ends), in_log(found));
    let (masked_ends, masked) = (in_log(masked_ends), in_log(masked));
    places.truncate(PLACES);
    places.sort_unstable();
    places.dedup();
    shortcuts.places = places;
    Ok((shortcuts, StandInReads { ends, found, masked_ends, masked }))
}
