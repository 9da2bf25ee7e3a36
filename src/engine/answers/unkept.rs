//! Answers that are not kept with their conversation: failures, truncated answers, and texts that
//! are shown without a model.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Maximum number of answers that are remembered.
const MOST: usize = 64;
/// The time for which an answer is shown.
const SHOWN: Duration = Duration::from_mins(5);

/// The recent answers of this process that are not kept, oldest first.
///
/// A reader may open a view many times, and each failed call may have cost money. A failure is
/// therefore shown for some minutes before a model is called again.
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
    pub(crate) fn find(&self, digest: &str, question: &str) -> Option<Arc<str>> {
        let mut all = self.0.lock();
        let now = Instant::now();
        all.retain(|one| one.until > now);
        let is_it = |one: &&UnkeptAnswer| one.question == question && one.digest == digest;
        all.iter().find(is_it).map(|one| Arc::clone(&one.text))
    }

    pub(crate) fn add(&self, digest: &str, question: &str, text: &str) {
        let mut all = self.0.lock();
        if all.len() == MOST {
            all.pop_front();
        }
        all.push_back(UnkeptAnswer {
            digest: digest.to_owned(),
            question: question.to_owned(),
            text: text.into(),
            until: Instant::now() + SHOWN,
        });
    }
}
