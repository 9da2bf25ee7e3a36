//! Questions about outputs, answered by language models.
//!
//! Each complete answer is kept with the conversation. The same question about the same bytes gets
//! the kept answer without a model call. Each question is an entry of the conversation's log.

pub(crate) mod log;
pub(crate) mod many;
#[cfg(test)]
mod tests;
pub(crate) mod unkept;

use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::deadline::deadline;
use crate::snapshot::Snapshot;
use crate::{Computed, Engine, EngineError, Result, Source, Tree, ViewText, reserve_line, show};
use ctxfs_core::materialize::token_count;
use ctxfs_core::model::{Amount, Content, Counts, Subject, counted_tool, handle};
use ctxfs_core::redact::MaskCounts;
use ctxfs_models::extract::{
    AnswerText, CallRecord, Document, DocumentError, DocumentFacts, ExtractPlan, Extraction,
    Extractor, Mode, ModeError, PROMPT_VERSION, Stopped,
};
use ctxfs_store::Conversation;
use ctxfs_store::history::QuestionTurn;
use ctxfs_view::Words;

const VIEW: &str = "extract";
/// Maximum number of bytes of a view that are read. A model gets only a part of these bytes.
const MOST_OF_VIEW: usize = 1 << 20;

const BLOCK: usize = 1 << 20;
// Interval at which a question that is being asked is looked at.
const LOOK: Duration = Duration::from_millis(50);

const BUSY: &str = "# models are busy with other questions. Look again in a while\n";
const WAIT: &str = "# a model is reading, and has not answered yet. Look again in a while\n";

/// A question about an output.
///
/// - `most_tokens`: maximum number of tokens for the answer. Applies if it is lower than the limit
///   in the settings.
/// - `stopped`: returns true once no caller waits for the answer
/// - `tell`: called after each model call
#[derive(Clone, Copy)]
pub struct Question<'a> {
    pub text: &'a str,
    pub mode: Mode,
    pub most_tokens: Option<u64>,
    pub stopped: &'a Stopped<'a>,
    pub tell: &'a (dyn Fn(&CallRecord) + Sync),
}

/// The outcome of a question: an answer, or the error that prevented one.
///
/// - `facts`: facts about the output that the question is about
/// - `cached`: true if this is a kept answer, for which no model was called
#[derive(Debug)]
pub struct Answer {
    pub facts: DocumentFacts,
    pub extraction: Extraction,
    pub cached: bool,
}

impl Answer {
    pub fn text(&self) -> String {
        self.extraction.text(&self.facts)
    }
}

struct AskedDocument<'a> {
    engine: &'a Engine,
    conversation: &'a Conversation,
    document: &'a dyn Document,
    question: Question<'a>,
}

impl Tree {
    /// Answers a question about the output at `path`. The path has the form that [`Tree::open`]
    /// takes. Blocks until the models have answered.
    pub fn answer(&self, path: &Path, question: &Question<'_>) -> Result<Answer> {
        let began = Instant::now();
        self.with_question(path, question, |asked| {
            let (answer, _) = asked.answer(asked.find_kept(), began);
            asked.count(&answer.extraction);
            answer
        })
    }

