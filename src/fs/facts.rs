//! What is known of a file beside its bytes: the manifest's record, brought up to this moment.

use std::hash::DefaultHasher;
use std::hash::Hash as _;
use std::hash::Hasher as _;
use std::sync::Arc;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::SystemTime;

use crate::fs::FsError;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::attr::system_time;
use crate::fs::file::Writing;
use crate::fs::node::Node;
use crate::fs::sync::Mutex;
use crate::model::Component;
use crate::model::Record;
use crate::model::RelPath;
use crate::model::ArtifactState;
use crate::store::Conversation;
use crate::store::Held;
use crate::store::Position;
use crate::store::Stat;
use crate::store::Time;
use crate::store::provenance_of;

/// Two changes of a file that are so far apart have two times on any disk: the coarsest keep whole
/// seconds, and clocks of files go in steps.
const COARSEST_TIME: Duration = Duration::from_secs(2);

impl Shared {
    /// The conversation of `id`; gone where somebody removed it meanwhile.
    pub(crate) fn conversation(&self, id: &Component) -> Result<Arc<Conversation>> {
        let conversation = self.store.conversation(id)?.ok_or(FsError::NotFound)?;
        let held = self.conversations.get(id);
        if !held.is_some_and(|held| Arc::ptr_eq(&held, &conversation)) {
            self.conversations.insert(id.clone(), Arc::clone(&conversation));
        }
        Ok(conversation)
    }

    /// What is known of `node`, whose disk says `stat`. Attributes of the file are not in it.
    pub(crate) fn record(&self, node: &Node, stat: &Stat) -> Result<Record> {
        let (id, path) = node.place().ok_or(FsError::Stale)?;
        let conversation = self.conversation(&id)?;
        let writing = node.as_file()?.writing();
        record_at(&writing, &conversation, &path, stat, None)
    }

    /// A number that changes with anything beside the bytes that a view shows, and with nothing
    /// else; sealing leaves it as it is.
    ///
    /// Of a file at rest it is remembered, so that finding its views again opens and parses
    /// nothing.
    pub(crate) fn facts_version(&self, node: &Node, stat: &Stat) -> Result<u64> {
        let file = node.as_file()?;
        let place = node.place().ok_or(FsError::Stale)?;
        let conversation = self.conversation(&place.0)?;
        let recorded = conversation.position(&place.1)?;
        let basis = Basis { place, recorded, changed: stat.ctime };
        let now = SystemTime::now();
        if let Some(version) = file.facts.known(&basis).filter(|_| file.writing().is_at_rest()) {
            return Ok(version);
        }
        let mut record = record_at(&file.writing(), &conversation, &basis.place.1, stat, None)?;
        let lasts = record.state != ArtifactState::Live && file.writing().is_at_rest();
        // Sealing brings what the attributes say into the record.
        let provenance = file.reader().and_then(|file| Ok(provenance_of(&file)?));
        record.provenance.update(&provenance.unwrap_or_default());
        let version = version_of(&basis.place, &record);
        if lasts {
            file.facts.keep(basis, version, now);
        }
        Ok(version)
    }
}

/// What the facts of a file at rest come from. While it is the same, so are they.
#[derive(Debug, PartialEq, Eq)]
struct Basis {
    place: (Component, RelPath),
    /// Which record is in force.
    recorded: Option<Position>,
    /// The last change of anything, so of the extended attributes too.
    changed: Time,
}

/// The facts version of a file, and what it comes from.
#[derive(Debug, Default)]
pub(crate) struct KnownFacts(Mutex<Option<(Basis, u64)>>);

impl KnownFacts {
    fn known(&self, basis: &Basis) -> Option<u64> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().filter(|(of, _)| of == basis).map(|(_, version)| *version)
    }

    /// Remembers a version that was found from `now` on, unless the file was changed so shortly
    /// before that a later change may have the same time.
    fn keep(&self, basis: Basis, version: u64, now: SystemTime) {
        let settled = system_time(basis.changed).checked_add(COARSEST_TIME);
        if settled.is_some_and(|settled| settled < now) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((basis, version));
        }
    }
}

fn version_of(place: &(Component, RelPath), record: &Record) -> u64 {
    let mut hasher = DefaultHasher::new();
    place.hash(&mut hasher);
    record.generation.hash(&mut hasher);
    record.incomplete().hash(&mut hasher);
    serde_json::to_string(&record.provenance).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

/// As [`Shared::record`], while the file's writers are held; and `manifest`, where the caller holds that.
pub(crate) fn record_at(
    writing: &Writing,
    conversation: &Conversation,
    path: &RelPath,
    stat: &Stat,
    manifest: Option<&Held>,
) -> Result<Record> {
    let mut known = conversation.record(path)?;
    if !writing.unsealed && known.as_ref().is_some_and(|record| record.state == ArtifactState::Live) {
        let recovered = match manifest {
            Some(held) => conversation.recover_held(held, path),
            None => conversation.recover(path),
        };
        known = recovered?.or(known);
    }
    let recorded = known.as_ref().map(|known| (known.generation, known.state == ArtifactState::Live));
    let mut record = known.unwrap_or_else(|| Conversation::fresh_record(path, stat));
    if writing.unsealed {
        record.generation = writing.generation(recorded);
        record.state = ArtifactState::Live;
    }
    if let Some(why) = &writing.trouble {
        record.state = ArtifactState::Incomplete(why.clone());
    }
    Ok(record)
}
