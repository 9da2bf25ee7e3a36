//! Assignment of paths to artifacts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::replica::{Origin, Stamp};
use ctxfs_core::model::{LEAST_DIGITS, with_digits};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PathRequest<'a> {
    pub(super) origin: Option<Origin>,
    pub(super) stamp: Stamp,
    pub(super) path: &'a str,
    pub(super) digest: Option<&'a Arc<str>>,
}

/// The artifacts at one path, the latest first. They all have the same bytes. `is_local` is true if
/// an unpublished local file is at the path. `asked` is the requested path, if another artifact has
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
/// it. The others get digits of their origin before the extension, as in `x~3f09ab.txt`. Artifacts
/// with the same bytes share a path. No artifact gets the path of a directory, which is either in
/// `directories` or contains another file. The result depends only on the artifacts and the
/// directories.
pub(super) fn assign_paths(
    mut asking: Vec<PathRequest<'_>>,
    directories: &BTreeSet<String>,
) -> AssignedPaths {
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
    /// Artifacts at their requested paths, sorted. They are collected in a vector, because a B-tree
    /// that is filled in order has half-empty nodes.
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

pub(super) fn parents(path: &str) -> impl Iterator<Item = &str> {
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
