//! The views that directories list, of which a listing makes the kernel know three for each artifact.
//!
//! The kernel keeps an entry for each name that it was told, and the server a node, until memory is
//! short. So the door has it drop the oldest when there are many. Their names follow from their
//! files, so none is stored.

use std::ffi::OsStr;
use std::ffi::OsString;

use crate::engine::Recipe;
use crate::fs::Ino;
use crate::fs::Shared;
use crate::fs::node::Node;
use crate::fs::node::NodeKind;
use crate::view::Derived;
use crate::view::View;
use crate::view::listed;

/// Listed views that the kernel may know. When there are more, all but the newest half go.
const MOST: usize = 16_384;
/// Names that are returned at a time.
const BATCH: usize = 1024;

/// Returns true if directories list `view`.
pub(super) fn is_listed(view: &View) -> bool {
    listed().any(|(_, derived)| matches!(derived, Derived::File(listed) if listed == view))
}

impl Node {
    /// Returns true for a view of a file that directories list.
    pub(super) fn is_listed_view(&self) -> bool {
        self.listed_suffix().is_some()
    }

    /// Returns the end of its name, after that of its file.
    fn listed_suffix(&self) -> Option<&'static str> {
        let of = self.computed_from()?;
        of.as_file().ok()?;
        let is_it = |derived: &Derived| match (derived, &self.kind) {
            (Derived::File(view), NodeKind::Computed(computed)) => {
                matches!(computed.computed.recipe(), Recipe::View(own) if **own == *view)
            }
            (Derived::Dir(listed), NodeKind::ViewDir { base: None, dir, .. }) => listed == dir,
            _ => false,
        };
        listed().find(|(_, derived)| is_it(derived)).map(|(suffix, _)| suffix)
    }

    /// Returns the directory that lists it, and its name there. `None` if its file has lost its name.
    pub(super) fn listed_name(&self) -> Option<(Ino, OsString)> {
        let link = self.computed_from()?.link()?.get()?;
        let mut name = link.name;
        name.push(OsStr::new(self.listed_suffix()?));
        Some((link.parent.ino, name))
    }
}

/// Returns true if the kernel knows more listed views than it should.
pub(super) fn are_too_many(fs: &Shared) -> bool {
    fs.nodes.listed_views() > MOST
}

/// Returns names of the oldest listed views, if the kernel knows too many: the next after the number
/// `after`. Returns also the number of the last.
pub(super) fn oldest(fs: &Shared, after: Ino) -> (Vec<(Ino, OsString)>, Ino) {
    if !are_too_many(fs) {
        return (Vec::new(), after);
    }
    let mut known = fs.nodes.numbers_of_listed_views();
    known.sort_unstable();
    known.truncate(known.len().saturating_sub(MOST / 2));
    known.retain(|ino| *ino > after);
    known.truncate(BATCH);
    let last = known.last().copied().unwrap_or(after);
    let name = |ino: &Ino| fs.nodes.get(*ino).ok()?.listed_name();
    (known.iter().filter_map(name).collect(), last)
}
