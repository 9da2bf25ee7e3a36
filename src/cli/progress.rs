//! Progress bars for long jobs, on standard error if that is a terminal.

#[cfg(feature = "remote")]
use std::sync::mpsc;
#[cfg(feature = "remote")]
use std::sync::mpsc::RecvTimeoutError;
#[cfg(feature = "remote")]
use std::sync::mpsc::Sender;
#[cfg(feature = "remote")]
use std::thread;
#[cfg(feature = "remote")]
use std::thread::JoinHandle;
#[cfg(feature = "remote")]
use std::time::Duration;

use indicatif::ProgressBar;
use indicatif::ProgressDrawTarget;
use indicatif::ProgressStyle;

/// The template of a bar: amount, speed and remaining time.
const STYLE: &str =
    "{msg} [{bar:30}] {decimal_bytes}/{decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left";
/// The template for a job of unknown size.
const OPEN_STYLE: &str = "{msg} {decimal_bytes}, {decimal_bytes_per_sec}";

/// Returns a bar that counts to `total` bytes, if that is known. It disappears when it is dropped.
///
/// Draws nothing if standard error is not a terminal, or if `silent` is set.
pub(super) fn bar(what: &str, total: Option<u64>, silent: bool) -> ProgressBar {
    let target = if silent { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let template = if total.is_some() { STYLE } else { OPEN_STYLE };
    let style = ProgressStyle::with_template(template);
    let style = style.expect("the template is valid").progress_chars("=> ");
    ProgressBar::with_draw_target(total, target).with_style(style).with_message(what.to_owned())
}

/// Returns a bar that counts to `total` things, which `unit` names. It draws as [`bar`] does.
#[cfg(feature = "remote")]
pub(super) fn count(what: &str, total: usize, unit: &str, silent: bool) -> ProgressBar {
    let target = if silent { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let template = format!("{{msg}} [{{bar:30}}] {{human_pos}}/{{human_len}} {unit}");
    let style = ProgressStyle::with_template(&template);
    let style = style.expect("the template is valid").progress_chars("=> ");
    let bar = ProgressBar::with_draw_target(Some(total as u64), target);
    bar.with_style(style).with_message(what.to_owned())
}

/// The time after which a person is told what is waited for, and how often that is asked.
#[cfg(feature = "remote")]
const SOON: Duration = Duration::from_secs(1);

/// A bar that tells what is waited for, where that takes more than a second. It disappears when it
/// is dropped.
#[cfg(feature = "remote")]
pub(super) struct Waiting {
    pub(super) bar: ProgressBar,
    /// Ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[cfg(feature = "remote")]
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

    /// Shows what `text` returns, without a bar. It is drawn as [`bar`] is.
    pub(super) fn alone(silent: bool, text: impl Fn() -> String + Send + 'static) -> Self {
        let target =
            if silent { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let style = ProgressStyle::with_template("{msg}").expect("the template is valid");
        Self::on(ProgressBar::with_draw_target(None, target).with_style(style), text)
    }
}

#[cfg(feature = "remote")]
impl Drop for Waiting {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
        self.bar.finish_and_clear();
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
