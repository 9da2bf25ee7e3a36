//! Questions about outputs, answered by language models.
//!
//! An answer is kept with the conversation and given again to the same question about the same
//! bytes, without a call. Each question is an entry of the conversation's log.

mod kept;
mod log;
mod many;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Instant;

use uuid::Uuid;

use crate::engine::Engine;
use crate::engine::EngineError;
use crate::engine::Result;
use crate::engine::Tree;
use crate::extract::CallRecord;
use crate::extract::Document;
use crate::extract::DocumentFacts;
use crate::extract::ExtractPlan;
use crate::extract::Extraction;
use crate::extract::Extractor;
use crate::extract::Mode;
use crate::extract::ModeError;
use crate::extract::Stopped;
use crate::materialize::token_count;
use crate::model::Amount;
use crate::model::Counts;
use crate::model::DailyCounts;
use crate::store::Conversation;
use crate::store::StoreError;

/// The name under which reads of answers are counted.
const VIEW: &str = "extract";

pub use many::Answers;

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

impl Tree {
    /// Answers a question about the output at `path`, as [`Tree::open`] has it. Waits for models.
    pub fn answer(&self, path: &Path, question: &Question<'_>) -> Result<Answer> {
        let engine = &*self.engine;
        let conversation = self.source(path)?.conversation().ok_or(EngineError::Stale)?;
        let conversation = engine.conversation(&conversation)?;
        let began = Instant::now();
        let text = engine.secrets.mask_text(question.text.to_owned());
        let question = &Question { text: &text, ..*question };
        let answer = self.with_document(path, |document| {
            let known = kept::find(engine, &conversation, document.facts(), question);
            let cached = known.is_some();
            let extraction = known.unwrap_or_else(|| asked(engine, document, question));
            Answer { facts: document.facts().clone(), extraction, cached }
        })?;
        if !answer.cached {
            kept::keep(engine, &conversation, &answer, question);
        }
        log::add(engine, &conversation, &answer, (question, began.elapsed()));
        count(engine, &conversation, &answer);
        Ok(answer)
    }

    /// Returns what it would take to answer a question about the output at `path`. Asks nothing. A
    /// question that was answered before takes nothing.
    pub fn plan_answer(
        &self,
        path: &Path,
        question: &Question<'_>,
    ) -> Result<std::result::Result<ExtractPlan, ModeError>> {
        let engine = &*self.engine;
        let conversation = self.source(path)?.conversation().ok_or(EngineError::Stale)?;
        let conversation = engine.conversation(&conversation)?;
        let text = engine.secrets.mask_text(question.text.to_owned());
        let question = &Question { text: &text, ..*question };
        self.with_document(path, |document| {
            match kept::find(engine, &conversation, document.facts(), question) {
                Some(known) => Ok(ExtractPlan { mode: known.used, ..ExtractPlan::default() }),
                None => with_extractor(engine, question, |extractor| {
                    extractor.plan(document, question.text, question.mode)
                }),
            }
        })
    }
}

fn asked(engine: &Engine, document: &dyn Document, question: &Question<'_>) -> Extraction {
    let mut extraction = with_extractor(engine, question, |extractor| {
        extractor.answer(document, question.text, question.mode)
    });
    if let Ok(answer) = &mut extraction.answer {
        // A model may put together what stood apart.
        answer.text = engine.secrets.mask_text(std::mem::take(&mut answer.text));
    }
    extraction
}

fn with_extractor<T>(
    engine: &Engine,
    question: &Question<'_>,
    extract: impl FnOnce(&Extractor<'_>) -> T,
) -> T {
    let models = &engine.options.models;
    let mut settings = models.settings().clone();
    let most = question.most_tokens.unwrap_or(u64::MAX);
    settings.max_tokens_per_question = settings.max_tokens_per_question.min(most);
    extract(&Extractor {
        settings: &settings,
        models: models.all(),
        nonce: &|| Uuid::new_v4().simple().to_string(),
        stopped: question.stopped,
        tell: question.tell,
    })
}

/// Counts an answer as a read of the output: a model gets it.
fn count(engine: &Engine, conversation: &Conversation, answer: &Answer) {
    let Ok(found) = &answer.extraction.answer else { return };
    let text = found.text.as_bytes();
    let read = Amount::once(text.len() as u64, token_count(text));
    let mut counts = Counts { read, ..Counts::default() };
    counts.views.insert(VIEW.to_owned(), 1);
    engine.counting.add(conversation.id().clone(), answer.facts.tool.clone(), &counts);
}

/// Returns the questions of a conversation, summed up by day and tool.
pub(super) fn counted(
    conversation: &Conversation,
) -> std::result::Result<Vec<DailyCounts>, StoreError> {
    log::sums(conversation)
}

impl std::fmt::Debug for Question<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Question").field("mode", &self.mode).finish_non_exhaustive()
    }
}
