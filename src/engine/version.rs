//! The version of the content of a file or directory.

/// The version of a source. Equal versions of a source give equal bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Version {
    /// The number of changes that this process has seen, and of views that ran out of time. A
    /// computed file does not change, so it has only the latter.
    pub changes: u64,
    /// The length in bytes.
    pub size: u64,
    /// The last modification, in nanoseconds since the epoch.
    pub modified: i64,
    /// The last change of anything, including names and extended attributes, in nanoseconds since
    /// the epoch. If a copy took the place of a sealed file, that of the file before.
    pub changed: i64,
    /// A hash of all facts beside the bytes, such as the manifest's record.
    pub facts: u64,
    /// A number of the bytes while they may change without a change of the times; else 0.
    pub bytes: u64,
}
