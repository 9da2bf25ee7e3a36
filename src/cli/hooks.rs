//! The hooks of agent hosts. This module turns a JSON event of a host into the answer to that host.
//!
//! A host calls its hook after each tool call. A long output is stored, and the answer makes the
//! host show the stand-in to its model. Each host has an adapter, which handles the JSON format and
//! the names of the host, and its rules for cutting outputs. `keeper` does the rest for all
//! adapters.
//!
//! If an adapter cannot interpret an event, it returns no answer. It never decides about
//! permissions.

#![expect(missing_docs, reason = "names that say it all have no doc")]

mod claude_code;
mod codex;
mod copilot;
mod cursor;
mod event;
mod gemini_cli;
mod host;
mod keeper;
mod plug_in;
mod session;
mod sub_agent;
mod transcript;
mod vs_code;

pub use crate::hooks::event::HookError;
pub use crate::hooks::host::{
    Host, Machine, OutputLength, ReplacePolicy, Replaced, ResultKind, ShownWhole,
};
pub use crate::hooks::keeper::{Action, OpenConversation, Shelf};

/// Maximum size in bytes of an event. At least one host sends whole outputs.
pub const MAX_EVENT: u64 = 64 << 20;

/// The answer to an event, and the action that was taken. Without `text`, the host continues as if
/// it had no hook.
#[derive(Debug)]
pub struct Answer {
    /// The text for standard output, in the JSON format of the host.
    pub text: Option<String>,
    pub action: Action,
}

/// Answers an event of `host`. After an error, the host keeps its own result. The output may
/// already be stored when the error occurs.
pub fn answer(
    host: Host,
    event: &[u8],
    machine: &Machine,
    shelf: &dyn Shelf,
) -> Result<Answer, HookError> {
    let directory = session::directory(event, machine);
    let keeper = keeper::OutputKeeper::new(host, directory.clone(), shelf);
    let answer = of_host(host, event, machine, &keeper).map_err(|error| match error {
        HookError::Json(error) => HookError::Event { host, error },
        other => other,
    })?;
    // What is not noted of a session changes no answer.
    let noted = session::note(host, event, directory, shelf);
    drop(noted.inspect_err(|error| tracing::debug!(%error, "the session is not noted")));
    let action = keeper.action.get();
    Ok(Answer { text: answer.map(|answer| answer.to_string()), action })
}

fn of_host(
    host: Host,
    event: &[u8],
    machine: &Machine,
    keeper: &keeper::OutputKeeper<'_>,
) -> Result<Option<serde_json::Value>, HookError> {
    match host {
        Host::ClaudeCode => match serde_json::from_slice(event) {
            Ok(event) => claude_code::answer(&event, machine, keeper),
            // VS Code runs the hooks of Claude Code, too, earlier with other names of fields. The
            // hooks of Copilot store its outputs.
            Err(_) if vs_code::is_event(event) => Ok(None),
            Err(error) => Err(error.into()),
        },
        Host::Codex => codex::answer(&serde_json::from_slice(event)?, keeper),
        Host::Opencode => {
            plug_in::answer(&serde_json::from_slice(event)?, keeper, plug_in::check_opencode_file)
        }
        Host::GeminiCli => gemini_cli::answer(&serde_json::from_slice(event)?, keeper),
        Host::Copilot if vs_code::is_event(event) => {
            vs_code::answer(&serde_json::from_slice(event)?, keeper)
        }
        Host::Copilot => copilot::answer(&serde_json::from_slice(event)?, keeper),
        Host::Cursor => cursor::answer(&serde_json::from_slice(event)?, keeper),
        Host::Pi => plug_in::answer(&serde_json::from_slice(event)?, keeper, |spill| spill),
    }
}
