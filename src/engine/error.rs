//! The errors of the engine.

use std::fmt::Display;
use std::io;
use std::sync::Arc;

use ctxfs_core::model::NameError;
use ctxfs_store::StoreError;
use ctxfs_store::message::MessageError;
use ctxfs_view::RenderError;

/// The reason why an operation of the engine failed. Each door maps it to its own error type.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("no such file, directory or view")]
    NotFound,
    /// The file has changed since it was looked up. A new look-up finds its next version.
    #[error("the artifact has changed since it was looked up")]
    Stale,
    #[error("not a directory")]
    NotADirectory,
    #[error("is a directory")]
    IsADirectory,
    #[error("the artifact has reached its cap of {0} bytes")]
    TooLarge(u64),
    #[error("the files of the conversation have reached their quota of {0} bytes")]
    OverQuota(u64),
    #[error("the store's disk has less than {0} bytes left")]
    DiskNearlyFull(u64),
    #[error(transparent)]
    Message(#[from] MessageError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{source}")]
    Door { errno: i32, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("the bytes of `{path}` are in the bucket that hosts share: {why}")]
    Away { path: String, why: String },
    /// Only a part of the conversation has arrived from the bucket. What has arrived is kept, so a
    /// retry succeeds sooner or later.
    #[error("not all of the conversation has come from the bucket yet: try again")]
    Arriving,
    /// The work takes too long for this thread; see `allow_slow`. Clients never see this error,
    /// because the work is then retried on another thread.
    #[error("this takes too long for the thread that was asked")]
    Slow,
    /// The failure of a computation that several callers waited for.
    #[error(transparent)]
    Shared(Arc<EngineError>),
}

impl EngineError {
    /// Returns the errno of this error.
    ///
    /// The match has no wildcard, so that each new error must choose its number here.
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
            Self::Arriving => libc::EAGAIN,
            Self::Slow => libc::EINPROGRESS,
            Self::Shared(error) => error.raw_os_error(),
        }
    }
}

pub fn io_error_number(error: &io::Error) -> i32 {
    let inner = || error.get_ref()?.downcast_ref::<EngineError>();
    error.raw_os_error().or_else(|| inner().map(EngineError::raw_os_error)).unwrap_or(libc::EIO)
}

/// Returns the reason why an artifact lacks its end after a write failed with `error`, whose errno
/// is `number`. Returns `None` for an error that loses no bytes.
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

pub type Result<T> = std::result::Result<T, EngineError>;
