//! One conversation after the other.

use std::collections::BTreeSet;

use crate::cli::context::Context;
use crate::cli::progress;
use crate::cli::remote::problems::Problems;
use crate::model::Component;
use crate::remote::RemoteError;

/// The reports of a command on several conversations, until something failed that concerns them
/// all.
pub(super) struct Done<T> {
    /// The reports of those in which something was to be done.
    pub(super) reports: Vec<T>,
    pub(super) failure: Option<RemoteError>,
}

impl<T> Done<T> {
    /// Does something in each conversation. Shows how far that is, unless `is_quiet`.
    pub(super) fn in_each(
        ids: &BTreeSet<Component>,
        (verb, is_quiet): (&'static str, bool),
        mut act: impl FnMut(&Component) -> Result<Option<T>, RemoteError>,
    ) -> Self {
        let bar = progress::count(verb, ids.len(), "conversations", is_quiet);
        let mut done = Self { reports: Vec::new(), failure: None };
        for id in ids {
            match act(id) {
                Ok(report) => done.reports.extend(report),
                Err(error) => {
                    done.failure = Some(error);
                    break;
                }
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        done
    }

    /// Ends the command: with the failure, or else with the `problems` of the reports, if there are
    /// any; see [`Problems::report`].
    pub(super) fn end(
        self,
        problems: impl Fn(T) -> Problems,
        (what, hint): ([&str; 2], &'static str),
        context: &mut Context,
    ) -> anyhow::Result<()> {
        if let Some(error) = self.failure {
            return Err(error.into());
        }
        let mut all = Problems::default();
        for report in self.reports {
            all.extend(problems(report));
        }
        all.report(what, hint, context)
    }
}
