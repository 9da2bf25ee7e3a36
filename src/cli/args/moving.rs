//! `export` and `import`: a conversation as one file.

use std::path::PathBuf;

use clap::Args;

use crate::settings::{Key, Value};

/// The most files and directories of an archive, many times what a conversation of months has.
const MOST_FILES: u64 = 1_000_000;

/// Write a conversation, with everything that belongs to it, to one file.
///
/// The archive is tar, compressed with zstd. It holds outputs, history and catalog, what is known
/// about the outputs, extended attributes, times and modes, and a digest of every file. `ctxfs
/// import` restores it. The conversation may be mounted and written to meanwhile: each output has
/// the length it had when the export reached it, and one that is still being written is marked
/// incomplete.
///
/// Bytes that only the bucket of several hosts has are fetched; what cannot be had is named.
///
/// `ctxfs export c7 -o c7.tar.zst`
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Conversation to export.
    pub(crate) conversation: String,

    /// File to write, replaced once the archive is complete, or `-` for standard output.
    ///
    /// Default: standard output, unless that is a terminal.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Restore a conversation from a file that `ctxfs export` wrote, and print its id.
///
/// Restores everything or nothing: every digest is checked, and an archive with anything that ctxfs
/// does not write is refused. An existing conversation is left alone; `--as` imports under another
/// id, which references to the outputs then use. Messages keep their text.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Archive to read, or `-` for standard input.
    pub(crate) file: PathBuf,

    /// Id of the new conversation. Default: the id that it had.
    #[arg(long = "as", value_name = "ID")]
    pub(crate) id: Option<String>,

    /// Refuse an archive of more than this many bytes uncompressed, such as `10GiB`.
    ///
    /// Default: the free space on the store's disk without `min_free`.
    #[arg(long, value_name = "BYTES", value_parser = |text: &str| Key::MaxArtifact.parse(text))]
    pub(crate) max_size: Option<Value>,

    /// Refuse an archive of more than this many files and directories.
    #[arg(long, value_name = "N", default_value_t = MOST_FILES)]
    pub(crate) max_files: u64,
}
