//! `export` and `import`: a conversation as one file.

use std::path::PathBuf;

use clap::Args;

use crate::cli::settings::Key;
use crate::cli::settings::Value;

/// Write a conversation, with all that belongs to it, to one file.
///
/// The archive is tar, compressed by zstd: outputs, history, catalog, what is known of the outputs,
/// their extended attributes, times and modes, and the digest of every file. `ctxfs import` brings it
/// back. It can be made while the conversation is mounted and written to: each output is as long as it
/// was when it was met, and one that is still being written is marked incomplete.
///
/// `ctxfs export c7 -o c7.tar.zst`
#[derive(Debug, Args)]
pub(in crate::cli) struct ExportArgs {
    /// The conversation.
    pub(in crate::cli) conversation: String,

    /// Where to: a file, which is replaced once the archive is complete, or `-` for standard output.
    ///
    /// Default: standard output, unless that is a terminal.
    #[arg(long, short, value_name = "FILE")]
    pub(in crate::cli) output: Option<PathBuf>,
}

/// Bring a conversation back from the file that `ctxfs export` wrote, and print its id.
///
/// All of it or nothing: every digest is checked, and an archive that holds anything but what ctxfs
/// writes is refused. A conversation that is there already is left as it is; `--as` gives the new one
/// another id, and then references to its outputs hold that id. What messages say stays as it was.
#[derive(Debug, Args)]
pub(in crate::cli) struct ImportArgs {
    /// The archive, or `-` for standard input.
    pub(in crate::cli) file: PathBuf,

    /// The id of the conversation. Default: the one that it had.
    #[arg(long = "as", value_name = "ID")]
    pub(in crate::cli) id: Option<String>,

    /// Refuse an archive that holds more than so many bytes uncompressed, such as `10GiB`.
    ///
    /// Default: what there is room for on the store's disk, beside `min_free`.
    #[arg(long, value_name = "BYTES", value_parser = |text: &str| Key::MaxArtifact.parse(text))]
    pub(in crate::cli) max_size: Option<Value>,
}
