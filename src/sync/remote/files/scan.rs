
use std::collections::{BTreeSet, HashSet};

use crate::remote::mark::{key_of, shared_path};
use crate::replica::{Base, FileKey, FileVersion, Found};
use ctxfs_core::model::{Record, RelPath};
use ctxfs_store::{Conversation, FileMark, SharedPlace, Stat, StoreError, UnreadPlaces};

///+ Maximum walks that may disagree.
const WALKS: usize = 4;

#[derive(Default)]
pub(super) struct Scan {
    pub(super) files: Vec<(RelPath, Stat)>,
    pub(super) far: Vec<(String, Found)>,
    pub(super) directories: BTreeSet<String>,
    pub(super) unread: UnreadPlaces,
    pub(super) is_blind: bool,
}

impl Scan {
    ///+ Walks until two walks miss the same entries of the base: a walk can miss a file that is
    ///+ renamed meanwhile, and such a file must not count as removed.
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
        let mut unread = conversation.each_shared(|place| match place {
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
    for record in conversation.far_records()? {
        found.extend(far_file(record?));
    }
    Ok(found)
}

///+ Returns the remote artifact of a record, unless the record is invalid.
fn far_file(record: Record) -> Option<(String, Found)> {
    let origin = record.far.filter(|far| !far.here)?.origin.parse().ok()?;
    shared_path(&record.path)?;
    let version = FileVersion { size: record.size, modified: record.modified };
    let digest = record.analysis.map(|analysis| analysis.digest.into());
    Some((record.path, Found { key: FileKey::Elsewhere(origin), version, digest }))
}
