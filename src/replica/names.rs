//! The names under which artifacts are seen.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashMap;

use crate::model::LEAST_DIGITS;
use crate::model::with_digits;
use crate::replica::Origin;
use crate::replica::Stamp;

/// An artifact that asks for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asking<'a> {
    /// The artifact, or none if it is of this host alone so far.
    pub(super) origin: Option<Origin>,
    pub(super) stamp: Stamp,
    pub(super) path: &'a str,
    /// The digest of its bytes, or none while nobody knows it.
    pub(super) digest: Option<&'a str>,
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
    pub digest: String,
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
    let mut naming = Naming { directories: &taken, asked: &asking, names: Names::new() };
    for claims in asking.chunk_by(|one, next| one.path == next.path) {
        naming.add(claims);
    }
    naming.names
}

struct Naming<'a> {
    directories: &'a BTreeSet<&'a str>,
    /// By path.
    asked: &'a [Asking<'a>],
    names: Names,
}

impl Naming<'_> {
    /// Names what asks for one path, in the order in which it gets that.
    fn add(&mut self, claims: &[Asking<'_>]) {
        let mut given: HashMap<&str, String> = HashMap::new();
        let mut is_free = claims.first().is_some_and(|each| !self.directories.contains(each.path));
        for each in claims {
            let known = each.digest.and_then(|digest| given.get(digest));
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
        let seen = self.names.entry(name).or_default();
        seen.asked = asked;
        each.digest.unwrap_or_default().clone_into(&mut seen.digest);
        match each.origin {
            Some(origin) => seen.origins.push(origin),
            None => seen.is_local = true,
        }
    }

    fn other_name(&self, path: &str, origin: Origin) -> String {
        let digits = blake3::hash(origin.to_string().as_bytes()).to_hex();
        let names = (LEAST_DIGITS..=digits.len()).map(|count| with_digits(path, &digits[..count]));
        let mut free = names.filter(|name| self.is_free(name));
        free.next().expect("two origins have no digest in common")
    }

    fn is_free(&self, name: &str) -> bool {
        let asked = self.asked.binary_search_by(|each| each.path.cmp(name));
        let taken = asked.is_ok() || self.names.contains_key(name);
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
    use crate::replica::SegmentId;
    use crate::replica::WriterId;

    fn origin(number: u64) -> Origin {
        Origin { segment: SegmentId { writer: WriterId(1), number }, place: 0 }
    }

    fn ask<'a>(number: u64, path: &'a str, digest: &'a str) -> Asking<'a> {
        let stamp = Stamp(number);
        Asking { origin: Some(origin(number)), stamp, path, digest: Some(digest) }
    }

    fn shown(asking: &[Asking<'_>]) -> Vec<(String, Vec<u64>)> {
        let names = names(asking.to_vec(), &BTreeSet::new()).into_iter();
        let numbers = |name: Name| name.origins.iter().map(|each| each.segment.number).collect();
        names.map(|(path, name)| (path, numbers(name))).collect()
    }

    #[test]
    fn the_latest_has_the_name_and_the_others_have_digits() {
        let seen = shown(&[ask(1, "d/x.txt", "a"), ask(3, "d/x.txt", "b"), ask(2, "d/x.txt", "c")]);
        assert_eq!(seen.len(), 3);
        assert_eq!(seen[0], ("d/x.txt".to_owned(), vec![3]));
        let other = &seen[1].0;
        assert!(other.starts_with("d/x~") && other.ends_with("txt"), "{other}");
        assert_eq!(other.len(), "d/x~123456.txt".len());
    }

    #[test]
    fn the_same_bytes_under_one_name_are_one() {
        let seen = shown(&[ask(1, "x", "a"), ask(2, "x", "a"), ask(3, "y", "a")]);
        assert_eq!(seen, [("x".to_owned(), vec![2, 1]), ("y".to_owned(), vec![3])]);
    }

    #[test]
    fn a_directory_is_no_file() {
        let seen = shown(&[ask(1, "x/below", "a"), ask(2, "x", "b")]);
        let paths: Vec<_> = seen.iter().map(|(path, _)| path.as_str()).collect();
        assert!(paths[0] == "x/below" && paths[1].starts_with("x~"), "{paths:?}");
    }

    #[test]
    fn where_digits_are_taken_there_are_more() {
        let other = shown(&[ask(1, "x", "a"), ask(2, "x", "b")])[1].0.clone();
        let seen = shown(&[ask(1, "x", "a"), ask(2, "x", "b"), ask(3, &other, "c")]);
        let paths: Vec<_> = seen.iter().map(|(path, _)| path.len()).collect();
        assert_eq!(paths, ["x".len(), other.len(), other.len() + 1]);
    }
}
