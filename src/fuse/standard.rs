//! The standard directories of new conversations. A program that copies a conversation makes it
//! first, and then each of these directories, which are there already. The first mkdir(2) of each
//! therefore succeeds.

use std::collections::VecDeque;

use ctxfs_core::model::{Component, RelPath};
use ctxfs_engine::DirPlace;
use ctxfs_engine::sync::Mutex;
use ctxfs_store::is_standard;

/// Maximum number of conversations. The oldest is forgotten.
const MOST: usize = 64;

/// The conversations that clients made last, with the standard directories that clients made there.
#[derive(Default)]
pub(crate) struct NewConversations(Mutex<VecDeque<(Component, Vec<RelPath>)>>);

impl NewConversations {
    pub(crate) fn add(&self, id: Component) {
        let mut known = self.0.lock();
        known.retain(|(other, _)| *other != id);
        if known.len() == MOST {
            known.pop_front();
        }
        known.push_back((id, Vec::new()));
    }

    /// Returns true if `path` is a standard directory that no client has made.
    pub(crate) fn awaits(&self, (id, path): (&Component, &RelPath)) -> bool {
        let mut known = self.0.lock();
        is_standard(path) && made_in(&mut known, id).is_some_and(|made| !made.contains(path))
    }

    /// Records that a client makes the directory `path`. Returns true if it [awaits](Self::awaits).
    pub(crate) fn take(&self, (id, path): (&Component, &RelPath)) -> bool {
        let mut known = self.0.lock();
        let made = made_in(&mut known, id).filter(|made| is_standard(path) && !made.contains(path));
        made.map(|made| made.push(path.clone())).is_some()
    }
}

fn made_in<'a>(
    known: &'a mut VecDeque<(Component, Vec<RelPath>)>,
    id: &Component,
) -> Option<&'a mut Vec<RelPath>> {
    known.iter_mut().find(|(other, _)| other == id).map(|(_, made)| made)
}

/// Returns the conversation and the path of `name` in a directory at `place`.
pub(crate) fn path_in(place: &DirPlace, name: &std::ffi::OsStr) -> Option<(Component, RelPath)> {
    Some((place.conversation()?.clone(), RelPath::below(place.path(), name).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directory_can_be_made_once() {
        let conversations = NewConversations::default();
        let id = |name: &str| Component::new(name).unwrap();
        let path = |path: &str| RelPath::new(path).unwrap();
        conversations.add(id("c1"));
        let take = |of: &str, dir: &str| conversations.take((&id(of), &path(dir)));
        assert!(take("c1", "artifacts") && !take("c1", "artifacts"));
        assert!(take("c1", "artifacts/tool") && take("c1", "history"));
        assert!(!take("c1", "artifacts/other") && !take("c2", "artifacts"));
        for number in 0..MOST {
            conversations.add(id(&format!("d{number}")));
        }
        assert!(!take("c1", "catalog") && take("d0", "catalog"));
    }
}
