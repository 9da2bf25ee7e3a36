//! Moving records: the records of artifacts follow a rename.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::node::Node;
use crate::node::file::FileNode;
use crate::recording::now_millis;
use crate::{Result, Shared};
use ctxfs_core::model::{ArtifactState, Component, Provenance, Record, RelPath, Removal};
use ctxfs_store::{
    Appended, Conversation, ManifestLock, Stat, StoreError, StoredRecords, this_process,
};

/// The way to move records.
#[derive(Debug, Clone, Copy)]
pub(super) struct MoveOptions {
    /// True if the records of the target move the other way, too.
    pub(super) swapped: bool,
    /// True if sealed artifacts leave a trace under their old names.
    pub(super) traced: bool,
}

/// A node that gets another path, and the path of its records.
#[derive(Clone, Copy)]
pub(super) struct Mover<'a> {
    pub(super) node: &'a Arc<Node>,
    pub(super) path: &'a RelPath,
    /// The attributes of a file before this mount renamed it.
    pub(super) before: Option<&'a Stat>,
}

/// The locked manifests of the two conversations of a rename.
pub(super) struct Manifests {
    pub(super) source: Arc<Conversation>,
    pub(super) target: Arc<Conversation>,
    of_source: ManifestLock,
    /// `None` if both are the same.
    of_target: Option<ManifestLock>,
}

impl Manifests {
    /// Locks both, always in the same order, so that no two renames wait for each other. Fails with
    /// EAGAIN while another process has one of them.
    pub(super) fn hold(
        fs: &Shared,
        source: Arc<Conversation>,
        target: Arc<Conversation>,
    ) -> Result<Self> {
        let lock = |conversation: &Conversation| fs.lock_manifest(conversation);
        let (of_source, of_target) = match source.id().cmp(target.id()) {
            Ordering::Equal => (lock(&source)?, None),
            Ordering::Less => (lock(&source)?, Some(lock(&target)?)),
            Ordering::Greater => {
                let of_target = lock(&target)?;
                (lock(&source)?, Some(of_target))
            }
        };
        Ok(Self { source, target, of_source, of_target })
    }

    /// Moves the records of `from` to the path `after`, which `over` had.
    pub(super) fn move_records(
        &self,
        from: Mover<'_>,
        (over, after): (Option<Mover<'_>>, &RelPath),
        options: MoveOptions,
    ) -> Result<()> {
        let before = from.path;
        let moved = MovedRecords::of(&self.source, from)?;
        let there =
            over.map_or(Ok(MovedRecords::default()), |over| MovedRecords::of(&self.target, over))?;
        // Records of old paths come before those of new ones, as the last record of a path wins.
        let leave = |record: Record| {
            if options.traced && record.state != ArtifactState::Live {
                trace(&record, (before, after), self.target.id())
            } else {
                gone(record)
            }
        };
        let here = moved.each().map(move |record| Ok(leave(record?)));
        let come = there.each().map(|record| Ok(gone(record?)));
        let come = come.chain(carried(&moved, (before, after), &there));
        let back = options.swapped.then(|| carried(&there, (after, before), &moved));
        let back = back.into_iter().flatten();
        let Some(of_target) = &self.of_target else {
            // In one go, so that either all of it is recorded or nothing.
            append(&self.source, &self.of_source, here.chain(come).chain(back))?;
            return Ok(());
        };
        let first = append(&self.target, of_target, come)?;
        let Err(error) = append(&self.source, &self.of_source, here.chain(back)) else {
            return Ok(());
        };
        // Else a later file at that path would be taken for this one.
        of_target.take_back(&first)?;
        self.target.manifest().read_again();
        Err(error)
    }

    /// Unlocks the manifests, and has those compacted that are wasteful.
    pub(super) fn release(self, fs: &Shared) {
        drop((self.of_source, self.of_target));
        fs.compact(&self.source);
        fs.compact(&self.target);
    }
}

/// Appends records, all or none.
fn append(
    conversation: &Conversation,
    lock: &ManifestLock,
    records: impl Iterator<Item = Moved>,
) -> Result<Appended> {
    let appended = lock.append_all(records);
    Ok(appended.inspect_err(|_| conversation.manifest().read_again())?)
}

/// A record that is read, or made of one, when it is asked for.
type Moved = std::result::Result<Record, StoreError>;

/// The records of what is renamed.
#[derive(Default)]
enum MovedRecords {
    /// There are none.
    #[default]
    None,
    /// That of a file.
    File(Box<Record>),
    /// Those of all files below a directory.
    Below(StoredRecords),
}

impl MovedRecords {
    fn of(conversation: &Conversation, from: Mover<'_>) -> Result<Self> {
        let Ok(file) = from.node.as_file() else {
            return Ok(Self::Below(conversation.records_below(from.path)?));
        };
        let Some(record) = conversation.record(from.path)? else { return Ok(Self::None) };
        Ok(Self::File(Box::new(followed(record, file, from.before))))
    }

