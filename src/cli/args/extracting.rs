//! `extract`: the command that asks language models.

use std::path::PathBuf;

use clap::Args;

use crate::args::reader::ReaderArgs;
use crate::env;
use ctxfs_models::extract::Mode;

/// Answer a question about an output by a language model.
///
/// The model reads the output, so that the conversation's model need not: a short one whole, a long
/// one by searching, as the mode says. The answer names the lines that it rests on, and these lines
/// follow it as they are in the output. The same question about the same bytes is not asked again.
///
/// `ctxfs extract c7/artifacts/tool/9f3k.txt 'why did the deployment fail?'`
///
/// The models are those of `[extract]` in the settings. Without one, the beginning, the end and the
/// errors of the output are printed. Exit status: 0 for an answer, also that nothing was found; 1 if
/// there is none.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(crate) struct ExtractArgs {
    /// Outputs to read: paths that begin with the conversation, paths below the mountpoint,
    /// references (`ctx://...`) or handles. Several are read one after the other.
    #[arg(value_name = "OUTPUT")]
    pub(crate) outputs: Vec<PathBuf>,

    /// What to extract, such as `why did the deployment fail?`
    #[arg(value_name = "QUESTION")]
    pub(crate) question: String,

    /// Ask about this conversation: those of its outputs are read that a search for the words of
    /// the question finds first.
    #[arg(long, short, value_name = "ID", env = env::CONVERSATION, hide_env_values = true)]
    pub(crate) conversation: Option<String>,

    /// Way to read: `auto`, `full-chunked`, `read-grep` or `truncate`.
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub(crate) mode: Mode,

    /// Print what the question would take: mode, chunks, calls, tokens and dollars. Ask nothing.
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) reader: ReaderArgs,
}
