//! The common part of all adapters. It decides which outputs are long, stores them, and creates
//! their stand-ins.

use std::collections::HashSet;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::time::{Duration, SystemTime};
use std::{cell::Cell, path::Path, sync::Arc};

use crate::hooks::event::{EventText, HookError, Spill, ToolOutput, ToolResult};
use crate::hooks::host::{CHAR_BYTES, Host, OutputLength, ReplacePolicy, Replaced, ResultKind};
use crate::hooks::transcript;
use ctxfs_core::model::{Folder, Limits, NameError, Provenance, RelPath};
use ctxfs_engine::{
    Engine, EngineError, ListedArtifact, NewOutput, OutputName, Replace, StandInRequest,
    StoredOutput, is_stand_in,
};
use ctxfs_store::About;
use ctxfs_view::{Audience, Form, StandIn, Title};

// Maximum size in bytes of a view with its notice. A longer output cannot be a view that the call
// has read.
const VIEW: u64 = Limits::VIEW_BYTES as u64 + 4096;
// Maximum size in bytes of a stand-in. A longer output cannot be a stand-in.
const STAND_IN: u64 = 64 * 1024;
// No host shows more than this number of bytes, so a longer file need not be counted.
const COUNTED: u64 = 1 << 20;
const BLOCK: usize = 64 * 1024;

// Sources of sessions that may have outputs of earlier calls.
const SOURCES: [&str; 3] = ["resume", "compact", "fork"];

/// The action that was taken for an event. The names appear in `hook.log`, and programs may rely on
/// them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Nothing was done, because the event has no output that can be stored.
    #[default]
    Passed,
    /// The host's own result is kept, because the output is short or its stand-in would not be
    /// sufficiently shorter.
    Short,
    /// The host's own result is kept, because the output was read from the mount or is a stand-in.
    Own,
    /// The output was stored, and the model receives the stand-in.
    Kept,
    /// A report, messages or an output were stored to be searched later. The host's own result is
    /// kept, and the model is told at most where a report is.
    Stored,
    /// The model was informed which outputs are stored.
    Told,
}

/// Access to the settings and the store. Adapters open the store only for a long output, because
/// most events do not need it.
pub trait Shelf {
    /// Returns the limits for the outputs of a tool.
    fn limits(&self, tool: &str) -> Limits;

    /// Returns the settings that determine which outputs are replaced.
    fn policy(&self) -> ReplacePolicy;

    /// Mounts the store and makes the links of filters, each if the settings want that. Returns a
    /// text for the model if the store cannot be mounted.
    fn begin_session(&self) -> Option<String>;

    /// Opens a conversation, and creates it if it is missing.
    fn open(&self, id: &str) -> Result<OpenConversation, HookError>;

    /// Opens a conversation if it exists.
    fn find(&self, id: &str) -> Result<Option<OpenConversation>, HookError>;

    /// Returns the facts about a conversation as a whole, without opening the store. Returns `None`
    /// if the conversation does not exist.
    fn about(&self, id: &str) -> Option<About>;
}

/// A conversation, and the engine over its store.
#[derive(Debug)]
pub struct OpenConversation {
    pub engine: Arc<Engine>,
    pub conversation: Arc<ctxfs_store::Conversation>,
}

pub(crate) struct OutputKeeper<'a> {
    host: Host,
    // The working directory of the session, in which the host runs commands.
    directory: Option<String>,
    shelf: &'a dyn Shelf,
    pub(crate) action: Cell<Action>,
}

impl<'a> OutputKeeper<'a> {
    pub(crate) fn new(host: Host, directory: Option<String>, shelf: &'a dyn Shelf) -> Self {
        Self { host, directory, shelf, action: Cell::default() }
    }

    /// Stores a result if it is long, and returns the text that replaces it for the model. Returns
    /// `None` if the host's own result is kept.
    pub(crate) fn stand_in(&self, result: ToolResult<'_>) -> Result<Option<String>, HookError> {
        let (action, text) = self.process(result)?;
        self.action.set(action);
        Ok(text)
    }

