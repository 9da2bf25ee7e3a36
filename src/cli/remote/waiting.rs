//! Telling a person what a command waits for.

use std::sync::mpsc;
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::progress;

/// The time after which a person is told what is waited for, and how often that is asked.
const SOON: Duration = Duration::from_secs(1);

/// A bar that tells what is waited for, where that takes more than a second. It disappears when it
/// is dropped.
pub(super) struct Waiting {
    pub(super) bar: ProgressBar,
    /// Ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Waiting {
    /// Shows what `text` returns as the message of `bar`. Starts a thread, unless `bar` is hidden.
    pub(super) fn on(bar: ProgressBar, text: impl Fn() -> String + Send + 'static) -> Self {
        let (stop, stopped) = mpsc::channel();
        let shown = bar.clone();
        let work = move || {
            while stopped.recv_timeout(SOON) == Err(RecvTimeoutError::Timeout) {
                shown.set_message(text());
                shown.tick();
            }
        };
        let thread = thread::Builder::new().name("waiting".to_owned());
        let thread = if bar.is_hidden() { None } else { thread.spawn(work).ok() };
        Self { bar, stop: Some(stop), thread }
    }

    /// Shows what `text` returns, without a bar. It is drawn as bars are.
    pub(super) fn alone(silent: bool, text: impl Fn() -> String + Send + 'static) -> Self {
        let style = ProgressStyle::with_template("{msg}").expect("the template is valid");
        Self::on(
            ProgressBar::with_draw_target(None, progress::target(silent)).with_style(style),
            text,
        )
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
        self.bar.finish_and_clear();
    }
}
