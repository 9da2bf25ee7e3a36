//! Records of artifacts in the manifest: changing them, and moving them with a file. A file moves
//! in a rename through the mount, or when another process moves it in the store while clients write
//! to it.
//!
//! The mount gets no notice of a move by another process. The mount detects the move when a look-up
//! finds the file under its new name, or when the file is closed. The next job of the sealing
//! thread then moves the record; see [`settle_moved`].
//!
//! To change a record, the server locks the manifest first and then the places of files. If another
//! process holds the manifest, the operation has locked and changed nothing yet, and is retried as
//! a whole.

use std::cmp::Ordering;
use std::slice;
use std::sync::Arc;
use std::time::SystemTime;

use crate::life::RecordPlace;
use crate::{FileNode, FsError, Life, Node, NodeKey, Result, SealJob, Shared};
use ctxfs_core::model::{ArtifactState, Component, Provenance, Record, RelPath, Removal};
use ctxfs_engine::sync::RwLockReadGuard;
use ctxfs_engine::{DoorFile as _, Engine, FileId, FileLife as _, Freed, Source, Version};
use ctxfs_store::{
    Appended, Conversation, ManifestLock, Stat, StoreError, StoredRecords, this_process,
};

/// A file as the source of views, its version and its attributes.
pub(crate) type PresentSource = (Source, Version, Stat);

pub(crate) fn present_source(engine: &Engine, file: &Arc<FileNode>) -> Result<PresentSource> {
    let (changes, stat) = {
        let link = file.link.get().ok_or(FsError::NotFound)?;
        let dir = link.dir()?;
        let life = file.life();
        let stat = match dir.stat(&link.name) {
            Ok(stat) => stat,
            Err(error) => stat_remote(engine, file)?.map_or_else(
                // The file may have been fetched in the meantime.
                || dir.stat(&link.name).map_err(|_| error),
                Ok,
            )?,
        };
        (life.bytes.changes, stat)
    };
    let (source, version) = Source::present(engine, Arc::clone(file) as _, &stat, changes)?;
    Ok((source, version, stat))
}

/// Returns the attributes of `file` as a remote artifact, for a name that no file on disk has.
/// Fails with [`FsError::Stale`] if the record belongs to a different artifact; the kernel then
/// looks the name up again.
fn stat_remote(engine: &Engine, file: &FileNode) -> Result<Option<Stat>> {
    if let Some(far) = file.remote_stat() {
        return Ok(Some(far));
    }
    let (id, path) = file.place().ok_or(FsError::Stale)?;
    let Some(far) = engine.conversation(&id)?.far(&path)? else { return Ok(None) };
    if !file.was(&far.stat) {
        return Err(FsError::Stale);
    }
    file.found_as(&far.stat);
    Ok(Some(far.stat))
}

/// The locked record of an artifact. The record does not change and no file moves until this value
/// is dropped.
pub(crate) struct LockedRecord<'a> {
    pub(crate) conversation: Arc<Conversation>,
    pub(crate) path: RelPath,
    pub(crate) manifest: ManifestLock,
    places: RwLockReadGuard<'a, ()>,
}

impl LockedRecord<'_> {
    /// Records that the artifact was removed. `stat` has its attributes on disk. Returns the record
    /// that the artifact had until then.
    pub(crate) fn retire(&self, stat: &Stat) -> Result<Record> {
        let removal = Removal::unlinked(now_millis());
        Ok(self.conversation.retire_locked(&self.manifest, (&self.path, stat), removal)?)
    }

    pub(crate) fn release(self, fs: &Shared) {
        drop((self.places, self.manifest));
        fs.compact(&self.conversation);
    }
}

/// Locks the record of `node`. Returns `None` if the node is not an artifact. Fails with EAGAIN
/// while another process holds the manifest lock.
pub(super) fn lock_record<'a>(fs: &'a Shared, node: &Node) -> Result<Option<LockedRecord<'a>>> {
    loop {
        let Some((id, _)) = artifact(node) else { return Ok(None) };
        let conversation = fs.engine.conversation(&id)?;
        let manifest = fs.lock_manifest(&conversation)?;
        let places = fs.places.read();
        // The file may have moved while this function waited for the manifest.
        if let Some((_, path)) = artifact(node).filter(|(now, _)| *now == id) {
            return Ok(Some(LockedRecord { conversation, path, manifest, places }));
        }
    }
}

