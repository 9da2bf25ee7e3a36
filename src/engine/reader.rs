//! The reader of a text. On a mount that several users may enter, a text that is made of many files
//! has what its reader may read, and says how much it leaves out.

use std::sync::Arc;

use ctxfs_store::{FileType, Stat};

/// The read bit of a class of users, and the bits to read a directory and to enter it.
const READ: u32 = 0o4;
const READ_AND_SEARCH: u32 = 0o5;

/// The reader of a text, as far as the text depends on who that is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reader {
    /// The user who serves the store, or root: one whom no mode holds.
    Server,
    /// Any other user.
    User(Arc<User>),
}

/// A user, with the groups of the process that asks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct User {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The supplementary groups.
    pub groups: Vec<u32>,
}

impl Reader {
    /// Returns true if the mode of the file that `stat` describes lets the reader read it, or, for
    /// a directory, read and enter it. Asks for `stat` only if it matters.
    ///
    /// Capabilities do not count: whether one holds depends on user namespaces.
    pub(crate) fn may_read<E>(&self, stat: impl FnOnce() -> Result<Stat, E>) -> Result<bool, E> {
        match self {
            Self::Server => Ok(true),
            Self::User(user) => Ok(user.may_read(&stat()?)),
        }
    }
}

impl User {
    fn may_read(&self, stat: &Stat) -> bool {
        let wanted = if stat.kind() == FileType::Directory { READ_AND_SEARCH } else { READ };
        let shift = if stat.uid == self.uid {
            6
        } else if stat.gid == self.gid || self.groups.contains(&stat.gid) {
            3
        } else {
            0
        };
        stat.mode >> shift & wanted == wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(mode: u32, uid: u32, gid: u32) -> Stat {
        Stat { mode, uid, gid, ..Stat::imagined() }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let user = User { uid: 7, gid: 70, groups: vec![71, 72] };
        let reader = Reader::User(Arc::new(user));
        let may = |stat| reader.may_read(|| Ok::<_, ()>(stat)).unwrap();
        for (mode, uid, gid, want) in [
            (0o100_400, 7, 1, true),
            (0o100_044, 7, 1, false),
            (0o100_040, 8, 70, true),
            (0o100_040, 8, 72, true),
            (0o100_404, 8, 72, false),
            (0o100_004, 8, 1, true),
            (0o100_440, 8, 1, false),
            (0o100_222, 7, 70, false),
            (0o040_700, 7, 1, true),
            (0o040_600, 7, 1, false),
            (0o040_055, 8, 71, true),
            (0o040_041, 8, 71, false),
        ] {
            assert_eq!(may(stat(mode, uid, gid)), want, "{mode:o} {uid} {gid}");
        }
        let nobody = || -> Result<Stat, ()> { panic!("the mode was asked for") };
        assert!(Reader::Server.may_read(nobody).unwrap());
    }
}
