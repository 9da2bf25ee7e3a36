//! The outputs of the runs of a command in a conversation.

use crate::{Conversation, StoreError};
use ctxfs_core::model::{ArtifactState, Record, RelPath};

/// Maximum number of earlier runs whose outputs are looked for. Only outputs that are gone take more
/// than one look.
const MOST_LOOKS: usize = 100;

/// Returns the output of the last run of a command before `created`, and the number of that run. The
/// first is run 1. `run` is the command, as in `Provenance::run`.
///
/// Skips outputs that are live, removed, or not as recorded. Costs one `stat` and one read for an
/// output that is there, and at most a hundred of each.
pub fn earlier_run(
    conversation: &Conversation,
    run: &str,
    created: i64,
) -> Result<Option<(u64, Record)>, StoreError> {
    let mut runs = conversation.manifest().runs(run, created)?;
    for _ in 0..MOST_LOOKS {
        let Some(record) = runs.next_back().transpose()? else { break };
        let number = runs.lines.len() as u64 + 1;
        if is_there(conversation, run, &record) {
            return Ok(Some((number, record)));
        }
    }
    Ok(None)
}

/// Returns the output of the run with this `number` among the runs of a command before `created`, or
/// `None` if it is not there. See [`earlier_run`].
pub fn numbered_run(
    conversation: &Conversation,
    (run, created): (&str, i64),
    number: u64,
) -> Result<Option<Record>, StoreError> {
    let mut runs = conversation.manifest().runs(run, created)?;
    let before = usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
    let record = runs.nth(before).transpose()?;
    Ok(record.filter(|record| is_there(conversation, run, record)))
}

fn is_there(conversation: &Conversation, run: &str, record: &Record) -> bool {
    let is_recorded = || {
        let Ok(path) = RelPath::from_text(&record.path) else { return false };
        let stat = conversation.dir().stat_at(&path);
        stat.is_ok_and(|stat| stat.matches(record))
            || record.far.as_ref().is_some_and(|far| !far.here)
    };
    record.provenance.run.as_deref() == Some(run)
        && record.state != ArtifactState::Live
        && record.removed.is_none()
        && is_recorded()
}
