//! The file on the local disk that has the bytes of an artifact.

use serde::{Deserialize, Serialize};

/// The local file whose bytes were analysed when an artifact was sealed.
///
/// Nobody can set the time at which a file changed. So while a file has that time, and the record's
/// length and time of modification, its bytes are those of the record's analysis and digest.
///
/// Another file with the same bytes may take its place. Whoever puts one there has compared the
/// digest, gives it the same time of modification, and records its time of change as `copied`; the
/// other fields stay, so that the artifact is known by the same file as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalFile {
    /// The device number of the disk.
    pub dev: u64,
    /// The inode number.
    pub ino: u64,
    /// The time of creation in nanoseconds since the epoch, if the disk stores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub born: Option<i64>,
    /// The time of the last change of anything, in nanoseconds since the epoch.
    pub changed: i64,
    /// That of the copy which has the bytes now, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied: Option<i64>,
}