/// Locks the record of `node` if the node is a sealed file, so that the record can follow a change
/// of attributes. The attributes of a live file are recorded when the file is sealed.
pub(super) fn lock_sealed<'a>(fs: &'a Shared, node: &Node) -> Result<Option<LockedRecord<'a>>> {
    match node.as_file() {
        Ok(file) if !file.life().is_unsealed() => lock_record(fs, node),
        _ => Ok(None),
    }
}

/// Calls `change` with the artifact's record and appends the record that it returns. The place and
/// the life of the file are locked meanwhile, so that a rename, a removal or an open comes either
/// before or after. If `seals` is true and a record was appended, the file is then sealed.
pub(super) fn record_as(
    fs: &Shared,
    node: &Node,
    change: impl FnOnce(&mut Life, Record) -> Option<Record>,
    seals: bool,
) -> Result<()> {
    let Some(held) = lock_record(fs, node)? else { return Ok(()) };
    let recorded = append_record(fs, &held, (node.as_file()?, None), change, seals);
    held.release(fs);
    recorded
}

/// A change of a file's attributes that leaves the bytes as they are. `before` has the attributes
/// from before the change. `sets_time` is true if the change sets the modification time.
pub(super) struct AttributeChange<'a> {
    pub(super) before: &'a Stat,
    pub(super) sets_time: bool,
}

/// Updates the record of a sealed artifact after a change of attributes. The caller has held the
/// record since before the change. Adds `said`, the provenance in the extended attributes, and has
/// the artifact analysed again if another process may have changed its bytes. The record of a live
/// artifact is updated when the artifact is sealed.
pub(super) fn record_attributes(
    fs: &Shared,
    held: LockedRecord<'_>,
    (node, change): (&Arc<Node>, &AttributeChange<'_>),
    said: Option<&Provenance>,
) -> Result<()> {
    let mut is_lost = false;
    let update = |life: &mut Life, mut record: Record| {
        let is_known = record.analysis.is_some();
        match said {
            _ if life.is_unsealed() => return None,
            None => return is_known.then_some(record),
            Some(said) => record.provenance.update(said),
        }
        is_lost = !is_known;
        Some(record)
    };
    let recorded = append_record(fs, &held, (node.as_file()?, Some(change)), update, false);
    held.release(fs);
    recorded?;
    if is_lost {
        fs.sealer.submit(SealJob::Analyse(Arc::clone(node)));
    }
    Ok(())
}

fn append_record(
    fs: &Shared,
    held: &LockedRecord<'_>,
    (file, attributes): (&FileNode, Option<&AttributeChange<'_>>),
    change: impl FnOnce(&mut Life, Record) -> Option<Record>,
    seals: bool,
) -> Result<()> {
    let link = file.link.lock();
    let Some(link) = link.as_ref() else { return Ok(()) };
    let dir = link.dir()?;
    let mut life = file.life();
    let stat = dir.stat(&link.name)?;
    if !file.is_at(&stat) {
        return Err(FsError::Stale);
    }
    life.noticed(&stat, fs.engine.store().clock());
    let manifest = Some(&held.manifest);
    let mut record = life.present_record(&held.conversation, &held.path, &stat, manifest)?;
    if let Some(AttributeChange { before, sets_time }) = attributes {
        record = stat.with_new_attributes(before, *sets_time, record);
    }
    let (size, modified) = (stat.size, stat.mtime.as_nanos());
    // Drops an analysis that belongs to different bytes.
    record.analysis =
        record.analysis.filter(|_| (record.size, record.modified) == (size, modified));
    (record.size, record.modified) = (size, modified);
    if let Some(record) = change(&mut life, record) {
        held.manifest.append(slice::from_ref(&record))?;
        if seals {
            life.sealed();
        }
    }
    Ok(())
}

pub(super) fn now_millis() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

fn artifact(node: &Node) -> Option<(Component, RelPath)> {
    node.place().filter(|(_, path)| path.is_artifact())
}

/// Options for moving records. If `swapped`, the records of the target move the other way. If
/// `traced`, sealed artifacts leave a trace under their old names.
#[derive(Debug, Clone, Copy)]
pub(super) struct MoveOptions {
    pub(super) swapped: bool,
    pub(super) traced: bool,
}

/// A node that gets a new path. `path` is the path of its records. `before` has the attributes of a
/// file from before the rename, if this mount renames it.
#[derive(Clone, Copy)]
pub(super) struct Mover<'a> {
    pub(super) node: &'a Arc<Node>,
    pub(super) path: &'a RelPath,
    pub(super) before: Option<&'a Stat>,
}

/// The locked manifests of the two conversations of a rename. `of_target` is `None` if both are the
/// same conversation.
pub(super) struct Manifests {
    pub(super) source: Arc<Conversation>,
    pub(super) target: Arc<Conversation>,
    of_source: ManifestLock,
    of_target: Option<ManifestLock>,
}

impl Manifests {
    /// Locks both manifests, always in the same order, so that two renames cannot deadlock. Fails
    /// with EAGAIN while another process holds one of the locks.
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
        // Records of old paths come before records of new paths, because the last record of a path
        // is the valid one.
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
            // A single append, so that either all records are written or none.
            append(&self.source, &self.of_source, here.chain(come).chain(back))?;
            return Ok(());
        };
        let first = append(&self.target, of_target, come)?;
        let Err(error) = append(&self.source, &self.of_source, here.chain(back)) else {
            return Ok(());
        };
        // The target must not keep these records: a later file at that path would be taken for the
        // moved file.
        of_target.take_back(&first)?;
        self.target.manifest().read_again();
        Err(error)
    }

    pub(super) fn release(self, fs: &Shared) {
        drop((self.of_source, self.of_target));
        fs.compact(&self.source);
        fs.compact(&self.target);
    }
}

