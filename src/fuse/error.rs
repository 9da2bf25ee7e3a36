//! The errors of the filesystem, and the one table that maps them to an errno.

use std::io;

use ctxfs_core::model::NameError;
use ctxfs_engine::{EngineError, io_error_number};
use ctxfs_store::StoreError;
use ctxfs_store::message::MessageError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

/// The reason why an operation was refused or failed. The caller gets its [`errno`](Self::errno);
/// the message is for the log.
#[derive(Debug, thiserror::Error)]
pub enum FsError {
    #[error("no such file, directory or view")]
    NotFound,
    /// The kernel asks for a node that it had forgotten.
    #[error("unknown inode {0}")]
    UnknownInode(u64),
    #[error("unknown handle {0}")]
    UnknownHandle(u64),
    /// The file that a look-up found has changed or gone. A new look-up finds its next state.
    #[error("the artifact has changed since it was looked up")]
    Stale,
    #[error("not a directory")]
    NotADirectory,
    #[error("is a directory")]
    IsADirectory,
    #[error("the directory is not empty")]
    NotEmpty,
    #[error("the name is taken")]
    Exists,
    /// The caller may not read the origin of a computed file.
    #[error("the caller may not read what this view is computed from")]
    NotReadable,
    #[error("computed files cannot be changed")]
    Computed,
    /// The artifact is sealed and the mount is `--write-once`, or the conversation has traces of
    /// sealed artifacts.
    #[error("the mount is write-once: sealed artifacts and their traces stay")]
    WriteOnce,
    #[error("the artifact is still being sealed: try again")]
    NotSealedYet,
    #[error("the message log can only be appended to; remove it, or rename another file over it")]
    AppendOnly,
    #[error("the file is no message log: {0}")]
    NotALog(String),
    #[error(transparent)]
    Message(#[from] MessageError),
    #[error("the root holds conversations only: make one with mkdir")]
    RootHoldsConversations,
    /// The directory has too many directories below it to check their depth.
    #[error("a directory with more than 10,000 directories cannot be moved deeper; copy it")]
    TooManyDirectories,
    /// A move to another conversation, where hosts share conversations.
    #[error("hosts share this conversation: copy files out of it instead")]
    OtherConversation,
    /// A new name for a conversation with remote artifacts: other hosts know them as parts of it.
    #[error(
        "outputs of this conversation are only in the bucket: it keeps its name until `ctxfs pull`"
    )]
    HasRemoteArtifacts,
    #[error("links and special files are not supported")]
    NoSpecialFiles,
    #[error("this conversation, or this user, has too many open files")]
    TooManyOpen,
    /// Another process or request holds a lock that this one needs. Nothing has changed.
    #[error("{0}; try again")]
    TryAgain(&'static str),
    /// The client was told to end while it waited. Nothing has changed.
    #[error("a signal has ended the wait for another process")]
    Interrupted,
    /// An executable is opened for reading with `O_TRUNC`. The kernel would find out only afterwards
    /// that a process runs it.
    #[error("a program cannot be truncated by an open for reading: open it for writing")]
    MayBeRunning,
    #[error("the file was not opened for this")]
    WrongMode,
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("no such attribute")]
    NoAttribute,
    #[error("not supported")]
    Unsupported,
    #[error("invalid argument: {0}")]
    Invalid(&'static str),
    #[error("the buffer is too small")]
    BufferTooSmall,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Any other error of the engine: a limit, or a failure shared by several callers.
    #[error(transparent)]
    Engine(EngineError),
}

