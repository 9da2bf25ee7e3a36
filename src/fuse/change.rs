//! Changes of a file that may take room, as the limits ask about them.

use std::fs::File;

use crate::Result;
use crate::node::file::FileNode;
use ctxfs_core::model::Component;
use ctxfs_engine::FileChange;
use ctxfs_store::{growth_of_write, stat_file};

/// Bytes of a file that are about to be written or reserved.
pub(super) struct Change<'a> {
    /// The file.
    pub(super) node: &'a FileNode,
    /// A descriptor of it.
    pub(super) open: &'a File,
    /// The first byte, or `None` for the end of the file.
    pub(super) offset: Option<u64>,
    /// The number of bytes.
    pub(super) length: u64,
}

impl Change<'_> {
    /// Returns true if it ends beyond the end of the file.
    pub(super) fn is_beyond_end(&self) -> Result<bool> {
        Ok(self.end()? > self.size()?)
    }
}

impl FileChange for Change<'_> {
    fn is_terminal(&self) -> bool {
        self.node.is_terminal_log()
    }

    fn charged_to(&self) -> Option<Component> {
        self.node.charged_to()
    }

    fn size(&self) -> ctxfs_engine::Result<u64> {
        Ok(stat_file(self.open)?.size)
    }

    fn end(&self) -> ctxfs_engine::Result<u64> {
        let offset = self.offset.map_or_else(|| self.size(), Ok)?;
        Ok(offset.saturating_add(self.length))
    }

    fn length(&self) -> u64 {
        self.length
    }

    fn growth(&self) -> ctxfs_engine::Result<u64> {
        let stat = stat_file(self.open)?;
        let offset = self.offset.unwrap_or(stat.size);
        Ok(growth_of_write(self.open, &stat, offset, self.length)?)
    }
}
