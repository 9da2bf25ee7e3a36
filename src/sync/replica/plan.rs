//! What to do here, so that a host shows what a state says.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::replica::base::Places;
use crate::replica::names::{Asking, names, parents};
use crate::replica::{
    Base, Changes, Entry, FileKey, FileVersion, Found, Name, Names, Origin, Stamp, State,
};

/// A change of the files of a host, and the entry of its base that goes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Removes the file: its artifacts were removed elsewhere, or are seen under another name.
    Remove {
        /// Where it is.
        path: String,
        /// The file that it must be, and the state of its bytes that may go.
        found: Found,
        /// The file in its entry of the base.
        was: FileKey,
    },
    /// Renames the file to the path in `entry`, which is free once the removals and the other
    /// renames are done: some files may change places.
    Rename {
        /// Where it is.
        from: String,
        /// The file that it must be.
        found: Found,
        /// The file in its entry of the base.
        was: FileKey,
        /// The entry of the base afterwards.
        entry: Box<Entry>,
    },
    /// Shows an artifact whose bytes are elsewhere.
    Add {
        /// The entry of the base afterwards. Its first artifact is the one to show, at its path.
        entry: Entry,
    },
}

/// Steps, in their order, and what host and bucket agree upon without them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The steps: removals, then renames, then additions.
    pub steps: Vec<Step>,
    /// The base if no step is done.
    pub base: Base,
}

impl Plan {
    /// Returns what to do so that `files` show `state`, on a host that has done `changes` since
    /// `base`. What was changed here and not published stays as it is. `directories` have to stay,
    /// whatever is in them.
    pub fn new<A, M>(
        base: &Base,
        files: &BTreeMap<String, Found>,
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

/// Returns the names under which a host sees a state and its own changes. These count as later than
/// all that it has seen.
pub fn seen<A, M>(state: &State<A, M>, changes: &Changes, directories: &BTreeSet<String>) -> Names {
    let replaced: BTreeSet<_> = changes.replaced().collect();
    let gone = |origin: &Origin| changes.removed.contains(origin) || replaced.contains(origin);
    let living = state.artifacts.iter().filter(|(origin, _)| !gone(origin));
    let published = living.map(|(origin, claim)| {
        let moved = changes.moves.get(origin);
        let stamp = if moved.is_some() { Stamp(u64::MAX) } else { claim.stamp };
        let path = moved.unwrap_or(&claim.path);
        Asking { origin: Some(*origin), stamp, path, digest: Some(&claim.digest) }
    });
    let local = changes.puts.iter().map(|(path, put)| {
        let digest = put.digest.as_ref();
        Asking { origin: None, stamp: Stamp(u64::MAX), path, digest }
    });
    names(published.chain(local).collect(), directories)
}

/// A file that still has the bytes of its artifacts.
#[derive(Clone, Copy)]
struct Held<'a> {
    /// Its place in the base.
    at: usize,
    /// Where it is.
    now: &'a str,
    entry: &'a Entry,
    found: &'a Found,
}

struct Planning<'a> {
    /// Where this host has done something that was not published.
    changed: BTreeSet<&'a str>,
    held: Vec<Held<'a>>,
    by_origin: HashMap<Origin, usize>,
    /// For each file, whether it has a name.
    used: Vec<bool>,
    /// What could not be brought to its name.
    waiting: BTreeSet<Origin>,
    steps: Vec<Step>,
    renames: Vec<Step>,
    additions: Vec<Step>,
    base: Base,
}

