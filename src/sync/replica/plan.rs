//! Assigns a path to each artifact of a state, and plans the steps that change the local files.
//! After these steps, the local files match the state.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::replica::base::FileIndex;
use crate::replica::{Base, Changes, Entry, FileKey, FileVersion, FoundFile, Origin, Stamp, State};
use ctxfs_core::model::{LEAST_DIGITS, with_digits};

/// A change of a local file. `found` is the expected state of the file; a file in another state
/// stays unchanged. `was` is the key of the file in the base, and `entry` is the new entry of the
/// base.
///
/// A file is removed if another host has removed its artifacts or has moved them to another path.
/// The target path of a rename is free once all removals and the other renames are done. Files may
/// swap paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Remove { path: String, found: FoundFile, was: FileKey },
    Rename { from: String, found: FoundFile, was: FileKey, entry: Box<Entry> },
    Add { entry: Entry },
}

/// Steps in the order removals, renames, additions. `base` is the new base if none of the steps is
/// done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub steps: Vec<Step>,
    pub base: Base,
}

impl Plan {
    /// Plans the steps after which `files` match `state`. `changes` are the local changes of this
    /// host since `base`. Files with unpublished changes stay as they are. No file gets the path of
    /// one of `directories`.
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

/// Returns the paths of all artifacts on a host with the local changes `changes`: the artifacts in
/// `state` that the host has not removed or replaced, and the files that the host has added. Local
/// changes count as later than all artifacts in `state`.
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

    /// Returns the indices in `held` of files that have the bytes for `seen`. A remote artifact
    /// without local bytes is included only if its own origin is in `seen`. Other artifacts may
    /// have the same bytes, but this one becomes unreadable once its origin is removed.
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
    /// in a crash. A file that was written on this host is not adopted, even if another host wrote
    /// the same bytes, because a removal by that host must not remove this file.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PathRequest<'a> {
    origin: Option<Origin>,
    stamp: Stamp,
    path: &'a str,
    digest: Option<&'a Arc<str>>,
}

/// The artifacts at one path, the latest first. All have the same bytes. `is_local` is true if an
/// unpublished local file is at the path. `asked` is the requested path, if another artifact has
/// that path. `digest` is empty if unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct Name {
    pub origins: Vec<Origin>,
    pub is_local: bool,
    pub asked: Option<String>,
    pub digest: Arc<str>,
}

/// Paths and their artifacts. Each living artifact has exactly one path. Hosts with the same
/// segments and directories assign the same paths.
pub type AssignedPaths = BTreeMap<String, Name>;

/// Assigns a path to each artifact. If several artifacts request the same path, the latest one gets
/// it. The others get the first digits of a hash of their origin before the extension, as in
/// `x~3f09ab.txt`. Artifacts with the same bytes share a path. No artifact gets the path of a
/// directory, which is either in `directories` or contains another file. The result depends only on
/// the artifacts and the directories.
fn assign_paths(mut asking: Vec<PathRequest<'_>>, directories: &BTreeSet<String>) -> AssignedPaths {
    // Local files come first, because they were written after all artifacts that this host has
    // seen.
    asking.sort_unstable_by_key(|each| {
        (each.path, each.origin.is_some(), Reverse((each.stamp, each.origin)))
    });
    let parents = asking.iter().flat_map(|each| parents(each.path));
    let taken: BTreeSet<&str> = parents.chain(directories.iter().map(String::as_str)).collect();
    let (first, others) = (Vec::with_capacity(asking.len()), AssignedPaths::new());
    let mut naming = PathAssigner { directories: &taken, asked: &asking, first, others };
    for claims in asking.chunk_by(|one, next| one.path == next.path) {
        naming.add(claims);
    }
    let PathAssigner { first: mut all, others, .. } = naming;
    all.extend(others);
    all.into_iter().collect()
}

struct PathAssigner<'a> {
    directories: &'a BTreeSet<&'a str>,
    asked: &'a [PathRequest<'a>],
    /// Artifacts at their requested paths, sorted. This is a vector, because a B-tree that is
    /// filled in order has half-empty nodes.
    first: Vec<(String, Name)>,
    others: AssignedPaths,
}

