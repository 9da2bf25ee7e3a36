//! The errors of the filesystem, and the one table that maps them to an errno.

use std::io;

use ctxfs_core::model::NameError;
use ctxfs_engine::{EngineError, io_error_number};
use ctxfs_store::StoreError;
use ctxfs_store::message::MessageError;

/// An error number as the system call returns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

/// Why an operation was refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum FsError {
    /// No such name, view, page or line.
    #[error("no such file, directory or view")]
    NotFound,
    /// The inode number is not known: the kernel asks for a node that it had forgotten.
    #[error("unknown inode {0}")]
    UnknownInode(u64),
    /// The handle is not known.
    #[error("unknown handle {0}")]
    UnknownHandle(u64),
    /// The file that a look-up found has changed or gone. A new look-up finds its next state.
    #[error("the artifact has changed since it was looked up")]
    Stale,
    /// A file where a directory is needed.
    #[error("not a directory")]
    NotADirectory,
    /// A directory where a file is needed.
    #[error("is a directory")]
    IsADirectory,
    /// A directory that is not empty.
    #[error("the directory is not empty")]
    NotEmpty,
    /// The name is taken.
    #[error("the name is taken")]
    Exists,
    /// Whoever asks may not read what it is computed from.
    #[error("its origin may not be read by whoever asks")]
    Closed,
    /// Views and other computed files cannot be written, created or replaced by a rename.
    #[error("computed files cannot be changed")]
    Computed,
    /// The artifact is sealed and the mount is `--write-once`, or the conversation has traces of
    /// such artifacts.
    #[error("the mount is write-once: sealed artifacts and their traces stay")]
    WriteOnce,
    /// The trace of a sealed artifact needs its digest, which is still being computed.
    #[error("the artifact is still being sealed: try again")]
    NotSealedYet,
    /// Bytes of the message log stay as they are.
    #[error("the message log can only be appended to; remove it, or rename another file over it")]
    AppendOnly,
    /// A file that would become a message log holds something else.
    #[error("the file is no message log: {0}")]
    NotALog(String),
    /// The message log refused a message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The root holds conversations only, and they cannot leave it.
    #[error("the root holds conversations only: make one with mkdir")]
    RootHoldsConversations,
    /// A directory that has too many directories for all of them to be looked at.
    #[error("a directory with more than 10,000 directories cannot be moved deeper; copy it")]
    TooManyDirectories,
    /// Something that hosts share, moved to another conversation.
    #[error("hosts share this conversation: what goes to another one is copied")]
    OtherConversation,
    /// A conversation with artifacts whose bytes are elsewhere, given another name: hosts know them
    /// as parts of this one.
    #[error("outputs of this conversation are elsewhere: it keeps its name until `ctxfs pull`")]
    ElsewhereInPart,
    /// Links and special files.
    #[error("links and special files are not supported")]
    NoSpecialFiles,
    /// Whoever opens something has so much open that others would have to do with less.
    #[error(
        "this conversation, or this user, has as much open as it leaves descriptors for others"
    )]
    TooManyOpen,
    /// Another process or request holds what this one needs. It can be tried again.
    #[error("{0}; try again")]
    Held(&'static str),
    /// Whoever asked was told to end while this waited for another process. Nothing has changed.
    #[error("a signal has ended the wait for another process")]
    Interrupted,
    /// A file that may be run, opened for reading to be emptied. Only when it is empty does the
    /// kernel find out whether somebody runs it.
    #[error("a program is not emptied by who opens it for reading: open it for writing")]
    MayBeRun,
    /// The handle was opened for reading only.
    #[error("the file was not opened for this")]
    WrongMode,
    /// The name is not valid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// No such extended attribute.
    #[error("no such attribute")]
    NoAttribute,
    /// The attribute or request is of a kind that is not served.
    #[error("not supported")]
    Unsupported,
    /// An argument is not valid.
    #[error("invalid argument: {0}")]
    Invalid(&'static str),
    /// The reply does not fit the caller's buffer.
    #[error("the buffer is too small")]
    BufferTooSmall,
    /// The system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The store failed.
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
            Self::Closed => libc::EACCES,
            Self::NotSealedYet => libc::EBUSY,
            // EPERM, not EACCES or EROFS: as for an immutable file, no change of mode or mount
            // would help.
            Self::Computed
            | Self::WriteOnce
            | Self::AppendOnly
            | Self::RootHoldsConversations
            | Self::NoSpecialFiles
            | Self::ElsewhereInPart => libc::EPERM,
            Self::Name(NameError::TooLong | NameError::TooDeep) => libc::ENAMETOOLONG,
            Self::Name(NameError::Empty | NameError::Control | NameError::Reserved)
            | Self::Invalid(_) => libc::EINVAL,
            Self::TooManyOpen => libc::EMFILE,
            Self::MayBeRun => libc::ETXTBSY,
            // Tools then copy, directory by directory.
            Self::TooManyDirectories | Self::OtherConversation => libc::EXDEV,
            Self::Held(_) => libc::EAGAIN,
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

    /// Returns true if the operation has changed nothing and is to be tried again: it needs a lock
    /// or a lease that another process has.
    pub(crate) fn must_wait(&self) -> bool {
        self.errno().0 == libc::EAGAIN
    }

    /// Returns true if the operation has changed nothing and is to be done by a thread that nobody
    /// else waits for.
    pub(crate) fn is_slow(&self) -> bool {
        self.errno().0 == EngineError::Slow.raw_os_error()
    }

    /// Returns true if the operation has changed nothing and comes back: later, or elsewhere.
    pub(crate) fn comes_back(&self) -> bool {
        self.must_wait() || self.is_slow()
    }

    /// Returns true if a person should look at it. Most errors are ordinary answers, such as that a
    /// name is not there, or that a client has too much open.
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

/// The result of an operation.
pub type Result<T> = std::result::Result<T, FsError>;
