//! Stores a part of a result and builds the text that replaces it.

use std::io::{self, Write as _};

use crate::pending::ToolCall;
use crate::results::parts::{PartKind, ResultPart};
use crate::shelf::{GatewayConversation, LazyShelf, Scratch};
use ctxfs_core::model::{Content as _, Limits, Provenance};
use ctxfs_engine::{
    EngineError, NewOutput, OutputName, Replace, StandInRequest, StoredOutput, is_stand_in, pays,
};
use ctxfs_view::{Audience, Form, StandIn};

// Texts above this size in bytes are never stand-ins.
const STAND_IN: u64 = 64 * 1024;
// Maximum length in bytes of the URI of an embedded resource that is recorded.
const MAX_URI: usize = 8 << 10;
const READING_HINT: &str = "tools:  context_read reads these names, context_grep searches them\n";

/// The kind of text that replaces a part: only the name of the stored part, or a stand-in with an
/// excerpt. [`Replace`] is the condition under which the part is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InPlace {
    Name(Replace),
    StandIn(Replace),
}

pub(crate) struct StoredStandIn {
    pub(crate) text: String,
    pub(crate) uri: String,
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) mime: String,
    pub(crate) hint: String,
}

/// Stores the parts of one result as outputs of its call. The first part has the call's id as its
/// name, and further parts get other names. The record has the tool, arguments and duration of the
/// call.
pub(crate) struct PartStore<'a> {
    open: GatewayConversation,
    has_tools: bool,
    pub(crate) call: &'a ToolCall,
    failed: bool,
}

impl<'a> PartStore<'a> {
    pub(crate) fn new(shelf: &LazyShelf, call: &'a ToolCall, failed: bool) -> Result<Self, String> {
        Ok(Self { open: shelf.open()?, has_tools: shelf.has_tools, call, failed })
    }

    /// Stores a part. Returns `None` if the part is kept in the result, because it is already a
    /// stand-in or because the replacement would not be shorter.
    pub(crate) fn keep_unless_stand_in(
        &self,
        part: &ResultPart<'_>,
        limits: &Limits,
        in_place: InPlace,
    ) -> Result<Option<StoredStandIn>, String> {
        if part.bytes <= STAND_IN
            && let Some(text) = &part.text
        {
            let is_stand_in = is_stand_in(&self.open.engine, text.as_bytes(), limits);
            if is_stand_in.map_err(|error| error.to_string())? {
                return Ok(None);
            }
        }
        self.keep(part, in_place)
    }

    pub(crate) fn keep(
        &self,
        part: &ResultPart<'_>,
        in_place: InPlace,
    ) -> Result<Option<StoredStandIn>, String> {
        self.keep_as(part, self.call.id.clone(), in_place)
    }

    /// Stores structured content in addition to another part. The structured content is always
    /// replaced, because a client may show it to its model instead of the text.
    pub(crate) fn keep_beside(
        &self,
        part: &ResultPart<'_>,
    ) -> Result<Option<StoredStandIn>, String> {
        let in_place = InPlace::Name(Replace::Always);
        self.keep_as(part, format!("{}.structured", self.call.id), in_place)
    }

    fn keep_as(
        &self,
        part: &ResultPart<'_>,
        name: String,
        in_place: InPlace,
    ) -> Result<Option<StoredStandIn>, String> {
        let stored = self.store(part, name).map_err(|error| error.to_string())?;
        self.kept(&stored, part, in_place).map_err(|error| error.to_string())
    }

    fn store(&self, part: &ResultPart<'_>, name: String) -> Result<StoredOutput, EngineError> {
        let mime = part.mime.clone().filter(|_| part.kind != PartKind::Structured);
        let uri = part.uri.clone().filter(|uri| uri.len() <= MAX_URI);
        let provenance = Provenance { uri, ..provenance(self.call, mime, self.failed) };
        let exact = part.text.as_ref().map(|text| text.len() as u64);
        let output = NewOutput { name: OutputName::Call(name), provenance, length: exact };
        let mut intake = self.open.engine.intake(&self.open.conversation, output)?;
        let written = part.write_to(&mut intake).and_then(|()| intake.finish());
        match written {
            Ok(()) => intake.seal(),
            Err(error) => {
                let why = error.to_string();
                let stored = intake.seal_incomplete(&why)?;
                let name = stored.place().reference();
                Err(io::Error::other(format!("{why}; what came before is in {name}")).into())
            }
        }
    }

