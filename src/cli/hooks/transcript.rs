//! The transcripts of hosts: files with one message per line, to which a host appends.
//!
//! [`copy`] appends the messages of a transcript to the message log of the conversation. Each
//! message gets an id that depends on the transcript alone, and messages whose id is in the log are
//! skipped. So a transcript can be copied again, also after a copy that was cut short.
//!
//! The formats belong to Claude Code 2.1.332, Codex 0.171.0 and pi 0.74.2. Hidden reasoning is
//! left out, and `[image]` stands for an image.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::hooks::event::{EventText, HookError, MOST_BLOCKS, Spill, of_mcp};
use crate::hooks::{Host, keeper::OpenConversation};
use ctxfs_core::model::ShortList;
use ctxfs_engine::{EngineError, MessageWriter};

// Less than the deadline of the hook.
const TIME: Duration = Duration::from_secs(8);
// Maximum size in bytes of a line. Longer lines are skipped.
const LINE: u64 = 32 << 20;
const BLOCK: usize = 256 << 10;
const BATCH: usize = 256 << 10;
// Types of lines that hold a message.
const KINDS: [&str; 5] = ["assistant", "attachment", "message", "response_item", "user"];
// Types of blocks without anything that was said.
const HIDDEN: [&str; 3] = ["reasoning", "redacted_thinking", "thinking"];
const ROLES: [&str; 3] = ["assistant", "toolResult", "user"];
const ID: &str = r#"{"id":""#;
const MOST_ID: usize = 256;
const REFERENCE: &str = "ref: ctx://";
const HEAD_LINES: usize = 12;
const SHOWN: usize = 200;

#[derive(Deserialize)]
struct TranscriptLine<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<EventText<'a>>,
    #[serde(borrow)]
    uuid: Option<EventText<'a>>,
    #[serde(borrow)]
    id: Option<EventText<'a>>,
    #[serde(borrow)]
    timestamp: Option<EventText<'a>>,
    #[serde(borrow, alias = "payload", alias = "attachment")]
    message: Option<&'a RawValue>,
}

// A message, or a part of one. The type determines which fields are present.
#[derive(Deserialize)]
struct MessageBlock<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<EventText<'a>>,
    #[serde(borrow)]
    role: Option<EventText<'a>>,
    #[serde(borrow)]
    text: Option<EventText<'a>>,
    #[serde(borrow)]
    id: Option<EventText<'a>>,
    #[serde(borrow, alias = "tool_use_id", alias = "toolCallId")]
    call_id: Option<EventText<'a>>,
    #[serde(borrow)]
    name: Option<EventText<'a>>,
    #[serde(borrow, alias = "input")]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, alias = "output", alias = "prompt")]
    content: Option<&'a RawValue>,
    #[serde(alias = "isError")]
    is_error: Option<bool>,
}

/// A message as it is appended to the log. `id` comes first in its JSON.
#[derive(Debug, Default, Serialize)]
struct LoggedMessage {
    id: String,
    role: &'static str,
    #[serde(rename = "toolName", skip_serializing_if = "Option::is_none")]
    tool_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
    content: String,
    #[serde(rename = "isError", skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<LoggedCall>,
    #[serde(rename = "createdAt", skip_serializing_if = "Option::is_none")]
    created_at: Option<String>,
    #[serde(rename = "fullOutputPath", skip_serializing_if = "Option::is_none")]
    full_output_path: Option<String>,
}

#[derive(Debug, Serialize)]
struct LoggedCall {
    id: String,
    function: LoggedFunction,
}

#[derive(Debug, Serialize)]
struct LoggedFunction {
    name: String,
    arguments: String,
}

