//! Reading standard input to its end.

use std::io;
use std::io::{Read as _, Write};

/// Bytes that are read at once.
const BLOCK: usize = 256 * 1024;

/// The error that ends standard input early.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReceiveError {
    /// Reading failed.
    #[error("standard input failed: {0}")]
    Input(io::Error),
    /// Writing failed.
    #[error("the store failed: {0}")]
    Store(io::Error),
}

impl ReceiveError {
    /// Returns the error for the user; `kept` is the path of the part received.
    pub(super) fn into_error(self, kept: &str) -> anyhow::Error {
        let (error, what) = match self {
            Self::Input(error) => (error, "cannot read standard input"),
            Self::Store(error) => (error, "cannot store the whole output"),
        };
        anyhow::Error::new(error).context(format!("{what}; the part received is in `{kept}`"))
    }
}

/// Copies standard input to `sink`, and calls `finish` at its end. After an error, the part
/// received before it is in `sink`.
pub(super) fn receive<W: Write>(
    sink: &mut W,
    finish: impl FnOnce(&mut W) -> io::Result<()>,
) -> Result<(), ReceiveError> {
    let copied = copy(sink);
    if matches!(copied, Err(ReceiveError::Store(_))) {
        return copied;
    }
    let finished = finish(sink).map_err(ReceiveError::Store);
    copied.and(finished)
}

fn copy(sink: &mut dyn Write) -> Result<(), ReceiveError> {
    let mut block = vec![0; BLOCK];
    let mut input = io::stdin().lock();
    loop {
        let count = match input.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(ReceiveError::Input(error)),
        };
        sink.write_all(&block[..count]).map_err(ReceiveError::Store)?;
    }
}
