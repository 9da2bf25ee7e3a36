//! One conversation after the other.

use std::collections::BTreeSet;

use crate::context::Context;
use crate::progress;
use crate::remote::problems::Problems;
use crate::remote::waiting::Waiting;
use ctxfs_core::model::Component;
use ctxfs_sync::bucket::Bucket;
use ctxfs_sync::remote::RemoteError;

/// The problems, where some concern a whole conversation.
const ANY: [&str; 2] = ["problem", "problems"];
const ANY_HINT: &str = "all else is done; mend what is named, and try again";

/// The reports of a command on several conversations, until something failed that concerns them
/// all.
pub(super) struct Done<T> {
    /// The reports of those in which something was to be done.
    pub(super) reports: Vec<T>,
    /// What is wrong with no conversation that was worked on, as reports tell of theirs.
    pub(super) others: Problems,
    /// The failures that concern one conversation alone.
    problems: Problems,
    failure: Option<RemoteError>,
}

impl<T> Done<T> {
    /// Does something in each conversation. Shows how far that is, and why `bucket` is waited for,
    /// unless `is_quiet`.
    pub(super) fn in_each(
        ids: &BTreeSet<Component>,
        (verb, is_quiet): (&'static str, bool),
        bucket: &Bucket,
        mut act: impl FnMut(&Component) -> Result<Option<T>, RemoteError>,
    ) -> Self {
        let bar = progress::count(verb, ids.len(), "conversations", is_quiet);
        let asked = bucket.clone();
        let shown = Waiting::on(bar, move || match asked.last_failure() {
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

    /// Returns true if nothing was to be done, and nothing failed.
    pub(super) fn is_nothing(&self) -> bool {
        self.reports.is_empty() && self.problems.is_empty() && self.failure.is_none()
    }

    /// Ends the command: tells the problems, with those that `tell` adds of each report, and fails
    /// with the failure, or if there are problems; see [`Problems::report`]. `what` and `hint` are
    /// about the problems of reports.
    pub(super) fn end(
        self,
        tell: impl Fn(T, &mut Problems),
        (what, hint): ([&str; 2], &'static str),
        context: &mut Context,
    ) -> anyhow::Result<()> {
        let (what, hint) = if self.problems.is_empty() { (what, hint) } else { (ANY, ANY_HINT) };
        let mut problems = self.problems;
        problems.extend(self.others);
        for report in self.reports {
            tell(report, &mut problems);
        }
        let told = problems.report(what, hint, context);
        self.failure.map_or(told, |error| Err(error.into()))
    }
}