    fn file(&self) -> Option<&Record> {
        match self {
            Self::File(record) => Some(record),
            Self::None | Self::Below(_) => None,
        }
    }

    fn each(&self) -> impl Iterator<Item = Moved> + use<> {
        let below = match self {
            Self::Below(records) => Some(records.clone()),
            Self::None | Self::File(_) => None,
        };
        let file = self.file().cloned();
        file.into_iter().map(Ok).chain(below.into_iter().flatten())
    }
}

/// Returns the record of a file that was as `before` until it was renamed. The disk counts that as
/// a change of attributes.
fn followed(record: Record, file: &FileNode, before: Option<&Stat>) -> Record {
    let Some(before) = before else { return record };
    match on_disk(file) {
        Some(after) => after.with_new_attributes(before, false, record),
        None => record,
    }
}

/// Returns what the disk says of a file under its name.
pub(super) fn on_disk(file: &FileNode) -> Option<Stat> {
    let link = file.link.get()?;
    link.dir().ok()?.stat(&link.name).ok()
}

/// Returns `records` under their new path, without those whose new name is not an artifact's. A
/// file that takes the place of another is its next generation.
fn carried<'a>(
    records: &MovedRecords,
    (from, to): (&'a RelPath, &'a RelPath),
    over: &MovedRecords,
) -> impl Iterator<Item = Moved> + use<'a> {
    let over = over.file().filter(|_| !matches!(records, MovedRecords::Below(_)));
    let (from, over) = (from.to_text(), over.cloned());
    let unknown = over.clone().filter(|_| records.file().is_none()).map(|over| Record {
        path: from.clone(),
        state: ArtifactState::Live,
        owner: this_process(),
        provenance: Provenance::default(),
        analysis: None,
        ..over
    });
    let carry = move |record: Record| {
        let rest = record.path.strip_prefix(&from).unwrap_or_default();
        let path = format!("{to}{rest}");
        let generation = over.as_ref().map_or(record.generation, |over| over.generation + 1);
        let is_artifact = RelPath::from_text(&path).is_ok_and(|path| path.is_artifact());
        is_artifact.then_some(Record { path, generation, ..record })
    };
    let all = records.each().chain(unknown.map(Ok));
    all.filter_map(move |record| record.map(&carry).transpose())
}

/// Returns the trace that an artifact leaves under its old name.
fn trace(record: &Record, (from, to): (&RelPath, &RelPath), conversation: &Component) -> Record {
    let rest = record.path.strip_prefix(&from.to_text()).unwrap_or_default();
    let now = format!("ctx://{conversation}/{to}{rest}");
    record.retired(record.size, record.modified, Removal::renamed(now_millis(), &now))
}

fn gone(record: Record) -> Record {
    Record { state: ArtifactState::Gone, analysis: None, ..record }
}
