//! Stores long outputs of messages as artifacts and leaves their beginning in the log.
//!
//! In the message of a tool, the output is the content. In the message of an assistant, outputs are
//! the responses of calls in the text: `<function_call>{..., "response": ...}</function_call>`. To
//! find the calls, the text is decoded. The changes are then made in the encoded line.

use std::io::{self, BufRead as _, Read, Write};
use std::os::unix::ffi::OsStrExt as _;

use memchr::memmem;

use crate::message::layout::{
    JsonStringReader, LineSpan, MessageLayout, MessageMember, SpanReader,
};
use crate::message::{AppendContext, BLOCK, LongOutput, MessageError, Preview};
use crate::{Artifact, Conversation, Dir, FileType, StoreError, call_stem, file_lock, layout};
use ctxfs_core::model::{Component, Content, Folder, Limits, Provenance, RelPath, is_scratch};

/// Maximum length in bytes of an output that may be a stand-in for a stored one.
const STAND_IN: u64 = 1 << 20;
const OPENING: &[u8] = b"<function_call>";
const CLOSING: &[u8] = b"</function_call>";
const MAX_PARTS: usize = 1024;

type Replacement = (LineSpan, String);

pub(super) fn may_be_needed(
    line: &dyn Content,
    layout: &MessageLayout,
) -> Result<bool, MessageError> {
    let role = layout.short(line, MessageMember::Role)?;
    Ok(role.is_some_and(|role| ["tool", "assistant"].contains(&&*role)))
}

/// Stores the outputs of a message that are too long for the log. Returns the changes to make to
/// the line.
pub(super) fn edits(
    line: &dyn Content,
    layout: &MessageLayout,
    context: &AppendContext<'_>,
) -> Result<Vec<Replacement>, MessageError> {
    match layout.short(line, MessageMember::Role)?.as_deref() {
        Some("tool") => {
            let offload = Offload::of(line, layout, None, context)?;
            Ok(offload.map(Offload::edits).unwrap_or_default())
        }
        Some("assistant") => edits_of_calls(line, layout, context),
        _ => Ok(Vec::new()),
    }
}

/// The changes to an object whose output is stored as an artifact. `content` is the span of the
/// output and `path` the span of an existing path. If `is_list` is true, the output is a list and
/// is replaced by a list.
struct Offload {
    content: LineSpan,
    is_list: bool,
    path: Option<LineSpan>,
    preview: Preview,
}

impl Offload {
    /// Stores the output of an object if it is too long for the log. Returns `None` if the object
    /// does not change. If the object has no call id, the artifact is named after `id`.
    fn of(
        line: &dyn Content,
        layout: &MessageLayout,
        id: Option<&str>,
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
        let own_id = match layout.short(line, MessageMember::ToolCallId)? {
            None => layout.short(line, MessageMember::Id)?,
            id => id,
        };
        let call = match own_id.or_else(|| id.map(str::to_owned)) {
            Some(call) => call,
            None => output.digest()?,
        };
        context.host.allow_storing()?;
        let path = output.store(&call, tool, length, context)?;
        let preview = context.host.preview(&path)?;
        let path = layout.span(MessageMember::FullOutputPath);
        let path = path.map(|span| trim_number(line, span)).transpose()?;
        Ok(Some(Self { is_list: output.first == b'[', content: output.span, path, preview }))
    }

    fn edits(self) -> Vec<Replacement> {
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

/// Returns `span` without the extra byte that the span of a number may have at its end.
fn trim_number(line: &dyn Content, span: &LineSpan) -> io::Result<LineSpan> {
    let first = MessageOutput::of(line, span)?.first;
    let last = line.bytes(span.end - 1, 1)?;
    let is_more = (first == b'-' || first.is_ascii_digit()) && !last[0].is_ascii_digit();
    Ok(span.start..span.end - u64::from(is_more))
}

struct MessageOutput<'a> {
    line: &'a dyn Content,
    span: LineSpan,
    first: u8,
}

impl<'a> MessageOutput<'a> {
    fn of(line: &'a dyn Content, span: &LineSpan) -> io::Result<Self> {
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

    fn reader(&self) -> io::Result<Box<dyn Read + 'a>> {
        let span = SpanReader::new(self.line, self.span.clone());
        Ok(if self.first == b'"' { Box::new(JsonStringReader::new(span)?) } else { Box::new(span) })
    }

