//! Answering a question: the mode, the targets in turn, and what is left if none answers.

use std::sync::Arc;

use crate::extract::asking::{Asking, CallRecord};
use crate::extract::cited_lines::{printed, split_off_lines};
use crate::extract::extraction::{AnswerText, Extraction};
use crate::extract::full::FullPlan;
use crate::extract::inquiry::Inquiry;
use crate::extract::look::LineForm;
use crate::extract::mode_error::ModeError;
use crate::extract::quotes::{checked, copied_lines};
use crate::extract::stoppable::StoppableDocument;
use crate::extract::truncate::truncated;
use crate::extract::wrapper::is_nothing;
use crate::extract::{
    Document, DocumentError, ExtractSettings, LanguageModel, Mode, Stopped, agent, full,
};
use ctxfs_core::model::visible;

/// What it takes to answer questions.
pub struct Extractor<'a> {
    /// The settings.
    pub settings: &'a ExtractSettings,
    /// The models of the targets, in their order.
    pub models: &'a [Arc<dyn LanguageModel>],
    /// Returns a new nonce: letters and digits that nobody can guess.
    pub nonce: &'a (dyn Fn() -> String + Sync),
    /// True once nobody waits for the answer.
    pub stopped: &'a Stopped<'a>,
    /// Told of each call of a model that has ended.
    pub tell: &'a (dyn Fn(&CallRecord) + Sync),
}

impl Extractor<'_> {
    /// Answers a question about a document.
    pub fn answer(&self, document: &dyn Document, question: &str, asked: Mode) -> Extraction {
        let asking = Asking::new(self.stopped, self.settings.max_tokens_per_question, self.tell);
        let document = StoppableDocument::new(document, self.stopped);
        let mut warnings = Vec::new();
        let mut used = asked;
        let told = (asked, &mut used, &mut warnings);
        let answer = match self.by_models(&document, question, &asking, told) {
            Ok(_) if document.has_refused() => Err(DocumentError::Stopped.into()),
            Err(error) if falls_back(asked, &error) => {
                warnings.push(error.to_string());
                used = Mode::Truncate;
                self.without_model(&document)
            }
            answer => answer,
        };
        Extraction { asked, used, answer, warnings, calls: asking.calls() }
    }

    /// Asks one target after the other, until one answers.
    fn by_models(
        &self,
        document: &dyn Document,
        question: &str,
        asking: &Asking<'_>,
        (asked, used, warnings): (Mode, &mut Mode, &mut Vec<String>),
    ) -> Result<AnswerText, ModeError> {
        document.facts().check_text()?;
        if asked == Mode::Truncate {
            return self.without_model(document);
        }
        let mut left = self.models.len();
        for model in self.models {
            left -= 1;
            let inquiry = self.inquiry(document, question, &**model, asking);
            match answer_by(&inquiry, asked, used) {
                Err(error) if error.is_of_target() && left > 0 => {
                    let why = visible::sentence(error.to_string());
                    warnings.push(format!("{why} The next target was asked."));
                }
                answer => {
                    if answer.as_ref().is_ok_and(|answer| answer.is_cut) {
                        let error = inquiry.no_answer(true);
                        warnings.push(visible::sentence(error.to_string()));
                    }
                    return answer;
                }
            }
        }
        Err(ModeError::NoTarget)
    }

    /// Returns the question as it is put to `model`.
    pub(super) fn inquiry<'a>(
        &'a self,
        document: &'a dyn Document,
        question: &'a str,
        model: &'a dyn LanguageModel,
        asking: &'a Asking<'a>,
    ) -> Inquiry<'a> {
        let (settings, nonce) = (self.settings, self.nonce);
        Inquiry { document, question, model, settings, asking, nonce }
    }

    fn without_model(&self, document: &dyn Document) -> Result<AnswerText, ModeError> {
        let text = truncated(document, self.settings.inline_bytes)?;
        Ok(AnswerText { text, found: None, is_cut: false })
    }
}

/// Returns true if the document itself is shown where a mode cannot be carried out.
fn falls_back(asked: Mode, error: &ModeError) -> bool {
    match error {
        ModeError::NoTarget => true,
        ModeError::Document(_) => false,
        error => asked == Mode::Auto && !error.is_stop(),
    }
}

