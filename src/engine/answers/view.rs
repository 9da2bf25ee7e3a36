//! `X.extract/<question>`: an answer as a file.
//!
//! A model takes longer than a reader waits. At the deadline the reader gets a line that says so,
//! the model goes on, and the answer is there for the next look.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use crate::answers::{AskedDocument, Question, kept};
use crate::deadline::deadline;
use crate::{Computed, Engine, EngineError, Result, SourceFile, Tree, ViewText, spool};
use ctxfs_core::model::{Place, counted_tool};
use ctxfs_models::extract::Mode;
use ctxfs_view::Words;

const BUSY: &str = "# models are busy with other questions. Look again in a while\n";
const WAIT: &str = "# a model is reading, and has not answered yet. Look again in a while\n";

/// Answers the question `words` about a file. If its text was computed before, `again` is true: the
/// answer must be known, of exactly the same version.
pub(crate) fn show(
    engine: &Arc<Engine>,
    of: &Computed,
    file: &dyn SourceFile,
    words: &Words,
    again: bool,
) -> Result<ViewText> {
    let snapshot = file.snapshot(engine)?;
    if again && of.version != file.version(engine, &snapshot)? {
        return Err(EngineError::Stale);
    }
    of.note_tool(|| snapshot.record.provenance.tool_name().map(counted_tool));
    let is_due = deadline(engine.options.view_deadline);
    let is_told = AtomicBool::new(false);
    let stopped = || {
        if is_due() && !is_told.swap(true, Relaxed) {
            tell_to_wait(engine, of);
        }
        engine.late.is_closed()
    };
    let text = words.text();
    let question = Question::new((&text, Mode::Auto), &stopped, &|_| ());
    let tree = Tree::new(Arc::clone(engine));
    let path = path_of(engine, &snapshot.place);
    let text = tree.with_question(&path, &question, |asked| answer(engine, asked, again))??;
    Ok(spool::held_text(engine, &text, None)?)
}

/// Returns the text of a view for which no model can be asked now. The next look-up tries again.
pub(crate) fn busy(engine: &Engine, of: &Computed) -> Result<ViewText> {
    of.base.file()?.note_change();
    Ok(spool::held_text(engine, BUSY, None)?)
}

/// Returns the text of an answer that is known, or else of a model.
fn answer(engine: &Engine, asked: &AskedDocument<'_>, again: bool) -> Result<String> {
    if let Some(text) = engine.unkept_answers.find(asked) {
        return Ok(text.to_string());
    }
    let known = kept::find(asked);
    if again && known.is_none() {
        return Err(EngineError::Stale);
    }
    let (answer, is_kept) = asked.answer(known, Instant::now());
    let text = answer.text();
    if !is_kept && !(asked.question.stopped)() {
        engine.unkept_answers.add(asked, &text);
    }
    Ok(text)
}

fn tell_to_wait(engine: &Engine, of: &Computed) {
    match spool::held_text(engine, WAIT, None) {
        Ok(text) => of.give_beginning(text),
        Err(error) => tracing::warn!(%error, "a reader waits for a model until it has answered"),
    }
}

/// Returns the path of a file in the tree.
fn path_of(engine: &Engine, place: &Place) -> PathBuf {
    match engine.options.only {
        Some(_) => PathBuf::from(place.path()),
        None => PathBuf::from(place.conversation()).join(place.path()),
    }
}
