//! Tests questions that are stopped because the caller no longer waits.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use super::*;

/// Asks a question, and stops it when the first call has ended.
fn stopped_after_a_call(model: &Arc<Scripted>, document: &TextDocument, mode: Mode) -> Extraction {
    let stopped = AtomicBool::new(false);
    let models = [Arc::clone(model) as Arc<dyn LanguageModel>];
    let extractor = Extractor {
        settings: &ExtractSettings::default(),
        models: &models,
        nonce: &|| "n".to_owned(),
        stopped: &|| stopped.load(Relaxed),
        tell: &|_| stopped.store(true, Relaxed),
    };
    extractor.answer(document, QUESTION, mode)
}

#[test]
fn a_stop_ends_all_calls() {
    let model = Scripted::new("a", |request| answers(request, "something")).with(|_| {});
    let document = TextDocument::new(&log(4000));
    let found = stopped_after_a_call(&model, &document, Mode::FullChunked);
    assert!(found.answer.as_ref().is_err_and(ModeError::is_stop), "{found:?}");
    // The calls that were in progress, and one more for each of them.
    let most = 2 * ExtractSettings::default().concurrency;
    assert!(model.asked().len() <= most, "{}", model.asked().len());
}

/// Looking up a quote in a long output takes time.
#[test]
fn a_stop_ends_the_check_of_an_answer() {
    let model = Scripted::new("a", |request| answers(request, "`an invention`")).with(|_| {});
    let document = TextDocument::new(&log(40));
    for mode in [Mode::Auto, Mode::FullChunked, Mode::ReadGrep] {
        let found = stopped_after_a_call(&model, &document, mode);
        assert!(found.answer.as_ref().is_err_and(ModeError::is_stop), "{mode}: {found:?}");
        assert_eq!((found.calls.len(), found.used == Mode::Truncate), (1, false));
    }
}
