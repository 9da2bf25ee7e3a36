//! Answers that are kept, so that the same question about the same bytes costs nothing.

use serde::Deserialize;
use serde::Serialize;

use crate::engine::Engine;
use crate::engine::Result;
use crate::engine::answers::Answer;
use crate::engine::answers::Question;
use crate::extract::AnswerText;
use crate::extract::DocumentFacts;
use crate::extract::Extraction;
use crate::extract::Mode;
use crate::extract::PROMPT_VERSION;
use crate::store::Conversation;

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
pub(super) fn find(
    engine: &Engine,
    conversation: &Conversation,
    facts: &DocumentFacts,
    question: &Question<'_>,
) -> Option<Extraction> {
    if question.mode == Mode::Truncate {
        return None;
    }
    let lines = conversation.answers(&facts.digest).ok()?;
    let targets = &engine.options.models.settings().targets;
    let is_it = |kept: &KeptAnswer| {
        kept.question == question.text
            && kept.asked == question.mode.name()
            && kept.prompts == PROMPT_VERSION
            && targets.iter().any(|target| target.profile.target == kept.target)
    };
    let kept = lines.split(|byte| *byte == b'\n').rev();
    let kept =
        kept.filter_map(|line| serde_json::from_slice::<KeptAnswer>(line).ok()).find(is_it)?;
    let used = kept.used.parse().ok()?;
    let mask = |text: String| engine.secrets.mask_text(text);
    Some(Extraction {
        asked: question.mode,
        used,
        answer: Ok(AnswerText { text: mask(kept.text), found: Some(kept.found) }),
        warnings: kept.warnings.into_iter().map(mask).collect(),
        calls: Vec::new(),
    })
}

/// Keeps the answer of a model. One that cannot be kept costs its calls again, so that is no error.
pub(super) fn keep(
    engine: &Engine,
    conversation: &Conversation,
    answer: &Answer,
    question: &Question<'_>,
) {
    let Answer { facts, extraction, .. } = answer;
    let Ok(AnswerText { text, found: Some(found) }) = &extraction.answer else { return };
    let Some(call) = extraction.calls.last() else { return };
    let kept = KeptAnswer {
        question: question.text.to_owned(),
        asked: extraction.asked.name().to_owned(),
        used: extraction.used.name().to_owned(),
        target: call.target.clone(),
        prompts: PROMPT_VERSION,
        found: *found,
        text: text.clone(),
        warnings: extraction.warnings.clone(),
    };
    if let Err(error) = append(engine, conversation, &facts.digest, &kept) {
        tracing::warn!(%error, "an answer was not kept");
    }
}

fn append(
    engine: &Engine,
    conversation: &Conversation,
    digest: &str,
    kept: &KeptAnswer,
) -> Result<()> {
    let mut line = serde_json::to_vec(kept).map_err(std::io::Error::from)?;
    line.push(b'\n');
    let _room = engine.reserve_for_output(conversation, line.len() as u64)?;
    Ok(conversation.append_answer(digest, &line)?)
}