    fn process(&self, result: ToolResult<'_>) -> Result<(Action, Option<String>), HookError> {
        let provenance = self.provenance(&result);
        let limits = self.shelf.limits(&provenance.tool_name().unwrap_or_default());
        let policy = self.shelf.policy();
        let shown = policy.shown_whole(self.host, result.kind);
        let (mut output, is_replaceable) = (result.output, result.is_replaceable);
        let length = output.length_up_to(limits.max_inline_bytes.max(COUNTED))?;
        // A host passes a file if it has cut the output. For a failure, the file is searched for
        // instead.
        let is_spilled =
            matches!(output, ToolOutput::Spill(_)) && result.kind != ResultKind::FailedCommand;
        let is_cut = is_spilled || !shown.holds(length);
        let is_left = limits.are_kept_by(length.bytes, length.chars)
            || (is_replaceable && policy.replaced == Replaced::Cut && !is_cut);
        let is_command = matches!(result.kind, ResultKind::Command | ResultKind::FailedCommand);
        let has_failed = result.kind == ResultKind::FailedCommand
            || result.exit_code.is_some_and(|code| code != 0);
        let is_stored =
            policy.stores_shown(&limits, length, has_failed) && !(is_command && policy.has_shell);
        if is_left && !limits.mirror && !is_stored {
            return Ok((Action::Short, None));
        }
        if output.length() <= VIEW && provenance.args.as_deref().is_some_and(names_artifact) {
            return Ok((Action::Own, None));
        }
        let open = self.shelf.open(result.conversation)?;
        if let ToolOutput::Text(text) = &output
            && output.length() <= STAND_IN
            && is_stand_in(&open.engine, text.as_bytes(), &limits).map_err(EngineError::from)?
        {
            return Ok((Action::Own, None));
        }
        let stored = store_output(&open, result.call.into_owned(), provenance, &mut output, None)?;
        if !is_replaceable || (is_left && !limits.mirror) {
            open.engine.finish();
            return Ok((Action::Stored, None));
        }
        let request = StandInRequest {
            form: Form::Summary,
            replace: match is_cut {
                _ if limits.mirror => Replace::OverLimits,
                true => Replace::TooLong,
                false => Replace::Economy,
            },
            seen: false,
            audience: Audience { tools: &[], is_stored: &|_| false, above: b"" },
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

    /// Stores a result of any length. `incomplete` is the reason why it is not whole. Returns the
    /// path under which the model can read it.
    pub(crate) fn store(
        &self,
        result: ToolResult<'_>,
        incomplete: Option<&str>,
    ) -> Result<String, HookError> {
        let provenance = self.provenance(&result);
        let open = self.shelf.open(result.conversation)?;
        let (call, mut output) = (result.call.into_owned(), result.output);
        let stored = store_output(&open, call, provenance, &mut output, incomplete)?;
        open.engine.finish();
        self.action.set(Action::Stored);
        Ok(stored.place().file())
    }

    /// Returns true if the call `call` of the conversation `id` has a text in the store.
    pub(crate) fn is_stored(&self, id: &str, call: &str) -> Result<bool, HookError> {
        let open = self.shelf.find(id)?;
        let path = RelPath::new(format!("{}/{call}.txt", Folder::Tool.path())).ok();
        let found = open.zip(path).map(|(open, path)| open.conversation.dir().stat_at(&path));
        Ok(found.is_some_and(|found| found.is_ok()))
    }

    /// Copies the messages of a transcript that are new into the log of the conversation `id`.
    pub(crate) fn copy_messages(&self, id: &str, transcript: &str) -> Result<(), HookError> {
        let open = self.shelf.open(id)?;
        if transcript::copy(&open, Path::new(transcript), self.host)? > 0 {
            self.action.set(Action::Stored);
        }
        open.engine.finish();
        Ok(())
    }

    /// Opens the store for the conversation `id`, and creates the store if it is missing.
    pub(crate) fn make_store(&self, id: &str) -> Result<(), HookError> {
        self.shelf.find(id).map(drop)
    }

    /// Mounts the store, and returns the text that tells the model about earlier outputs of the
    /// conversation `id`. `source` is the reason why the host starts a session, such as `resume`.
    /// Returns `None` for a new conversation, and if no output is stored. If the store cannot be
    /// mounted, the text says so first.
    pub(crate) fn pointers(
        &self,
        id: &str,
        source: Option<&EventText<'_>>,
    ) -> Result<Option<String>, HookError> {
        let unmounted = self.shelf.begin_session();
        let goes_on = source.is_some_and(|source| SOURCES.contains(&&*source.0));
        let open = goes_on.then(|| self.shelf.find(id)).transpose()?.flatten();
        let stored = open.map(|open| map_of(&open));
        let text: String = unmounted.into_iter().chain(stored.transpose()?.flatten()).collect();
        if text.is_empty() {
            return Ok(None);
        }
        self.action.set(Action::Told);
        Ok(Some(text))
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
            host: Some(self.host.name().to_owned()),
            directory: self.directory.clone(),
            ..Provenance::default()
        }
    }
}

impl ToolOutput<'_> {
    fn length(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Spill(spill) => spill.length,
        }
    }

    // Returns the length of the output. For a file of more than `most` bytes, returns a lower
    // bound, which assumes that all characters have the longest encoding.
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

// If the arguments name an artifact, the call has probably read a file of the mount.
fn names_artifact(args: &str) -> bool {
    ["/artifacts/tool/", "/artifacts/terminal/"].iter().any(|part| args.contains(part))
}

