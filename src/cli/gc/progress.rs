//! A progress bar that counts outputs, drawn only on terminals.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The progress of a job. The bar disappears when this is dropped.
#[derive(Debug)]
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// Starts a bar with the label `what`.
    pub(super) fn of(what: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style =
            ProgressStyle::with_template("{msg} {bar:32} {human_pos} of {human_len} outputs");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(what);
        Self(bar)
    }

    /// Shows that `done` of `all` outputs are done.
    pub(super) fn show(&mut self, done: usize, all: usize) {
        self.0.set_length(all as u64);
        self.0.set_position(done as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
