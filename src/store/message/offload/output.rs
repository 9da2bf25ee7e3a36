//! An output in a message: its length, and its artifact.

use std::ffi::OsStr;
use std::io;
use std::io::Read;
use std::os::unix::ffi::OsStrExt as _;

use crate::message::json_string::JsonStringReader;
use crate::message::offload::comparing::ComparingWriter;
use crate::message::span::{Span, SpanReader};
use crate::message::{AppendContext, BLOCK, LongOutput, MessageError};
use crate::{Dir, FileType, OutputLock, call_stem};
use ctxfs_core::materialize::Analyzer;
use ctxfs_core::model::{Component, Content, Folder, Limits, Provenance, RelPath, is_scratch};

/// The most bytes of an output that may be a stand-in for a stored one.
const STAND_IN: u64 = 1 << 20;

/// The output in a message.
pub(super) struct MessageOutput<'a> {
    line: &'a dyn Content,
    /// The span of the JSON value, without blanks before it.
    pub(super) span: Span,
    /// The first byte of the value, which tells its type.
    pub(super) first: u8,
}

impl<'a> MessageOutput<'a> {
    /// Finds the value in `span`, which may begin with blanks.
    pub(super) fn of(line: &'a dyn Content, span: &Span) -> io::Result<Self> {
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
    pub(super) fn length_over(&self, limit: u64) -> io::Result<Option<u64>> {
        // JSON is never shorter than the text in it, and other types of values are short.
        if self.span.end - self.span.start <= limit || !b"\"[{".contains(&self.first) {
            return Ok(None);
        }
        let length = io::copy(&mut self.reader()?, &mut io::sink())?;
        Ok(Some(length).filter(|length| *length > limit))
    }

    /// Returns true if it stands for a stored output.
    pub(super) fn is_stand_in(
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
    pub(super) fn digest(&self) -> io::Result<String> {
        let mut analyzer = Analyzer::new();
        let mut reader = self.reader()?;
        let mut block = vec![0; BLOCK];
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
    pub(super) fn keep(
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
