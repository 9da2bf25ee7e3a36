//! What the filesystem says of a node, in its own terms.

use std::time::Duration;
use std::time::SystemTime;

use crate::store::FileType;
use crate::store::Stat;
use crate::store::Time;

/// The number of a node: never used twice in the life of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ino(pub u64);

impl Ino {
    /// The root, as FUSE fixes it.
    pub const ROOT: Self = Self(1);
    /// The directory of all conversations, where the kernel's root is one of them: no name leads
    /// there.
    pub(crate) const ABOVE: Self = Self(0);
}

/// The number of an open file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fh(pub u64);

/// What a node is to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
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

/// The attributes of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    /// Its number.
    pub ino: Ino,
    /// File or directory.
    pub kind: FileKind,
    /// Bytes.
    pub size: u64,
    /// Blocks of 512 bytes on disk.
    pub blocks: u64,
    /// Permission bits, with set-id and sticky bits.
    pub perm: u16,
    /// Links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last access.
    pub atime: SystemTime,
    /// Last modification.
    pub mtime: SystemTime,
    /// Last change of the attributes.
    pub ctime: SystemTime,
}

/// Permission bits: of all who may read, of the owner, and how far searching is from reading.
const READ: u16 = 0o444;
const OWNER: u16 = 0o700;
const READ_TO_SEARCH: u16 = 2;

impl Attr {
    /// The attributes of what stands on disk.
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

    /// The attributes of something computed: `size` bytes, with the times and the owner of what it is
    /// computed from, to be read by those who may read that.
    ///
    /// What a directory holds has modes of its own, and one search reads all of it: what is computed
    /// of a directory is for its owner alone.
    pub(crate) fn of_computed(ino: Ino, kind: FileKind, size: u64, origin: &Stat) -> Self {
        let of = Self::of_disk(ino, origin);
        let readers = if of.kind == FileKind::File { of.perm & READ } else { OWNER & READ };
        let (perm, nlink) = match kind {
            FileKind::File => (readers, 1),
            FileKind::Directory => (readers | readers >> READ_TO_SEARCH, 2),
        };
        Self { kind, size, blocks: size.div_ceil(512), perm, nlink, ..of }
    }

    /// The same of what says nothing of anybody: for everybody.
    pub(crate) fn for_all(self) -> Self {
        Self { perm: READ, ..self }
    }
}

/// A moment of the disk; one before all that can be said is the epoch.
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

/// Attributes, and how long the kernel may believe them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedAttr {
    /// The attributes.
    pub attr: Attr,
    /// For so long.
    pub ttl: Duration,
}

/// What a name leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The node.
    pub attr: Attr,
    /// How long the attributes hold.
    pub attr_ttl: Duration,
    /// How long the name leads there.
    pub entry_ttl: Duration,
}

/// What to change of a node; absent fields stay.
#[derive(Debug, Clone, Copy, Default)]
pub struct SetAttr {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length: truncates, or extends with zeros.
    pub size: Option<u64>,
    /// Access time.
    pub atime: Option<NewTime>,
    /// Modification time.
    pub mtime: Option<NewTime>,
}

/// A time to set.
#[derive(Debug, Clone, Copy)]
pub enum NewTime {
    /// The moment of the call.
    Now,
    /// That one.
    At(SystemTime),
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub struct Caller {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Thread.
    pub pid: u32,
}
