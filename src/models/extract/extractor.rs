//! Answers a question. Selects the mode, tries the targets one after the other, estimates the cost
//! in advance, and builds the text that is shown without a model.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use crate::extract::agent::{by_actions, by_calls};
use crate::extract::asking::{CallRecord, QuestionBudget};
use crate::extract::cited_lines::{checked, copied_lines, printed, split_off_lines};
use crate::extract::document::StoppableDocument;
use crate::extract::extraction::{AnswerText, Extraction, ModeError};
use crate::extract::full::FullPlan;
use crate::extract::inquiry::Inquiry;
use crate::extract::look::{FirstLook, LineForm};
use crate::extract::prompt::is_nothing;
use crate::extract::{
    Document, DocumentError, ExtractSettings, LanguageModel, Mode, Stopped, TokenUsage, ToolUse,
    full,
};
use ctxfs_core::model::{Content, visible};

/// Answers questions about documents. Tries one target after the other until one answers, and falls
/// back to a text that needs no model.
///
/// `models` are the models of the targets, in the order of the targets. `nonce` returns a new,
/// unguessable text of letters and digits. `stopped` returns true once no caller waits for the
/// answer any longer. `tell` is called after each call of a model.
#[expect(missing_docs, reason = "described above")]
pub struct Extractor<'a> {
    pub settings: &'a ExtractSettings,
    pub models: &'a [Arc<dyn LanguageModel>],
    pub nonce: &'a (dyn Fn() -> String + Sync),
    pub stopped: &'a Stopped<'a>,
    pub tell: &'a (dyn Fn(&CallRecord) + Sync),
}

impl Extractor<'_> {
    /// Answers a question about a document.
    pub fn answer(&self, document: &dyn Document, question: &str, asked: Mode) -> Extraction {
        let asking =
            QuestionBudget::new(self.stopped, self.settings.max_tokens_per_question, self.tell);
        let document = StoppableDocument::new(document, self.stopped);
        let mut warnings = Vec::new();
        let mut used = asked;
        let told = (asked, &mut used, &mut warnings);
        let answer = match self.by_models(&document, question, &asking, told) {
            Ok(_) if document.has_refused.load(std::sync::atomic::Ordering::Relaxed) => {
                Err(DocumentError::Stopped.into())
            }
            Err(error) if falls_back(asked, &error) => {
                warnings.push(error.to_string());
                used = Mode::Truncate;
                self.without_model(&document)
            }
            answer => answer,
        };
        Extraction { asked, used, answer, warnings, calls: asking.calls() }
    }

    fn by_models(
        &self,
        document: &dyn Document,
        question: &str,
        asking: &QuestionBudget<'_>,
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

    pub(super) fn inquiry<'a>(
        &'a self,
        document: &'a dyn Document,
        question: &'a str,
        model: &'a dyn LanguageModel,
        asking: &'a QuestionBudget<'a>,
    ) -> Inquiry<'a> {
        let (settings, nonce) = (self.settings, self.nonce);
        Inquiry { document, question, model, settings, asking, nonce }
    }

    fn without_model(&self, document: &dyn Document) -> Result<AnswerText, ModeError> {
        let text = truncated(document, self.settings.inline_bytes)?;
        Ok(AnswerText { text, found: None, is_cut: false })
    }
}

/// Returns true if the document itself is shown instead of an answer.
fn falls_back(asked: Mode, error: &ModeError) -> bool {
    match error {
        ModeError::NoTarget => true,
        ModeError::Document(_) => false,
        error => asked == Mode::Auto && !error.is_stop(),
    }
}

fn answer_by(inquiry: &Inquiry<'_>, asked: Mode, used: &mut Mode) -> Result<AnswerText, ModeError> {
    if let Some(plan) = planned(inquiry, asked)? {
        *used = Mode::FullChunked;
        in_full(inquiry, &plan)
    } else {
        *used = Mode::ReadGrep;
        by_agent(inquiry)
    }
}

/// Returns the plan for reading the whole document. Returns `None` if the agent reads it instead.
pub(super) fn planned(inquiry: &Inquiry<'_>, asked: Mode) -> Result<Option<FullPlan>, ModeError> {
    let plan = || FullPlan::of(inquiry);
    Ok(match asked {
        Mode::FullChunked => Some(plan()?),
        Mode::Auto => Some(plan()?).filter(|plan| is_read_in_full(inquiry, plan)),
        Mode::ReadGrep | Mode::Truncate => None,
    })
}

