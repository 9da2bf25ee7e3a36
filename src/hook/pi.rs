//! pi. Contracts: version 0.74.2.

use serde_json::Value;

use crate::hook::HookError;
use crate::hook::keeper::Keeper;
use crate::hook::plug_in;
use crate::hook::plug_in::Message;

/// Returns the answer to the plug-in.
pub(super) fn answer(
    message: &Message<'_>,
    keeper: &Keeper<'_>,
) -> Result<Option<Value>, HookError> {
    plug_in::answer(message, keeper, |spill| spill)
}
