//! `gc`, `stats`, and the flags of retention.

use clap::Args;

use crate::settings::{Key, Value};

/// Remove outputs that the settings do not keep, and print each with the reason.
///
/// Without `keep_age`, `keep_conversation`, `keep_store` or `keep_free`, as settings or flags,
/// everything is kept. The least recently used outputs are removed first, those that a message
/// refers to last, and those being written never. The summary of a removed output stays, and says
/// when and why it was removed. A running mount removes outputs by itself.
#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// Remove outputs of this conversation only, by their age and their total size.
    pub(crate) conversation: Option<String>,

    /// Print what would be removed, and remove nothing.
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) keep: KeepArgs,
}

/// Show what was stored, what was handed out, and how many tokens that saved.
///
/// Counts by tool, conversation and day: outputs and bytes stored; estimated tokens stored, handed
/// out as stand-ins, read back through other views, and saved. Saved is stored without the other
/// two, and can be negative. Direct reads of the outputs are not counted.
///
/// Then the calls of tools through `ctxfs mcp`: those that failed, their time, the bytes of their
/// results, and the bytes that the client was given in their place; and the tokens of light indexes
/// beside those of the schemas that they stood for.
#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// Count this conversation only.
    pub(crate) conversation: Option<String>,
}

/// The flags of retention.
#[derive(Debug, Args)]
pub(crate) struct KeepArgs {
    /// Remove outputs not used for this long, such as `30d`, or `off`. Default: `off`.
    #[arg(long = "keep-age", value_name = "TIME", value_parser = |text: &str| Key::KeepAge.parse(text))]
    age: Option<Value>,

    /// Limit the outputs of each conversation to this many bytes, or `off`, by removing the least
    /// recently used. Default: `off`.
    #[arg(id = "keep_conversation", long = "keep-conversation", value_name = "BYTES", value_parser = |text: &str| Key::KeepConversation.parse(text))]
    conversation: Option<Value>,

    /// Limit all outputs of the store in the same way. Default: `off`.
    #[arg(id = "keep_store", long = "keep-store", value_name = "BYTES", value_parser = |text: &str| Key::KeepStore.parse(text))]
    store: Option<Value>,

    /// Keep this many bytes free on the store's disk, by removing the least recently used outputs,
    /// or `off`. Default: `off`.
    #[arg(long = "keep-free", value_name = "BYTES", value_parser = |text: &str| Key::KeepFree.parse(text))]
    free: Option<Value>,
}

impl KeepArgs {
    /// Returns the settings among the flags.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (Key, Value)> {
        let given = [
            (Key::KeepAge, self.age.clone()),
            (Key::KeepConversation, self.conversation.clone()),
            (Key::KeepStore, self.store.clone()),
            (Key::KeepFree, self.free.clone()),
        ];
        given.into_iter().filter_map(|(key, value)| Some((key, value?)))
    }
}