/// Returns true if `auto` reads the whole document. This is so if the document is short, or if its
/// lines are so long that a search would find little, and the question may cost that much.
fn is_read_in_full(inquiry: &Inquiry<'_>, plan: &FullPlan) -> bool {
    let settings = inquiry.settings;
    let is_wanted = plan.chunks.count() <= settings.max_chunks_full
        || inquiry.document.facts().line_bytes() > settings.long_line_bytes;
    is_wanted && plan.check_cost(settings.max_tokens_per_question).is_ok()
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

/// Returns `answer`, followed by the lines of the document that contain quotes from `answer`, and
/// by the lines whose numbers `answer` gives. If `answer` has neither quotes nor line numbers, the
/// lines that contain a whole line of `answer` follow.
///
/// A last line such as `Lines: 3120` is kept. The prompt does not request line numbers, so this
/// line may be the answer itself.
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
    let first = FirstLook::take(document, form, inquiry.question)?;
    let tools = inquiry.model.profile().tools;
    let called = match tools {
        ToolUse::None => None,
        _ => by_calls::answer(inquiry, form, &first, tools == ToolUse::Native)?,
    };
    let answer = called.map_or_else(|| by_actions::answer(inquiry, form, &first), Ok)?;
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

/// Completes the text of an answer. If the model ran out of tokens, adds a note about the parts
/// concerned (`cut`). If the model found nothing, adds an excerpt of the document, because the
/// model may have missed something.
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

/// Expected cost of answering a question with the first target. `target` is `None` if no model
/// would be used.
///
/// If the document is read in full, `chunks` has the number of chunks and the approximate size of
/// each in bytes, and `usage` is an estimate for all chunks. `calls` counts a call for each chunk,
/// and a call that combines the findings. If the reading agent answers, `chunks` is `None`, `calls`
/// is the maximum number of turns, and `usage` is the token limit of a question.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct ExtractPlan {
    pub mode: Mode,
    pub target: Option<String>,
    pub chunks: Option<(u64, u64)>,
    pub calls: u64,
    pub usage: TokenUsage,
    pub nanodollars: u64,
}

impl Extractor<'_> {
    /// Estimates the cost of a question. Calls no model.
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
        let asking = QuestionBudget::new(self.stopped, 0, self.tell);
        let inquiry = self.inquiry(document, question, &**model, &asking);
        let (profile, most) = (model.profile(), self.settings.max_tokens_per_question);
        let (mode, chunks, calls, usage) = if let Some(plan) = planned(&inquiry, asked)? {
            plan.check_cost(most)?;
            let count = plan.chunks.count();
            let chunks = Some((count, plan.chunks.size()));
            (Mode::FullChunked, chunks, count + u64::from(count > 1), plan.usage)
        } else {
            let calls = u64::from(self.settings.max_steps);
            // Tokens of the limit that replies cannot use are input.
            let output = (calls * profile.reply_tokens()).min(most);
            (Mode::ReadGrep, None, calls, TokenUsage { input: most - output, output })
        };
        let (target, nanodollars) = (Some(profile.target.clone()), profile.nanodollars(usage));
        Ok(ExtractPlan { mode, target, chunks, calls, usage, nanodollars })
    }
}

/// Returns about `most` bytes of a document: its head, the lines that look like errors, and its
/// tail. Notes mark the omitted parts.
pub(super) fn truncated(document: &dyn Document, most: usize) -> Result<String, DocumentError> {
    let content = document.content();
    if content.len() <= most as u64 {
        return Ok(String::from_utf8_lossy(&content.bytes(0, most)?).into_owned());
    }
    let head = head(content, most / 4)?;
    let tail = tail(content, most / 4)?;
    let mut text = String::from_utf8_lossy(&head).into_owned();
    let cut = content.len() - (head.len() + tail.len()) as u64;
    let _ = writeln!(ended(&mut text), "[... {cut} of {} bytes are not shown ...]", content.len());
    if let Some(errors) = errors(document, most / 2)? {
        let _ = writeln!(text, "[the lines that look like errors:]\n{}", errors.trim_end());
        let _ = writeln!(text, "[the end:]");
    }
    text.push_str(&String::from_utf8_lossy(&tail));
    Ok(text)
}

fn ended(text: &mut String) -> &mut String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// Returns the beginning of `content`: as many whole lines as fit into `most` bytes. If the first
/// line is longer, it is cut.
fn head(content: &dyn Content, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = content.bytes(0, most)?;
    let end = memchr::memrchr(b'\n', &bytes).map_or_else(|| whole_characters(&bytes), |at| at + 1);
    bytes.truncate(end);
    Ok(bytes)
}

/// Returns the end of `content`: as many whole lines as fit into `most` bytes.
fn tail(content: &dyn Content, most: usize) -> io::Result<Vec<u8>> {
    let bytes = content.bytes(content.len().saturating_sub(most as u64), most)?;
    let last = bytes.len().saturating_sub(1);
    let start = memchr::memchr(b'\n', &bytes[..last]).map_or_else(
        || bytes.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count(),
        |at| at + 1,
    );
    Ok(bytes[start..].to_vec())
}

fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

fn errors(document: &dyn Document, most: usize) -> Result<Option<String>, DocumentError> {
    let text = match document.view("errors") {
        Ok(text) => text,
        Err(DocumentError::View { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("# ")).collect();
    let mut shown = String::new();
    for (index, line) in lines.iter().enumerate() {
        if shown.len() + line.len() >= most {
            let _ = writeln!(shown, "[... {} more lines ...]", lines.len() - index);
            break;
        }
        let _ = writeln!(shown, "{line}");
    }
    Ok((!lines.is_empty()).then_some(shown))
}
