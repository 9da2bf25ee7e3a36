//! Long outputs in messages: kept as artifacts, with their beginning left in the log.

mod same;

use std::ffi::OsStr;
use std::io;
use std::io::Read;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::FlockOperation;

use crate::materialize::Analyzer;
use crate::message::Desk;
use crate::message::MessageError;
use crate::message::Preview;
use crate::message::line::Anatomy;
use crate::message::line::Member;
use crate::message::offload::same::Same;
use crate::message::span::Span;
use crate::message::span::SpanReader;
use crate::message::text::Text;
use crate::model::Component;
use crate::model::Content;
use crate::model::Folder;
use crate::model::Limits;
use crate::model::RelPath;
use crate::model::Provenance;
use crate::model::ArtifactState;
use crate::model::is_scratch;
use crate::store::ArtifactWriter;
use crate::store::Dir;
use crate::store::Kind;
use crate::store::call_stem;

/// Bytes of the largest output that can be a stand-in of another one.
const STAND_IN: u64 = 1 << 20;

/// What changes in a message whose output is an artifact.
pub(super) struct Offload {
    content: Span,
    is_list: bool,
    path: Option<Span>,
    preview: Preview,
}

/// The output in a message.
struct Output<'a> {
    line: &'a dyn Content,
    /// A string, a list or an object.
    span: Span,
    first: u8,
}

impl Offload {
    /// Keeps the output of a tool's message, if it is too long for the log; none where the message
    /// stays as it is.
    pub(super) fn of(
        line: &dyn Content,
        anatomy: &Anatomy,
        desk: &Desk<'_>,
    ) -> Result<Option<Self>, MessageError> {
        if anatomy.short(line, Member::Role)?.as_deref() != Some("tool") {
            return Ok(None);
        }
        let Some(output) = anatomy.span(Member::Content).map(|span| Output::of(line, span)) else {
            return Ok(None);
        };
        let output = output?;
        let tool = anatomy.short(line, Member::ToolName)?;
        let limits = desk.host.limits(tool.as_deref());
        let length = output.length_over(limits.message_threshold)?;
        let refers = anatomy.short(line, Member::FullOutputPath)?;
        let (Some(length), false) = (length, refers.is_some_and(|path| desk.host.is_stored(&path)))
        else {
            return Ok(None);
        };
        if output.is_stand_in(length, &limits, desk)? {
            return Ok(None);
        }
        let call = match anatomy.short(line, Member::ToolCallId)? {
            Some(call) => call,
            None => match anatomy.short(line, Member::Id)? {
                Some(id) => id,
                None => output.digest()?,
            },
        };
        let path = output.keep(&call, tool, length, desk)?;
        let preview = desk.host.preview(&path, &limits)?;
        Ok(Some(Self {
            is_list: output.first == b'[',
            content: output.span,
            path: anatomy.span(Member::FullOutputPath).cloned(),
            preview,
        }))
    }

    /// What stands in place of what in the line.
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

impl<'a> Output<'a> {
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

    /// The text of a string; of anything else, its JSON.
    fn reader(&self) -> io::Result<Box<dyn Read + 'a>> {
        let span = SpanReader::new(self.line, self.span.clone());
        Ok(if self.first == b'"' { Box::new(Text::new(span)?) } else { Box::new(span) })
    }

    /// Its bytes, if they are more than `limit`.
    fn length_over(&self, limit: u64) -> io::Result<Option<u64>> {
        // What JSON escapes is longer, and what is no string, list or object is short.
        if self.span.end - self.span.start <= limit || !b"\"[{".contains(&self.first) {
            return Ok(None);
        }
        let length = io::copy(&mut self.reader()?, &mut io::sink())?;
        Ok(Some(length).filter(|length| *length > limit))
    }

