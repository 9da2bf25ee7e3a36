//! Importing the manifest of an archive, with its records checked against the files.

use std::io::{BufRead as _, BufReader, Read};

use crate::archive::reader::read_error;
use crate::archive::{ArchiveError, BLOCK, Flaw, MOST_RECORD};
use crate::conversation::Conversation;
use crate::layout;
use ctxfs_core::model::{ArtifactState, Record, RelPath, is_scratch};

/// The first generation that is refused: the limit of integers in JavaScript.
const MOST_GENERATIONS: u64 = 1 << 53;
/// The most milliseconds before or after the epoch: the range of dates in JavaScript.
const MOST_MILLIS: u64 = 8_640_000_000_000_000;
/// The records that are appended at once.
const BATCH: usize = 256;
/// The reason in the record of an artifact that was being written.
const CUT: &str = "its writer had not closed it when the archive was made";

/// Adds the records in `lines` to a conversation that has all its files, each with a fresh record.
/// The archive may have at most `most` bytes.
pub(super) fn take(
    conversation: &Conversation,
    lines: &mut dyn Read,
    most: u64,
) -> Result<(), ArchiveError> {
    let mut lines = BufReader::with_capacity(BLOCK, lines);
    let mut line = Vec::new();
    let mut records = Vec::with_capacity(BATCH);
    for number in 1.. {
        line.clear();
        let read = lines.by_ref().take(MOST_RECORD).read_until(b'\n', &mut line);
        if read.map_err(|error| read_error(error, most))? == 0 {
            break;
        }
        let record = parse(&line).ok_or_else(|| refused(Flaw::Record(number)))?;
        records.push(checked(conversation, record)?);
        if records.len() >= BATCH {
            conversation.manifest().append(&records)?;
            records.clear();
        }
    }
    Ok(conversation.manifest().append(&records)?)
}

fn refused(flaw: Flaw) -> ArchiveError {
    ArchiveError::refused(layout::MANIFEST, flaw)
}

/// Parses a line. Returns `None` if it is not a valid record.
fn parse(line: &[u8]) -> Option<(RelPath, Record)> {
    let record: Record = serde_json::from_slice(line.strip_suffix(b"\n")?).ok()?;
    let path = RelPath::from_text(&record.path).ok()?;
    let possible = path.to_text() == record.path
        && (1..MOST_GENERATIONS).contains(&record.generation)
        && record.created.unsigned_abs() <= MOST_MILLIS
        && record.state != ArtifactState::Gone
        && !is_scratch(path.file_name());
    possible.then_some((path, record))
}

/// Returns the record with everything that can be derived from the file taken from there. Fails if
/// its digest is not that of the file.
fn checked(
    conversation: &Conversation,
    (path, mut record): (RelPath, Record),
) -> Result<Record, ArchiveError> {
    (record.owner, record.file, record.far) = (None, None, None);
    if record.state == ArtifactState::Live {
        record.state = ArtifactState::Incomplete(CUT.to_owned());
    }
    let Some(found) = conversation.record(&path)? else { return Ok(record) };
    let digest = |record: &Record| record.analysis.as_ref().map(|found| found.digest.clone());
    if digest(&record).is_some_and(|recorded| Some(recorded) != digest(&found)) {
        return Err(ArchiveError::refused(record.path, Flaw::RecordedDigest));
    }
    let Record { size, modified, file, analysis, .. } = found;
    Ok(Record { size, modified, file, analysis, removed: None, ..record })
}