impl PathAssigner<'_> {
    fn add(&mut self, claims: &[PathRequest<'_>]) {
        let mut given: HashMap<&str, String> = HashMap::new();
        let mut is_free = claims.first().is_some_and(|each| !self.directories.contains(each.path));
        for each in claims {
            let known = each.digest.and_then(|digest| given.get(&**digest));
            let name = known.cloned().unwrap_or_else(|| match each.origin {
                Some(origin) if !is_free => self.other_name(each.path, origin),
                _ => each.path.to_owned(),
            });
            is_free = false;
            if let Some(digest) = each.digest.filter(|_| claims.len() > 1) {
                given.entry(digest).or_insert_with(|| name.clone());
            }
            self.give(name, each);
        }
    }

    fn give(&mut self, name: String, each: &PathRequest<'_>) {
        let asked = (name != each.path).then(|| each.path.to_owned());
        let seen =
            if asked.is_some() { self.others.entry(name).or_default() } else { self.first(name) };
        seen.asked = asked;
        seen.digest = each.digest.cloned().unwrap_or_default();
        match each.origin {
            Some(origin) => {
                // Most paths have one artifact.
                seen.origins.reserve_exact(usize::from(seen.origins.is_empty()));
                seen.origins.push(origin);
            }
            None => seen.is_local = true,
        }
    }

    fn first(&mut self, name: String) -> &mut Name {
        if self.first.last().is_none_or(|(last, _)| *last != name) {
            self.first.push((name, Name::default()));
        }
        &mut self.first.last_mut().expect("there is one").1
    }

    fn other_name(&self, path: &str, origin: Origin) -> String {
        let digits = blake3::hash(origin.to_string().as_bytes()).to_hex();
        let names = (LEAST_DIGITS..=digits.len()).map(|count| with_digits(path, &digits[..count]));
        let mut free = names.filter(|name| self.is_free(name));
        free.next().expect("two origins have no digest in common")
    }

    fn is_free(&self, name: &str) -> bool {
        let asked = self.asked.binary_search_by(|each| each.path.cmp(name));
        let taken = asked.is_ok() || self.others.contains_key(name);
        !taken && !self.directories.contains(name)
    }
}

fn parents(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica::{SegmentId, WriterId};

    fn origin(number: u64) -> Origin {
        Origin { segment: SegmentId { writer: WriterId(1), number }, place: 0 }
    }

    /// Assigns paths and returns them with the numbers of their artifacts. Each artifact in
    /// `asking` has a number, a requested path and a digest.
    fn shown(asking: &[(u64, &str, &str)]) -> Vec<(String, Vec<u64>)> {
        let digests: Vec<Arc<str>> = asking.iter().map(|(_, _, digest)| (*digest).into()).collect();
        let asking = asking.iter().zip(&digests).map(|((number, path, _), digest)| {
            let (origin, stamp) = (Some(origin(*number)), Stamp(*number));
            PathRequest { origin, stamp, path, digest: Some(digest) }
        });
        let names = assign_paths(asking.collect(), &BTreeSet::new()).into_iter();
        let numbers = |name: Name| name.origins.iter().map(|each| each.segment.number).collect();
        names.map(|(path, name)| (path, numbers(name))).collect()
    }

    #[test]
    fn the_latest_has_the_name_and_the_others_have_digits() {
        let seen = shown(&[(1, "d/x.txt", "a"), (3, "d/x.txt", "b"), (2, "d/x.txt", "c")]);
        assert_eq!(seen.len(), 3);
        assert_eq!(seen[0], ("d/x.txt".to_owned(), vec![3]));
        let other = &seen[1].0;
        assert!(other.starts_with("d/x~") && other.ends_with("txt"), "{other}");
        assert_eq!(other.len(), "d/x~123456.txt".len());
    }

    #[test]
    fn the_same_bytes_under_one_name_are_one() {
        let seen = shown(&[(1, "x", "a"), (2, "x", "a"), (3, "y", "a")]);
        assert_eq!(seen, [("x".to_owned(), vec![2, 1]), ("y".to_owned(), vec![3])]);
    }

    #[test]
    fn a_directory_is_no_file() {
        let seen = shown(&[(1, "x/below", "a"), (2, "x", "b")]);
        let paths: Vec<_> = seen.iter().map(|(path, _)| path.as_str()).collect();
        assert!(paths[0] == "x/below" && paths[1].starts_with("x~"), "{paths:?}");
    }

    #[test]
    fn where_digits_are_taken_there_are_more() {
        let other = shown(&[(1, "x", "a"), (2, "x", "b")])[1].0.clone();
        let seen = shown(&[(1, "x", "a"), (2, "x", "b"), (3, &other, "c")]);
        let paths: Vec<_> = seen.iter().map(|(path, _)| path.len()).collect();
        assert_eq!(paths, ["x".len(), other.len(), other.len() + 1]);
    }
}