    fn is_stand_in(&self, length: u64, limits: &Limits, desk: &Desk<'_>) -> io::Result<bool> {
        if length > STAND_IN {
            return Ok(false);
        }
        let mut bytes = Vec::with_capacity(length as usize);
        self.reader()?.read_to_end(&mut bytes)?;
        desk.host.is_stand_in(&bytes, limits)
    }

    /// What names an output without a call: the same for the same bytes.
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

    /// The artifact of the call that has exactly these bytes, made where there is none.
    ///
    /// An artifact is never replaced: the call may have left more than what its message shows, and
    /// an earlier message may refer to it. What differs is kept beside it, as `<call>-2` and so on.
    fn keep(
        &self,
        call: &str,
        tool: Option<String>,
        length: u64,
        desk: &Desk<'_>,
    ) -> Result<RelPath, MessageError> {
        let dir = desk.conversation.folder(Folder::Tool)?;
        // Of two messages of one call, the second is to find what the first has left.
        rustix::io::retry_on_intr(|| rustix::fs::flock(&dir, FlockOperation::LockExclusive))
            .map_err(io::Error::from)?;
        for number in 1.. {
            let name = if number == 1 { call.to_owned() } else { format!("{call}-{number}") };
            let left = left_by(&name, &dir)?;
            for path in &left {
                if self.is_at(path, length, desk)? {
                    return Ok(path.clone());
                }
            }
            if left.iter().all(|path| may_go(path, desk)) {
                desk.host.room(length)?;
                return self.store(&name, call, tool, desk);
            }
        }
        Err(io::Error::from(io::ErrorKind::AlreadyExists).into())
    }

    /// Whether the file at `path` has the bytes that it would have if this were stored there.
    fn is_at(&self, path: &RelPath, length: u64, desk: &Desk<'_>) -> io::Result<bool> {
        let Some(mut same) = Same::with(desk.conversation, path, length)? else { return Ok(false) };
        match desk.host.store(&mut self.reader()?, &mut same) {
            Ok(()) => Ok(true),
            Err(_) if same.differs() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn store(
        &self,
        name: &str,
        call: &str,
        tool: Option<String>,
        desk: &Desk<'_>,
    ) -> Result<RelPath, MessageError> {
        let provenance = Provenance { call: Some(call.to_owned()), tool, ..Provenance::default() };
        let folder = Folder::Tool;
        let mut writer = ArtifactWriter::create_for_call(desk.conversation, folder, name, provenance)?;
        desk.host.store(&mut self.reader()?, &mut writer)?;
        writer.flush()?;
        let record = writer.seal()?;
        desk.host.stored(&record);
        Ok(RelPath::from_text(&record.path).map_err(io::Error::other)?)
    }
}

/// The files that are named after a call, whatever their extension.
fn left_by(call: &str, dir: &Dir) -> io::Result<Vec<RelPath>> {
    let stem = call_stem(call);
    let stem = stem.as_os_str().as_bytes();
    let is_named = |name: &OsStr| {
        let rest = name.as_bytes().strip_prefix(stem);
        rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'.' && !rest[1..].contains(&b'.'))
    };
    let found = dir.entries()?.into_iter().filter(|entry| {
        entry.kind == Kind::File && !is_scratch(&entry.name) && is_named(&entry.name)
    });
    let path = |name| Component::new(name).ok().map(|name| RelPath::artifact(Folder::Tool, &name));
    Ok(found.filter_map(|entry| path(entry.name)).collect())
}

/// Whether nothing is lost with the file: it is what a process left that ended while it wrote, or
/// before it did.
fn may_go(path: &RelPath, desk: &Desk<'_>) -> bool {
    let conversation = desk.conversation;
    let recovered = conversation.recover(path).ok().flatten();
    let record = recovered.or_else(|| conversation.record(path).ok().flatten());
    let is_empty = || conversation.dir().stat_at(path).is_ok_and(|stat| stat.size == 0);
    record.map_or_else(is_empty, |record| matches!(record.state, ArtifactState::Incomplete(_)))
}
