//! The errors of the engine.

use std::fmt::Display;
use std::io;
use std::sync::Arc;

use ctxfs_core::model::NameError;
use ctxfs_store::StoreError;
use ctxfs_store::message::MessageError;
use ctxfs_view::RenderError;

/// The reason why the engine refused or failed. Each door maps it to an error of its own.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No such file, view, page or line.
    #[error("no such file, directory or view")]
    NotFound,
    /// The file has changed since it was found. A new look-up finds its next version.
    #[error("the artifact has changed since it was looked up")]
    Stale,
    /// A file where a directory is needed.
    #[error("not a directory")]
    NotADirectory,
    /// A directory where a file is needed.
    #[error("is a directory")]
    IsADirectory,
    /// The artifact is at its cap.
    #[error("the artifact has reached its cap of {0} bytes")]
    TooLarge(u64),
    /// The conversation is at its quota.
    #[error("the files of the conversation have reached their quota of {0} bytes")]
    OverQuota(u64),
    /// The store's disk is nearly full.
    #[error("the store's disk has less than {0} bytes left")]
    DiskNearlyFull(u64),
    /// The message log refused.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The name is not valid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The door that the file belongs to refused.
    #[error("{source}")]
    Door {
        /// The errno of the refusal.
        errno: i32,
        /// The refusal itself.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The bytes of an artifact are remote and cannot be fetched.
    #[error("the bytes of `{path}` are in the bucket that hosts share: {why}")]
    Away {
        /// The artifact, as its readers name it.
        path: String,
        /// The reason, and what to do.
        why: String,
    },
    /// The work takes too long for this thread; see `allow_slow`. Clients never see this error, as
    /// the work is then done on another thread.
    #[error("this takes too long for the thread that was asked")]
    Slow,
    /// A failure of one computation that several callers waited for.
    #[error(transparent)]
    Shared(Arc<EngineError>),
}

impl EngineError {
    /// Returns the errno of this error.
    ///
    /// No wildcard: a new error must choose its number here.
    pub fn raw_os_error(&self) -> i32 {
        match self {
            Self::NotFound => libc::ENOENT,
            Self::Stale => libc::ESTALE,
            Self::NotADirectory => libc::ENOTDIR,
            Self::IsADirectory => libc::EISDIR,
            Self::TooLarge(_) => libc::EFBIG,
            Self::OverQuota(_) => libc::EDQUOT,
            Self::DiskNearlyFull(_) => libc::ENOSPC,
            Self::Name(NameError::TooLong | NameError::TooDeep) => libc::ENAMETOOLONG,
            Self::Name(NameError::Empty | NameError::Control | NameError::Reserved) => libc::EINVAL,
            Self::Message(error) => error.raw_os_error(),
            Self::Io(error) => io_error_number(error),
            Self::Store(error) => error.raw_os_error().unwrap_or(libc::EIO),
            Self::Door { errno, .. } => *errno,
            Self::Away { .. } => libc::EIO,
            Self::Slow => libc::EINPROGRESS,
            Self::Shared(error) => error.raw_os_error(),
        }
    }
}

/// Returns the errno of `error`, which may carry an [`EngineError`] as its source.
pub fn io_error_number(error: &io::Error) -> i32 {
    let inner = || error.get_ref()?.downcast_ref::<EngineError>();
    error.raw_os_error().or_else(|| inner().map(EngineError::raw_os_error)).unwrap_or(libc::EIO)
}

/// Returns why an artifact lacks its end, if a write failed with `error`, whose errno is `number`.
/// Returns `None` if such an error loses no bytes.
pub fn reason_of_loss(number: i32, error: &dyn Display) -> Option<String> {
    match number {
        libc::EFBIG => Some(error.to_string()),
        libc::ENOSPC | libc::EDQUOT => Some(format!("there was no room: {error}")),
        libc::EIO => Some(format!("the disk failed: {error}")),
        _ => None,
    }
}

impl From<RenderError> for EngineError {
    fn from(error: RenderError) -> Self {
        match error {
            RenderError::NotFound => Self::NotFound,
            RenderError::Io(error) => Self::Io(error),
        }
    }
}

impl From<EngineError> for MessageError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Message(error) => error,
            EngineError::Store(error) => Self::Store(error),
            EngineError::Io(error) if error.raw_os_error().is_some() => Self::Io(error),
            error => Self::Host { errno: error.raw_os_error(), error: Box::new(error) },
        }
    }
}

// Keeps the engine's error as the source; see `io_error_number`.
impl From<EngineError> for io::Error {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Io(error) => error,
            error => {
                let kind = Self::from_raw_os_error(error.raw_os_error()).kind();
                Self::new(kind, error)
            }
        }
    }
}

impl From<rustix::io::Errno> for EngineError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// The result of an operation of the engine.
pub type Result<T> = std::result::Result<T, EngineError>;
