//! The cost of answering a question, found without asking a model.

use crate::extract::asking::Asking;
use crate::extract::extractor::planned;
use crate::extract::mode_error::ModeError;
use crate::extract::{Document, Extractor, Mode, TokenUsage};

/// The cost of answering a question by the first target, at most.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtractPlan {
    /// The mode that is used.
    pub mode: Mode,
    /// The target, as in `local/qwen`. `None` if no model is asked.
    pub target: Option<String>,
    /// The chunks that are read, and the bytes of each, about.
    pub chunks: Option<(u64, u64)>,
    /// The most calls.
    pub calls: u64,
    /// Estimated tokens: those of the chunks, or the limit of a question.
    pub usage: TokenUsage,
    /// Their price in billionths of a dollar.
    pub nanodollars: u64,
}

impl Extractor<'_> {
    /// Returns what a question would take. Asks nothing.
    pub fn plan(
        &self,
        document: &dyn Document,
        question: &str,
        asked: Mode,
    ) -> Result<ExtractPlan, ModeError> {
        document.facts().check_text().map_err(ModeError::from)?;
        let first = self.models.first().filter(|_| asked != Mode::Truncate);
        let Some(model) = first else {
            return Ok(ExtractPlan { mode: Mode::Truncate, ..ExtractPlan::default() });
        };
        let asking = Asking::new(self.stopped, 0, self.tell);
        let inquiry = self.inquiry(document, question, &**model, &asking);
        let (profile, most) = (model.profile(), self.settings.max_tokens_per_question);
        let (mode, chunks, calls, usage) = if let Some(plan) = planned(&inquiry, asked)? {
            plan.check_cost(most)?;
            let count = plan.chunks.count();
            let chunks = Some((count, plan.chunks.size()));
            (Mode::FullChunked, chunks, count + u64::from(count > 1), plan.usage)
        } else {
            let calls = u64::from(self.settings.max_steps);
            // The agent reads more than it writes.
            let output = (calls * profile.reply_tokens()).min(most);
            (Mode::ReadGrep, None, calls, TokenUsage { input: most - output, output })
        };
        let (target, nanodollars) = (Some(profile.target.clone()), profile.nanodollars(usage));
        Ok(ExtractPlan { mode, target, chunks, calls, usage, nanodollars })
    }
}