impl FsError {
    /// Returns the errno that the caller gets. No wildcard: a new error must choose its number
    /// here.
    pub fn errno(&self) -> Errno {
        Errno(match self {
            Self::NotFound => libc::ENOENT,
            Self::UnknownInode(_) | Self::Stale => libc::ESTALE,
            Self::UnknownHandle(_) | Self::WrongMode => libc::EBADF,
            Self::NotADirectory => libc::ENOTDIR,
            Self::IsADirectory => libc::EISDIR,
            Self::NotEmpty => libc::ENOTEMPTY,
            Self::Exists => libc::EEXIST,
            Self::NotReadable => libc::EACCES,
            Self::NotSealedYet => libc::EBUSY,
            // EPERM, not EACCES or EROFS: as for an immutable file, no change of mode or mount
            // would help.
            Self::Computed
            | Self::WriteOnce
            | Self::AppendOnly
            | Self::RootHoldsConversations
            | Self::NoSpecialFiles
            | Self::HasRemoteArtifacts => libc::EPERM,
            Self::Name(NameError::TooLong | NameError::TooDeep) => libc::ENAMETOOLONG,
            Self::Name(NameError::Empty | NameError::Control | NameError::Reserved)
            | Self::Invalid(_) => libc::EINVAL,
            Self::TooManyOpen => libc::EMFILE,
            Self::MayBeRunning => libc::ETXTBSY,
            // Tools then copy, directory by directory.
            Self::TooManyDirectories | Self::OtherConversation => libc::EXDEV,
            Self::TryAgain(_) => libc::EAGAIN,
            Self::Interrupted => libc::EINTR,
            Self::NoAttribute => libc::ENODATA,
            Self::Unsupported => libc::EOPNOTSUPP,
            Self::BufferTooSmall => libc::ERANGE,
            Self::Io(error) => io_error_number(error),
            // EINVAL of rename(2) means that a directory would be inside itself.
            Self::NotALog(_) => libc::EBADMSG,
            Self::Message(error) => error.raw_os_error(),
            Self::Store(error) => error.raw_os_error().unwrap_or(libc::EIO),
            Self::Engine(error) => error.raw_os_error(),
        })
    }

    /// Returns true if the operation needs a lock or a lease of another process. It has changed
    /// nothing, and is to be retried.
    pub(crate) fn must_wait(&self) -> bool {
        self.errno().0 == libc::EAGAIN
    }

    /// Returns true if the operation would block a worker. It has changed nothing, and is to be
    /// retried on a thread for slow work.
    pub(crate) fn is_slow(&self) -> bool {
        self.errno().0 == EngineError::Slow.raw_os_error()
    }

    pub(crate) fn is_retried(&self) -> bool {
        self.must_wait() || self.is_slow()
    }

    /// Returns true if a person should look at it. Most errors are ordinary results, such as a
    /// missing name, or a client with too much open.
    pub fn is_fault(&self) -> bool {
        let errno = self.errno().0;
        !matches!(self, Self::TooManyOpen)
            && matches!(
                errno,
                libc::EIO | libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOSPC
            )
    }
}

impl From<EngineError> for FsError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::NotFound => Self::NotFound,
            EngineError::Stale => Self::Stale,
            EngineError::NotADirectory => Self::NotADirectory,
            EngineError::IsADirectory => Self::IsADirectory,
            EngineError::Message(error) => Self::Message(error),
            EngineError::Name(error) => Self::Name(error),
            EngineError::Io(error) => Self::Io(error),
            EngineError::Store(error) => Self::Store(error),
            other => Self::Engine(other),
        }
    }
}

impl From<FsError> for EngineError {
    fn from(error: FsError) -> Self {
        match error {
            FsError::NotFound => Self::NotFound,
            FsError::Stale => Self::Stale,
            FsError::NotADirectory => Self::NotADirectory,
            FsError::IsADirectory => Self::IsADirectory,
            FsError::Message(error) => Self::Message(error),
            FsError::Name(error) => Self::Name(error),
            FsError::Io(error) => Self::Io(error),
            FsError::Store(error) => Self::Store(error),
            FsError::Engine(error) => error,
            other => Self::Door { errno: other.errno().0, source: Box::new(other) },
        }
    }
}

impl From<rustix::io::Errno> for FsError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Io(errno.into())
    }
}

pub type Result<T> = std::result::Result<T, FsError>;