/// Appends the messages of `transcript` that are not in the log of the conversation yet, for at
/// most [`TIME`]. Returns how many were appended. Appends nothing if another process copies the
/// same transcript.
pub(crate) fn copy(
    open: &OpenConversation,
    transcript: &Path,
    host: Host,
) -> Result<usize, HookError> {
    let until = Instant::now() + TIME;
    let Some(Spill { file, .. }) = Spill::open_alone(transcript)? else { return Ok(0) };
    let mut log = MessageWriter::open(&open.engine, open.conversation.id())?;
    let mut known = HashSet::new();
    log.each_start(MOST_ID, |start| {
        let start = String::from_utf8_lossy(start);
        let id = start.strip_prefix(ID).and_then(|rest| rest.split_once('"'));
        known.extend(id.map(|(id, _)| digest(id)));
    })?;
    let mut lines = TranscriptLines::of(file, transcript, host);
    let (mut batch, mut added) = (Vec::new(), 0);
    while Instant::now() < until
        && let Some(messages) = lines.next_messages(&known).map_err(EngineError::from)?
    {
        for message in messages {
            if known.insert(digest(&message.id)) {
                serde_json::to_writer(&mut batch, &message)?;
                batch.push(b'\n');
                added += 1;
            }
        }
        if batch.len() > BATCH {
            log.write(&batch)?;
            batch.clear();
        }
    }
    log.write(&batch)?;
    log.finish()?;
    Ok(added)
}

/// Returns what an agent wrote: its texts, and a line for each call, in the order of the transcript.
pub(crate) fn written(transcript: &Path) -> Result<String, HookError> {
    let file = Spill::open(transcript)?.file;
    let mut lines = TranscriptLines::of(file, transcript, Host::ClaudeCode);
    let mut text = String::new();
    let known = HashSet::new();
    while let Some(messages) = lines.next_messages(&known).map_err(EngineError::from)? {
        for message in messages.iter().filter(|message| message.role == "assistant") {
            if !message.content.is_empty() {
                add_line(&mut text, &message.content);
            }
            for LoggedCall { function: LoggedFunction { name, arguments }, .. } in
                &message.tool_calls
            {
                let arguments: String = arguments.chars().take(SHOWN).collect();
                add_line(&mut text, &format!("-> {name} {arguments}"));
            }
        }
    }
    Ok(text)
}