    fn length_over(&self, limit: u64) -> io::Result<Option<u64>> {
        // The JSON form of a text is never shorter than the text, and values of other types are
        // short.
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

    /// Returns a name for an output without a call id. The name depends only on the bytes of the
    /// output.
    fn digest(&self) -> io::Result<String> {
        let mut analyzer = ctxfs_core::materialize::Analyzer::new();
        let mut reader = self.reader()?;
        let mut block = vec![0; BLOCK];
        loop {
            match reader.read(&mut block)? {
                0 => return Ok(format!("message-{}", &analyzer.finish().digest[..32])),
                count => analyzer.push(&block[..count]),
            }
        }
    }

    /// Returns the path of the artifact of `call` that has exactly these bytes. Stores the artifact
    /// if there is none.
    ///
    /// An existing artifact with other bytes is not changed, because an earlier message may refer
    /// to it.
    fn store(
        &self,
        call: &str,
        tool: Option<String>,
        length: u64,
        context: &AppendContext<'_>,
    ) -> Result<RelPath, MessageError> {
        // Two messages of one call may be stored at the same time. With the lock, the second one
        // finds the output of the first.
        let conversation = context.conversation;
        let name = layout::OUTPUT_LOCK;
        let lock = file_lock::lock_by_name(
            conversation.dir(),
            name,
            crate::file_lock::LockKind::Exclusive,
        );
        let _lock =
            lock.map_err(|error| StoreError::io("lock", &conversation.path().join(name), error))?;
        for path in outputs_of(call, &context.conversation.folder(Folder::Tool)?)? {
            if self.is_at(&path, length, context)? {
                return Ok(path);
            }
        }
        let call = call.to_owned();
        let provenance = Provenance { call: Some(call.clone()), tool, ..Provenance::default() };
        context.host.take_in(LongOutput { call, provenance, length, content: self.reader()? })
    }

    fn is_at(&self, path: &RelPath, length: u64, context: &AppendContext<'_>) -> io::Result<bool> {
        let Some(mut comparing) = ComparingWriter::with(context.conversation, path, length)? else {
            return Ok(false);
        };
        match context.host.write_stored(&mut self.reader()?, &mut comparing) {
            Ok(()) => Ok(true),
            Err(_) if comparing.differs => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Returns the files that are named after `call`, with any number and extension, ordered by name.
fn outputs_of(call: &str, dir: &Dir) -> io::Result<Vec<RelPath>> {
    let stem = call_stem(call);
    let is_named = |name: &std::ffi::OsStr| {
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

/// Returns true if `rest` is an optional number and an extension, for example `.txt` or `-2.txt`.
fn is_number_and_extension(rest: &[u8]) -> bool {
    let mut parts = rest.splitn(2, |byte| *byte == b'.');
    let number = parts.next().unwrap_or_default();
    let digits = number.strip_prefix(b"-").unwrap_or(number);
    let is_numbered = number.is_empty() || !digits.is_empty() && number[0] == b'-';
    let extension = parts.next().unwrap_or_default();
    is_numbered && digits.iter().all(u8::is_ascii_digit) && !extension.contains(&b'.')
}

struct ComparingWriter {
    file: Artifact,
    at: u64,
    differs: bool,
}

impl ComparingWriter {
    /// Returns a writer that compares its input with the file at `path`. Returns `None` if the file
    /// does not have exactly `length` bytes.
    fn with(conversation: &Conversation, path: &RelPath, length: u64) -> io::Result<Option<Self>> {
        let file = Artifact::open(conversation.dir(), path)?;
        Ok((file.len() == length).then_some(Self { file, at: 0, differs: false }))
    }
}

impl Write for ComparingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.differs = self.file.bytes(self.at, bytes.len())? != bytes;
        self.at += bytes.len() as u64;
        if self.differs { Err(io::Error::other("other bytes")) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Stores the long outputs of calls in the text of a message. Returns the changes to make to the
/// line.
fn edits_of_calls(
    line: &dyn Content,
    layout: &MessageLayout,
    context: &AppendContext<'_>,
) -> Result<Vec<Replacement>, MessageError> {
    let Some(content) = layout.span(MessageMember::Content) else { return Ok(Vec::new()) };
    let mut edits = Vec::new();
    for text in texts(line, content)? {
        let reader = JsonStringReader::new(SpanReader::new(line, text.clone()))?;
        if contains(reader, OPENING)? {
            let id = none_if_refused(layout.short(line, MessageMember::Id))?.flatten();
            edits.extend(edits_of_text(line, &text, id.as_deref(), context)?);
        }
    }
    Ok(edits)
}

fn texts(line: &dyn Content, content: &LineSpan) -> io::Result<Vec<LineSpan>> {
    let first = |span: &LineSpan| MessageOutput::of(line, span).map(|value| value.first);
    match first(content)? {
        b'"' => return Ok(vec![content.clone()]),
        b'[' => {}
        _ => return Ok(Vec::new()),
    }
    let mut texts = Vec::new();
    for part in crate::message::layout::values_of_list(line, content.clone(), MAX_PARTS)? {
        let part = MessageLayout::of_part(line, part)?;
        let text = part.and_then(|part| part.span(MessageMember::Content).cloned());
        if let Some(text) = text
            && first(&text)? == b'"'
        {
            texts.push(text);
        }
    }
    Ok(texts)
}

fn edits_of_text(
    line: &dyn Content,
    string: &LineSpan,
    id: Option<&str>,
    context: &AppendContext<'_>,
) -> Result<Vec<Replacement>, MessageError> {
    let mut collected = crate::message::lines::CollectingWriter::new(context);
    let mut reader = JsonStringReader::new(SpanReader::new(line, string.clone()))?;
    io::copy(&mut reader, &mut collected)?;
    let text = collected.line.take()?;
    let mut finder = TextFinder::new(&text, OPENING);
    let (mut edits, mut at) = (Vec::new(), 0);
    while let Some(tag) = finder.find(at)? {
        at = tag + OPENING.len() as u64;
        let Some((call, end)) = call_at(&text, at)? else { continue };
        at = end;
        let offload = none_if_refused(Offload::of(&text, &call, id, context))?.flatten();
        edits.extend(offload.into_iter().flat_map(Offload::edits));
    }
    Ok(in_line(line, string, edits)?)
}

fn call_at(text: &dyn Content, start: u64) -> io::Result<Option<(MessageLayout, u64)>> {
    let Some((call, end)) = MessageLayout::of_call(text, start)? else { return Ok(None) };
    let mut rest = SpanReader::new(text, end..text.len());
    let mut at = end;
    while rest.fill_buf()?.first().is_some_and(u8::is_ascii_whitespace) {
        rest.consume(1);
        at += 1;
    }
    let is_closed = text.bytes(at, CLOSING.len())? == CLOSING;
    Ok(is_closed.then_some((call, at)))
}

fn in_line(
    line: &dyn Content,
    string: &LineSpan,
    mut edits: Vec<Replacement>,
) -> io::Result<Vec<Replacement>> {
    edits.sort_by_key(|(span, _)| span.start);
    let places: Vec<u64> = edits.iter().flat_map(|(span, _)| [span.start, span.end]).collect();
    let places = crate::message::layout::places_in_line(line, string, &places)?;
    let moved = |((_, text), place): (Replacement, &[u64])| (place[0]..place[1], escaped(text));
    Ok(edits.into_iter().zip(places.chunks_exact(2)).map(moved).collect())
}

fn escaped(text: String) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Turns the error for a line that is not a message into `None`. An object of a call that causes
/// this error is left unchanged.
fn none_if_refused<T>(result: Result<T, MessageError>) -> Result<Option<T>, MessageError> {
    match result {
        Err(MessageError::NotAMessage(_)) => Ok(None),
        other => other.map(Some),
    }
}

pub(super) fn contains(mut reader: impl Read, word: &[u8]) -> io::Result<bool> {
    let finder = memmem::Finder::new(word);
    let (mut block, mut kept) = (vec![0; BLOCK + word.len()], 0);
    loop {
        let count = reader.read(&mut block[kept..])?;
        let end = kept + count;
        if count == 0 || finder.find(&block[..end]).is_some() {
            return Ok(count > 0);
        }
        kept = end.min(word.len() - 1);
        block.copy_within(end - kept..end, 0);
    }
}

struct TextFinder<'a> {
    text: &'a dyn Content,
    finder: memmem::Finder<'static>,
    block: Vec<u8>,
    start: u64,
}

impl<'a> TextFinder<'a> {
    fn new(text: &'a dyn Content, word: &[u8]) -> Self {
        let finder = memmem::Finder::new(word).into_owned();
        Self { text, finder, block: Vec::new(), start: 0 }
    }

    /// Returns the offset of the first occurrence of the searched word at or after `from`. `from`
    /// must not decrease from one call to the next.
    fn find(&mut self, mut from: u64) -> io::Result<Option<u64>> {
        let overlap = self.finder.needle().len() as u64 - 1;
        loop {
            let skipped = usize::try_from(from - self.start).unwrap_or(usize::MAX);
            let rest = self.block.get(skipped..).unwrap_or_default();
            if let Some(at) = self.finder.find(rest) {
                return Ok(Some(from + at as u64));
            }
            let end = self.start + self.block.len() as u64;
            if end >= self.text.len() && end > 0 {
                return Ok(None);
            }
            from = from.max(end.saturating_sub(overlap));
            self.start = from;
            self.block = self.text.bytes(from, BLOCK)?;
            if self.block.is_empty() {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::LogLine;

    #[test]
    fn words_are_found_across_blocks() {
        let word = b"<word>";
        for before in [0, 1, BLOCK - 6, BLOCK - 5, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK - 2] {
            let text = [&b"<".repeat(before)[..], word, &b"x".repeat(BLOCK), word, b"y"].concat();
            assert!(contains(&text[..], word).unwrap());
            assert!(!contains(&text[..before + 5], word).unwrap());
            let line = LogLine::Bytes(text);
            let mut finder = TextFinder::new(&line, word);
            let second = (before + 6 + BLOCK) as u64;
            assert_eq!(finder.find(0).unwrap(), Some(before as u64));
            assert_eq!(finder.find(before as u64).unwrap(), Some(before as u64));
            assert_eq!(finder.find(before as u64 + 1).unwrap(), Some(second));
            assert_eq!(finder.find(second + 6).unwrap(), None);
        }
        assert_eq!(TextFinder::new(&LogLine::Bytes(Vec::new()), word).find(0).unwrap(), None);
    }
}
