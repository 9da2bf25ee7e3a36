//! The hooks of agent hosts: an event in the JSON of a host comes in, its answer goes out.
//!
//! A host calls its hook after each tool call. If the output is long, it is taken into the store,
//! and the answer has the host give the model the stand-in. Each host has an adapter, one file: it
//! knows the host's JSON, its names and what it cuts off. `keeper` is the rest, alike for all of
//! them.
//!
//! An adapter answers nothing where it is not sure, and never decides about permissions.

mod claude_code;
mod codex;
mod content_blocks;
mod copilot;
mod event_text;
mod gemini_cli;
mod host;
mod keeper;
mod machine;
mod opencode;
mod pi;
mod plug_in;
mod pointers;
mod policy;
mod tool_result;

use serde_json::Value;

use ctxfs_engine::EngineError;

pub use host::Host;
pub use keeper::{Action, OpenConversation, Shelf};
pub use machine::Machine;
pub use policy::{OutputLength, ReplacePolicy, Replaced, ResultKind, ShownWhole};

use keeper::Keeper;

/// The most bytes of an event. One of the hosts sends outputs whole.
pub const MAX_EVENT: u64 = 64 << 20;

/// An error that leaves the host's own result as it is.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// The event is not what the adapter knows of its host.
    #[error("this is no event of {host}: {error}")]
    Event {
        /// The host that was named.
        host: Host,
        /// The reason.
        error: serde_json::Error,
    },
    /// JSON in an event is not what the adapter knows; [`answer`] makes it [`Self::Event`].
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A file in which the host kept the output cannot be read.
    #[error("cannot read the output of the host in `{path}`: {error}")]
    Spill {
        /// The file.
        path: String,
        /// The reason.
        error: std::io::Error,
    },
    /// The store cannot be opened.
    #[error("{0}")]
    Store(String),
    /// The output cannot be taken in, or shown.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The answer of a hook, and what it did.
#[derive(Debug)]
pub struct Answer {
    /// The text for the host. `None` leaves everything as it is.
    pub text: Option<String>,
    /// The treatment of the event.
    pub action: Action,
}

/// Answers one event of `host`.
pub fn answer(
    host: Host,
    event: &[u8],
    machine: &Machine,
    shelf: &dyn Shelf,
) -> Result<Answer, HookError> {
    let keeper = Keeper::new(host, shelf);
    let answer = of_host(host, event, machine, &keeper).map_err(|error| match error {
        HookError::Json(error) => HookError::Event { host, error },
        other => other,
    })?;
    let action = keeper.action();
    Ok(Answer { text: answer.map(|answer| answer.to_string()), action })
}

fn of_host(
    host: Host,
    event: &[u8],
    machine: &Machine,
    keeper: &Keeper<'_>,
) -> Result<Option<Value>, HookError> {
    match host {
        Host::ClaudeCode => claude_code::answer(&serde_json::from_slice(event)?, machine, keeper),
        Host::Codex => codex::answer(&serde_json::from_slice(event)?, keeper),
        Host::Opencode => opencode::answer(&serde_json::from_slice(event)?, keeper),
        Host::GeminiCli => gemini_cli::answer(&serde_json::from_slice(event)?, keeper),
        Host::Copilot => copilot::answer(&serde_json::from_slice(event)?, keeper),
        Host::Pi => pi::answer(&serde_json::from_slice(event)?, keeper),
    }
}
