//! The flag of commands that print paths.

use clap::Args;

use crate::settings::{Key, Value};

/// The place at which the reader of a text sees the mount.
#[derive(Debug, Args)]
pub(crate) struct ReaderArgs {
    /// Mountpoint as the reader sees it, for paths in the text.
    ///
    /// Default: where this store is mounted, or else where `ctxfs mount` would mount it.
    #[arg(long, value_name = "PREFIX")]
    advertise: Option<String>,
}

impl ReaderArgs {
    /// Returns the settings among the arguments.
    pub(crate) fn settings(&self) -> Vec<(Key, Value)> {
        self.advertise.iter().map(|prefix| (Key::Advertise, Value::Text(prefix.clone()))).collect()
    }
}
