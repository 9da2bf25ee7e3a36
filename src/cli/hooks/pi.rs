//! pi. Contracts: version 0.74.2.

use serde_json::Value;

use crate::hooks::keeper::Keeper;
use crate::hooks::plug_in::Message;
use crate::hooks::{HookError, plug_in};

/// Returns the answer to the plug-in.
pub(super) fn answer(
    message: &Message<'_>,
    keeper: &Keeper<'_>,
) -> Result<Option<Value>, HookError> {
    plug_in::answer(message, keeper, |spill| spill)
}
