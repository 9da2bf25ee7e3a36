//! Planning of the steps after which the local files match a state.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::replica::base::FileIndex;
use crate::replica::names::{PathRequest, assign_paths, parents};
use crate::replica::{
    AssignedPaths, Base, Changes, Entry, FileKey, FileVersion, FoundFile, Name, Origin, Stamp,
    State,
};

/// A change of a local file, with the resulting entry of the base. A step states the expected state
/// of the file. A file in a different state stays unchanged. A removal follows the removal of the
/// file's artifacts, or their move to another path, by another host. The path of a rename is free
/// after the removals and the other renames. Files may swap paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Remove { path: String, found: FoundFile, was: FileKey },
    Rename { from: String, found: FoundFile, was: FileKey, entry: Box<Entry> },
    Add { entry: Entry },
}

/// Steps of a plan in the order removals, renames, additions, and the base that holds if none of
/// the steps is done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub steps: Vec<Step>,
    pub base: Base,
}

impl Plan {
    /// Plans the steps after which `files` match `state`. `changes` are the local changes of this
    /// host since `base`. Files with unpublished changes stay as they are. Files must not replace
    /// `directories`.
    pub(crate) fn new<A, M>(
        base: &Base,
        files: &BTreeMap<String, FoundFile>,
        state: &State<A, M>,
        changes: &Changes,
        directories: &BTreeSet<String>,
    ) -> Self {
        let names = seen(state, changes, directories);
        let mut planning = Planning::new(base, files, changes);
        let keep =
            |(name, seen): (&String, &Name)| !seen.is_local && planning.keep_in_place(name, seen);
        let kept: Vec<bool> = names.iter().map(keep).collect();
        let new = kept.iter().filter(|is_kept| !**is_kept);
        planning.additions.reserve_exact(new.count());
        let mut both = Vec::new();
        for ((name, seen), is_kept) in names.into_iter().zip(kept) {
            match seen.is_local {
                false if is_kept => {}
                false => planning.bring(name, seen),
                true if seen.origins.is_empty() => {}
                true => both.push((name, seen)),
            }
        }
        planning.remove_the_rest();
        for (name, seen) in both {
            planning.adopt(name, seen, changes);
        }
        planning.plan()
    }
}

/// Returns the assigned paths on a host with these local changes. The changes count as later than
/// all artifacts in the state.
pub fn seen<A, M>(
    state: &State<A, M>,
    changes: &Changes,
    directories: &BTreeSet<String>,
) -> AssignedPaths {
    let replaced: BTreeSet<_> = changes.replaced().collect();
    let gone = |origin: &Origin| changes.removed.contains(origin) || replaced.contains(origin);
    let living = state.artifacts.iter().filter(|(origin, _)| !gone(origin));
    let published = living.map(|(origin, claim)| {
        let moved = changes.moves.get(origin);
        let stamp = if moved.is_some() { Stamp(u64::MAX) } else { claim.stamp };
        let path = moved.unwrap_or(&claim.path);
        PathRequest { origin: Some(*origin), stamp, path, digest: Some(&claim.digest) }
    });
    let local = changes.puts.iter().map(|(path, put)| {
        let digest = put.digest.as_ref();
        PathRequest { origin: None, stamp: Stamp(u64::MAX), path, digest }
    });
    assign_paths(published.chain(local).collect(), directories)
}

#[derive(Clone, Copy)]
struct HeldFile<'a> {
    at: usize,
    now: &'a str,
    entry: &'a Entry,
    found: &'a FoundFile,
}

struct Planning<'a> {
    changed: BTreeSet<&'a str>,
    held: Vec<HeldFile<'a>>,
    by_origin: HashMap<Origin, usize>,
    used: Vec<bool>,
    waiting: BTreeSet<Origin>,
    steps: Vec<Step>,
    renames: Vec<Step>,
    additions: Vec<Step>,
    base: Base,
}

impl<'a> Planning<'a> {
    fn new(base: &'a Base, files: &'a BTreeMap<String, FoundFile>, changes: &'a Changes) -> Self {
        let places = FileIndex::of(files);
        let held = base.entries.iter().enumerate().filter_map(|(at, entry)| {
            let (now, found) = places.of_entry(entry)?;
            entry.holds_in(found).then_some(HeldFile { at, now, entry, found })
        });
        let held: Vec<_> = held.collect();
        let origins = |(at, held): (usize, &HeldFile<'a>)| {
            held.entry.origins.iter().map(move |origin| (*origin, at)).collect::<Vec<_>>()
        };
        let by_origin = held.iter().enumerate().flat_map(origins).collect();
        let used = vec![false; held.len()];
        let changed = changes.puts.keys().chain(changes.moves.values());
        let changed = changed.map(String::as_str).collect();
        let (waiting, base) = (BTreeSet::new(), base.clone());
        let (steps, renames, additions) = (Vec::new(), Vec::new(), Vec::new());
        Self { changed, held, by_origin, used, waiting, steps, renames, additions, base }
    }

