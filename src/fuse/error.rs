//! The errors of the filesystem, and the only mapping from an error to an errno.

use std::io;

use ctxfs_core::model::NameError;
use ctxfs_engine::{EngineError, io_error_number};
use ctxfs_store::StoreError;
use ctxfs_store::message::MessageError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

/// The reason why an operation was refused or failed. The caller gets the [`errno`](Self::errno),
/// and the log gets the message.
#[derive(Debug, thiserror::Error)]
pub enum FsError {
    #[error("no such file, directory or view")]
    NotFound,
    /// The kernel sent an inode number that it had already forgotten.
    #[error("unknown inode {0}")]
    UnknownInode(u64),
    #[error("unknown handle {0}")]
    UnknownHandle(u64),
    /// The file has changed or is gone since the look-up. A new look-up finds its current state.
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
    #[error("the caller may not read what this view is computed from")]
    NotReadable,
    #[error("computed files cannot be changed")]
    Computed,
    /// The mount is `--write-once`, and the artifact is sealed or the conversation has traces of
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
    #[error("a directory with more than 10,000 directories cannot be moved deeper; copy it")]
    TooManyDirectories,
    /// A file or directory cannot be moved to another conversation if several hosts share the
    /// conversations.
    #[error("hosts share this conversation: copy files out of it instead")]
    OtherConversation,
    /// A conversation with remote artifacts cannot be renamed: other hosts refer to the artifacts
    /// by the name of the conversation.
    #[error(
        "outputs of this conversation are only in the bucket: it keeps its name until `ctxfs pull`"
    )]
    HasRemoteArtifacts,
    #[error("links and special files are not supported")]
    NoSpecialFiles,
    #[error("this conversation, or this user, has too many open files")]
    TooManyOpen,
    /// Another process or request holds what this operation needs, such as a lock, or too many
    /// requests or jobs of the conversation wait already. The operation has changed nothing.
    #[error("{0}; try again")]
    TryAgain(&'static str),
    /// A signal interrupted the client while the operation waited. The operation has changed
    /// nothing.
    #[error("a signal has ended the wait for another process")]
    Interrupted,
    /// A client opened an executable for reading with `O_TRUNC`. The kernel would check only after
    /// the truncation whether a process runs the executable.
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
    /// Any other error of the engine: an exceeded limit, or a failure that several callers share.
    #[error(transparent)]
    Engine(EngineError),
}

impl FsError {
    /// Returns the errno for the caller. The match has no wildcard, so that each new error needs an
    /// explicit errno.
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
            // EPERM rather than EACCES or EROFS: as with an immutable file, neither a change of
            // mode nor a remount would help.
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
            // On EXDEV, tools fall back to copying, directory by directory.
            Self::TooManyDirectories | Self::OtherConversation => libc::EXDEV,
            Self::TryAgain(_) => libc::EAGAIN,
            Self::Interrupted => libc::EINTR,
            Self::NoAttribute => libc::ENODATA,
            Self::Unsupported => libc::EOPNOTSUPP,
            Self::BufferTooSmall => libc::ERANGE,
            Self::Io(error) => io_error_number(error),
            // EBADMSG rather than EINVAL: for rename(2), EINVAL means that a directory would move
            // into itself.
            Self::NotALog(_) => libc::EBADMSG,
            Self::Message(error) => error.raw_os_error(),
            Self::Store(error) => error.raw_os_error().unwrap_or(libc::EIO),
            Self::Engine(error) => error.raw_os_error(),
        })
    }

    /// Returns true if the disk has no file of a name. This includes a name that is too long for the
    /// disk, such as a query or the view of a file with a long name.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self.errno().0, libc::ENOENT | libc::ENAMETOOLONG)
    }

    /// Returns true if another process holds a lock or a lease that the operation needs. The
    /// operation has changed nothing and must be retried.
    pub(crate) fn must_wait(&self) -> bool {
        self.errno().0 == libc::EAGAIN
    }

    /// Returns true if the operation would block a worker. The operation has changed nothing and
    /// must be retried on a thread for slow work.
    pub(crate) fn is_slow(&self) -> bool {
        self.errno().0 == EngineError::Slow.raw_os_error()
    }

    pub(crate) fn is_retried(&self) -> bool {
        self.must_wait() || self.is_slow()
    }

    /// Returns true if an administrator should look at the error. Most errors are ordinary results,
    /// such as a missing name or too many open files of one client.
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
