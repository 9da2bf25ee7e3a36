//! Telling which places of the store a command could not read.

use serde_json::{Value, json};

use crate::context::Context;
use crate::outcome::{Failure, FailureKind};
use ctxfs_core::model::visible;
use ctxfs_store::UnreadPlaces;

/// Ends a command that has done the rest: as `find` and `du`, it prints what it could not read, and
/// fails if there is anything.
pub(super) fn report(unread: &UnreadPlaces, context: &mut Context) -> anyhow::Result<()> {
    let hint = "the rest is done; make it readable for this user, or remove it";
    report_with(unread, hint, context)
}

/// Does that, with another next step.
pub(super) fn report_with(
    unread: &UnreadPlaces,
    hint: &'static str,
    context: &mut Context,
) -> anyhow::Result<()> {
    let Some((first, others)) = unread.named().split_first() else { return Ok(()) };
    for place in others {
        context.printer.say(&format_args!("cannot read {}", visible::whole(&place.to_string())));
    }
    let others = match unread.count() - 1 {
        0 => String::new(),
        1 => ", and 1 more place".to_owned(),
        more => format!(", and {more} more places"),
    };
    Err(Failure::new(
        FailureKind::Failed,
        format!("cannot read {}{others}", visible::whole(&first.to_string())),
        hint,
    )
    .into())
}

/// Returns the places for programs: the first of them, each with the reason.
pub(super) fn value(unread: &UnreadPlaces) -> Value {
    unread.named().iter().map(|place| json!({ "path": place.path, "why": place.why })).collect()
}
