//! The rights of a caller to computed files, on a mount that several users may enter.
//!
//! The kernel holds callers to owners and modes, as it last saw them. That is enough for files on
//! disk. A computed file shows what other files hold, and is opened by a descriptor or asked for
//! its size when their modes have long changed. So it is checked here too, each time that it is
//! opened or asked for.

use std::sync::Arc;

use crate::attr::Rights;
use crate::caller_groups::groups;
use crate::node::ComputedNode;
use crate::{Caller, FsError, Result, Shared};
use ctxfs_engine::{Reader, User};

/// A caller, as one who asks for computed files.
#[derive(Clone, Copy)]
pub(super) struct Asker<'a> {
    fs: &'a Shared,
    caller: Caller,
}

impl<'a> Asker<'a> {
    pub(super) fn new(fs: &'a Shared, caller: Caller) -> Self {
        Self { fs, caller }
    }

    /// Returns true for root, for the user who serves, and for everyone on a mount that lets nobody
    /// else in.
    fn is_server(&self) -> bool {
        let uid = self.caller.uid;
        !self.fs.engine.options.allow_other
            || uid == 0
            || uid == rustix::process::geteuid().as_raw()
    }

    /// Returns the reader that texts of many files are for.
    pub(super) fn reader(&self) -> Reader {
        if self.is_server() {
            return Reader::Server;
        }
        let Caller { uid, gid, .. } = self.caller;
        Reader::User(Arc::new(User { uid, gid, groups: groups(self.caller) }))
    }

    /// Returns true if `rights` let whoever asks read. Looks up the groups only if they matter.
    pub(super) fn may_read(&self, rights: &Rights) -> bool {
        let Caller { uid, gid, .. } = self.caller;
        if self.is_server() {
            true
        } else if uid == rights.uid {
            rights.is_open_to_owner()
        } else if rights.is_open_to_group() == rights.is_open_to_others() {
            rights.is_open_to_others()
        } else if gid == rights.gid || groups(self.caller).contains(&rights.gid) {
            rights.is_open_to_group()
        } else {
            rights.is_open_to_others()
        }
    }

    /// Checks that `of` may be opened for whoever asks, and its size told.
    ///
    /// A file that was not computed before its origin got other rights is stale: the size would be
    /// known to those who found it before.
    pub(super) fn check(&self, of: &ComputedNode) -> Result<()> {
        if of.closed {
            return Err(FsError::Closed);
        }
        let recipe = of.computed.recipe();
        if !self.fs.engine.options.allow_other || recipe.is_public() {
            return Ok(());
        }
        let rights = of.origin_rights().unwrap_or(of.inherited.rights);
        if rights != of.inherited.rights && of.computed.size().is_none() {
            return Err(FsError::Stale);
        }
        if self.is_server() {
            return Ok(());
        }
        let is_for_another = recipe.reader().is_some_and(|reader| *reader != self.reader());
        if is_for_another || !self.may_read(&rights) { Err(FsError::Closed) } else { Ok(()) }
    }
}
