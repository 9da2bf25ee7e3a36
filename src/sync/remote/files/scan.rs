//! What is on the disk of a conversation.

use std::collections::{BTreeSet, HashSet};

use crate::remote::mark::{key_of, shared_path};
use crate::replica::{Base, FileKey, FileVersion, Found};
use ctxfs_core::model::{Record, RelPath};
use ctxfs_store::{Conversation, FileMark, SharedPlace, Stat, StoreError, UnreadPlaces};

/// The walks after which it is not known what is missing.
const WALKS: usize = 4;

/// What is on the disk of a conversation.
#[derive(Default)]
pub(super) struct Scan {
    pub(super) files: Vec<(RelPath, Stat)>,
    /// The artifacts whose bytes are not here, by path.
    pub(super) far: Vec<(String, Found)>,
    pub(super) directories: BTreeSet<String>,
    pub(super) unread: UnreadPlaces,
    /// True if it is not known what is missing.
    pub(super) is_blind: bool,
}

impl Scan {
    /// Walks until two walks miss the same of what the base has: a file that is renamed during a
    /// walk may be seen nowhere, and must not count as removed.
    pub(super) fn of(conversation: &Conversation, known: &Base) -> Result<Self, StoreError> {
        let mut before = None;
        for _ in 0..WALKS {
            let scan = Self::walk(conversation)?;
            let missing = scan.missing(known);
            if missing.is_empty() || before.as_ref() == Some(&missing) {
                return Ok(scan);
            }
            before = Some(missing);
        }
        Ok(Self { is_blind: true, ..Self::walk(conversation)? })
    }

    fn walk(conversation: &Conversation) -> Result<Self, StoreError> {
        let (mut files, mut directories) = (Vec::new(), BTreeSet::new());
        let mut unread = ctxfs_store::shared::each_file(conversation, |place| match place {
            SharedPlace::File(path, stat) => files.push((path, stat)),
            SharedPlace::Directory { path, is_made } => {
                if !is_made {
                    directories.insert(path.to_text());
                }
            }
        })?;
        let (far, is_blind) = match far_files(conversation) {
            Ok(far) => (far, false),
            Err(error) => {
                conversation.pass_over(error, &mut unread)?;
                (Vec::new(), true)
            }
        };
        Ok(Self { files, far, directories, unread, is_blind })
    }

    /// Returns the places in the base of what is not on the disk.
    fn missing(&self, known: &Base) -> Vec<usize> {
        let here = self.files.iter().map(|(_, stat)| key_of(&FileMark::of(stat)));
        let seen: HashSet<FileKey> =
            here.chain(self.far.iter().map(|(_, found)| found.key)).collect();
        let entries = known.entries.iter().enumerate();
        let missing = entries.filter(|(_, entry)| {
            let elsewhere = |origin| seen.contains(&FileKey::Elsewhere(origin));
            !seen.contains(&entry.key) && !entry.origins.iter().copied().any(elsewhere)
        });
        missing.map(|(at, _)| at).collect()
    }
}

fn far_files(conversation: &Conversation) -> Result<Vec<(String, Found)>, StoreError> {
    let mut found = Vec::new();
    for record in conversation.manifest().far(None)? {
        found.extend(far_file(record?));
    }
    Ok(found)
}

/// Returns the artifact of a record, unless the record says what cannot be.
fn far_file(record: Record) -> Option<(String, Found)> {
    let origin = record.far.filter(|far| !far.here)?.origin.parse().ok()?;
    shared_path(&record.path)?;
    let version = FileVersion { size: record.size, modified: record.modified };
    let digest = record.analysis.map(|analysis| analysis.digest.into());
    Some((record.path, Found { key: FileKey::Elsewhere(origin), version, digest }))
}
