//! The progress of a question, on standard error if that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;

use ctxfs_models::extract::{CallRecord, CallTally};

const STYLE: &str = "{spinner} {msg}, {elapsed}";
/// The time between two pictures of the spinner.
const TICK: Duration = Duration::from_millis(120);

/// A line that shows what a question has cost so far. It disappears when it is dropped.
pub(super) struct QuestionProgress {
    bar: ProgressBar,
    tally: Mutex<CallTally>,
}

impl QuestionProgress {
    pub(super) fn start() -> Self {
        let style = ProgressStyle::with_template(STYLE).expect("the template is valid");
        let target = ProgressDrawTarget::stderr();
        let bar = ProgressBar::with_draw_target(None, target).with_style(style);
        bar.set_message("reading");
        bar.enable_steady_tick(TICK);
        Self { bar, tally: Mutex::default() }
    }

    /// Shows one more call.
    pub(super) fn tell(&self, call: &CallRecord) {
        let (_, message) = self.tally.lock().add(call);
        self.bar.set_message(message);
    }
}

impl Drop for QuestionProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
