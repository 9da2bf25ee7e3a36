//! Problems of single files, which a command tells at its end.

use std::fmt;

use serde_json::{Value, json};

use crate::context::Context;
use crate::outcome::{Failure, FailureKind};
use ctxfs_core::model::visible;
use ctxfs_sync::remote::Resent;

/// The problems, each with its reason.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<(String, String)>);

impl Problems {
    /// Adds something that went wrong with `what`.
    pub(super) fn add(&mut self, what: impl Into<String>, why: impl fmt::Display) {
        self.0.push((what.into(), why.to_string()));
    }

    /// Adds what could not be sent again, as something else has its key.
    pub(super) fn add_taken(&mut self, resent: &Resent) {
        for key in &resent.taken {
            let why = "the bucket has lost it, and has other bytes there now: delete that object \
                       with the tools of the store, then push the conversation again";
            self.add(key.as_str(), why);
        }
    }

    /// Returns true if there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns them for programs.
    pub(super) fn json(&self) -> Value {
        self.0.iter().map(|(what, why)| json!({ "path": what, "why": why })).collect()
    }

    /// Adds all of `others`.
    pub(super) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Prints each, and fails if there are any. `what` is what they are: of one, and of several.
    pub(super) fn report(
        &self,
        what: [&str; 2],
        hint: &str,
        context: &mut Context,
    ) -> anyhow::Result<()> {
        for (path, why) in &self.0 {
            context.printer.say(&format_args!("{}: {}", visible::whole(path), visible::whole(why)));
        }
        let count = match self.0.len() {
            0 => return Ok(()),
            1 => format!("1 {}", what[0]),
            count => format!("{count} {}", what[1]),
        };
        Err(Failure::new(FailureKind::Failed, count, hint).into())
    }
}
