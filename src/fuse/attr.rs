//! Attributes of nodes, in the filesystem's own types.

use std::time::{Duration, SystemTime};

use ctxfs_store::{FileType, Stat, Time};

/// The inode number of a node. A mount never reuses a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ino(pub u64);

impl Ino {
    /// The inode number that the FUSE protocol fixes for the root.
    pub const ROOT: Self = Self(1);
    /// The inode number of the directory of all conversations, on a mount whose root is a single
    /// conversation. No name on that mount leads to this directory.
    pub(crate) const ABOVE: Self = Self(0);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fh(pub u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    File,
    Directory,
}

impl FileKind {
    pub(crate) fn of(kind: FileType) -> Self {
        match kind {
            FileType::Directory => Self::Directory,
            FileType::File | FileType::Other => Self::File,
        }
    }
}

/// Size in bytes of the blocks that stat(2) counts. The block size of the disk does not matter.
pub(crate) const STAT_BLOCK: u64 = 512;

/// The attributes of a node, with the fields of stat(2). `size` is in bytes, and `blocks` counts
/// blocks of 512 bytes. `perm` includes the set-id and sticky bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    pub ino: Ino,
    pub kind: FileKind,
    pub size: u64,
    pub blocks: u64,
    pub perm: u16,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub atime: SystemTime,
    pub mtime: SystemTime,
    pub ctime: SystemTime,
}

/// The attributes that a computed file takes from its origin. A mount holds one value for each view
/// in its inode table, so the type is kept at half the size of a `Stat`.
pub(crate) struct Inherited {
    pub(crate) rights: Rights,
    atime: Time,
    mtime: Time,
    ctime: Time,
}

impl Inherited {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self::with(Rights::of(stat), stat)
    }

    pub(crate) fn with(rights: Rights, stat: &Stat) -> Self {
        let Stat { atime, mtime, ctime, .. } = *stat;
        Self { rights, atime, mtime, ctime }
    }
}

/// The owner of a computed file and its read permission bits, both taken from its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Rights {
    readers: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Rights {
    /// Returns the rights to a file computed from the file or directory that `stat` describes. Only
    /// the owner of a directory may read a file computed from it, because a search reads every file
    /// in the directory.
    pub(crate) fn of(stat: &Stat) -> Self {
        let readers = match FileKind::of(stat.kind()) {
            FileKind::File => stat.mode as u16 & READ,
            FileKind::Directory => OWNER & READ,
        };
        Self { readers, uid: stat.uid, gid: stat.gid }
    }

    /// Returns the rights to a file that tells no more of the directory that `stat` describes than its
    /// names.
    pub(crate) fn to_names(stat: &Stat) -> Self {
        Self { readers: stat.mode as u16 & READ, uid: stat.uid, gid: stat.gid }
    }

    pub(crate) fn are_open_to(&self, class: u16) -> bool {
        self.readers & class != 0
    }
}

/// Permission bits: the read bits of all classes, then the bits of each class of users. A read bit
/// shifted right by `READ_TO_SEARCH` is the search bit of the same class.
const READ: u16 = 0o444;
pub(crate) const OWNER: u16 = 0o700;
pub(crate) const GROUP: u16 = 0o070;
pub(crate) const OTHERS: u16 = 0o007;
const READ_TO_SEARCH: u16 = 2;

impl Attr {
    pub(crate) fn of_disk(ino: Ino, stat: &Stat) -> Self {
        Self {
            ino,
            kind: FileKind::of(stat.kind()),
            size: stat.size,
            blocks: stat.blocks,
            perm: (stat.mode & 0o7777) as u16,
            nlink: stat.nlink,
            uid: stat.uid,
            gid: stat.gid,
            atime: system_time(stat.atime),
            mtime: system_time(stat.mtime),
            ctime: system_time(stat.ctime),
        }
    }

    /// Returns the attributes of a computed file or directory of `size` bytes. The times, the owner
    /// and the read bits come from its origin, `from`.
    pub(crate) fn of_computed(ino: Ino, kind: FileKind, size: u64, from: &Inherited) -> Self {
        let rights = from.rights;
        let (perm, nlink) = match kind {
            FileKind::File => (rights.readers, 1),
            FileKind::Directory => (rights.readers | rights.readers >> READ_TO_SEARCH, 2),
        };
        let Rights { uid, gid, .. } = rights;
        let [atime, mtime, ctime] = [from.atime, from.mtime, from.ctime].map(system_time);
        let blocks = size.div_ceil(STAT_BLOCK);
        Self { ino, kind, size, blocks, perm, nlink, uid, gid, atime, mtime, ctime }
    }

    pub(crate) fn for_all(self) -> Self {
        Self { perm: READ, ..self }
    }
}

/// Converts a timestamp from the disk. A timestamp that `SystemTime` cannot hold becomes the epoch.
pub(crate) fn system_time(time: Time) -> SystemTime {
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let nanos = Duration::from_nanos(time.nanos.into());
    let whole = if time.seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(seconds)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(seconds)
    };
    whole.and_then(|whole| whole.checked_add(nanos)).unwrap_or(SystemTime::UNIX_EPOCH)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedAttr {
    pub attr: Attr,
    pub ttl: Duration,
}

/// The result of a look-up: the attributes of the node, and how long the kernel may cache the
/// attributes and the name. `is_computed` is true for a view or another computed file. No file on
/// disk then has the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub attr: Attr,
    pub attr_ttl: Duration,
    pub entry_ttl: Duration,
    pub is_computed: bool,
}

/// The attributes to change. An attribute that is `None` stays as it is. `size` truncates the file,
/// or extends it with zeros.
#[derive(Debug, Clone, Copy, Default)]
pub struct SetAttr {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<NewTime>,
    pub mtime: Option<NewTime>,
}

#[derive(Debug, Clone, Copy)]
pub enum NewTime {
    Now,
    At(SystemTime),
}

/// The user, group and thread of the client that waits for an operation. `pid` is 0 for a thread in
/// another PID namespace.
#[derive(Debug, Clone, Copy)]
pub struct Caller {
    pub uid: u32,
    pub gid: u32,
    pub pid: u32,
}
