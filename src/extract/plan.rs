//! What answering a question would take, without asking a model.

use crate::extract::Document;
use crate::extract::Extractor;
use crate::extract::Mode;
use crate::extract::TokenUsage;
use crate::extract::asking::Asking;
use crate::extract::extractor::planned;
use crate::extract::mode_error::ModeError;
use crate::extract::reading::Reading;

/// What answering a question takes at most, by the first target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
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
    ) -> Result<Plan, ModeError> {
        let first = self.models.first().filter(|_| asked != Mode::Truncate);
        let Some(model) = first else {
            let (mode, usage) = (Mode::Truncate, TokenUsage::default());
            return Ok(Plan { mode, target: None, chunks: None, calls: 0, usage, nanodollars: 0 });
        };
        let (settings, nonce, model) = (self.settings, self.nonce, &**model);
        let asking = &Asking::new(self.stopped, 0, self.tell);
        let reading = Reading { document, question, model, settings, asking, nonce };
        let profile = model.profile();
        let target = Some(profile.target.clone());
        let most = settings.max_tokens_per_question;
        let Some(plan) = planned(&reading, asked)? else {
            let calls = u64::from(settings.max_steps);
            // The agent reads more than it writes.
            let output = (calls * profile.reply_tokens()).min(most);
            let usage = TokenUsage { input: most - output, output };
            let (mode, nanodollars) = (Mode::ReadGrep, profile.nanodollars(usage));
            return Ok(Plan { mode, target, chunks: None, calls, usage, nanodollars });
        };
        if plan.tokens() > most {
            return Err(ModeError::TooLarge { tokens: plan.tokens(), most });
        }
        let chunks = plan.chunks.count();
        Ok(Plan {
            mode: Mode::FullChunked,
            target,
            chunks: Some((chunks, plan.chunks.size())),
            calls: chunks + u64::from(chunks > 1),
            usage: plan.usage,
            nanodollars: profile.nanodollars(plan.usage),
        })
    }
}
