//! Storing long outputs of messages as artifacts, with their beginning left in the log.

mod comparing;

use std::ffi::OsStr;
use std::io;
use std::io::Read;
use std::os::unix::ffi::OsStrExt as _;

use crate::materialize::Analyzer;
use crate::message::AppendContext;
use crate::message::LongOutput;
use crate::message::MessageError;
use crate::message::Preview;
use crate::message::json_string::JsonStringReader;
use crate::message::layout::MessageLayout;
use crate::message::layout::MessageMember;
use crate::message::offload::comparing::ComparingWriter;
use crate::message::span::Span;
use crate::message::span::SpanReader;
use crate::model::Component;
use crate::model::Content;
use crate::model::Folder;
use crate::model::Limits;
use crate::model::Provenance;
use crate::model::RelPath;
use crate::model::is_scratch;
use crate::store::Dir;
use crate::store::FileType;
use crate::store::OutputLock;
use crate::store::call_stem;

/// The most bytes of an output that may be a stand-in for a stored one.
const STAND_IN: u64 = 1 << 20;

/// The change to a message whose output is stored as an artifact.
pub(super) struct Offload {
    /// The span of the output.
    content: Span,
    /// True if the output is a list of parts.
    is_list: bool,
    /// The span of `fullOutputPath`, if the message has one.
    path: Option<Span>,
    preview: Preview,
}

/// The output in a message.
struct MessageOutput<'a> {
    line: &'a dyn Content,
    /// The span of the JSON value, without blanks before it.
    span: Span,
    /// The first byte of the value, which tells its type.
    first: u8,
}

impl Offload {
    /// Returns true if a message may have an output to store: it is a tool's.
    pub(super) fn may_be_needed(
        line: &dyn Content,
        layout: &MessageLayout,
    ) -> Result<bool, MessageError> {
        Ok(layout.short(line, MessageMember::Role)?.as_deref() == Some("tool"))
    }

    /// Stores the output of a tool's message if it is too long for the log. Returns `None` if the
    /// message stays as it is.
    pub(super) fn of(
        line: &dyn Content,
        layout: &MessageLayout,
        context: &AppendContext<'_>,
    ) -> Result<Option<Self>, MessageError> {
        let Some(output) =
            layout.span(MessageMember::Content).map(|span| MessageOutput::of(line, span))
        else {
            return Ok(None);
        };
        let output = output?;
        let tool = layout.short(line, MessageMember::ToolName)?;
        let limits = context.host.limits(tool.as_deref());
        let length = output.length_over(limits.message_threshold)?;
        let refers = layout.short(line, MessageMember::FullOutputPath)?;
        let (Some(length), false) =
            (length, refers.is_some_and(|path| context.host.is_stored(&path)))
        else {
            return Ok(None);
        };
        if output.is_stand_in(length, &limits, context)? {
            return Ok(None);
        }
        let call = match layout.short(line, MessageMember::ToolCallId)? {
            Some(call) => call,
            None => match layout.short(line, MessageMember::Id)? {
                Some(id) => id,
                None => output.digest()?,
            },
        };
        context.host.allow_storing()?;
        let path = output.keep(&call, tool, length, context)?;
        let preview = context.host.preview(&path)?;
        Ok(Some(Self {
            is_list: output.first == b'[',
            content: output.span,
            path: layout.span(MessageMember::FullOutputPath).cloned(),
            preview,
        }))
    }

    /// Returns the replacements to make in the line.
    pub(super) fn edits(self) -> Vec<(Span, String)> {
        let text = serde_json::Value::from(self.preview.text);
        let mut content = if self.is_list {
            serde_json::json!([{ "type": "text", "text": text }]).to_string()
        } else {
            text.to_string()
        };
        let path = serde_json::Value::from(self.preview.full_output_path).to_string();
        let mut edits = Vec::with_capacity(2);
        match self.path {
            Some(span) => edits.push((span, path)),
            None => content = format!("{content},\"fullOutputPath\":{path}"),
        }
        edits.push((self.content, content));
        edits
    }
}

