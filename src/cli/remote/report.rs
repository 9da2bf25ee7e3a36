//! The reports of a command, one for each conversation, and the problems that the command prints at
//! its end.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::{fmt, thread, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::{Context, Failure, FailureKind, progress};
use ctxfs_core::model::{Component, visible};
use ctxfs_sync::remote::{RemoteError, RepairReport};

const PROBLEMS: [&str; 2] = ["problem", "problems"];
const PROBLEMS_HINT: &str = "all else is done; mend what is named, and try again";

/// The reports of a command, one for each conversation. A failure of one conversation is recorded
/// as a problem. A failure of the bucket ends the command.
pub(crate) struct CommandReport<T> {
    pub(crate) reports: Vec<T>,
    pub(crate) others: Problems,
    problems: Problems,
    failure: Option<RemoteError>,
}

impl<T> CommandReport<T> {
    /// Calls `act` for each conversation. Unless `is_quiet` is true, shows the progress, and the
    /// reason if the command waits for the bucket.
    pub(crate) fn of_each(
        ids: &std::collections::BTreeSet<Component>,
        (verb, is_quiet): (&'static str, bool),
        bucket: &ctxfs_sync::bucket::Bucket,
        mut act: impl FnMut(&Component) -> Result<Option<T>, RemoteError>,
    ) -> Self {
        let bar = progress::count(verb, ids.len(), "conversations", is_quiet);
        let bucket = bucket.clone();
        let shown = WaitingBar::on(bar, move || match bucket.last_failure() {
            Some(why) => format!("{verb}: waiting for the bucket: {why}"),
            None => verb.to_owned(),
        });
        let mut done = Self {
            reports: Vec::new(),
            others: Problems::default(),
            problems: Problems::default(),
            failure: None,
        };
        for id in ids {
            match act(id) {
                Ok(report) => done.reports.extend(report),
                Err(error) if error.is_of_one_conversation() => {
                    done.problems.add(id.to_text(), error);
                }
                Err(error) => {
                    done.failure = Some(error);
                    break;
                }
            }
            shown.bar.inc(1);
        }
        done
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.reports.is_empty() && self.problems.0.is_empty() && self.failure.is_none()
    }

    /// Prints a line or an object for each report.
    pub(crate) fn print(
        &self,
        line: impl Fn(&T) -> String,
        value: impl Fn(&T) -> Value,
        context: &mut Context,
    ) -> anyhow::Result<()> {
        let lines = || self.reports.iter().map(line).collect();
        context.printer.report(lines, || self.reports.iter().map(value).collect())
    }

    /// Ends the command. Prints the problems, including those that `tell` adds for each report.
    /// Fails if there are any problems or if the bucket failed. `what` and `hint` describe the
    /// problems of the reports. If a whole conversation has failed, general texts replace both.
    pub(crate) fn end(
        self,
        tell: impl Fn(T, &mut Problems),
        (what, hint): ([&str; 2], &'static str),
        context: &mut Context,
    ) -> anyhow::Result<()> {
        let (what, hint) =
            if self.problems.0.is_empty() { (what, hint) } else { (PROBLEMS, PROBLEMS_HINT) };
        let mut problems = self.problems;
        problems.0.extend(self.others.0);
        for report in self.reports {
            tell(report, &mut problems);
        }
        let reported = problems.report(what, hint, context);
        self.failure.map_or(reported, |error| Err(error.into()))
    }
}

/// Problems of files or conversations, each with its reason. A command prints them at its end.
#[derive(Debug, Default)]
pub(crate) struct Problems(pub(crate) Vec<(String, String)>);

impl Problems {
    pub(crate) fn add(&mut self, what: impl Into<String>, why: impl fmt::Display) {
        self.0.push((what.into(), why.to_string()));
    }

    pub(crate) fn add_taken(&mut self, resent: &RepairReport) {
        for key in &resent.taken {
            let why = "the bucket has lost it, and has other bytes there now: delete that object \
                       with the tools of the store, then push the conversation again";
            self.add(key.as_str(), why);
        }
    }

    pub(crate) fn json(&self) -> Value {
        self.0.iter().map(|(what, why)| json!({ "path": what, "why": why })).collect()
    }

    /// Prints each problem, and fails if there are any. `what` is the noun for the problems, in
    /// singular and plural.
    pub(crate) fn report(
        &self,
        what: [&str; 2],
        hint: &str,
        context: &mut Context,
    ) -> anyhow::Result<()> {
        for (path, why) in &self.0 {
            context.printer.message(&format_args!(
                "{}: {}",
                visible::whole(path),
                visible::whole(why)
            ));
        }
        let count = match self.0.len() {
            0 => return Ok(()),
            1 => format!("1 {}", what[0]),
            count => format!("{count} {}", what[1]),
        };
        Err(Failure::new(FailureKind::Failed, count, hint).into())
    }
}

const SOON: Duration = Duration::from_secs(1);

/// A message that states what a command waits for. It appears only if the wait takes more than a
/// second.
pub(crate) struct WaitingBar {
    bar: ProgressBar,
    stop: Option<Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl WaitingBar {
    // Calls `text` every second on a separate thread, unless `bar` is hidden.
    fn on(bar: ProgressBar, text: impl Fn() -> String + Send + 'static) -> Self {
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

    pub(crate) fn alone(silent: bool, text: impl Fn() -> String + Send + 'static) -> Self {
        let style = ProgressStyle::with_template("{msg}").expect("the template is valid");
        Self::on(
            ProgressBar::with_draw_target(None, progress::target(silent)).with_style(style),
            text,
        )
    }
}

impl Drop for WaitingBar {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
        self.bar.finish_and_clear();
    }
}
