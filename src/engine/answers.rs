//! Questions about outputs, answered by language models.
//!
//! An answer is kept with the conversation and given again to the same question about the same
//! bytes, without a call. Each question is an entry of the conversation's log.

mod kept;
mod log;
mod many;
#[cfg(test)]
mod tests;
mod unkept;
mod view;

use std::path::Path;
use std::time::Instant;

use serde::Serialize;
use uuid::Uuid;

use crate::{Engine, EngineError, Result, Tree};
use ctxfs_core::materialize::token_count;
use ctxfs_core::model::{Amount, Counts, DailyCounts};
use ctxfs_models::extract::{
    CallRecord, Document, DocumentFacts, ExtractPlan, Extraction, Extractor, Mode, ModeError,
    Stopped,
};
use ctxfs_store::{Conversation, StoreError};

/// The name under which reads of answers are counted.
const VIEW: &str = "extract";

pub use many::Answers;
pub(super) use unkept::UnkeptAnswers;
pub(super) use view::{busy, show};

/// A question about an output.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// What to extract.
    pub text: &'a str,
    /// The way to answer it.
    pub mode: Mode,
    /// The most tokens that it may cost, if that is less than what the settings say.
    pub most_tokens: Option<u64>,
    /// True once nobody waits for the answer.
    pub stopped: &'a Stopped<'a>,
    /// Told of each call of a model that has ended.
    pub tell: &'a (dyn Fn(&CallRecord) + Sync),
}

/// An answer to a question, or why there is none.
#[derive(Debug)]
pub struct Answer {
    /// The output that it is about.
    pub facts: DocumentFacts,
    /// The outcome.
    pub extraction: Extraction,
    /// True if it was given before, and no model was called.
    pub cached: bool,
}

impl Answer {
    /// Returns the text for a model.
    pub fn text(&self) -> String {
        self.extraction.text(&self.facts)
    }
}

/// A question, the output that it is about, and the conversation of that.
struct AskedDocument<'a> {
    engine: &'a Engine,
    conversation: &'a Conversation,
    document: &'a dyn Document,
    /// Its text with masks for secrets.
    question: Question<'a>,
}

impl Tree {
    /// Answers a question about the output at `path`, as [`Tree::open`] has it. Waits for models.
    pub fn answer(&self, path: &Path, question: &Question<'_>) -> Result<Answer> {
        let began = Instant::now();
        self.with_question(path, question, |asked| {
            let (answer, _) = asked.answer(kept::find(asked), began);
            asked.count(&answer.extraction);
            answer
        })
    }

    /// Returns what it would take to answer a question about the output at `path`. Asks nothing. A
    /// question that was answered before takes nothing.
    pub fn plan_answer(
        &self,
        path: &Path,
        question: &Question<'_>,
    ) -> Result<std::result::Result<ExtractPlan, ModeError>> {
        self.with_question(path, question, |asked| match kept::find(asked) {
            Some(known) => Ok(ExtractPlan { mode: known.used, ..ExtractPlan::default() }),
            None => asked.with_extractor(|extractor| {
                extractor.plan(asked.document, asked.question.text, asked.question.mode)
            }),
        })
    }

    fn with_question<T>(
        &self,
        path: &Path,
        question: &Question<'_>,
        run: impl FnOnce(&AskedDocument<'_>) -> T,
    ) -> Result<T> {
        let engine = &*self.engine;
        let conversation = self.source(path)?.conversation().ok_or(EngineError::Stale)?;
        let conversation = engine.conversation(&conversation)?;
        let text = engine.secrets.mask_text(question.text.to_owned());
        self.with_document(path, |document| {
            let question = Question { text: &text, ..*question };
            run(&AskedDocument { engine, conversation: &conversation, document, question })
        })
    }
}

impl AskedDocument<'_> {
    /// Returns the answer that is `known`, or that of a model, and true if it is kept from now on.
    /// Logs the question, which was put at `began`.
    fn answer(&self, known: Option<Extraction>, began: Instant) -> (Answer, bool) {
        let cached = known.is_some();
        let extraction = known.unwrap_or_else(|| self.extraction());
        let is_kept = cached || kept::keep(self, &extraction);
        let answer = Answer { facts: self.document.facts().clone(), extraction, cached };
        log::add(self, &answer, began.elapsed());
        (answer, is_kept)
    }

    /// Asks the models.
    fn extraction(&self) -> Extraction {
        let mut extraction = self.with_extractor(|extractor| {
            extractor.answer(self.document, self.question.text, self.question.mode)
        });
        // A model may put together what stood apart.
        let mask = |text: &mut String| {
            *text = self.engine.secrets.mask_text(std::mem::take(text));
        };
        if let Ok(answer) = &mut extraction.answer {
            mask(&mut answer.text);
        }
        extraction.warnings.iter_mut().for_each(mask);
        extraction
    }

    fn with_extractor<T>(&self, run: impl FnOnce(&Extractor<'_>) -> T) -> T {
        let Question { most_tokens, stopped, tell, .. } = self.question;
        let models = &self.engine.options.models;
        let mut settings = models.settings().clone();
        let most = most_tokens.unwrap_or(u64::MAX);
        settings.max_tokens_per_question = settings.max_tokens_per_question.min(most);
        let (settings, models) = (&settings, models.all());
        // 62 random bits, which no text can guess. More digits would cost tokens in each turn.
        let nonce = &|| Uuid::new_v4().simple().to_string().split_off(16);
        run(&Extractor { settings, models, nonce, stopped, tell })
    }

    /// Counts an answer as a read of the output: a model gets it.
    fn count(&self, extraction: &Extraction) {
        let Ok(found) = &extraction.answer else { return };
        let text = found.text.as_bytes();
        let read = Amount::once(text.len() as u64, token_count(text));
        let mut counts = Counts { read, ..Counts::default() };
        counts.views.insert(VIEW.to_owned(), 1);
        let (id, tool) = (self.conversation.id().clone(), self.document.facts().tool.clone());
        self.engine.counting.add(id, tool, &counts);
    }
}

/// Returns `value` as a line of JSON.
fn line(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value).map_err(std::io::Error::from)?;
    line.push(b'\n');
    Ok(line)
}

/// Returns the questions of a conversation, summed up by day and tool.
pub(super) fn counted(
    conversation: &Conversation,
) -> std::result::Result<Vec<DailyCounts>, StoreError> {
    log::sums(conversation)
}

impl<'a> Question<'a> {
    /// Asks for `text` within the limits of the settings. See the fields for the others.
    pub fn new(
        (text, mode): (&'a str, Mode),
        stopped: &'a Stopped<'a>,
        tell: &'a (dyn Fn(&CallRecord) + Sync),
    ) -> Self {
        Self { text, mode, most_tokens: None, stopped, tell }
    }
}

impl std::fmt::Debug for Question<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Question").field("mode", &self.mode).finish_non_exhaustive()
    }
}
