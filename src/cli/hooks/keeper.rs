//! The core of the adapters: which outputs are long, taking them in, and the stand-in.

use std::cell::Cell;
use std::io;
use std::io::{Read as _, Seek as _, Write as _};
use std::sync::Arc;

use crate::hooks::event_text::Text;
use crate::hooks::host::Host;
use crate::hooks::policy::{CHAR_BYTES, OutputLength, ReplacePolicy, Replaced, ResultKind};
use crate::hooks::tool_result::{Output, Spill, ToolResult};
use crate::hooks::{HookError, pointers};
use ctxfs_core::model::{Limits, Provenance};
use ctxfs_engine::{
    Engine, EngineError, NewOutput, OutputName, Replace, StandInRequest, StoredOutput, is_stand_in,
};
use ctxfs_store::Conversation;
use ctxfs_view::{Audience, Form, StandIn};

/// The most bytes of a view, with its notice. What is longer is no view that was read.
const VIEW: u64 = Limits::VIEW_BYTES as u64 + 4096;
/// The most bytes of an output that may be a stand-in.
const STAND_IN: u64 = 64 * 1024;
/// Bytes up to which a file is counted: no host shows as much.
const COUNTED: u64 = 1 << 20;
/// Bytes that are read at once.
const BLOCK: usize = 64 * 1024;

/// The sources of sessions that have outputs of earlier calls.
const SOURCES: [&str; 3] = ["resume", "compact", "fork"];

/// The treatment of an event. Programs may rely on the names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Nothing: it is no event with an output, or none that can be kept.
    #[default]
    Passed,
    /// The model gets the host's own result: the output is short, or its stand-in would not pay.
    Short,
    /// The output was read from the mount, or is a stand-in.
    Own,
    /// The output was stored, and the model gets the stand-in.
    Kept,
    /// The model was told what is stored.
    Told,
}

/// The settings and the store, opened only when they are needed.
pub trait Shelf {
    /// Returns the limits for the outputs of a tool.
    fn limits(&self, tool: &str) -> Limits;

    /// Returns the settings on which outputs are replaced.
    fn policy(&self) -> ReplacePolicy;

    /// Opens a conversation, which is created if it is missing.
    fn open(&self, id: &str) -> Result<OpenConversation, HookError>;

    /// Opens a conversation, if it is there.
    fn find(&self, id: &str) -> Result<Option<OpenConversation>, HookError>;
}

/// A conversation, and the engine over its store.
#[derive(Debug)]
pub struct OpenConversation {
    /// The engine.
    pub engine: Arc<Engine>,
    /// The conversation.
    pub conversation: Arc<Conversation>,
}

/// The core of all adapters.
pub(super) struct Keeper<'a> {
    host: Host,
    shelf: &'a dyn Shelf,
    action: Cell<Action>,
}

impl<'a> Keeper<'a> {
    pub(super) fn new(host: Host, shelf: &'a dyn Shelf) -> Self {
        Self { host, shelf, action: Cell::default() }
    }

    /// Returns what was done last.
    pub(super) fn action(&self) -> Action {
        self.action.get()
    }

    /// Notes what was done, where the adapter does it.
    pub(super) fn note(&self, action: Action) {
        self.action.set(action);
    }

    /// Takes a result in if it is long, and returns what goes to the model in its place.
    pub(super) fn stand_in(&self, result: ToolResult<'_>) -> Result<Option<String>, HookError> {
        let (action, text) = self.treat(result)?;
        self.note(action);
        Ok(text)
    }

    fn treat(&self, result: ToolResult<'_>) -> Result<(Action, Option<String>), HookError> {
        let provenance = self.provenance(&result);
        let limits = self.shelf.limits(&provenance.tool_name().unwrap_or_default());
        let policy = self.shelf.policy();
        let shown = policy.shown_whole(self.host, result.kind);
        let mut output = result.output;
        let length = output.length_up_to(limits.max_inline_bytes.max(COUNTED))?;
        // A host hands over a file where it has cut the output. That of a failure is found instead.
        let is_spilled =
            matches!(output, Output::Spill(_)) && result.kind != ResultKind::FailedCommand;
        let is_cut = is_spilled || !shown.holds(length);
        let is_left = limits.are_kept_by(length.bytes, length.chars)
            || (policy.replaced == Replaced::Cut && !is_cut);
        if is_left && !limits.mirror {
            return Ok((Action::Short, None));
        }
        if output.length() <= VIEW && provenance.args.as_deref().is_some_and(names_artifact) {
            return Ok((Action::Own, None));
        }
        let open = self.shelf.open(result.conversation)?;
        if let Output::Text(text) = &output
            && output.length() <= STAND_IN
            && is_stand_in(&open.engine, text.as_bytes(), &limits).map_err(EngineError::from)?
        {
            return Ok((Action::Own, None));
        }
        let stored = take_in(&open, result.call.into_owned(), provenance, &mut output)?;
        let request = StandInRequest {
            form: Form::Summary,
            replace: match is_cut {
                _ if limits.mirror => Replace::OverLimits,
                true => Replace::TooLong,
                false => Replace::Economy,
            },
            seen: false,
            audience: Audience { tools: &[], is_stored: &|_| false },
        };
        let answer = stored.stand_in(&open.engine, &request)?;
        open.engine.finish();
        Ok(match answer {
            StandIn::Replaced(text) if shown.holds(OutputLength::of(text.as_bytes())) => {
                (Action::Kept, Some(text))
            }
            StandIn::Replaced(_) | StandIn::Unchanged => (Action::Short, None),
        })
    }

