//! `push`, `pull` and `remote`: the bucket that hosts share.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Send what was done here to the bucket that hosts share.
///
/// The setting `url` in `[remote]` names the bucket. Files, messages, renames and removals since
/// the last time are sent; what is being written is left for the next time, and named. Exit status:
/// 1 if anything was left out.
#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    /// Conversations to send. Default: all of the store, and the removal of those that are gone.
    pub(crate) conversations: Vec<String>,

    /// Begin a new bucket where the one that this store knows is gone for good.
    ///
    /// Without it a bucket that was emptied, or whose disk is not mounted, is an error.
    #[arg(long)]
    pub(crate) new_bucket: bool,

    /// Show no progress.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Get what other hosts did from the bucket, and do it here.
///
/// Everything comes, whole: files and records; renames and removals are done here too. Nothing that
/// was changed here and not sent yet is touched. Exit status: 1 if anything was left as it is, or
/// something in the bucket cannot be read.
#[derive(Debug, Args)]
pub(crate) struct PullArgs {
    /// Conversations to get; created if missing. Default: all that the bucket has.
    pub(crate) conversations: Vec<String>,

    /// Show no progress.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Look after the bucket that hosts share.
#[derive(Debug, Args)]
pub(crate) struct RemoteArgs {
    #[command(subcommand)]
    pub(crate) action: RemoteAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RemoteAction {
    /// Show the bucket, and what is still to be sent.
    ///
    /// Shows what this host knows even while the bucket does not answer.
    Status,
    Check(RemoteCheckArgs),
    Gc(RemoteGcArgs),
    Purge(RemotePurgeArgs),
}

/// Compare what the records name with what the bucket has.
///
/// Prints what is missing or damaged, and how much nobody names. Changes nothing. Exit status: 1 if
/// anything is missing or damaged.
#[derive(Debug, Args)]
pub(crate) struct RemoteCheckArgs {
    /// Conversation to check. Default: all that the bucket has.
    pub(crate) conversation: Option<String>,

    /// Read all bytes too, and compare their digests.
    #[arg(long)]
    pub(crate) read: bool,

    /// Show no progress.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Delete from the bucket what is of no use any more, and print each key.
///
/// Merges the segments of each conversation where there are many; deletes those that were merged a
/// day ago, and objects that no record has named for a week, by the clock of the store. Deletes
/// nothing in a conversation of which the bucket lacks a segment, and names that. With
/// `sweep = false` in `[remote]` it merges alone.
#[derive(Debug, Args)]
pub(crate) struct RemoteGcArgs {
    /// Conversation to look after. Default: all that the bucket has.
    pub(crate) conversation: Option<String>,

    /// Print what would be deleted, and change nothing.
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
}

/// Remove an output everywhere, and its bytes from the bucket now.
///
/// For a secret that was stored. Everything that ever had this path in the bucket goes: its
/// removal is told to all hosts, its bytes and records are deleted, and the files of this store with
/// them, whichever names they have now. Objects that no record names go, too, once they are a day
/// old. Prints what it cannot reach. If it is cut off, the same command goes on. Exit status: 1 if
/// the bytes may still be in the bucket.
///
/// For a secret in a message, take its line out of the log, then purge `history/messages.jsonl`: what
/// is no longer in the log goes.
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

/// The arguments of the processes beside the page: the bucket, and the store.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub(crate) struct BesideArgs {
    /// The seconds that an answer about other hosts may be old.
    #[arg(long, default_value_t)]
    pub(crate) poll: u64,

    /// The most bytes of blocks that came from elsewhere.
    #[arg(long, default_value_t)]
    pub(crate) cache_bytes: u64,

    /// Bytes that downloads leave free on the disk.
    #[arg(long, default_value_t)]
    pub(crate) min_free: u64,

    /// Maximum bytes of a conversation.
    #[arg(long)]
    pub(crate) quota: Option<u64>,

    /// Nothing is replaced or removed in the bucket.
    #[arg(long)]
    pub(crate) write_once: bool,

    /// The one that looks is not confined.
    #[arg(long)]
    pub(crate) unconfined: bool,

    /// The URL of the bucket.
    pub(crate) url: String,

    /// The directory of the store.
    pub(crate) dir: PathBuf,
}
