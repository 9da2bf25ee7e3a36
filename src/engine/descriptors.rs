//! The division of the process's descriptors between their uses.

use rustix::process::Resource;

/// The most descriptors that are kept for the server's own work: recording and analysing what was
/// written, searches, views that are computed.
const OWN: usize = 512;
/// The most directories that a mount holds open.
const DIRS: usize = 4096;
/// The most conversations whose manifests stay indexed in memory, with two descriptors each.
const CONVERSATIONS: usize = 64;
/// The most texts on disk that are held open for the next reader.
const TEXTS: usize = 64;
/// The most searched directories that stay watched. Each costs the user one of 128 inotify
/// instances, and the kernel a MiB or two if much is written and nobody searches.
const WATCHED: usize = 16;

/// The number of descriptors that each use may hold at most. Together they are no more than the
/// process may have, so that no use takes away what another one needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DescriptorBudget {
    /// Files and directories that clients have open.
    pub handles: u64,
    /// Directories that the mount holds open, so that names in them are found at once.
    pub dirs: usize,
    /// Conversations whose manifests stay indexed.
    pub(super) conversations: usize,
    /// Texts on disk that are held open for the next reader.
    pub(super) texts: usize,
    /// Searched directories that stay watched.
    pub(super) watched: usize,
}

impl DescriptorBudget {
    /// Divides `most` descriptors, or as many as this process may have.
    pub(super) fn new(most: Option<u64>) -> Self {
        let most = most.or_else(|| rustix::process::getrlimit(Resource::Nofile).current);
        Self::of(most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX)))
    }

    fn of(most: usize) -> Self {
        let own = (most / 2).min(OWN);
        let dirs = (most / 8).clamp(1, DIRS);
        Self {
            handles: (most - own - dirs) as u64,
            dirs,
            conversations: (own / 8).clamp(1, CONVERSATIONS),
            texts: (own / 8).clamp(1, TEXTS),
            watched: (own / 32).clamp(1, WATCHED),
        }
    }
}
