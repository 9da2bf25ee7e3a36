//! Answering one question about several outputs, or about a whole conversation.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::{Answer, EngineError, Question, Result, Tree};
use ctxfs_core::model::{Component, visible};
use ctxfs_models::extract::ModeError;

/// Maximum number of outputs of a conversation that are read for one question.
const MOST_READ: usize = 8;
/// Maximum number of bytes of a search result that are read. A search result has up to 6 KiB.
const MOST_FOUND: usize = 64 << 10;

/// The answers to one question about several outputs.
///
/// - `left`: outputs that were not read because the question reached its token limit or was stopped
/// - `unreadable`: outputs that could not be read, each with the error
/// - `others`: the number of outputs of the conversation that were not selected for the question
#[derive(Debug, Default)]
pub struct Answers {
    pub read: Vec<Answer>,
    pub left: Vec<PathBuf>,
    pub unreadable: Vec<(PathBuf, EngineError)>,
    pub others: usize,
}

impl Answers {
    /// Returns true if there were outputs to read, but none has an answer.
    pub fn have_failed(&self) -> bool {
        let are_none = self.read.is_empty() && self.unreadable.is_empty() && self.left.is_empty();
        !are_none && self.read.iter().all(|answer| answer.extraction.answer.is_err())
    }

    pub fn text(&self) -> String {
        let mut text: String = self.read.iter().map(|answer| answer.text() + "\n").collect();
        let handles = self.read.iter().map(|answer| visible::whole(&answer.facts.handle));
        let handles: Vec<_> = handles.collect();
        let handles = if handles.is_empty() { "nothing".to_owned() } else { handles.join(", ") };
        let _ = write!(text, "Read: {handles}.");
        if !self.left.is_empty() {
            let names = self.left.iter().map(|path| visible::whole(&path.to_string_lossy()));
            let names: Vec<_> = names.collect();
            let names = names.join(", ");
            let _ = write!(text, " Not read, as the question costs too much: {names}.");
        }
        for (path, error) in &self.unreadable {
            let name = visible::whole(&path.to_string_lossy());
            let _ = write!(text, " {name} cannot be read: {error}.");
        }
        if self.others > 0 {
            let _ = write!(text, " {} other outputs were not read.", self.others);
        }
        text + "\n"
    }

    fn tokens(&self) -> u64 {
        let each = self.read.iter().map(|answer| answer.extraction.usage().total());
        each.fold(0, u64::saturating_add)
    }
}

impl Tree {
    /// Answers a question about each of the outputs at `paths`, in order. Stops when the answers
    /// have used up the tokens that one question may cost, or when the question is stopped. With
    /// several paths, an output that cannot be read does not affect the other outputs.
    pub fn answer_each(&self, paths: &[PathBuf], question: &Question<'_>) -> Result<Answers> {
        let mut answers = Answers::default();
        for (number, path) in paths.iter().enumerate() {
            let most = self.engine.options.models.settings().max_tokens_per_question;
            let Some(room) = most.checked_sub(answers.tokens()).filter(|room| *room > 0) else {
                answers.left = paths[number..].to_vec();
                break;
            };
            let room = question.most_tokens.map_or(room, |most| most.min(room));
            let question = Question { most_tokens: Some(room), ..*question };
            let answer = match self.answer(path, &question) {
                Err(error) if paths.len() > 1 => {
                    answers.unreadable.push((path.clone(), error));
                    continue;
                }
                answer => answer?,
            };
            let stopped = answer.extraction.answer.as_ref().is_err_and(ModeError::is_stop);
            answers.read.push(answer);
            if stopped {
                answers.left = paths[number + 1..].to_vec();
                break;
            }
        }
        Ok(answers)
    }

    /// Answers a question about the conversation whose directory is at `path`. Reads the outputs
    /// that best match the words of the question first, and then the newest outputs.
    pub fn answer_about(&self, path: &Path, question: &Question<'_>) -> Result<Answers> {
        let (chosen, others) = self.outputs_about(path, question.text)?;
        Ok(Answers { others, ..self.answer_each(&chosen, question)? })
    }

    /// Returns the outputs that [`Self::answer_about`] reads, and the number of outputs that it
    /// does not read.
    pub fn outputs_about(&self, path: &Path, question: &str) -> Result<(Vec<PathBuf>, usize)> {
        let mut ranked = self.ranked(path, question)?;
        let all = ranked.len();
        ranked.truncate(MOST_READ);
        let others = all - ranked.len();
        Ok((ranked, others))
    }

    fn conversation_at(&self, path: &Path) -> Result<Component> {
        match &self.engine.options.only {
            Some(id) => Ok(id.clone()),
            None => Component::new(path.as_os_str()).map_err(|_| EngineError::NotFound),
        }
    }

    /// Returns all outputs of the conversation whose directory is at `path`. Outputs that contain
    /// words of the question come first, sorted by rank. The rest follows, newest first.
    fn ranked(&self, path: &Path, question: &str) -> Result<Vec<PathBuf>> {
        let id = self.conversation_at(path)?;
        let conversation = self.engine.conversation(&id)?;
        let mut files = conversation.all_artifacts()?.files;
        files.sort_by_key(|(path, stat)| (std::cmp::Reverse(stat.mtime), path.clone()));
        let found = self.found(path, question)?;
        let rank = |name: &[u8]| {
            let is_of = |line: &[u8]| {
                line.strip_prefix(name)
                    .is_some_and(|rest| rest.starts_with(b":") || rest.starts_with(b"-"))
            };
            found.split(|byte| *byte == b'\n').position(is_of).unwrap_or(usize::MAX)
        };
        files.sort_by_cached_key(|(path, _)| rank(path.as_os_str().as_bytes()));
        Ok(files.into_iter().map(|(file, _)| path.join(file.as_os_str())).collect())
    }

    fn found(&self, path: &Path, question: &str) -> Result<Vec<u8>> {
        let words = question.replace('%', "%25").replace('/', "%2F").replace('\0', " ");
        let opened = self.open(&path.join(".find").join(words));
        // The search fails if the question is too long for a file name or has no word.
        Ok(opened.ok().map(|file| file.uncounted(MOST_FOUND)).transpose()?.unwrap_or_default())
    }
}
