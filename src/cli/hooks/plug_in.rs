//! Adapter for opencode and pi. The plug-ins of both hosts send messages of the same form and
//! expect the answer `{text}`. The formats belong to opencode 1.18.33 and pi 0.74.2.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::hooks::event::{EventText, HookError, Spill, ToolOutput, ToolResult};
use crate::{hooks::host::ResultKind, hooks::keeper::OutputKeeper};

// The tool that runs commands, in both hosts.
const SHELL: &str = "bash";

#[derive(serde::Deserialize)]
pub(crate) struct PlugInMessage<'a> {
    #[serde(borrow)]
    conv: Cow<'a, str>,
    // The reason why the conversation continues, such as `compact`, or `messages` before the host
    // compacts it. Absent for the result of a call.
    #[serde(borrow)]
    event: Option<EventText<'a>>,
    #[serde(borrow, default)]
    tool: Cow<'a, str>,
    #[serde(borrow, default)]
    call: Cow<'a, str>,
    #[serde(borrow)]
    input: Option<&'a serde_json::value::RawValue>,
    #[serde(borrow, default)]
    text: EventText<'a>,
    // The file in which the host stored the whole output, or its messages.
    #[serde(borrow)]
    path: Option<Cow<'a, str>>,
    exit: Option<i32>,
}

pub(crate) fn answer(
    message: &PlugInMessage<'_>,
    keeper: &OutputKeeper<'_>,
    check: impl Fn(Spill) -> Spill,
) -> Result<Option<Value>, HookError> {
    if let (Some(event), Some(transcript)) = (&message.event, &message.path)
        && event.0 == "messages"
    {
        return keeper.copy_messages(&message.conv, transcript).map(|()| None);
    }
    if message.event.is_some() {
        let text = keeper.pointers(&message.conv, message.event.as_ref())?;
        return Ok(text.map(|text| json!({ "text": text })));
    }
    let output = match &message.path {
        Some(path) => ToolOutput::Spill(check(Spill::open(std::path::Path::new(&**path))?)),
        None => ToolOutput::Text(Cow::Borrowed(&message.text.0)),
    };
    let kind = match &*message.tool {
        SHELL => ResultKind::of_command(message.exit),
        _ => ResultKind::Text,
    };
    let (call, tool) = (Cow::Borrowed(&*message.call), (&*message.tool, message.input));
    let result = ToolResult::new(&message.conv, call, tool, output);
    let text = keeper.stand_in(ToolResult { exit_code: message.exit, kind, ..result })?;
    Ok(text.map(|text| json!({ "text": text })))
}

const OPENCODE_BLOCK: u64 = 8192;

/// Marks a file of opencode as incomplete if its length is a multiple of the block size. The host
/// writes an output over 50 KB to a file, and may lose the last block.
pub(crate) fn check_opencode_file(mut spill: Spill) -> Spill {
    if spill.length.is_multiple_of(OPENCODE_BLOCK) {
        spill.incomplete = Some("the host may have lost the end of it".to_owned());
    }
    spill
}
