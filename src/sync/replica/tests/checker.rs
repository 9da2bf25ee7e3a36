//! Invariants that hold for any set of rules. Content is lost only if a user who had seen it
//! removed it, and removed content does not come back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::replica::tests::host::Host;
use crate::replica::{Entry, FileKey, FoundFile, Origin};

/// Identity of bytes that a user wrote at one time.
pub(super) type Token = u64;

/// Content under a name on a host.
#[derive(Debug, Default)]
pub(super) struct Under {
    /// Content that the host wrote itself, or that it has recorded as shown. The host has seen this
    /// content.
    noted: BTreeSet<Token>,
    /// Content that the host shows but did not record, because it was killed first. A user who
    /// replaces or removes it counts as not having seen it, so it may stay.
    shown: Option<Token>,
}

#[derive(Debug, Default)]
pub(super) struct Checker {
    of_file: BTreeMap<(u64, i64), Token>,
    pub(super) of_origin: BTreeMap<Origin, Token>,
    digests: BTreeMap<Token, Arc<str>>,
    /// Maps each token to the tokens that it replaced and that its host had recorded as seen.
    over: BTreeMap<Token, BTreeSet<Token>>,
    acked: BTreeSet<Token>,
    /// Tokens that a user removed or replaced, whether or not this is published.
    maybe: BTreeSet<Token>,
    /// Tokens whose removal is published.
    dead: BTreeSet<Token>,
    /// Tokens that may come back, because a backup had them and they were unpublished.
    loose: BTreeSet<Token>,
    pub(super) messages: BTreeSet<u64>,
}

impl Checker {
    pub(super) fn wrote(&mut self, found: &FoundFile, token: Token, over: Under) {
        self.of_file.insert(file(found), token);
        self.digests.insert(token, found.digest.clone().unwrap_or_default());
        self.removed(&over);
        self.over.insert(token, over.noted);
    }

    pub(super) fn completed(&mut self, found: &FoundFile) {
        let token = self.of_file[&file(found)];
        self.digests.insert(token, found.digest.clone().unwrap_or_default());
    }

    /// Records that a file is a copy of another file.
    pub(super) fn copied(&mut self, before: &FoundFile, after: &FoundFile) {
        self.of_file.insert(file(after), self.of_file[&file(before)]);
    }

    pub(super) fn removed(&mut self, under: &Under) {
        self.maybe.extend(under.noted.iter().chain(&under.shown));
    }

    /// Returns the content under a name on a host.
    pub(super) fn under(&self, host: &Host, path: &str) -> Under {
        let Some(found) = host.disk.files.get(path) else { return Under::default() };
        let entries = &host.disk.base.entries;
        let same = |entry: &&Entry| entry.key == found.key && entry.version == found.version;
        let origins = entries.iter().filter(same).flat_map(|entry| &entry.origins);
        let known = origins.filter_map(|origin| self.of_origin.get(origin)).copied();
        let noted = known.chain(self.of_file.get(&file(found)).copied()).collect();
        let mut under = Under { noted, shown: None };
        if let FileKey::Remote(origin) = found.key {
            let token = self.of_origin.get(&origin).copied();
            if entries.iter().any(|entry| entry.origins.contains(&origin)) {
                under.noted.extend(token);
            } else {
                under.shown = token;
            }
        }
        under
    }

    pub(super) fn published(&mut self, origin: Origin, key: FileKey, modified: i64) {
        if let FileKey::Local { inode, .. } = key {
            self.of_origin.insert(origin, self.of_file[&(inode, modified)]);
        }
    }

    pub(super) fn acknowledged(&mut self, origins: &[Origin], removed: &BTreeSet<Origin>) {
        for token in origins.iter().filter_map(|origin| self.of_origin.get(origin)) {
            self.acked.insert(*token);
            let over = self.over.get(token);
            self.dead.extend(over.into_iter().flatten());
        }
        self.dead.extend(removed.iter().filter_map(|origin| self.of_origin.get(origin)));
    }

    pub(super) fn may_come_back(&mut self, found: impl Iterator<Item = (FileKey, i64)>) {
        for (key, modified) in found {
            if let FileKey::Local { inode, .. } = key {
                self.loose.extend(self.of_file.get(&(inode, modified)));
            }
        }
    }

    pub(super) fn check(&self, host: &Host) {
        let seen: BTreeSet<_> = host.sight().into_values().flatten().collect();
        for token in self.acked.difference(&self.maybe) {
            let digest = &self.digests[token];
            assert!(seen.contains(digest), "{digest}, which was acknowledged, is gone");
        }
        for (origin, claim) in host.state().artifacts {
            let token = self.of_origin[&origin];
            let is_back = self.dead.contains(&token) && !self.loose.contains(&token);
            assert!(!is_back, "{} of {origin}, removed or overwritten, is back", claim.path);
        }
    }
}

fn file(found: &FoundFile) -> (u64, i64) {
    match found.key {
        FileKey::Local { inode, .. } => (inode, found.version.modified),
        FileKey::Remote(_) => (0, 0),
    }
}