impl<'a> MessageOutput<'a> {
    fn of(line: &'a dyn Content, span: &Span) -> io::Result<Self> {
        let mut reader = SpanReader::new(line, span.clone());
        let mut start = span.start;
        while let Some(byte) = reader.next()? {
            if !byte.is_ascii_whitespace() {
                return Ok(Self { line, span: start..span.end, first: byte });
            }
            start += 1;
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    /// Returns a reader of the text of a string, or of the JSON of anything else.
    fn reader(&self) -> io::Result<Box<dyn Read + 'a>> {
        let span = SpanReader::new(self.line, self.span.clone());
        Ok(if self.first == b'"' { Box::new(JsonStringReader::new(span)?) } else { Box::new(span) })
    }

    /// Returns the length in bytes if it is more than `limit`.
    fn length_over(&self, limit: u64) -> io::Result<Option<u64>> {
        // JSON is never shorter than the text in it, and other types of values are short.
        if self.span.end - self.span.start <= limit || !b"\"[{".contains(&self.first) {
            return Ok(None);
        }
        let length = io::copy(&mut self.reader()?, &mut io::sink())?;
        Ok(Some(length).filter(|length| *length > limit))
    }

    fn is_stand_in(
        &self,
        length: u64,
        limits: &Limits,
        context: &AppendContext<'_>,
    ) -> io::Result<bool> {
        if length > STAND_IN {
            return Ok(false);
        }
        let mut bytes = Vec::with_capacity(length as usize);
        self.reader()?.read_to_end(&mut bytes)?;
        context.host.is_stand_in(&bytes, limits)
    }

    /// Returns a name for an output without a call id. It depends only on the bytes.
    fn digest(&self) -> io::Result<String> {
        let mut analyzer = Analyzer::new();
        let mut reader = self.reader()?;
        let mut block = vec![0; crate::message::BLOCK];
        loop {
            match reader.read(&mut block)? {
                0 => return Ok(format!("message-{}", &analyzer.finish().digest[..32])),
                count => analyzer.push(&block[..count]),
            }
        }
    }

    /// Returns the artifact of the call that has exactly these bytes, and stores it if there is
    /// none.
    ///
    /// Whoever wrote that artifact, and whatever else it may hold, it is not changed: an earlier
    /// message may refer to it.
    fn keep(
        &self,
        call: &str,
        tool: Option<String>,
        length: u64,
        context: &AppendContext<'_>,
    ) -> Result<RelPath, MessageError> {
        // With the lock, the second of two messages of one call finds the output of the first.
        let _lock = OutputLock::wait(context.conversation)?;
        for path in outputs_of(call, &context.conversation.folder(Folder::Tool)?)? {
            if self.is_at(&path, length, context)? {
                return Ok(path);
            }
        }
        let call = call.to_owned();
        let provenance = Provenance { call: Some(call.clone()), tool, ..Provenance::default() };
        context.host.take_in(LongOutput { call, provenance, length, content: self.reader()? })
    }

    /// Returns true if the file at `path` has the bytes that storing this output there would write.
    fn is_at(&self, path: &RelPath, length: u64, context: &AppendContext<'_>) -> io::Result<bool> {
        let Some(mut comparing) = ComparingWriter::with(context.conversation, path, length)? else {
            return Ok(false);
        };
        match context.host.write_stored(&mut self.reader()?, &mut comparing) {
            Ok(()) => Ok(true),
            Err(_) if comparing.differs() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Returns the files that are named after a call, with any number and extension, in the order of
/// their names.
fn outputs_of(call: &str, dir: &Dir) -> io::Result<Vec<RelPath>> {
    let stem = call_stem(call);
    let is_named = |name: &OsStr| {
        let rest = name.as_bytes().strip_prefix(stem.as_os_str().as_bytes());
        rest.is_some_and(is_number_and_extension)
    };
    let found = dir.entries()?.into_iter().filter(|entry| {
        entry.kind == FileType::File && !is_scratch(&entry.name) && is_named(&entry.name)
    });
    let mut names: Vec<_> = found.filter_map(|entry| Component::new(entry.name).ok()).collect();
    names.sort_unstable_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
    Ok(names.iter().map(|name| RelPath::artifact(Folder::Tool, name)).collect())
}

/// Returns true for `.txt`, `-2.txt` and the like.
fn is_number_and_extension(rest: &[u8]) -> bool {
    let mut parts = rest.splitn(2, |byte| *byte == b'.');
    let number = parts.next().unwrap_or_default();
    let digits = number.strip_prefix(b"-").unwrap_or(number);
    let is_numbered = number.is_empty() || !digits.is_empty() && number[0] == b'-';
    let extension = parts.next().unwrap_or_default();
    is_numbered && digits.iter().all(u8::is_ascii_digit) && !extension.contains(&b'.')
}