fn append(
    conversation: &Conversation,
    lock: &ManifestLock,
    records: impl Iterator<Item = Moved>,
) -> Result<Appended> {
    let appended = lock.append_all(records);
    Ok(appended.inspect_err(|_| conversation.manifest().read_again())?)
}

type Moved = std::result::Result<Record, StoreError>;

#[derive(Default)]
enum MovedRecords {
    #[default]
    None,
    File(Box<Record>),
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

/// Returns the record of a file after a rename. `before` has the file's attributes from before the
/// rename. The disk counts a rename as a change of attributes.
fn followed(record: Record, file: &FileNode, before: Option<&Stat>) -> Record {
    let Some(before) = before else { return record };
    match on_disk(file) {
        Some(after) => after.with_new_attributes(before, false, record),
        None => record,
    }
}

pub(super) fn on_disk(file: &FileNode) -> Option<Stat> {
    let link = file.link.get()?;
    link.dir().ok()?.stat(&link.name).ok()
}

/// Returns `records` under their new path. Leaves out records whose new name is not the name of an
/// artifact. A file that replaces an artifact becomes the next generation of that artifact.
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

fn trace(record: &Record, (from, to): (&RelPath, &RelPath), conversation: &Component) -> Record {
    let rest = record.path.strip_prefix(&from.to_text()).unwrap_or_default();
    let now = format!("ctx://{conversation}/{to}{rest}");
    record.retired(record.size, record.modified, Removal::renamed(now_millis(), &now))
}

fn gone(record: Record) -> Record {
    Record { state: ArtifactState::Gone, analysis: None, ..record }
}

/// The owner of the record that the manifest has under a former name of a file:
///
/// - `InUse`: the file still has the name.
/// - `ItsOwn`: the record belongs to the file, or there is no record.
/// - `Others`: the record belongs to a different file, which now has the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OldRecord {
    InUse,
    ItsOwn,
    Others,
}

/// Moves the record of `node` to the file's current place, if another process has moved the file.
/// Fails with EAGAIN while another process holds a manifest lock.
pub(super) fn settle_moved(fs: &Shared, node: &Arc<Node>) -> Result<()> {
    let file = node.as_file()?;
    let Some(home) = file.life().home() else { return Ok(()) };
    match node.place() {
        Some((id, path)) if (&id, &path) == (&home.conversation, &home.path) => Ok(()),
        Some(here) => follow_moved(fs, node, &home, here),
        None => forget_moved(fs, node, &home),
    }
}

