use std::io;
use std::sync::LazyLock;

use crate::{scan, summary};
use ctxfs_core::model::{Content as _, Shortcuts, Subject, TriedView};
use ctxfs_core::redact::{Masked, PatternSet, SETS, SecretRules};

// A last line that is no longer is in the part that all stand-ins read.
const NEAR: u64 = 16 << 10;

/// Returns the shortcuts of `subject`, in which no secrets are masked: facts that spare others
/// reading all of an output for its stand-ins. Reads all of an output with errors, as a summary
/// does to try searches.
///
/// The shortcuts hold where secrets are masked, too: those that masks of all known secrets would
/// change are left out.
pub fn shortcuts(subject: &Subject<'_>) -> io::Result<Shortcuts> {
    let tried = summary::tried(subject)?;
    let tried = if tried.is_empty() { tried } else { agreed(subject, tried)? };
    let length = subject.content.len();
    let offset = length.saturating_sub(1);
    let last_line = scan::start_before(subject.content, offset)?;
    let last_line = last_line.filter(|start| length - start > NEAR);
    Ok(Shortcuts { tried, last_line, places: Vec::new() })
}

/// Returns those of `tried` that are the same with secrets masked, and the views that are tried
/// only then.
fn agreed(subject: &Subject<'_>, mut tried: Vec<TriedView>) -> io::Result<Vec<TriedView>> {
    let length = usize::try_from(subject.content.len()).map_err(io::Error::other)?;
    let masked = Masked::new(subject.content, &RULES).bytes(0, length)?;
    if masked == subject.content.bytes(0, length)? {
        return Ok(tried);
    }
    let masked = Subject { content: &masked, redacts: Some(&*RULES), ..*subject };
    for other in summary::tried(&masked)? {
        let same = |one: &TriedView| one.view == other.view && one.line == other.line;
        match tried.iter().position(same) {
            Some(at) if tried[at] != other => drop(tried.remove(at)),
            Some(_) => {}
            None => tried.push(other),
        }
    }
    Ok(tried)
}

// All known secrets.
static RULES: LazyLock<SecretRules> = LazyLock::new(|| {
    let sets: Vec<&PatternSet> = SETS.iter().collect();
    SecretRules::new(&sets, &[]).expect("the sets of this program are valid")
});