    /// Makes the store if it is missing, and no conversation in it.
    pub(super) fn make_store(&self, id: &str) -> Result<(), HookError> {
        self.shelf.find(id).map(drop)
    }

    /// Returns what a model is told when the conversation `id` goes on. A host names the `source`
    /// of each session; one that is new has nothing to be told of.
    pub(super) fn pointers(
        &self,
        id: &str,
        source: Option<&Text<'_>>,
    ) -> Result<Option<String>, HookError> {
        let goes_on = source.is_some_and(|source| SOURCES.contains(&&*source.0));
        let Some(open) = goes_on.then(|| self.shelf.find(id)).transpose()?.flatten() else {
            return Ok(None);
        };
        let text = pointers::of(&open.engine, open.conversation.id())?;
        if text.is_some() {
            self.note(Action::Told);
        }
        Ok(text)
    }

    fn provenance(&self, result: &ToolResult<'_>) -> Provenance {
        Provenance {
            call: Some(result.call.clone().into_owned()),
            agent: result.agent.as_ref().map(|agent| agent.id.to_owned()),
            agent_type: result.agent.as_ref().and_then(|agent| agent.kind.map(str::to_owned)),
            tool: Some(result.tool.to_owned()),
            server: Some(result.server.unwrap_or(self.host.name()).to_owned()),
            args: result.args.map(|args| args.get().to_owned()),
            exit_code: result.exit_code,
            duration_ms: result.duration_ms,
            mime: None,
        }
    }
}

impl Output<'_> {
    /// Returns the length in bytes.
    fn length(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Spill(spill) => spill.length,
        }
    }

    /// Counts the output. Of a file of more than `most` bytes it says the least that there can be.
    fn length_up_to(&mut self, most: u64) -> Result<OutputLength, EngineError> {
        Ok(match self {
            Self::Text(text) => OutputLength::of(text.as_bytes()),
            Self::Spill(spill) if spill.length > most => {
                OutputLength { chars: spill.length / CHAR_BYTES, bytes: spill.length, newlines: 0 }
            }
            Self::Spill(spill) => spill.counted()?,
        })
    }
}

impl Spill {
    fn counted(&mut self) -> io::Result<OutputLength> {
        let (mut block, mut length) = (vec![0; BLOCK], OutputLength::default());
        loop {
            match self.file.read(&mut block)? {
                0 => break,
                count => length.add(&block[..count]),
            }
        }
        self.file.rewind()?;
        Ok(length)
    }
}

/// Returns true if arguments name a file of the tree, as those of a call that reads one.
fn names_artifact(args: &str) -> bool {
    ["/artifacts/tool/", "/artifacts/terminal/"].iter().any(|part| args.contains(part))
}

/// Stores an output. Fails unless all of it is stored: then the host's own result is worth more.
fn take_in(
    open: &OpenConversation,
    call: String,
    provenance: Provenance,
    output: &mut Output<'_>,
) -> Result<StoredOutput, EngineError> {
    let length = Some(output.length());
    let new = NewOutput { name: OutputName::Call(call), provenance, length };
    let mut intake = open.engine.intake(&open.conversation, new)?;
    let incomplete = match output {
        Output::Text(text) => {
            intake.write_all(text.as_bytes())?;
            None
        }
        Output::Spill(spill) => {
            io::copy(&mut spill.file, &mut intake)?;
            spill.incomplete.as_deref()
        }
    };
    intake.finish()?;
    match incomplete {
        Some(why) => intake.seal_incomplete(why),
        None => intake.seal(),
    }
}