// Stores `output`. Fails if a part of it cannot be stored, because the host's own result is then
// better than a stand-in. A file that the host has cut is stored as incomplete.
fn store_output(
    open: &OpenConversation,
    call: String,
    provenance: Provenance,
    output: &mut ToolOutput<'_>,
    incomplete: Option<&str>,
) -> Result<StoredOutput, EngineError> {
    let length = Some(output.length());
    let new = NewOutput { name: OutputName::Call(call), provenance, length };
    let mut intake = open.engine.intake(&open.conversation, new)?;
    let incomplete = match output {
        ToolOutput::Text(text) => {
            intake.write_all(text.as_bytes())?;
            incomplete
        }
        ToolOutput::Spill(spill) => {
            io::copy(&mut spill.file, &mut intake)?;
            spill.incomplete.as_deref().or(incomplete)
        }
    };
    intake.finish()?;
    match incomplete {
        Some(why) => intake.seal_incomplete(why),
        None => intake.seal(),
    }
}

// Maximum size of a map in bytes.
const MAP: usize = 1000;
// Maximum number of characters of a title in a map.
const TITLE: usize = 60;

const HEAD: &str = "[ctxfs] Outputs of earlier calls are stored whole, also those that are cleared from \
                    the context. Read them instead of running the calls again:\n";

struct MapRow {
    created: i64,
    has_failed: bool,
    title: Option<String>,
    line: String,
}

/// Returns the map of a conversation: its outputs, as many as fit, by their commands and how these
/// ended, and how to search the rest. The last run of a command stands for all its runs. The newest
/// output that failed comes first, then the newest of the others, and so on in turns.
///
/// Returns `None` if the conversation has no outputs.
fn map_of(open: &OpenConversation) -> Result<Option<String>, EngineError> {
    let (engine, conversation) = (&open.engine, &open.conversation);
    let id = conversation.id();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut rows = engine.list_artifacts(id, |artifact| map_row(artifact, now))?.rows;
    let all = rows.len();
    if all == 0 {
        return Ok(None);
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.created));
    let mut titles = HashSet::new();
    rows.retain(|row| row.title.as_ref().is_none_or(|title| titles.insert(title.clone())));
    let mut ranks = [0, 1];
    let ranked = rows.into_iter().map(|row| {
        let rank = &mut ranks[usize::from(!row.has_failed)];
        *rank += 2;
        (*rank, row)
    });
    let mut ranked: Vec<(usize, MapRow)> = ranked.collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    let place = |path: &str| -> Result<String, NameError> {
        Ok(engine.options.place(id, &RelPath::new(path)?).file())
    };
    let messages = match conversation.last_message() {
        Some(_) => format!("messages: {}\n", place("history/messages.jsonl.grep/PATTERN")?),
        None => String::new(),
    };
    let search = format!("search: {}\n", place(".grep/PATTERN")?);
    let ways = format!("read: {} or PATH.summary\n{messages}{search}", place("artifacts/PATH")?);
    let mut text = HEAD.to_owned();
    let more = |told: usize| match all - told {
        0 => String::new(),
        rest => format!("and {rest} more\n"),
    };
    // The names of a mountpoint and of a conversation may be long.
    let fits = |ways: &&str| HEAD.len() + more(0).len() + ways.len() <= MAP;
    let ways = [&*ways, &*search, ""].into_iter().find(fits).unwrap_or_default();
    let mut told = 0;
    for (_, row) in &ranked {
        if text.len() + row.line.len() + more(told).len() + ways.len() > MAP {
            break;
        }
        text.push_str(&row.line);
        told += 1;
    }
    Ok(Some(text + &more(told) + ways))
}

fn map_row(artifact: &ListedArtifact, now: Duration) -> MapRow {
    let ListedArtifact { path, stat, record } = artifact;
    let title = Title::of(&record.provenance).map(|title| title.to_string());
    let outcome = Some(ctxfs_view::outcome(record, record.analysis.as_ref()));
    let created = Duration::from_millis(record.created.try_into().unwrap_or(0));
    let facts = [
        outcome.filter(|outcome| !outcome.is_empty()),
        Some(format!("{} bytes", stat.size)),
        Some(format!("{} ago", ctxfs_view::age(now.saturating_sub(created)))),
    ];
    let facts = facts.into_iter().flatten().collect::<Vec<String>>().join(", ");
    let known = title.clone().or_else(|| record.provenance.tool_name());
    let shown = known.map(|known| match ctxfs_view::cleaned(&known, TITLE) {
        cut if cut.len() < known.len() => format!("{cut}...: "),
        whole => format!("{whole}: "),
    });
    let path = path.to_text();
    let path = path.strip_prefix("artifacts/").unwrap_or(&path);
    let line = format!("{}{facts}: {path}", shown.unwrap_or_default());
    let line = line.replace(char::is_control, " ") + "\n";
    let has_failed = record.provenance.exit_code.is_some_and(|code| code != 0);
    MapRow { created: record.created, has_failed, title, line }
}