    fn keep_in_place(&mut self, name: &str, seen: &Name) -> bool {
        let in_place = self.files_of(seen).find(|file| self.held[*file].now == name);
        let Some(file) = in_place else { return false };
        let HeldFile { at, now, entry, found } = self.held[file];
        self.used[file] = true;
        // A local rename becomes part of the agreement only when it is published.
        if entry.path == now {
            let (name, seen) = (name.to_owned(), seen.clone());
            self.base.entries[at] = agreed(name, seen, found.key, found.version);
        }
        true
    }

    fn bring(&mut self, name: String, seen: Name) {
        if self.is_in_the_way(&name) {
            self.waiting.extend(&seen.origins);
            return;
        }
        let free = self.files_of(&seen).find(|file| !self.used[*file]);
        match free {
            Some(file) => self.rename(file, name, seen),
            None => self.add(name, seen),
        }
    }

    /// Returns the files with these bytes. A remote artifact belongs to one origin only, so it
    /// cannot be used after the removal of that origin, even if other artifacts have the same
    /// bytes.
    fn files_of(&self, seen: &Name) -> impl Iterator<Item = usize> {
        let files = seen.origins.iter().filter_map(|origin| self.by_origin.get(origin).copied());
        files.filter(|file| match self.held[*file].found.key {
            FileKey::Local { .. } => true,
            FileKey::Remote(origin) => seen.origins.contains(&origin),
        })
    }

    fn rename(&mut self, file: usize, name: String, seen: Name) {
        let HeldFile { now, entry, found, .. } = self.held[file];
        self.used[file] = true;
        if entry.path != now {
            // The local rename must be published first.
            return;
        }
        let (from, found, was) = (now.to_owned(), found.clone(), entry.key);
        let entry = Box::new(agreed(name, seen, found.key, found.version));
        self.renames.push(Step::Rename { from, found, was, entry });
    }

    fn add(&mut self, name: String, seen: Name) {
        let key = FileKey::Remote(seen.origins[0]);
        let entry = agreed(name, seen, key, FileVersion::default());
        self.additions.push(Step::Add { entry });
    }

    /// Adopts a downloaded file that has the path and bytes of an artifact and whose entry was lost
    /// in a crash. A file that was written on this host stays local, even if another host wrote the
    /// same bytes, because a removal by that host does not include this file.
    fn adopt(&mut self, name: String, seen: Name, changes: &Changes) {
        let is_held = seen.origins.iter().any(|origin| self.by_origin.contains_key(origin));
        let put = changes
            .puts
            .get(&name)
            .filter(|put| put.replaces.is_empty() && put.key.is_copy_of(put.version));
        if let Some(put) = put.filter(|_| !is_held) {
            self.base.entries.push(agreed(name, seen, put.key, put.version));
        }
    }

    fn is_in_the_way(&self, name: &str) -> bool {
        parents(name).any(|parent| self.changed.contains(parent))
    }

    fn remove_the_rest(&mut self) {
        let used = self.held.iter().zip(&self.used).filter(|(_, used)| **used);
        // A hard link within the store has several entries.
        let kept: BTreeSet<&str> = used.map(|(held, _)| held.now).collect();
        for file in (0..self.held.len()).filter(|file| !self.used[*file]) {
            let HeldFile { now, entry, found, .. } = self.held[file];
            let waits = entry.origins.iter().any(|origin| self.waiting.contains(origin));
            if !waits && !kept.contains(now) {
                let (path, found, was) = (now.to_owned(), found.clone(), entry.key);
                self.steps.push(Step::Remove { path, found, was });
            }
        }
    }

    fn plan(self) -> Plan {
        let mut steps = self.additions;
        // Usually there are many additions and few other steps.
        steps.splice(0..0, self.steps.into_iter().chain(self.renames));
        Plan { steps, base: self.base }
    }
}

fn agreed(path: String, seen: Name, key: FileKey, version: FileVersion) -> Entry {
    let Name { origins, asked, digest, .. } = seen;
    Entry { path, asked, origins, key, version, digest }
}

impl Base {
    pub(crate) fn follow(&mut self, done: Vec<Step>) {
        let before = |step: &Step| match step {
            Step::Remove { was, .. } | Step::Rename { was, .. } => Some(*was),
            Step::Add { .. } => None,
        };
        let before: HashSet<_> = done.iter().filter_map(before).collect();
        self.entries.retain(|entry| !before.contains(&entry.key));
        let after = |step: Step| match step {
            Step::Rename { entry, .. } => Some(*entry),
            Step::Add { entry } => Some(entry),
            Step::Remove { .. } => None,
        };
        // Collect in place, because there may be many entries.
        let mut after: Vec<Entry> = done.into_iter().filter_map(after).collect();
        if self.entries.is_empty() {
            self.entries = after;
        } else {
            self.entries.append(&mut after);
        }
    }
}