    fn kept(
        &self,
        stored: &StoredOutput,
        part: &ResultPart<'_>,
        in_place: InPlace,
    ) -> Result<Option<StoredStandIn>, EngineError> {
        let reference = stored.reference(&self.open.engine)?;
        let text = match in_place {
            InPlace::Name(replace) => {
                let is_exempt = replace == Replace::Always || part.kind == PartKind::Binary;
                let text = self.brief(stored, &reference.hint);
                Some(text).filter(|text| is_exempt || pays(text, part.chars))
            }
            InPlace::StandIn(replace) => self.summary(stored, replace)?,
        };
        Ok(text.map(|text| StoredStandIn {
            text,
            uri: reference.id,
            name: stored.place().name().to_owned(),
            size: stored.content().len(),
            mime: reference.mime_type.unwrap_or_default(),
            hint: reference.hint,
        }))
    }

    fn brief(&self, stored: &StoredOutput, hint: &str) -> String {
        let file = stored.place().file();
        let is_named = !self.open.mounted && self.has_tools;
        let how = if is_named { " (read it with the tool context_read)" } else { "" };
        format!("[ctxfs] Stored whole, not shown here: {file}{how}\n{hint}")
    }

    fn summary(
        &self,
        stored: &StoredOutput,
        replace: Replace,
    ) -> Result<Option<String>, EngineError> {
        let request = StandInRequest {
            form: self.open.form,
            replace,
            seen: false,
            audience: Audience { tools: &[], is_stored: &|_| false, above: b"" },
        };
        let StandIn::Replaced(text) = stored.stand_in(&self.open.engine, &request)? else {
            return Ok(None);
        };
        let is_read_by_tools = self.has_tools && !self.open.mounted;
        let names_tools = is_read_by_tools && self.open.form == Form::Summary;
        Ok(Some(if names_tools { with_how(&text) } else { text }))
    }
}

fn with_how(text: &str) -> String {
    if text.len() + READING_HINT.len() > Limits::STAND_IN_BYTES {
        return text.to_owned();
    }
    match text.find("\n--- ") {
        Some(at) => format!("{}{READING_HINT}{}", &text[..=at], &text[at + 1..]),
        None => format!("{}\n{READING_HINT}", text.trim_end()),
    }
}

fn provenance(call: &ToolCall, mime: Option<String>, failed: bool) -> Provenance {
    let took = call.started.elapsed();
    Provenance {
        call: Some(call.id.clone()),
        tool: Some(call.tool.clone()),
        server: Some(call.server.clone()),
        args: call.arguments.clone(),
        exit_code: failed.then_some(1),
        duration_ms: Some(u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
        mime,
        ..Provenance::default()
    }
}

/// Stores the bytes of an unreadable message. Returns the name of the artifact.
pub(crate) fn keep_broken(
    shelf: &LazyShelf,
    call: &ToolCall,
    kept: &Scratch,
    why: &str,
) -> Option<String> {
    let open = shelf.open().ok()?;
    let output = NewOutput {
        name: OutputName::Call(call.id.clone()),
        provenance: provenance(call, None, true),
        length: None,
    };
    let mut intake = open.engine.intake(&open.conversation, output).ok()?;
    let (mut span, mut block) = (0..kept.length(), vec![0; STAND_IN as usize]);
    while let Ok(count @ 1..) = kept.read(&mut span, &mut block) {
        if intake.write_all(&block[..count]).is_err() {
            break;
        }
    }
    let stored = intake.seal_incomplete(why).ok()?;
    Some(stored.place().file())
}
