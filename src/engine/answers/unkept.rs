//! Answers that are not kept with their conversation: failures, answers that were cut, and what is
//! shown without a model.
//!
//! A reader may look at a view again and again, and each failure may have cost money. So one is
//! shown for some minutes before a model is asked again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::answers::AskedDocument;

/// The answers that are remembered.
const MOST: usize = 64;
/// The time for which one is shown.
const SHOWN: Duration = Duration::from_mins(5);

/// The answers of this process that are not kept, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct UnkeptAnswers(Mutex<VecDeque<UnkeptAnswer>>);

#[derive(Debug)]
struct UnkeptAnswer {
    digest: String,
    question: String,
    text: Arc<str>,
    until: Instant,
}

impl UnkeptAnswers {
    /// Returns the answer to a question that was asked a moment ago.
    pub(super) fn find(&self, asked: &AskedDocument<'_>) -> Option<Arc<str>> {
        let mut all = self.0.lock();
        let now = Instant::now();
        all.retain(|one| one.until > now);
        let is_it = |one: &&UnkeptAnswer| {
            one.question == asked.question.text && one.digest == asked.document.facts().digest
        };
        all.iter().find(is_it).map(|one| Arc::clone(&one.text))
    }

    pub(super) fn add(&self, asked: &AskedDocument<'_>, text: &str) {
        let mut all = self.0.lock();
        if all.len() == MOST {
            all.pop_front();
        }
        all.push_back(UnkeptAnswer {
            digest: asked.document.facts().digest.clone(),
            question: asked.question.text.to_owned(),
            text: text.into(),
            until: Instant::now() + SHOWN,
        });
    }
}
