//! The commands that move conversations between hosts: `export`, `import`, `push`, `pull` and
//! `remote`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

// Many times more than a conversation of months has.
const MOST_FILES: u64 = 1_000_000;

/// Write a conversation, with everything that belongs to it, to one file.
///
/// The archive is tar, compressed with zstd. It holds outputs, history and catalog, the records of
/// the outputs, extended attributes, times and modes, and a digest of every file. `ctxfs import`
/// restores the conversation. During the export, the conversation may be mounted and written to:
/// each output is exported with the length that it has when the export reaches it, and an output
/// that is still being written is marked incomplete.
///
/// Bytes that only the shared bucket has are fetched; files for which this fails are listed.
///
/// `ctxfs export c7 -o c7.tar.zst`
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Conversation to export.
    pub(crate) conversation: String,

    /// File to write, or `-` for standard output. An existing file is replaced once the archive is
    /// complete.
    ///
    /// Default: standard output, unless that is a terminal.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Restore a conversation from a file that `ctxfs export` wrote, and print its id.
///
/// Restores everything or nothing: every digest is checked, and an archive with anything that ctxfs
/// does not write is refused. An existing conversation is never changed: `--as` imports the archive
/// under another id. The references of the outputs then contain the new id, but the text of
/// messages stays unchanged.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Archive to read, or `-` for standard input.
    pub(crate) file: PathBuf,

    /// Id of the new conversation. Default: the id in the archive.
    #[arg(long = "as", value_name = "ID")]
    pub(crate) id: Option<String>,

    /// Refuse an archive whose uncompressed size exceeds this many bytes, such as `10GiB`.
    ///
    /// Default: the free space on the store's disk minus `min_free`.
    #[arg(long, value_name = "BYTES", value_parser = |text: &str| crate::SettingKey::MaxArtifact.parse(text))]
    pub(crate) max_size: Option<crate::settings::SettingValue>,

    /// Refuse an archive of more than this many files and directories.
    #[arg(long, value_name = "N", default_value_t = MOST_FILES)]
    pub(crate) max_files: u64,
}

/// Send changes of this host to the bucket that hosts share.
///
/// The setting `url` in `[remote]` names the bucket. Sends the files, messages, renames and
/// removals that the bucket does not have yet. Outputs that are still being written are listed, and
/// sent the next time. Exit status: 1 if anything was left out.
#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    /// Conversations to send. Default: all in the store, and removals of conversations.
    pub(crate) conversations: Vec<String>,

    /// Begin a new bucket in place of a known bucket that is permanently lost.
    ///
    /// Without this, a bucket that was emptied, or whose disk is not mounted, is an error.
    #[arg(long)]
    pub(crate) new_bucket: bool,

    /// Show no progress.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Fetch and apply changes from other hosts.
///
/// Fetches whole files and their records, and applies renames and removals. Local changes that have
/// not been sent are kept. Exit status: 1 if a change could not be applied, or something in the
/// bucket cannot be read.
#[derive(Debug, Args)]
pub(crate) struct PullArgs {
    /// Conversations to fetch; created if missing. Default: all in the bucket.
    pub(crate) conversations: Vec<String>,

    /// Show no progress.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Maintain the bucket that hosts share.
#[derive(Debug, Args)]
pub(crate) struct RemoteArgs {
    #[command(subcommand)]
    pub(crate) action: RemoteAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RemoteAction {
    /// Show the bucket, and changes that have not been sent yet.
    ///
    /// Shows the state of this host even if the bucket does not answer.
    Status,
    Check(RemoteCheckArgs),
    Gc(RemoteGcArgs),
    Purge(RemotePurgeArgs),
}

/// Compare the records with the content of the bucket.
///
/// Prints missing and damaged files, and the size of objects that no record names. Changes nothing.
/// Exit status: 1 if anything is missing or damaged.
#[derive(Debug, Args)]
pub(crate) struct RemoteCheckArgs {
    /// Conversation to check. Default: all in the bucket.
    pub(crate) conversation: Option<String>,

    /// Read all bytes too, and compare their digests.
    #[arg(long)]
    pub(crate) read: bool,

    /// Show no progress.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Delete garbage from the bucket, and print each key.
///
/// Merges the segments of conversations that have many. Deletes segments that were merged at least
/// a day ago, and objects older than a week that no record names. The clock of the bucket decides.
/// If the bucket lacks a segment of a conversation, deletes nothing in that conversation and
/// reports it. With `sweep = false` in `[remote]`, only merges.
#[derive(Debug, Args)]
pub(crate) struct RemoteGcArgs {
    /// Conversation to collect. Default: all in the bucket.
    pub(crate) conversation: Option<String>,

    /// Print what would be deleted, and change nothing.
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
}

/// Remove an output everywhere, and delete its bytes from the bucket now.
///
/// For a secret that was stored. Removes all outputs that ever had this path, even if they were
/// renamed later: sends their removal to all hosts, deletes their bytes and records from the
/// bucket, and deletes their files from this store. Also deletes objects that no record names, once
/// they are a day old. Lists the kinds of copies that are out of reach. After an interruption, the
/// same command continues. Exit status: 1 if the bytes may still be in the bucket.
///
/// For a secret in a message, remove its line from the log, then purge `history/messages.jsonl`.
/// This deletes from the bucket all lines that are no longer in the log.
///
/// `ctxfs remote purge c7/artifacts/tool/9f3k.txt`
#[derive(Debug, Args)]
pub(crate) struct RemotePurgeArgs {
    /// Path of the output, beginning with the conversation. A reference (`ctx://...`) works too.
    pub(crate) path: String,

    /// Print what would be deleted, and change nothing.
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
}
