//! The outcome of a question, and the texts that a model sees of it.

use crate::extract::asking::CallRecord;
use crate::extract::mode_error::ModeError;
use crate::extract::{DocumentFacts, Mode, TokenUsage};
use ctxfs_core::model::visible;

/// The outcome of a question.
#[derive(Debug)]
pub struct Extraction {
    /// The mode that was asked for.
    pub asked: Mode,
    /// The mode that was used, or tried last.
    pub used: Mode,
    /// The answer, or why there is none.
    pub answer: Result<AnswerText, ModeError>,
    /// What went wrong on the way.
    pub warnings: Vec<String>,
    /// The calls of models.
    pub calls: Vec<CallRecord>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerText {
    /// The text, with the lines that it rests on.
    pub text: String,
    /// False if the model found nothing. `None` if none was asked.
    pub found: Option<bool>,
    /// True if a model had no tokens left to tell all of it. The text says so.
    pub is_cut: bool,
}

impl Extraction {
    /// Returns the tokens of all calls.
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

    /// Returns the text for a model, as `formats.md` has it.
    pub fn text(&self, facts: &DocumentFacts) -> String {
        // Others choose both, and nothing after the first line is theirs.
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
