//! The messages of the plug-ins for opencode and pi, and their answers.

use std::borrow::Cow;
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::hooks::HookError;
use crate::hooks::event_text::Text;
use crate::hooks::keeper::Keeper;
use crate::hooks::policy::ResultKind;
use crate::hooks::tool_result::{Output, Spill, ToolResult};

/// The tool that runs commands, in both hosts.
const SHELL: &str = "bash";

/// A message of a plug-in: the result of a call, or that a conversation goes on.
#[derive(Deserialize)]
pub(super) struct Message<'a> {
    /// The conversation.
    #[serde(borrow)]
    conv: Cow<'a, str>,
    /// Why the conversation goes on, such as `compact`; absent for the result of a call.
    #[serde(borrow)]
    event: Option<Text<'a>>,
    #[serde(borrow, default)]
    tool: Cow<'a, str>,
    #[serde(borrow, default)]
    call: Cow<'a, str>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    /// The texts of the result.
    #[serde(borrow, default)]
    text: Text<'a>,
    /// The file in which the host kept all of it.
    #[serde(borrow)]
    path: Option<Cow<'a, str>>,
    exit: Option<i32>,
}

/// Returns the answer `{text}`. `check` says what is wrong with a file of the host.
pub(super) fn answer(
    message: &Message<'_>,
    keeper: &Keeper<'_>,
    check: impl Fn(Spill) -> Spill,
) -> Result<Option<Value>, HookError> {
    if message.event.is_some() {
        let text = keeper.pointers(&message.conv, message.event.as_ref())?;
        return Ok(text.map(|text| json!({ "text": text })));
    }
    let output = match &message.path {
        Some(path) => Output::Spill(check(Spill::open(Path::new(&**path))?)),
        None => Output::Text(Cow::Borrowed(&message.text.0)),
    };
    let text = keeper.stand_in(ToolResult {
        conversation: &message.conv,
        call: Cow::Borrowed(&message.call),
        agent: None,
        server: None,
        tool: &message.tool,
        args: message.input,
        exit_code: message.exit,
        duration_ms: None,
        kind: match &*message.tool {
            SHELL => ResultKind::of_command(message.exit),
            _ => ResultKind::Text,
        },
        output,
    })?;
    Ok(text.map(|text| json!({ "text": text })))
}
