//! Changes of a file that may take room, as the limits ask about them.

use std::fs::File;

use crate::engine;
use crate::engine::FileChange;
use crate::fs::Result;
use crate::fs::node::file::FileNode;
use crate::model::Component;
use crate::store::growth_of_write;
use crate::store::stat_file;

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

    fn size(&self) -> engine::Result<u64> {
        Ok(stat_file(self.open)?.size)
    }

    fn end(&self) -> engine::Result<u64> {
        let offset = self.offset.map_or_else(|| self.size(), Ok)?;
        Ok(offset.saturating_add(self.length))
    }

    fn length(&self) -> u64 {
        self.length
    }

    fn growth(&self) -> engine::Result<u64> {
        let stat = stat_file(self.open)?;
        let offset = self.offset.unwrap_or(stat.size);
        Ok(growth_of_write(self.open, &stat, offset, self.length)?)
    }
}
