//! The outcome of a question about a document, its form as a text for a model, and the errors with
//! which a mode of answering can fail.

use crate::extract::asking::{AskError, CallRecord};
use crate::extract::{DocumentError, DocumentFacts, Mode, TokenUsage};
use ctxfs_core::model::visible;

/// Outcome of a question. `used` is the mode that was used, or that was tried last. `answer` is the
/// answer, or the reason why there is none. `warnings` are problems that did not prevent an answer.
#[derive(Debug)]
#[expect(missing_docs, reason = "described above")]
pub struct Extraction {
    pub asked: Mode,
    pub used: Mode,
    pub answer: Result<AnswerText, ModeError>,
    pub warnings: Vec<String>,
    pub calls: Vec<CallRecord>,
}

/// An answer. `text` is the text of the answer, followed by the lines of the document that support
/// it. `found` is false if the model found nothing, and `None` if no model was used. `is_cut` is
/// true if a model ran out of tokens; the text then says so.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct AnswerText {
    pub text: String,
    pub found: Option<bool>,
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

    /// Returns the outcome as a text for a model.
    pub fn text(&self, facts: &DocumentFacts) -> String {
        // The tool name and the handle come from other programs, and must not break the first line.
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

/// Reason why a mode failed. `NoRoom::prompt` is the number of tokens of the reply and of the
/// request without the document. `Unreducible::parts` is the number of findings that do not fit
/// into one request.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe variants and fields")]
pub enum ModeError {
    #[error(
        "no model is configured: name one in `targets` of `[extract]` in \
         ~/.config/ctxfs/ctxfs.toml, and its endpoint in `[extract.provider.NAME]`"
    )]
    NoTarget,
    #[error(
        "the context of `{target}` has no room: the question and the reply alone take {prompt} tokens"
    )]
    NoRoom { target: String, prompt: u64 },
    #[error(
        "reading all of it takes about {tokens} tokens, of at most {most} \
         (`max_tokens_per_question`): use read-grep, or raise the limit"
    )]
    TooLarge { tokens: u64, most: u64 },
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error(
        "`{target}` gave no answer in the required form: choose a larger model, or add a second target"
    )]
    NoForm { target: String },
    #[error(
        "a reply of `{target}` was cut at {most} tokens, before the end of an answer: raise its \
         `max_output_tokens`, of which a quarter of `context_tokens` counts, or ask a narrower \
         question"
    )]
    Cut { target: String, most: u64 },
    #[error("the findings of {parts} parts do not fit into the context of `{target}` together")]
    Unreducible { target: String, parts: usize },
    #[error(
        "`{target}` found no answer in {steps} turns: ask a narrower question, or raise `max_steps`"
    )]
    Steps { target: String, steps: u32 },
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
