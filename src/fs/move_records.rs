//! Moving records: the records of artifacts follow a rename.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::engine::sync::lock_manifest;
use crate::fs::Result;
use crate::fs::node::Node;
use crate::model::ArtifactState;
use crate::model::Provenance;
use crate::model::Record;
use crate::model::RelPath;
use crate::store::Conversation;
use crate::store::ManifestLock;
use crate::store::this_process;

/// The locked manifests of the two conversations of a rename.
pub(super) struct Manifests {
    pub(super) source: Arc<Conversation>,
    pub(super) target: Arc<Conversation>,
    of_source: ManifestLock,
    /// `None` if both are the same.
    of_target: Option<ManifestLock>,
}

impl Manifests {
    /// Locks both, always in the same order, so that no two renames wait for each other.
    pub(super) fn hold(source: Arc<Conversation>, target: Arc<Conversation>) -> Result<Self> {
        let (of_source, of_target) = match source.id().cmp(target.id()) {
            Ordering::Equal => (lock_manifest(&source)?, None),
            Ordering::Less => (lock_manifest(&source)?, Some(lock_manifest(&target)?)),
            Ordering::Greater => {
                let of_target = lock_manifest(&target)?;
                (lock_manifest(&source)?, Some(of_target))
            }
        };
        Ok(Self { source, target, of_source, of_target })
    }

    /// Moves the records of `from` to the path of `to`. If the two are `swapped`, moves those of
    /// `to` the other way, too.
    pub(super) fn move_records(
        &self,
        from: (&Arc<Node>, &RelPath),
        to: (Option<&Arc<Node>>, &RelPath),
        swapped: bool,
    ) -> Result<()> {
        let (before, after) = (from.1, to.1);
        let moved = records_of(&self.source, from.0, before)?;
        let there =
            to.0.map_or(Ok(Vec::new()), |target| records_of(&self.target, target, after))?;
        // Records of old paths come before those of new ones, as the last record of a path wins.
        let gone = |records: &[Record]| records.iter().map(gone).collect::<Vec<_>>();
        let mut here = gone(&moved);
        let mut come = gone(&there);
        come.extend(carried(from.0, &moved, (before, after), &there));
        let back = to.0.filter(|_| swapped);
        let back = back.map(|target| carried(target, &there, (after, before), &moved));
        let Some(of_target) = &self.of_target else {
            // In one write, so that either all of it is recorded or nothing.
            here.extend(come.into_iter().chain(back.unwrap_or_default()));
            return Ok(self.of_source.append(&here)?);
        };
        of_target.append(&come)?;
        here.extend(back.unwrap_or_default());
        Ok(self.of_source.append(&here)?)
    }

    /// Unlocks the manifests, and compacts those that are wasteful.
    pub(super) fn release(self) {
        drop((self.of_source, self.of_target));
        self.source.manifest().compact_if_wasteful();
        self.target.manifest().compact_if_wasteful();
    }
}

/// Returns the record of the file at `path`, or those of all files below the directory there.
fn records_of(conversation: &Conversation, node: &Node, path: &RelPath) -> Result<Vec<Record>> {
    if node.as_file().is_ok() {
        return Ok(conversation.record(path)?.into_iter().collect());
    }
    let below = format!("{path}/");
    let mut records = conversation.records()?;
    records.retain(|record| record.path.starts_with(&below));
    Ok(records)
}

/// Returns `records` under their new path, without those whose new name is not an artifact's. A
/// file that takes the place of another is its next generation.
fn carried(
    node: &Node,
    records: &[Record],
    (from, to): (&RelPath, &RelPath),
    over: &[Record],
) -> Vec<Record> {
    let over = over.first().filter(|record| record.path == to.to_text() && node.as_file().is_ok());
    let from = from.to_text();
    let unknown = over.filter(|_| records.is_empty()).map(|over| Record {
        path: from.clone(),
        state: ArtifactState::Live,
        owner: this_process(),
        provenance: Provenance::default(),
        analysis: None,
        ..over.clone()
    });
    let moved = records.iter().chain(&unknown).filter_map(|record| {
        let rest = record.path.strip_prefix(&from).unwrap_or_default();
        let path = format!("{to}{rest}");
        let generation = over.map_or(record.generation, |over| over.generation + 1);
        let is_artifact = RelPath::from_text(&path).is_ok_and(|path| path.is_artifact());
        is_artifact.then(|| Record { path, generation, ..record.clone() })
    });
    moved.collect()
}

fn gone(record: &Record) -> Record {
    Record { state: ArtifactState::Gone, analysis: None, ..record.clone() }
}