impl<'a> Planning<'a> {
    fn new(base: &'a Base, files: &'a BTreeMap<String, Found>, changes: &'a Changes) -> Self {
        let places = Places::of(files);
        let held = base.entries.iter().enumerate().filter_map(|(at, entry)| {
            let (now, found) = places.of_entry(entry)?;
            entry.holds_in(found).then_some(Held { at, now, entry, found })
        });
        let held: Vec<_> = held.collect();
        let origins = |(at, held): (usize, &Held<'a>)| {
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

    /// Leaves a file where it is, if that is where it is to be seen. Returns true then.
    fn keep_in_place(&mut self, name: &str, seen: &Name) -> bool {
        let in_place = self.files_of(seen).find(|file| self.held[*file].now == name);
        let Some(file) = in_place else { return false };
        let Held { at, now, entry, found } = self.held[file];
        self.used[file] = true;
        // A file that was renamed here is agreed upon once that is published.
        if entry.path == now {
            let (name, seen) = (name.to_owned(), seen.clone());
            self.base.entries[at] = agreed(name, seen, found.key, found.version);
        }
        true
    }

    /// Renames a file to the name under which it is to be seen, or shows an artifact there.
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

    /// Returns the files that have the bytes. What stands for bytes elsewhere names one artifact,
    /// and is of no use once that was removed, even if others have the same bytes.
    fn files_of(&self, seen: &Name) -> impl Iterator<Item = usize> {
        let files = seen.origins.iter().filter_map(|origin| self.by_origin.get(origin).copied());
        files.filter(|file| match self.held[*file].found.key {
            FileKey::Here { .. } => true,
            FileKey::Elsewhere(origin) => seen.origins.contains(&origin),
        })
    }

    fn rename(&mut self, file: usize, name: String, seen: Name) {
        let Held { now, entry, found, .. } = self.held[file];
        self.used[file] = true;
        if entry.path != now {
            // It was renamed here. That is published first.
            return;
        }
        let (from, found, was) = (now.to_owned(), found.clone(), entry.key);
        let entry = Box::new(agreed(name, seen, found.key, found.version));
        self.renames.push(Step::Rename { from, found, was, entry });
    }

    fn add(&mut self, name: String, seen: Name) {
        let key = FileKey::Elsewhere(seen.origins[0]);
        let entry = agreed(name, seen, key, FileVersion::default());
        self.additions.push(Step::Add { entry });
    }

    /// Agrees upon a file here that has the name and bytes of an artifact, and came: a crash was
    /// before that was noted. What was written here is of this host alone, even if another one wrote
    /// the same: whoever removes that has not seen this.
    fn adopt(&mut self, name: String, seen: Name, changes: &Changes) {
        let is_held = seen.origins.iter().any(|origin| self.by_origin.contains_key(origin));
        let put = changes.puts.get(&name).filter(|put| put.replaces.is_empty() && put.came());
        if let Some(put) = put.filter(|_| !is_held) {
            self.base.entries.push(agreed(name, seen, put.key, put.version));
        }
    }

    /// Returns true if a file of which others do not know yet is where a directory would be.
    fn is_in_the_way(&self, name: &str) -> bool {
        parents(name).any(|parent| self.changed.contains(parent))
    }

    /// Removes the files that have no name any more, unless a name is still in the way.
    fn remove_the_rest(&mut self) {
        let used = self.held.iter().zip(&self.used).filter(|(_, used)| **used);
        // A file that was linked in the store itself has several entries.
        let kept: BTreeSet<&str> = used.map(|(held, _)| held.now).collect();
        for file in (0..self.held.len()).filter(|file| !self.used[*file]) {
            let Held { now, entry, found, .. } = self.held[file];
            let waits = entry.origins.iter().any(|origin| self.waiting.contains(origin));
            if !waits && !kept.contains(now) {
                let (path, found, was) = (now.to_owned(), found.clone(), entry.key);
                self.steps.push(Step::Remove { path, found, was });
            }
        }
    }

    fn plan(self) -> Plan {
        let mut steps = self.additions;
        // Of these there may be many, and few of the others.
        steps.splice(0..0, self.steps.into_iter().chain(self.renames));
        Plan { steps, base: self.base }
    }
}

/// Returns the entry of a file that is seen under a name.
fn agreed(path: String, seen: Name, key: FileKey, version: FileVersion) -> Entry {
    let Name { origins, asked, digest, .. } = seen;
    Entry { path, asked, origins, key, version, digest }
}

impl Base {
    /// Takes notice of steps that were done.
    pub fn follow(&mut self, done: Vec<Step>) {
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
        // Made in place: they may be many.
        let mut after: Vec<Entry> = done.into_iter().filter_map(after).collect();
        if self.entries.is_empty() {
            self.entries = after;
        } else {
            self.entries.append(&mut after);
        }
    }
}
