//! opencode. Contracts: version 1.18.33.
//!
//! The host writes an output over 50 KB to a file, in blocks, and may lose the last one.

use serde_json::Value;

use crate::hooks::keeper::Keeper;
use crate::hooks::plug_in::Message;
use crate::hooks::tool_result::Spill;
use crate::hooks::{HookError, plug_in};

/// Bytes that the host writes at once: files that lacked their end had a multiple of it.
const BLOCK: u64 = 8192;

/// Returns the answer to the plug-in.
pub(super) fn answer(
    message: &Message<'_>,
    keeper: &Keeper<'_>,
) -> Result<Option<Value>, HookError> {
    plug_in::answer(message, keeper, |mut spill: Spill| {
        if spill.length.is_multiple_of(BLOCK) {
            spill.incomplete = Some("the host may have lost the end of it".to_owned());
        }
        spill
    })
}