fn digest(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// Reads the messages of a transcript. `names` has the tools of the calls that have no result yet.
struct TranscriptLines {
    file: BufReader<File>,
    host: Host,
    stem: String,
    offset: u64,
    line: Vec<u8>,
    names: HashMap<String, String>,
}

impl TranscriptLines {
    fn of(file: File, path: &Path, host: Host) -> Self {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let file = BufReader::with_capacity(BLOCK, file);
        Self { file, host, stem, offset: 0, line: Vec::new(), names: HashMap::new() }
    }

    /// Returns the messages of the next line, and `None` at the end. A line without messages, and
    /// one that cannot be read, has none. A last line without a newline is still being written.
    /// Messages that are `known` may be left out.
    fn next_messages(&mut self, known: &HashSet<u64>) -> io::Result<Option<Vec<LoggedMessage>>> {
        self.line.clear();
        let start = self.offset;
        let read = self.file.by_ref().take(LINE).read_until(b'\n', &mut self.line)?;
        self.offset += read as u64;
        if self.line.last() != Some(&b'\n') {
            let rest = self.file.skip_until(b'\n')?;
            self.offset += rest as u64;
            let is_end = rest == 0;
            return Ok((!is_end).then(Vec::new));
        }
        let line = std::mem::take(&mut self.line);
        let messages = self.messages(&line, start, known).unwrap_or_default();
        self.line = line;
        Ok(Some(messages))
    }

    fn messages(
        &mut self,
        line: &[u8],
        offset: u64,
        known: &HashSet<u64>,
    ) -> Option<Vec<LoggedMessage>> {
        let line: TranscriptLine<'_> = serde_json::from_slice(line).ok()?;
        let kind = line.kind.filter(|kind| KINDS.contains(&&*kind.0))?;
        let id = line.uuid.or(line.id).map(|id| id.0.into_owned());
        let id = id.unwrap_or_else(|| format!("{}:{offset}", self.stem));
        // All messages of a line are appended at once. Lines with calls are read for their names.
        if kind.0 == "user" && known.contains(&digest(&id)) {
            return None;
        }
        let message: MessageBlock<'_> = serde_json::from_str(line.message?.get()).ok()?;
        let role = match &message.role {
            // A prompt that the user entered while the model worked.
            None if kind.0 == "attachment" => {
                message.kind.as_ref().filter(|kind| kind.0 == "queued_command")?;
                "user"
            }
            None => "assistant",
            Some(role) => ROLES.into_iter().find(|known| role.0 == *known)?,
        };
        let mut found = Vec::new();
        let mut said = LoggedMessage { role, ..LoggedMessage::default() };
        let blocks = match (&message.role, message.content) {
            (Some(_), Some(content)) if role != "toolResult" && content.get().starts_with('[') => {
                let blocks: ShortList<MessageBlock<'_>, MOST_BLOCKS> =
                    serde_json::from_str(content.get()).ok()?;
                blocks.0
            }
            (Some(_), Some(content)) if role != "toolResult" => {
                said.content = text_of(content);
                Vec::new()
            }
            (None, Some(content)) if role == "user" => {
                said.content = text_of(content);
                Vec::new()
            }
            _ => vec![message],
        };
        for block in blocks {
            self.add(block, &mut said, &mut found);
        }
        if !said.content.is_empty() || !said.tool_calls.is_empty() {
            found.push(said);
        }
        let created_at = line.timestamp.map(|time| time.0.into_owned());
        for (number, message) in found.iter_mut().enumerate() {
            message.id = if number == 0 { id.clone() } else { format!("{id}/{number}") };
            message.created_at.clone_from(&created_at);
        }
        Some(found)
    }

    fn add(
        &mut self,
        block: MessageBlock<'_>,
        said: &mut LoggedMessage,
        results: &mut Vec<LoggedMessage>,
    ) {
        let is_result = block.role.as_ref().is_some_and(|role| role.0 == "toolResult");
        let kind =
            if is_result { "tool_result" } else { block.kind.as_ref().map_or("", |kind| &kind.0) };
        let call = block.call_id.as_ref().or(block.id.as_ref()).map(|id| id.0.to_string());
        match kind {
            "text" | "input_text" | "output_text" => {
                add_line(&mut said.content, block.text.as_ref().map_or("", |text| &text.0));
            }
            "tool_use" | "toolCall" | "function_call" | "custom_tool_call" => {
                let (id, name) = (call.unwrap_or_default(), block.name.unwrap_or_default().0);
                let name = match of_mcp(&name) {
                    Some((server, tool)) => format!("{server}/{tool}"),
                    None => format!("{}/{name}", self.host),
                };
                // Codex has the JSON of the arguments in a string.
                let text = |raw: &RawValue| match serde_json::from_str(raw.get()) {
                    Ok(EventText(text)) => text.into_owned(),
                    Err(_) => raw.get().to_owned(),
                };
                let arguments = block.arguments.map(text).unwrap_or_default();
                self.names.insert(id.clone(), name.clone());
                let function = LoggedFunction { name, arguments };
                said.tool_calls.push(LoggedCall { id, function });
            }
            "tool_result" | "function_call_output" | "custom_tool_call_output" => {
                let content = block.content.map(text_of).unwrap_or_default();
                results.push(LoggedMessage {
                    role: "tool",
                    tool_name: call.as_ref().and_then(|call| self.names.remove(call)),
                    tool_call_id: call,
                    full_output_path: stored_output(&content),
                    is_error: block.is_error.unwrap_or_default(),
                    content,
                    ..LoggedMessage::default()
                });
            }
            kind if HIDDEN.contains(&kind) => {}
            kind => add_line(&mut said.content, &format!("[{kind}]")),
        }
    }
}

fn add_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

// Returns the text of a content: a string, or a list of blocks. Any other value is shown as JSON.
fn text_of(content: &RawValue) -> String {
    if let Ok(EventText(text)) = serde_json::from_str(content.get()) {
        return text.into_owned();
    }
    let blocks: Result<ShortList<MessageBlock<'_>, MOST_BLOCKS>, _> =
        serde_json::from_str(content.get());
    let Ok(blocks) = blocks else { return content.get().to_owned() };
    let mut text = String::new();
    for MessageBlock { kind, text: part, .. } in blocks.0 {
        let kind = kind.unwrap_or_default();
        add_line(&mut text, &part.map_or_else(|| format!("[{}]", kind.0).into(), |part| part.0));
    }
    text
}

// Returns the reference to the output whose stand-in `content` is.
fn stored_output(content: &str) -> Option<String> {
    let mut head = content.lines().take(HEAD_LINES).map(str::trim_start);
    head.find(|line| line.starts_with("[ctxfs] "))?;
    let (_, reference) = head.find_map(|line| line.split_once(REFERENCE))?;
    let reference = reference.split_whitespace().next()?;
    Some(format!("ctx://{reference}"))
}
