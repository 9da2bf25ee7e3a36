//! The names under which artifacts are seen.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::replica::{Origin, Stamp};
use ctxfs_core::model::{LEAST_DIGITS, with_digits};

/// An artifact that asks for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asking<'a> {
    /// The artifact, or none if it is of this host alone so far.
    pub(super) origin: Option<Origin>,
    pub(super) stamp: Stamp,
    pub(super) path: &'a str,
    /// The digest of its bytes, or none while nobody knows it.
    pub(super) digest: Option<&'a Arc<str>>,
}

/// What is seen under one name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Name {
    /// The artifacts, the latest first: several hosts wrote the same bytes.
    pub origins: Vec<Origin>,
    /// True if a file of this host that was not published is seen there.
    pub is_local: bool,
    /// The name that it asked for, if another one has that.
    pub asked: Option<String>,
    /// The digest of its bytes. Empty while nobody knows it.
    pub digest: Arc<str>,
}

/// Names, and what is seen under each. Everything that lives has exactly one.
pub type Names = BTreeMap<String, Name>;

/// Gives each artifact a name. Of those that ask for the same one, the latest gets it, and the
/// others one with digits of their origin before the extension: `x~3f09ab.txt`. Those with the same
/// bytes are one. What is the name of a directory, because something lies below it or it is in
/// `directories`, is no artifact's. The names depend on the artifacts and directories alone.
pub(super) fn names(mut asking: Vec<Asking<'_>>, directories: &BTreeSet<String>) -> Names {
    // What is of this host alone comes first: it was written after all that was seen.
    asking.sort_unstable_by_key(|each| {
        (each.path, each.origin.is_some(), Reverse((each.stamp, each.origin)))
    });
    let parents = asking.iter().flat_map(|each| parents(each.path));
    let taken: BTreeSet<&str> = parents.chain(directories.iter().map(String::as_str)).collect();
    let (first, others) = (Vec::with_capacity(asking.len()), Names::new());
    let mut naming = Naming { directories: &taken, asked: &asking, first, others };
    for claims in asking.chunk_by(|one, next| one.path == next.path) {
        naming.add(claims);
    }
    let Naming { first: mut all, others, .. } = naming;
    all.extend(others);
    all.into_iter().collect()
}

struct Naming<'a> {
    directories: &'a BTreeSet<&'a str>,
    /// By path.
    asked: &'a [Asking<'a>],
    /// Those that got the name they asked for, by that. A tree that grows in its order is half
    /// empty.
    first: Vec<(String, Name)>,
    others: Names,
}

impl Naming<'_> {
    /// Names what asks for one path, in the order in which it gets that.
    fn add(&mut self, claims: &[Asking<'_>]) {
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

    fn give(&mut self, name: String, each: &Asking<'_>) {
        let asked = (name != each.path).then(|| each.path.to_owned());
        let seen =
            if asked.is_some() { self.others.entry(name).or_default() } else { self.first(name) };
        seen.asked = asked;
        seen.digest = each.digest.cloned().unwrap_or_default();
        match each.origin {
            Some(origin) => {
                // Most have one, of many.
                seen.origins.reserve_exact(usize::from(seen.origins.is_empty()));
                seen.origins.push(origin);
            }
            None => seen.is_local = true,
        }
    }

    /// Returns what is seen under the name that artifacts ask for. It is the last one, if it is
    /// known.
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

/// Returns the directories above a path.
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

    /// Returns the names of artifacts, each given by its number, the path that it asks for and its
    /// digest.
    fn shown(asking: &[(u64, &str, &str)]) -> Vec<(String, Vec<u64>)> {
        let digests: Vec<Arc<str>> = asking.iter().map(|(_, _, digest)| (*digest).into()).collect();
        let asking = asking.iter().zip(&digests).map(|((number, path, _), digest)| {
            let (origin, stamp) = (Some(origin(*number)), Stamp(*number));
            Asking { origin, stamp, path, digest: Some(digest) }
        });
        let names = names(asking.collect(), &BTreeSet::new()).into_iter();
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
