//! `gc`, `stats`, and what is kept.

use clap::Args;

use crate::cli::settings::Key;
use crate::cli::settings::Value;

/// Remove outputs that the settings do not keep, and say which and why.
///
/// Without `keep_age`, `keep_conversation`, `keep_store` or `keep_free`, as settings or as flags,
/// everything is kept. What was used longest ago goes first; what a message refers to goes last; what
/// is being written stays. The summary of what went stays, and says when and why. A mount does this by
/// itself.
#[derive(Debug, Args)]
pub(in crate::cli) struct GcArgs {
    /// Only outputs of this conversation, by their age and by what they are together.
    pub(in crate::cli) conversation: Option<String>,

    /// Remove nothing, and say what would go.
    #[arg(long, short = 'n')]
    pub(in crate::cli) dry_run: bool,

    #[command(flatten)]
    pub(in crate::cli) keep: KeepArgs,
}

/// Show what was stored, what was handed out, and so what models were spared.
///
/// By tool, by conversation and by day: outputs and bytes stored; estimated tokens stored, handed out
/// as stand-ins, read back through other views, and saved, which is the first without the other two
/// and can be negative. What programs read of the outputs themselves is not counted.
#[derive(Debug, Args)]
pub(in crate::cli) struct StatsArgs {
    /// Only this conversation.
    pub(in crate::cli) conversation: Option<String>,
}

/// What is kept.
#[derive(Debug, Args)]
pub(in crate::cli) struct KeepArgs {
    /// Remove outputs that were not used for longer, such as `30d`, or `off`. Default: `off`.
    #[arg(long = "keep-age", value_name = "TIME", value_parser = |text: &str| Key::KeepAge.parse(text))]
    age: Option<Value>,

    /// Most bytes of the outputs of a conversation, or `off`: where they are more, those used longest
    /// ago are removed. Default: `off`.
    #[arg(id = "keep_conversation", long = "keep-conversation", value_name = "BYTES", value_parser = |text: &str| Key::KeepConversation.parse(text))]
    conversation: Option<Value>,

    /// As --keep-conversation, of all outputs of the store.
    #[arg(id = "keep_store", long = "keep-store", value_name = "BYTES", value_parser = |text: &str| Key::KeepStore.parse(text))]
    store: Option<Value>,

    /// Bytes to keep free on the store's disk, by removing the outputs used longest ago.
    #[arg(long = "keep-free", value_name = "BYTES", value_parser = |text: &str| Key::KeepFree.parse(text))]
    free: Option<Value>,
}

impl KeepArgs {
    /// The settings among them.
    pub(in crate::cli) fn settings(&self) -> impl Iterator<Item = (Key, Value)> {
        let given = [
            (Key::KeepAge, self.age.clone()),
            (Key::KeepConversation, self.conversation.clone()),
            (Key::KeepStore, self.store.clone()),
            (Key::KeepFree, self.free.clone()),
        ];
        given.into_iter().filter_map(|(key, value)| Some((key, value?)))
    }
}
