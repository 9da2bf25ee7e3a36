//! A host in memory. It has files, an agreement with the bucket, and the segments that it has seen
//! there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::replica::{
    AssignedPaths, Base, Changes, Clock, Covered, Entry, FileKey, FileVersion, FoundFile, Origin,
    Plan, Publication, Segment, SegmentDigest, SegmentId, State, Step, WriterId, seen,
};

/// Location of the bytes of an artifact: in its segment if `None`, otherwise in the object with
/// this number.
pub(super) type Place = Option<u64>;
/// A message, represented by a number.
pub(super) type Message = u64;
pub(super) type Piece = Segment<Place, Message>;

/// Returns the digest of a segment.
pub(super) fn digest(piece: &Piece) -> SegmentDigest {
    SegmentDigest::of(format!("{piece:?}").as_bytes())
}

/// State of a host that a copy of the machine includes.
#[derive(Debug, Clone)]
pub(super) struct Disk {
    pub(super) writer: WriterId,
    pub(super) next: u64,
    /// Publication that is being sent, the time at which it was built, and the number of published
    /// messages after it.
    pub(super) intent: Option<(Publication<Place, Message>, u64, usize)>,
    pub(super) files: BTreeMap<String, FoundFile>,
    pub(super) base: Base,
    pub(super) messages: Vec<Message>,
    pub(super) published_messages: usize,
    pub(super) seen: BTreeMap<SegmentId, Piece>,
    pub(super) clock: Clock,
    /// Time of the last look, and the segments that merges covered at that time.
    pub(super) looked: Option<(u64, Covered)>,
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) disk: Disk,
    /// Number of hours by which the host's clock is ahead.
    pub(super) skew: i64,
    pub(super) is_up: bool,
    pub(super) image: Option<Disk>,
    /// Uploaded objects by path: key and version of the file, number of the object, and time of the
    /// upload. They are lost in a crash.
    pub(super) uploads: BTreeMap<String, (FileKey, FileVersion, u64, u64)>,
}

impl Host {
    pub(super) fn new(number: u64, skew: i64) -> Self {
        let disk = Disk {
            writer: WriterId(number),
            next: 1,
            intent: None,
            files: BTreeMap::new(),
            base: Base::default(),
            messages: Vec::new(),
            published_messages: 0,
            seen: BTreeMap::new(),
            clock: Clock::default(),
            looked: None,
        };
        Self { disk, skew, is_up: true, image: None, uploads: BTreeMap::new() }
    }

    pub(super) fn state(&self) -> State<Place, Message> {
        State::of(self.disk.seen.values())
    }

    pub(super) fn changes(&self) -> Changes {
        Changes::since(&self.disk.base, &self.disk.files)
    }

    pub(super) fn plan(&self) -> Plan {
        let Disk { base, files, .. } = &self.disk;
        Plan::new(base, files, &self.state(), &self.changes(), &BTreeSet::new())
    }

    pub(super) fn names(&self) -> AssignedPaths {
        seen(&self.state(), &self.changes(), &BTreeSet::new())
    }

    /// Returns true if the bytes belong to a living artifact, or to no artifact.
    pub(super) fn lives(&self, found: &FoundFile) -> bool {
        let holds = |entry: &&Entry| entry.key == found.key && entry.version == found.version;
        let entry = self.disk.base.entries.iter().find(holds);
        let living = self.state().artifacts;
        entry.is_none_or(|entry| entry.origins.iter().any(|origin| living.contains_key(origin)))
    }

    /// Returns true if `path` is the path of the file in the agreement.
    pub(super) fn has_agreed(&self, path: &str, found: &FoundFile) -> bool {
        let mut entries = self.disk.base.entries.iter();
        entries.any(|entry| entry.key == found.key && entry.path == path)
    }

    /// Returns true if the host has nothing to publish and nothing to show.
    pub(super) fn is_idle(&self) -> bool {
        let has_said_all = self.disk.published_messages == self.disk.messages.len();
        let is_sent = self.disk.intent.is_none() && has_said_all && self.changes().is_empty();
        is_sent && self.plan().steps.is_empty()
    }

    /// Updates the agreement for files that were replaced by copies of themselves.
    pub(super) fn recognize_files(&mut self) {
        self.disk.base.follow_unchanged(&self.disk.files);
    }

    /// Applies the segments that the host has seen to its files. If there are more than `most`
    /// steps, stops after `most` and does not record them, as in a crash.
    pub(super) fn show(&mut self, most: usize) {
        self.disk.base.add_unrecorded(&self.disk.files);
        self.recognize_files();
        let plan = self.plan();
        let is_whole = plan.steps.len() <= most;
        let done = self.follow(&plan.steps[..most.min(plan.steps.len())]);
        if is_whole {
            self.disk.base = plan.base;
            self.disk.base.follow(done);
        }
    }

    /// Runs the steps and returns the completed ones.
    fn follow(&mut self, steps: &[Step]) -> Vec<Step> {
        let digests: BTreeMap<Origin, Arc<str>> = self
            .state()
            .artifacts
            .into_iter()
            .map(|(origin, claim)| (origin, claim.digest))
            .collect();
        let files = &mut self.disk.files;
        for step in steps {
            if let Step::Remove { path, .. } | Step::Rename { from: path, .. } = step {
                files.remove(path);
            }
        }
        let mut done = Vec::new();
        for step in steps {
            match step {
                Step::Remove { .. } => {}
                Step::Rename { found, entry, .. } => {
                    let before = files.insert(entry.path.clone(), found.clone());
                    assert_eq!(before, None, "a file is in the way of {}", entry.path);
                }
                Step::Add { entry } => {
                    let digest = digests.get(&entry.origins[0]).cloned();
                    let found = FoundFile { key: entry.key, version: entry.version, digest };
                    let before = files.insert(entry.path.clone(), found);
                    assert_eq!(before, None, "a file is in the way of {}", entry.path);
                }
            }
            done.push(step.clone());
        }
        done
    }

    /// Returns the files as the user of the host sees them: the digest of the bytes under each
    /// name.
    pub(super) fn sight(&self) -> BTreeMap<String, Option<Arc<str>>> {
        self.disk.files.iter().map(|(path, found)| (path.clone(), found.digest.clone())).collect()
    }

    /// Returns the messages as the user of the host sees them: the messages in the bucket, followed
    /// by the host's unpublished messages.
    pub(super) fn told(&self) -> Vec<Message> {
        let own = self.disk.messages[self.disk.published_messages..].iter().copied();
        self.state().messages.into_values().chain(own).collect()
    }
}
