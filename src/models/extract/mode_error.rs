//! The reasons why a mode cannot be carried out.

use crate::extract::DocumentError;
use crate::extract::asking::AskError;

/// A mode that could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum ModeError {
    /// No model is configured.
    #[error(
        "no model is configured: name one in `targets` of `[extract]` in \
         ~/.config/ctxfs/ctxfs.toml, and its endpoint in `[extract.provider.NAME]`"
    )]
    NoTarget,
    /// The context of a model has no room for a part of the document beside the question.
    #[error(
        "the context of `{target}` has no room: the question and the reply alone take {prompt} tokens"
    )]
    NoRoom {
        /// The model.
        target: String,
        /// Tokens of the request without the document, and of the reply.
        prompt: u64,
    },
    /// The document is larger than a question may cost.
    #[error(
        "reading all of it takes about {tokens} tokens, of at most {most} \
         (`max_tokens_per_question`): use read-grep, or raise the limit"
    )]
    TooLarge {
        /// The estimated cost.
        tokens: u64,
        /// The limit.
        most: u64,
    },
    /// A request was not answered.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// No reply had the required form.
    #[error(
        "`{target}` gave no answer in the required form: choose a larger model, or add a second target"
    )]
    NoForm {
        /// The model.
        target: String,
    },
    /// A reply ended before the answer.
    #[error(
        "a reply of `{target}` was cut at {most} tokens, before the end of an answer: raise its \
         `max_output_tokens`, of which a quarter of `context_tokens` counts, or ask a narrower \
         question"
    )]
    Cut {
        /// The model.
        target: String,
        /// The most tokens of its replies.
        most: u64,
    },
    /// The findings stay too long to be put together.
    #[error("the findings of {parts} parts do not fit into the context of `{target}` together")]
    Unreducible {
        /// The model.
        target: String,
        /// The number of findings.
        parts: usize,
    },
    /// The reading agent has used up its turns.
    #[error(
        "`{target}` found no answer in {steps} turns: ask a narrower question, or raise `max_steps`"
    )]
    Steps {
        /// The model.
        target: String,
        /// The turns.
        steps: u32,
    },
    /// The document cannot be read.
    #[error(transparent)]
    Document(#[from] DocumentError),
}

impl ModeError {
    /// Returns true if another model may answer.
    pub(super) fn is_of_target(&self) -> bool {
        match self {
            Self::Ask(error) => error.is_of_target(),
            Self::NoRoom { .. }
            | Self::NoForm { .. }
            | Self::Cut { .. }
            | Self::Unreducible { .. } => true,
            Self::Steps { .. } | Self::NoTarget | Self::TooLarge { .. } | Self::Document(_) => {
                false
            }
        }
    }

    /// Returns true if nobody waits for an answer any more.
    pub fn is_stop(&self) -> bool {
        match self {
            Self::Ask(error) => error.is_stop(),
            Self::Document(error) => matches!(error, DocumentError::Stopped),
            _ => false,
        }
    }
}