    /// Returns the model calls that a question about the output at `path` would take. Calls no
    /// model. A question with a kept answer takes no calls.
    pub fn plan_answer(
        &self,
        path: &Path,
        question: &Question<'_>,
    ) -> Result<std::result::Result<ExtractPlan, ModeError>> {
        self.with_question(path, question, |asked| match asked.find_kept() {
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

    /// Calls `read` with the output at `path`, which has the form that [`Tree::open`] takes. `read`
    /// gets the text without escape sequences, with secrets masked. Completes the analysis of the
    /// output first.
    fn with_document<T>(&self, path: &Path, read: impl FnOnce(&dyn Document) -> T) -> Result<T> {
        let file = self.source(path)?;
        let digest = changed_digest(&file.snapshot(&self.engine)?)?;
        show::with_subject(&self.engine, &file, |subject| {
            let (content, mut facts) = (subject.content, document_facts(subject));
            facts.digest = digest.unwrap_or(facts.digest);
            read(&OutputDocument { tree: self, path, content, facts })
        })
    }
}

impl AskedDocument<'_> {
    /// Returns the `known` answer, or the answer of a model if `known` is `None`. The returned flag
    /// is true if the answer is kept. Logs the question. `began` is the time when it was asked.
    fn answer(&self, known: Option<Extraction>, began: Instant) -> (Answer, bool) {
        let (_turn, known) = match known {
            Some(known) => (None, Some(known)),
            None => self.turn(),
        };
        let cached = known.is_some();
        let extraction = known.unwrap_or_else(|| self.extraction());
        let is_kept = cached || self.keep(&extraction);
        let answer = Answer { facts: self.document.facts().clone(), extraction, cached };
        log::add(self, &answer, began.elapsed());
        (answer, is_kept)
    }

    /// Waits while the same question is being asked. Returns the turn to ask it, and the answer if there
    /// is one now. Returns no turn if no model would be called, or the question is stopped.
    fn turn(&self) -> (Option<QuestionTurn>, Option<Extraction>) {
        let Question { text, mode, stopped, .. } = self.question;
        let has_models = !self.engine.options.models.settings().targets.is_empty();
        if mode == Mode::Truncate || !has_models {
            return (None, None);
        }
        let mut hasher = DefaultHasher::new();
        (&self.document.facts().digest, text, mode.name()).hash(&mut hasher);
        let key = hasher.finish();
        loop {
            match ctxfs_store::history::question_turn(self.conversation, key) {
                Ok(Some(turn)) => return (Some(turn), self.find_kept()),
                Ok(None) if !stopped() => std::thread::sleep(LOOK),
                Ok(None) => return (None, None),
                Err(error) => {
                    tracing::debug!(%error, "the same question may be asked twice");
                    return (None, None);
                }
            }
        }
    }

    fn extraction(&self) -> Extraction {
        let mut extraction = self.with_extractor(|extractor| {
            extractor.answer(self.document, self.question.text, self.question.mode)
        });
        // A model may join the parts of a secret, so the answer is masked, too.
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
        // A nonce of 62 random bits, which no text can guess. More digits would cost tokens in each
        // turn.
        let nonce = &|| Uuid::new_v4().simple().to_string().split_off(16);
        run(&Extractor { settings, models, nonce, stopped, tell })
    }

    fn count(&self, extraction: &Extraction) {
        let Ok(found) = &extraction.answer else { return };
        let text = found.text.as_bytes();
        let read = Amount::once(text.len() as u64, token_count(text));
        let mut counts = Counts { read, ..Counts::default() };
        counts.views.insert(VIEW.to_owned(), 1);
        let (id, tool) = (self.conversation.id().clone(), self.document.facts().tool.clone());
        self.engine.counting.add(id, tool, &counts);
    }

    fn find_kept(&self) -> Option<Extraction> {
        let Self { engine, conversation, document, question } = self;
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
        let read =
            ctxfs_store::history::each_answer(conversation, &document.facts().digest, |line| {
                let kept = serde_json::from_slice::<KeptAnswer>(line).ok().filter(is_it);
                last = kept.or_else(|| last.take());
            });
        read.ok()?;
        let kept = last?;
        // Redaction may have been off when the answer was kept.
        let mask = |text: String| engine.secrets.mask_text(text);
        let answer = AnswerText { text: mask(kept.text), found: Some(kept.found), is_cut: false };
        Some(Extraction {
            asked: question.mode,
            used: kept.used.parse().ok()?,
            answer: Ok(answer),
            warnings: kept.warnings.into_iter().map(mask).collect(),
            calls: Vec::new(),
        })
    }

    /// Keeps the answer of a model if it is complete. Returns true if the answer was kept. A
    /// failure is only logged, because its sole cost is that the next question calls the model
    /// again.
    fn keep(&self, extraction: &Extraction) -> bool {
        let Ok(AnswerText { text, found: Some(found), is_cut: false }) = &extraction.answer else {
            return false;
        };
        let Some(call) = extraction.calls.last() else { return false };
        let kept = KeptAnswer {
            question: self.question.text.to_owned(),
            asked: extraction.asked.name().to_owned(),
            used: extraction.used.name().to_owned(),
            target: call.target.clone(),
            prompts: PROMPT_VERSION,
            found: *found,
            text: text.clone(),
            warnings: extraction.warnings.clone(),
        };
        let append = || -> Result<()> {
            let line = json_line(&kept)?;
            let _room = reserve_line(self.engine, self.conversation, line.len() as u64)?;
            Ok(ctxfs_store::history::append_answer(
                self.conversation,
                &self.document.facts().digest,
                &line,
            )?)
        };
        append().inspect_err(|error| tracing::warn!(%error, "an answer was not kept")).is_ok()
    }
}

/// A line of `history/answers/<digest>.jsonl`: an answer that can be returned without a model call.
#[derive(Debug, Serialize, Deserialize)]
struct KeptAnswer {
    question: String,
    asked: String,
    used: String,
    target: String,
    prompts: u32,
    found: bool,
    text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

fn json_line(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value).map_err(std::io::Error::from)?;
    line.push(b'\n');
    Ok(line)
}

impl<'a> Question<'a> {
    /// Creates a question with the limits of the settings. See the fields for the meaning of the
    /// parameters.
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

struct OutputDocument<'a> {
    tree: &'a Tree,
    path: &'a Path,
    content: &'a dyn Content,
    facts: DocumentFacts,
}

/// Returns the digest of a file whose bytes may differ from its record. The size and the time are not
/// enough to find an answer by.
fn changed_digest(snapshot: &Snapshot) -> Result<Option<String>> {
    let Snapshot { file, stat, record, is_written, length, .. } = snapshot;
    if file.is_far() || *is_written || stat.is_recorded(record) {
        return Ok(None);
    }
    let (content, mut hasher) = (file.content(*length), blake3::Hasher::new());
    let mut at = 0;
    while let bytes = content.bytes(at, BLOCK)?
        && !bytes.is_empty()
    {
        hasher.update(&bytes);
        at += bytes.len() as u64;
    }
    Ok(Some(hasher.finalize().to_string()))
}

fn document_facts(subject: &Subject<'_>) -> DocumentFacts {
    let Subject { record, place, analysis, content, .. } = subject;
    let handle = handle(record, place.conversation(), place.path());
    let name = handle.rsplit('/').next().unwrap_or_default().to_owned();
    DocumentFacts {
        tool: record.provenance.tool_name().unwrap_or_default(),
        arguments: record.provenance.args.clone().unwrap_or_default(),
        handle,
        name,
        digest: analysis.digest.clone(),
        bytes: content.len(),
        lines: analysis.lines,
        tokens: analysis.tokens,
        is_binary: analysis.is_binary(),
    }
}

impl Document for OutputDocument<'_> {
    fn facts(&self) -> &DocumentFacts {
        &self.facts
    }

    fn content(&self) -> &dyn Content {
        self.content
    }

    fn view(&self, name: &str) -> std::result::Result<String, DocumentError> {
        let mut path = OsString::from(self.path);
        path.push(".");
        path.push(name);
        let failed = |why: String| DocumentError::View { view: name.to_owned(), why };
        let opened = self.tree.open(Path::new(&path)).map_err(|error| failed(error.to_string()))?;
        let bytes = opened.uncounted(MOST_OF_VIEW)?;
        let text = String::from_utf8_lossy(&bytes);
        // Lines are counted from the first line of the output.
        let notice = text.split_inclusive('\n').next().unwrap_or_default();
        let is_told = notice.len() <= opened.notice_length() && MaskCounts::is_notice(notice);
        Ok(if is_told { text[notice.len()..].to_owned() } else { text.into_owned() })
    }
}

/// Computes `X.extract/<question>`: the answer to the question `words` about a file. `again` is
/// true if the text was computed before. The call then fails with [`EngineError::Stale`] if the
/// file has another version, or if the answer is not known.
///
/// A model takes longer than a reader waits. At the deadline, readers get a notice instead of the
/// answer. The model call continues, and the next look-up finds the answer.
pub(crate) fn show(
    engine: &Arc<Engine>,
    of: &Computed,
    source: &Source,
    words: &Words,
    again: bool,
) -> Result<ViewText> {
    let snapshot = source.snapshot(engine)?;
    if again && of.version != snapshot.version(engine)? {
        return Err(EngineError::Stale);
    }
    of.note_tool(|| snapshot.record.provenance.tool_name().map(counted_tool));
    let is_due = deadline(engine.options.view_deadline);
    let is_told = AtomicBool::new(false);
    let stopped = || {
        if is_due() && !is_told.swap(true, Relaxed) {
            match engine.held_text(WAIT, None) {
                Ok(text) => of.give_beginning(text),
                Err(error) => {
                    tracing::warn!(%error, "a reader waits for a model until it has answered");
                }
            }
        }
        engine.late.closed.load(Relaxed)
    };
    let text = words.text();
    let question = Question::new((&text, Mode::Auto), &stopped, &|_| ());
    let tree = Tree::new(Arc::clone(engine));
    let place = &snapshot.place;
    let path = match engine.options.only {
        Some(_) => PathBuf::from(place.path()),
        None => PathBuf::from(place.conversation()).join(place.path()),
    };
    let text = tree.with_question(&path, &question, |asked| answer_text(asked, again))??;
    Ok(engine.held_text(&text, None)?)
}

/// Returns the notice for a question while all threads for questions are busy. The next look-up
/// tries again.
pub(crate) fn busy(engine: &Engine, of: &Computed) -> Result<ViewText> {
    of.base.source()?.note_change();
    Ok(engine.held_text(BUSY, None)?)
}

fn answer_text(asked: &AskedDocument<'_>, again: bool) -> Result<String> {
    let (unkept, digest) = (&asked.engine.unkept_answers, &asked.document.facts().digest);
    if let Some(text) = unkept.find(digest, asked.question.text) {
        return Ok(text.to_string());
    }
    let known = asked.find_kept();
    if again && known.is_none() {
        return Err(EngineError::Stale);
    }
    let (answer, is_kept) = asked.answer(known, Instant::now());
    let text = answer.text();
    if !is_kept && !(asked.question.stopped)() {
        unkept.add(digest, asked.question.text, &text);
    }
    Ok(text)
}