/// Like [`settle_moved`], for a file that is missing at its recorded name. If the file has no name
/// in the store, removes its record.
pub(super) fn settle_lost(fs: &Shared, node: &Arc<Node>) -> Result<()> {
    settle_moved(fs, node)?;
    let home = node.as_file()?.life().home();
    match home {
        Some(home) if !is_at(fs, node, (&home.conversation, &home.path)) => {
            forget_moved(fs, node, &home)
        }
        _ => Ok(()),
    }
}

fn follow_moved(
    fs: &Shared,
    node: &Arc<Node>,
    home: &RecordPlace,
    here: (Component, RelPath),
) -> Result<()> {
    let Some(source) = fs.engine.store().conversation(&home.conversation)? else {
        return note_moved(node, Some(here), None);
    };
    let target = fs.engine.conversation(&here.0)?;
    let manifests = Manifests::hold(fs, source, target)?;
    let places = fs.places.read();
    let followed = follow_locked(fs, node, &manifests, (home, here));
    drop(places);
    manifests.release(fs);
    followed
}

fn follow_locked(
    fs: &Shared,
    node: &Arc<Node>,
    manifests: &Manifests,
    (home, here): (&RecordPlace, (Component, RelPath)),
) -> Result<()> {
    if node.place().as_ref() != Some(&here) {
        return Err(FsError::TryAgain("it is being moved"));
    }
    let mut generation = None;
    match old_record(fs, node.as_file()?, &manifests.source, home)? {
        OldRecord::InUse => return Ok(()),
        OldRecord::Others => {}
        OldRecord::ItsOwn => {
            let options = MoveOptions { swapped: false, traced: fs.engine.options().write_once };
            // The record under the new name belongs to a file that was replaced there.
            let from = Mover { node, path: &home.path, before: None };
            let over = Mover { path: &here.1, ..from };
            manifests.move_records(from, (Some(over), &here.1), options)?;
            let record = manifests.target.record(&here.1)?;
            generation = record.map(|record| record.generation);
        }
    }
    fs.engine.freed(&home.conversation, Freed::default());
    fs.engine.freed(&here.0, Freed::default());
    note_moved(node, Some(here), generation)
}

fn forget_moved(fs: &Shared, node: &Arc<Node>, home: &RecordPlace) -> Result<()> {
    if let Some(conversation) = fs.engine.store().conversation(&home.conversation)? {
        let manifest = fs.lock_manifest(&conversation)?;
        let places = fs.places.read();
        if old_record(fs, node.as_file()?, &conversation, home)? == OldRecord::ItsOwn
            && conversation.record(&home.path)?.is_some()
        {
            conversation.forget_locked(&manifest, &home.path)?;
        }
        drop((places, manifest));
        fs.compact(&conversation);
    }
    note_moved(node, None, None)
}

fn note_moved(
    node: &Node,
    here: Option<(Component, RelPath)>,
    generation: Option<u64>,
) -> Result<()> {
    let here = here.filter(|(_, path)| path.is_artifact());
    node.as_file()?.life().moved(here, generation);
    Ok(())
}

fn old_record(
    fs: &Shared,
    file: &FileNode,
    conversation: &Conversation,
    home: &RecordPlace,
) -> Result<OldRecord> {
    let id = match conversation.dir().stat_at(&home.path).map_err(FsError::from) {
        Err(error) if error.is_absent() || matches!(error.errno().0, libc::ENOTDIR) => {
            return Ok(OldRecord::ItsOwn);
        }
        stat => FileId::of(&stat?),
    };
    if id == file.id() {
        return Ok(OldRecord::InUse);
    }
    let there = fs.nodes.find(&NodeKey::Disk(id));
    let is_written =
        there.is_some_and(|node| node.as_file().is_ok_and(|file| file.life().is_unsealed()));
    let is_noted = |record: Record| {
        record.state == ArtifactState::Live
            && record.owner == this_process()
            && home.noted == Some(record.generation)
    };
    let is_own = !is_written && conversation.record(&home.path)?.is_some_and(is_noted);
    Ok(if is_own { OldRecord::ItsOwn } else { OldRecord::Others })
}

pub(super) fn is_at(fs: &Shared, node: &Node, (id, path): (&Component, &RelPath)) -> bool {
    let stat = fs.engine.conversation(id).map(|conversation| conversation.dir().stat_at(path));
    stat.is_ok_and(|stat| stat.is_ok_and(|stat| node.is_at(&stat)))
}