/// Answers by one model. Tells in `used` which mode was taken.
fn answer_by(inquiry: &Inquiry<'_>, asked: Mode, used: &mut Mode) -> Result<AnswerText, ModeError> {
    if let Some(plan) = planned(inquiry, asked)? {
        *used = Mode::FullChunked;
        in_full(inquiry, &plan)
    } else {
        *used = Mode::ReadGrep;
        by_agent(inquiry)
    }
}

/// Returns the plan of reading all of the document. `None` if the agent reads it.
pub(super) fn planned(inquiry: &Inquiry<'_>, asked: Mode) -> Result<Option<FullPlan>, ModeError> {
    let plan = || FullPlan::of(inquiry);
    Ok(match asked {
        Mode::FullChunked => Some(plan()?),
        Mode::Auto => Some(plan()?).filter(|plan| is_read_in_full(inquiry, plan)),
        Mode::ReadGrep | Mode::Truncate => None,
    })
}

/// Returns true if `auto` reads all of a document: it is short, or its lines are long, so that a
/// search finds little.
fn is_read_in_full(inquiry: &Inquiry<'_>, plan: &FullPlan) -> bool {
    let settings = inquiry.settings;
    plan.chunks.count() <= settings.max_chunks_full
        || inquiry.document.facts().line_bytes() > settings.long_line_bytes
}

fn in_full(inquiry: &Inquiry<'_>, plan: &FullPlan) -> Result<AnswerText, ModeError> {
    let reduced = full::answer(inquiry, plan)?;
    let document = inquiry.document;
    let mut text = reduced.text;
    let found = !is_nothing(&text);
    if found {
        let form = LineForm::of(document, inquiry.settings.long_line_bytes);
        text = with_lines(document, form, &text);
    }
    if !reduced.unknown.is_empty() {
        let parts = reduced.unknown.join(", ");
        text = with(&text, &format!("(No answer in the required form about {parts}.)"));
    }
    let cut = match &reduced.cut[..] {
        [] => None,
        _ if plan.chunks.count() == 1 => Some("all of it".to_owned()),
        parts => Some(parts.join(", ")),
    };
    handed_on(inquiry, text, found, cut.as_deref())
}

/// Returns an answer with the lines that it quotes or names, or else is copied from, under it. Nobody
/// asked for numbers of lines, so a last line `Lines: 3120` may be the answer itself, and stays.
fn with_lines(document: &dyn Document, form: LineForm, answer: &str) -> String {
    let (_, named) = split_off_lines(answer);
    let checked = checked(document, form, answer);
    let mut lines = checked.lines;
    if checked.quotes == 0 && named.is_empty() {
        lines = copied_lines(document, form, answer);
    }
    lines.extend(named);
    with(&checked.text, &printed(document, form, &lines))
}

fn by_agent(inquiry: &Inquiry<'_>) -> Result<AnswerText, ModeError> {
    let document = inquiry.document;
    let form = LineForm::of(document, inquiry.settings.long_line_bytes);
    let answer = agent::answer(inquiry, form)?;
    let found = !is_nothing(&answer.text);
    let text = if found {
        let checked = checked(document, form, &answer.text);
        let lines = if answer.lines.is_empty() { &checked.lines } else { &answer.lines };
        with(&checked.text, &printed(document, form, lines))
    } else if answer.looks.is_empty() {
        answer.text
    } else {
        with(&answer.text, &format!("(Searched: {}.)", answer.looks.join("; ")))
    };
    handed_on(inquiry, text, found, answer.is_cut.then_some("all of it"))
}

/// Returns an answer as it is handed on: that nothing was found is no proof, so the document's own
/// lines follow it. `cut` names the parts about which a reply was cut.
fn handed_on(
    inquiry: &Inquiry<'_>,
    mut text: String,
    found: bool,
    cut: Option<&str>,
) -> Result<AnswerText, ModeError> {
    if let Some(parts) = cut {
        let note = format!("(Not complete: the model had no tokens left to answer about {parts}.)");
        text = with(&text, &note);
    }
    if !found {
        let shown = truncated(inquiry.document, inquiry.settings.inline_bytes)?;
        text = with(&text, &shown);
    }
    Ok(AnswerText { text, found: Some(found), is_cut: cut.is_some() })
}

fn with(text: &str, more: &str) -> String {
    match (text.is_empty(), more.is_empty()) {
        (_, true) => text.to_owned(),
        (true, _) => more.to_owned(),
        _ => format!("{text}\n\n{more}"),
    }
}

impl std::fmt::Debug for Extractor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Extractor").field("settings", self.settings).finish_non_exhaustive()
    }
}
