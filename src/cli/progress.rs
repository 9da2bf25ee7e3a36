//! Progress bars for long operations. A bar is drawn only if standard error is a terminal, and
//! disappears when it is dropped.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;

const STYLE: &str =
    "{msg} [{bar:30}] {decimal_bytes}/{decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left";
const OPEN_STYLE: &str = "{msg} {decimal_bytes}, {decimal_bytes_per_sec}";

/// Returns a bar that counts bytes, up to `total` if the total is known.
pub(crate) fn bar(what: &str, total: Option<u64>, silent: bool) -> ProgressBar {
    let template = if total.is_some() { STYLE } else { OPEN_STYLE };
    let style = ProgressStyle::with_template(template);
    let style = style.expect("the template is valid").progress_chars("=> ");
    ProgressBar::with_draw_target(total, target(silent))
        .with_style(style)
        .with_message(what.to_owned())
}

/// Returns a bar that counts up to `total` items. `unit` is the name of the items.
pub(crate) fn count(what: &str, total: usize, unit: &str, silent: bool) -> ProgressBar {
    let template = format!("{{msg}} [{{bar:30}}] {{human_pos}}/{{human_len}} {unit}");
    let style = ProgressStyle::with_template(&template);
    let style = style.expect("the template is valid").progress_chars("=> ");
    let bar = ProgressBar::with_draw_target(Some(total as u64), target(silent));
    bar.with_style(style).with_message(what.to_owned())
}

// Also hides the bar if standard error is not a terminal.
pub(crate) fn target(silent: bool) -> ProgressDrawTarget {
    if silent { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() }
}

const QUESTION_STYLE: &str = "{spinner} {msg}, {elapsed}";
const TICK: Duration = Duration::from_millis(120);

/// A line that shows how much a question to a language model has cost so far.
pub(crate) struct QuestionBar {
    bar: ProgressBar,
    tally: Mutex<ctxfs_models::extract::CallTally>,
}

impl QuestionBar {
    pub(crate) fn start() -> Self {
        let style = ProgressStyle::with_template(QUESTION_STYLE).expect("the template is valid");
        let target = ProgressDrawTarget::stderr();
        let bar = ProgressBar::with_draw_target(None, target).with_style(style);
        bar.set_message("reading");
        bar.enable_steady_tick(TICK);
        Self { bar, tally: Mutex::default() }
    }

    pub(crate) fn tell(&self, call: &ctxfs_models::extract::CallRecord) {
        let (_, message) = self.tally.lock().add(call);
        self.bar.set_message(message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_templates_are_valid() {
        for total in [None, Some(10)] {
            let bar = bar("reading", total, true);
            bar.inc(5);
            assert_eq!((bar.length(), bar.position()), (total, 5));
        }
    }
}
