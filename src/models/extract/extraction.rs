//! The result of a question and its text for a model, and the errors of the modes.

use crate::extract::asking::{AskError, CallRecord};
use crate::extract::{DocumentError, DocumentFacts, Mode, TokenUsage};
use ctxfs_core::model::visible;

/// The outcome of a question.
#[derive(Debug)]
pub struct Extraction {
    /// The requested mode.
    pub asked: Mode,
    /// The mode that was used, or that was tried last.
    pub used: Mode,
    /// The answer, or the reason why there is none.
    pub answer: Result<AnswerText, ModeError>,
    /// Problems that did not prevent an answer.
    pub warnings: Vec<String>,
    /// The calls of models.
    pub calls: Vec<CallRecord>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerText {
    /// The text of the answer, followed by the lines that support it.
    pub text: String,
    /// False if the model found nothing. `None` if no model was used.
    pub found: Option<bool>,
    /// True if a model ran out of tokens. The text mentions this.
    pub is_cut: bool,
}

impl Extraction {
    /// Returns the number of tokens of all calls.
    pub fn usage(&self) -> TokenUsage {
        let mut sum = TokenUsage::default();
        for call in &self.calls {
            sum += call.usage;
        }
        sum
    }

    /// Returns the price of all calls in billionths of a dollar.
    pub fn nanodollars(&self) -> u64 {
        self.calls.iter().fold(0, |sum, call| sum.saturating_add(call.nanodollars))
    }

    /// Returns the text that is given to a model.
    pub fn text(&self, facts: &DocumentFacts) -> String {
        // Other programs choose the tool name and the handle. They must stay within the first line.
        let tool = visible::one_line(&facts.tool);
        let tool = if tool.is_empty() { "unknown" } else { &tool };
        let handle = visible::whole(&facts.handle);
        let mode = self.used;
        let mut text = match &self.answer {
            Ok(answer) => format!(
                "ABSTRACT FROM TOOL OUTPUT {tool} WITH HANDLE {handle}, STRATEGY:{mode}:\n\n{}",
                answer.text.trim_end()
            ),
            Err(error) => format!(
                "TOOL_OUTPUT FAILED FOR {tool} WITH HANDLE {handle}, STRATEGY:{mode}:\n\n{error}"
            ),
        };
        for warning in &self.warnings {
            text.push_str("\n\nWarning: ");
            text.push_str(warning);
        }
        text.push('\n');
        text
    }
}

/// The reason why a mode failed.
#[derive(Debug, thiserror::Error)]
pub enum ModeError {
    /// No model is configured.
    #[error(
        "no model is configured: name one in `targets` of `[extract]` in \
         ~/.config/ctxfs/ctxfs.toml, and its endpoint in `[extract.provider.NAME]`"
    )]
    NoTarget,
    /// The context of a model is too small for the question and a part of the document.
    #[error(
        "the context of `{target}` has no room: the question and the reply alone take {prompt} tokens"
    )]
    NoRoom {
        /// The model.
        target: String,
        /// Number of tokens of the request without the document, plus those of the reply.
        prompt: u64,
    },
    /// Reading the document would exceed the token limit of a question.
    #[error(
        "reading all of it takes about {tokens} tokens, of at most {most} \
         (`max_tokens_per_question`): use read-grep, or raise the limit"
    )]
    TooLarge {
        /// The estimated number of tokens.
        tokens: u64,
        /// The limit.
        most: u64,
    },
    /// A request got no answer.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// No reply had the required format.
    #[error(
        "`{target}` gave no answer in the required form: choose a larger model, or add a second target"
    )]
    NoForm {
        /// The model.
        target: String,
    },
    /// A reply was cut before the end of the answer.
    #[error(
        "a reply of `{target}` was cut at {most} tokens, before the end of an answer: raise its \
         `max_output_tokens`, of which a quarter of `context_tokens` counts, or ask a narrower \
         question"
    )]
    Cut {
        /// The model.
        target: String,
        /// The token limit of the model's replies.
        most: u64,
    },
    /// The findings do not fit into one request.
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
        /// The number of turns.
        steps: u32,
    },
    /// The document cannot be read.
    #[error(transparent)]
    Document(#[from] DocumentError),
}

impl ModeError {
    /// Returns true if a different model may be able to answer.
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

    /// Returns true if the question was stopped.
    pub fn is_stop(&self) -> bool {
        match self {
            Self::Ask(error) => error.is_stop(),
            Self::Document(error) => matches!(error, DocumentError::Stopped),
            _ => false,
        }
    }
}
