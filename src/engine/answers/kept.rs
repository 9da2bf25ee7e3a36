//! Answers that are kept, so that the same question about the same bytes costs nothing.

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::answers::{AskedDocument, line};
use ctxfs_models::extract::{AnswerText, Extraction, Mode, PROMPT_VERSION};

/// A line of `history/answers/<digest>.jsonl`.
#[derive(Debug, Serialize, Deserialize)]
struct KeptAnswer {
    question: String,
    asked: String,
    used: String,
    /// The model that gave it.
    target: String,
    /// The version of the prompts.
    prompts: u32,
    found: bool,
    text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// Returns the answer that one of the configured models gave to this question before.
pub(super) fn find(asked: &AskedDocument<'_>) -> Option<Extraction> {
    let AskedDocument { engine, conversation, document, question } = asked;
    if question.mode == Mode::Truncate {
        return None;
    }
    let targets = &engine.options.models.settings().targets;
    let is_it = |kept: &KeptAnswer| {
        kept.question == question.text
            && kept.asked == question.mode.name()
            && kept.prompts == PROMPT_VERSION
            && targets.iter().any(|target| target.profile.target == kept.target)
    };
    let mut last = None;
    let read = ctxfs_store::history::each_answer(conversation, &document.facts().digest, |line| {
        let kept = serde_json::from_slice::<KeptAnswer>(line).ok().filter(is_it);
        last = kept.or_else(|| last.take());
    });
    read.ok()?;
    let kept = last?;
    // It may be from before there was redaction.
    let mask = |text: String| engine.secrets.mask_text(text);
    Some(Extraction {
        asked: question.mode,
        used: kept.used.parse().ok()?,
        answer: Ok(AnswerText { text: mask(kept.text), found: Some(kept.found), is_cut: false }),
        warnings: kept.warnings.into_iter().map(mask).collect(),
        calls: Vec::new(),
    })
}

/// Keeps the whole answer of a model, and returns true for one. One that cannot be kept costs its
/// calls again, so that is no error.
pub(super) fn keep(asked: &AskedDocument<'_>, extraction: &Extraction) -> bool {
    let Ok(AnswerText { text, found: Some(found), is_cut: false }) = &extraction.answer else {
        return false;
    };
    let Some(call) = extraction.calls.last() else { return false };
    let kept = KeptAnswer {
        question: asked.question.text.to_owned(),
        asked: extraction.asked.name().to_owned(),
        used: extraction.used.name().to_owned(),
        target: call.target.clone(),
        prompts: PROMPT_VERSION,
        found: *found,
        text: text.clone(),
        warnings: extraction.warnings.clone(),
    };
    let kept = append(asked, &kept);
    kept.inspect_err(|error| tracing::warn!(%error, "an answer was not kept")).is_ok()
}

fn append(asked: &AskedDocument<'_>, kept: &KeptAnswer) -> Result<()> {
    let AskedDocument { engine, conversation, document, .. } = asked;
    let line = line(kept)?;
    let _room = engine.reserve_for_line(conversation, line.len() as u64)?;
    Ok(ctxfs_store::history::append_answer(conversation, &document.facts().digest, &line)?)
}
